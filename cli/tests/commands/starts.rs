//! `leasehold start` and `repeat-start`, and `leasehold ls --failed`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::fixture::{Fixture, LEASEHOLD, Ran, TABLE, ended, masked};
use leasehold::{
    ExecutionName, Holder, Key, LeaseState, Queue, ResultTo, Start, StartRules, StateMachineArn,
    TaskToken, store::DynamoDb,
};
use leasehold_lambda::StepFunctions;
use leasehold_local::{Code, Fault, Function, LambdaHost, session_token};
use leasehold_proof::fake_step_functions::{FakeStepFunctionsServer, StepFunctionsCall};
use serde_json::{Value, json};

const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:orders";
const ONE: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:one";
const LONG: Duration = Duration::from_mins(10);

struct Starts {
    fixture: Fixture,
    server: FakeStepFunctionsServer,
}

impl Starts {
    async fn new() -> Self {
        Self {
            fixture: Fixture::start().await,
            server: FakeStepFunctionsServer::open().await.unwrap(),
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    async fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = self.fixture.command(arguments);
        command.env("AWS_ENDPOINT_URL_SFN", self.url());
        let ran = ended(command).await;
        self.fixture.keeps_secrets(&ran);
        ran
    }

    /// `leasehold start KEY MACHINE --name one`, with more options.
    async fn start(&self, key: &str, options: &[&str]) -> Ran {
        self.run(&[&["start", key, MACHINE, "--name", "one"], options].concat())
            .await
    }

    async fn failed(&self) -> Value {
        let ran = self.run(&["ls", "--failed", "--json"]).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    }

    /// The leases as the stack has them.
    fn stack(&self) -> Queue<DynamoDb> {
        let credentials = aws_credential_types::Credentials::new(
            "local",
            "local",
            Some(session_token().to_owned()),
            None,
            "test",
        );
        let provider = aws_credential_types::provider::SharedCredentialsProvider::new(credentials);
        let config = aws_config::SdkConfig::builder()
            .behavior_version(aws_config::BehaviorVersion::v2026_01_12())
            .region(aws_config::Region::new("us-east-1"))
            .endpoint_url(self.url())
            .credentials_provider(provider)
            .build();
        self.fixture
            .leases()
            .with_engine(Arc::new(StepFunctions::new(&config)))
            .with_starts(StartRules::of("*").unwrap())
    }
}

#[tokio::test]
async fn free_key_starts_at_once() {
    let all = Starts::new().await;
    let input = ["--input", r#"{"n": 1}"#, "--metadata", "team=payments"];
    for _ in 0..2 {
        let ran = all.start("k", &input).await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(ran.out, format!("started: {ONE}\n"));
    }
    assert_eq!(all.server.input_of(ONE).unwrap(), r#"{"n": 1}"#);
    let held = all.fixture.inspect("k").await.lease.held.unwrap();
    assert_eq!(held.holder.as_str(), ONE);
    assert_eq!(held.metadata.entries()["team"], "payments");

    let ran = all.start("k", &[&input[..], &["--json"]].concat()).await;
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told, json!({"outcome": "started", "execution_arn": ONE}));
    let other = all.start("k", &["--input", r#"{"n": 2}"#]).await;
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(
        other.err.contains("is in use by another start"),
        "{other:?}"
    );
}

#[tokio::test]
async fn starts_share_key_and_pace() {
    let all = Starts::new().await;
    let start = async |key, name, options: &[&str]| {
        let ran = all
            .run(&[&["start", key, MACHINE, "--name", name], options].concat())
            .await;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out
    };
    for (name, wanted) in [
        ("a", "started: "),
        ("b", "started: "),
        ("c", "in the queue: "),
    ] {
        let said = start("shared", name, &["--permits", "2"]).await;
        assert!(said.starts_with(wanted), "{said}");
    }
    let said = start("paced", "d", &["--at-least", "10m"]).await;
    assert!(said.starts_with("started: "), "{said}");
    let seen = all.fixture.inspect("paced").await;
    let lease = seen.lease.held.unwrap();
    let opens_at = lease.acquired_at.plus(Duration::from_mins(10));
    assert_eq!(seen.opens_at, Some(opens_at));
}

#[tokio::test]
async fn key_with_waiters_only_is_listed() {
    let all = Starts::new().await;
    let limit = [
        "limit", "k", "0", "--who", "alice", "--why", "test", "--yes",
    ];
    assert_eq!(all.run(&limit).await.code, Some(0));
    for name in ["a", "b"] {
        let ran = all.run(&["start", "k", MACHINE, "--name", name]).await;
        assert!(ran.out.starts_with("in the queue"), "{ran:?}");
    }
    let ran = all.run(&["ls"]).await;
    assert_eq!(
        ran.err,
        "leasehold: no lease matches\nleasehold: 2 wait for 1 key (--waiting); 1 key limited (--limited)\n"
    );
    let ran = all.run(&["ls", "--waiting"]).await;
    assert_eq!(
        masked(&ran.out),
        "KEY  STATE  FROZEN  LIMIT  WAITING  HOLDER\nk  free  0  2\n"
    );
    let none = [
        "limit", "k", "none", "--who", "alice", "--why", "test", "--yes",
    ];
    let ran = all.run(&none).await;
    let who = "\nthe first waiter has it now\n";
    assert!(ran.out.ends_with(who), "{ran:?}");
    assert_eq!(all.server.runs().len(), 1, "it is started");
}

#[tokio::test]
async fn eviction_serves_who_waits() {
    let all = Starts::new().await;
    all.fixture.grant("k", "worker", LONG).await;
    let ran = all.start("k", &[]).await;
    assert!(ran.out.starts_with("in the queue"), "{ran:?}");
    let evict = [
        "force-release",
        "k",
        "--who",
        "alice",
        "--why",
        "test",
        "--yes",
    ];
    let ran = all.run(&evict).await;
    let who = "\nthe first waiter has it now\n";
    assert!(ran.out.ends_with(who), "{ran:?}");
}

/// The command itself reaches no Step Functions: only the function has the right.
#[tokio::test]
async fn stacks_sweep_serves_who_waits() {
    let all = Starts::new().await;
    let logs = tempfile::tempdir().unwrap();
    let host = LambdaHost::start(logs.path(), 0).await.unwrap();
    let environment = [
        ("LEASE_TABLE", TABLE.to_owned()),
        ("LEASE_STARTS", MACHINE.to_owned()),
        ("AWS_ENDPOINT_URL_DYNAMODB", all.fixture.proxy.url()),
        ("AWS_ENDPOINT_URL_SFN", all.url()),
    ];
    let sweep = Path::new(LEASEHOLD).with_file_name("sweep");
    assert!(sweep.is_file(), "cargo build --workspace --bins");
    host.register(Function {
        logical_id: "SweepFunction".to_owned(),
        verb: "sweep".to_owned(),
        code: Code::Binary(sweep),
        environment: environment
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        timeout: Duration::from_secs(30),
        here: None,
        memory_mb: 128,
        concurrency: 1,
    });
    let by_the_stack = async |arguments: &[&str]| {
        let because = ["--who", "alice", "--why", "ticket 7", "--yes"];
        let mut command = all.fixture.command(&[arguments, &because].concat());
        command.env("LEASEHOLD_SWEEP", "SweepFunction");
        command.env("AWS_ENDPOINT_URL_LAMBDA", host.url());
        ended(command).await.out
    };
    let who = "\nthe first waiter has it now\n";
    all.fixture.grant("k", "worker", LONG).await;
    all.start("k", &[]).await;
    let freed = by_the_stack(&["force-release", "k"]).await;
    assert!(freed.ends_with(who), "{freed}");
    by_the_stack(&["limit", "--pool", "imports", "0"]).await;
    let pool = ["--name", "two", "--pool", "imports", "--pool-permits", "1"];
    let start = [&["start", "other", MACHINE][..], &pool].concat();
    let waits = all.run(&start).await;
    assert!(waits.out.starts_with("in the queue: "), "{waits:?}");
    let opened = by_the_stack(&["limit", "--pool", "imports", "1"]).await;
    assert!(opened.ends_with(who), "{opened}");
    assert_eq!(all.server.runs().len(), 2);
    host.stop().await;
}

/// A missing right costs nobody the place: who was granted the key is told by the stack.
#[tokio::test]
async fn who_may_not_start_leaves_it_to_the_stack() {
    let all = Starts::new().await;
    all.fixture.grant("k", "worker", LONG).await;
    all.start("k", &[]).await;
    all.server.fail_with(Some("AccessDeniedException"));
    let evict = [
        "force-release",
        "k",
        "--who",
        "alice",
        "--why",
        "test",
        "--yes",
    ];
    let ran = all.run(&evict).await;
    assert!(ran.out.contains("\none waits in the queue: "), "{ran:?}");
    assert_eq!(ran.code, Some(0));
    assert_eq!(all.failed().await, json!({"starts": []}));
}

#[tokio::test]
async fn refused_start_has_not_begun() {
    let all = Starts::new().await;
    all.server.fail_with(Some("ThrottlingException"));
    let ran = all.start("k", &[]).await;
    assert!(ran.out.starts_with("in the queue"), "{ran:?}");
    let ran = all.run(&["show", "k"]).await;
    assert!(
        ran.out.contains("held, its execution has not begun"),
        "{ran:?}"
    );
    all.server.fail_with(None);
    let ran = all.start("k", &[]).await;
    assert!(ran.out.starts_with("started"), "{ran:?}");
    let ran = all.run(&["show", "k"]).await;
    assert!(ran.out.contains("while its execution runs"), "{ran:?}");
}

#[tokio::test]
async fn a_machine_may_be_an_option() {
    let all = Starts::new().await;
    let ran = all
        .run(&["start", "k", "--state-machine", MACHINE, "--name", "one"])
        .await;
    assert_eq!((ran.code, ran.out), (Some(0), format!("started: {ONE}\n")));
    let ran = all.run(&["start", "k"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[tokio::test]
async fn input_file_gets_the_lease() {
    let all = Starts::new().await;
    let file = all.fixture.home().join("input.json");
    std::fs::write(&file, r#"{"n": 1}"#).unwrap();
    let file = file.to_str().unwrap();
    let ran = all
        .start("k", &["--input-file", file, "--pass-lease"])
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let input: Value = serde_json::from_str(&all.server.input_of(ONE).unwrap()).unwrap();
    assert_eq!(
        (&input["n"], &input["leasehold"]["key"]),
        (&json!(1), &json!("k"))
    );
}

#[tokio::test]
async fn held_key_queues_the_start() {
    let all = Starts::new().await;
    let other = all.fixture.grant("k", "worker 7", LONG).await;
    let ran = all.start("k", &["--wait", "1h", "--keep", "1d"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let wanted = format!("in the queue: {ONE} begins when it is granted the key\n");
    assert_eq!(ran.out, wanted);
    assert!(
        ran.err.contains("k is held by worker 7 for another"),
        "{ran:?}"
    );
    let ran = all.start("k", &["--json"]).await;
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&told["outcome"], &told["execution_arn"]),
        (&json!("queued"), &json!(ONE))
    );
    assert_eq!(all.server.input_of(ONE), None);

    let shown = all.run(&["show", "k", "--waiters"]).await;
    let table = masked(&shown.out);
    let (_, table) = table.split_once("\n\n").unwrap();
    let line = format!("1  N s ago  in 59 min N s  start  {ONE}\n");
    assert_eq!(table, format!("PLACE  CAME  GIVES UP  WHAT  WHO\n{line}"));
    let shown = all.run(&["show", "k", "--waiters", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["outcome"], "found");
    let waiter = &shown["waiters"][0];
    assert_eq!(
        (&waiter["place"], &waiter["holder"], &waiter["start"]),
        (&json!(1), &json!(ONE), &json!(true))
    );

    let _ = all.fixture.leases().release(&other.lease).await.unwrap();
    assert!(
        all.stack()
            .hand_over(&Key::new("k").unwrap())
            .await
            .unwrap()
    );
    assert_eq!(all.server.input_of(ONE).unwrap(), "{}");
    let shown = all.run(&["show", "k"]).await;
    assert!(shown.out.contains("1 d after a failure"), "{shown:?}");
}

#[tokio::test]
async fn start_fails_or_skips_when_held() {
    let all = Starts::new().await;
    all.fixture.grant("k", "worker 7", LONG).await;
    let fails = all.start("k", &["--if-held", "fail"]).await;
    assert_eq!(
        (fails.code, fails.out.as_str()),
        (Some(75), ""),
        "{fails:?}"
    );
    assert!(fails.err.contains("worker 7"), "{fails:?}");
    let skipped = all.start("k", &["--if-held", "skip"]).await;
    assert_eq!(skipped.code, Some(0), "{skipped:?}");
    assert_eq!(skipped.out, format!("skipped: {ONE}\n"));
    assert!(skipped.err.contains("k is held by worker 7"), "{skipped:?}");
    assert_eq!(all.fixture.inspect("k").await.waiting, 0);
    let both = all.start("k", &["--if-held", "skip", "--wait", "1h"]).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    assert!(
        both.err.contains("--if-held wait, latest or replace"),
        "{both:?}"
    );
}

#[tokio::test]
async fn invalid_start_stores_nothing() {
    let all = Starts::new().await;
    let file = all.fixture.home().join("input.json");
    std::fs::write(&file, "{n: 1}").unwrap();
    let file = file.to_str().unwrap();
    for (options, problem) in [
        (&["--input", "{n: 1}"][..], "'--input <JSON>': must be JSON"),
        (&["--input-file", file], "input.json: must be JSON"),
        (&["--input-file", "nowhere"], "nowhere: No such file"),
        (&["--input", "[]", "--pass-lease"], "must be an object"),
        (&["--keep", "15d"], "expected a number of seconds"),
    ] {
        let ran = all.start("k", options).await;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(problem), "{ran:?}");
    }
    let ran = all.run(&["start", "k", "orders"]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("must be the ARN of a state machine"));

    let mut command = all.fixture.command(&["start", "k", MACHINE]);
    command.env("AWS_ENDPOINT_URL_SFN", all.url());
    command.env("LEASE_STARTS", format!("orders/*={MACHINE}"));
    let ran = ended(command).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(
        ran.err.contains("may not be started through this key"),
        "{ran:?}"
    );
    let shown = all.run(&["show", "k"]).await;
    assert_eq!(shown.code, Some(1), "{shown:?}");
}

#[tokio::test]
async fn unanswered_start_can_be_repeated() {
    let all = Starts::new().await;
    let proxy = &all.fixture.proxy;
    proxy.inject(Fault::LoseRequest, "TransactWriteItems", 1000);
    let ran = all.start("k", &[]).await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.err.contains("the same command with --name one"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn failed_start_lists_repeat_command() {
    let all = Starts::new().await;
    let nothing = all.run(&["ls", "--failed"]).await;
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), ""));
    assert_eq!(nothing.err, "leasehold: no failed start matches\n");

    all.server.set_missing(MACHINE, true);
    let ran = all.start("order 42", &["--input", r#"{"n": 1}"#]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
    assert!(ran.err.contains("StateMachineDoesNotExist"), "{ran:?}");
    assert!(ran.err.contains("`leasehold ls --failed`"), "{ran:?}");
    assert_eq!(
        all.fixture.inspect("order 42").await.state,
        LeaseState::Free
    );

    let listed = all.run(&["ls", "--failed", "--region", "us-east-1"]).await;
    let command = format!("leasehold repeat-start 'order 42' {ONE} --region us-east-1");
    assert_eq!(
        masked(&listed.out),
        format!(
            "key  order 42\n\
             machine  {MACHINE}\n\
             name  one\n\
             asked  TIME (N s ago)\n\
             reason  StateMachineDoesNotExist: as asked\n\
             repeat  {command}\n"
        )
    );
    let failed = all.failed().await;
    let mut wanted = json!({
        "key": "order 42",
        "execution_arn": ONE,
        "state_machine_arn": MACHINE,
        "name": "one",
        "reason": "StateMachineDoesNotExist: as asked",
    });
    wanted["asked_at"] = failed["starts"][0]["asked_at"].clone();
    assert_eq!(failed, json!({"starts": [wanted]}));

    all.server.set_missing(MACHINE, false);
    let repeat = |command: &str| {
        let mut shell = all.fixture.program("sh");
        shell.env("AWS_ENDPOINT_URL_SFN", all.url());
        shell.args(["-c", &command.replacen("leasehold", "\"$LEASEHOLD\"", 1)]);
        ended(shell)
    };
    let repeated = repeat(&command).await;
    assert_eq!(repeated.code, Some(0), "{repeated:?}");
    assert_eq!(repeated.out, format!("started: {ONE}\n"));
    assert_eq!(all.server.input_of(ONE).unwrap(), r#"{"n": 1}"#);
    assert_eq!(all.failed().await, json!({"starts": []}));
    let again = repeat(&command).await;
    assert_eq!(again.out, format!("started: {ONE}\n"), "{again:?}");

    let unknown = all.run(&["repeat-start", "other", ONE]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("is no start through other"));
}

#[tokio::test]
async fn dismissed_start_is_not_listed() {
    let all = Starts::new().await;
    all.server.set_missing(MACHINE, true);
    assert_eq!(all.start("k", &[]).await.code, Some(1));
    let dismissed = all.run(&["dismiss-start", "k", ONE]).await;
    assert_eq!(
        dismissed.out,
        format!("dismissed: {ONE}\n"),
        "{dismissed:?}"
    );
    assert_eq!(all.failed().await, json!({"starts": []}));
    // It stays dismissed: for who says so again, and for a late copy of its call, which hears why.
    let again = all.run(&["dismiss-start", "k", ONE]).await;
    assert_eq!(again.out, format!("dismissed: {ONE}\n"), "{again:?}");
    all.server.set_missing(MACHINE, false);
    let late = all.start("k", &[]).await;
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(late.err.contains("StateMachineDoesNotExist"), "{late:?}");
    let other = all.run(&["dismiss-start", "other", ONE]).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.err.contains("has failed or waits"), "{other:?}");
}

/// By the command itself, and not by the next sweep.
#[tokio::test]
async fn dismissed_start_answers_its_task() {
    let all = Starts::new().await;
    assert_eq!(all.start("k", &[]).await.code, Some(0));
    let machine = StateMachineArn::new(MACHINE).unwrap();
    let name = ExecutionName::new("asked").unwrap();
    let mut start = Start::new(Key::new("k").unwrap(), machine, name);
    start.result_to = Some(ResultTo {
        task_token: TaskToken::new("of a task").unwrap(),
        caller: Holder::new(format!("{ONE}-caller")).unwrap(),
        stop_with_caller: false,
    });
    let execution = start.execution();
    all.stack().start(start).await.unwrap();
    let dismissed = all.run(&["dismiss-start", "k", execution.as_str()]).await;
    assert_eq!(dismissed.code, Some(0), "{dismissed:?}");
    let calls = all.server.calls();
    let told = calls
        .iter()
        .find(|call| call.operation == "SendTaskFailure");
    let told = told.expect("an answer");
    assert_eq!(told.body["taskToken"], "of a task");
    assert_eq!(told.body["error"], "Lease.NotStarted");
}

#[tokio::test]
async fn replace_stops_the_holder() {
    let all = Starts::new().await;
    assert_eq!(all.start("k", &[]).await.code, Some(0));
    let two = [
        "start",
        "k",
        MACHINE,
        "--name",
        "two",
        "--if-held",
        "replace",
    ];
    let ran = all.run(&two).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.starts_with("in the queue: "), "{ran:?}");
    let calls = all.server.calls();
    let stop = calls.iter().find(|call| call.operation == "StopExecution");
    assert_eq!(stop.expect("a stop").body["executionArn"], ONE);
}

/// Its lease would be free only when no late call can begin it.
#[tokio::test]
async fn stop_begins_and_stops_unbegun_start() {
    let all = Starts::new().await;
    all.server.fail_with(Some("InternalServerError"));
    let ran = all.start("k", &[]).await;
    assert!(ran.out.starts_with("in the queue: "), "{ran:?}");
    all.server.fail_with(None);
    let stop = [
        "force-release",
        "k",
        "--stop",
        "--yes",
        "--who",
        "alice",
        "--why",
        "ticket 7",
    ];
    let reaped = async {
        let is_stop = |call: &StepFunctionsCall| call.operation == "StopExecution";
        while !all.server.calls().iter().any(is_stop) {
            all.fixture.leases().sleep(Duration::from_millis(20)).await;
        }
        let ended = all.stack().reap(&Holder::new(ONE).unwrap()).await;
        ended.unwrap();
    };
    let (ran, ()) = tokio::join!(all.run(&stop), reaped);
    // A task of it may be at work: it keeps its lease for the grace time.
    assert!(ran.err.contains("asked Step Functions to stop"), "{ran:?}");
    assert!(ran.err.contains("may still be at work"), "{ran:?}");
}

#[tokio::test]
async fn long_list_of_failures_is_whole() {
    let all = Starts::new().await;
    all.server.set_missing(MACHINE, true);
    let stack = all.stack();
    for n in 0..101 {
        let name = ExecutionName::new(format!("n{n}")).unwrap();
        let machine = StateMachineArn::new(MACHINE).unwrap();
        let key = Key::new(format!("k{n:03}")).unwrap();
        let failed = stack.start(Start::new(key, machine, name)).await;
        assert!(failed.is_err(), "{failed:?}");
    }
    let failed = all.failed().await;
    let starts = failed["starts"].as_array().unwrap();
    assert_eq!(starts.len(), 101);
    assert_eq!(starts[100]["key"], "k100");
    let some = [
        "ls", "--failed", "--json", "--prefix", "k01", "--limit", "3",
    ];
    let some: Value = serde_json::from_str(&all.run(&some).await.out).unwrap();
    assert_eq!(some["starts"][2]["key"], "k012");
    assert_eq!(some["starts"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn pool_without_limit_is_served() {
    let world = Starts::new().await;
    let because = ["--who", "alice", "--why", "ticket 7", "--yes"];
    let pooled = async |key: &str| {
        let pool = ["--pool", "imports", "--pool-permits", "2"];
        let name = ["start", key, MACHINE, "--name", key];
        world.run(&[&name[..], &pool].concat()).await.out
    };
    let limit = async |permits| {
        let limit = [&["limit", "--pool", "imports", permits][..], &because].concat();
        world.run(&limit).await.out
    };
    assert!(pooled("a").await.starts_with("started: "));
    assert_eq!(limit("1").await, "pool imports is limited to 1\n");
    assert!(pooled("b").await.starts_with("in the queue: "));
    let said = "pool imports has no limit any more\nthe first waiter has it now\n";
    assert_eq!(limit("none").await, said);
}

#[tokio::test]
async fn pools_are_shown_and_limited() {
    let world = Starts::new().await;
    world.server.knows_what_began(MACHINE);
    let because = ["--who", "alice", "--why", "ticket 7", "--yes"];
    let pooled = async |key: &str| {
        let pool = ["--pool", "imports", "--pool-permits", "1"];
        let name = ["start", key, MACHINE, "--name", key];
        world.run(&[&name[..], &pool].concat()).await
    };
    let begun = pooled("a").await;
    assert!(begun.out.starts_with("started: "), "{begun:?}");
    let waits = pooled("b").await;
    assert!(waits.out.starts_with("in the queue: "), "{waits:?}");
    let shown = world.run(&["show", "b"]).await.out;
    let stop = ["force-release", "b", "--stop"];
    let stop = world.run(&[&stop[..], &because].concat()).await;
    assert_eq!(stop.code, Some(1), "{stop:?}");
    assert!(
        stop.err.contains("leasehold dismiss-start b arn:"),
        "{stop:?}"
    );
    let said = "held while it waits in pool imports\n";
    assert!(shown.contains(said), "{shown}");
    let shown = world.run(&["show", "--pool", "imports", "--waiters"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    for said in ["pool imports\n", "waiting  1 in the queue\n", "GIVES UP"] {
        assert!(shown.out.contains(said), "{shown:?}");
    }
    let listed = world.run(&["ls"]).await.out;
    assert!(
        listed.contains("while its execution runs, in pool imports"),
        "{listed}"
    );
    let json = world.run(&["ls", "--prefix", "a", "--json"]).await.out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["leases"][0]["in_pool"], "imports");
    let json = world
        .run(&["show", "--pool", "imports", "--json"])
        .await
        .out;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["lease"]["pool"], "imports");
    assert!(json["lease"]["key"].is_null());

    let waiting = world.run(&["ls", "--waiting"]).await.out;
    assert!(waiting.contains("\npool imports  "), "{waiting}");
    let limit = [&["limit", "--pool", "imports", "2"][..], &because].concat();
    let limited = world.run(&limit).await;
    let said = "pool imports is limited to 2\nthe first waiter has it now";
    assert!(limited.out.starts_with(said), "{limited:?}");
    for wrong in [
        &["limit", "--pool", "imports"][..],
        &["limit", "--pool", "imports", "k", "2"],
        &["limit", "2"],
        &["show", "k", "--pool", "imports"],
        &["start", "k", MACHINE, "--pool", "imports"],
    ] {
        let because = if wrong[0] == "limit" {
            &because[..]
        } else {
            &[]
        };
        let refused = world.run(&[wrong, because].concat()).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    let end = [&["force-release", "--pool", "imports"][..], &because].concat();
    let both = world.run(&end).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    for permit in ["0", "1"] {
        let one = [&end[..], &["--permit", permit]].concat();
        let ended = world.run(&one).await;
        let said = format!("permit {permit} of pool imports is released; ");
        assert!(ended.out.starts_with(&said), "{ended:?}");
    }
    assert_eq!(world.run(&end).await.out, "nobody holds pool imports\n");
    // It was one lease.
    let key = world.run(&["show", "a", "--json"]).await.out;
    let key: Value = serde_json::from_str(&key).unwrap();
    assert_eq!(key["state"], "free");
}
