//! What is answered when the environment is wrong, and what is counted when the clock is.

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use axum::{Router, http::StatusCode, routing::post};
use leasehold_local::{Options, Outcome};
use leasehold_proof::fixture::{Fixture, event, quiet, scanned};
use tokio::net::TcpListener;

use crate::log::Written;

const CALLS: [&str; 5] = ["acquire", "extend", "release", "sweep", "inspect"];

/// A stack whose functions have another value of a variable, or none.
async fn with(variable: &str, value: Option<&str>) -> Fixture {
    let mut options = scanned();
    let change = [(variable.to_owned(), value.map(str::to_owned))].into();
    options.environment.insert("*".to_owned(), change);
    Fixture::with(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_names_bad_environment() {
    // What each variable may be is tested where it is read; how a URL is, only here.
    let cases = [
        ("LEASE_TABLE", None),
        ("LEASE_QUEUE_CAP", Some("1001")),
        ("AWS_ENDPOINT_URL_DYNAMODB", Some("not a url")),
        ("AWS_ENDPOINT_URL_SFN", Some("")),
        ("AWS_ENDPOINT_URL_LAMBDA", Some("http://")),
    ];
    for (variable, value) in cases {
        let fixture = with(variable, value).await;
        for name in CALLS.into_iter().chain(["reap-succeeded"]) {
            for _ in 0..2 {
                let answer = fixture.event(name).await;
                let (error, message) = answer.expect_err(variable);
                assert_eq!(error, "Lease.Misconfigured", "{variable}");
                let text = message["message"].as_str().unwrap();
                assert!(text.contains(variable), "{variable}: {text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fips_mode_needs_fips_module() {
    let fixture = with("AWS_USE_FIPS_ENDPOINT", Some("true")).await;
    let functions = fixture.stack.functions();
    let invocation = functions.invoke("acquire", "{}").await.unwrap();
    let Outcome::FunctionError(error) = invocation.outcome else {
        panic!("{:?}", invocation.outcome);
    };
    assert!(error.contains("Runtime.ExitError"), "{error}");
    let log = fixture.log("acquire");
    let named = log.lines().filter(|l| l.contains("AWS_USE_FIPS_ENDPOINT"));
    assert_eq!(named.count(), 1, "{log}");
    assert!(log.contains("FIPS-validated module"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_table_misconfigured_foreign_table_denied() {
    let elsewhere = with("LEASE_TABLE", Some("elsewhere")).await;
    let unprotected = [("DeletionProtection".to_owned(), "false".to_owned())];
    let gone = Fixture::with(Options {
        parameters: unprotected.into(),
        ..scanned()
    })
    .await;
    let delete = gone.stack.dynamodb().delete_table();
    delete.table_name(gone.table()).send().await.unwrap();
    for name in CALLS {
        for (fixture, error, table) in [
            // By its role's right on this table only, before anybody looks whether the other one exists.
            (&elsewhere, "Lease.Denied", "elsewhere"),
            (&gone, "Lease.Misconfigured", gone.table()),
        ] {
            let (got, message) = fixture.event(name).await.unwrap_err();
            assert_eq!(got, error, "{name}: {message}");
            assert!(
                message["message"].as_str().unwrap().contains(table),
                "{message}"
            );
        }
    }
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
async fn clock_difference_is_counted() {
    let mut options = quiet();
    ahead(&mut options).await;
    let fixture = Fixture::with(options).await;
    let refused = Written::of(&fixture, "acquire", &event("acquire")).await;
    assert_eq!(refused.counts(), [("Denied", 1)].into());
    // Less the second that a date hides, and what the answer took.
    let apart = refused.clock_difference();
    assert!((50_000..=60_000).contains(&apart), "{apart}");
}
