//! Starts that wait for a key.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{
    Case, FakeStepFunctions, LIMIT, MARGIN, MS, STALE, StartFate, counted, invalid, make, plus,
    with,
};
use leasehold::{
    Acquire, AtLeast, Error, Execution, ExecutionInput, ExecutionName, ForceReleaseOutcome,
    HeldUntil, Holder, IfHeld, KeepTime, Lease, Leases, Lifetime, LimitedTo, PassLease, Queued,
    ReleaseOutcome, RequestDigest, Settings, Start, StartItem, StartRules, StartStatus, Started,
    StateMachineArn, SweepBounds, TaskToken, Wait, WaitTime,
    metrics::Metric,
    request::InsteadOf,
    row::{Row, Stored},
    store::{Address, Operations as _, PutStart},
    transition::{Change, Join, JoinRule},
};

pub(super) const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:work";
pub(super) const HOUR: Duration = Duration::from_hours(1);

pub(super) struct StartCase {
    pub(super) case: Case,
    pub(super) calls: Arc<FakeStepFunctions>,
}

pub(super) fn execution(name: &str) -> Holder {
    make::holder(format!(
        "arn:aws:states:eu-west-1:123456789012:execution:work:{name}"
    ))
}

/// The same start under another name.
pub(super) fn named(item: StartItem, name: &str) -> StartItem {
    let name = ExecutionName::new(name).expect("valid");
    let mut request = item.request;
    request.holder = item.state_machine.execution(&name);
    request.digest = RequestDigest::of_start(&request.holder);
    StartItem {
        name,
        request,
        ..item
    }
}

/// The handle of the execution lease that a row carries, which nobody was given.
pub(super) fn lease_of(at: &Address, row: &Row) -> Lease {
    let held = row.holding().expect("held");
    let handle = json!({
        "lifetime": "execution",
        "key": at.key,
        "holder": row.granted_to,
        "lease_id": held.lease_id,
        "fencing_token": row.fencing_token,
        "version": row.version,
        "acquired_at": held.acquired_at,
        "permit": at.permit,
        "metadata": held.metadata,
    });
    serde_json::from_value(handle).expect("a handle")
}

fn input(json: &str) -> ExecutionInput {
    ExecutionInput::new(json).expect("valid")
}

impl StartCase {
    pub(super) fn new(key: &str) -> Self {
        Self::with(key, Settings::default())
    }

    pub(super) fn with(key: &str, settings: Settings) -> Self {
        let mut case = Case::new(&format!("starts/{key}"));
        let calls = Arc::new(FakeStepFunctions::default());
        let starts = StartRules::of(&format!("starts/*={MACHINE}")).expect("valid");
        case.leases = Leases::new(case.table.clone(), settings)
            .with_clock(case.clock.clone())
            .with_engine(calls.clone())
            .with_starts(starts);
        Self { case, calls }
    }

    /// A key that an execution has, which was started through it.
    pub(super) async fn held(key: &str) -> Self {
        let case = Self::new(key);
        case.starts("first").await;
        case
    }

    pub(super) fn request(&self, name: &str) -> Start {
        let machine = StateMachineArn::new(MACHINE).expect("valid");
        let key = self.case.address.key.clone();
        let name = ExecutionName::new(name).expect("valid");
        with(Start::new(key, machine, name), |start| {
            start.if_held = IfHeld::Wait(WaitTime::new(HOUR).expect("valid"));
            start.input = input(r#"{"n": 1}"#);
        })
    }

    pub(super) async fn ask(&self, name: &str) -> Result<Started, Error> {
        self.case.leases.start(self.request(name)).await
    }

    pub(super) async fn starts(&self, name: &str) {
        let answer = self.ask(name).await.expect("an answer");
        let execution_arn = execution(name);
        assert_eq!(answer, Started::Started { execution_arn });
    }

    pub(super) async fn queues(&self, name: &str) {
        let answer = self.ask(name).await.expect("an answer");
        assert!(matches!(answer, Started::Queued { .. }), "{answer:?}");
    }

    pub(super) fn has_started(&self, names: &[&str]) {
        let started = self.calls.started();
        let started: Vec<_> = started.keys().map(String::as_str).collect();
        let mut wanted: Vec<_> = names.iter().map(|name| execution(name)).collect();
        wanted.sort();
        let wanted: Vec<_> = wanted.iter().map(Holder::as_str).collect();
        assert_eq!(started, wanted);
    }

    pub(super) async fn item(&self, name: &str) -> Option<StartItem> {
        let request = RequestDigest::of_start(&execution(name));
        let (key, limit) = (&self.case.address.key, Duration::from_secs(1));
        let item = self
            .case
            .leases
            .store()
            .start_item(key, &request, limit)
            .await;
        item.expect("an answer")
    }

    pub(super) async fn status(&self, name: &str) -> StartStatus {
        self.item(name).await.expect("an item").status
    }

    /// The execution ends, and reap hears of it.
    pub(super) async fn ends(&self, name: &str) {
        let over = Execution::Ended {
            stopped_at: self.case.now(),
            redrivable: false,
            all_answered: true,
        };
        self.calls.set_execution(execution(name).as_str(), over);
        self.case.pass(MS);
        let reaped = self.case.leases.reap(&execution(name)).await;
        reaped.expect("an answer");
    }

    pub(super) async fn is_free(&self) {
        assert!(self.case.row().await.holding().is_none());
    }

    pub(super) async fn holds(&self, name: &str) {
        let row = self.case.row().await;
        assert!(
            row.holding().is_some() && row.granted_to == execution(name),
            "{row:?}"
        );
    }

    /// The failed starts of its key.
    pub(super) async fn listed(&self) -> Vec<String> {
        let listed = self.case.leases.failed_starts(100, None).await;
        let (listed, _) = listed.expect("a list");
        let key = &self.case.address.key;
        let ours = listed.into_iter().filter(|item| item.key == *key);
        ours.map(|item| item.name.to_string()).collect()
    }

    pub(super) async fn fails(&self, name: &str, reason: &str) {
        match self.status(name).await {
            StartStatus::Failed(why) => assert!(why.contains(reason), "{why}"),
            other => panic!("{name} has not failed: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_free_key_starts_at_once() {
    let case = StartCase::new("free");
    case.starts("first").await;
    case.has_started(&["first"]);
    case.holds("first").await;
    assert_eq!(case.status("first").await, StartStatus::Begun);
    let sent = case.calls.started();
    assert_eq!(sent[execution("first").as_str()], r#"{"n": 1}"#);
    // Again while it runs, and after it has ended.
    case.starts("first").await;
    case.ends("first").await;
    case.is_free().await;
    case.starts("first").await;
    case.is_free().await;
}

#[tokio::test]
async fn starts_begin_in_their_order() {
    let case = StartCase::held("order").await;
    // More than the model has.
    let names: Vec<_> = (0..40).map(|n| format!("of-many-{n}")).collect();
    for name in &names {
        case.queues(name).await;
        // Asked for twice, it has one place.
        case.queues(name).await;
    }
    let (mut begun, mut ends) = (vec!["first"], "first");
    for begins in &names {
        case.ends(ends).await;
        begun.push(begins);
        case.has_started(&begun);
        case.holds(begins).await;
        assert_eq!(case.status(begins).await, StartStatus::Begun);
        ends = begins;
    }
    case.ends(ends).await;
    case.is_free().await;
}

#[tokio::test]
async fn repeated_start_serves_left_queue() {
    let case = StartCase::held("left").await;
    case.queues("a").await;
    case.queues("b").await;
    let over = Execution::Ended {
        stopped_at: case.case.now(),
        redrivable: false,
        all_answered: true,
    };
    case.calls.set_execution(execution("first").as_str(), over);
    case.case.pass(MS);
    // Whoever may start nothing frees the key.
    let none = case.case.leases.clone().with_starts(StartRules::default());
    let _ = none.reap(&execution("first")).await.expect("an answer");
    case.is_free().await;
    case.has_started(&["first"]);
    case.queues("b").await;
    case.has_started(&["first", "a"]);
    case.holds("a").await;
    let _ = none.reap(&execution("first")).await.expect("an answer");
    case.ends("a").await;
    case.ends("b").await;
    case.has_started(&["first", "a", "b"]);
}

#[tokio::test]
async fn a_name_is_one_start() {
    let case = StartCase::held("name").await;
    case.queues("a").await;
    for name in ["first", "a"] {
        let other = with(case.request(name), |start| {
            start.input = input(r#"{"n": 2}"#);
        });
        invalid(case.case.leases.start(other).await, "name");
        // The same as JSON.
        let same = with(case.request(name), |start| {
            start.input = input(r#"{ "n" : 1 }"#);
        });
        case.case.leases.start(same).await.expect("the same");
    }
}

#[tokio::test]
async fn only_what_is_listed_starts() {
    let case = StartCase::new("listed");
    let unlisted = with(case.request("a"), |start| {
        start.state_machine = StateMachineArn::new(format!("{MACHINE}2")).expect("valid");
    });
    invalid(case.case.leases.start(unlisted).await, "state_machine_arn");
    let elsewhere = with(case.request("a"), |start| {
        start.key = make::key("another key");
    });
    invalid(case.case.leases.start(elsewhere).await, "state_machine_arn");
    assert_eq!(case.item("a").await, None);
    // The list has changed since it was queued.
    let mut case = StartCase::held("unlisted later").await;
    case.queues("a").await;
    let none = case.case.leases.clone().with_starts(StartRules::default());
    let others = StartRules::of(&format!("starts/*={MACHINE}2")).expect("valid");
    // Who may start nothing leaves it to those who may.
    let _ = none.reap(&execution("first")).await.expect("an answer");
    case.case.leases = case.case.leases.clone().with_starts(others);
    case.ends("first").await;
    case.has_started(&["first"]);
    case.fails("a", "StartedStateMachine").await;
}

#[tokio::test]
async fn start_without_wait_fails_or_skips() {
    let case = StartCase::held("no wait").await;
    let ask = |name: &str, if_held| with(case.request(name), |start| start.if_held = if_held);
    let failed = case.case.leases.start(ask("a", IfHeld::Fail)).await;
    assert!(
        matches!(&failed, Err(Error::Held(held)) if held.held.holder == execution("first")),
        "{failed:?}"
    );
    assert_eq!(case.item("a").await, None);
    let skipped = case.case.leases.start(ask("b", IfHeld::Skip)).await;
    let skipped = skipped.expect("an answer");
    assert!(
        matches!(&skipped, Started::Skipped { held: Some(_), .. }),
        "{skipped:?}"
    );
    case.ends("first").await;
    // It is answered the same, and what failed may be asked for anew.
    let skipped = case.case.leases.start(ask("b", IfHeld::Skip)).await;
    assert!(
        matches!(skipped, Ok(Started::Skipped { held: None, .. })),
        "{skipped:?}"
    );
    case.starts("a").await;
    case.has_started(&["first", "a"]);
}

#[tokio::test]
async fn sweep_repeats_lost_call() {
    for (n, fate) in [StartFate::Lost, StartFate::AnswerLost]
        .into_iter()
        .enumerate()
    {
        let case = StartCase::new(&format!("lost {n}"));
        case.calls.script_starts("a", &[fate]);
        case.queues("a").await;
        case.queues_behind("b").await;
        case.case.swept_later().await;
        case.has_started(&["a"]);
        case.holds("a").await;
        assert_eq!(case.status("a").await, StartStatus::Begun);
        case.ends("a").await;
        case.has_started(&["a", "b"]);
        case.ends("b").await;
    }
    // It has ended before anybody knows that it began.
    let case = StartCase::new("lost and over");
    case.calls.script_starts("a", &[StartFate::AnswerLost]);
    case.queues("a").await;
    case.ends("a").await;
    case.case.pass(HOUR + STALE);
    case.case.swept().await;
    case.ends("a").await;
    assert_eq!(case.status("a").await, StartStatus::Begun);
    case.is_free().await;
}

impl StartCase {
    async fn queues_behind(&self, name: &str) {
        self.queues(name).await;
        assert_eq!(self.case.row().await.waiting().len(), 1);
    }
}

#[tokio::test]
async fn a_throttled_start_keeps_its_turn() {
    let case = StartCase::held("throttled").await;
    case.queues("a").await;
    case.queues("b").await;
    case.calls
        .script_starts("a", &[StartFate::Throttled, StartFate::Throttled]);
    case.ends("first").await;
    case.has_started(&["first"]);
    case.holds("a").await;
    case.case.swept_later().await;
    case.has_started(&["first", "a"]);
    case.ends("a").await;
    case.has_started(&["first", "a", "b"]);
    case.ends("b").await;
}

/// A sweep in the moment of the call is no other caller.
#[tokio::test]
async fn refusal_beside_sweep_passes_key_on() {
    let case = StartCase::held("beside sweep").await;
    case.queues("a").await;
    case.queues("b").await;
    case.calls.script_starts("a", &[StartFate::Refused]);
    let leases = case.case.leases.clone();
    case.calls.before("a", async move {
        drop(leases.sweep(SweepBounds::Schedule).await.expect("swept"));
    });
    case.ends("first").await;
    case.has_started(&["first", "b"]);
    case.fails("a", "StateMachineDoesNotExist").await;
}

#[tokio::test]
async fn refused_start_can_be_repeated() {
    let case = StartCase::held("refused").await;
    case.queues("a").await;
    case.queues("b").await;
    case.calls.script_starts("a", &[StartFate::Refused]);
    let ((), failed) = counted(Metric::FailedStarts, case.ends("first")).await;
    assert_eq!(failed, 1);
    // The turn passes on at once.
    case.has_started(&["first", "b"]);
    case.fails("a", "StateMachineDoesNotExist").await;
    let again = case.ask("a").await;
    assert!(matches!(again, Err(Error::NotStarted { .. })), "{again:?}");
    case.case.pass(Duration::from_hours(48));
    case.case.swept().await;
    let key = &case.case.address.key;
    assert_eq!(case.listed().await, ["a"]);
    let repeated = case.case.leases.repeat_start(key, &execution("a")).await;
    assert!(
        matches!(repeated, Ok(Started::Queued { .. })),
        "{repeated:?}"
    );
    case.ends("b").await;
    case.has_started(&["first", "b", "a"]);
    let repeated = case.case.leases.repeat_start(key, &execution("a")).await;
    assert!(
        matches!(repeated, Ok(Started::Started { .. })),
        "{repeated:?}"
    );
    case.ends("a").await;
    // A free key: the caller is told at once.
    case.calls.script_starts("c", &[StartFate::Refused]);
    let refused = case.ask("c").await;
    assert!(
        matches!(refused, Err(Error::NotStarted { .. })),
        "{refused:?}"
    );
    case.is_free().await;
}

#[tokio::test]
async fn refusal_waits_for_lost_call() {
    let case = StartCase::new("refused later");
    case.calls
        .script_starts("a", &[StartFate::Lost, StartFate::Refused]);
    case.queues("a").await;
    case.queues_behind("b").await;
    case.case.swept_later().await;
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    // A minute to call, five of a signature, and an answer that is half a minute old.
    case.case.pass(Duration::from_mins(6) + MARGIN);
    case.case.pass(STALE.saturating_sub(MS));
    case.case.swept().await;
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    case.holds("a").await;
    case.case.pass(MS);
    case.case.swept().await;
    case.fails("a", "refused").await;
    case.has_started(&["b"]);
    case.ends("b").await;
    // The lost call did arrive.
    let case = StartCase::new("arrived later");
    case.calls
        .script_starts("a", &[StartFate::Lost, StartFate::Refused]);
    case.queues("a").await;
    case.case.swept_later().await;
    case.calls
        .start_elsewhere(execution("a").as_str(), r#"{"n": 1}"#);
    case.case.pass(Duration::from_mins(6) + MARGIN + STALE);
    case.case.swept().await;
    assert_eq!(case.status("a").await, StartStatus::Begun);
    case.holds("a").await;
    case.ends("a").await;
}

#[tokio::test]
async fn a_name_in_use_elsewhere_fails() {
    let case = StartCase::held("used").await;
    case.queues("a").await;
    case.queues("b").await;
    case.calls
        .start_elsewhere(execution("a").as_str(), r#"{"n": 7}"#);
    case.ends("first").await;
    case.fails("a", "another input").await;
    case.holds("b").await;
    case.ends("b").await;
}

#[tokio::test]
async fn start_waits_only_its_time() {
    let case = StartCase::held("too long").await;
    case.queues("a").await;
    case.case.pass(HOUR.saturating_sub(MS));
    case.case.swept().await;
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    case.case.pass(MS);
    let version = case.case.row().await.version;
    case.calls
        .set_execution(execution("first").as_str(), Execution::Running);
    for failed in [1, 0] {
        let (_, counts) = counted(Metric::FailedStarts, case.case.swept()).await;
        assert_eq!(counts, failed, "once");
    }
    case.fails("a", "3600 seconds").await;
    let row = case.case.row().await;
    assert_eq!((row.waiting(), row.version), (&[][..], plus(version, 1)));
    // Somebody has started it by hand meanwhile.
    case.queues("b").await;
    case.calls
        .start_elsewhere(execution("b").as_str(), r#"{"n": 1}"#);
    case.case.pass(HOUR);
    case.case.swept().await;
    assert_eq!(case.status("b").await, StartStatus::Begun);
    case.ends("first").await;
    case.is_free().await;
}

#[tokio::test]
async fn start_without_place_gets_one() {
    let case = StartCase::held("lost place").await;
    case.queues("a").await;
    let waiting = case.item("a").await.expect("an item");
    // The place of this one is lost.
    let stray = named(waiting, "b");
    let limit = Duration::from_secs(1);
    let put = case
        .case
        .leases
        .store()
        .put_start(&stray, None, None, None, limit)
        .await;
    assert_eq!(put.expect("an answer"), PutStart::Done);
    // For a minute the service may not show that it has begun.
    case.case.swept().await;
    assert_eq!(case.case.row().await.waiting().len(), 1);
    case.case.pass(Duration::from_mins(1));
    case.case.swept().await;
    assert_eq!(case.case.row().await.waiting().len(), 2);
    // The row is deleted by hand, and the queue with it.
    case.case.delete();
    case.case.swept().await;
    let begun = case.calls.started().len();
    assert_eq!(begun, 2, "one of the two has the key");
    case.case.pass(Duration::from_mins(1));
    case.case.swept().await;
    assert_eq!(case.case.row().await.waiting().len(), 1);
    for name in ["a", "b", "a"] {
        case.ends(name).await;
    }
    case.has_started(&["first", "a", "b"]);
}

#[tokio::test]
async fn a_place_lost_too_late_fails() {
    let case = StartCase::held("lost too late").await;
    case.queues("a").await;
    let waiting = case.item("a").await.expect("an item");
    // It was to wait for nobody.
    let stored = StartItem {
        deadline: case.case.now(),
        ..named(waiting, "b")
    };
    let (store, limit) = (case.case.leases.store(), Duration::from_secs(1));
    let put = store.put_start(&stored, None, None, None, limit).await;
    assert_eq!(put.expect("an answer"), PutStart::Done);
    case.case.swept().await;
    assert_eq!(case.status("b").await, StartStatus::Waiting);
    // Somebody may have called for it until then.
    case.case.pass(Duration::from_mins(8) + MARGIN);
    case.case.swept().await;
    case.fails("b", "not free").await;
    case.ends("first").await;
    case.ends("a").await;
    case.has_started(&["first", "a"]);
}

/// Nothing is stored of what is refused, so that it may be asked for anew.
#[tokio::test]
async fn what_is_refused_leaves_nothing() {
    let case = StartCase::held("leaves nothing").await;
    let fail = |name: &str| with(case.request(name), |start| start.if_held = IfHeld::Fail);
    refused!(case.case.leases.start(fail("a")).await, Held);
    assert_eq!(case.item("a").await, None);
    case.ends("first").await;
    let started = case.case.leases.start(fail("a")).await;
    assert!(
        matches!(started, Ok(Started::Started { .. })),
        "{started:?}"
    );
    case.ends("a").await;
}

#[tokio::test]
async fn start_that_ran_never_runs_again() {
    let case = StartCase::new("given back");
    case.calls.script_starts("a", &[StartFate::AnswerLost]);
    case.queues("a").await;
    let row = case.case.row().await;
    let lease = lease_of(&case.case.address, &row);
    assert_eq!(case.case.give_back(&lease).await, ReleaseOutcome::Released);
    case.starts("b").await;
    case.case.pass(Duration::from_mins(1));
    case.case.swept().await;
    assert_eq!(case.status("a").await, StartStatus::Begun);
    case.ends("b").await;
    case.has_started(&["a", "b"]);
    case.is_free().await;
    // A row that remembers nothing: who asks again gets no place before the service was asked.
    case.calls.script_starts("c", &[StartFate::AnswerLost]);
    case.queues("c").await;
    case.case.delete();
    // Later than the first call, of which it would be the same write.
    case.case.pass(MS);
    case.starts("c").await;
    assert_eq!(case.status("c").await, StartStatus::Begun);
    let (address, limit) = (&case.case.address, Duration::from_secs(1));
    let stored = case.case.leases.store().read_row(address, limit).await;
    assert_eq!(
        stored.expect("an answer"),
        Stored::Absent,
        "it holds nothing"
    );
}

#[tokio::test]
async fn lease_is_passed_in_input() {
    let case = StartCase::new("passed");
    let passes = |name: &str| {
        with(case.request(name), |start| {
            start.pass_lease = PassLease::Token;
        })
    };
    let list = with(passes("a"), |start| start.input = input("[1]"));
    invalid(case.case.leases.start(list).await, "input");
    let has_one = with(passes("a"), |start| {
        start.input = input(r#"{"leasehold": 1}"#);
    });
    invalid(case.case.leases.start(has_one).await, "input");
    case.calls.script_starts("a", &[StartFate::AnswerLost]);
    let _ = case.case.leases.start(passes("a")).await.expect("accepted");
    let token = case.case.row().await.fencing_token;
    let sent = case.calls.started();
    let sent: serde_json::Value =
        serde_json::from_str(&sent[execution("a").as_str()]).expect("JSON");
    let lease = serde_json::json!({"key": case.case.address.key, "fencing_token": token});
    assert_eq!(sent, serde_json::json!({"n": 1, "leasehold": lease}));
    case.case.swept_later().await;
    assert_eq!(case.status("a").await, StartStatus::Begun);
    case.ends("a").await;
}

/// What a redrive writes is a proof, and whoever granted the key was no redrive.
#[tokio::test]
async fn immediate_failure_passes_key_on() {
    let case = StartCase::held("failed at once").await;
    case.queues("a").await;
    let failed = Execution::Ended {
        stopped_at: case.case.now(),
        redrivable: true,
        all_answered: true,
    };
    case.calls
        .set_execution(execution("first").as_str(), failed);
    let reaped = case.case.leases.reap(&execution("first")).await;
    reaped.expect("an answer");
    case.holds("a").await;
    case.ends("a").await;
    // An end before the grant is of an earlier run of that name, which may be redriven.
    case.starts("b").await;
    case.queues("c").await;
    let earlier = Execution::Ended {
        stopped_at: case.case.now().minus(HOUR),
        redrivable: true,
        all_answered: true,
    };
    case.calls.set_execution(execution("b").as_str(), earlier);
    let _ = case
        .case
        .leases
        .reap(&execution("b"))
        .await
        .expect("an answer");
    case.holds("b").await;
    case.ends("b").await;
    case.ends("c").await;
}

#[tokio::test]
async fn passed_handle_releases_key_early() {
    let case = StartCase::new("handle");
    let first = with(case.request("a"), |start| {
        start.pass_lease = PassLease::Handle;
    });
    case.case.leases.start(first).await.expect("started");
    case.queues("b").await;
    let sent = case.calls.started();
    let sent: serde_json::Value =
        serde_json::from_str(&sent[execution("a").as_str()]).expect("JSON");
    let passed = &sent["leasehold"];
    let lease: Lease = serde_json::from_value(passed["lease"].clone()).expect("a handle");
    assert_eq!(passed["fencing_token"], lease.fencing_token.get());
    assert_eq!(case.case.give_back(&lease).await, ReleaseOutcome::Released);
    case.has_started(&["a", "b"]);
    case.holds("b").await;
    case.ends("b").await;
}

/// As weave and CDK write sections: re-entrant, with a release at the end.
#[tokio::test]
async fn a_section_keeps_the_key_of_its_start() {
    let case = StartCase::held("section").await;
    case.queues("second").await;
    let lifetime = Lifetime::Execution {
        keep: KeepTime::default(),
    };
    let section = Acquire::new(case.case.address.key.clone(), execution("first"), lifetime);
    let wait = Wait {
        task_token: TaskToken::new("of the section").expect("valid"),
        wait: WaitTime::DAY,
        latest: false,
    };
    let asked = case
        .case
        .leases
        .acquire_queued(section.reentrant(), wait)
        .await;
    assert_eq!(asked.expect("an answer"), Queued::Acquired);
    let told = case.calls.take_answers().remove(0).output();
    let lease: Lease = serde_json::from_value(told["lease"].clone()).expect("a handle");
    assert_eq!(case.case.give_back(&lease).await, ReleaseOutcome::Kept);
    case.has_started(&["first"]);
    case.ends("first").await;
    case.has_started(&["first", "second"]);
}

#[tokio::test]
async fn replace_stops_what_key_started() {
    let case = StartCase::held("replaced").await;
    let replaces = |name: &str| {
        with(case.request(name), |start| {
            start.if_held = IfHeld::Replace(WaitTime::DAY);
        })
    };
    let by_a = || {
        let why = format!("replaced by {}", execution("a"));
        (execution("first").to_string(), why)
    };
    // Also a repeated call stops it: the first may have died before.
    for _ in 0..2 {
        let queued = case.case.leases.start(replaces("a")).await;
        let queued = queued.expect("an answer");
        assert!(matches!(queued, Started::Queued { .. }), "{queued:?}");
        assert_eq!(case.calls.take_stopped(), [by_a()]);
    }
    case.ends("first").await;
    case.holds("a").await;
    // It does not replace itself.
    case.case.leases.start(replaces("a")).await.expect("begun");
    assert_eq!(case.calls.take_stopped(), []);
    case.ends("a").await;
    case.is_free().await;
    // A call that begins it may be under way: it cannot be stopped yet, and who is to replace it waits.
    case.calls.script_starts("b", &[StartFate::Lost]);
    case.queues("b").await;
    refused!(case.case.leases.start(replaces("c")).await, Unavailable);
    assert_eq!(case.calls.take_stopped(), []);
    case.case.swept_later().await;
    case.holds("b").await;
    let queued = case.case.leases.start(replaces("c")).await;
    queued.expect("an answer");
    assert_eq!(case.calls.take_stopped()[0].0, execution("b").as_str());
    // Whoever may not stop it waits all the same.
    case.calls.deny_execution(execution("b").as_str());
    let queued = case.case.leases.start(replaces("d")).await;
    let queued = queued.expect("an answer");
    assert!(matches!(queued, Started::Queued { .. }), "{queued:?}");
    assert_eq!(case.calls.take_stopped(), []);
    let (leases, key) = (&case.case.leases, &case.case.address.key);
    // Only the newest waits.
    let by_d = StartStatus::Superseded(execution("d"));
    assert_eq!(case.status("c").await, by_d);
    let begun = leases.begin_start(key, &execution("d")).await;
    assert!(!begun.expect("an answer"), "it has not its turn");
    let dismissed = leases.dismiss_start(key, &execution("d")).await;
    assert!(dismissed.expect("an answer"));
    case.case.evict(None).await;
}

#[tokio::test]
async fn who_cannot_replace_the_holder_fails() {
    let case = StartCase::new("not replaced");
    // Whoever acquires may name any execution.
    let named = execution("of somebody else");
    let held = case.case.lease(named.as_str()).await;
    let replaces = with(case.request("a"), |start| {
        start.if_held = IfHeld::Replace(WaitTime::DAY);
    });
    refused!(case.case.leases.start(replaces.clone()).await, Held);
    assert_eq!(case.calls.take_stopped(), []);
    assert_eq!(case.item("a").await, None);
    assert_eq!(case.case.give_back(&held).await, ReleaseOutcome::Released);
    // And whoever writes rows, any request.
    case.starts("first").await;
    let row = case.case.row().await;
    case.calls.start_elsewhere(named.as_str(), "{}");
    let forged = Row {
        granted_to: named,
        ..row.clone()
    };
    case.case
        .table
        .put(case.case.address.clone(), &forged.to_item());
    refused!(case.case.leases.start(replaces).await, Held);
    assert_eq!(case.calls.take_stopped(), []);
    case.case
        .table
        .put(case.case.address.clone(), &row.to_item());
    case.ends("first").await;
}

/// The newest has its place, and its caller dies before the others are sent away.
#[tokio::test]
async fn sweep_finishes_what_the_newest_began() {
    for instead_of in [InsteadOf::Waiters, InsteadOf::Holder] {
        let case = StartCase::held(&format!("half the newest {instead_of:?}")).await;
        case.queues("a").await;
        let newest = with(case.item("a").await.expect("an item"), |item| {
            item.request.instead_of = Some(instead_of);
        });
        let newest = named(newest, "b");
        let join = Change::Join(Join {
            request: newest.digest(),
            rule: JoinRule::Always,
            cap: 9,
        });
        let (store, with) = (case.case.leases.store(), Some((&case.case.address, &join)));
        let put = store.put_start(&newest, None, None, with, LIMIT).await;
        assert_eq!(put.expect("an answer"), PutStart::Done);
        case.case.swept().await;
        let by_b = StartStatus::Superseded(execution("b"));
        assert_eq!(case.status("a").await, by_b);
        assert_eq!(case.case.row().await.waiting(), [newest.digest()]);
        let stopped = case.calls.take_stopped();
        assert_eq!(stopped.is_empty(), instead_of == InsteadOf::Waiters);
        for name in ["first", "b"] {
            case.ends(name).await;
        }
        case.has_started(&["first", "b"]);
    }
}

#[tokio::test]
async fn only_the_newest_start_waits() {
    let case = StartCase::held("only the newest").await;
    let latest = |name: &str| {
        with(case.request(name), |start| {
            start.if_held = IfHeld::Latest(WaitTime::DAY);
        })
    };
    case.queues("a").await;
    case.queues("b").await;
    for _ in 0..2 {
        let queued = case.case.leases.start(latest("c")).await;
        let queued = queued.expect("an answer");
        assert!(matches!(queued, Started::Queued { .. }), "{queued:?}");
        for name in ["a", "b"] {
            let by_c = StartStatus::Superseded(execution("c"));
            assert_eq!(case.status(name).await, by_c);
        }
        // A duplicate of what was sent away does not come back.
        for again in [case.request("a"), latest("a")] {
            let again = case.case.leases.start(again).await.expect("an answer");
            let by = execution("c");
            let execution_arn = execution("a");
            assert_eq!(again, Started::Superseded { execution_arn, by });
        }
    }
    assert_eq!(case.calls.take_stopped(), []);
    case.case.pass(HOUR);
    case.case.swept().await;
    case.ends("first").await;
    case.holds("c").await;
    // Whoever has the key keeps it.
    case.case.leases.start(latest("d")).await.expect("queued");
    case.holds("c").await;
    case.ends("c").await;
    case.holds("d").await;
    case.ends("d").await;
    case.is_free().await;
}

#[tokio::test]
async fn only_so_many_run_at_once() {
    let case = StartCase::new("permits");
    let of_two = |name: &str| {
        with(case.request(name), |start| {
            start.permits = Some(make::permits(2));
            start.pass_lease = PassLease::Token;
        })
    };
    let ask = async |name: &str| {
        let answer = case.case.leases.start(of_two(name)).await;
        answer.expect("an answer")
    };
    for name in ["a", "b"] {
        let execution_arn = execution(name);
        assert_eq!(ask(name).await, Started::Started { execution_arn });
    }
    for name in ["c", "d", "e", "f"] {
        let queued = ask(name).await;
        let Started::Queued { held, .. } = queued else {
            panic!("{queued:?}");
        };
        assert!(held.is_some_and(|held| held.holder != execution(name)));
    }
    let sent = case.calls.started();
    let mut permits = ["a", "b"].map(|name| {
        let input = &sent[execution(name).as_str()];
        let input: serde_json::Value = serde_json::from_str(input).expect("JSON");
        input["leasehold"]["permit"].as_u64().expect("a number")
    });
    permits.sort_unstable();
    assert_eq!(permits, [0, 1]);
    // Again: it keeps its place.
    assert!(matches!(ask("c").await, Started::Queued { .. }));
    let mut skips = of_two("skipped");
    skips.if_held = IfHeld::Skip;
    let skipped = case.case.leases.start(skips).await;
    assert!(
        matches!(skipped, Ok(Started::Skipped { .. })),
        "{skipped:?}"
    );
    let mut replaces = of_two("replaces");
    replaces.if_held = IfHeld::Replace(WaitTime::DAY);
    invalid(case.case.leases.start(replaces).await, "permits");
    case.has_started(&["a", "b"]);
    // A lower number, while nobody has the first permit: whoever does not wait is told who has another.
    let lowered = with(case.request("lowered"), |start| {
        start.if_held = IfHeld::Fail;
        start.permits = Some(make::permits(1));
    });
    let refused = case.case.leases.start(lowered.clone()).await;
    assert!(matches!(refused, Err(Error::Held(_))), "{refused:?}");
    // A higher number counts when those with the lower one have ended.
    let raised = with(case.request("raised"), |start| {
        start.if_held = IfHeld::Skip;
        start.permits = Some(make::permits(3));
    });
    let skipped = case.case.leases.start(raised).await;
    assert!(
        matches!(skipped, Ok(Started::Skipped { .. })),
        "{skipped:?}"
    );
    // Whichever ends, the next begins.
    case.ends("b").await;
    case.has_started(&["a", "b", "c"]);
    case.ends("a").await;
    case.has_started(&["a", "b", "c", "d"]);
    // One that cannot begin makes room for the next.
    case.calls.script_starts("e", &[StartFate::Refused]);
    case.ends("c").await;
    case.fails("e", "StateMachineDoesNotExist").await;
    case.has_started(&["a", "b", "c", "d", "f"]);
    let started = ask("c").await;
    assert!(matches!(started, Started::Started { .. }), "{started:?}");
    for name in ["d", "f"] {
        case.ends(name).await;
    }
    let waiting = case.case.row().await;
    assert_eq!(waiting.waiting(), []);
    for name in ["x", "y"] {
        ask(name).await;
    }
    let first = case.case.row().await.granted_to;
    let ends = if first == execution("x") { "x" } else { "y" };
    case.ends(ends).await;
    let refused = case.case.leases.start(lowered).await;
    assert!(matches!(refused, Err(Error::Held(_))), "{refused:?}");
    assert!(case.item("lowered").await.is_none(), "nothing is left");
    case.ends(if ends == "x" { "y" } else { "x" }).await;
    let execution_arn = execution("later");
    assert_eq!(ask("later").await, Started::Started { execution_arn });
}

/// An operator begins a start whose name another program has used meanwhile: it fails, and the next one begins at once.
#[tokio::test]
async fn operators_failed_begin_serves_next() {
    let case = StartCase::held("begun by hand").await;
    case.calls.script_starts("a", &[StartFate::Lost]);
    case.queues("a").await;
    case.queues("b").await;
    case.ends("first").await;
    case.calls
        .start_elsewhere(execution("a").as_str(), "{\"other\":1}");
    let (leases, key) = (&case.case.leases, &case.case.address.key);
    let begun = leases.begin_start(key, &execution("a")).await;
    assert!(!begun.expect("an answer"), "its name is in use");
    case.fails("a", "its name is in use").await;
    case.holds("b").await;
}

#[tokio::test]
async fn a_dismissed_start_stays_dismissed() {
    let case = StartCase::held("dismissed").await;
    let (leases, key) = (&case.case.leases, &case.case.address.key);
    case.queues("a").await;
    for (name, which) in [("first", "has begun"), ("b", "is none")] {
        let dismissed = leases.dismiss_start(key, &execution(name)).await;
        assert!(!dismissed.expect("an answer"), "it {which}");
    }
    case.case.pass(HOUR);
    case.case.swept().await;
    case.fails("a", "not free").await;
    // What has failed is not begun by whoever wants to stop it.
    let begun = leases.begin_start(key, &execution("a")).await;
    assert!(!begun.expect("an answer"));
    case.fails("a", "not free").await;
    let dismissed = leases.dismiss_start(key, &execution("a")).await;
    assert!(dismissed.expect("an answer"));
    assert_eq!(case.listed().await, Vec::<String>::new());
    // A call of it that comes late starts nothing, and hears why.
    case.fails("a", "not free").await;
    let again = case.ask("a").await;
    assert!(matches!(again, Err(Error::NotStarted { .. })), "{again:?}");
    // One that waits leaves the queue.
    case.queues("b").await;
    case.queues("c").await;
    let dismissed = leases.dismiss_start(key, &execution("b")).await;
    assert!(dismissed.expect("an answer"));
    assert_eq!(case.status("b").await, StartStatus::Skipped);
    let again = case.ask("b").await.expect("an answer");
    assert!(matches!(again, Started::Skipped { .. }), "{again:?}");
    case.ends("first").await;
    case.has_started(&["c", "first"]);
    case.ends("c").await;
    case.is_free().await;
}

#[tokio::test]
async fn operator_cancels_unbegun_start() {
    let case = StartCase::new("cancelled");
    case.calls.script_starts("a", &[StartFate::Lost]);
    case.queues("a").await;
    case.queues_behind("b").await;
    let waits = Duration::from_mins(6) + MARGIN + STALE;
    let free_at = case.case.now().plus(waits);
    let execution_arn = execution("a");
    let cancelled = ForceReleaseOutcome::Cancelled {
        execution_arn,
        free_at,
    };
    // Again, the same.
    assert_eq!(case.case.force(None).await, cancelled);
    assert_eq!(case.case.force(None).await, cancelled);
    case.case.swept().await;
    case.holds("a").await;
    case.case.pass(waits);
    case.case.swept().await;
    case.fails("a", "operator").await;
    case.has_started(&["b"]);
    // What runs is taken away at once.
    let (evicted, _) = case.case.evict(None).await;
    let holder = evicted.held.map(|held| held.holder);
    assert_eq!(holder, Some(execution("b")));
    case.is_free().await;
}

#[tokio::test]
async fn begun_start_gets_ordinary_looks() {
    let case = StartCase::held("looked at").await;
    // Its item says that it began, so that an answer that is late ends nothing.
    case.calls
        .set_execution(execution("first").as_str(), Execution::Unknown);
    case.queues("a").await;
    case.case.pass(STALE);
    case.case.swept().await;
    case.holds("first").await;
    case.calls
        .set_execution(execution("first").as_str(), Execution::Running);
    case.case.pass(STALE);
    case.case.swept().await;
    case.holds("first").await;
    let notification = case
        .case
        .row()
        .await
        .holding()
        .and_then(|held| held.notification);
    assert_eq!(notification, None, "a look has shown that it runs");
    case.ends("first").await;
    case.has_started(&["first", "a"]);
    case.ends("a").await;
}

/// Who is skipped because the key is closed is told until when.
#[tokio::test]
async fn a_skipped_start_says_when_key_opens() {
    let case = StartCase::new("skipped while closed");
    let paced = |name: &str| {
        with(case.request(name), |start| {
            start.at_least = AtLeast::new(HOUR).expect("valid");
            start.if_held = IfHeld::Skip;
        })
    };
    let leases = &case.case.leases;
    let _ = leases.start(paced("a")).await.expect("an answer");
    case.ends("a").await;
    let skipped = leases.start(paced("b")).await;
    let Ok(Started::Skipped {
        held: Some(held), ..
    }) = skipped
    else {
        panic!("{skipped:?}")
    };
    assert!(
        matches!(held.until, HeldUntil::Closed { opens_at } if opens_at > case.case.now()),
        "{held:?}"
    );
}

#[tokio::test]
async fn the_next_start_keeps_the_pace() {
    let case = StartCase::new("pace");
    let paced = |name: &str, if_held| {
        with(case.request(name), |start| {
            start.at_least = AtLeast::new(HOUR).expect("valid");
            start.if_held = if_held;
        })
    };
    let wait = IfHeld::Wait(WaitTime::DAY);
    let leases = &case.case.leases;
    for name in ["a", "b", "c"] {
        let _ = leases.start(paced(name, wait)).await.expect("an answer");
    }
    case.ends("a").await;
    case.has_started(&["a"]);
    refused!(leases.start(paced("d", IfHeld::Fail)).await, Held);
    let skipped = leases.start(paced("e", IfHeld::Skip)).await;
    assert!(
        matches!(skipped, Ok(Started::Skipped { .. })),
        "{skipped:?}"
    );
    case.case.pass(HOUR + MARGIN);
    case.case.swept().await;
    case.has_started(&["a", "b"]);
    // The one that waited keeps it closed as well.
    case.ends("b").await;
    case.case.swept().await;
    case.has_started(&["a", "b"]);
    case.case.pass(HOUR + MARGIN);
    case.case.swept().await;
    case.has_started(&["a", "b", "c"]);
}

#[tokio::test]
async fn limit_of_none_keeps_starts_waiting() {
    let case = StartCase::new("limit");
    let (leases, key) = (&case.case.leases, &case.case.address.key);
    let limit = async |permits| {
        let limited = leases.limit_to(key, permits, &make::because()).await;
        limited.expect("an answer")
    };
    limit(Some(LimitedTo::new(0).expect("valid"))).await;
    // Who does not wait leaves nothing.
    for if_held in [IfHeld::Fail, IfHeld::Skip] {
        for permits in [None, Some(make::permits(2))] {
            let start = with(case.request("at-once"), |start| {
                start.if_held = if_held;
                start.permits = permits;
            });
            refused!(leases.start(start).await, Frozen);
            assert!(case.item("at-once").await.is_none());
        }
    }
    case.queues("a").await;
    case.queues("b").await;
    case.case.swept().await;
    case.has_started(&[]);
    limit(None).await;
    case.has_started(&["a"]);
}
