//! The parts together, wired as a template says.

use std::collections::BTreeMap;
use std::path::Path;

use leasehold_local::{Error, Options, Outcome, Stack};
use leasehold_proof::example;
use leasehold_proof::fixture::scanned;
use serde_json::Value;

fn options() -> Options {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stack.json");
    Options {
        template: Some(template),
        binaries: example("echo").parent().map(Path::to_owned),
        ..scanned()
    }
}

#[tokio::test]
async fn function_gets_table_endpoints_and_overrides() {
    let changes = |name: &str, value: Option<&str>| {
        BTreeMap::from([(name.to_owned(), value.map(str::to_owned))])
    };
    let options = Options {
        environment: BTreeMap::from([
            ("*".to_owned(), changes("COLOUR", Some("green"))),
            ("echo".to_owned(), changes("COLOUR", Some("red"))),
            (
                "EchoFunction".to_owned(),
                changes("AWS_ENDPOINT_URL_SFN", None),
            ),
        ]),
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let functions = stack.functions();
    let invoked = functions.invoke("echo", r#"{"do": "environment"}"#).await;
    let Outcome::Answer(environment) = invoked.unwrap().outcome else {
        panic!("no answer");
    };
    let environment: Value = serde_json::from_str(&environment).unwrap();
    assert_eq!(environment["TABLE"], "Rows");
    assert_eq!(
        environment["AWS_ENDPOINT_URL_DYNAMODB"],
        stack.dynamodb_url()
    );
    assert_eq!(environment["COLOUR"], "red");
    assert!(environment.get("AWS_ENDPOINT_URL_SFN").is_none());
    assert_eq!(environment["AWS_LAMBDA_FUNCTION_NAME"], "EchoFunction");
    let inherited = environment.get("CARGO_MANIFEST_DIR");
    assert!(inherited.is_none(), "inherited from the test");
}

#[tokio::test]
async fn missing_binaries_are_named_with_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let options = Options {
        binaries: Some(empty.path().to_owned()),
        ..options()
    };
    let error = Stack::start(options).await.err().unwrap();
    assert!(matches!(error, Error::MissingBinaries { .. }));
    let text = error.to_string();
    assert!(
        text.starts_with("no binary for echo in ") && text.contains("make"),
        "{text}"
    );
}

#[tokio::test]
async fn deploying_machines_needs_engine() {
    let stack = Stack::start(options()).await.unwrap();
    let error = stack.deploy().await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("CreateStateMachine EchoStateMachine"),
        "{error}"
    );
}
