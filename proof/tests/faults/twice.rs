//! A handler that is run twice with one event, as Lambda and Step Functions may: one after the other, and both at once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::functions::{Functions, quiet};

fn acquire(key: &str) -> Value {
    json!({"key": key, "holder": "a", "request_id": "1", "ttl_seconds": 300})
}

/// Two answers to one event, from two processes if `at_once`.
async fn twice(functions: &Functions, function: &str, event: &Value, at_once: bool) -> [Value; 2] {
    let call = || functions.call(function, event);
    let (first, second) = if at_once {
        tokio::join!(call(), call())
    } else {
        (call().await, call().await)
    };
    [first.unwrap(), second.unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_runs_twice_grants_extends_and_releases_once() {
    let functions = Functions::with(quiet()).await;
    for (n, at_once) in [false, true, true, true].into_iter().enumerate() {
        let key = format!("k{n}");
        let answers = twice(&functions, "acquire", &acquire(&key), at_once).await;
        let [first, second] = answers.each_ref().map(|answer| &answer["lease"]);
        assert_eq!(first, second);
        let grants: BTreeSet<_> = answers
            .iter()
            .map(|a| a["grant"].as_str().unwrap())
            .collect();
        assert_eq!(grants, ["new", "replayed"].into());

        let event = json!({"lease": first, "ttl_seconds": 400});
        let answers = twice(&functions, "extend", &event, at_once).await;
        for answer in &answers {
            assert_eq!(answer["outcome"], "extended");
        }
        // RFC 3339 in UTC with as many digits each time: texts in the order of the instants.
        let later = answers
            .iter()
            .map(|a| a["lease"]["expires_at"].as_str().unwrap())
            .max();
        let inspected = functions
            .call("inspect", json!({"key": key}))
            .await
            .unwrap();
        assert_eq!(
            inspected["lease"]["expires_at"].as_str(),
            later,
            "the later deadline wins"
        );
        assert!(later > first["expires_at"].as_str());

        let answers = twice(&functions, "release", &json!({"lease": first}), at_once).await;
        let outcomes: BTreeSet<_> = answers
            .iter()
            .map(|a| a["outcome"].as_str().unwrap())
            .collect();
        assert_eq!(outcomes, ["released", "already_released"].into());
    }
}
