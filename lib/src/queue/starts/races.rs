//! What another call does between two requests of a start.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt as _;

use super::{IfHeld, Start, Started};
use crate::{
    Error, Execution, ExecutionName, ForceReleaseOptions, ForceReleaseOutcome, Holder, Leases,
    ManualClock, Memory, Pool, Queue, ResultTo, Settings, StartItem, StartRules, StartStatus,
    StateMachineArn, SweepBounds, TaskToken, Wait, WaitTime,
    clock::Clock as _,
    leases::CALLS_WITHIN,
    row::{Item, Row, attributes as at},
    store::{
        Address, Operations, PutStart, Settled, Settlement, Store,
        wire::{Before, Wire},
    },
    test_support::{FakeStepFunctions, StartFate, make},
    transition::{Change, Join, JoinRule},
    values::RequestDigest,
};

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:work";

fn start(name: &str, if_held: IfHeld) -> Start {
    let machine = StateMachineArn::new(MACHINE).expect("valid");
    Start {
        if_held,
        ..Start::new(
            make::key("k"),
            machine,
            ExecutionName::new(name).expect("valid"),
        )
    }
}

fn execution(name: &str) -> Holder {
    start(name, IfHeld::Skip).execution()
}

/// Two callers of one table and one service.
struct Race {
    clock: Arc<ManualClock>,
    calls: Arc<FakeStepFunctions>,
    permits: Option<u16>,
}

impl Race {
    fn new(permits: Option<u16>) -> Self {
        Self {
            clock: make::clock(),
            calls: Arc::default(),
            permits,
        }
    }

    fn leases<S: Store>(&self, store: S) -> Queue<S> {
        self.under(store, Settings::default())
    }

    fn under<S: Store>(&self, store: S, settings: Settings) -> Queue<S> {
        Leases::new(store, settings)
            .with_clock(self.clock.clone())
            .with_engine(self.calls.clone())
            .with_starts(StartRules::of(MACHINE).expect("valid"))
    }

    fn start(&self, name: &str, if_held: IfHeld) -> Start {
        Start {
            permits: self.permits.map(make::permits),
            ..start(name, if_held)
        }
    }

    /// What another call does meanwhile: at once, as the table is in memory.
    fn meanwhile(
        self: &Arc<Self>,
        acts: impl AsyncFnOnce(Arc<Self>, Queue<Memory>) + Send + 'static,
    ) -> impl FnOnce(&Memory) + Send + 'static {
        let race = Arc::clone(self);
        move |table: &Memory| {
            let leases = race.leases(table.clone());
            acts(race, leases).now_or_never().expect("at once");
        }
    }

    /// The execution ends, and reap hears of it.
    async fn ends<S: Store>(&self, leases: &Queue<S>, name: &str) {
        let over = Execution::Ended {
            stopped_at: self.clock.now(),
            redrivable: false,
            all_answered: true,
        };
        self.calls.set_execution(execution(name).as_str(), over);
        self.clock.advance(Duration::from_millis(1));
        leases.reap(&execution(name)).await.expect("an answer");
    }

    /// Only this one runs now, and has the key, whatever sweeps see.
    async fn runs_alone<S: Store>(&self, leases: &Queue<S>, name: &str) {
        for _ in 0..20 {
            self.clock.advance(Duration::from_mins(1));
            let swept = leases.sweep(SweepBounds::Schedule).await;
            swept.expect("swept");
            let held = leases.read_rows(&make::key("k")).await.expect("rows");
            let request = RequestDigest::of_start(&execution(name));
            assert!(
                held.held_for(&request).is_some(),
                "{name} runs without its key"
            );
        }
        assert!(self.calls.started().contains_key(execution(name).as_str()));
    }
}

async fn status<S: Store>(leases: &Queue<S>, name: &str) -> Option<StartStatus> {
    let request = RequestDigest::of_start(&execution(name));
    let key = make::key("k");
    let item = leases.store().start_item(&key, &request, Duration::MAX);
    item.await.expect("an answer").map(|item| item.status)
}

/// As somebody might by hand.
fn delete_starts(table: &Memory) {
    let all = table.all().into_iter();
    let starts: Vec<_> = all
        .filter(|(_, _, item)| StartItem::read(item).is_some())
        .collect();
    assert!(!starts.is_empty());
    for (pk, sk, _) in starts {
        table.delete_at(&pk, &sk);
    }
}

/// A mutex, and one of one permit.
const BOTH: [Option<u16>; 2] = [None, Some(1)];

#[tokio::test(start_paused = true)]
async fn skip_delivered_twice_as_holder_ends() {
    for permits in BOTH {
        let race = Arc::new(Race::new(permits));
        let twice = race.meanwhile(async |race, leases| {
            race.ends(&leases, "first").await;
            let started = leases.start(race.start("a", IfHeld::Skip)).await;
            assert!(
                matches!(started, Ok(Started::Started { .. })),
                "{started:?}"
            );
        });
        // The first; then that the second is skipped.
        let store = Wire::meddled(Before::Start, 2, twice);
        let leases = race.leases(store.clone());
        let first = race.start("first", IfHeld::Fail);
        leases.start(first).await.expect("started");
        let answer = leases.start(race.start("a", IfHeld::Skip)).await;
        assert!(store.is_done());
        assert!(!matches!(answer, Ok(Started::Skipped { .. })), "{answer:?}");
        assert_eq!(status(&leases, "a").await, Some(StartStatus::Begun));
        race.runs_alone(&leases, "a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn dismissed_as_its_turn_comes() {
    for permits in BOTH {
        let race = Arc::new(Race::new(permits));
        let its_turn = race.meanwhile(async |race, leases| race.ends(&leases, "first").await);
        let store = Wire::meddled(Before::Settle, 2, its_turn);
        let leases = race.leases(store.clone());
        let wait = IfHeld::Wait(WaitTime::DAY);
        for name in ["first", "a"] {
            leases
                .start(race.start(name, wait))
                .await
                .expect("accepted");
        }
        let dismissed = leases.dismiss_start(&make::key("k"), &execution("a")).await;
        assert!(store.is_done());
        assert!(!dismissed.expect("an answer"), "it runs");
        assert_eq!(status(&leases, "a").await, Some(StartStatus::Begun));
        race.runs_alone(&leases, "a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn placed_again_while_its_retry_is() {
    for permits in BOTH {
        let race = Arc::new(Race::new(permits));
        let retry = race.meanwhile(async |race, leases| {
            let wait = IfHeld::Wait(WaitTime::DAY);
            let started = leases.start(race.start("a", wait)).await;
            assert!(
                matches!(started, Ok(Started::Started { .. })),
                "{started:?}"
            );
        });
        // The place that sweep gives it.
        let store = Wire::meddled(Before::Start, 1, retry);
        let leases = race.leases(store.clone());
        // Its row was deleted, and its place with it.
        let stored = leases.item_of(race.start("a", IfHeld::Wait(WaitTime::DAY)));
        let (item, _) = stored.expect("valid");
        let put = store
            .table
            .put_start(&item, None, None, None, Duration::MAX);
        let _ = put.await.expect("stored");
        race.clock.advance(Duration::from_mins(2));
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        assert!(store.is_done());
        assert_eq!(status(&leases, "a").await, Some(StartStatus::Begun));
        race.runs_alone(&leases, "a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_deliveries_at_full_queue() {
    let race = Arc::new(Race::new(None));
    let wait = IfHeld::Wait(WaitTime::DAY);
    let other = race.meanwhile(async move |race, leases| {
        race.ends(&leases, "first").await;
        let queued = leases.start(race.start("b", wait)).await;
        assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    });
    // Its own item, before it is refused.
    let store = Wire::meddled(Before::ReadStart, 1, other);
    let mut leases = race.leases(store.clone());
    for name in ["first", "a"] {
        leases
            .start(race.start(name, wait))
            .await
            .expect("accepted");
    }
    leases = Leases::new(
        store.clone(),
        Settings {
            queue_cap: 1,
            ..Settings::default()
        },
    )
    .with_clock(race.clock.clone())
    .with_engine(race.calls.clone())
    .with_starts(StartRules::of(MACHINE).expect("valid"));
    let queued = leases.start(race.start("b", wait)).await;
    assert!(store.is_done());
    assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    assert_eq!(status(&leases, "b").await, Some(StartStatus::Waiting));
    race.ends(&leases, "a").await;
    race.runs_alone(&leases, "b").await;
}

/// Between its note of the execution, which may be redriven, and the end of the lease.
#[tokio::test(start_paused = true)]
async fn suspended_force_release_notes_anew() {
    let race = Arc::new(Race::new(None));
    let minutes = race.meanwhile(async |race, _| race.clock.advance(Duration::from_mins(3)));
    let store = Wire::meddled(Before::Apply, 1, minutes);
    let leases = race.leases(store.clone());
    let started = leases.start(race.start("first", IfHeld::Fail)).await;
    started.expect("started");
    let (key, because) = (make::key("k"), make::because());
    let forced = leases.force_release(&key, ForceReleaseOptions::default(), &because);
    forced.await.expect("an answer");
    assert!(store.is_done());
    let request = RequestDigest::of_start(&execution("first"));
    let noted = store.redrivable(&key, &request, Duration::MAX).await;
    let noted = noted.expect("an answer").expect("a note");
    assert_eq!(noted.ended_at, race.clock.now());
}

/// The row was free, and nobody waited.
#[tokio::test(start_paused = true)]
async fn joined_while_free_key_is_taken() {
    let race = Arc::new(Race::new(None));
    let wait = IfHeld::Wait(WaitTime::DAY);
    let joins = race.meanwhile(async move |race, leases| {
        let stored = leases.item_of(race.start("a", wait));
        let (item, _) = stored.expect("valid");
        let join = Change::Join(Join {
            request: item.digest(),
            rule: JoinRule::Always,
            cap: 9,
        });
        let (first, store) = (Address::first(&item.key), leases.store());
        let put = store.put_start(&item, None, None, Some((&first, &join)), Duration::MAX);
        assert_eq!(put.await.expect("an answer"), PutStart::Done);
    });
    // The first; then the grant.
    let store = Wire::meddled(Before::Start, 2, joins);
    let leases = race.leases(store.clone());
    let first = leases.start(race.start("first", wait)).await;
    assert!(matches!(first, Ok(Started::Started { .. })), "{first:?}");
    race.ends(&leases, "first").await;
    let queued = leases.start(race.start("b", wait)).await;
    assert!(store.is_done());
    assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    race.runs_alone(&leases, "a").await;
}

#[tokio::test(start_paused = true)]
async fn item_stays_while_execution_runs() {
    let race = Race::new(None);
    let table = Memory::new();
    let leases = race.leases(table.clone());
    let started = leases.start(race.start("first", IfHeld::Fail)).await;
    started.expect("started");
    for _ in 0..3 {
        race.clock.advance(Duration::from_hours(6 * 24));
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
    }
    let request = RequestDigest::of_start(&execution("first"));
    let (pk, sk) = StartItem::address(&make::key("k"), &request);
    let item = item_at(&table, &pk, &sk);
    let purge_at = item[at::PURGE_AT].as_n();
    let purge_at: u64 = purge_at.expect("a number").parse().expect("a number");
    let tomorrow = race.clock.now().plus(Duration::from_hours(24));
    assert!(purge_at > tomorrow.as_seconds_rounded_up());
}

fn item_at(table: &Memory, pk: &str, sk: &str) -> Item {
    let mut all = table.all().into_iter();
    let found = all.find(|(at_pk, at_sk, _)| at_pk == pk && at_sk == sk);
    found.expect("an item").2
}

/// What a later start does with those that wait: their items say so, and the row has only the later one.
fn superseded(table: &Memory, later: &RequestDigest) {
    let items = || table.all().into_iter().map(|(_, _, item)| item);
    let row = items().find_map(|item| Row::read(&item).ok());
    let row = row.expect("a row");
    let waits: Vec<_> = items()
        .filter_map(|item| StartItem::read(&item))
        .filter(|item| item.status == StartStatus::Waiting)
        .collect();
    assert!(!waits.is_empty());
    let queue = vec![later.clone()];
    let version = row.version.plus(1);
    let row = Row {
        version,
        queue,
        ..row
    };
    table.put(Address::first(&make::key("k")), &row.to_item());
    for waits in waits {
        let by = execution("later");
        let superseded = Settlement::Superseded { by, purge_at: 0 };
        let settled = table.settle_start(&waits, &superseded, None, Duration::MAX);
        let settled = settled.now_or_never().expect("at once");
        assert_eq!(settled.expect("an answer"), Settled::Done);
    }
}

/// Between its place and the stop of the execution that it is to replace.
#[tokio::test(start_paused = true)]
async fn nobody_is_stopped_for_superseded() {
    let replace = IfHeld::Replace(WaitTime::DAY);
    // The reads are of the first, before its place, and after it. Then, as it supersedes everybody who waits before it: the first has begun before.
    for (before, nth, waits) in [(Before::Read, 3, false), (Before::Settle, 2, true)] {
        let later = RequestDigest::of_start(&execution("later"));
        let race = Race::new(None);
        let store = Wire::meddled(before, nth, move |table| superseded(table, &later));
        let leases = race.leases(store.clone());
        let first = leases.start(start("first", IfHeld::Skip)).await;
        first.expect("started");
        if waits {
            let waits = start("waits", IfHeld::Wait(WaitTime::DAY));
            leases.start(waits).await.expect("queued");
        }
        let answer = leases.start(start("second", replace)).await;
        assert!(store.is_done());
        assert!(
            matches!(answer, Ok(Started::Superseded { .. })),
            "{answer:?}"
        );
        assert_eq!(race.calls.take_stopped(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn superseded_while_asked_for_again() {
    let (wait, latest) = (IfHeld::Wait(WaitTime::DAY), IfHeld::Latest(WaitTime::DAY));
    // Its copy reads the row, its item, and the row again; the newest had read it once more.
    for (if_held, read) in [(wait, 3), (wait, 4), (latest, 4), (latest, 5)] {
        let later = RequestDigest::of_start(&execution("later"));
        let newest = later.clone();
        let race = Race::new(None);
        let store = Wire::meddled(Before::Read, read, move |table| superseded(table, &newest));
        let leases = race.leases(store.clone());
        let first = leases.start(start("first", IfHeld::Skip)).await;
        assert!(matches!(first, Ok(Started::Started { .. })), "{first:?}");
        let queued = leases.start(start("second", if_held)).await;
        assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
        // In the same millisecond it would be the same call.
        race.clock.advance(Duration::from_millis(1));
        let again: Result<Started, Error> = leases.start(start("second", if_held)).await;
        assert!(store.is_done(), "it was superseded");
        assert!(matches!(again, Ok(Started::Superseded { .. })), "{again:?}");
        assert_eq!(store.row().await.waiting(), [later]);
    }
}

/// Its item was deleted by hand at the moment at which it was granted the key: it never had it.
#[tokio::test(start_paused = true)]
async fn withdrawn_start_may_be_asked_again() {
    let race = Race::new(None);
    let table = Memory::new();
    let leases = race.leases(table.clone());
    race.calls.script_starts("a", &[StartFate::Lost]);
    let queued = leases
        .start(race.start("a", IfHeld::Wait(WaitTime::DAY)))
        .await;
    assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    delete_starts(&table);
    let (key, because) = (make::key("k"), make::because());
    let forced = leases.force_release(&key, ForceReleaseOptions::default(), &because);
    let forced = forced.await.expect("an answer");
    assert!(
        matches!(forced, ForceReleaseOutcome::Forced { .. }),
        "{forced:?}"
    );
    let again = leases.start(race.start("a", IfHeld::Fail)).await;
    assert!(matches!(again, Ok(Started::Started { .. })), "{again:?}");
}

/// Its call was lost and its item is deleted: it may have begun, until no call can arrive any more. Then the next one is granted the key.
#[tokio::test(start_paused = true)]
async fn deleted_item_means_not_begun() {
    let race = Race::new(None);
    let table = Memory::new();
    let leases = race.leases(table.clone());
    let waits = || IfHeld::Wait(WaitTime::DAY);
    race.calls.script_starts("a", &[StartFate::Lost]);
    let queued = leases.start(race.start("a", waits())).await;
    assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    delete_starts(&table);
    let queued = leases.start(race.start("b", waits())).await;
    assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    race.clock.advance(Duration::from_mins(1));
    leases.sweep(SweepBounds::Schedule).await.expect("swept");
    assert!(race.calls.started().is_empty());
    race.clock.advance(Duration::from_mins(7));
    leases.sweep(SweepBounds::Schedule).await.expect("swept");
    assert_eq!(status(&leases, "b").await, Some(StartStatus::Begun));
    // It may ask anew, and runs.
    let queued = leases.start(race.start("a", waits())).await;
    assert!(matches!(queued, Ok(Started::Queued { .. })), "{queued:?}");
    race.ends(&leases, "b").await;
    assert_eq!(status(&leases, "a").await, Some(StartStatus::Begun));
}

/// The rows are read as it moves from one to another.
#[tokio::test(start_paused = true)]
async fn what_moves_meanwhile_is_found() {
    let race = Race::new(Some(2));
    let at = |permit| Address {
        key: make::key("k"),
        permit,
    };
    let second = |table: &Memory| {
        let mut rows = table.all().into_iter();
        let found = rows.find(|(_, sk, _)| sk == "LEASE#0001");
        found.expect("a row").2
    };
    let moved = Arc::new(Mutex::new(Item::new()));
    let now = Arc::clone(&moved);
    let arrives = move |table: &Memory| table.put(at(1), &now.lock().expect("no panic"));
    // As it asks, and then two times because it has asked before.
    let store = Wire::meddled(Before::ReadKey, 3, arrives);
    let others = race.leases(store.table.clone());
    race.calls.script_starts("a", &[StartFate::Lost]);
    for name in ["x", "y", "a"] {
        let wait = WaitTime::new(Duration::from_secs(1)).expect("valid");
        let asked = others.start(race.start(name, IfHeld::Wait(wait))).await;
        asked.expect("accepted");
    }
    let before = second(&store.table);
    race.ends(&others, "y").await;
    *moved.lock().expect("no panic") = second(&store.table);
    store.table.put(at(1), &before);
    race.clock.advance(Duration::from_mins(20));
    let leases = race.leases(store.clone());
    let again = leases.start(race.start("a", IfHeld::Skip)).await;
    assert!(store.is_done());
    assert!(matches!(again, Ok(Started::Started { .. })), "{again:?}");
}

/// That the service does not know it: with a grace that is shorter than an answer may be late.
#[tokio::test(start_paused = true)]
async fn two_late_answers_count_as_one() {
    let race = Race::new(None);
    let settings = Settings {
        reap_grace: Duration::ZERO,
        ..Settings::default()
    };
    let leases = race.under(Memory::new(), settings);
    let started = leases.start(race.start("a", IfHeld::Fail)).await;
    started.expect("started");
    let sweeps_after = async |pause: Duration| {
        race.clock.advance(pause);
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
        let rows = leases.read_rows(&make::key("k")).await.expect("rows");
        rows.held_by(&execution("a")).is_some()
    };
    assert!(sweeps_after(Duration::from_hours(1)).await);
    let name = execution("a");
    race.calls.set_execution(name.as_str(), Execution::Unknown);
    assert!(sweeps_after(Duration::from_hours(2)).await);
    assert!(sweeps_after(Duration::from_secs(20)).await);
    assert!(!sweeps_after(Duration::from_secs(20)).await);
}

/// The permit that it reads as free is taken, and another one has come back since.
#[tokio::test(start_paused = true)]
async fn skip_is_granted_what_came_back() {
    let race = Arc::new(Race::new(Some(2)));
    let swapped = race.meanwhile(async |race, leases| {
        race.ends(&leases, "first").await;
        for name in ["b", "c"] {
            let started = leases.start(race.start(name, IfHeld::Fail)).await;
            started.expect("started");
        }
        race.ends(&leases, "b").await;
    });
    // The first; then the second.
    let store = Wire::meddled(Before::Start, 2, swapped);
    let leases = race.leases(store.clone());
    let first = race.start("first", IfHeld::Fail);
    leases.start(first).await.expect("started");
    let answer = leases.start(race.start("a", IfHeld::Skip)).await;
    assert!(store.is_done());
    assert!(matches!(answer, Ok(Started::Started { .. })), "{answer:?}");
}

/// The service does not say what became of a start whose wait has ended.
#[tokio::test(start_paused = true)]
async fn start_in_trouble_stops_no_token() {
    let race = Arc::new(Race::new(None));
    let leases = race.leases(Wire::default());
    let minute = WaitTime::new(Duration::from_mins(1)).expect("valid");
    for (name, if_held) in [("first", IfHeld::Fail), ("a", IfHeld::Wait(minute))] {
        let accepted = leases.start(race.start(name, if_held)).await;
        accepted.expect("accepted");
    }
    let wait = Wait {
        task_token: TaskToken::new("b").expect("valid"),
        wait: minute,
        latest: false,
    };
    let waits = make::of_execution(make::key("k"), "b");
    leases.acquire_queued(waits, wait).await.expect("queued");
    let running = Execution::Running;
    race.calls
        .set_execution(execution("first").as_str(), running);
    race.calls.throttle_execution(execution("a").as_str());
    race.clock.advance(Duration::from_mins(2));
    let swept = leases.sweep(SweepBounds::Schedule).await.expect("swept");
    assert_eq!(swept.failed, 1);
    assert_eq!(race.calls.take_answers().len(), 1, "the token of b");
    let row = leases.store().row().await;
    assert_eq!(row.waiting(), [RequestDigest::of_start(&execution("a"))]);
}

/// Sweep finds the start settled whose wait was over; before it could take its place away, the start may have been repeated.
#[tokio::test(start_paused = true)]
async fn place_of_settled_start_stays() {
    let race = Arc::new(Race::new(None));
    let minute = WaitTime::new(Duration::from_mins(1)).expect("valid");
    let settled = race.meanwhile(async |_, leases| {
        let (key, request) = (make::key("k"), RequestDigest::of_start(&execution("a")));
        let item = leases.store().start_item(&key, &request, Duration::MAX);
        let item = item.await.expect("an answer").expect("an item");
        let failed = Settlement::Failed("late".to_owned());
        let settled = leases.settle(&item, &failed, None).await;
        assert_eq!(settled.expect("an answer"), Settled::Done);
    });
    // The look at who has the key, and the first waiter; then the one that is due.
    let store = Wire::meddled(Before::ReadStart, 3, settled);
    let leases = race.leases(store.clone());
    for (name, if_held) in [("first", IfHeld::Fail), ("a", IfHeld::Wait(minute))] {
        let accepted = leases.start(race.start(name, if_held)).await;
        accepted.expect("accepted");
    }
    let running = Execution::Running;
    race.calls
        .set_execution(execution("first").as_str(), running);
    race.clock.advance(Duration::from_mins(2));
    leases.sweep(SweepBounds::Schedule).await.expect("swept");
    assert!(store.is_done());
    let row = store.row().await;
    assert_eq!(row.waiting(), [RequestDigest::of_start(&execution("a"))]);
}

/// Its clock shows later what it took for the mark of its call: others may have decided since.
#[tokio::test(start_paused = true)]
async fn suspended_process_starts_nothing() {
    let race = Race::new(None);
    let (clock, too_long) = (race.clock.clone(), CALLS_WITHIN + Duration::from_millis(1));
    let store = Wire::meddled(Before::Start, 1, move |_| clock.advance(too_long));
    let leases = race.leases(store.clone());
    let answer = leases.start(start("first", IfHeld::Skip)).await;
    assert!(store.is_done());
    assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    assert!(race.calls.started().is_empty());
    race.runs_alone(&leases, "first").await;
}

/// The same while it asks whether the caller of the start still runs.
#[tokio::test(start_paused = true)]
async fn suspended_question_starts_nothing() {
    let race = Race::new(None);
    let table = Memory::new();
    let leases = race.leases(table.clone());
    let begun = leases.start(start("first", IfHeld::Skip)).await;
    assert!(matches!(begun, Ok(Started::Started { .. })), "{begun:?}");
    // Of two callers the first has ended, and the later one waits.
    for caller in ["caller", "another"] {
        let second = Start {
            result_to: Some(ResultTo {
                task_token: TaskToken::new(caller).expect("valid"),
                caller: make::execution(caller),
                stop_with_caller: true,
            }),
            ..start("second", IfHeld::Wait(WaitTime::DAY))
        };
        leases.start(second).await.expect("queued");
        race.clock.advance(Duration::from_millis(1));
    }
    let over = Execution::Ended {
        stopped_at: race.clock.now(),
        redrivable: true,
        all_answered: true,
    };
    let caller = make::execution("caller");
    race.calls.set_execution(caller.as_str(), over);
    race.clock.advance(Duration::from_secs(2));
    let (clock, too_long) = (race.clock.clone(), CALLS_WITHIN + Duration::from_millis(1));
    let store = Wire::meddled(Before::ReadResult, 1, move |_| clock.advance(too_long));
    for (pk, sk, item) in table.all() {
        store.table.put_at(&pk, &sk, &item);
    }
    race.ends(&race.leases(store.clone()), "first").await;
    assert!(store.is_done());
    let second = execution("second");
    assert_eq!(store.row().await.holder(), Some(&second));
    assert!(!race.calls.started().contains_key(second.as_str()));
}

/// Between the permit of its pool and the note of it, the key is granted to the same start anew.
#[tokio::test(start_paused = true)]
async fn permit_of_changed_row_goes_back() {
    let race = Race::new(None);
    let store = Wire::meddled(Before::Apply, 2, |table| {
        let row = Row::read(&item_at(table, "k", "LEASE#0000")).expect("a row");
        let anew = Row {
            version: row.version.plus(1),
            fencing_token: row.fencing_token.plus(1),
            ..row
        };
        table.put(Address::first(&make::key("k")), &anew.to_item());
    });
    let leases = race.leases(store.clone());
    let pool = Pool::new(&make::key("pool"), make::permits(1));
    let with_pool = Start {
        pool: Some(pool.clone()),
        ..start("first", IfHeld::Wait(WaitTime::DAY))
    };
    let answer = leases.start(with_pool).await;
    assert!(store.is_done());
    assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    assert!(store.row().await.waits_in_pool());
    let permit = leases.read_queue_row(&pool.key).await.expect("an answer");
    assert!(permit.expect("a row").holding().is_none());
    race.runs_alone(&leases, "first").await;
}

/// One that leaves and joins again after the row was read stands behind the newest: it came later.
#[tokio::test]
async fn who_joined_behind_newest_is_not_superseded_by_it() {
    let leases = Race::new(None).leases(Memory::new());
    for name in ["holds", "newest", "again"] {
        let started = leases.start(start(name, IfHeld::Wait(WaitTime::DAY))).await;
        started.expect("accepted");
    }
    let (key, newest) = (make::key("k"), execution("newest"));
    let now = leases.read_queue_row(&key).await.expect("an answer");
    let now = now.expect("a row");
    let before = Row {
        queue: now.waiting().iter().rev().cloned().collect(),
        ..now.clone()
    };
    let [later, again] = [&newest, &execution("again")].map(RequestDigest::of_start);
    let item = leases.store().start_item(&key, &again, Duration::MAX).await;
    let item = item.expect("an answer").expect("an item");
    let superseded = Settlement::Superseded {
        by: newest,
        purge_at: leases.purge_start_at(),
    };
    let left = leases
        .settle_in_queue(before, &item, &superseded, Some(&later))
        .await;
    assert!(!left.expect("an answer"));
    assert_eq!(status(&leases, "again").await, Some(StartStatus::Waiting));
}
