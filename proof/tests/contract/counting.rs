//! What is counted, and the line that is logged: one of each for an invocation, on standard output.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use axum::{Router, http::StatusCode, routing::post};
use leasehold::metrics::METRICS;
use leasehold_local::{FakeStepFunctionsServer, Fault, Options, metrics};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    desk::One,
    functions::{Answer, Functions, HOLDER, event},
    queueing::with_desk,
};

/// What one invocation wrote.
struct Written {
    answer: Answer,
    /// Of each metric of the table the value.
    counted: BTreeMap<String, u64>,
    /// The line that says what became of it.
    line: Value,
}

impl Written {
    /// The metrics, less those that every invocation has which asks the table.
    fn counts(&self) -> Vec<(&str, u64)> {
        let counted = self.counted.iter();
        counted
            .filter(|(name, _)| !["ClockDifference", "Latency"].contains(&name.as_str()))
            .map(|(name, value)| (name.as_str(), *value))
            .collect()
    }
}

impl Functions {
    /// Calls, and takes what was written meanwhile.
    async fn written(&self, function: &str, payload: &Value) -> Written {
        let before = self.log(function).len();
        let answer = self.call(function, payload).await;
        let log = self.log(function).split_off(before);
        let (metered, logged): (Vec<_>, Vec<_>) =
            log.lines().partition(|line| line.contains("\"_aws\""));
        assert_eq!(metered.len(), 1, "one line of metrics: {log}");
        let metered: Value = serde_json::from_str(metered[0]).unwrap();
        follows_the_format(&metered);
        assert_eq!(
            (&metered["Table"], &metered["Operation"]),
            (&json!(self.table()), &json!(function))
        );
        let counted = metrics::read(&log).into_iter().map(|datum| {
            let dimensions: Vec<_> = datum.dimensions.keys().map(String::as_str).collect();
            match datum.metric.as_str() {
                "Latency" => assert_eq!(dimensions, ["Operation", "Table"]),
                _ => assert_eq!(dimensions, ["Table"]),
            }
            let value = metered[&datum.metric].as_u64().unwrap();
            (datum.metric, value)
        });
        let counted: BTreeMap<_, _> = counted.collect();
        assert!(counted.contains_key("Latency"), "{log}");
        let mut ends = logged
            .into_iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|line| line.get("latency_ms").is_some());
        let line = ends.next().unwrap();
        assert!(ends.next().is_none(), "one line of the invocation: {log}");
        Written {
            answer,
            counted,
            line,
        }
    }

    async fn counts(&self, function: &str, payload: &Value) -> Vec<(String, u64)> {
        let written = self.written(function, payload).await;
        let counts = written.counts().into_iter();
        counts.map(|(name, n)| (name.to_owned(), n)).collect()
    }
}

/// What `CloudWatch` asks of a line in its embedded metric format.
fn follows_the_format(root: &Value) {
    let metadata = &root["_aws"];
    assert!(metadata["Timestamp"].as_u64().is_some(), "{root}");
    let directives = metadata["CloudWatchMetrics"].as_array().unwrap();
    assert!(!directives.is_empty());
    let mut seen = Vec::new();
    for directive in directives {
        assert_eq!(directive.as_object().unwrap().len(), 3, "{root}");
        assert_eq!(directive["Namespace"], "Leasehold");
        let sets = directive["Dimensions"].as_array().unwrap();
        assert_eq!(sets.len(), 1);
        for name in sets[0].as_array().unwrap() {
            let value = root[name.as_str().unwrap()].as_str().unwrap();
            assert!((1..=1024).contains(&value.len()), "{root}");
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()), "{root}");
        for metric in metrics {
            let name = metric["Name"].as_str().unwrap();
            let unit = metric["Unit"].as_str().unwrap();
            assert!(METRICS.contains(&(name, unit)), "{name} {unit}");
            assert!(root[name].is_u64(), "{root}");
            seen.push(name);
        }
    }
    // Everything else is dimensions, and what Lambda wants to know of a line.
    let others = ["_aws", "Table", "Operation", "level", "timestamp"];
    let fields = root.as_object().unwrap().keys().map(String::as_str);
    for field in fields {
        assert!(seen.contains(&field) || others.contains(&field), "{field}");
    }
}

fn ask(holder: &str, id: &str) -> Value {
    json!({"key": "k", "holder": holder, "request_id": id, "ttl_seconds": 300})
}

fn one(name: &str) -> Vec<(String, u64)> {
    vec![(name.to_owned(), 1)]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_counts_as_what_it_is_and_as_nothing_else() {
    let functions = Functions::with(crate::functions::quiet()).await;
    let first = functions.written("acquire", &ask("a", "1")).await;
    assert_eq!(first.counts(), [("Grants", 1)]);
    // This machine has one clock.
    assert_eq!(first.counted["ClockDifference"], 0);
    let lease = first.answer.unwrap()["lease"].clone();
    assert_eq!(
        functions.counts("acquire", &ask("a", "1")).await,
        one("Replays")
    );
    assert_eq!(
        functions.counts("acquire", &ask("b", "2")).await,
        one("Refusals")
    );
    let mut patient = ask("b", "3");
    patient["on_held"] = json!("result");
    assert_eq!(functions.counts("acquire", &patient).await, one("Refusals"));
    let own = json!({"lease": lease});
    assert_eq!(functions.counts("extend", &own).await, []);
    let inspected = json!({"key": "k"});
    assert_eq!(functions.counts("inspect", &inspected).await, []);
    let version = functions.call("inspect", &inspected).await.unwrap();
    let mut observer = ask("b", "4");
    observer["observed_version"] = version["lease"]["version"].clone();
    let taken = functions.written("acquire", &observer).await;
    assert_eq!(taken.counts(), [("TakeOvers", 1)]);
    for lost in ["extend", "release"] {
        assert_eq!(functions.counts(lost, &own).await, one("Lost"), "{lost}");
    }
    let theirs = json!({"lease": taken.answer.unwrap()["lease"]});
    let released = functions.written("release", &theirs).await;
    let held = released.counted["HeldTime"];
    assert_eq!(released.counts(), [("HeldTime", held)]);
    assert!((0..60_000).contains(&held), "{held}");
    // Already over: not held for any time more.
    assert_eq!(functions.counts("release", &theirs).await, []);

    let swept = functions.counts("sweep", &json!({})).await;
    let swept: Vec<_> = swept.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let expected = [("SweepExamined", 0), ("SweepFreed", 0), ("Sweeps", 1)];
    assert_eq!(swept, expected);
    functions.event("operate-freeze").await.unwrap();
    let mut frozen = ask("a", "5");
    frozen["key"] = event("operate-freeze")["key"].clone();
    assert_eq!(functions.counts("acquire", &frozen).await, one("Refusals"));
    functions.put("strange", leasehold::row::Item::new()).await;
    let strange = json!({"key": "strange", "holder": "a", "ttl_seconds": 300});
    assert_eq!(functions.counts("acquire", &strange).await, one("Corrupt"));
    // The caller's own affair.
    assert_eq!(functions.counts("acquire", &ask("a", "1")).await, []);
    assert_eq!(functions.counts("acquire", &json!({"key": 5})).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_table_does_is_counted() {
    let functions = Functions::with(crate::functions::quiet()).await;
    for (fault, expected) in [
        (Fault::Throttle, "Throttles"),
        (Fault::Denied, "Denied"),
        (Fault::ServerError, "Unavailable"),
    ] {
        functions.stack.proxy().reset();
        functions.stack.proxy().inject(fault, "UpdateItem", 3);
        assert_eq!(
            functions.counts("acquire", &ask("a", "1")).await,
            one(expected)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_is_counted_by_those_who_hand_over() {
    let (functions, desk) = with_desk(&[("LEASE_QUEUE_CAP", "2")]).await;
    let held = functions.acquire("k", "a", "1").await;
    let wait = |holder: &str| {
        let mut request = ask(holder, "2");
        request["task_token"] = json!(format!("token of {holder} {}", "x".repeat(40)));
        request["wait_seconds"] = json!(600);
        request
    };
    for holder in ["b", "c"] {
        assert_eq!(functions.counts("acquire", &wait(holder)).await, []);
    }
    let full = functions.counts("acquire", &wait("d")).await;
    assert_eq!(
        full,
        [("QueueDepth".to_owned(), 2), ("Refusals".to_owned(), 1)]
    );
    let swept = functions.written("sweep", &json!({})).await;
    assert_eq!(swept.counted["QueueDepth"], 2);

    let released = functions.written("release", &json!({"lease": held})).await;
    let names: Vec<_> = released.counts().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["HeldTime", "QueueDepth", "WaitTime"]);
    assert_eq!(released.counted["QueueDepth"], 1, "one more waits");
    assert!(released.counted["WaitTime"] < 60_000);
    // What is logged on the way says of which invocation it is.
    let log = functions.log("release");
    let woken = log.lines().find(|line| line.contains("woken")).unwrap();
    let woken: Value = serde_json::from_str(woken).unwrap();
    let span = &woken["span"];
    assert_eq!(
        (&span["key"], &span["fencing_token"]),
        (&json!("k"), &held["fencing_token"])
    );
    assert_eq!(span["invocation"], released.line["invocation"]);
    // The first extend is the grant, and only the first.
    let lease = promised(&desk);
    let extend = json!({"lease": lease});
    let confirmed = functions.written("extend", &extend).await;
    assert_eq!(confirmed.counts(), [("Grants", 1)]);
    assert_eq!(functions.counts("extend", &extend).await, []);
    // Nobody can be told: the release goes well, and somebody should look.
    desk.fail_with(Some("InternalServerError"));
    let lease = confirmed.answer.unwrap()["lease"].clone();
    let released = functions.written("release", &json!({"lease": lease})).await;
    assert_eq!(released.answer.as_ref().unwrap()["outcome"], "released");
    assert_eq!(released.counted["Unavailable"], 1);
    desk.fail_with(None);
    // Who finds it free is answered at once, by its token.
    let mut free = wait("e");
    free["key"] = json!("free");
    assert_eq!(functions.counts("acquire", &free).await, one("Grants"));
}

/// `DynamoDB` by another clock: it refuses everything, a minute ahead.
async fn ahead(options: &mut Options) {
    let refuse = || async {
        let date = SystemTime::now() + Duration::from_secs(60);
        let date = DateTime::from(date).fmt(DateTimeFormat::HttpDate).unwrap();
        let refusal = r#"{"__type":"AccessDeniedException","message":"no"}"#;
        (StatusCode::BAD_REQUEST, [("date", date)], refusal)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/", post(refuse));
    tokio::spawn(axum::serve(listener, router).into_future());
    let everywhere = options.environment.entry("*".to_owned()).or_default();
    everywhere.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), Some(url));
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_the_clock_is_from_the_tables_is_told() {
    let mut options = crate::functions::quiet();
    ahead(&mut options).await;
    let functions = Functions::with(options).await;
    let refused = functions.written("acquire", &ask("a", "1")).await;
    assert_eq!(refused.counts(), [("Denied", 1)]);
    // Less the second that a date hides, and what the answer took.
    let apart = refused.counted["ClockDifference"];
    assert!((50_000..=60_000).contains(&apart), "{apart}");
}

fn promised(desk: &FakeStepFunctionsServer) -> Value {
    let granted: Value = serde_json::from_str(desk.one().output()).unwrap();
    granted["lease"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_line_of_an_invocation_says_who_what_and_how_long() {
    let functions = Functions::with(crate::functions::quiet()).await;
    let mut request = ask(HOLDER, "state/1");
    request["metadata"] = json!({"order": "private"});
    let granted = functions.written("acquire", &request).await;
    let lease = granted.answer.unwrap()["lease"].clone();
    let line = granted.line;
    let expected = json!({
        "level": "INFO", "message": "answered", "operation": "acquire", "key": "k", "holder": HOLDER,
        "request_id": "state/1", "fencing_token": lease["fencing_token"], "outcome": "acquired",
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&line[field], value, "{field}: {line}");
    }
    assert!(
        line["latency_ms"].is_u64() && line["timestamp"].is_string(),
        "{line}"
    );
    assert_eq!(line["invocation"].as_str().unwrap().len(), 36, "{line}");
    assert!(
        line["xray_trace_id"].as_str().unwrap().starts_with("1-"),
        "{line}"
    );
    let refused = functions.written("acquire", &ask("b", "2")).await.line;
    assert_eq!(
        (&refused["level"], &refused["outcome"]),
        (&json!("INFO"), &json!("Lease.Held"))
    );
    assert!(
        refused["problem"].as_str().unwrap().contains("is held by"),
        "{refused}"
    );
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let lost = functions
        .written("extend", &json!({"lease": lease}))
        .await
        .line;
    assert_eq!(
        (&lost["level"], &lost["outcome"]),
        (&json!("WARN"), &json!("Lease.Lost"))
    );
    assert_eq!(lost["fencing_token"], lease["fencing_token"]);
    let listed = functions
        .written("inspect", &json!({"list": true}))
        .await
        .line;
    assert_eq!(listed["outcome"], "listed");
    for name in ["acquire", "extend", "release"] {
        let log = functions.log(name);
        for secret in [&lease["lease_id"], &json!("private")] {
            assert!(!log.contains(secret.as_str().unwrap()), "{name}: {log}");
        }
    }
}
