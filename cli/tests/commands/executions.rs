//! Leases of executions: `leasehold redrive`, and `leasehold force-release --stop`.

use std::sync::Arc;

use crate::fixture::{Fixture, Ran, ended};
use leasehold::{Acquire, Granted, Holder, KeepTime, Key, LeaseState, Lifetime, Queue, Reaped};
use leasehold_lambda::StepFunctions;
use leasehold_local::session_token;
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;

const EXECUTION: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:7f3c";
const BECAUSE: [&str; 5] = ["--who", "alice", "--why", "ticket 7", "--yes"];

struct Executions {
    fixture: Fixture,
    server: FakeStepFunctionsServer,
}

impl Executions {
    async fn start() -> Self {
        let server = FakeStepFunctionsServer::open().await.unwrap();
        let fixture = Fixture::start().await;
        Self { fixture, server }
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

    async fn grant(&self, key: &str) -> Granted {
        self.grant_and_keep(key, KeepTime::default()).await
    }

    async fn grant_and_keep(&self, key: &str, keep: KeepTime) -> Granted {
        self.grant_to(EXECUTION, key, keep).await
    }

    async fn grant_to(&self, holder: &str, key: &str, keep: KeepTime) -> Granted {
        let (key, holder) = (Key::new(key).unwrap(), Holder::new(holder).unwrap());
        let request = Acquire::new(key, holder, Lifetime::Execution { keep });
        let acquired = self.fixture.leases().acquire(request).await.unwrap();
        acquired.granted().unwrap()
    }

    /// The stack's reap, as often as it takes.
    async fn reaps(&self) {
        let config = aws_config::SdkConfig::builder()
            .behavior_version(aws_config::BehaviorVersion::v2026_01_12())
            .region(aws_config::Region::new("us-east-1"))
            .endpoint_url(self.url())
            .credentials_provider(
                aws_credential_types::provider::SharedCredentialsProvider::new(
                    aws_credential_types::Credentials::new(
                        "local",
                        "local",
                        Some(session_token().to_owned()),
                        None,
                        "test",
                    ),
                ),
            )
            .build();
        let leases: Queue<_> = self
            .fixture
            .leases()
            .with_engine(Arc::new(StepFunctions::new(&config)));
        let holder = Holder::new(EXECUTION).unwrap();
        while leases.reap(&holder).await.unwrap() == Reaped::Running {
            leases.sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn forced_release_says_execution_runs_on() {
    let all = Executions::start().await;
    all.grant("k").await;
    let ran = all
        .run(&[&["force-release", "k"][..], &BECAUSE].concat())
        .await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.err.contains("works on beside the next holder"),
        "{ran:?}"
    );
    all.fixture
        .grant("t", "worker 7", std::time::Duration::from_secs(600))
        .await;
    let ran = all
        .run(&[&["force-release", "t", "--stop"][..], &BECAUSE].concat())
        .await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("worker 7 is no execution"), "{ran:?}");
    let durable = "arn:aws:lambda:us-east-1:123456789012:function:orders:7/durable-execution/a/b";
    all.grant_to(durable, "d", KeepTime::default()).await;
    let ran = all
        .run(&[&["force-release", "d", "--stop"][..], &BECAUSE].concat())
        .await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains("stop-durable-execution"), "{ran:?}");
}

#[tokio::test]
async fn stop_ends_running_execution() {
    let all = Executions::start().await;
    all.server.run(EXECUTION);
    all.grant("k").await;
    let ask = [&["force-release", "k", "--stop"][..], &BECAUSE].concat();
    // A task of it may be at work: it is stopped, and keeps its lease for the grace time.
    let (ran, ()) = tokio::join!(all.run(&ask), all.reaps());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err
            .contains("asked Step Functions to stop arn:aws:states"),
        "{ran:?}"
    );
    assert!(
        ran.err
            .contains("may still be at work; its lease ends in 1"),
        "{ran:?}"
    );
    assert!(ran.err.contains("without --stop"), "{ran:?}");
    let seen = all.fixture.inspect("k").await;
    assert_eq!(seen.state, LeaseState::Held);
    let act = seen.operator.map(|record| record.act);
    assert_eq!(act, Some(leasehold::Act::Stop));
}

#[tokio::test]
async fn stop_waits_for_no_kept_lease() {
    let all = Executions::start().await;
    all.server.run(EXECUTION);
    let day = KeepTime::new(std::time::Duration::from_hours(24)).unwrap();
    all.grant_and_keep("k", day).await;
    let ask = [&["force-release", "k", "--stop"][..], &BECAUSE].concat();
    let ran = all.run(&ask).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.err
            .contains("kept for 1 d after its end, for a redrive"),
        "{ran:?}"
    );
    assert!(ran.err.contains("if nobody will redrive it"), "{ran:?}");
}

/// It is kept only after a failure.
#[tokio::test]
async fn stop_frees_kept_lease_of_success() {
    let all = Executions::start().await;
    let day = KeepTime::new(std::time::Duration::from_hours(24)).unwrap();
    all.grant_and_keep("k", day).await;
    let ask = [&["force-release", "k", "--stop"][..], &BECAUSE].concat();
    let asked_and_reaped = async {
        while all.server.calls().is_empty() {
            all.fixture
                .leases()
                .sleep(std::time::Duration::from_millis(10))
                .await;
        }
        all.reaps().await;
    };
    let (ran, ()) = tokio::join!(all.run(&ask), asked_and_reaped);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[tokio::test]
async fn stop_frees_lease_without_work() {
    let all = Executions::start().await;
    all.server.run(EXECUTION);
    all.server.has_received(EXECUTION, "{}");
    all.grant("k").await;
    let ask = [&["force-release", "k", "--stop", "--json"][..], &BECAUSE].concat();
    let (ran, ()) = tokio::join!(all.run(&ask), all.reaps());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let wanted = serde_json::json!({"outcome": "stopped", "execution": EXECUTION});
    assert_eq!(told, wanted);
    assert_eq!(all.fixture.inspect("k").await.state, LeaseState::Free);
}

#[tokio::test]
async fn list_shows_last_look_at_execution() {
    let all = Executions::start().await;
    all.grant("k").await;
    // It has succeeded, and nobody has looked yet.
    for command in [&["ls"][..], &["show", "k"]] {
        let ran = all.run(command).await;
        let over = "though its execution ended 0 s ago (SUCCEEDED): the next check is due in 4 min";
        assert!(ran.out.contains(over), "{ran:?}");
    }
    all.server.run(EXECUTION);
    let until = "while its execution runs";
    for command in [&["ls"][..], &["show", "k"]] {
        let ran = all.run(command).await;
        assert!(ran.out.contains(until), "{ran:?}");
    }
    // It is over, something of it may be at work, and it was asked about.
    all.server.stop(EXECUTION);
    all.reaps().await;
    for command in [&["ls"][..], &["show", "k"]] {
        let ran = all.run(command).await;
        let over = "(ABORTED), and a task of it may still be at work: the next check is due in 1";
        assert!(ran.out.contains(over), "{ran:?}");
    }
}

#[tokio::test]
async fn list_shows_last_look_when_kept() {
    let all = Executions::start().await;
    let day = KeepTime::new(std::time::Duration::from_hours(24)).unwrap();
    all.grant_and_keep("k", day).await;
    all.server.stop(EXECUTION);
    all.reaps().await;
    for command in [&["ls"][..], &["show", "k"]] {
        let ran = all.run(command).await;
        let kept = "(ABORTED), and it may be redriven: the next check is due in ";
        assert!(ran.out.contains(kept), "{ran:?}");
    }
}

#[tokio::test]
async fn redrive_takes_only_free_keys() {
    let all = Executions::start().await;
    let other = all.run(&["redrive", "foo"]).await;
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.err.contains("foo is no execution"), "{other:?}");
    let running = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(running.code, Some(1), "{running:?}");
    assert!(running.err.contains("cannot be redriven: it is SUCCEEDED"));

    all.server.stop(EXECUTION);
    let nothing = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(nothing.code, Some(1), "{nothing:?}");
    assert!(nothing.err.contains("shows a lease"), "{nothing:?}");
    let mut outputs = Vec::new();
    for key in ["orders/1", "orders/2"] {
        let granted = all.grant(key).await;
        outputs.push(serde_json::to_value(&granted.lease).unwrap());
        if key == "orders/1" {
            let _ = all.fixture.leases().release(&granted.lease).await.unwrap();
        }
    }
    let output = serde_json::json!({"outcome": "acquired", "leases": outputs});
    all.server.has_received(EXECUTION, &output.to_string());

    let hour = std::time::Duration::from_secs(3600);
    let other = all.fixture.grant("orders/1", "worker 7", hour).await;
    let held = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(held.code, Some(75), "{held:?}");
    assert!(
        held.err
            .contains("not redriven: orders/1 is held by worker 7")
    );

    let _ = all.fixture.leases().release(&other.lease).await.unwrap();
    let redriven = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(redriven.code, Some(0), "{redriven:?}");
    assert!(
        redriven.out.contains("orders/1 is taken back"),
        "{redriven:?}"
    );
    assert!(
        redriven.out.contains("orders/2 is still its own"),
        "{redriven:?}"
    );
    assert!(redriven.out.ends_with(&format!("redriven: {EXECUTION}\n")));
    let seen = all.fixture.inspect("orders/1").await.lease.held.unwrap();
    assert_eq!(seen.holder.as_str(), EXECUTION);

    // It runs by now.
    let again = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("it is RUNNING"), "{again:?}");
}

/// By one lease, which needs room in the pool.
#[tokio::test]
async fn redrive_takes_the_key_with_its_pool() {
    let all = Executions::start().await;
    let machine = EXECUTION.replacen(":execution:", ":stateMachine:", 1);
    let machine = machine.trim_end_matches(":7f3c");
    let pool = ["--pool", "imports", "--pool-permits", "1"];
    let start = ["start", "orders/1", machine, "--name", "7f3c"];
    let started = all.run(&[&start[..], &pool].concat()).await;
    assert!(started.out.starts_with("started: "), "{started:?}");
    all.server.stop(EXECUTION);
    let redriven = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(redriven.code, Some(0), "{redriven:?}");
    let lines = redriven.out.lines();
    let names: Vec<_> = lines.filter_map(|line| line.split_once(" is ")).collect();
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["orders/1"]);
    let shown = all.run(&["show", "orders/1"]).await.out;
    assert!(shown.contains("in pool imports"), "{shown}");
    // Who has been redriven without it has it again only if there is room.
    all.server.stop(EXECUTION);
    let because = ["--who", "alice", "--why", "ticket 7", "--yes"];
    for act in [
        &["force-release", "orders/1"][..],
        &["limit", "--pool", "imports", "0"],
    ] {
        let done = all.run(&[act, &because].concat()).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let refused = all.run(&["redrive", EXECUTION]).await;
    assert_eq!(refused.code, Some(75), "{refused:?}");
    assert!(refused.err.contains("pool imports"), "{refused:?}");
    let shown = all.run(&["show", "orders/1"]).await.out;
    assert!(shown.contains("free"), "{shown}");
}
