//! `leasehold history` reads what the functions log: who had a key, for how long, and how each grant ended.

use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;
use leasehold_proof::fixture::{Fixture, scanned};
use leasehold_proof::program;
use serde_json::{Value, json};
use tokio::process::Command;

const WAITS: &str = "arn:aws:states:us-east-1:123456789012:execution:leasehold_leasing_one:b";

async fn history(fixture: &Fixture, key: &str) -> Vec<Value> {
    let logs = fixture.stack.run_directory().join("logs");
    let output = Command::new(program("leasehold"))
        .args(["history", key, "--json", "--since", "1h"])
        .env_clear()
        .env("LEASEHOLD_LOGS", logs)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["grants"].as_array().unwrap().clone()
}

#[tokio::test]
async fn functions_logs_tell_a_keys_history() {
    let mut options = scanned();
    let server = FakeStepFunctionsServer::start(&mut options).await.unwrap();
    let fixture = Fixture::with(options).await;
    let call = async |function: &str, request: Value| {
        let answer = fixture.call(function, request).await;
        answer.unwrap_or_else(|error| panic!("{function}: {error:?}"))
    };
    // The first releases, and the one that waits is told; an operator ends its lease; then one of several keys.
    let first = fixture.acquire("k", "a", "1").await;
    let told = server.wait(WAITS, "token of b");
    let waits = json!({"key": "k", "holder": WAITS, "request_id": "1", "task_token": "token of b", "wait_seconds": 600});
    call("acquire", waits).await;
    call("release", json!({"lease": first})).await;
    told.await.unwrap();
    let because =
        json!({"operation": "force_release", "key": "k", "who": "alice", "why": "it hangs"});
    call("operate", because).await;
    let several = json!({"keys": ["j", "k"], "holder": "c", "request_id": "1", "ttl_seconds": 300});
    let several = call("acquire", several).await;
    call("release", json!({"leases": several["leases"]})).await;

    let grants = history(&fixture, "k").await;
    let short: Vec<_> = grants
        .iter()
        .map(|grant| {
            (
                &grant["holder"],
                &grant["ended"],
                &grant["by"],
                &grant["why"],
            )
        })
        .map(|(holder, ended, by, why)| json!([holder, ended, by, why]))
        .collect();
    let expected = [
        json!(["c", "released", null, null]),
        json!([WAITS, "forced", "alice", "it hangs"]),
        json!(["a", "released", null, null]),
    ];
    assert_eq!(short, expected, "{grants:#?}");
    for grant in &grants {
        assert!(
            grant["held_ms"].is_u64() && grant["fencing_token"].is_u64(),
            "{grant}"
        );
    }
    assert!(grants[1]["waited_ms"].is_u64(), "{grants:#?}");
    assert_eq!(grants[2]["fencing_token"], first["fencing_token"]);
    assert_eq!(grants[2]["granted_at"], first["acquired_at"]);
}
