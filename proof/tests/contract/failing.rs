//! What is answered when something else than the request is wrong.

use leasehold_local::{FakeStepFunctionsServer, Fault, Options};
use serde_json::{Value, json};

use crate::{
    desk::One,
    functions::{Functions, event, fields},
    queueing::with_desk,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_the_table_does_has_a_name() {
    let functions = Functions::start().await;
    let request = json!({"key": "k", "holder": "a", "request_id": "1", "ttl_seconds": 300});
    let cases = [
        (Fault::Throttle, "Lease.Throttled"),
        (Fault::Conflict, "Lease.Throttled"),
        (Fault::Denied, "Lease.Denied"),
        (Fault::ServerError, "Lease.Unavailable"),
        (Fault::LoseAnswer, "Lease.Unavailable"),
        (Fault::Hang, "Lease.Unavailable"),
    ];
    for (fault, expected) in cases {
        functions.stack.proxy().reset();
        // A conflict is asked through for as long as a request may take.
        functions.stack.proxy().inject(fault, "UpdateItem", 1000);
        let (name, message) = functions.call("acquire", &request).await.unwrap_err();
        assert_eq!(name, expected, "{fault:?}: {message}");
        assert_eq!(fields(&message), ["message", "key"].into(), "{fault:?}");
        let text = message["message"].as_str().unwrap();
        assert!(text.contains("dynamodb:UpdateItem on table"), "{text}");
    }
    // Whatever came of those, the same request resolves it.
    functions.stack.proxy().reset();
    let answer = functions.call("acquire", &request).await.unwrap();
    assert_eq!(answer["outcome"], "acquired");
}

/// By the functions' own client; `faults` has the SDK's.
#[tokio::test(flavor = "multi_thread")]
async fn a_function_asks_once_more_when_a_connection_fails() {
    let functions = Functions::start().await;
    let proxy = functions.stack.proxy();
    let lost = Fault::LOST_ANSWERS.map(|fault| (fault, "replayed"));
    let unsent = [Fault::LoseRequest, Fault::ServerError, Fault::Hang].map(|fault| (fault, "new"));
    for (n, (fault, grant)) in lost.into_iter().chain(unsent).enumerate() {
        let request =
            json!({"key": format!("k{n}"), "holder": "a", "request_id": "1", "ttl_seconds": 300});
        proxy.reset();
        proxy.inject(fault, "UpdateItem", 1);
        let answer = functions.call("acquire", &request).await.unwrap();
        assert_eq!(answer["grant"], grant, "{fault:?}");
        assert_eq!(proxy.counts().of("UpdateItem"), 2, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_has_a_name() {
    let functions = Functions::start().await;
    let mut faulty = functions.stack.functions().function("acquire").unwrap();
    faulty.binary = faulty.binary.with_file_name("examples").join("panic");
    (faulty.logical_id, faulty.verb) = ("PanicFunction".to_owned(), "panic".to_owned());
    functions.stack.functions().register(faulty);
    for _ in 0..2 {
        let (name, message) = functions
            .call("panic", json!({"key": "k"}))
            .await
            .unwrap_err();
        assert_eq!(name, "Lease.Unavailable");
        assert_eq!(fields(&message), ["message", "key"].into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_environment_is_named_by_every_answer() {
    let cases = [
        ("LEASE_TABLE", None),
        ("LEASE_CLOCK_MARGIN_MS", Some("soon")),
        ("LEASE_GUARD_MS", Some("-1")),
        ("LEASE_RETENTION_DAYS", Some("")),
        ("LEASE_CLAIM_SECONDS", Some("1.5")),
        ("LEASE_QUEUE_CAP", Some("1001")),
        ("LEASE_REAP_GRACE_SECONDS", Some("a while")),
        ("AWS_REGION", Some("")),
        ("AWS_ENDPOINT_URL_DYNAMODB", Some("not a url")),
        ("AWS_ENDPOINT_URL_DYNAMODB", Some("")),
        ("AWS_ENDPOINT_URL_SFN", Some("not a url")),
    ];
    for (variable, value) in cases {
        let mut options = Options::default();
        let change = [(variable.to_owned(), value.map(str::to_owned))].into();
        options.environment.insert("*".to_owned(), change);
        let functions = Functions::with(options).await;
        for name in [
            "acquire",
            "extend",
            "release",
            "sweep",
            "inspect",
            "grant",
            "reap-succeeded",
        ] {
            for _ in 0..2 {
                let answer = functions.event(name).await;
                let (error, message) = answer.expect_err(variable);
                assert_eq!(error, "Lease.Misconfigured", "{variable}");
                let text = message["message"].as_str().unwrap();
                assert!(text.contains(variable), "{variable}: {text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_missing_is_misconfigured_and_one_of_others_is_denied() {
    let change = [("LEASE_TABLE".to_owned(), Some("elsewhere".to_owned()))].into();
    let mut options = Options::default();
    options.environment.insert("*".to_owned(), change);
    let elsewhere = Functions::with(options).await;
    let gone = Functions::start().await;
    let delete = gone.stack.dynamodb().delete_table();
    delete.table_name(gone.table()).send().await.unwrap();
    for name in ["acquire", "extend", "release", "sweep", "inspect"] {
        for (functions, error, table) in [
            // By its role's right on this table only, before anybody looks whether the other one exists.
            (&elsewhere, "Lease.Denied", "elsewhere"),
            (&gone, "Lease.Misconfigured", gone.table()),
        ] {
            let (told, message) = functions.event(name).await.unwrap_err();
            assert_eq!(told, error, "{name}: {message}");
            assert!(
                message["message"].as_str().unwrap().contains(table),
                "{message}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_reaches_the_logs() {
    let levels = [("AWS_LAMBDA_LOG_LEVEL", "TRACE"), ("RUST_LOG", "trace")];
    let (functions, desk) = with_desk(&levels).await;
    let lease = functions.acquire("k", "a", "1").await;
    functions
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    functions
        .call("inspect", json!({"key": "k"}))
        .await
        .unwrap();
    functions
        .stack
        .proxy()
        .inject(Fault::HalfAnswer, "UpdateItem", 3);
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap_err();
    functions
        .call("release", json!({"lease": lease, "strict": 1}))
        .await
        .unwrap_err();
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    // A permit and a set, by way of answers that broke off.
    let mut secrets = vec![lease["lease_id"].clone()];
    let proxy = functions.stack.proxy();
    for (operation, what) in [
        ("TransactWriteItems", json!({"keys": ["x", "y"]})),
        ("TransactGetItems", json!({"keys": ["x", "y"]})),
        ("Query", json!({"key": "s", "permits": 5})),
    ] {
        let mut request = json!({"holder": "a", "request_id": operation, "ttl_seconds": 300});
        request
            .as_object_mut()
            .unwrap()
            .extend(what.as_object().unwrap().clone());
        proxy.inject(Fault::HalfAnswer, operation, 3);
        functions.call("acquire", &request).await.unwrap_err();
        let answer = functions.call("acquire", &request).await.unwrap();
        let set = answer["leases"].as_array().cloned();
        let set = set.unwrap_or_else(|| vec![answer["lease"].clone()]);
        secrets.extend(set.iter().map(|lease| lease["lease_id"].clone()));
        let set = json!({"leases": set});
        functions.call("extend", &set).await.unwrap();
        // Every attempt of every one of them.
        let attempts = 3 * u32::try_from(set["leases"].as_array().unwrap().len()).unwrap();
        proxy.inject(Fault::HalfAnswer, "UpdateItem", attempts);
        functions.call("release", &set).await.unwrap_err();
        functions.call("release", &set).await.unwrap();
        functions.call("extend", &set).await.unwrap_err();
    }
    secrets.extend(wait_in_line(&functions, &desk).await);
    let forced = functions.acquire("k", "a", "2").await;
    secrets.push(forced["lease_id"].clone());
    let operation = json!({"operation": "force_release", "key": "k", "who": "w", "why": "y"});
    functions.call("operate", operation).await.unwrap();
    for name in ["acquire", "extend", "release", "sweep", "grant", "reap"] {
        let log = functions.log(name);
        assert!(!log.is_empty(), "{name}");
        for secret in &secrets {
            assert!(!log.contains(secret.as_str().unwrap()), "{name}: {log}");
        }
    }
    for name in ["acquire", "extend", "release", "inspect", "operate"] {
        let log = functions.log(name);
        for about in [r#""key":"k""#, r#""key":"x, y""#] {
            let expected = about.ends_with("\"k\"") || !["inspect", "operate"].contains(&name);
            assert!(
                !expected || log.contains(about),
                "{name} says what it was about: {log}"
            );
        }
        for secret in &secrets {
            assert!(!log.contains(secret.as_str().unwrap()), "{name}: {log}");
        }
    }
}

/// Everything that can go wrong in a line: the tokens of those who waited, and the proofs of what
/// they were promised.
async fn wait_in_line(functions: &Functions, desk: &FakeStepFunctionsServer) -> Vec<Value> {
    let proxy = functions.stack.proxy();
    let token = |who: &str| format!("token of {who} {}", "x".repeat(40));
    let wait = |key: &str, who: &str, seconds: u32| {
        json!({
            "key": key, "holder": who, "request_id": "1", "ttl_seconds": 300,
            "task_token": token(who), "wait_seconds": seconds,
        })
    };
    let mut secrets: Vec<_> = ["a", "b", "c", "d", "e"]
        .map(|who| json!(token(who)))
        .into();
    let mut lease = functions.acquire("line", "holder", "1").await;
    for who in ["a", "b", "c", "d"] {
        proxy.inject(Fault::HalfAnswer, "TransactWriteItems", 3);
        functions
            .call("acquire", wait("line", who, 60))
            .await
            .unwrap_err();
        functions
            .call("acquire", wait("line", who, 60))
            .await
            .unwrap();
    }
    desk.expire_token(&token("a"));
    proxy.inject(Fault::HalfAnswer, "UpdateItem", 1);
    // Told, and told again; confirmed, and released with the desk out of order.
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let told: Value = serde_json::from_str(desk.one().output()).unwrap();
    lease = told["lease"].clone();
    secrets.push(lease["lease_id"].clone());
    functions
        .call("acquire", wait("line", "b", 60))
        .await
        .unwrap();
    proxy.inject(Fault::HalfAnswer, "UpdateItem", 3);
    functions
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap_err();
    functions
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    desk.calls();
    for error in ["AccessDeniedException", "InternalFailure"] {
        desk.fail_with(Some(error));
        functions
            .call("release", json!({"lease": lease}))
            .await
            .unwrap();
        functions
            .call("acquire", wait("line", "e", 0))
            .await
            .unwrap();
        functions.event("sweep").await.unwrap();
    }
    let row = functions.item("line").await.unwrap();
    secrets.push(json!(row["claim_id"].as_s().unwrap()));
    functions
        .call("grant", crate::triggered::record("1", "line"))
        .await
        .unwrap_err();
    let records = json!({"Records": [crate::triggered::record("1", "line")]});
    functions.call("grant", records).await.unwrap();
    let mut ended = event("reap-succeeded");
    ended["detail"]["executionArn"] = json!("c");
    let _ = functions.call("reap", &ended).await;
    desk.fail_with(None);
    functions.call("reap", &ended).await.unwrap();
    functions.event("sweep").await.unwrap();
    secrets
}
