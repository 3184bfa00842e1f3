//! What another process does between two requests of this one.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use crate::{
    Acquire, Ended, Error, Execution, GrantKind, Leases, Memory, Queue, Queued, Settings,
    SweepBounds, TaskToken, Wait, WaitTime,
    retry::some_at_a_time,
    row::{Holding, Notification, Row, State},
    store::{
        Address, Applied, Operations as _, Store,
        wire::{Before, Wire, end},
    },
    test_support::{FakeStepFunctions, Lost, make},
    transition::{Change, Leave, LeaveReason},
    values::RequestDigest,
};

struct Semaphore<S = Wire> {
    leases: Queue<S>,
    calls: Arc<FakeStepFunctions>,
}

fn row_of(table: &Memory, permit: u16) -> Row {
    let sk = format!("LEASE#{permit:04}");
    let mut items = table.all().into_iter();
    let found = items.find(|(_, at, _)| *at == sk).expect("a row");
    Row::read(&found.2).expect("ours")
}

fn put(table: &Memory, permit: u16, row: &Row) {
    let key = make::key("k");
    table.put(Address { key, permit }, &row.to_item());
}

fn free(table: &Memory, permit: u16) {
    let key = make::key("k");
    end(table, &Address { key, permit }, Ended::Released);
}

impl Semaphore {
    fn request(who: &str) -> Acquire {
        make::of_execution(make::key("k"), who)
            .request_id(make::request_id(who))
            .permits(make::permits(3))
    }

    fn digest(who: &str) -> RequestDigest {
        RequestDigest::of(&make::execution(who), &make::request_id(who))
    }
}

impl<S: Store> Semaphore<S> {
    fn new(table: S) -> Self {
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(table, Settings::default())
            .with_clock(make::clock())
            .with_engine(calls.clone());
        Self { leases, calls }
    }

    async fn ask(&self, who: &str) -> Queued {
        self.asks(who, false).await.expect("an answer")
    }

    async fn asks(&self, who: &str, latest: bool) -> Result<Queued, Error> {
        let wait = Wait {
            task_token: TaskToken::new(who).expect("valid"),
            wait: WaitTime::new(Duration::from_hours(1)).expect("valid"),
            latest,
        };
        self.leases
            .acquire_queued(Semaphore::request(who), wait)
            .await
    }

    /// All three are held, and nobody knows which permit is whose.
    async fn full(table: S) -> Self {
        let this = Self::new(table);
        for who in ["x", "y", "z"] {
            assert_eq!(this.ask(who).await, Queued::Acquired);
        }
        assert_eq!(this.told(), ["x", "y", "z"]);
        this
    }

    fn told(&self) -> Vec<String> {
        let answers = self.calls.take_answers().into_iter();
        let told = answers.map(|answer| {
            assert!(answer.result.is_ok(), "{answer:?}");
            answer.token
        });
        told.collect()
    }
}

/// Another copy of the request shows that its holder knows of its grant, by a clock that is ahead of this one.
#[tokio::test]
async fn what_a_copy_has_proven_is_granted() {
    // The grant, which is refused because the request has it, and the proof.
    let wire = Wire::meddled(Before::Apply, 2, |table| {
        let mut row = row_of(table, 0);
        row.version = row.version.plus(1);
        let State::Held(held) = &mut row.state else {
            panic!("nobody has it");
        };
        held.notification = None;
        held.extended_at = Some(held.acquired_at.plus(Duration::from_secs(1)));
        put(table, 0, &row);
    });
    let clock = make::clock();
    let others = Leases::new(wire.table.clone(), Settings::default())
        .with_clock(Arc::clone(&clock) as _)
        .with_engine(Arc::new(FakeStepFunctions::default()));
    let wait = Wait {
        task_token: TaskToken::new("a").expect("valid"),
        wait: WaitTime::DAY,
        latest: false,
    };
    let request = make::of_execution(make::key("k"), "a");
    let asked = others.acquire_queued(request.clone(), wait).await;
    asked.expect("an answer");
    let leases = Leases::new(wire.clone(), Settings::default()).with_clock(clock);
    let again = leases.acquire(request).await.expect("an answer");
    assert!(wire.is_done(), "it asked for less");
    let again = again.granted().expect("it has it");
    assert_eq!(again.grant, GrantKind::Replayed);
}

/// Between the mark of the row and the call.
#[tokio::test(start_paused = true)]
async fn suspended_process_tells_nobody() {
    let clock = make::clock();
    let later = Arc::clone(&clock);
    // The grant, and the mark of the other request.
    let table = Wire::meddled(Before::Apply, 2, move |_| {
        later.advance(Duration::from_mins(2));
    });
    let calls = Arc::new(FakeStepFunctions::default());
    let leases = Leases::new(table.clone(), Settings::default())
        .with_clock(clock)
        .with_engine(calls.clone());
    calls.lose("x", Lost::Request, 2);
    for (token, done) in [("x", false), ("y", true)] {
        let wait = Wait {
            task_token: TaskToken::new(token).expect("valid"),
            wait: WaitTime::DAY,
            latest: false,
        };
        let request = make::of_execution(make::key("k"), "a").request_id(make::request_id(token));
        let asked = leases.acquire_queued(request.reentrant(), wait).await;
        assert!(matches!(asked, Err(Error::Unavailable { .. })), "{asked:?}");
        assert_eq!(table.is_done(), done);
    }
    assert_eq!(calls.take_answers().len(), 0);
}

/// While its first call is under way, whose answer is lost.
#[tokio::test(start_paused = true)]
async fn suspended_process_calls_no_second_time() {
    let clock = make::clock();
    let calls = Arc::new(FakeStepFunctions::default());
    let leases = Leases::new(Memory::new(), Settings::default())
        .with_clock(clock.clone())
        .with_engine(calls.clone());
    for (token, pause, told) in [("a", 1, 1), ("b", 120, 0)] {
        calls.lose(token, Lost::Request, 1);
        let later = Arc::clone(&clock);
        let sleeps = async move { later.advance(Duration::from_secs(pause)) };
        calls.before(token, sleeps);
        let wait = Wait {
            task_token: TaskToken::new(token).expect("valid"),
            wait: WaitTime::DAY,
            latest: false,
        };
        let request = make::of_execution(make::key(token), token);
        let asked = leases.acquire_queued(request, wait).await;
        assert_eq!(asked.is_ok(), told == 1, "{asked:?}");
        assert_eq!(calls.take_answers().len(), told, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn permit_freed_before_join_is_granted() {
    let table = Wire::meddled(Before::Join, 1, |table| free(table, 1));
    let semaphore = Semaphore::full(table).await;
    assert!(matches!(semaphore.ask("a").await, Queued::Queued { .. }));
    assert!(semaphore.leases.store().is_done());
    assert_eq!(semaphore.told(), ["a"]);
    let table = &semaphore.leases.store().table;
    assert_eq!(row_of(table, 1).request, Semaphore::digest("a"));
}

/// The last of those that it found waiting was granted a permit, and another one came back, which was offered to nobody.
#[tokio::test(start_paused = true)]
async fn waiter_behind_nobody_looks_again() {
    let table = Wire::meddled(Before::Join, 2, |table| {
        let first = row_of(table, 0);
        put(
            table,
            0,
            &Row {
                queue: Vec::new(),
                ..first
            },
        );
        free(table, 1);
    });
    let semaphore = Semaphore::full(table).await;
    assert!(matches!(semaphore.ask("a").await, Queued::Queued { .. }));
    assert_eq!(semaphore.ask("b").await, Queued::Acquired);
    assert!(semaphore.leases.store().is_done());
    assert_eq!(semaphore.told(), ["b"]);
}

/// Two permits come back at once, and whoever gave the other one back was faster.
#[tokio::test(start_paused = true)]
async fn concurrent_hand_overs_serve_two() {
    let table = Wire::meddled(Before::ApplyAll, 1, |table| {
        let first = row_of(table, 0);
        let mut queue = first.waiting().to_vec();
        let a = queue.remove(0);
        put(table, 0, &Row { queue, ..first });
        // The other one's grant of the other permit.
        let row = row_of(table, 2);
        let granted = Row {
            request: a,
            granted_to: make::execution("a"),
            version: row.version.plus(1),
            state: row_of(table, 0).state,
            ..row
        };
        put(table, 2, &granted);
    });
    let semaphore = Semaphore::full(table).await;
    for who in ["a", "b", "c"] {
        assert!(matches!(semaphore.ask(who).await, Queued::Queued { .. }));
    }
    let table = &semaphore.leases.store().table;
    free(table, 1);
    free(table, 2);
    let served = semaphore.leases.hand_over(&make::key("k")).await;
    assert!(served.expect("an answer"));
    assert!(semaphore.leases.store().is_done());
    assert_eq!(semaphore.told(), ["b"]);
    assert_eq!(row_of(table, 1).request, Semaphore::digest("b"));
    assert_eq!(row_of(table, 0).waiting(), [Semaphore::digest("c")]);
}

#[tokio::test(start_paused = true)]
async fn conflicting_grant_is_repeated() {
    let semaphore = Semaphore::full(Wire::default()).await;
    assert!(matches!(semaphore.ask("a").await, Queued::Queued { .. }));
    let table = semaphore.leases.store();
    free(&table.table, 2);
    table.conflict(2);
    let served = semaphore.leases.hand_over(&make::key("k")).await;
    assert!(served.expect("an answer"));
    assert_eq!(semaphore.told(), ["a"]);
}

/// A copy of a request that was sent away was granted a permit, and its process died before it read the note: the next copy gives
/// the permit up.
#[tokio::test(start_paused = true)]
async fn dead_copys_permit_is_given_up() {
    let semaphore = Semaphore::full(Wire::default()).await;
    semaphore.ask("a").await;
    semaphore.asks("b", true).await.expect("queued");
    drop(semaphore.calls.take_answers());
    let (store, now) = (semaphore.leases.store(), semaphore.leases.now());
    let row = row_of(&store.table, 1);
    let held = row.holding().expect("held").clone();
    let dead = Row {
        request: Semaphore::digest("a"),
        granted_to: make::execution("a"),
        state: State::Held(Holding {
            notification: Some(Notification::first(now, None)),
            ..held
        }),
        ..row
    };
    put(&store.table, 1, &dead);
    let copy = semaphore.asks("a", false).await;
    assert!(matches!(copy, Err(Error::Superseded { .. })), "{copy:?}");
    assert_eq!(semaphore.told(), ["b"], "it came next");
}

/// All read the rows before one of them writes.
#[tokio::test(start_paused = true)]
async fn burst_gets_permits_or_places() {
    let semaphore = Semaphore::new(Wire::default());
    let names: Vec<_> = (0..60).map(|n| n.to_string()).collect();
    let asks = names.iter().map(async |who| {
        let wait = Wait {
            task_token: TaskToken::new(who).expect("valid"),
            wait: WaitTime::new(Duration::from_hours(1)).expect("valid"),
            latest: false,
        };
        let request = Semaphore::request(who).permits(make::permits(20));
        semaphore.leases.acquire_queued(request, wait).await
    });
    let answers = some_at_a_time(names.len(), asks.collect()).await;
    let all = answers.into_iter().collect::<Result<Vec<_>, _>>();
    assert_eq!(all.expect("a permit or a place").len(), 60);
    assert_eq!(semaphore.told().len(), 20);
}

/// Its copy finds the queue full, or the key frozen.
#[tokio::test(start_paused = true)]
async fn refused_copy_hears_who_came_later() {
    let semaphore = Semaphore::full(Wire::default()).await;
    semaphore.ask("a").await;
    semaphore.asks("b", true).await.expect("queued");
    let table = &semaphore.leases.store().table;
    let first = row_of(table, 0);
    let others = (0..300).map(|n| Semaphore::digest(&n.to_string()));
    let full = Row {
        queue: others.collect(),
        ..first.clone()
    };
    put(table, 0, &full);
    let copy = semaphore.asks("a", false).await;
    assert!(matches!(copy, Err(Error::Superseded { .. })), "{copy:?}");
    put(table, 0, &first);
    let (key, because) = (make::key("k"), make::because());
    let frozen = semaphore.leases.freeze(&key, &because).await;
    frozen.expect("frozen");
    let copy = semaphore.asks("a", false).await;
    assert!(matches!(copy, Err(Error::Superseded { .. })), "{copy:?}");
}

/// Whoever freed the key died before it came to the queue.
#[tokio::test(start_paused = true)]
async fn joining_serves_a_free_key() {
    let semaphore = Semaphore::new(Wire::default());
    let leases = &semaphore.leases;
    let ask = async |who: &str| {
        let wait = Wait {
            task_token: TaskToken::new(who).expect("valid"),
            wait: WaitTime::DAY,
            latest: false,
        };
        let request = make::of_execution(make::key("k"), who);
        leases.acquire_queued(request, wait).await.expect("asked")
    };
    assert_eq!(ask("x").await, Queued::Acquired);
    assert!(matches!(ask("a").await, Queued::Queued { .. }));
    free(&leases.store().table, 0);
    assert!(matches!(ask("b").await, Queued::Queued { .. }));
    assert_eq!(semaphore.told(), ["x", "a"]);
}

/// Whoever found a place without an item does not take away the one that was given since.
#[tokio::test(start_paused = true)]
async fn place_is_passed_over_as_it_was_read() {
    // Three grants, the end of one; then that the place is nobody's.
    let table = Wire::meddled(Before::Apply, 5, |table| {
        let meanwhile = async {
            let leave = Change::Leave(Leave {
                request: Semaphore::digest("a"),
                place: 0,
                because: LeaveReason::GaveUp,
            });
            let first = Address::first(&make::key("k"));
            let left = table.apply(&first, &leave, Duration::MAX).await;
            assert!(matches!(left, Ok(Applied::Done { .. })), "{left:?}");
            let others = Semaphore::new(table.clone());
            assert_eq!(others.ask("w").await, Queued::Acquired);
            assert!(matches!(others.ask("a").await, Queued::Queued { .. }));
        };
        meanwhile.now_or_never().expect("at once");
    });
    let semaphore = Semaphore::full(table).await;
    assert!(matches!(semaphore.ask("a").await, Queued::Queued { .. }));
    let leases = &semaphore.leases;
    let table = &leases.store().table;
    let all = table.all().into_iter();
    for (pk, sk, _) in all.filter(|(_, sk, _)| sk.starts_with("WAIT#")) {
        table.delete_at(&pk, &sk);
    }
    let over = Execution::Ended {
        stopped_at: leases.now(),
        redrivable: false,
        all_answered: true,
    };
    let z = make::execution("z");
    semaphore.calls.set_execution(z.as_str(), over);
    leases.reap(&z).await.expect("an answer");
    assert!(leases.store().is_done());
    assert_eq!(row_of(table, 0).waiting(), [Semaphore::digest("a")]);
}

/// Whoever has read the row frees it for nobody but the next.
#[tokio::test(start_paused = true)]
async fn end_and_grant_are_one_write() {
    for by_sweep in [false, true] {
        let table = Memory::new();
        let Semaphore { leases, calls } = Semaphore::new(table.clone());
        for who in ["a", "b"] {
            let request = make::of_execution(make::key("k"), who);
            let wait = Wait {
                task_token: TaskToken::new(who).expect("valid"),
                wait: WaitTime::DAY,
                latest: false,
            };
            let asked = leases.acquire_queued(request, wait).await;
            asked.expect("an answer");
        }
        let over = Execution::Ended {
            stopped_at: leases.now(),
            redrivable: false,
            all_answered: true,
        };
        let a = make::execution("a");
        calls.set_execution(a.as_str(), over);
        let before = row_of(&table, 0);
        assert_eq!(before.granted_to, a);
        if by_sweep {
            let swept = leases.sweep(SweepBounds::Schedule).await;
            assert_eq!(swept.expect("swept").ended, 1);
        } else {
            leases.reap(&a).await.expect("an answer");
        }
        let after = row_of(&table, 0);
        assert_eq!(after.granted_to, make::execution("b"));
        assert_eq!(after.version, before.version.plus(1));
        let previous = after.previous.map(|previous| previous.ended);
        assert_eq!(previous, Some(Ended::Released));
        let told = calls.take_answers();
        assert_eq!(told.len(), 2, "{told:?}");
    }
}
