//! What the simulation has found, each told in as few steps as it takes.

use super::{
    ground::{Broken, End, Mishap, START},
    tasks::{Answer, What},
    witness::SKEW,
    workflow::{State, Wants},
    world::{Plan, World, at_once},
};
use std::time::Duration;

use crate::{line::first_of, row::Stored, store::Store as _};

const LONG: u64 = 200_000;

impl World {
    fn quiet() -> Self {
        Self::broken(None)
    }

    fn broken(broken: Option<Broken>) -> Self {
        let world = Self::new(1, 1, broken);
        world.ground.get().trace = Some(String::new());
        world
    }

    fn in_line(&mut self, ttl: u64, wait: u64) -> usize {
        let who = self.enter(Plan {
            wants: Wants::InLine(self.keys[0].clone()),
            ttl,
            wait,
            mute: false,
        });
        self.act(who, What::Ask);
        self.finish();
        who
    }

    /// Somebody holds the key for long, and has done its work.
    fn held(&mut self) -> usize {
        let who = self.in_line(LONG, LONG);
        self.act(who, What::Extend);
        self.finish();
        assert_eq!(self.workflows[who].state, State::Holding);
        self.ground.get().witness.stop(who);
        who
    }

    /// Whoever set out last goes on until it is about to do this; it is taken aside then.
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
        self.hears(who, What::Ask, call, Answer::Died);
        assert_eq!(self.workflows[who].state, State::Asking);
    }

    fn nothing_is_wrong(&mut self) {
        self.settle();
        let trace = self.ground.get().trace.take().unwrap_or_default();
        assert_eq!(self.wrong(), None, "\n{trace}");
    }
}

#[test]
fn who_came_back_to_the_line_is_not_sent_away_for_having_waited_before() {
    let mut world = World::quiet();
    world.held();
    let back = world.in_line(10_000, 5_000);
    world.in_line(10_000, LONG);
    world.jump(6_000);
    world.sweep();
    let slow = world.until("Leave");
    world.sweep();
    let quick = world.until("hear of Leave");
    world.its_task_fails(back);
    world.act(back, What::Ask);
    world.finish();
    world.goes_on(slow);
    world.goes_on(quick);
    world.nothing_is_wrong();
}

#[test]
fn who_came_back_to_a_line_that_was_deleted_is_not_told_that_its_place_is_lost() {
    let mut world = World::quiet();
    world.held();
    let back = world.in_line(10_000, LONG);
    let Stored::Row(row) = world.row(&world.keys[0]) else {
        panic!("no row");
    };
    // By the clock a row that is made anew counts on from here.
    world.jump(5 * SKEW);
    world.memory.delete(&first_of(&world.keys[0]));
    world
        .ground
        .get()
        .witness
        .deleted(&first_of(&world.keys[0]), &row);
    world.sweep();
    let slow = world.until("read waiter");
    world.its_task_fails(back);
    world.in_line(10_000, LONG);
    world.act(back, What::Ask);
    world.finish();
    world.goes_on(slow);
    world.nothing_is_wrong();
}

#[test]
fn who_asks_again_and_was_sent_away_meanwhile_is_not_left_without_a_place() {
    let mut world = World::quiet();
    world.held();
    let back = world.in_line(10_000, 5_000);
    world.jump(6_000);
    world.its_task_fails(back);
    world.act(back, What::Ask);
    let slow = world.until("call back w1.2");
    world.sweep();
    world.finish();
    world.goes_on(slow);
    assert_eq!(world.workflows[back].state, State::Asking, "it is told so");
    world.act(back, What::Ask);
    world.finish();
    world.nothing_is_wrong();
    assert!(world.workflows[back].served);
    assert!(world.ground.get().now > START);
}

#[test]
fn a_key_that_is_kept_for_one_whose_item_is_gone_can_be_had_again() {
    a_line_of_ghosts_gives_way(1);
}

#[test]
fn so_can_one_with_others_behind_whose_items_are_gone_too() {
    a_line_of_ghosts_gives_way(3);
}

fn a_line_of_ghosts_gives_way(ghosts: usize) {
    let mut world = World::quiet();
    let holder = world.held();
    let gone: Vec<_> = (0..ghosts).map(|_| world.in_line(10_000, LONG)).collect();
    world.act(holder, What::Release);
    world.finish();
    // As after a freeze that outlasts the retention: DynamoDB has purged the items.
    for who in gone {
        let (key, request) = (world.keys[0].clone(), world.workflows[who].request.clone());
        let item = at_once(world.memory.waiter(&key, &request, Duration::MAX));
        let item = item.expect("an answer").expect("an item");
        world.end(who, End::Stopped);
        at_once(world.memory.forget(&key, &item, Duration::MAX)).expect("an answer");
    }
    let asker = world.enter(Plan {
        wants: Wants::AtOnce(world.keys[0].clone()),
        ttl: 10_000,
        wait: 0,
        mute: true,
    });
    for _ in 0..10 {
        world.jump(60_000);
        world.sweep();
        world.finish();
        if world.workflows[asker].state == State::Asking {
            world.act(asker, What::Ask);
            world.finish();
        }
    }
    assert_eq!(world.workflows[asker].state, State::Holding);
    world.nothing_is_wrong();
}

/// Whoever released is slow, and its successor asks again meanwhile, and is told.
fn told_by_another(broken: Option<Broken>) -> World {
    let mut world = World::broken(broken);
    let holder = world.held();
    let again = world.in_line(10_000, LONG);
    world.act(holder, What::Release);
    let slow = world.until("call");
    world.its_task_fails(again);
    world.act(again, What::Ask);
    world.finish();
    assert_eq!(world.workflows[again].state, State::Woken);
    world.goes_on(slow);
    world
}

#[test]
fn who_was_told_by_another_is_not_passed_over_for_the_old_token() {
    told_by_another(None).nothing_is_wrong();
    let hasty = told_by_another(Some(Broken::Hasty)).wrong();
    assert_eq!(hasty.as_deref(), Some("w1 was told, and passed over"));
}

/// The answer to a release was lost. When the release is sent again, it finds its own write, and a try that
/// somebody has made since.
#[test]
fn who_was_told_by_another_is_not_passed_over_by_a_release_that_is_sent_again() {
    let mut world = World::quiet();
    let holder = world.held();
    let again = world.in_line(10_000, LONG);
    world.act(holder, What::Release);
    let slow = world.until("hear of Release");
    world.its_task_fails(again);
    world.act(again, What::Ask);
    world.finish();
    assert_eq!(world.workflows[again].state, State::Woken);
    world.tasks.push(slow);
    world.step(world.tasks.len() - 1, Some(Mishap::Twice));
    world.finish();
    world.nothing_is_wrong();
}

#[test]
fn who_asked_again_is_told_by_its_latest_token_whichever_is_written_last() {
    let mut world = World::quiet();
    let holder = world.held();
    let twice = world.in_line(10_000, LONG);
    let its_task_failed = |world: &mut World| {
        world.jump(300);
        world.its_task_fails(twice);
        world.act(twice, What::Ask);
    };
    // Nobody heard from the second call, and so the third was made while it was at work.
    its_task_failed(&mut world);
    let slow = world.until("call back w1.2");
    its_task_failed(&mut world);
    world.finish();
    world.goes_on(slow);
    world.act(holder, What::Release);
    world.finish();
    assert_eq!(world.workflows[twice].state, State::Woken);
    world.nothing_is_wrong();
}

/// Its acquire was granted, and it did not hear so. It fails, is redriven, and is told of the lease
/// that it has, while reap has found out that it had ended.
fn redriven_to_what_it_had(broken: Option<Broken>) -> World {
    let mut world = World::broken(broken);
    let who = world.enter(Plan {
        wants: Wants::AtOnce(world.keys[0].clone()),
        ttl: LONG,
        wait: 0,
        mute: false,
    });
    world.act(who, What::Ask);
    world.step(0, None);
    world.step(0, Some(Mishap::Lost));
    world.jump(5_000);
    world.end(who, End::Failed);
    world.reap(who);
    let slow = world.until("End released");
    world.redrive(who);
    world.act(who, What::Ask);
    world.finish();
    world.goes_on(slow);
    world
}

#[test]
fn who_is_redriven_to_what_it_had_proves_it_before_it_works() {
    redriven_to_what_it_had(None).nothing_is_wrong();
    let skipped = redriven_to_what_it_had(Some(Broken::ProofSkipped)).wrong();
    let works = "w0 redriven works on what End released has ended";
    assert_eq!(skipped.as_deref(), Some(works));
}
