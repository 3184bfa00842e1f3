//! `leasehold start` and `repeat-start`, and `leasehold ls --failed`.

use std::path::Path;
use std::time::Duration;

use crate::fixture::{Fixture, LEASEHOLD, Ran, TABLE, ended, masked};
use leasehold::{
    ExecutionName, Holder, Key, LeaseState, ResultTo, Start, StateMachineArn, TaskToken,
};
use leasehold_local::{Code, Fault, Function, LambdaHost};
use leasehold_proof::fake_step_functions::StepFunctionsCall;
use serde_json::{Value, json};

const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:orders";
const ONE: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:one";
const LONG: Duration = Duration::from_mins(10);
const BECAUSE: &str = "--who alice --why 'ticket 7' --yes";

/// `leasehold start KEY MACHINE --name one`, with more options.
async fn start(all: &Fixture, key: &str, options: &str) -> Ran {
    all.run(format!("start {key} {MACHINE} --name one {options}"))
        .await
}

async fn failed(all: &Fixture) -> Value {
    all.exits(0, "ls --failed --json").await.json()
}

#[tokio::test]
async fn free_key_starts_at_once() {
    let all = Fixture::with_step_functions().await;
    let input = r#"--input '{"n": 1}' --metadata team=payments"#;
    for _ in 0..2 {
        let ran = start(&all, "k", input).await.ended(0);
        assert_eq!(ran.out, format!("started: {ONE}\n"));
    }
    assert_eq!(all.step_functions().input_of(ONE).unwrap(), r#"{"n": 1}"#);
    let held = all.inspect("k").await.lease.held.unwrap();
    assert_eq!(held.holder.as_str(), ONE);
    assert_eq!(held.metadata.entries()["team"], "payments");

    let told = start(&all, "k", &format!("{input} --json")).await.json();
    assert_eq!(told, json!({"outcome": "started", "execution_arn": ONE}));
    let other = start(&all, "k", r#"--input '{"n": 2}'"#).await.ended(2);
    other.err_has("is in use by another start");
}

#[tokio::test]
async fn starts_share_key_and_pace() {
    let all = Fixture::with_step_functions().await;
    let start = async |key, name, options| {
        let line = format!("start {key} {MACHINE} --name {name} {options}");
        all.exits(0, line).await.out
    };
    for (name, wanted) in [
        ("a", "started: "),
        ("b", "started: "),
        ("c", "in the queue: "),
    ] {
        let said = start("shared", name, "--permits 2").await;
        assert!(said.starts_with(wanted), "{said}");
    }
    let said = start("paced", "d", "--at-least 10m").await;
    assert!(said.starts_with("started: "), "{said}");
    let seen = all.inspect("paced").await;
    let lease = seen.lease.held.unwrap();
    let opens_at = lease.acquired_at.plus(Duration::from_mins(10));
    assert_eq!(seen.opens_at, Some(opens_at));
}

#[tokio::test]
async fn key_with_waiters_only_is_listed() {
    let all = Fixture::with_step_functions().await;
    all.exits(0, format!("limit k 0 {BECAUSE}")).await;
    for name in ["a", "b"] {
        let ran = all.run(&["start", "k", MACHINE, "--name", name]).await;
        ran.out_begins("in the queue");
    }
    let ran = all.run("ls").await;
    assert_eq!(
        ran.err,
        "leasehold: no lease matches\nleasehold: 2 wait for 1 key (--waiting); 1 key limited (--limited)\n"
    );
    let ran = all.run("ls --waiting").await;
    assert_eq!(
        masked(&ran.out),
        "KEY  STATE  FROZEN  LIMIT  WAITING  HOLDER\nk  free  0  2\n"
    );
    let ran = all.run(format!("limit k none {BECAUSE}")).await;
    let who = "\nthe first waiter has it now\n";
    assert!(ran.out.ends_with(who), "{ran:?}");
    assert_eq!(all.step_functions().runs().len(), 1, "it is started");
}

#[tokio::test]
async fn eviction_serves_who_waits() {
    let all = Fixture::with_step_functions().await;
    all.grant("k", "worker", LONG).await;
    start(&all, "k", "").await.out_begins("in the queue");
    let ran = all.run(format!("force-release k {BECAUSE}")).await;
    let who = "\nthe first waiter has it now\n";
    assert!(ran.out.ends_with(who), "{ran:?}");
}

/// The command itself reaches no Step Functions: only the function has the right.
#[tokio::test]
async fn stacks_sweep_serves_who_waits() {
    let all = Fixture::with_step_functions().await;
    let logs = tempfile::tempdir().unwrap();
    let host = LambdaHost::start(logs.path(), 0).await.unwrap();
    let environment = [
        ("LEASE_TABLE", TABLE.to_owned()),
        ("LEASE_STARTS", MACHINE.to_owned()),
        ("AWS_ENDPOINT_URL_DYNAMODB", all.proxy.url()),
        ("AWS_ENDPOINT_URL_SFN", all.step_functions_url()),
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
    let by_the_stack = async |act| {
        let mut command = all.command(format!("{act} {BECAUSE}"));
        command.env("LEASEHOLD_SWEEP", "SweepFunction");
        command.env("AWS_ENDPOINT_URL_LAMBDA", host.url());
        ended(command).await.out
    };
    let who = "\nthe first waiter has it now\n";
    all.grant("k", "worker", LONG).await;
    start(&all, "k", "").await;
    let freed = by_the_stack("force-release k").await;
    assert!(freed.ends_with(who), "{freed}");
    by_the_stack("limit --pool imports 0").await;
    let pool = "--name two --pool imports --pool-permits 1";
    let waits = all.run(format!("start other {MACHINE} {pool}")).await;
    waits.out_begins("in the queue: ");
    let opened = by_the_stack("limit --pool imports 1").await;
    assert!(opened.ends_with(who), "{opened}");
    assert_eq!(all.step_functions().runs().len(), 2);
    host.stop().await;
}

/// A missing right costs nobody the place: who was granted the key is told by the stack.
#[tokio::test]
async fn who_may_not_start_leaves_it_to_the_stack() {
    let all = Fixture::with_step_functions().await;
    all.grant("k", "worker", LONG).await;
    start(&all, "k", "").await;
    all.step_functions()
        .fail_with(Some("AccessDeniedException"));
    let ran = all.run(format!("force-release k {BECAUSE}")).await;
    ran.out_has("\none waits in the queue: ");
    ran.ended(0);
    assert_eq!(failed(&all).await, json!({"starts": []}));
}

#[tokio::test]
async fn refused_start_has_not_begun() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().fail_with(Some("ThrottlingException"));
    start(&all, "k", "").await.out_begins("in the queue");
    let ran = all.run("show k").await;
    ran.out_has("held, its execution has not begun");
    all.step_functions().fail_with(None);
    start(&all, "k", "").await.out_begins("started");
    all.run("show k").await.out_has("while its execution runs");
}

#[tokio::test]
async fn a_machine_may_be_an_option() {
    let all = Fixture::with_step_functions().await;
    let line = format!("start k --state-machine {MACHINE} --name one");
    all.run(line).await.is(0, &format!("started: {ONE}\n"));
    all.exits(2, "start k").await;
}

#[tokio::test]
async fn input_file_gets_the_lease() {
    let all = Fixture::with_step_functions().await;
    let file = all.home().join("input.json");
    std::fs::write(&file, r#"{"n": 1}"#).unwrap();
    let file = file.to_str().unwrap();
    let options = format!("--input-file {file} --pass-lease");
    start(&all, "k", &options).await.ended(0);
    let input: Value = serde_json::from_str(&all.step_functions().input_of(ONE).unwrap()).unwrap();
    assert_eq!(
        (&input["n"], &input["leasehold"]["key"]),
        (&json!(1), &json!("k"))
    );
}

#[tokio::test]
async fn held_key_queues_the_start() {
    let all = Fixture::with_step_functions().await;
    let other = all.grant("k", "worker 7", LONG).await;
    let ran = start(&all, "k", "--wait 1h --keep 1d").await.ended(0);
    let wanted = format!("in the queue: {ONE} begins when it is granted the key\n");
    assert_eq!(ran.out, wanted);
    ran.err_has("k is held by worker 7 for another");
    let told = start(&all, "k", "--json").await.json();
    assert_eq!(
        (&told["outcome"], &told["execution_arn"]),
        (&json!("queued"), &json!(ONE))
    );
    assert_eq!(all.step_functions().input_of(ONE), None);

    let shown = all.run("show k --waiters").await;
    let table = masked(&shown.out);
    let (_, table) = table.split_once("\n\n").unwrap();
    let line = format!("1  N s ago  in 59 min N s  start  {ONE}\n");
    assert_eq!(table, format!("PLACE  CAME  GIVES UP  WHAT  WHO\n{line}"));
    let shown = all.run("show k --waiters --json").await.json();
    assert_eq!(shown["outcome"], "found");
    let waiter = &shown["waiters"][0];
    assert_eq!(
        (&waiter["place"], &waiter["holder"], &waiter["start"]),
        (&json!(1), &json!(ONE), &json!(true))
    );

    let _ = all.leases().release(&other.lease).await.unwrap();
    assert!(
        all.stack()
            .await
            .hand_over(&Key::new("k").unwrap())
            .await
            .unwrap()
    );
    assert_eq!(all.step_functions().input_of(ONE).unwrap(), "{}");
    all.run("show k").await.out_has("1 d after a failure");
}

#[tokio::test]
async fn start_fails_or_skips_when_held() {
    let all = Fixture::with_step_functions().await;
    all.grant("k", "worker 7", LONG).await;
    let fails = start(&all, "k", "--if-held fail").await;
    fails.is(75, "");
    fails.err_has("worker 7");
    let skipped = start(&all, "k", "--if-held skip").await.ended(0);
    assert_eq!(skipped.out, format!("skipped: {ONE}\n"));
    skipped.err_has("k is held by worker 7");
    assert_eq!(all.inspect("k").await.waiting, 0);
    let both = start(&all, "k", "--if-held skip --wait 1h").await.ended(2);
    both.err_has("--if-held wait, latest or replace");
}

#[tokio::test]
async fn invalid_start_stores_nothing() {
    let all = Fixture::with_step_functions().await;
    let file = all.home().join("input.json");
    std::fs::write(&file, "{n: 1}").unwrap();
    let file = file.to_str().unwrap();
    for (options, problem) in [
        ("--input '{n: 1}'", "'--input <JSON>': must be JSON"),
        (&format!("--input-file {file}"), "input.json: must be JSON"),
        ("--input-file nowhere", "nowhere: No such file"),
        ("--input [] --pass-lease", "must be an object"),
        ("--keep 15d", "expected a number of seconds"),
    ] {
        start(&all, "k", options).await.ended(2).err_has(problem);
    }
    let ran = all.exits(2, "start k orders").await;
    ran.err_has("must be the ARN of a state machine");

    let mut command = all.command(&["start", "k", MACHINE]);
    command.env("LEASE_STARTS", format!("orders/*={MACHINE}"));
    let ran = ended(command).await.ended(2);
    ran.err_has("may not be started through this key");
    all.exits(1, "show k").await;
}

#[tokio::test]
async fn unanswered_start_can_be_repeated() {
    let all = Fixture::with_step_functions().await;
    let proxy = &all.proxy;
    proxy.inject(Fault::LoseRequest, "TransactWriteItems", 1000);
    let ran = start(&all, "k", "").await.ended(3);
    ran.err_has("the same command with --name one");
}

#[tokio::test]
async fn failed_start_lists_repeat_command() {
    let all = Fixture::with_step_functions().await;
    let nothing = all.run("ls --failed").await;
    nothing.is(0, "");
    assert_eq!(nothing.err, "leasehold: no failed start matches\n");

    all.step_functions().set_missing(MACHINE, true);
    let ran = start(&all, "'order 42'", r#"--input '{"n": 1}'"#).await;
    ran.is(1, "");
    ran.err_has("StateMachineDoesNotExist");
    ran.err_has("`leasehold ls --failed`");
    assert_eq!(all.inspect("order 42").await.state, LeaseState::Free);

    let listed = all.run("ls --failed --region us-east-1").await;
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
    let listed = failed(&all).await;
    let mut wanted = json!({
        "key": "order 42",
        "execution_arn": ONE,
        "state_machine_arn": MACHINE,
        "name": "one",
        "reason": "StateMachineDoesNotExist: as asked",
    });
    wanted["asked_at"] = listed["starts"][0]["asked_at"].clone();
    assert_eq!(listed, json!({"starts": [wanted]}));

    all.step_functions().set_missing(MACHINE, false);
    let repeat = |command: &str| {
        let mut shell = all.program("sh");
        shell.args(["-c", &command.replacen("leasehold", "\"$LEASEHOLD\"", 1)]);
        ended(shell)
    };
    let repeated = repeat(&command).await.ended(0);
    assert_eq!(repeated.out, format!("started: {ONE}\n"));
    assert_eq!(all.step_functions().input_of(ONE).unwrap(), r#"{"n": 1}"#);
    assert_eq!(failed(&all).await, json!({"starts": []}));
    let again = repeat(&command).await;
    assert_eq!(again.out, format!("started: {ONE}\n"), "{again:?}");

    let unknown = all.exits(2, &["repeat-start", "other", ONE]).await;
    unknown.err_has("is no start through other");
}

#[tokio::test]
async fn dismissed_start_is_not_listed() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().set_missing(MACHINE, true);
    assert_eq!(start(&all, "k", "").await.code, Some(1));
    let dismissed = all.run(&["dismiss-start", "k", ONE]).await;
    assert_eq!(
        dismissed.out,
        format!("dismissed: {ONE}\n"),
        "{dismissed:?}"
    );
    assert_eq!(failed(&all).await, json!({"starts": []}));
    // It stays dismissed: for who says so again, and for a late copy of its call, which hears why.
    let again = all.run(&["dismiss-start", "k", ONE]).await;
    assert_eq!(again.out, format!("dismissed: {ONE}\n"), "{again:?}");
    all.step_functions().set_missing(MACHINE, false);
    let late = start(&all, "k", "").await.ended(1);
    late.err_has("StateMachineDoesNotExist");
    let other = all.exits(1, &["dismiss-start", "other", ONE]).await;
    other.err_has("has failed or waits");
}

/// By the command itself, and not by the next sweep.
#[tokio::test]
async fn dismissed_start_answers_its_task() {
    let all = Fixture::with_step_functions().await;
    assert_eq!(start(&all, "k", "").await.code, Some(0));
    let machine = StateMachineArn::new(MACHINE).unwrap();
    let name = ExecutionName::new("asked").unwrap();
    let mut start = Start::new(Key::new("k").unwrap(), machine, name);
    start.result_to = Some(ResultTo {
        task_token: TaskToken::new("of a task").unwrap(),
        caller: Holder::new(format!("{ONE}-caller")).unwrap(),
        stop_with_caller: false,
    });
    let execution = start.execution();
    all.stack().await.start(start).await.unwrap();
    all.exits(0, &["dismiss-start", "k", execution.as_str()])
        .await;
    let calls = all.step_functions().calls();
    let told = calls
        .iter()
        .find(|call| call.operation == "SendTaskFailure");
    let told = told.expect("an answer");
    assert_eq!(told.body["taskToken"], "of a task");
    assert_eq!(told.body["error"], "Lease.NotStarted");
}

#[tokio::test]
async fn replace_stops_the_holder() {
    let all = Fixture::with_step_functions().await;
    assert_eq!(start(&all, "k", "").await.code, Some(0));
    let two = format!("start k {MACHINE} --name two --if-held replace");
    all.exits(0, &two).await.out_begins("in the queue: ");
    let calls = all.step_functions().calls();
    let stop = calls.iter().find(|call| call.operation == "StopExecution");
    assert_eq!(stop.expect("a stop").body["executionArn"], ONE);
}

/// Its lease would be free only when no late call can begin it.
#[tokio::test]
async fn stop_begins_and_stops_unbegun_start() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().fail_with(Some("InternalServerError"));
    let ran = start(&all, "k", "").await;
    ran.out_begins("in the queue: ");
    all.step_functions().fail_with(None);
    let stop = "force-release k --stop --yes --who alice --why 'ticket 7'";
    let reaped = async {
        let is_stop = |call: &StepFunctionsCall| call.operation == "StopExecution";
        while !all.step_functions().calls().iter().any(is_stop) {
            all.leases().sleep(Duration::from_millis(20)).await;
        }
        let ended = all.stack().await.reap(&Holder::new(ONE).unwrap()).await;
        ended.unwrap();
    };
    let (ran, ()) = tokio::join!(all.run(stop), reaped);
    // A task of it may be at work: it keeps its lease for the grace time.
    ran.err_has("asked Step Functions to stop");
    ran.err_has("may still be at work");
}

#[tokio::test]
async fn long_list_of_failures_is_whole() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().set_missing(MACHINE, true);
    let stack = all.stack().await;
    for n in 0..101 {
        let name = ExecutionName::new(format!("n{n}")).unwrap();
        let machine = StateMachineArn::new(MACHINE).unwrap();
        let key = Key::new(format!("k{n:03}")).unwrap();
        let failed = stack.start(Start::new(key, machine, name)).await;
        assert!(failed.is_err(), "{failed:?}");
    }
    let all_failed = failed(&all).await;
    let starts = all_failed["starts"].as_array().unwrap();
    assert_eq!(starts.len(), 101);
    assert_eq!(starts[100]["key"], "k100");
    let some = "ls --failed --json --prefix k01 --limit 3";
    let some = all.run(some).await.json();
    assert_eq!(some["starts"][2]["key"], "k012");
    assert_eq!(some["starts"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn pool_without_limit_is_served() {
    let all = Fixture::with_step_functions().await;
    let pooled = async |key: &str| {
        let pool = "--pool imports --pool-permits 2";
        let name = format!("start {key} {MACHINE} --name {key}");
        all.run(format!("{name} {pool}")).await.out
    };
    let limit = async |permits| {
        let limit = format!("limit --pool imports {permits} {BECAUSE}");
        all.run(limit).await.out
    };
    assert!(pooled("a").await.starts_with("started: "));
    assert_eq!(limit("1").await, "pool imports is limited to 1\n");
    assert!(pooled("b").await.starts_with("in the queue: "));
    let said = "pool imports has no limit any more\nthe first waiter has it now\n";
    assert_eq!(limit("none").await, said);
}

#[tokio::test]
async fn pools_are_shown_and_limited() {
    let all = Fixture::with_step_functions().await;
    all.step_functions().knows_what_began(MACHINE);
    let pooled = async |key: &str| {
        let pool = "--pool imports --pool-permits 1";
        let name = format!("start {key} {MACHINE} --name {key}");
        all.run(format!("{name} {pool}")).await
    };
    pooled("a").await.out_begins("started: ");
    let waits = pooled("b").await;
    waits.out_begins("in the queue: ");
    let shown = all.run("show b").await.out;
    let stop = "force-release b --stop";
    let stop = all.exits(1, format!("{stop} {BECAUSE}")).await;
    stop.err_has("leasehold dismiss-start b arn:");
    let said = "held while it waits in pool imports\n";
    assert!(shown.contains(said), "{shown}");
    let shown = all.exits(0, "show --pool imports --waiters").await;
    for said in [
        "pool imports\n",
        "waiting  1 in the queue, the first for ",
        "GIVES UP",
    ] {
        shown.out_has(said);
    }
    let listed = all.run("ls").await.out;
    assert!(
        listed.contains("while its execution runs, in pool imports"),
        "{listed}"
    );
    let json = all.run("ls --prefix a --json").await.json();
    assert_eq!(json["leases"][0]["in_pool"], "imports");
    let json = all.run("show --pool imports --json").await.json();
    assert_eq!(json["lease"]["pool"], "imports");
    assert!(json["lease"]["key"].is_null());

    let waiting = all.run("ls --waiting").await.out;
    assert!(waiting.contains("\npool imports  "), "{waiting}");
    let limit = format!("limit --pool imports 2 {BECAUSE}");
    let limited = all.run(limit).await;
    let said = "pool imports is limited to 2\nthe first waiter has it now";
    limited.out_begins(said);
    for wrong in [
        format!("limit --pool imports {BECAUSE}"),
        format!("limit --pool imports k 2 {BECAUSE}"),
        format!("limit 2 {BECAUSE}"),
        "show k --pool imports".to_owned(),
        format!("start k {MACHINE} --pool imports"),
    ] {
        all.exits(2, &wrong).await;
    }
    let end = format!("force-release --pool imports {BECAUSE}");
    all.exits(2, &end).await;
    for permit in ["0", "1"] {
        let ended = all.run(format!("{end} --permit {permit}")).await;
        ended.out_begins(&format!("permit {permit} of pool imports is released; "));
    }
    assert_eq!(all.run(&end).await.out, "nobody holds pool imports\n");
    // It was one lease.
    let key = all.run("show a --json").await.json();
    assert_eq!(key["state"], "free");
}
