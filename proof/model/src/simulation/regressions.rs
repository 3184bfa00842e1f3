//! What the simulation has found, each in as few steps as it takes.

use super::{
    oracle::SKEW,
    shared::{Broken, DeliveryFault, End, START},
    tasks::{Answer, What},
    workflow::{AcquireKind, State},
    world::{Plan, Simulation, at_once},
};
use std::time::Duration;

use super::first_of;
use leasehold::{row::Stored, store::Operations as _};

const LONG: u64 = 200_000;

const PLAN: Plan = Plan {
    wants: AcquireKind::All(Vec::new()),
    ttl: 10_000,
    wait: 5_000,
    mute: false,
    keep: 0,
    carries_on: false,
};

impl Simulation {
    fn quiet() -> Self {
        Self::broken(None)
    }

    fn broken(broken: Option<Broken>) -> Self {
        let sim = Self::new(1, 1, broken);
        sim.shared.get().trace = Some(String::new());
        sim
    }

    fn queued(&mut self, wait: u64) -> usize {
        let who = self.enter(Plan {
            wants: AcquireKind::Queued(self.keys[0].clone()),
            wait,
            ..PLAN
        });
        self.act(who, What::Ask);
        self.finish();
        who
    }

    /// Somebody holds the key for long, and has done its work.
    fn held(&mut self) -> usize {
        let who = self.queued(LONG);
        assert_eq!(self.workflows[who].state, State::Holding);
        self.shared.get().oracle.stop(who);
        who
    }

    /// The latest function runs until it is about to do this; then it is set aside.
    fn until(&mut self, about: &str) -> super::tasks::Task {
        let last = self.tasks.len() - 1;
        self.step(last, None);
        while self.tasks[last].about != about {
            self.step(last, None);
        }
        self.tasks.remove(last)
    }

    fn goes_on(&mut self, task: super::tasks::Task) {
        self.tasks.push(task);
        self.finish();
    }

    fn its_task_fails(&mut self, who: usize) {
        let call = self.workflows[who].calls;
        self.on_response(who, What::Ask, call, Answer::Died);
        assert_eq!(self.workflows[who].state, State::Asking);
    }

    fn nothing_is_wrong(&mut self) {
        self.settle();
        let trace = self.shared.get().trace.take().unwrap_or_default();
        assert_eq!(self.wrong(), None, "\n{trace}");
    }
}

#[test]
fn rejoined_waiter_gets_whole_waiting_time() {
    let mut sim = Simulation::quiet();
    sim.held();
    let back = sim.queued(5_000);
    sim.queued(LONG);
    sim.jump(6_000);
    sim.sweep();
    let slow = sim.until("Leave");
    sim.sweep();
    let quick = sim.until("hear of Leave");
    sim.its_task_fails(back);
    sim.act(back, What::Ask);
    sim.finish();
    sim.goes_on(slow);
    sim.goes_on(quick);
    sim.nothing_is_wrong();
}

#[test]
fn rejoining_deleted_row_keeps_place() {
    let mut sim = Simulation::quiet();
    sim.held();
    let back = sim.queued(LONG);
    let Stored::Row(row) = sim.row(&sim.keys[0]) else {
        panic!("no row");
    };
    // By the clock a row that is made anew counts on from here.
    sim.jump(5 * SKEW);
    sim.memory.delete(&first_of(&sim.keys[0]));
    sim.shared
        .get()
        .oracle
        .deleted(&first_of(&sim.keys[0]), &row);
    sim.sweep();
    let slow = sim.until("read waiter");
    sim.its_task_fails(back);
    sim.queued(LONG);
    sim.act(back, What::Ask);
    sim.finish();
    sim.goes_on(slow);
    sim.nothing_is_wrong();
}

#[test]
fn waiter_removed_while_asking_rejoins() {
    let mut sim = Simulation::quiet();
    sim.held();
    let back = sim.queued(5_000);
    sim.jump(6_000);
    sim.its_task_fails(back);
    sim.act(back, What::Ask);
    let slow = sim.until("call back w1.2");
    sim.sweep();
    sim.finish();
    sim.goes_on(slow);
    assert_eq!(sim.workflows[back].state, State::Asking, "it knows so");
    sim.act(back, What::Ask);
    sim.finish();
    sim.nothing_is_wrong();
    assert!(sim.workflows[back].served);
    assert!(sim.shared.get().now > START);
}

#[test]
fn waiter_without_item_blocks_nothing() {
    a_line_of_ghosts_gives_way(1);
}

#[test]
fn several_waiters_without_items_block_nothing() {
    a_line_of_ghosts_gives_way(3);
}

fn a_line_of_ghosts_gives_way(ghosts: usize) {
    let mut sim = Simulation::quiet();
    let holder = sim.held();
    let gone: Vec<_> = (0..ghosts).map(|_| sim.queued(LONG)).collect();
    // As after a freeze that outlasts the retention: DynamoDB has purged the items.
    for who in gone {
        let (key, request) = (sim.keys[0].clone(), sim.workflows[who].request.clone());
        let item = at_once(sim.memory.token_item(&key, &request, Duration::MAX));
        let item = item.expect("an answer").expect("an item");
        sim.end(who, End::Stopped);
        at_once(sim.memory.delete_waiter(&key, &item, Duration::MAX)).expect("an answer");
    }
    sim.act(holder, What::Release);
    sim.finish();
    let asker = sim.enter(Plan {
        wants: AcquireKind::AtOnce(sim.keys[0].clone()),
        mute: true,
        ..PLAN
    });
    for _ in 0..10 {
        sim.jump(60_000);
        sim.sweep();
        sim.finish();
        if sim.workflows[asker].state == State::Asking {
            sim.act(asker, What::Ask);
            sim.finish();
        }
    }
    assert_eq!(sim.workflows[asker].state, State::Holding);
    sim.nothing_is_wrong();
}

/// The releasing function is slow. Meanwhile its successor asks again, and is notified.
fn notified_by_another(broken: Option<Broken>) -> Simulation {
    let mut sim = Simulation::broken(broken);
    let holder = sim.held();
    let again = sim.queued(LONG);
    sim.act(holder, What::Release);
    let slow = sim.until("call");
    sim.its_task_fails(again);
    sim.act(again, What::Ask);
    sim.finish();
    assert_eq!(sim.workflows[again].state, State::Holding);
    sim.goes_on(slow);
    sim
}

#[test]
fn old_token_spares_notified_waiter() {
    notified_by_another(None).nothing_is_wrong();
    let hasty = notified_by_another(Some(Broken::TakesBackWithoutCheck)).wrong();
    assert_eq!(
        hasty.as_deref(),
        Some("w1 was told, and its lease taken back")
    );
}

/// The answer to a release was lost. When the release is sent again, it finds its own write, and a try that
/// somebody has made since.
#[test]
fn repeated_release_spares_notified_waiter() {
    let mut sim = Simulation::quiet();
    let holder = sim.held();
    let again = sim.queued(LONG);
    sim.act(holder, What::Release);
    let slow = sim.until("hear of Release");
    sim.its_task_fails(again);
    sim.act(again, What::Ask);
    sim.finish();
    assert_eq!(sim.workflows[again].state, State::Holding);
    sim.tasks.push(slow);
    sim.step(sim.tasks.len() - 1, Some(DeliveryFault::Twice));
    sim.finish();
    sim.nothing_is_wrong();
}

#[test]
fn waiter_is_notified_by_latest_token() {
    let mut sim = Simulation::quiet();
    let holder = sim.held();
    let twice = sim.queued(LONG);
    let its_task_failed = |sim: &mut Simulation| {
        sim.jump(300);
        sim.its_task_fails(twice);
        sim.act(twice, What::Ask);
    };
    // No answer of the second call arrived, so the third was made while it was at work.
    its_task_failed(&mut sim);
    let slow = sim.until("call back w1.2");
    its_task_failed(&mut sim);
    sim.finish();
    sim.goes_on(slow);
    sim.act(holder, What::Release);
    sim.finish();
    assert_eq!(sim.workflows[twice].state, State::Holding);
    sim.nothing_is_wrong();
}

/// Its acquire was granted, and the answer was lost. It fails, is redriven, and learns of the lease
/// that it has, while reap has found out that it had ended.
fn redriven_to_what_it_had(broken: Option<Broken>) -> Simulation {
    let mut sim = Simulation::broken(broken);
    let who = sim.enter(Plan {
        wants: AcquireKind::AtOnce(sim.keys[0].clone()),
        ttl: LONG,
        ..PLAN
    });
    sim.act(who, What::Ask);
    sim.step(0, None);
    sim.step(0, Some(DeliveryFault::Lost));
    sim.jump(5_000);
    sim.end(who, End::Failed);
    sim.reap(who);
    let slow = sim.until("End released");
    sim.redrive(who);
    sim.act(who, What::Ask);
    sim.finish();
    sim.goes_on(slow);
    sim
}

#[test]
fn redrive_proves_its_lease_before_work() {
    redriven_to_what_it_had(None).nothing_is_wrong();
    let skipped = redriven_to_what_it_had(Some(Broken::ProofSkipped)).wrong();
    let works = "w0 redriven works on what End released has ended";
    assert_eq!(skipped.as_deref(), Some(works));
}
