//! The rules of the table reach processes that set none.

use leasehold_local::{Options, Stack, session_token};
use leasehold_proof::fixture::{event, quiet};
use leasehold_proof::program;
use serde_json::json;
use tokio::process::Command;

const FLOOR: u64 = 400_000_000_000_000;
const RULES: [&str; 5] = [
    "LEASE_RULES",
    "LEASE_CLOCK_MARGIN_MS",
    "LEASE_GUARD_MS",
    "LEASE_TOKEN_FLOOR",
    "LEASE_GRANTS",
];

/// A stack with these parameters, whose acquire is a team's: it has a table and no settings.
async fn stack(parameters: &[(&str, &str)]) -> Stack {
    let none = RULES.map(|name| (name.to_owned(), None));
    let parameters = parameters.iter();
    let options = Options {
        parameters: parameters
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        environment: [("acquire".to_owned(), none.into())].into(),
        ..quiet()
    };
    let stack = Stack::start(options).await.unwrap();
    stack
        .functions()
        .call("sweep", &event("sweep"))
        .await
        .unwrap();
    stack
}

/// What the command line says, which has a table and no settings either.
async fn acquire(stack: &Stack, key: &str) -> (Option<i32>, String) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(program("leasehold"))
        .args(["acquire", key, "--ttl", "1m", "--table", "LeaseTable"])
        .env_clear()
        .env("HOME", home.path())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_SESSION_TOKEN", session_token())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_ENDPOINT_URL_DYNAMODB", stack.dynamodb_url())
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn team_and_command_line_follow_rules() {
    let floor = FLOOR.to_string();
    let stack = stack(&[
        ("ClockMarginMs", "3600000"),
        ("GuardMs", "30000"),
        ("TokenFloor", &floor),
    ])
    .await;
    let ask = json!({"key": "team/1", "holder": "a", "ttl_seconds": 60});
    let granted = stack.functions().call("acquire", &ask).await.unwrap();
    let lease = &granted["lease"];
    assert!(lease["fencing_token"].as_u64().unwrap() > FLOOR, "{lease}");
    let instant = |value: &serde_json::Value| {
        let at: leasehold::Timestamp = value.as_str().unwrap().parse().unwrap();
        at.as_millis()
    };
    let expires = instant(&lease["expires_at"]);
    assert_eq!(
        instant(&lease["safe_until"]),
        expires - 30_000,
        "S8: the guard"
    );
    let ask = json!({"key": "team/1", "holder": "b", "ttl_seconds": 60, "if_held": "skip"});
    let held = stack.functions().call("acquire", &ask).await.unwrap();
    assert_eq!(
        instant(&held["retry_at"]),
        expires + 3_600_001,
        "S8: the margin"
    );

    let (code, said) = acquire(&stack, "team/2").await;
    assert_eq!(code, Some(0), "{said}");
    let token = said.split("\"fencing_token\":").nth(1).unwrap();
    let digits: String = token
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    assert!(digits.parse::<u64>().unwrap() > FLOOR, "S2: {said}");
    stack.stop().await;
}

#[tokio::test]
async fn stopped_grants_stop_teams_and_cli() {
    let stack = stack(&[("Grants", "stopped")]).await;
    let ask = json!({"key": "team/1", "holder": "a", "ttl_seconds": 60}).to_string();
    let invoked = stack.functions().invoke("acquire", &ask).await.unwrap();
    let error = invoked.outcome.json().unwrap_err();
    assert_eq!(error["errorType"], "Lease.Frozen", "{error}");
    let (code, said) = acquire(&stack, "team/2").await;
    assert_eq!(code, Some(75), "{said}");
    assert!(
        said.contains("stopped the grants of the whole table"),
        "{said}"
    );
    assert!(said.contains("Grants=open"), "{said}");
    stack.stop().await;
}

/// A table that was restored, or that a deleted stack left, in place of one of the stack's own.
#[tokio::test]
async fn a_stack_adopts_an_existing_table() {
    let options = Options {
        parameters: [("ExistingTableName".to_owned(), "restored".to_owned())].into(),
        ..quiet()
    };
    let stack = Stack::start(options).await.unwrap();
    leasehold::table::create(&stack.dynamodb(), "restored")
        .await
        .unwrap();
    let ask = json!({"key": "orders/1", "holder": "a", "ttl_seconds": 60});
    stack.functions().call("acquire", &ask).await.unwrap();
    let row = stack.dynamodb().get_item().table_name("restored");
    let row = row
        .key("pk", leasehold_proof::fixture::s("orders/1"))
        .key("sk", leasehold_proof::fixture::s("LEASE#0000"));
    assert!(row.send().await.unwrap().item.is_some());
    let tables = stack.dynamodb().list_tables().send().await.unwrap();
    assert!(
        !tables.table_names().contains(&"LeaseTable".to_owned()),
        "{tables:?}"
    );
    stack.stop().await;
}
