//! Functions that die: before the request, between the request and the answer, by a bug of their own.

use leasehold_local::Outcome;
use serde_json::{Value, json};

use crate::functions::{Functions, quiet};

const CALLS: [&str; 3] = ["acquire", "extend", "release"];

/// The event of each call, for a lease that was granted unless the event is to grant it.
async fn event(functions: &Functions, call: &str, key: &str) -> Value {
    match call {
        "acquire" => json!({"key": key, "holder": "a", "request_id": "1", "ttl_seconds": 300}),
        "extend" => json!({"lease": functions.acquire(key, "a", "1").await, "ttl_seconds": 400}),
        _ => json!({"lease": functions.acquire(key, "a", "1").await}),
    }
}

async fn dies(functions: &Functions, call: &str, event: &Value) {
    let event = event.to_string();
    let invoked = functions.stack.functions().invoke(call, &event).await;
    let Outcome::FunctionError(text) = invoked.unwrap().outcome else {
        panic!("{call} lived")
    };
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(error["errorType"], "Runtime.ExitError", "{error}");
}

fn token(value: &Value) -> u64 {
    value["lease"]["fencing_token"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_request_and_answer_the_same_event_finds_out() {
    let functions = Functions::with(quiet()).await;
    for call in CALLS {
        let key = format!("answered/{call}");
        let event = event(&functions, call, &key).await;
        functions
            .stack
            .functions()
            .kill_before_answer(call, 1)
            .unwrap();
        dies(&functions, call, &event).await;
        let row = functions.item(&key).await.unwrap();
        let answer = functions.call(call, &event).await.unwrap();
        let told = (&answer["outcome"], &answer["grant"]);
        match call {
            "acquire" => {
                assert_eq!(told, (&json!("acquired"), &json!("replayed")));
                let stands: u64 = row["fencing_token"].as_n().unwrap().parse().unwrap();
                assert_eq!(token(&answer), stands);
            }
            "extend" => {
                assert_eq!(told, (&json!("extended"), &Value::Null));
                assert_eq!(token(&answer), token(&event));
            }
            _ => assert_eq!(told, (&json!("already_released"), &Value::Null)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_request_nothing_has_happened() {
    let functions = Functions::with(quiet()).await;
    for call in CALLS {
        let key = format!("unasked/{call}");
        let event = event(&functions, call, &key).await;
        let row = functions.item(&key).await;
        functions
            .stack
            .functions()
            .kill_after_start(call, 1)
            .unwrap();
        dies(&functions, call, &event).await;
        assert_eq!(functions.item(&key).await, row);
        let answer = functions.call(call, &event).await.unwrap();
        let expected = match call {
            "acquire" => (json!("acquired"), json!("new")),
            "extend" => (json!("extended"), Value::Null),
            _ => (json!("released"), Value::Null),
        };
        assert_eq!(
            (&answer["outcome"], &answer["grant"]),
            (&expected.0, &expected.1)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_after_the_write_is_unavailable_and_the_same_request_resolves_it() {
    let functions = Functions::with(quiet()).await;
    let host = functions.stack.functions();
    let mut faulty = host.function("acquire").unwrap();
    faulty.binary = faulty.binary.with_file_name("examples").join("panic");
    (faulty.logical_id, faulty.verb) = ("PanicFunction".to_owned(), "panic".to_owned());
    host.register(faulty);
    let event = event(&functions, "acquire", "k").await;
    let (name, _) = functions.call("panic", &event).await.unwrap_err();
    assert_eq!(name, "Lease.Unavailable");
    let row = functions.item("k").await.expect("it had been granted");
    let answer = functions.call("acquire", &event).await.unwrap();
    assert_eq!(answer["grant"], "replayed");
    assert_eq!(
        token(&answer).to_string(),
        *row["fencing_token"].as_n().unwrap()
    );
}
