//! Executions that are redriven after their lease has ended.

use std::{sync::Arc, time::Duration};

use super::{Case, FakeStepFunctions, MARGIN, MS, STALE, counted, make, with};
use leasehold::{
    Execution, ExecutionName, ForceReleaseOptions, Holder, IfHeld, Leases, Permits, Reaped,
    Redrives, RequestDigest, Settings, Stands, Start, StartRules, Started, StateMachineArn,
    TaskToken, Wait, WaitTime, metrics::Metric, store::Operations as _,
};

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:redriven";

struct Redriven {
    case: Case,
    calls: Arc<FakeStepFunctions>,
    permits: Option<Permits>,
}

fn redriven(taken: u64, stopped: u64, alone: u64, undecided: u64) -> Reaped {
    Reaped::Redriven {
        taken,
        stopped,
        alone,
        undecided,
    }
}

const fn redrives(stands: Stands, count: u32) -> Redrives {
    Redrives {
        stands,
        count,
        at: None,
    }
}

impl Redriven {
    fn new(key: &str) -> Self {
        Self::with(key, Settings::default())
    }

    fn with(key: &str, settings: Settings) -> Self {
        let mut case = Case::new(&format!("redriven/{key}"));
        let calls = Arc::new(FakeStepFunctions::default());
        case.leases = Leases::new(case.table.clone(), settings)
            .with_clock(case.clock.clone())
            .with_engine(calls.clone())
            .with_starts(StartRules::of(&format!("redriven/*={MACHINE}")).expect("valid"));
        Self {
            case,
            calls,
            permits: None,
        }
    }

    /// The execution of a name, which no other key has.
    fn execution(&self, name: &str) -> Holder {
        let key = self.case.address.key.as_str().replace('/', "-");
        make::holder(format!(
            "arn:aws:states:eu-west-1:123456789012:execution:redriven:{}-{name}",
            key.replace(' ', "-")
        ))
    }

    async fn start(&self, name: &str) -> Started {
        let machine = StateMachineArn::new(MACHINE).expect("valid");
        let execution = self.execution(name);
        let name = execution.as_str().rsplit(':').next().expect("a name");
        let name = ExecutionName::new(name).expect("valid");
        let start = with(
            Start::new(self.case.address.key.clone(), machine, name),
            |start| {
                start.if_held = IfHeld::Wait(WaitTime::DAY);
                start.permits = self.permits;
            },
        );
        self.case.leases.start(start).await.expect("an answer")
    }

    fn stands(&self, name: &str, redrives: impl Into<Option<Redrives>>) {
        let execution = self.execution(name);
        self.calls.set_redrives(execution.as_str(), redrives);
    }

    /// It fails, and reap hears of it.
    async fn fails(&self, name: &str, count: u32) -> Reaped {
        self.ends(name, redrives(Stands::Redrivable, count)).await
    }

    async fn ends(&self, name: &str, as_to_redrives: impl Into<Option<Redrives>>) -> Reaped {
        let as_to_redrives = as_to_redrives.into();
        self.case.pass(STALE + MARGIN + MS);
        let over = Execution::Ended {
            stopped_at: self.case.now(),
            redrivable: as_to_redrives.is_none_or(|so| so.stands != Stands::Final),
            all_answered: true,
        };
        let execution = self.execution(name);
        self.calls.set_execution(execution.as_str(), over);
        self.stands(name, as_to_redrives);
        self.case.pass(STALE + MARGIN + MS);
        let reaped = self.case.leases.reap(&execution).await;
        reaped.expect("an answer")
    }

    /// It is redriven, without a word to anybody.
    fn runs_again(&self, name: &str, count: u32) {
        let execution = self.execution(name);
        let runs = Execution::Running;
        self.calls.set_execution(execution.as_str(), runs);
        let at = Some(self.case.now());
        let stands = Stands::Runs;
        self.stands(name, Redrives { stands, count, at });
    }

    async fn event(&self, name: &str) -> Reaped {
        let execution = self.execution(name);
        let told = self.case.leases.redriven(&execution);
        let (told, alarmed) = counted(Metric::UnguardedRedrives, told).await;
        let told = told.expect("an answer");
        if let Reaped::Redriven { stopped, alone, .. } = told {
            assert_eq!(alarmed, stopped + alone, "{told:?}");
        }
        told
    }

    async fn holds(&self, name: &str) -> bool {
        let row = self.case.row().await;
        row.holding().is_some() && row.granted_to == self.execution(name)
    }

    fn stopped(&self) -> Vec<(String, String)> {
        self.calls.take_stopped()
    }

    async fn is_watched(&self, name: &str) -> bool {
        let request = RequestDigest::of_start(&self.execution(name));
        let key = &self.case.address.key;
        let store = self.case.leases.store();
        let noted = store.redrivable(key, &request, Duration::from_secs(1));
        noted.await.expect("an answer").is_some()
    }

    /// `a` has failed and lost its key, and `b` has it.
    async fn passed_on(key: &str, settings: Settings) -> Self {
        let case = Self::with(key, settings);
        case.start("a").await;
        case.start("b").await;
        case.fails("a", 0).await;
        assert!(case.holds("b").await);
        case
    }
}

#[tokio::test]
async fn a_free_key_is_taken_again() {
    let case = Redriven::new("free");
    case.start("a").await;
    let before = case.case.row().await.fencing_token;
    case.fails("a", 0).await;
    assert!(case.is_watched("a").await);
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(1, 0, 0, 0));
    assert!(case.holds("a").await);
    let row = case.case.row().await;
    assert!(row.fencing_token > before);
    // An event that comes again finds it so.
    assert!(!matches!(
        case.event("a").await,
        Reaped::Redriven { taken: 1.., .. }
    ));
    assert_eq!(case.case.row().await.version, row.version);
    assert!(matches!(case.start("b").await, Started::Queued { .. }));
    assert_eq!(case.stopped(), []);
    // Its lease ends as that of any execution.
    let succeeded = redrives(Stands::Final, 1);
    case.ends("a", succeeded).await;
    assert!(case.holds("b").await);
}

#[tokio::test]
async fn beside_another_it_is_stopped() {
    let case = Redriven::passed_on("held", Settings::default()).await;
    let before = case.case.row().await;
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(0, 1, 0, 0));
    let all = case.stopped();
    let [(execution, why)] = &all[..] else {
        panic!("{all:?}");
    };
    let a = case.execution("a");
    assert_eq!(execution, a.as_str());
    assert!(why.contains(case.execution("b").as_str()), "{why}");
    assert!(why.contains(&format!("leasehold redrive {a}")), "{why}");
    // Whoever has the key noticed nothing, and nobody is stopped twice for one redrive.
    assert_eq!(case.case.row().await.version, before.version);
    assert!(matches!(
        case.event("a").await,
        Reaped::Redriven { stopped: 0, .. }
    ));
    assert_eq!(case.stopped(), []);
}

#[tokio::test]
async fn without_an_event_sweep_finds_it() {
    let case = Redriven::passed_on("no event", Settings::default()).await;
    case.runs_again("a", 1);
    case.case.swept().await;
    assert_eq!(case.stopped(), [], "it is not due yet");
    case.case.pass(Settings::default().look);
    case.case.swept().await;
    assert_eq!(case.stopped().len(), 1);
}

#[tokio::test]
async fn a_success_is_not_watched() {
    let case = Redriven::new("final");
    case.start("a").await;
    case.ends("a", redrives(Stands::Final, 0)).await;
    assert!(!case.is_watched("a").await);
    // One that failed is forgotten when it cannot be redriven any more.
    case.start("b").await;
    case.fails("b", 0).await;
    assert!(case.is_watched("b").await);
    case.stands("b", redrives(Stands::Final, 0));
    case.case.pass(Settings::default().look);
    case.case.swept().await;
    assert!(!case.is_watched("b").await);
}

#[tokio::test]
async fn what_is_only_counted_runs_on() {
    let settings = with(Settings::default(), |settings| {
        settings.redrives_are_counted_only = true;
    });
    let case = Redriven::passed_on("counted", settings).await;
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(0, 0, 1, 0));
    assert_eq!(case.stopped(), []);
    // Once for each redrive.
    assert!(matches!(
        case.event("a").await,
        Reaped::Redriven { alone: 0, .. }
    ));
}

#[tokio::test]
async fn self_acquiring_execution_is_never_stopped() {
    let case = Redriven::new("own");
    let key = case.case.address.key.clone();
    let lease = |name: &str| {
        let mut asks = make::of_execution(key.clone(), name);
        asks.holder = case.execution(name);
        asks
    };
    super::grant(&case.case.leases, lease("a")).await;
    case.fails("a", 0).await;
    super::grant(&case.case.leases, lease("b")).await;
    case.runs_again("a", 1);
    // It may be about to ask for its key.
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    case.case.pass(Duration::from_mins(2));
    assert_eq!(case.event("a").await, redriven(0, 0, 1, 0));
    assert_eq!(case.stopped(), []);
    // One that waits for the key in the queue is not beside anybody.
    case.runs_again("a", 2);
    case.case.pass(Duration::from_mins(2));
    let queue = Wait {
        task_token: TaskToken::new("redriven own a").expect("valid"),
        wait: WaitTime::DAY,
        latest: false,
    };
    let waits = lease("a").request_id(make::request_id("again"));
    let joined = case.case.leases.acquire_queued(waits, queue).await;
    joined.expect("queued");
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 0));
}

#[tokio::test]
async fn an_old_answer_decides_nothing() {
    let case = Redriven::passed_on("old", Settings::default()).await;
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1), "it has ended");
    case.runs_again("a", 0);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    assert_eq!(case.stopped(), []);
    // While its lease would end, it runs again already: it keeps it.
    let case = Redriven::new("in between");
    case.start("a").await;
    let reaped = case.ends("a", redrives(Stands::Runs, 1)).await;
    assert!(reaped.is_undecided(), "{reaped:?}");
    assert!(case.holds("a").await);
}

#[tokio::test]
async fn what_is_not_known_yet_stays() {
    let case = Redriven::new("young");
    case.start("a").await;
    let reaped = case.ends("a", None).await;
    assert!(reaped.is_undecided(), "{reaped:?}");
    assert!(case.holds("a").await);
    case.fails("a", 0).await;
    case.stands("a", None);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    assert!(case.is_watched("a").await);
    // By now the service would know of it.
    case.case.pass(STALE + MARGIN + MS);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 0));
    assert!(!case.is_watched("a").await);
}

#[tokio::test]
async fn a_frozen_key_is_nobodys() {
    let case = Redriven::new("frozen");
    case.start("a").await;
    case.fails("a", 0).await;
    case.case.freeze_by_operator().await;
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    assert_eq!(case.stopped(), []);
    case.case.unfreeze_by_operator().await;
    assert_eq!(case.event("a").await, redriven(1, 0, 0, 0));
    // Whoever has a frozen key has it.
    let case = Redriven::passed_on("frozen and held", Settings::default()).await;
    case.case.freeze_by_operator().await;
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(0, 1, 0, 0));
    case.case.unfreeze_by_operator().await;
}

#[tokio::test]
async fn redrive_takes_any_free_permit() {
    let mut case = Redriven::new("permits");
    case.permits = Some(Permits::new(2).expect("valid"));
    for name in ["a", "b", "c"] {
        case.start(name).await;
    }
    case.fails("a", 0).await;
    // b and c have the two permits.
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(0, 1, 0, 0));
    case.fails("a", 1).await;
    case.fails("b", 0).await;
    case.runs_again("a", 2);
    assert_eq!(case.event("a").await, redriven(1, 0, 0, 0));
}

#[tokio::test]
async fn after_a_forced_release_too() {
    let case = Redriven::new("forced");
    case.start("a").await;
    case.stands("a", redrives(Stands::Redrivable, 0));
    let key = &case.case.address.key;
    let forced = case
        .case
        .leases
        .force_release(key, ForceReleaseOptions::default(), &make::because())
        .await;
    forced.expect("forced");
    // It ran when its lease was ended, and an operator has decided that.
    case.stands("a", redrives(Stands::Runs, 0));
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    case.start("b").await;
    case.case.pass(MARGIN + MS);
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(0, 1, 0, 0));
}

#[tokio::test]
async fn redrive_before_forced_release_is_spared() {
    let case = Redriven::new("before");
    case.start("a").await;
    let runs = Redrives {
        at: Some(case.case.now()),
        ..redrives(Stands::Runs, 1)
    };
    case.stands("a", runs);
    case.case.pass(MARGIN + MARGIN);
    let key = &case.case.address.key;
    let (options, because) = (ForceReleaseOptions::default(), make::because());
    let forced = case.case.leases.force_release(key, options, &because);
    forced.await.expect("forced");
    // An old answer knows nothing of it.
    case.stands("a", redrives(Stands::Runs, 0));
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    case.stands("a", runs);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    case.case.pass(STALE + MARGIN + MS);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 1));
    assert_eq!(case.stopped(), []);
    assert!(!case.holds("a").await);
}

#[tokio::test]
async fn redrive_missed_by_look_is_found() {
    let case = Redriven::new("missed");
    case.start("a").await;
    case.fails("a", 0).await;
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(1, 0, 0, 0));
    // It fails and is redriven while it has its lease, which a look ends that knows only of the failure.
    case.runs_again("a", 2);
    assert_eq!(case.event("a").await, redriven(0, 0, 0, 0));
    case.fails("a", 1).await;
    assert!(!case.holds("a").await);
    case.runs_again("a", 2);
    assert_eq!(case.event("a").await, redriven(1, 0, 0, 0));
}

#[tokio::test]
async fn a_second_redrive_is_found_too() {
    let case = Redriven::new("again");
    case.start("a").await;
    case.fails("a", 0).await;
    case.runs_again("a", 1);
    assert_eq!(case.event("a").await, redriven(1, 0, 0, 0));
    case.start("b").await;
    case.fails("a", 1).await;
    assert!(case.holds("b").await);
    case.runs_again("a", 2);
    assert_eq!(case.event("a").await, redriven(0, 1, 0, 0));
}
