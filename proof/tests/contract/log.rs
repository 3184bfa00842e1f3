//! What an invocation writes: one line of metrics, and one that says what became of it.

use std::collections::BTreeMap;

use leasehold::metrics::METRICS;
use leasehold_proof::fixture::{Answer, Fixture, environment, quiet};
use serde_json::{Value, json};

use crate::schemas;

pub struct Written {
    pub answer: Answer,
    /// Of each metric of the table the value.
    counted: BTreeMap<String, u64>,
    /// The line that says what became of it.
    pub line: Value,
}

impl Written {
    /// Calls, and takes what was written meanwhile: both lines as they have to be.
    pub async fn of(fixture: &Fixture, function: &str, payload: &Value) -> Self {
        let before = fixture.log(function).len();
        let answer = fixture.call(function, payload).await;
        schemas::check(function, &answer);
        let log = fixture.log(function).split_off(before);
        let (metered, logged): (Vec<_>, Vec<_>) =
            log.lines().partition(|line| line.contains("\"_aws\""));
        assert_eq!(metered.len(), 1, "one line of metrics: {log}");
        let metered: Value = serde_json::from_str(metered[0]).unwrap();
        let (table, operation) = (json!(fixture.table()), json!(function));
        assert_eq!(
            (&metered["Table"], &metered["Operation"]),
            (&table, &operation)
        );
        let mut counted = BTreeMap::new();
        for directive in metered["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
            for metric in directive["Metrics"].as_array().unwrap() {
                let name = metric["Name"].as_str().unwrap();
                let dimensions = match name {
                    "Latency" => json!([["Table", "Operation"]]),
                    _ => json!([["Table"]]),
                };
                assert_eq!(directive["Dimensions"], dimensions, "{name}");
                let unit = metric["Unit"].as_str().unwrap();
                assert!(METRICS.contains(&(name, unit)), "{name} {unit}");
                counted.insert(name.to_owned(), metered[name].as_u64().unwrap());
            }
        }
        assert!(counted.contains_key("Latency"), "{log}");
        let lines = logged
            .into_iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut ends: Vec<_> = lines
            .filter(|line| line.get("latency_ms").is_some())
            .collect();
        assert_eq!(ends.len(), 1, "one line of the invocation: {log}");
        let line = ends.remove(0);
        assert!(
            line["latency_ms"].is_u64() && line["timestamp"].is_string(),
            "{line}"
        );
        assert_eq!(line["invocation"].as_str().unwrap().len(), 36, "{line}");
        Self {
            answer,
            counted,
            line,
        }
    }

    /// The metrics, less those that every invocation has which asks the table.
    pub fn counts(&self) -> BTreeMap<&str, u64> {
        let counted = self
            .counted
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        counted
            .filter(|(name, _)| !["ClockDifference", "Latency"].contains(name))
            .collect()
    }

    /// How far this machine's clock is from the table's.
    pub fn clock_difference(&self) -> u64 {
        self.counted["ClockDifference"]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_written_at_every_level() {
    let mut options = quiet();
    // It has the functions log everything.
    options.observer = None;
    options.environment = environment([("LEASE_LOG_LEVEL", "ERROR")]);
    let fixture = Fixture::with(options).await;
    fixture.acquire("k", "a", "1").await;
    let log = fixture.log("acquire");
    let lines: Vec<_> = log.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let line: Value = serde_json::from_str(lines[0]).unwrap();
    assert!(
        line["_aws"].is_object() && line["level"] == "INFO",
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_act_is_logged_with_reason() {
    let fixture = Fixture::with(quiet()).await;
    fixture.acquire("k", "a", "1").await;
    let operation = json!({"operation": "force_release", "key": "k", "who": "night shift", "why": "it is stuck"});
    fixture.call("operate", operation).await.unwrap();
    let log = fixture.log("operate");
    let act = log.lines().find(|line| line.contains("an operator acted"));
    for said in [r#""key":"k""#, "night shift", "it is stuck", "\"a\""] {
        assert!(act.is_some_and(|act| act.contains(said)), "{said}: {log}");
    }
}
