//! The scanner of logs: what a function lets slip into its log fails the test that started it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold_local::{Code, Options, Outcome, Stack};
use leasehold_proof::{example, fixture::scanned};
use serde_json::{Value, json};

/// A stack in which a function that is not ours has been called with somebody's lease.
async fn stack(form: &str, searched: bool) -> Stack {
    let options = Options {
        observer: scanned().observer.filter(|_| searched),
        ..scanned()
    };
    let stack = Stack::start(options).await.unwrap();
    let mut leaky = stack.functions().function("acquire").unwrap();
    leaky.code = Code::Binary(example("leak"));
    (leaky.logical_id, leaky.verb) = ("LeakFunction".to_owned(), "leak".to_owned());
    stack.functions().register(leaky);
    let request = json!({"key": "k", "holder": "h", "ttl_seconds": 300});
    let lease = call(&stack, "acquire", &request).await["lease"].clone();
    call(&stack, "leak", &json!({"lease": lease, "form": form})).await;
    stack
}

async fn call(stack: &Stack, function: &str, event: &Value) -> Value {
    let invocation = stack.functions().invoke(function, &event.to_string()).await;
    match invocation.unwrap().outcome {
        Outcome::Answer(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_in_log_fails_test() {
    for form in ["as it is", "printed", "in hex"] {
        let leaking = stack(form, true).await;
        let died = catch_unwind(AssertUnwindSafe(|| drop(leaking))).unwrap_err();
        let said = died.downcast_ref::<String>().unwrap();
        assert!(said.contains("LeakFunction, "), "{form}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_logged_fails_nothing() {
    let fine = stack("as it should be", true).await;
    let log = fine.functions().log("leak").unwrap();
    assert!(log.contains("as it should be"), "{log}");
    fine.stop().await;
    // Nobody looks where nobody asked for it.
    drop(stack("printed", false).await);
}
