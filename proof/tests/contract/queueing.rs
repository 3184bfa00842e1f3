//! What is answered to those who wait in line, and what their task tokens are told.

use leasehold_local::{FakeStepFunctionsServer, Outcome};
use serde_json::{Value, json};

use crate::{
    desk::One,
    functions::{Functions, HANDLE, event, fields, quiet, s},
};

impl Functions {
    /// The answer as it was written.
    async fn text(&self, function: &str, payload: &Value) -> String {
        let functions = self.stack.functions();
        let invocation = functions.invoke(function, &payload.to_string()).await;
        match invocation.unwrap().outcome {
            Outcome::Answer(text) => text,
            other => panic!("{other:?}"),
        }
    }
}

pub async fn with_desk(variables: &[(&str, &str)]) -> (Functions, FakeStepFunctionsServer) {
    let mut options = quiet();
    let desk = FakeStepFunctionsServer::start(&mut options).await.unwrap();
    let everywhere = options.environment.entry("*".to_owned()).or_default();
    let variables = variables.iter();
    everywhere
        .extend(variables.map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))));
    (Functions::with(options).await, desk)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_free_is_told_to_the_token_exactly_as_acquire_answers() {
    let (functions, desk) = with_desk(&[]).await;
    let sample = event("acquire-in-line");
    let answer = functions.text("acquire", &sample).await;
    assert_eq!(answer, r#"{"outcome":"acquired"}"#);
    let told = desk.one();
    assert_eq!(fields(&told.body), ["taskToken", "output"].into());
    assert_eq!(told.body["taskToken"], sample["task_token"]);
    let mut plain = sample.clone();
    for field in ["task_token", "wait_seconds"] {
        plain.as_object_mut().unwrap().remove(field);
    }
    let answer = functions.text("acquire", &plain).await;
    let (new, replayed) = (r#""grant":"new""#, r#""grant":"replayed""#);
    // Functions answer with their fields in alphabetical order.
    let in_order = |text: &str| serde_json::from_str::<Value>(text).unwrap().to_string();
    assert_eq!(in_order(told.output()), answer.replace(replayed, new));
    assert!(told.output().contains(new), "{}", told.output());
    // Once more, and the token gets the same lease.
    let again = functions.event("acquire-in-line").await.unwrap();
    assert_eq!(again, json!({"outcome": "acquired"}));
    assert_eq!(in_order(desk.one().output()), answer);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_told_when_the_lease_is_released() {
    let (functions, desk) = with_desk(&[]).await;
    functions.stand("release-to-next").await;
    let mut tickets = Vec::new();
    for _ in 0..2 {
        let answer = functions.event("acquire-queued").await.unwrap();
        assert_eq!(fields(&answer), ["outcome", "ticket"].into());
        assert_eq!(answer["outcome"], "queued");
        tickets.push(answer["ticket"].as_u64().unwrap());
    }
    assert_eq!(tickets[0], tickets[1], "the same place");
    assert!(desk.calls().is_empty());
    let inspected = functions.call("inspect", json!({"key": "orders/91"})).await;
    assert_eq!(inspected.unwrap()["waiting"], 1);
    let request = json!({"key": "orders/91", "holder": "x", "ttl_seconds": 5});
    let (name, message) = functions.call("acquire", &request).await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["waiting"]),
        ("Lease.Held", &json!(1))
    );

    let released = functions.event("release-to-next").await.unwrap();
    assert_eq!(released, json!({"outcome": "released", "expired": false}));
    let told = desk.one();
    let sample = event("acquire-queued");
    assert_eq!(fields(&told.body), ["taskToken", "output"].into());
    assert_eq!(told.body["taskToken"], sample["task_token"]);
    let granted: Value = serde_json::from_str(told.output()).unwrap();
    assert_eq!(
        fields(&granted),
        ["outcome", "lease", "grant", "previous"].into()
    );
    assert_eq!(fields(&granted["lease"]), HANDLE.into());
    assert_eq!(
        (&granted["outcome"], &granted["grant"]),
        (&json!("acquired"), &json!("new"))
    );
    let before = &event("release-to-next")["lease"];
    let previous = json!({
        "holder": before["holder"],
        "fencing_token": before["fencing_token"],
        "ended": "released",
    });
    assert_eq!(granted["previous"], previous);
    let lease = &granted["lease"];
    for same in ["key", "holder", "ttl_seconds"] {
        assert_eq!(lease[same], sample[same], "{same}");
    }

    // Until it is confirmed its holder is whoever was told.
    let held = functions.call("acquire", &request).await.unwrap_err().1;
    assert_eq!(
        (&held["holder"], &held["waiting"]),
        (&sample["holder"], &json!(0))
    );
    let inspected = functions.call("inspect", json!({"key": "orders/91"})).await;
    let inspected = inspected.unwrap();
    assert_eq!(
        (&inspected["state"], &inspected["lease"]["holder"]),
        (&json!("held"), &sample["holder"])
    );
    let secret = lease["lease_id"].as_str().unwrap();
    assert!(!format!("{held}{inspected}").contains(secret));
    let token = sample["task_token"].as_str().unwrap();
    assert!(!format!("{held}{inspected}").contains(token));

    let confirmed = functions
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    assert_eq!(fields(&confirmed), ["outcome", "lease"].into());
    assert_eq!(confirmed["outcome"], "extended");
    assert_eq!(confirmed["lease"]["fencing_token"], lease["fencing_token"]);
    for outcome in ["released", "already_released"] {
        let released = functions
            .call("release", json!({"lease": lease}))
            .await
            .unwrap();
        assert_eq!(released["outcome"], outcome);
    }
    assert!(desk.calls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_line_and_a_frozen_key_are_errors_and_the_token_hears_of_neither() {
    let (functions, desk) = with_desk(&[("LEASE_QUEUE_CAP", "1")]).await;
    for key in ["orders/92", "orders/93"] {
        functions.acquire(key, "other", "1").await;
    }
    let mut first = event("acquire-queue-full");
    first["request_id"] = json!("another");
    functions.call("acquire", &first).await.unwrap();
    let (name, message) = functions.event("acquire-queue-full").await.unwrap_err();
    assert_eq!(name, "Lease.QueueFull");
    assert_eq!(fields(&message), ["message", "key"].into());
    assert_eq!(message["key"], "orders/92");
    functions
        .change("orders/93", "frozen", s("maintenance"))
        .await;
    let (name, message) = functions.event("acquire-queue-frozen").await.unwrap_err();
    assert_eq!(name, "Lease.Frozen");
    assert_eq!(fields(&message), ["message", "key"].into());
    assert!(desk.calls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_waited_long_enough_is_told_an_error_by_sweep() {
    let (functions, desk) = with_desk(&[]).await;
    functions.acquire("orders/95", "other", "1").await;
    let queued = functions.event("acquire-gives-up").await.unwrap();
    assert_eq!(queued["outcome"], "queued");
    let swept = functions.event("sweep").await.unwrap();
    let expected = json!({
        "outcome": "swept", "examined": 2, "freed": 0, "granted": 0, "skipped_corrupt": 0,
    });
    assert_eq!(swept, expected);
    let told = desk.one();
    assert_eq!(told.operation, "SendTaskFailure");
    assert_eq!(fields(&told.body), ["taskToken", "error", "cause"].into());
    assert_eq!(
        told.body["taskToken"],
        event("acquire-gives-up")["task_token"]
    );
    assert_eq!(told.body["error"], "Lease.QueueTimeout");
    // As a Catch sees it of a function's own error: to be parsed twice.
    let cause: Value = serde_json::from_str(told.body["cause"].as_str().unwrap()).unwrap();
    assert_eq!(fields(&cause), ["errorType", "errorMessage"].into());
    assert_eq!(cause["errorType"], "Lease.QueueTimeout");
    let message: Value = serde_json::from_str(cause["errorMessage"].as_str().unwrap()).unwrap();
    assert_eq!(fields(&message), ["message", "key"].into());
    assert_eq!(message["key"], "orders/95");
    // A sweep that hands over says so.
    functions.event("acquire-gives-up").await.unwrap();
    functions
        .call("acquire", event("acquire-queued"))
        .await
        .unwrap();
    desk.calls();
    let long_ago = aws_sdk_dynamodb::types::AttributeValue::N("1700000000000".into());
    for attribute in ["expires_at", "sweep_after"] {
        functions
            .change("orders/95", attribute, long_ago.clone())
            .await;
    }
    let swept = functions.event("sweep").await.unwrap();
    assert_eq!((&swept["freed"], &swept["granted"]), (&json!(1), &json!(1)));
    let told = desk.one();
    let granted: Value = serde_json::from_str(told.output()).unwrap();
    assert_eq!(
        (&granted["grant"], &granted["previous"]["ended"]),
        (&json!("takeover"), &json!("expired"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_step_functions_does_has_a_name() {
    let (functions, desk) = with_desk(&[]).await;
    let cases = [
        ("AccessDeniedException", "Lease.Denied"),
        ("ThrottlingException", "Lease.Throttled"),
        ("InternalFailure", "Lease.Unavailable"),
    ];
    let sample = event("acquire-in-line");
    for (error, expected) in cases {
        desk.fail_with(Some(error));
        let (name, message) = functions.event("acquire-in-line").await.unwrap_err();
        assert_eq!(name, expected, "{error}: {message}");
        assert_eq!(fields(&message), ["message", "key"].into(), "{error}");
        let text = message.to_string();
        assert!(text.contains("states:SendTaskSuccess"), "{text}");
        assert!(
            !text.contains(sample["task_token"].as_str().unwrap()),
            "{text}"
        );
    }
    // The lease was granted: the same request brings it to the token.
    desk.fail_with(None);
    functions.event("acquire-in-line").await.unwrap();
    let granted: Value = serde_json::from_str(desk.one().output()).unwrap();
    assert_eq!(granted["grant"], "replayed");
}
