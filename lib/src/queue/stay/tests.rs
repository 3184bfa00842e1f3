use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize as _;

use super::*;
use crate::{
    AtLeast, ExtendOptions, Lease, Leases, ManualClock, Memory, Settings, SweepBounds, TaskToken,
    Wait, WaitTime,
    clock::Clock,
    queue::engine::Execution,
    test_support::{FakeStepFunctions, grant, make},
    values::RequestDigest,
};

type Act = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A clock by whose sleep something happens, and that may sleep for longer than it was told.
struct Eventful {
    clock: Arc<ManualClock>,
    act: Mutex<Option<Arc<Act>>>,
    more: Duration,
    /// So much time passes whenever somebody looks at it.
    each_look: Mutex<Duration>,
}

impl Clock for Eventful {
    fn now(&self) -> Timestamp {
        self.clock
            .advance(*self.each_look.lock().expect("no panic"));
        self.clock.now()
    }

    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let act = self.act.lock().expect("no panic").clone();
        Box::pin(async move {
            if let Some(act) = act {
                act().await;
            }
            self.clock.advance(length + self.more);
        })
    }
}

/// A key, its waiters, and a sweep each minute.
struct Case {
    clock: Arc<ManualClock>,
    eventful: Arc<Eventful>,
    calls: Arc<FakeStepFunctions>,
    queue: Queue<Memory>,
    began: Timestamp,
}

const SECOND: Duration = Duration::from_secs(1);
const MARGIN: Duration = Duration::from_secs(2);
const HOUR: Duration = Duration::from_hours(1);

impl Case {
    fn new() -> Self {
        Self::that_oversleeps(Duration::ZERO)
    }

    fn that_oversleeps(more: Duration) -> Self {
        let clock = make::clock();
        let eventful = Arc::new(Eventful {
            clock: Arc::clone(&clock),
            act: Mutex::default(),
            more,
            each_look: Mutex::default(),
        });
        let calls = Arc::new(FakeStepFunctions::default());
        let settings = Settings {
            reap_grace: 20 * SECOND,
            ..Settings::default()
        };
        let queue = Leases::new(Memory::new(), settings)
            .with_clock(Arc::clone(&eventful) as _)
            .with_engine(Arc::clone(&calls) as _);
        let began = clock.now();
        Self {
            clock,
            eventful,
            calls,
            queue,
            began,
        }
    }

    /// Whenever sweep sleeps.
    fn meanwhile<F: Future<Output = ()> + Send + 'static>(
        &self,
        act: impl Fn() -> F + Send + Sync + 'static,
    ) {
        let act: Act = Box::new(move || Box::pin(act()));
        *self.eventful.act.lock().expect("no panic") = Some(Arc::new(act));
    }

    async fn has(&self, ttl: Duration) -> Lease {
        let request = make::request(make::key("k"), "holder", ttl);
        grant(&self.queue, request).await.lease
    }

    async fn waits(&self, who: &str, wait: Duration, at_least: Duration) {
        let queue = Wait {
            task_token: TaskToken::new(who).expect("valid"),
            wait: WaitTime::new(wait).expect("valid"),
            latest: false,
        };
        let mut request = make::of_execution(make::key("k"), who);
        request.at_least = AtLeast::new(at_least).expect("valid");
        let joined = self.queue.acquire_queued(request, queue).await;
        joined.expect("an answer");
    }

    /// One run of sweep, as Lambda invokes it.
    async fn sweep(&self) -> Swept {
        let invocation = self.queue.for_call(self.clock.now().plus(62 * SECOND));
        let swept = invocation.sweep(SweepBounds::Schedule).await;
        swept.expect("swept")
    }

    /// How long after the beginning it is.
    fn passed(&self) -> Duration {
        self.clock.now().since(self.began)
    }

    /// Who was told of a lease, and how long after the beginning it was granted.
    fn told(&self) -> Vec<(String, Duration)> {
        let answers = self.calls.take_answers().into_iter();
        let told = answers.map(|answer| {
            let lease = lease_in(&answer.output());
            (answer.token, lease.acquired_at.since(self.began))
        });
        told.collect()
    }
}

fn lease_in(output: &serde_json::Value) -> Lease {
    Lease::deserialize(&output["lease"]).expect("a lease")
}

#[tokio::test]
async fn an_expired_lease_is_passed_on() {
    let case = Case::new();
    case.has(10 * SECOND).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    let swept = case.sweep().await;
    assert_eq!((swept.freed, swept.granted), (1, 1));
    assert_eq!(case.told(), [("a".into(), 10 * SECOND + MARGIN)]);
    // Nothing more is due.
    assert_eq!(case.passed(), 10 * SECOND + MARGIN);
}

/// It may become due after any step of the sweep.
#[tokio::test]
async fn due_while_it_looks_is_not_left() {
    for each_look in 1..100 {
        let case = Case::new();
        case.has(2 * SECOND).await;
        case.waits("a", HOUR, Duration::ZERO).await;
        // A second before it is due.
        case.clock.advance(SECOND + MARGIN);
        let looks = &case.eventful.each_look;
        *looks.lock().expect("no panic") = Duration::from_millis(10 * each_look);
        case.sweep().await;
        assert_eq!(case.told().len(), 1, "{each_look}");
    }
}

#[tokio::test]
async fn nothing_due_ends_it_at_once() {
    let case = Case::new();
    case.has(HOUR).await;
    case.sweep().await;
    // Nobody waits for a key whose lease expires.
    let other = make::request(make::key("other"), "holder", 5 * SECOND);
    grant(&case.queue, other).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    case.sweep().await;
    assert_eq!(case.passed(), Duration::ZERO);
}

#[tokio::test]
async fn what_is_later_is_left_to_the_next() {
    let case = Case::new();
    case.has(59 * SECOND).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    case.sweep().await;
    assert_eq!(case.passed(), Duration::ZERO);
    case.clock.advance(60 * SECOND);
    case.sweep().await;
    assert_eq!(case.told(), [("a".into(), 59 * SECOND + MARGIN)]);
}

#[tokio::test]
async fn sweep_without_deadline_never_stays() {
    let case = Case::new();
    case.has(10 * SECOND).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    let swept = case.queue.sweep(SweepBounds::Schedule).await;
    swept.expect("swept");
    assert_eq!(case.passed(), Duration::ZERO);
}

#[tokio::test]
async fn each_wait_ends_in_time() {
    let case = Case::new();
    case.has(HOUR).await;
    case.waits("a", 30 * SECOND, Duration::ZERO).await;
    case.waits("b", 7 * SECOND, Duration::ZERO).await;
    let ends = Arc::new(Mutex::new(Vec::new()));
    let (calls, clock, seen) = (case.calls.clone(), case.clock.clone(), ends.clone());
    case.meanwhile(move || {
        let now = clock.now();
        let answers = calls.take_answers().into_iter();
        let answers = answers.map(|answer| (answer.token, now));
        seen.lock().expect("no panic").extend(answers);
        std::future::ready(())
    });
    case.sweep().await;
    assert_eq!(case.passed(), 30 * SECOND);
    let seen: Vec<_> = ends.lock().expect("no panic").clone();
    assert_eq!(seen, [("b".into(), case.began.plus(7 * SECOND))]);
    let rest = case.calls.take_answers();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].token, "a");
}

#[tokio::test]
async fn grace_ends_in_time() {
    let case = Case::new();
    case.waits("x", HOUR, Duration::ZERO).await;
    assert_eq!(case.told().len(), 1);
    case.waits("a", HOUR, Duration::ZERO).await;
    let holder = make::execution("x");
    let over = Execution::Ended {
        stopped_at: case.clock.now(),
        redrivable: false,
        all_answered: false,
    };
    case.calls.set_execution(holder.as_str(), over);
    case.clock.advance(40 * SECOND);
    let (found, grace) = (case.passed(), 20 * SECOND);
    let swept = case.sweep().await;
    assert_eq!((swept.looked, swept.ended, swept.granted), (2, 1, 1));
    assert_eq!(case.told(), [("a".into(), found + grace)]);
}

/// Each gives the key back as soon as it can.
fn give_back_at_once(case: &Case) {
    let (calls, leases) = (case.calls.clone(), Leases::from(case.queue.clone()));
    case.meanwhile(move || {
        let (calls, leases) = (calls.clone(), leases.clone());
        async move {
            for answer in calls.take_answers() {
                let lease = lease_in(&answer.output());
                let _ = leases.release(&lease).await.expect("released");
            }
        }
    });
}

#[tokio::test]
async fn pace_of_two_seconds_is_kept() {
    let case = Case::new();
    for n in 0..40 {
        case.waits(&format!("w{n}"), HOUR, 2 * SECOND).await;
    }
    give_back_at_once(&case);
    let swept = case.sweep().await;
    // The first was granted the key by another process, whose clock may be behind.
    assert_eq!(swept.granted, 1 + (60 - 4) / 2);
    let rows = case.queue.read_rows(&make::key("k")).await.expect("rows");
    assert_eq!(rows.waiting().len(), 39 - 29);
}

#[tokio::test]
async fn pace_of_others_has_the_margin() {
    let case = Case::new();
    case.waits("x", HOUR, 5 * SECOND).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    let x = lease_in(&case.calls.take_answers()[0].output());
    let _ = case.queue.release(&x).await.expect("released");
    assert!(case.told().is_empty());
    case.sweep().await;
    assert_eq!(case.told(), [("a".into(), 5 * SECOND + MARGIN)]);
}

#[test]
fn waiters_on_two_pages_are_all_due() {
    let (at, key) = (Timestamp::from_millis(7), make::key("k"));
    let mut agenda = Agenda::until(Some(at));
    for n in 0..2 {
        let digest = RequestDigest::of_start(&make::execution(n));
        let waiting = vec![(digest, Some(at))];
        agenda.note(&key, Later { at, waiting });
    }
    assert_eq!(agenda.take_due(at)[&key].len(), 2);
}

#[tokio::test]
async fn extended_lease_stays() {
    let case = Case::new();
    let lease = case.has(10 * SECOND).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    let leases = Leases::from(case.queue.clone());
    case.meanwhile(move || {
        let (leases, lease) = (leases.clone(), lease.clone());
        async move {
            let longer = ExtendOptions {
                ttl: Some(make::ttl(HOUR)),
                ..ExtendOptions::default()
            };
            drop(leases.extend(&lease, longer).await.expect("extended"));
        }
    });
    let swept = case.sweep().await;
    assert_eq!((swept.freed, swept.granted), (0, 0));
    assert_eq!(case.passed(), 10 * SECOND + MARGIN);
}

#[tokio::test]
async fn suspended_sweep_does_no_more() {
    let case = Case::that_oversleeps(HOUR);
    case.has(10 * SECOND).await;
    case.waits("a", 2 * HOUR, Duration::ZERO).await;
    let swept = case.sweep().await;
    assert_eq!((swept.freed, swept.granted), (0, 0));
    assert!(case.told().is_empty());
}

#[tokio::test]
async fn sweep_that_wakes_early_sleeps_again() {
    struct Early(Arc<ManualClock>);
    impl Clock for Early {
        fn now(&self) -> Timestamp {
            self.0.now()
        }

        fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            self.0.advance((length / 2).max(Duration::from_millis(1)));
            Box::pin(std::future::ready(()))
        }
    }
    let case = Case::new();
    case.has(10 * SECOND).await;
    case.waits("a", HOUR, Duration::ZERO).await;
    let early = Early(Arc::clone(&case.clock));
    let queue = case.queue.clone().with_clock(Arc::new(early));
    let queue = queue.for_call(case.clock.now().plus(62 * SECOND));
    queue.sweep(SweepBounds::Schedule).await.expect("swept");
    assert_eq!(case.told(), [("a".into(), 10 * SECOND + MARGIN)]);
}
