//! `leasehold history` of a stack in an account: a fake of `CloudWatch` Logs answers its queries. How the functions' own lines read,
//! another test shows, with the functions (`proof/tests/contract/history.rs`).

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Ran, Words, code, ended, signal, until};

const RELEASED: &str = r#"{"timestamp":"2026-11-21T03:00:07.120000Z","message":"answered","operation":"release","outcome":"released","key":"k","holder":"a","fencing_token":5,"acquired_at":"2026-11-21T03:00:00.120Z"}"#;

#[derive(Default)]
struct Logs {
    /// What was asked, as operation and parameters.
    asked: Vec<(String, Value)>,
    /// An operation that is refused.
    denied: Option<&'static str>,
    /// How often a query is said to run before it is complete.
    running: usize,
}

type Shared = Arc<Mutex<Logs>>;

async fn answer(
    State(logs): State<Shared>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let target = headers["x-amz-target"].to_str().unwrap();
    let operation = target.strip_prefix("Logs_20140328.").unwrap();
    let mut logs = logs.lock().unwrap();
    let body = serde_json::from_str(&body).unwrap();
    logs.asked.push((operation.to_owned(), body));
    if logs.denied == Some(operation) {
        let error = json!({"__type": "AccessDeniedException", "message": "no"});
        return (StatusCode::BAD_REQUEST, error.to_string());
    }
    let answer = match operation {
        "StartQuery" => json!({"queryId": "q"}),
        "StopQuery" => json!({"success": true}),
        _ if logs.running > 0 => {
            logs.running -= 1;
            json!({"status": "Running", "results": []})
        }
        _ => json!({"status": "Complete", "results": [
            [{"field": "@message", "value": RELEASED}, {"field": "@ptr", "value": "p"}],
            [{"field": "@message", "value": "not JSON"}]
        ]}),
    };
    (StatusCode::OK, answer.to_string())
}

struct Account {
    fixture: Fixture,
    logs: Shared,
    url: String,
}

impl Account {
    async fn start(logs: Logs) -> Self {
        let logs = Arc::new(Mutex::new(logs));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&logs));
        tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
        let fixture = Fixture::without_table().await;
        Self { fixture, logs, url }
    }

    fn command(&self, arguments: impl Words) -> std::process::Command {
        let mut command = self.fixture.command("history k");
        command.args(arguments.words());
        command.env("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", &self.url);
        command
    }

    async fn run(&self, arguments: impl Words) -> Ran {
        ended(self.command(arguments)).await
    }

    fn asked(&self) -> Vec<String> {
        let logs = self.logs.lock().unwrap();
        logs.asked
            .iter()
            .map(|(operation, _)| operation.clone())
            .collect()
    }
}

#[tokio::test]
async fn query_finds_grants() {
    let logs = Logs {
        running: 1,
        ..Logs::default()
    };
    let account = Account::start(logs).await;
    let ran = account.run("--stack leasehold --json").await.ended(0);
    let answer = ran.json();
    let expected = json!([{"fencing_token": 5, "holder": "a", "granted_at": "2026-11-21T03:00:00.120Z", "ended": "released",
        "ended_at": "2026-11-21T03:00:07.120Z", "held_ms": 7000, "by": null, "why": null, "waited_ms": null}]);
    assert_eq!(
        (&answer["grants"], &answer["complete"]),
        (&expected, &json!(true))
    );
    let asked = account.asked();
    assert_eq!(asked, ["StartQuery", "GetQueryResults", "GetQueryResults"]);
    let logs = account.logs.lock().unwrap();
    let query = &logs.asked[0].1;
    assert_eq!(query["limit"], 10_000);
    let day = query["endTime"].as_i64().unwrap() - query["startTime"].as_i64().unwrap();
    assert!((86_400..86_410).contains(&day), "{query}");
    let groups = query["logGroupNames"].as_array().unwrap();
    assert!(
        groups.contains(&json!("/aws/lambda/leasehold-sweep")),
        "{query}"
    );
    assert!(
        query["queryString"]
            .as_str()
            .unwrap()
            .contains("key = \"k\""),
        "{query}"
    );
}

#[tokio::test]
async fn missing_permission_is_named() {
    for (denied, action, stops) in [
        ("StartQuery", "logs:StartQuery", false),
        ("GetQueryResults", "logs:GetQueryResults", true),
    ] {
        let logs = Logs {
            denied: Some(denied),
            ..Logs::default()
        };
        let account = Account::start(logs).await;
        let ran = account.run("--stack leasehold").await.ended(3);
        ran.err_has(action);
        assert_eq!(account.asked().contains(&"StopQuery".to_owned()), stops);
    }
    let account = Account::start(Logs::default()).await;
    account.run("").await.ended(3).err_has("--stack NAME");
}

#[tokio::test]
async fn interrupt_stops_the_query() {
    let logs = Logs {
        running: usize::MAX,
        ..Logs::default()
    };
    let account = Account::start(logs).await;
    let program = account.command("--stack leasehold").spawn().unwrap();
    let pid = program.id();
    let asks = || account.asked().contains(&"GetQueryResults".to_owned());
    until("it asks for the results", asks).await;
    signal(pid, Signal::INT);
    assert_eq!(code(program).await, Some(130));
    assert_eq!(
        account.asked().last().map(String::as_str),
        Some("StopQuery")
    );
}

#[tokio::test]
async fn nothing_found_is_a_no() {
    let account = Account::start(Logs::default()).await;
    let home = account.fixture.home().join("logs");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("ReleaseFunction.log"), format!("{RELEASED}\n")).unwrap();
    let logs = home.to_str().unwrap();
    let ran = account
        .run(&["--logs", logs, "--since", "1s"])
        .await
        .ended(1);
    ran.err_has("reports a grant of k");
    account
        .run(&["--logs", &format!("{logs}/none")])
        .await
        .ended(3);
    assert_eq!(account.asked(), Vec::<String>::new());
}
