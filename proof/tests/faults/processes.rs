//! Functions whose processes are stopped (SIGSTOP), die, panic, or run twice with one event.

use std::{collections::BTreeSet, time::Duration};

use leasehold_local::{Code, Fault, LambdaHost, Options, Outcome};
use leasehold_proof::example;
use leasehold_proof::fixture::{Answer, Fixture, TIMEOUT, environment, error_name, quiet};
use serde_json::{Value, json};

const CALLS: [&str; 3] = ["acquire", "extend", "release"];

/// The event of each call, for a lease that was granted unless the event is to grant it.
async fn event(fixture: &Fixture, call: &str, key: &str) -> Value {
    match call {
        "acquire" => json!({"key": key, "holder": "a", "request_id": "1", "ttl_seconds": 300}),
        "extend" => json!({"lease": fixture.acquire(key, "a", "1").await, "ttl_seconds": 400}),
        _ => json!({"lease": fixture.acquire(key, "a", "1").await}),
    }
}

async fn dies(fixture: &Fixture, call: &str, event: &Value) {
    let event = event.to_string();
    let invoked = fixture.stack.functions().invoke(call, &event).await;
    let Outcome::FunctionError(text) = invoked.unwrap().outcome else {
        panic!("{call} lived")
    };
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(error["errorType"], "Runtime.ExitError", "{error}");
}

fn token(value: &Value) -> u64 {
    value["lease"]["fencing_token"].as_u64().unwrap()
}

/// Each call dies once, where `kill` says; then the same event is sent again. Outcome and grant of each answer.
async fn again(
    kill: fn(&LambdaHost, &str, u32) -> Result<(), leasehold_local::Error>,
    is_done: bool,
) -> Vec<Value> {
    let fixture = Fixture::with(quiet()).await;
    let mut answers = Vec::new();
    for call in CALLS {
        let event = event(&fixture, call, call).await;
        let before = fixture.item(call).await;
        kill(fixture.stack.functions(), call, 1).unwrap();
        dies(&fixture, call, &event).await;
        let row = fixture.item(call).await;
        assert_eq!(row != before, is_done, "{call}");
        let answer = fixture.call(call, &event).await.unwrap();
        if let (true, Some(row), true) = (is_done, row, answer["lease"].is_object()) {
            assert_eq!(
                token(&answer).to_string(),
                *row["fencing_token"].as_n().unwrap()
            );
        }
        answers.push(json!([answer["outcome"], answer["grant"]]));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn event_after_kill_finds_outcome() {
    let answers = again(LambdaHost::kill_before_answer, true).await;
    let expected = json!([
        ["acquired", "replayed"],
        ["extended", null],
        ["already_released", null]
    ]);
    assert_eq!(json!(answers), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_before_request_changes_nothing() {
    let answers = again(LambdaHost::kill_after_start, false).await;
    let expected = json!([["acquired", "new"], ["extended", null], ["released", null]]);
    assert_eq!(json!(answers), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeat_resolves_panic_after_write() {
    let fixture = Fixture::with(quiet()).await;
    let host = fixture.stack.functions();
    let mut faulty = host.function("acquire").unwrap();
    faulty.code = Code::Binary(example("panic"));
    (faulty.logical_id, faulty.verb) = ("PanicFunction".to_owned(), "panic".to_owned());
    host.register(faulty);
    let event = event(&fixture, "acquire", "k").await;
    // Twice: the process lives on.
    for _ in 0..2 {
        let (name, message) = fixture.call("panic", &event).await.unwrap_err();
        assert_eq!(name, "Lease.Unavailable");
        let fields: Vec<_> = message.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["key", "message"]);
    }
    let row = fixture.item("k").await.expect("it had been granted");
    let answer = fixture.call("acquire", &event).await.unwrap();
    assert_eq!(answer["grant"], "replayed");
    assert_eq!(
        token(&answer).to_string(),
        *row["fencing_token"].as_n().unwrap()
    );
}

/// Two answers to one event, from two processes if `at_once`.
async fn twice(fixture: &Fixture, function: &str, event: &Value, at_once: bool) -> [Value; 2] {
    let call = || fixture.call(function, event);
    let (first, second) = if at_once {
        tokio::join!(call(), call())
    } else {
        (call().await, call().await)
    };
    [first.unwrap(), second.unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_run_twice_acts_once() {
    let fixture = Fixture::with(quiet()).await;
    for (n, at_once) in [false, true, true, true].into_iter().enumerate() {
        let key = format!("k{n}");
        let answers = twice(
            &fixture,
            "acquire",
            &event(&fixture, "acquire", &key).await,
            at_once,
        )
        .await;
        let [first, second] = answers.each_ref().map(|answer| &answer["lease"]);
        assert_eq!(first, second);
        let grants: BTreeSet<_> = answers
            .iter()
            .map(|a| a["grant"].as_str().unwrap())
            .collect();
        assert_eq!(grants, ["new", "replayed"].into());

        let extend = json!({"lease": first, "ttl_seconds": 400});
        let answers = twice(&fixture, "extend", &extend, at_once).await;
        for answer in &answers {
            assert_eq!(answer["outcome"], "extended");
        }
        // RFC 3339 in UTC with as many digits each time: texts in the order of the instants.
        let later = answers
            .iter()
            .map(|a| a["lease"]["expires_at"].as_str().unwrap())
            .max();
        let inspected = fixture.call("inspect", json!({"key": key})).await.unwrap();
        assert_eq!(
            inspected["lease"]["expires_at"].as_str(),
            later,
            "the later deadline wins"
        );
        assert!(later > first["expires_at"].as_str());

        let answers = twice(&fixture, "release", &json!({"lease": first}), at_once).await;
        let outcomes: BTreeSet<_> = answers
            .iter()
            .map(|a| a["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(outcomes, ["released", "already_released"].into());
    }
}

const KEY: &str = "k";
/// As many as the library makes of one call.
const ATTEMPTS: u32 = 3;
/// Leases of a second need short margins.
async fn start() -> Fixture {
    let short = [("LEASE_CLOCK_MARGIN_MS", "100"), ("LEASE_GUARD_MS", "100")];
    let options = Options {
        environment: environment(short),
        ..quiet()
    };
    Fixture::with(options).await
}

async fn ask(fixture: &Fixture, holder: &str) -> Answer {
    let request = json!({"key": KEY, "holder": holder, "request_id": holder, "ttl_seconds": 1, "if_held": "skip"});
    fixture.call("acquire", request).await
}

/// `call` meets a lost request, and is stopped while it waits for the answer; `meanwhile` it goes
/// nowhere. What it says when it goes on, asked again as a workflow asks what had no answer.
async fn paused(fixture: &Fixture, call: &str, meanwhile: impl AsyncFn()) -> Answer {
    let first = ask(fixture, "a").await.unwrap()["lease"].clone();
    let event = json!({"lease": first});
    // So that there is a process to stop; of a key that has no row.
    let mut nothing = event.clone();
    nothing["lease"]["key"] = json!("nothing");
    let _ = fixture.call(call, &nothing).await;

    let proxy = fixture.stack.proxy();
    let text = format!("\"{KEY}\"");
    proxy.inject_matching(Fault::Hang, "UpdateItem", &text, ATTEMPTS);
    let host = fixture.stack.functions();
    let stop = async {
        while proxy.pending_faults() == u64::from(ATTEMPTS) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(host.freeze(call).unwrap(), 1);
        proxy.reset();
        meanwhile().await;
        assert_eq!(host.thaw(call).unwrap(), 1);
    };
    let both = async { tokio::join!(fixture.call(call, &event), stop) };
    let (answer, ()) = tokio::time::timeout(TIMEOUT, both).await.unwrap();
    match answer {
        Err((name, _)) if name == "Lease.Unavailable" => fixture.call(call, &event).await,
        answer => answer,
    }
}

/// Somebody else asks until it is granted; its lease.
async fn taken_over(fixture: &Fixture) -> Value {
    loop {
        let answer = ask(fixture, "b").await.unwrap();
        if answer["outcome"] == "acquired" {
            assert_eq!(answer["grant"], "takeover");
            return answer["lease"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn runs_out(fixture: &Fixture) {
    let state = async || {
        let inspected = fixture.call("inspect", json!({"key": KEY})).await;
        inspected.unwrap()["state"].clone()
    };
    while state().await != "expired" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn is_held_by(fixture: &Fixture, lease: &Value) {
    let inspected = fixture.call("inspect", json!({"key": KEY})).await.unwrap();
    for part in ["fencing_token", "version", "holder"] {
        assert_eq!(inspected["lease"][part], lease[part], "{part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_extend_after_takeover_is_lost() {
    let fixture = start().await;
    let other = tokio::sync::OnceCell::new();
    let answer = paused(&fixture, "extend", async || {
        other.set(taken_over(&fixture).await).unwrap();
    })
    .await;
    assert_eq!(error_name(&answer), "Lease.Lost");
    is_held_by(&fixture, other.get().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_extend_revives_untaken_lease() {
    let fixture = start().await;
    let answer = paused(&fixture, "extend", async || runs_out(&fixture).await).await;
    let answer = answer.unwrap();
    assert_eq!(answer["outcome"], "revived", "{answer}");
    is_held_by(&fixture, &answer["lease"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_release_leaves_next_lease_intact() {
    let fixture = start().await;
    let other = tokio::sync::OnceCell::new();
    let answer = paused(&fixture, "release", async || {
        other.set(taken_over(&fixture).await).unwrap();
    })
    .await;
    assert_eq!(answer.unwrap()["outcome"], "lost");
    is_held_by(&fixture, other.get().unwrap()).await;
}
