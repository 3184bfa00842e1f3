//! `leasehold doctor` on the stack of the repository's own template, under its roles: what is sound passes, and each fault is
//! named.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_local::{
    Code, EnvironmentChanges, Options, Outcome, Schedules, Stack, session_token,
};
use leasehold_proof::fixture::scanned;
use leasehold_proof::program;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// What the program has written.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn report(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }

    /// The checks that ended like this.
    fn checks(&self, outcome: &str) -> BTreeSet<String> {
        let report = self.report();
        let checks = report["checks"].as_array().unwrap().iter();
        let checks = checks.filter(|check| check["outcome"] == outcome);
        checks
            .map(|check| check["check"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The doctor of the stack `leasehold`, or of the one that the arguments name.
async fn doctor(stack: &Stack, arguments: &[&str]) -> Ran {
    doctor_with(stack, &stack.cloudformation_url(), arguments).await
}

/// The same, with an endpoint of Service Quotas.
async fn doctor_with(stack: &Stack, quotas: &str, arguments: &[&str]) -> Ran {
    let home = tempfile::tempdir().unwrap();
    let named = ["doctor", "--stack", "leasehold"];
    let unnamed = if arguments.contains(&"--stack") { 1 } else { 3 };
    let output = Command::new(program("leasehold"))
        .args(&named[..unnamed])
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_SESSION_TOKEN", session_token())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env(
            "AWS_ENDPOINT_URL_CLOUDFORMATION",
            stack.cloudformation_url(),
        )
        .env("AWS_ENDPOINT_URL_DYNAMODB", stack.dynamodb_url())
        .env("AWS_ENDPOINT_URL_LAMBDA", stack.lambda_url())
        .env("AWS_ENDPOINT_URL_SERVICE_QUOTAS", quotas)
        .env("AWS_ENDPOINT_URL_SFN", stack.sfn_url())
        .output()
        .await
        .unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Swept all the time, with a margin that need not be waited for long.
fn options() -> Options {
    Options {
        parameters: [("ClockMarginMs".to_owned(), "500".to_owned())].into(),
        schedules: Schedules::Every(Duration::from_secs(1)),
        queue_delay: Some(Duration::from_secs(1)),
        ..scanned()
    }
}

#[tokio::test]
async fn sound_stack_passes_and_stays_unchanged() {
    let options = Options {
        engine: true,
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let machines = stack.deploy().await.unwrap();
    let mut invocations = stack.functions().invocations();

    let ran = doctor(&stack, &["--format", "json"]).await;
    let report = ran.report();
    assert_eq!(
        (ran.code, &report["outcome"]),
        (Some(0), &json!("passed")),
        "{report:#}"
    );
    // The embedded DynamoDB has no backups, and a local stack no quotas.
    let unknown = ["quotas", "recovery"].map(str::to_owned);
    assert_eq!(ran.checks("not_checked"), unknown.into());
    assert_eq!(
        ran.checks("passed").len() + 2,
        report["checks"].as_array().unwrap().len(),
        "{report:#}"
    );

    let mut secrets = 0;
    while let Ok(invocation) = invocations.try_recv() {
        let Outcome::Answer(answer) = invocation.outcome else {
            continue;
        };
        for rest in answer.split("\"lease_id\":\"").skip(1) {
            let secret = rest.split('"').next().unwrap();
            assert!(!ran.out.contains(secret) && !ran.err.contains(secret));
            secrets += 1;
        }
    }
    assert!(secrets > 10, "only {secrets} leases");
    // Nothing is held, nobody waits, nothing runs.
    let listed = stack
        .functions()
        .invoke("inspect", r#"{"list": true}"#)
        .await
        .unwrap();
    assert!(
        matches!(&listed.outcome, Outcome::Answer(text) if text == r#"{"leases":[]}"#),
        "{listed:?}"
    );
    let sfn = stack.sfn();
    let listed = sfn
        .list_executions()
        .state_machine_arn(&machines["WithLeaseStateMachine"]);
    let listed = listed.send().await.unwrap();
    let statuses: Vec<_> = listed
        .executions()
        .iter()
        .map(|one| one.status().as_str())
        .collect();
    assert_eq!(statuses, ["FAILED", "FAILED"]);
    // The starts that failed stay, as any do: one of the first execution, and two of the second, which was redriven.
    let scan = stack.dynamodb().scan().table_name(stack.tables()[0]);
    let items = scan.send().await.unwrap();
    let texts = |name: &str| {
        let texts = items.items().iter().map(|item| item[name].as_s().unwrap());
        texts.cloned().collect::<Vec<_>>()
    };
    let starts = texts("pk").into_iter().zip(texts("sk"));
    let is_ours = |(pk, sk): &(String, String)| {
        pk.starts_with("leasehold starts leasehold-doctor/") && sk.starts_with("START#")
    };
    assert_eq!(starts.filter(is_ours).count(), 3);

    let Ran { code, out, .. } = doctor(&stack, &["--read-only"]).await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.starts_with("leasehold doctor 0."), "{out}");
    assert!(out.contains(" passed, 0 failed, "), "{out}");
    let passed = "\n## Passed\n\n* **stack** (F26) ";
    assert!(out.contains(passed), "{out}");
    assert!(!out.contains("123456789012"), "{out}");

    // A grace that is shorter than the time limits of the functions that with-lease calls.
    let mut acquire = stack.functions().function("acquire").unwrap();
    let grace = ("LEASE_REAP_GRACE_SECONDS".to_owned(), "5".to_owned());
    acquire.environment.extend([grace]);
    stack.functions().register(acquire);
    let ran = doctor(&stack, &["--read-only", "--format", "json"]).await;
    assert!(ran.checks("failed").contains("grace"), "{}", ran.out);
    let told = "may run 30 seconds, and the grace has 5";
    assert!(ran.out.contains(told), "{}", ran.out);
    stack.stop().await;
}

#[tokio::test]
async fn read_only_writes_nothing_reports_unchecked() {
    let options = Options {
        schedules: Schedules::Never,
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    stack.proxy().reset();
    let mut invocations = stack.functions().invocations();
    let ran = doctor(&stack, &["--read-only", "--format", "json"]).await;
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    let reads = [
        "DescribeContinuousBackups",
        "DescribeTable",
        "DescribeTimeToLive",
        "Scan",
    ];
    let counts = stack.proxy().counts();
    let asked: Vec<_> = counts.iter().map(|(operation, _)| operation).collect();
    let is_read = |operation: &&str| reads.contains(operation);
    assert!(asked.iter().all(is_read), "{asked:?}");
    assert_eq!(invocations.try_recv().unwrap().verb, "inspect");
    assert!(invocations.try_recv().is_err());
    let report = ran.report();
    let of = |name: &str| {
        let mut checks = report["checks"].as_array().unwrap().iter();
        checks.find(|check| check["check"] == name).unwrap().clone()
    };
    assert_eq!(of("grant")["outcome"], "not_checked");
    // There is no engine here.
    assert_eq!(
        of("machine")["found"],
        json!(["Step Functions does not answer"])
    );
    assert_eq!(of("ttl")["outcome"], "passed");
    stack.stop().await;
}

/// A service that lists these quotas of Step Functions on two pages; its address.
async fn service_quotas(history: u32, describe: u32) -> String {
    let quota = |name: &str, value: u32| {
        let quotas = [
            json!({"QuotaName": format!("{name} throttle token bucket size"), "Value": 1}),
            json!({"QuotaName": format!("{name} throttle token refill rate per second"), "Value": value}),
        ];
        json!({"Quotas": quotas})
    };
    let mut first = quota("DescribeExecution", describe);
    first["NextToken"] = json!("more");
    let second = quota("GetExecutionHistory", history);
    let list = move |body: String| async move {
        let asked: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(asked["ServiceCode"], "states");
        let page = if asked["NextToken"] == "more" {
            second
        } else {
            first
        };
        page.to_string()
    };
    let routes = axum::Router::new().route("/", axum::routing::post(list));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, routes).await });
    format!("http://{address}")
}

#[tokio::test]
async fn quotas_below_the_documented_fail() {
    let options = Options {
        schedules: Schedules::Never,
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    let arguments = ["--read-only", "--format", "json"];
    let enough = service_quotas(20, 10).await;
    let ran = doctor_with(&stack, &enough, &arguments).await;
    assert!(ran.checks("passed").contains("quotas"), "{}", ran.out);
    let few = service_quotas(20, 9).await;
    let ran = doctor_with(&stack, &few, &arguments).await;
    assert!(ran.checks("failed").contains("quotas"), "{}", ran.out);
    let found = "DescribeExecution refills at 9 a second, and 10 is the lowest";
    assert!(ran.out.contains(found), "{}", ran.out);
    assert!(
        !ran.out.contains("GetExecutionHistory refills"),
        "{}",
        ran.out
    );
    stack.stop().await;
}

#[tokio::test]
async fn each_failure_has_own_exit_code() {
    let options = Options {
        schedules: Schedules::Never,
        ..options()
    };
    let stack = Stack::start(options).await.unwrap();
    for (arguments, code, said) in [
        (
            &["--stack", "others"][..],
            3,
            "Stack with id others does not exist",
        ),
        (
            &["--skip", "tls"][..],
            2,
            "no such check; the checks are stack, table, ",
        ),
        (&["--format", "yaml"], 2, "possible values: markdown, json"),
    ] {
        let ran = doctor(&stack, arguments).await;
        assert_eq!(ran.code, Some(code), "{}", ran.err);
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    stack.stop().await;
}

/// A stack that is wrong in one way.
struct Fault {
    what: &'static str,
    /// Whether it is seen without taking a lease.
    by_looking: bool,
    /// Makes the options wrong; files go into the directory.
    before: fn(&mut Options, &Path),
    /// Makes the running stack wrong.
    after: fn(&Stack),
    /// The check that fails.
    check: &'static str,
    /// A part of what it says.
    found: &'static str,
    /// What else fails, of what is looked at.
    also: &'static [&'static str],
}

const SOUND: Fault = Fault {
    what: "",
    by_looking: true,
    before: |_, _| {},
    after: |_| {},
    check: "",
    found: "",
    also: &[],
};

/// Changes a place in the template, given as a JSON pointer; null takes it away.
fn change(options: &mut Options, directory: &Path, place: &str, value: &Value) {
    let file = options.template.clone();
    let file = file.unwrap_or_else(|| options.root.join("local/template.json"));
    let text = std::fs::read_to_string(file).unwrap();
    let mut template: Value = serde_json::from_str(&text).unwrap();
    let (parent, name) = place.rsplit_once('/').unwrap();
    match template.pointer_mut(parent).unwrap() {
        Value::Object(fields) if value.is_null() => drop(fields.remove(name).unwrap()),
        Value::Object(fields) => drop(fields.insert(name.to_owned(), value.clone()).unwrap()),
        Value::Array(items) => drop(items.remove(name.parse().unwrap())),
        other => panic!("{place} is in {other}"),
    }
    let file = directory.join("template.json");
    std::fs::write(&file, template.to_string()).unwrap();
    options.template = Some(file);
}

/// Sets a variable of one function.
fn set(options: &mut Options, function: &str, name: &str, value: &str) {
    let changes = EnvironmentChanges::from([(name.to_owned(), Some(value.to_owned()))]);
    options.environment.insert(function.to_owned(), changes);
}

const FAULTS: &[Fault] = &[
    Fault {
        what: "TTL off",
        before: |options, directory| {
            let place = "/Resources/LeaseTable/Properties/TimeToLiveSpecification/Enabled";
            change(options, directory, place, &json!(false));
        },
        check: "ttl",
        found: "its TTL attribute is not purge_at",
        ..SOUND
    },
    Fault {
        what: "a table that may be deleted",
        before: |options, _| {
            let parameter = ("DeletionProtection".to_owned(), "false".to_owned());
            options.parameters.extend([parameter]);
        },
        check: "recovery",
        found: "deletion protection is off",
        ..SOUND
    },
    Fault {
        what: "the mappings of reap's queues off",
        before: |options, _| options.follow = false,
        check: "ends",
        found: "the event source mapping ReapFunctionAtOnce is Disabled",
        ..SOUND
    },
    Fault {
        what: "an index by another name",
        before: |options, directory| {
            let place = "/Resources/LeaseTable/Properties/GlobalSecondaryIndexes/0/IndexName";
            change(options, directory, place, &json!("holders"));
        },
        check: "index",
        found: "its index held is missing or of another shape",
        also: &["listing"],
        ..SOUND
    },
    Fault {
        what: "an attribute of another type",
        before: |options, directory| {
            let place = "/Resources/LeaseTable/Properties/AttributeDefinitions/2/AttributeType";
            change(options, directory, place, &json!("N"));
        },
        check: "table",
        found: "its attribute holder is not a string",
        ..SOUND
    },
    Fault {
        what: "durable functions whose ends nobody hears of",
        before: |options, _| {
            let list = "arn:aws:states:*,arn:aws:lambda:us-east-1:123456789012:function:orders";
            set(options, "acquire", "LEASE_EXECUTIONS", list);
        },
        check: "stack",
        found: "DurableEndRule is missing",
        ..SOUND
    },
    Fault {
        what: "another margin in one function",
        before: |options, _| set(options, "release", "LEASE_CLOCK_MARGIN_MS", "50"),
        check: "settings",
        found: "LEASE_CLOCK_MARGIN_MS is 500 in most functions, and 50 in release",
        ..SOUND
    },
    Fault {
        what: "a prefix of keys in one function",
        before: |options, _| set(options, "extend", "LEASE_KEY_PREFIX", "team/"),
        check: "settings",
        found: "LEASE_KEY_PREFIX is not set in most functions, and team/ in extend",
        ..SOUND
    },
    Fault {
        what: "a variable that cannot be read",
        before: |options, _| set(options, "sweep", "LEASE_GUARD_MS", "soon"),
        check: "settings",
        found: "sweep: environment variable LEASE_GUARD_MS must be a whole number",
        ..SOUND
    },
    Fault {
        what: "another table in one function",
        before: |options, _| set(options, "reap", "LEASE_TABLE", "Others"),
        check: "table-name",
        found: "LEASE_TABLE of reap is Others, the stack's table is LeaseTable",
        ..SOUND
    },
    Fault {
        what: "a function that is gone",
        after: |stack| stack.functions().remove("operate").unwrap(),
        check: "functions",
        found: "the function operate does not exist",
        ..SOUND
    },
    Fault {
        what: "another time limit",
        before: |options, directory| {
            let place = "/Resources/SweepFunction/Properties/Timeout";
            change(options, directory, place, &json!(3));
        },
        check: "functions",
        found: "the timeout of sweep is 3 s, the template's is 62 s",
        ..SOUND
    },
    Fault {
        what: "no alarms",
        before: |options, _| {
            let parameter = ("Monitoring".to_owned(), "disabled".to_owned());
            options.parameters.extend([parameter]);
        },
        check: "alarms",
        found: "the stack has no alarms",
        ..SOUND
    },
    Fault {
        what: "a machine that was never created",
        before: |options, _| options.engine = true,
        check: "machine",
        found: "the state machine with-lease does not exist",
        ..SOUND
    },
    Fault {
        what: "inspect may not list",
        before: |options, directory| {
            let place = "/Resources/InspectRole/Properties/Policies/0/PolicyDocument/Statement/1";
            change(options, directory, place, &Value::Null);
        },
        check: "listing",
        found: "Lease.Denied: dynamodb:Scan on table LeaseTable was refused",
        also: &["roles"],
        ..SOUND
    },
    Fault {
        what: "acquire may not count permits",
        by_looking: false,
        before: |options, directory| {
            let place =
                "/Resources/AcquireRole/Properties/Policies/0/PolicyDocument/Statement/0/Action/3";
            change(options, directory, place, &Value::Null);
        },
        check: "roles",
        found: "dynamodb:Query",
        ..SOUND
    },
    Fault {
        what: "a schedule that is off",
        by_looking: false,
        before: |options, _| options.schedules = Schedules::Never,
        check: "sweep",
        found: "an expired lease was not freed within 2 s",
        ..SOUND
    },
    Fault {
        what: "a clock that is a minute behind",
        by_looking: false,
        after: |stack| {
            let mut function = stack.functions().function("acquire").unwrap();
            function.code = Code::Binary(program("skewed-acquire"));
            let offset = ("REAL_CLOCK_OFFSET_MS".to_owned(), "-60000".to_owned());
            function.environment.extend([offset]);
            stack.functions().register(function);
        },
        check: "clock-functions",
        found: "acquire's clock is at least",
        ..SOUND
    },
];

/// Runs the doctor on a stack with this fault: what is wrong with what it says.
async fn missed(fault: &Fault) -> Option<String> {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options();
    (fault.before)(&mut options, directory.path());
    let stack = Stack::start(options).await.unwrap();
    (fault.after)(&stack);
    let mut arguments = vec!["--format", "json", "--patience", "2s"];
    if fault.by_looking {
        arguments.push("--read-only");
    }
    let ran = doctor(&stack, &arguments).await;
    stack.stop().await;
    let report = ran.report();
    let mut checks = report["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["check"] == fault.check).unwrap();
    let is_named = check["found"].to_string().contains(fault.found);
    let has_action = check["action"]
        .as_str()
        .is_some_and(|action| !action.is_empty());
    let failed = ran.checks("failed");
    let expected = std::iter::once(&fault.check).chain(fault.also);
    let expected: BTreeSet<_> = expected.map(ToString::to_string).collect();
    let is_found = if fault.by_looking {
        failed == expected
    } else {
        failed.contains(fault.check)
    };
    let (what, code, out) = (fault.what, ran.code, &ran.out);
    let is_right = is_named && has_action && is_found && code == Some(1);
    (!is_right).then(|| format!("{what}: {code:?}, failed {failed:?}: {out}"))
}

/// Seeds every fault, or those of `FAULT=word` alone, three at a time: most of their time goes by in waits.
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_named_with_remedy() {
    let only = std::env::var("FAULT").unwrap_or_default();
    let faults = FAULTS.iter().filter(|fault| fault.what.contains(&only));
    let three = Arc::new(Semaphore::new(3));
    let mut tried: JoinSet<_> = faults
        .map(|fault| {
            let three = Arc::clone(&three);
            async move {
                let _one = three.acquire().await;
                missed(fault).await
            }
        })
        .collect();
    let mut wrong = Vec::new();
    while let Some(missed) = tried.join_next().await {
        wrong.extend(missed.unwrap());
    }
    assert!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        FAULTS.len()
    );
    assert!(FAULTS.len() >= 12);
}
