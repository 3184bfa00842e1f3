//! A run in which chance decides who goes next, and what goes wrong.

use super::ground::EndOf;
use super::{
    dice::Dice,
    ground::{Broken, Mishap},
    tasks::{Answer, Order, Purpose, Task, What},
    witness::SKEW,
    workflow::State,
    world::{Plan, World},
};
use crate::{line::first_of, row::Stored, values::Key};

/// What can go wrong in a run, and how often, in a thousand steps.
struct Odds {
    workflows: usize,
    dies: u64,
    mishap: u64,
    /// A workflow is stopped, or fails, or a record or an event goes astray: one in.
    trouble: u64,
    operators: bool,
    deletions: bool,
}

impl Odds {
    fn of(dice: &mut Dice) -> Self {
        let often = |dice: &mut Dice| [0, 5, 20, 60][dice.place(4)];
        Self {
            workflows: dice.place(8) + 2,
            dies: often(dice),
            mishap: often(dice),
            trouble: [4, 12, 1_000_000][dice.place(3)],
            operators: dice.one_in(4),
            deletions: dice.one_in(10),
        }
    }
}

/// Steps of a run before it settles.
const STEPS: u32 = 350;

/// One run; what it came to.
pub(super) fn run(seed: u64, broken: Option<Broken>, traced: bool) -> World {
    let mut dice = Dice::new(seed);
    let odds = Odds::of(&mut dice);
    let keys = if dice.one_in(8) { 2 } else { 1 };
    let mut world = World::new(seed, keys, broken);
    world.dice = dice;
    // A row that was deleted counts on from the clock: only one that goes right keeps the order.
    world.clocks_differ = !odds.deletions && world.dice.one_in(2);
    world.ground.get().clocks_differ = world.clocks_differ;
    world.settings.queue_cap = if world.dice.one_in(4) { 2 } else { 128 };
    if traced {
        world.ground.get().trace = Some(String::new());
    }
    for _ in 0..STEPS {
        if world.wrong().is_some() {
            return world;
        }
        turn(&mut world, &odds);
    }
    world.settle();
    world
}

fn turn(world: &mut World, odds: &Odds) {
    let pause = world.dice.among(1, 8);
    world.jump(pause);
    if !world.tasks.is_empty() && !world.dice.one_in(4) {
        let place = world.dice.place(world.tasks.len());
        if world.dice.per_mille(odds.dies) {
            world.kill(place);
        } else {
            let mishap = misfortune(world, odds);
            world.step(place, mishap);
        }
        return;
    }
    match world.dice.among(0, 19) {
        0..=3 if world.workflows.len() < odds.workflows => enter(world),
        0..=11 if !world.workflows.is_empty() => {
            let who = world.dice.place(world.workflows.len());
            live(world, who, odds);
        }
        12 if world.tasks.is_empty() || odds.dies > 0 => {
            let lengths = [1_000, 5_000, 11_000, 31_000, 40_000];
            let length = lengths[world.dice.place(lengths.len())];
            world.jump(length);
        }
        13 => world.jump(2_000),
        14 => {
            if !world.is_at_work(&Purpose::Sweep) || world.dice.one_in(4) {
                world.sweep();
            }
        }
        15 | 16 => deliver(world, odds),
        17 => report(world, odds),
        18 => interfere(world, odds),
        _ => {
            let strays = world.ground.get().strays.len();
            if strays > 0 {
                let place = world.dice.place(strays);
                world.arrive(place);
            }
        }
    }
}

fn misfortune(world: &mut World, odds: &Odds) -> Option<Mishap> {
    let all = [Mishap::Lost, Mishap::Late, Mishap::Twice];
    let strikes = world.dice.per_mille(odds.mishap);
    strikes.then(|| all[world.dice.place(all.len())])
}

fn enter(world: &mut World) {
    let ahead = if world.clocks_differ {
        i64::try_from(world.dice.among(0, 2 * SKEW - 2)).expect("small")
            - i64::try_from(SKEW).expect("small")
            + 1
    } else {
        0
    };
    let plan = Plan {
        key: world.dice.place(world.keys.len()),
        ttl: world.dice.among(4, 60) * 1000,
        wait: [5, 60, 120, 300][world.dice.place(4)] * 1000,
        in_line: !world.dice.one_in(5),
        mute: world.dice.one_in(4),
        ahead,
    };
    world.enter(plan);
}

/// A workflow goes on, or comes to grief.
fn live(world: &mut World, who: usize, odds: &Odds) {
    if world.workflows[who].state == State::Over {
        return;
    }
    if world.dice.one_in(odds.trouble * 3) {
        let end = [EndOf::Force, EndOf::Force, EndOf::Failure][world.dice.place(3)];
        world.end(who, end);
        return;
    }
    if world.workflows[who].busy {
        return;
    }
    match world.workflows[who].state {
        // Its task fails, and is tried again with another token.
        State::Waiting if world.dice.one_in(odds.trouble) => {
            let attempt = world.workflows[who].attempts;
            // While the call before is at work, only those whose clocks agree know which is which.
            let at_work = world.is_at_work(&Purpose::For(who, What::Ask, attempt));
            if !(at_work && world.clocks_differ) {
                world.hears(who, What::Ask, attempt, Answer::Died);
            }
        }
        State::Woken if world.dice.one_in(20) => world.act(who, What::Release),
        State::Holding if world.dice.one_in(3) => world.act(who, What::Extend),
        _ => world.go_on(who),
    }
}

/// A record of the stream arrives, or does not; once, or again, or somewhat later.
fn deliver(world: &mut World, odds: &Odds) {
    let records = world.ground.get().records.len();
    if records == 0 {
        let key = world.dice.place(world.keys.len());
        let key = world.keys[key].clone();
        if world.dice.one_in(2) {
            world.hand_over(key);
        } else {
            repeat(world, &key);
        }
        return;
    }
    let place = world.dice.place(records);
    let key = world.ground.get().records.remove(place);
    if world.dice.one_in(odds.trouble) {
        return;
    }
    world.hand_over(key.clone());
    if world.dice.one_in(3) {
        world.ground.get().records.push(key);
    }
}

/// The same record twice, and nothing in between: the second changes nothing.
fn repeat(world: &mut World, key: &Key) {
    let others = std::mem::take(&mut world.tasks);
    let clocks_differ = std::mem::take(&mut world.clocks_differ);
    world.hand_over(key.clone());
    world.finish();
    let once = world.row(key);
    world.hand_over(key.clone());
    world.finish();
    if world.row(key) != once {
        world
            .ground
            .get()
            .wrong("a repeated record changed the row");
    }
    (world.tasks, world.clocks_differ) = (others, clocks_differ);
}

/// A status event arrives, or does not; once, or again.
fn report(world: &mut World, odds: &Odds) {
    if world.ends.is_empty() {
        return;
    }
    let place = world.dice.place(world.ends.len());
    let (who, end) = world.ends.remove(place);
    if world.dice.one_in(odds.trouble) {
        return;
    }
    world.reap(who, end);
    if world.dice.one_in(2) {
        world.ends.push((who, end));
    }
}

fn interfere(world: &mut World, odds: &Odds) {
    let key = world.dice.place(world.keys.len());
    let key = world.keys[key].clone();
    if odds.operators && world.dice.one_in(3) {
        let orders = [
            Order::Freeze,
            Order::Unfreeze,
            Order::Unfreeze,
            Order::Evict,
        ];
        let order = orders[world.dice.place(orders.len())];
        world.operate(key, order);
    } else if odds.deletions && world.dice.one_in(3) {
        // What set out to be granted before would count from before.
        world.jump(5_000);
        let asks = |task: &Task| matches!(task.purpose, Purpose::For(_, What::Ask, _));
        while let Some(place) = world.tasks.iter().position(asks) {
            world.kill(place);
        }
        world.ground.get().strays.clear();
        if let Stored::Row(row) = world.row(&key) {
            world.memory.delete(&first_of(&key));
            let mut ground = world.ground.get();
            ground.note(|| format!("{key} is deleted by hand"));
            ground.witness.deleted(&key, &row);
        }
    }
}
