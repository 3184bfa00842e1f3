//! What happens to a pool between two requests, and to who waits there when nobody says that there is room.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use crate::{
    Acquire, Ended, Execution, ExecutionName, ExtendOptions, ForceReleaseOptions, Holder, IfHeld,
    KeepTime, Lease, Leases, Lifetime, LimitedTo, ManualClock, Memory, Pool, Queue, Queued,
    Redrives, Settings, Stands, Start, StartRules, Started, StateMachineArn, SweepBounds,
    TaskToken, Wait, WaitTime,
    clock::Clock as _,
    error::Error,
    row::{Entries, Row},
    store::{
        Address, Store,
        wire::{Before, Death, Fate, Life, Wire, end},
    },
    test_support::{FakeStepFunctions, StartFate, make},
    values::Key,
};

const MACHINE: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:work";

fn pool() -> Pool {
    Pool::new(&make::key("pool"), make::permits(1))
}

/// A start under a key of its own, in a pool of one.
fn start(name: &str) -> Start {
    let machine = StateMachineArn::new(MACHINE).expect("valid");
    let execution = ExecutionName::new(name).expect("valid");
    Start {
        if_held: IfHeld::Wait(WaitTime::DAY),
        pool: Some(pool()),
        ..Start::new(make::key(format!("key of {name}")), machine, execution)
    }
}

fn execution(name: &str) -> Holder {
    start(name).execution()
}

#[derive(Clone)]
struct World {
    clock: Arc<ManualClock>,
    calls: Arc<FakeStepFunctions>,
    table: Memory,
}

impl World {
    fn new() -> Self {
        Self {
            clock: make::clock(),
            calls: Arc::default(),
            table: Memory::new(),
        }
    }

    fn on<S: Store>(&self, store: S) -> Queue<S> {
        Leases::new(store, Settings::default())
            .with_clock(self.clock.clone())
            .with_engine(self.calls.clone())
            .with_starts(StartRules::of(MACHINE).expect("valid"))
    }

    /// Of processes that live.
    fn others(&self) -> Queue<Memory> {
        self.on(self.table.clone())
    }

    /// One of which a process may die.
    fn mortal(&self, life: &Life) -> Queue<Wire> {
        self.on(Wire::to(self.table.clone(), life.clone()))
    }

    async fn starts(&self, name: &str) {
        let answer = self.others().start(start(name)).await;
        assert!(matches!(answer, Ok(Started::Started { .. })), "{answer:?}");
    }

    async fn queues(&self, name: &str) {
        let answer = self.others().start(start(name)).await;
        assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    }

    fn began(&self, name: &str) -> bool {
        let began = self.calls.started();
        began.contains_key(execution(name).as_str())
    }

    fn over(&self, name: &str, redrivable: bool) {
        let over = Execution::Ended {
            stopped_at: self.clock.now(),
            redrivable,
            all_answered: true,
        };
        self.calls.set_execution(execution(name).as_str(), over);
        self.stands(name, Stands::Redrivable, 0);
        self.clock.advance(Duration::from_millis(1));
    }

    fn stands(&self, name: &str, stands: Stands, count: u32) {
        let at = Some(self.clock.now());
        let redrives = Redrives { stands, count, at };
        self.calls.set_redrives(execution(name).as_str(), redrives);
    }

    async fn redriven(&self, name: &str) {
        let running = Execution::Running;
        self.calls.set_execution(execution(name).as_str(), running);
        self.stands(name, Stands::Runs, 1);
        let told = self.others().redriven(&execution(name)).await;
        told.expect("an answer");
    }

    async fn sweeps(&self, minutes: u32) {
        for _ in 0..minutes {
            self.clock.advance(Duration::from_mins(1));
            let swept = self.others().sweep(SweepBounds::Schedule).await;
            swept.expect("swept");
        }
    }

    /// So many minutes later, by sweeps alone.
    async fn begins_after(&self, name: &str) -> u32 {
        for minutes in 0..200 {
            if self.began(name) {
                return minutes;
            }
            self.sweeps(1).await;
        }
        panic!("{name} waits in vain");
    }

    async fn row(&self, key: &Key) -> Option<Row> {
        let row = self.others().read_queue_row(key).await;
        row.expect("an answer")
    }

    async fn entries(&self) -> Entries {
        let row = self.row(&pool().key).await;
        row.map(|row| row.in_pool()).unwrap_or_default()
    }
}

fn token(key: &Key, who: &str) -> Acquire {
    let lifetime = Lifetime::Execution {
        keep: KeepTime::default(),
    };
    Acquire::new(key.clone(), make::execution(who), lifetime).pool(pool())
}

fn wait(token: &str) -> Wait {
    Wait {
        task_token: TaskToken::new(token).expect("valid"),
        wait: WaitTime::DAY,
        latest: false,
    }
}

/// Whenever the process dies that ends its lease: after a redrive it runs with its place, or the next does, and not both.
#[tokio::test(start_paused = true)]
async fn redriven_after_any_death_is_inside_or_stopped() {
    let mut lived = false;
    for (request, is_sent) in (1..40).flat_map(|n| [(n, false), (n, true)]) {
        let (world, life) = (World::new(), Life::default());
        world.starts("a").await;
        world.queues("b").await;
        world.sweeps(6).await;
        world.over("a", true);
        world.clock.advance(Duration::from_secs(40));
        let (mortal, a) = (world.mortal(&life), execution("a"));
        let reaped = life.lives(Death { request, is_sent }, mortal.reap(&a));
        lived = reaped.await.is_some();
        world.clock.advance(Duration::from_secs(40));
        world.redriven("a").await;
        world.sweeps(180).await;
        let stopped = world.calls.take_stopped();
        let b = world.began("b");
        assert_eq!(b, !stopped.is_empty(), "{request} {is_sent}: {stopped:?}");
        let inside = world.entries().await.inside.into_values();
        let inside: Vec<_> = inside.map(|entry| entry.key).collect();
        let who = if b { "b" } else { "a" };
        assert_eq!(inside, [start(who).key], "{request} {is_sent}");
        if lived {
            break;
        }
    }
    assert!(lived, "it takes more requests than were tried");
}

/// One whose pool is full keeps its key for nobody.
#[tokio::test(start_paused = true)]
async fn stopped_for_its_pool_frees_its_key() {
    let world = World::new();
    world.starts("a").await;
    world.queues("b").await;
    world.clock.advance(Duration::from_secs(40));
    world.over("a", true);
    let reaped = world.others().reap(&execution("a")).await;
    reaped.expect("reaped");
    world.clock.advance(Duration::from_secs(40));
    world.redriven("a").await;
    assert_eq!(world.calls.take_stopped().len(), 1);
    let row = world.row(&start("a").key).await.expect("a row");
    assert!(row.holding().is_none(), "{row:?}");
}

/// Its lease is one: who is taken out of the pool loses its key, and gets both again.
#[tokio::test(start_paused = true)]
async fn taken_out_of_the_pool_it_has_nothing() {
    for reentrant in [false, true] {
        let (world, key) = (World::new(), make::key("k"));
        let queue = world.others();
        let running = Execution::Running;
        world
            .calls
            .set_execution(make::execution("a").as_str(), running);
        let first = queue.acquire_queued(token(&key, "a"), wait("t1")).await;
        assert_eq!(first.expect("granted"), Queued::Acquired);
        let told = world.calls.take_answers().remove(0).output();
        let lease: Lease = serde_json::from_value(told["lease"].clone()).expect("a lease");
        let (options, because) = (ForceReleaseOptions::default(), make::because());
        let forced = queue.force_release(&pool().key, options, &because).await;
        forced.expect("forced");
        let lost = queue.extend(&lease, ExtendOptions::default()).await;
        assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
        let mut again = token(&key, "a");
        again.reentrant = reentrant;
        let again = queue.acquire_queued(again, wait("t2")).await;
        assert_eq!(again.expect("granted"), Queued::Acquired);
    }
}

/// No event says that there is room.
#[tokio::test(start_paused = true)]
async fn lost_event_delays_a_pool_by_a_sweep() {
    for ran in [1, 50, 200] {
        let world = World::new();
        world.starts("a").await;
        world.sweeps(ran).await;
        world.queues("b").await;
        world.sweeps(2).await;
        world.over("a", false);
        let minutes = world.begins_after("b").await;
        assert!(minutes <= 2, "{minutes}");
    }
}

/// Whoever ends a grant dies at some moment: by the end of its execution, or by an operator.
#[tokio::test(start_paused = true)]
async fn death_of_whoever_makes_room_delays_by_a_sweep() {
    for by_operator in [false, true] {
        for (request, is_sent) in (1..30).flat_map(|n| [(n, false), (n, true)]) {
            let (world, life) = (World::new(), Life::default());
            world.starts("a").await;
            world.sweeps(100).await;
            world.queues("b").await;
            let (mortal, a) = (world.mortal(&life), execution("a"));
            let (key, because) = (start("a").key, make::because());
            let death = Death { request, is_sent };
            if by_operator {
                let options = ForceReleaseOptions::default();
                let call = mortal.force_release(&key, options, &because);
                life.lives(death, call).await;
            } else {
                world.over("a", false);
                life.lives(death, mortal.reap(&a)).await;
            }
            if world
                .row(&key)
                .await
                .is_some_and(|row| row.holding().is_none())
            {
                let minutes = world.begins_after("b").await;
                assert!(minutes <= 2, "{request} {is_sent}: {minutes}");
            }
        }
    }
}

/// Between its grant and its entry a sweep runs, when it was to wait no longer.
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_has_time_to_enter() {
    let (world, life) = (World::new(), Life::default());
    let at_once = Start {
        if_held: IfHeld::Wait(WaitTime::new(Duration::ZERO).expect("valid")),
        ..start("a")
    };
    // The key is read, and the item is written with the grant.
    let death = Death {
        request: 2,
        is_sent: true,
    };
    life.lives(death, world.mortal(&life).start(at_once)).await;
    let row = world.row(&start("a").key).await.expect("a row");
    assert!(row.waits_in_pool());
    world.clock.advance(Duration::from_millis(1));
    let swept = world.others().sweep(SweepBounds::Schedule).await;
    swept.expect("swept");
    assert!(world.began("a"));
}

#[tokio::test(start_paused = true)]
async fn pool_with_a_queue_is_not_purged() {
    let world = World::new();
    world.starts("a").await;
    world.queues("b").await;
    let row = world.row(&pool().key).await.expect("a row");
    assert_eq!(row.purge_at, None);
    world.over("a", false);
    // Nobody is granted anything for some time.
    let stopped = Settings {
        stopped: true,
        ..Settings::default()
    };
    let idle = Leases::new(world.table.clone(), stopped)
        .with_clock(world.clock.clone())
        .with_engine(world.calls.clone())
        .with_starts(StartRules::of(MACHINE).expect("valid"));
    idle.reap(&execution("a")).await.expect("reaped");
    for _ in 0..9 * 24 {
        world.clock.advance(Duration::from_hours(1));
        let swept = idle.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
    }
    let row = world.row(&pool().key).await.expect("a row");
    assert_eq!(row.purge_at, None);
    assert_eq!(row.in_pool().waiting.len() + row.in_pool().inside.len(), 1);
}

/// The first who enters cannot begin, and somebody else is granted its key before the walk goes on.
#[tokio::test(start_paused = true)]
async fn walk_goes_on_after_one_that_failed() {
    let mut met = 0;
    for nth in 1..40 {
        let world = World::new();
        let also = world.clone();
        let store = Wire::meddled(Before::Read, nth, move |table: &Memory| {
            let queue = also.on(table.clone());
            let key = start("a").key;
            let row = queue.read_queue_row(&key).now_or_never().expect("at once");
            if row
                .expect("a row")
                .is_some_and(|row| row.holding().is_none())
            {
                let plain = Start {
                    key,
                    pool: None,
                    ..start("c")
                };
                let answer = queue.start(plain).now_or_never().expect("at once");
                answer.expect("an answer");
            }
        });
        let queue = world.on(store.clone());
        for name in ["first", "a", "b"] {
            queue.start(start(name)).await.expect("an answer");
        }
        world.calls.script_starts("a", &[StartFate::Refused]);
        world.over("first", false);
        queue.reap(&execution("first")).await.expect("reaped");
        if !world.began("c") {
            continue;
        }
        met += 1;
        assert!(world.began("b"), "before the read {nth}");
    }
    assert!(met > 0, "nobody took the key in between");
}

/// The response to the write that notes it is lost, and the SDK sends it again.
#[tokio::test(start_paused = true)]
async fn note_knows_its_own_lost_answer() {
    for nth in 0..3 {
        let world = World::new();
        let store = Wire::default();
        let queue = world.on(store.clone());
        let fates = (0..3).map(|n| {
            if n == nth {
                Fate::SentAgain
            } else {
                Fate::Answered
            }
        });
        store.script(fates);
        let answer = queue.start(start("a")).await;
        assert!(matches!(answer, Ok(Started::Started { .. })), "{answer:?}");
    }
}

/// An operator's word holds for who waits in a pool, and those behind pass it.
#[tokio::test(start_paused = true)]
async fn frozen_key_waits_in_its_pool() {
    for by_limit in [false, true] {
        let world = World::new();
        let (queue, because) = (world.others(), make::because());
        world.starts("a").await;
        for name in ["b", "c", "d"] {
            world.queues(name).await;
        }
        let key = start("b").key;
        if by_limit {
            let none = LimitedTo::new(0).expect("valid");
            let limited = queue.limit_to(&key, Some(none), &because).await;
            limited.expect("limited");
        } else {
            queue.freeze(&key, &because).await.expect("frozen");
        }
        for (ends, begins) in [("a", "c"), ("c", "d")] {
            world.over(ends, false);
            queue.reap(&execution(ends)).await.expect("reaped");
            assert!(world.began(begins), "{begins}");
        }
        world.over("d", false);
        queue.reap(&execution("d")).await.expect("reaped");
        world.sweeps(3).await;
        assert!(!world.began("b"), "its key is frozen");
        if by_limit {
            let unlimited = queue.limit_to(&key, None, &because).await;
            unlimited.expect("unlimited");
        } else {
            queue.unfreeze(&key, &because).await.expect("unfrozen");
        }
        assert!(world.began("b"), "its key is free to be granted");
    }
}

/// Entries of rows that are gone, and of a row that was restored from a backup.
#[tokio::test(start_paused = true)]
async fn row_that_was_deleted_has_no_entry() {
    let world = World::new();
    world.starts("a").await;
    world.queues("b").await;
    world.table.delete(&Address::first(&start("a").key));
    world.sweeps(1).await;
    assert!(world.began("b"));
}

/// The newest sends away who waits for the key, and then the one that has it and waits in its pool.
#[tokio::test(start_paused = true)]
async fn newest_takes_the_place_of_all_at_once() {
    let world = World::new();
    world.starts("inside").await;
    let key = make::key("contended");
    let of_key = |name: &str, if_held| Start {
        key: key.clone(),
        if_held,
        ..start(name)
    };
    for name in ["in-the-pool", "in-the-queue"] {
        let waits = of_key(name, IfHeld::Wait(WaitTime::DAY));
        let answer = world.others().start(waits).await;
        assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    }
    let newest = of_key("newest", IfHeld::Latest(WaitTime::DAY));
    let answer = world.others().start(newest.clone()).await;
    assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    let row = world.row(&key).await.expect("a row");
    assert_eq!(row.granted_to, newest.execution());
    assert_eq!(row.waiting(), []);
    let entries = world.entries().await;
    assert_eq!((entries.inside.len(), entries.waiting.len()), (1, 1));
}

/// Another process ends the lease of one inside in another way after this sweep has read its row, and dies before it walks the pool.
#[tokio::test(start_paused = true)]
async fn room_made_under_sweep_is_used_by_it() {
    let at = Address::first(&start("a").key);
    let wire = Wire::meddled(Before::Apply, 1, move |table| {
        end(table, &at, Ended::Expired);
    });
    let world = World {
        table: wire.table.clone(),
        ..World::new()
    };
    world.starts("a").await;
    world.queues("b").await;
    world.sweeps(6).await;
    world.over("a", false);
    world.clock.advance(Duration::from_mins(1));
    let swept = world.on(wire.clone()).sweep(SweepBounds::Schedule).await;
    swept.expect("swept");
    assert!(wire.is_done(), "another was faster");
    assert!(world.began("b"));
}

/// The next of the key cannot enter the pool, and somebody else waits there.
#[tokio::test(start_paused = true)]
async fn pool_is_walked_though_the_next_of_the_key_fails() {
    let wire = Wire::default();
    let world = World {
        table: wire.table.clone(),
        ..World::new()
    };
    world.starts("a").await;
    world.queues("b").await;
    let next = Start {
        key: start("a").key,
        ..start("next")
    };
    let answer = world.others().start(next).await;
    assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    world.sweeps(6).await;
    world.over("a", false);
    // The end and the grant, and what the next of the key writes to the pool.
    wire.script([Fate::Answered, Fate::Throttled]);
    let reaped = world.on(wire.clone()).reap(&execution("a")).await;
    reaped.expect("an answer");
    let row = world.row(&start("a").key).await.expect("a row");
    assert_eq!(row.granted_to, execution("next"));
    assert!(world.began("b"));
}
