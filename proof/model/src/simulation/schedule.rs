//! A run in which chance decides the next step and the faults.

use super::first_of;
use super::{
    shared::{Broken, DeliveryFault, End},
    tasks::{Answer, Command, Task, TaskKind, What},
    workflow::{AcquireKind, State, Workflow},
    world::{Plan, STALE, Simulation},
};
use fastrand::Rng;
use leasehold::{
    Key,
    row::{Row, Stored, Term},
};

/// What can go wrong in a run, and how often, in a thousand steps.
#[expect(clippy::struct_excessive_bools, reason = "a model says what is so")]
struct Odds {
    workflows: usize,
    dies: u64,
    fault: u64,
    /// A workflow is stopped, or fails, or a record or an event is lost: one in.
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
    fn of(rng: &mut Rng) -> Self {
        let often = |rng: &mut Rng| [0, 5, 20, 60][rng.usize(..4)];
        Self {
            workflows: rng.usize(..8) + 2,
            dies: often(rng),
            fault: often(rng),
            trouble: [4, 12, 1_000_000][rng.usize(..3)],
            operators: one_in(rng, 4),
            deletions: one_in(rng, 10),
            floors: one_in(rng, 4),
            restores: one_in(rng, 8),
            others: [1, 3, 6][rng.usize(..3)],
        }
    }
}

/// Whether it happens that happens once in so many times.
pub fn one_in(rng: &mut Rng, times: u64) -> bool {
    rng.u64(..times) == 0
}

/// Steps of a run before it settles.
const STEPS: u32 = 350;

/// One run; what it came to.
pub fn run(seed: u64, broken: Option<Broken>, traced: bool) -> Simulation {
    let mut rng = Rng::with_seed(seed);
    let odds = Odds::of(&mut rng);
    let mut sim = Simulation::new(seed, 3, broken);
    sim.rng = rng;
    // A row that was deleted counts on from the clock: only one that goes right keeps the order.
    sim.clocks_differ = !odds.deletions && one_in(&mut sim.rng, 2);
    sim.shared.get().clocks_differ = sim.clocks_differ;
    sim.stale = [0, STALE][sim.rng.usize(..2)];
    sim.shared.get().unreadable = one_in(&mut sim.rng, 8);
    sim.patient = one_in(&mut sim.rng, 2);
    sim.settings.queue_cap = if one_in(&mut sim.rng, 4) { 2 } else { 128 };
    if traced {
        sim.shared.get().trace = Some(String::new());
    }
    for _ in 0..STEPS {
        if sim.wrong().is_some() {
            return sim;
        }
        turn(&mut sim, &odds);
    }
    sim.settle();
    sim
}

fn turn(sim: &mut Simulation, odds: &Odds) {
    let pause = sim.rng.u64(1..=8);
    sim.jump(pause);
    if !sim.tasks.is_empty() && !one_in(&mut sim.rng, 4) {
        let place = sim.rng.usize(..sim.tasks.len());
        if sim.rng.u64(..1000) < odds.dies {
            sim.kill(place);
        } else {
            let fault = draw_fault(sim, odds);
            sim.step(place, fault);
        }
        return;
    }
    match sim.rng.u64(0..=19) {
        0..=3 if sim.workflows.len() < odds.workflows => enter(sim, odds),
        0..=11 if !sim.workflows.is_empty() => {
            let who = sim.rng.usize(..sim.workflows.len());
            live(sim, who, odds);
        }
        12 if sim.tasks.is_empty() || odds.dies > 0 => {
            let lengths = [1_500, 5_000, 11_000, 31_000, 40_000];
            let length = lengths[sim.rng.usize(..lengths.len())];
            sim.jump(length);
        }
        13 => to_the_edge(sim),
        14 => {
            if !sim.sweeps() || one_in(&mut sim.rng, 4) {
                sim.sweep();
            }
        }
        15 | 16 => hand_over(sim),
        17 => report(sim, odds),
        18 => interfere(sim, odds),
        _ => {
            let delayed = sim.shared.get().delayed.len();
            if delayed > 0 {
                let place = sim.rng.usize(..delayed);
                sim.arrive(place);
            }
        }
    }
}

fn draw_fault(sim: &mut Simulation, odds: &Odds) -> Option<DeliveryFault> {
    let all = [
        DeliveryFault::Lost,
        DeliveryFault::Late,
        DeliveryFault::Twice,
    ];
    let strikes = sim.rng.u64(..1000) < odds.fault;
    strikes.then(|| all[sim.rng.usize(..all.len())])
}

fn enter(sim: &mut Simulation, odds: &Odds) {
    let [first, second, shared] = [0, 1, 2].map(|n| sim.keys[n].clone());
    let wants = if sim.rng.u64(1..=10) > odds.others {
        if one_in(&mut sim.rng, 8) {
            AcquireKind::AtOnce(first)
        } else {
            AcquireKind::Queued(first)
        }
    } else {
        match sim.rng.usize(..4) {
            0 => AcquireKind::Queued(second),
            1 => AcquireKind::Permit(shared, 2),
            2 => AcquireKind::All(vec![first, second]),
            _ => AcquireKind::All(vec![second, shared, first]),
        }
    };
    let most = [16, 60, 300][sim.rng.usize(..3)];
    let plan = Plan {
        wants,
        ttl: sim.rng.u64(4..=most) * 1000,
        wait: [5, 60, 120, 300][sim.rng.usize(..4)] * 1000,
        mute: one_in(&mut sim.rng, 4),
        keep: [0, 0, 20_000, 60_000][sim.rng.usize(..4)],
        carries_on: one_in(&mut sim.rng, 4),
    };
    sim.enter(plan);
}

/// Time passes until a lease is nearly over, or has just been: there clocks that differ disagree. Its
/// holder is at work still, and extends it.
fn to_the_edge(sim: &mut Simulation) {
    let ends = |(_, row): (_, Row)| {
        let held = row
            .holding()
            .filter(|held| matches!(held.term, Term::Ttl { .. }));
        Some((held?.expires_at().as_millis(), row.granted_to.clone()))
    };
    let ends: Vec<_> = sim.rows().into_iter().filter_map(ends).collect();
    let around = sim.rng.u64(0..=3_000);
    let Some((end, holder)) = sim.rng.choice(&ends) else {
        return;
    };
    let holds = |w: &Workflow| w.holder == *holder && w.holds_at_leisure();
    let holder = sim.workflows.iter().position(holds);
    if let Some(who) = holder {
        sim.work(who);
    }
    let now = sim.shared.get().now;
    sim.jump((end + around - 1_500).saturating_sub(now));
    if let Some(who) = holder {
        sim.act(who, What::Extend);
    }
}

/// A workflow continues, or fails.
fn live(sim: &mut Simulation, who: usize, odds: &Odds) {
    let workflow = &sim.workflows[who];
    if let Some(end) = workflow.ended {
        let may = end != End::Succeeded && workflow.redrives < 2;
        if may && one_in(&mut sim.rng, odds.trouble) {
            if one_in(&mut sim.rng, 2) {
                half_reaped(sim, who);
            }
            sim.redrive(who);
            if one_in(&mut sim.rng, 2) {
                sim.go_on(who);
            }
        }
        return;
    }
    if one_in(&mut sim.rng, odds.trouble * 2) {
        if workflow.holds_at_leisure() && one_in(&mut sim.rng, 2) {
            // Reap leaves recent writes alone.
            sim.jump(35_000);
            sim.work(who);
        }
        let ends = [End::Stopped, End::Stopped, End::Failed, End::Succeeded];
        let end = ends[sim.rng.usize(..ends.len())];
        sim.end(who, end);
        return;
    }
    if sim.workflows[who].busy.is_some() {
        return;
    }
    match sim.workflows[who].state {
        // Its task fails, and is retried with another token.
        State::Waiting if one_in(&mut sim.rng, odds.trouble) => {
            let call = sim.workflows[who].calls;
            // While the call before is at work, only processes whose clocks agree can tell the two apart.
            let at_work = sim.is_at_work(&TaskKind::For(who, What::Ask, call));
            if !(at_work && sim.clocks_differ) {
                if sim.workflows[who].carries_on && one_in(&mut sim.rng, 3) {
                    sim.carries_on(who);
                } else {
                    sim.on_response(who, What::Ask, call, Answer::Died);
                }
            }
        }
        State::Woken if one_in(&mut sim.rng, 20) && !sim.works(who) => {
            sim.act(who, What::Release);
        }
        State::Holding => match sim.rng.usize(..6) {
            0 | 1 => sim.act(who, What::Extend),
            2 => sim.work(who),
            _ => sim.go_on(who),
        },
        _ => sim.go_on(who),
    }
}

/// A reaping that is somewhere in the middle.
fn half_reaped(sim: &mut Simulation, who: usize) {
    let place = sim.tasks.len();
    sim.reap(who);
    for _ in 0..sim.rng.usize(..8) {
        if sim.tasks.len() > place {
            sim.step(place, None);
        }
    }
}

/// Somebody hands a key over that was freed by one who may not tell anybody.
fn hand_over(sim: &mut Simulation) {
    let key = sim.rng.usize(..sim.keys.len());
    let key = sim.keys[key].clone();
    if one_in(&mut sim.rng, 2) {
        sim.hand_over(key);
    } else {
        repeat(sim, &key);
    }
}

/// The same twice, and nothing in between: the second changes nothing.
fn repeat(sim: &mut Simulation, key: &Key) {
    let others = std::mem::take(&mut sim.tasks);
    let clocks_differ = std::mem::take(&mut sim.clocks_differ);
    sim.hand_over(key.clone());
    sim.finish();
    let once = sim.row(key);
    sim.hand_over(key.clone());
    sim.finish();
    if sim.row(key) != once {
        sim.shared
            .get()
            .wrong("a repeated hand-over changed the row");
    }
    (sim.tasks, sim.clocks_differ) = (others, clocks_differ);
}

/// A status event arrives, or does not; once, or again.
fn report(sim: &mut Simulation, odds: &Odds) {
    if sim.ends.is_empty() {
        return;
    }
    let place = sim.rng.usize(..sim.ends.len());
    let who = sim.ends.remove(place);
    if one_in(&mut sim.rng, odds.trouble) {
        return;
    }
    if one_in(&mut sim.rng, 3) {
        sim.jump(40_000);
    }
    sim.reap(who);
    if one_in(&mut sim.rng, 2) {
        sim.ends.push(who);
    }
}

fn interfere(sim: &mut Simulation, odds: &Odds) {
    let key = sim.rng.usize(..sim.keys.len());
    let key = sim.keys[key].clone();
    if odds.operators && one_in(&mut sim.rng, 3) {
        let commands = [
            Command::Freeze,
            Command::Unfreeze,
            Command::Unfreeze,
            Command::Evict,
            Command::RaiseFloor,
        ];
        let command = commands[sim.rng.usize(..commands.len())];
        sim.operate(key, command);
    } else if odds.deletions && one_in(&mut sim.rng, 3) {
        // What set out to be granted before would count from before.
        sim.jump(5_000);
        let asks = |task: &Task| matches!(task.purpose, TaskKind::For(_, What::Ask, _));
        while let Some(place) = sim.tasks.iter().position(asks) {
            sim.kill(place);
        }
        sim.shared.get().delayed.clear();
        if let Stored::Row(row) = sim.row(&key) {
            sim.memory.delete(&first_of(&key));
            let mut shared = sim.shared.get();
            shared.note(|| format!("{key} is deleted by hand"));
            shared.oracle.deleted(&first_of(&key), &row);
        }
    } else if odds.restores && one_in(&mut sim.rng, 4) {
        sim.restore();
    } else if odds.floors && one_in(&mut sim.rng, 4) {
        sim.deploy_a_floor();
    }
}
