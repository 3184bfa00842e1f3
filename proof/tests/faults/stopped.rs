//! A function's process that is stopped (SIGSTOP) in the middle of a call, for longer than its lease.

use std::time::Duration;

use leasehold_local::{Fault, Options};
use serde_json::{Value, json};

use crate::functions::{Answer, Functions, quiet};

const KEY: &str = "k";
/// As many as the library makes of one call.
const ATTEMPTS: u32 = 3;
/// Far more than anything here takes: only so that a test ends that waits in vain.
const IN_VAIN: Duration = Duration::from_secs(30);

/// Leases of a second need short margins.
async fn start() -> Functions {
    let mut options: Options = quiet();
    let short = [("LEASE_CLOCK_MARGIN_MS", "100"), ("LEASE_GUARD_MS", "100")];
    let short = short.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    options.environment.insert("*".to_owned(), short.into());
    Functions::with(options).await
}

async fn ask(functions: &Functions, holder: &str) -> Answer {
    let request = json!({"key": KEY, "holder": holder, "request_id": holder, "ttl_seconds": 1, "on_held": "result"});
    functions.call("acquire", request).await
}

/// `call` meets a lost request, and is stopped while it waits for the answer; `meanwhile` it goes
/// nowhere. What it says when it goes on, asked again as a workflow asks what had no answer.
async fn paused(functions: &Functions, call: &str, meanwhile: impl AsyncFn()) -> Answer {
    let first = ask(functions, "a").await.unwrap()["lease"].clone();
    let event = json!({"lease": first});
    // So that there is a process to stop; of a key that has no row.
    let mut nothing = event.clone();
    nothing["lease"]["key"] = json!("nothing");
    let _ = functions.call(call, &nothing).await;

    let proxy = functions.stack.proxy();
    let text = format!("\"{KEY}\"");
    proxy.inject_matching(Fault::Hang, "UpdateItem", &text, ATTEMPTS);
    let host = functions.stack.functions();
    let stop = async {
        while proxy.pending_faults() == u64::from(ATTEMPTS) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(host.freeze(call).unwrap(), 1);
        proxy.reset();
        meanwhile().await;
        assert_eq!(host.thaw(call).unwrap(), 1);
    };
    let both = async { tokio::join!(functions.call(call, &event), stop) };
    let (answer, ()) = tokio::time::timeout(IN_VAIN, both).await.unwrap();
    match answer {
        Err((name, _)) if name == "Lease.Unavailable" => functions.call(call, &event).await,
        answer => answer,
    }
}

/// Somebody else asks until it is granted; its lease.
async fn taken_over(functions: &Functions) -> Value {
    loop {
        let answer = ask(functions, "b").await.unwrap();
        if answer["outcome"] == "acquired" {
            assert_eq!(answer["grant"], "takeover");
            return answer["lease"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn runs_out(functions: &Functions) {
    let state = async || {
        let inspected = functions.call("inspect", json!({"key": KEY})).await;
        inspected.unwrap()["state"].clone()
    };
    while state().await != "expired" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn stands(functions: &Functions, lease: &Value) {
    let inspected = functions
        .call("inspect", json!({"key": KEY}))
        .await
        .unwrap();
    for part in ["fencing_token", "version", "holder"] {
        assert_eq!(inspected["lease"][part], lease[part], "{part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extend_that_was_paused_longer_than_the_lease_is_lost_after_a_takeover() {
    let functions = start().await;
    let other = tokio::sync::OnceCell::new();
    let answer = paused(&functions, "extend", async || {
        other.set(taken_over(&functions).await).unwrap();
    })
    .await;
    assert_eq!(crate::functions::name_of(&answer), "Lease.Lost");
    stands(&functions, other.get().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extend_that_was_paused_longer_than_the_lease_revives_what_nobody_took() {
    let functions = start().await;
    let answer = paused(&functions, "extend", async || runs_out(&functions).await).await;
    let answer = answer.unwrap();
    assert_eq!(answer["outcome"], "revived", "{answer}");
    stands(&functions, &answer["lease"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_was_paused_longer_than_the_lease_leaves_the_others_lease_intact() {
    let functions = start().await;
    let other = tokio::sync::OnceCell::new();
    let answer = paused(&functions, "release", async || {
        other.set(taken_over(&functions).await).unwrap();
    })
    .await;
    assert_eq!(answer.unwrap()["outcome"], "lost");
    stands(&functions, other.get().unwrap()).await;
}
