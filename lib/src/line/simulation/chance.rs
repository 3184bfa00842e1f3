//! A run in which chance decides who goes next, and what goes wrong.

use super::{
    dice::Dice,
    ground::{Broken, End, Mishap},
    tasks::{Answer, Order, Purpose, Task, What},
    workflow::{State, Wants, Workflow},
    world::{Plan, STALE, World},
};
use crate::{
    line::first_of,
    row::{Row, Stored},
    values::Key,
};

/// What can go wrong in a run, and how often, in a thousand steps.
#[expect(clippy::struct_excessive_bools, reason = "a model says what is so")]
struct Odds {
    workflows: usize,
    dies: u64,
    mishap: u64,
    /// A workflow is stopped, or fails, or a record or an event goes astray: one in.
    trouble: u64,
    operators: bool,
    deletions: bool,
    /// A floor is deployed, or the table is restored and a floor deployed.
    floors: bool,
    restores: bool,
    /// How many of ten workflows want something else than to wait for the first key.
    others: u64,
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
            floors: dice.one_in(4),
            restores: dice.one_in(8),
            others: [1, 3, 6][dice.place(3)],
        }
    }
}

/// Steps of a run before it settles.
const STEPS: u32 = 350;

/// One run; what it came to.
pub(super) fn run(seed: u64, broken: Option<Broken>, traced: bool) -> World {
    let mut dice = Dice::new(seed);
    let odds = Odds::of(&mut dice);
    let mut world = World::new(seed, 3, broken);
    world.dice = dice;
    // A row that was deleted counts on from the clock: only one that goes right keeps the order.
    world.clocks_differ = !odds.deletions && world.dice.one_in(2);
    world.ground.get().clocks_differ = world.clocks_differ;
    world.stale = [0, STALE][world.dice.place(2)];
    world.patient = world.dice.one_in(2);
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
        0..=3 if world.workflows.len() < odds.workflows => enter(world, odds),
        0..=11 if !world.workflows.is_empty() => {
            let who = world.dice.place(world.workflows.len());
            live(world, who, odds);
        }
        12 if world.tasks.is_empty() || odds.dies > 0 => {
            let lengths = [1_500, 5_000, 11_000, 31_000, 40_000];
            let length = lengths[world.dice.place(lengths.len())];
            world.jump(length);
        }
        13 => to_the_edge(world),
        14 => {
            if !world.sweeps() || world.dice.one_in(4) {
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

fn enter(world: &mut World, odds: &Odds) {
    let [first, second, shared] = [0, 1, 2].map(|n| world.keys[n].clone());
    let wants = if world.dice.among(1, 10) > odds.others {
        if world.dice.one_in(8) {
            Wants::AtOnce(first)
        } else {
            Wants::InLine(first)
        }
    } else {
        match world.dice.place(4) {
            0 => Wants::InLine(second),
            1 => Wants::Permit(shared, 2),
            2 => Wants::All(vec![first, second]),
            _ => Wants::All(vec![second, shared, first]),
        }
    };
    let most = [16, 60, 300][world.dice.place(3)];
    let plan = Plan {
        wants,
        ttl: world.dice.among(4, most) * 1000,
        wait: [5, 60, 120, 300][world.dice.place(4)] * 1000,
        mute: world.dice.one_in(4),
    };
    world.enter(plan);
}

/// Time passes until a lease is nearly over, or has just been: there clocks that differ disagree. Its
/// holder is at work still, and extends it.
fn to_the_edge(world: &mut World) {
    let ends = |(_, row): (_, Row)| {
        let held = row.holding().map(|held| held.expires_at);
        let end = held.or(row.reserved().map(|kept| kept.until))?;
        Some((end.as_millis(), row.granted_to))
    };
    let ends: Vec<_> = world.rows().into_iter().filter_map(ends).collect();
    let around = world.dice.among(0, 3_000);
    let Some((end, holder)) = ends.get(world.dice.place(ends.len())) else {
        return;
    };
    let holds = |w: &Workflow| w.holder == *holder && w.holds_at_leisure();
    let holder = world.workflows.iter().position(holds);
    if let Some(who) = holder {
        world.work(who);
    }
    let now = world.ground.get().now;
    world.jump((end + around - 1_500).saturating_sub(now));
    if let Some(who) = holder {
        world.act(who, What::Extend);
    }
}

/// A workflow goes on, or comes to grief.
fn live(world: &mut World, who: usize, odds: &Odds) {
    let workflow = &world.workflows[who];
    if let Some(end) = workflow.ended {
        let may = end != End::Succeeded && workflow.redrives < 2;
        if may && world.dice.one_in(odds.trouble) {
            if world.dice.one_in(2) {
                half_reaped(world, who);
            }
            world.redrive(who);
            if world.dice.one_in(2) {
                world.go_on(who);
            }
        }
        return;
    }
    if world.dice.one_in(odds.trouble * 2) {
        if workflow.holds_at_leisure() && world.dice.one_in(2) {
            // Reap leaves alone what was written a moment ago.
            world.jump(35_000);
            world.work(who);
        }
        let ends = [End::Stopped, End::Stopped, End::Failed, End::Succeeded];
        let end = ends[world.dice.place(ends.len())];
        world.end(who, end);
        return;
    }
    if world.workflows[who].busy.is_some() {
        return;
    }
    match world.workflows[who].state {
        // Its task fails, and is tried again with another token.
        State::Waiting if world.dice.one_in(odds.trouble) => {
            let call = world.workflows[who].calls;
            // While the call before is at work, only those whose clocks agree know which is which.
            let at_work = world.is_at_work(&Purpose::For(who, What::Ask, call));
            if !(at_work && world.clocks_differ) {
                world.hears(who, What::Ask, call, Answer::Died);
            }
        }
        State::Woken if world.dice.one_in(20) && !world.works(who) => {
            world.act(who, What::Release);
        }
        State::Holding => match world.dice.place(6) {
            0 | 1 => world.act(who, What::Extend),
            2 => world.work(who),
            _ => world.go_on(who),
        },
        _ => world.go_on(who),
    }
}

/// A reaping that is somewhere in the middle.
fn half_reaped(world: &mut World, who: usize) {
    let place = world.tasks.len();
    world.reap(who);
    for _ in 0..world.dice.place(8) {
        if world.tasks.len() > place {
            world.step(place, None);
        }
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
    let who = world.ends.remove(place);
    if world.dice.one_in(odds.trouble) {
        return;
    }
    if world.dice.one_in(3) {
        world.jump(40_000);
    }
    world.reap(who);
    if world.dice.one_in(2) {
        world.ends.push(who);
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
            Order::RaiseFloor,
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
            ground.witness.deleted(&first_of(&key), &row);
        }
    } else if odds.restores && world.dice.one_in(4) {
        world.restore();
    } else if odds.floors && world.dice.one_in(4) {
        world.deploy_a_floor();
    }
}
