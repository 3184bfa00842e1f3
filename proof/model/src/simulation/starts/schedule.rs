//! A run in which chance decides the next step and the faults; and how it comes to rest.

use super::{
    super::shared::{Broken, DeliveryFault, End, SKEW, at_once},
    judge::{Judge, Record},
    service::{FICKLE, REDRIVABLE, SIGNATURE},
    world::{Act, TokenState, World},
};
use leasehold::{
    Holder, StartStatus,
    row::{Row, Stored},
    store::{ItemAddress, Operations as _, ScanSegment, Store as _},
};
use std::time::Duration;

/// Turns of a run before it comes to rest. In each a function at work goes on for a while, or something else happens.
const TURNS: u32 = 140;

/// Of a minute each, until everybody has come to rest: the longest grace, some calls that nobody can answer, and more.
const ROUNDS: u32 = 130;

/// Of an hour each, after those: the longest pause between two looks at what may be redriven, and then the time in which
/// everything that got its key back comes to its end.
const LONG_ROUNDS: u32 = 48;

/// As long as anybody waits, and more.
const DAY: u64 = 90_000_000;

/// One run; what it came to.
pub fn run(seed: u64, broken: Option<Broken>, traced: bool) -> World {
    let mut world = World::new(seed, broken, traced);
    for _ in 0..TURNS {
        let pause = world.rng.u64(1..=30);
        world.jump(pause);
        turn(&mut world);
    }
    settle(&mut world);
    world
}

fn turn(world: &mut World) {
    let now = world.now();
    let awake: Vec<_> = (0..world.tasks.len())
        .filter(|place| world.tasks[*place].asleep_until <= now)
        .filter(|place| world.tasks[*place].stays_until <= now)
        .collect();
    if let Some(place) = world.rng.choice(&awake).copied()
        && world.rng.bool()
    {
        return go_on(world, place);
    }
    let calls = world.tasks.len();
    happens(world);
    if world.tasks.len() > calls {
        go_on(world, world.tasks.len() - 1);
    }
}

/// A function goes on until it is done, or it is another's turn.
fn go_on(world: &mut World, place: usize) {
    let steps = match world.rng.u8(..4) {
        0 => world.rng.u32(1..4),
        1 => world.rng.u32(1..15),
        _ => 400,
    };
    for _ in 0..steps {
        let (dies, sleeps) = (world.plan.dies, world.plan.sleeps);
        if world.rng.u64(..1000) < dies {
            return world.kill(place);
        }
        if world.rng.u64(..1000) < sleeps {
            let lengths = [100, 100, 500, 500, 3_000, 20_000, 59_000, 70_000, 400_000];
            let length = lengths[world.rng.usize(..lengths.len())];
            world.tasks[place].asleep_until = world.now() + length;
            return;
        }
        let fault = draw_fault(world);
        if !world.step(place, fault) || world.tasks[place].stays_until > world.now() {
            return;
        }
    }
}

fn draw_fault(world: &mut World) -> Option<DeliveryFault> {
    let all = [
        DeliveryFault::Lost,
        DeliveryFault::Late,
        DeliveryFault::Twice,
        DeliveryFault::Again,
    ];
    let strikes = world.rng.u64(..1000) < world.plan.fault;
    strikes.then(|| all[world.rng.usize(..all.len())])
}

fn happens(world: &mut World) {
    let known = world.judge(|judge| judge.starts.len());
    match world.rng.u8(..100) {
        0..=17 if known < world.plan.starts => {
            let key = world.rng.usize(..world.plan.keys);
            let who = world.enter(key);
            world.ask(who);
        }
        0..=31 if known > 0 => {
            // Of one that is settled there is little to ask.
            let open = |world: &World, who| world.judge(|judge| !judge.is_settled(who));
            let who = some(world, open).filter(|_| world.rng.u8(..5) > 0);
            let who = who.unwrap_or_else(|| world.rng.usize(..known));
            world.ask(who);
        }
        32..=41 => ends(world),
        42..=52 => reports(world),
        53..=64 => world.sweep(),
        65..=77 => {
            let lengths = [
                1_500, 5_500, 16_000, 31_000, 61_000, 61_000, 125_000, 400_000,
            ];
            let length = lengths[world.rng.usize(..lengths.len())];
            world.jump(length);
        }
        78..=88 => intervenes(world),
        89..=95 => token(world),
        _ => {
            let delayed = world.shared.get().delayed.len();
            if delayed > 0 {
                let place = world.rng.usize(..delayed);
                world.arrive(place);
            }
        }
    }
}

/// Of the starts that fit, one.
fn some(world: &mut World, fits: impl Fn(&World, usize) -> bool) -> Option<usize> {
    let known = world.judge(|judge| judge.starts.len());
    let all: Vec<_> = (0..known).filter(|who| fits(world, *who)).collect();
    world.rng.choice(&all).copied()
}

fn execution(world: &World, who: usize) -> Holder {
    world.judge(|judge| judge.starts[who].start.execution())
}

/// An execution that was started ends, gives its key back, or is redriven.
fn ends(world: &mut World) {
    let runs = |world: &World, who| world.judge(|judge| judge.is_running(who));
    let called = |world: &World, who| world.judge(|judge| judge.can_lose_caller(who));
    if world.rng.u8(..8) == 0
        && let Some(who) = some(world, called)
    {
        return world.caller_ends(who);
    }
    match world.rng.u8(..10) {
        0 => {
            if let Some(who) = some(world, runs) {
                world.give_back(who);
            }
        }
        befalls if befalls <= world.plan.redrives => redrive(world),
        _ => {
            if let Some(who) = some(world, runs) {
                let end = [End::Succeeded, End::Succeeded, End::Failed, End::Stopped];
                let end = end[world.rng.usize(..4)];
                let proven = world.rng.u8(..3) > 0;
                let execution = execution(world, who);
                world.shared.get().end(&execution, end, proven);
            }
        }
    }
}

/// One that has failed is redriven, without a word to anybody; sooner one whose key has passed on.
fn redrive(world: &mut World) {
    let over = |world: &World, who| {
        let ended = world.judge(|judge| judge.ended(who));
        ended.is_some_and(|(_, redrivable)| redrivable) && can_be_asked(world, who)
    };
    let lost = |world: &World, who| over(world, who) && !world.judge(|judge| judge.has_key(who));
    let who = some(world, lost).filter(|_| world.rng.u8(..3) > 0);
    if let Some(who) = who.or_else(|| some(world, over)) {
        let execution = execution(world, who);
        if world.rng.u8(..4) == 0 {
            return world.redrive_with_key(execution);
        }
        let mut shared = world.shared.get();
        shared.actor = "console".to_owned();
        shared.redrive(&execution);
    }
}

/// An end or a redrive is reported, or is not; once, or again, and in any order.
fn reports(world: &mut World) {
    let (ended, all) = world.service(|starts| {
        let ended = starts.events.len();
        (ended, ended + starts.redriven.len())
    });
    if all == 0 {
        return;
    }
    let place = world.rng.usize(..all);
    let (lost, again) = (
        world.plan.events_lost && world.rng.bool(),
        world.rng.u8(..3) == 0,
    );
    let (execution, runs) = world.service(|starts| {
        let runs = place >= ended;
        let (of, place) = if runs {
            (&mut starts.redriven, place - ended)
        } else {
            (&mut starts.events, place)
        };
        let execution = of.remove(place);
        if again && !lost {
            of.push(execution.clone());
        }
        (execution, runs)
    });
    if lost {
        return;
    }
    if runs {
        world.runs_again(execution);
    } else {
        world.reap(execution);
    }
}

fn intervenes(world: &mut World) {
    let (kind, plan) = (world.rng.u64(..10), world.plan.clone());
    if kind < plan.operators {
        operator(world);
    } else if kind < plan.operators + plan.trouble {
        trouble(world);
    } else if plan.deletions {
        delete_by_hand(world);
    }
}

fn operator(world: &mut World) {
    let key = world.rng.usize(..world.keys.len());
    let act = match world.rng.u8(..16) {
        0 => Act::Freeze,
        1 | 2 => Act::Unfreeze,
        3 => Act::Limit(Some(0)),
        4 => Act::Limit(None),
        5 => Act::Limit(Some(1)),
        6 | 7 => return stop(world, !world.settings.stopped),
        8 => Act::Force,
        9 => Act::HandOver,
        10 | 11 => {
            let failed = |world: &World, who| world.judge(|judge| judge.has_failed(who));
            if let Some(who) = some(world, failed) {
                world.repeat(who);
            }
            return;
        }
        12 => match some(world, |_, _| true) {
            Some(who) => Act::Begin(who),
            None => return,
        },
        _ => {
            let open = |world: &World, who| {
                world.judge(|judge| !judge.is_settled(who) || judge.has_failed(who))
            };
            match some(world, open) {
                Some(who) => Act::Dismiss(who),
                None => return,
            }
        }
    };
    world.operate(key, act);
}

fn stop(world: &mut World, stopped: bool) {
    world.settings.stopped = stopped;
    let mut shared = world.shared.get();
    let now = shared.now;
    shared.actor = "operator".to_owned();
    shared.note(|| format!("grants are stopped: {stopped}"));
    shared.judge(|judge| judge.stop(stopped, now));
}

/// The machine that comes and goes is deleted, leaves the list, or a call about it is denied; or all is well again.
fn trouble(world: &mut World) {
    let actions = ["StartExecution", "DescribeExecution", "StopExecution"];
    let (what, action) = (world.rng.u8(..6), actions[world.rng.usize(..3)]);
    let mut listed = world.listed;
    let now = world.service(|starts| {
        match what {
            0 => starts.gone = true,
            1 => listed = false,
            2 => starts.denied.push(action),
            _ => {
                starts.gone = false;
                starts.denied.clear();
                listed = true;
            }
        }
        starts.judge.troubled = true;
        format!(
            "gone {}, listed {listed}, denied {:?}",
            starts.gone, starts.denied
        )
    });
    world.listed = listed;
    let mut shared = world.shared.get();
    shared.actor = FICKLE.to_owned();
    shared.note(|| now);
}

/// A row that nobody holds, or a pool that nobody is in, is deleted, when no function is at work on it.
fn delete_by_hand(world: &mut World) {
    let key = world.rng.usize(..world.keys.len());
    let is_free = |permit| {
        let row = world.row(key, permit);
        let in_use = |row: &Row| {
            let entries = row.entries.as_ref();
            row.holding().is_some() || entries.is_some_and(|it| !it.inside.is_empty())
        };
        !matches!(row, Stored::Row(row) if in_use(&row))
    };
    let permits = world.permits(key).unwrap_or(1);
    if !(0..permits).all(is_free) {
        return;
    }
    while !world.tasks.is_empty() {
        world.kill(0);
    }
    world.jump(6_000);
    if !world.shared.get().delayed.is_empty() {
        return;
    }
    for permit in 0..permits {
        world.delete(key, permit);
    }
}

fn token(world: &mut World) {
    let known = world.tokens.len();
    if known < world.plan.tokens && world.rng.bool() {
        let key = world.rng.usize(..world.plan.keys);
        world.enter_token(key);
        return world.ask_with_token(known);
    }
    if known == 0 {
        return;
    }
    let who = world.rng.usize(..known);
    match world.tokens[who].state {
        // Its task fails, and is retried with another token.
        TokenState::Waits if world.rng.u8(..3) == 0 => world.ask_with_token(who),
        // One that acquires for itself is redriven, and need not do so.
        TokenState::Over if world.rng.u8(..4) < world.plan.redrives => world.redrive_token(who),
        _ => world.token_goes_on(who),
    }
}

/// All faults end, and what is left comes to rest.
fn settle(world: &mut World) {
    while !world.tasks.is_empty() {
        if world.rng.u8(..4) == 0 {
            world.kill(0);
        } else {
            finish_one(world);
        }
    }
    // What is under way arrives.
    world.jump(SIGNATURE + 100_000);
    repair(world);
    if !comes_to_rest(world, true) && world.service(|starts| !starts.denied.is_empty()) {
        // What cannot be asked about waits until its wait is over.
        world.jump(DAY);
        comes_to_rest(world, false);
    }
    two_weeks_pass(world);
    world.jump(600_000);
    world.sweep();
    finish(world);
    is_at_rest(world);
}

/// Of those that have failed some are redriven late, without an event. In the end nothing can be redriven any more.
fn two_weeks_pass(world: &mut World) {
    let latest = REDRIVABLE - DAY;
    let pause = [0, 3_000_000, DAY, latest][world.rng.usize(..4)];
    if pause > 0 {
        world.jump(pause);
    }
    for _ in 0..world.rng.u8(..3) {
        redrive(world);
        finish(world);
    }
    world.service(|starts| starts.redriven.clear());
    comes_to_rest(world, false);
    // Twice, because the first look may be at an old answer, or at an old index.
    for _ in 0..3 {
        world.jump(REDRIVABLE + 60_000);
        world.sweep();
        finish(world);
    }
}

/// With redrives on the way, in the first rounds.
fn comes_to_rest(world: &mut World, redrives: bool) -> bool {
    (0..ROUNDS + LONG_ROUNDS).any(|round| {
        let pause = if round < ROUNDS { 61_000 } else { 3_600_000 };
        if redrives && round < 20 && world.rng.u8(..6) == 0 {
            redrive(world);
            finish(world);
        }
        goes_on(world, pause);
        world.jump(pause);
        world.judge(|judge| judge.rests())
            && world.tokens.iter().all(|one| one.state == TokenState::Over)
    })
}

fn finish_one(world: &mut World) {
    // A call that does not end by itself is a fault of the library.
    for _ in 0..5_000 {
        let stays_until = world.tasks[0].stays_until;
        world.jump(stays_until.saturating_sub(world.now()));
        if !world.step(0, None) {
            return;
        }
    }
    world.is_wrong("stuck: a call goes on for ever".to_owned());
    world.kill(0);
}

fn finish(world: &mut World) {
    while !world.tasks.is_empty() {
        finish_one(world);
    }
}

/// Operators undo what they did. The machine is back, or it stays deleted, or off the list, or nobody may ask about it.
fn repair(world: &mut World) {
    world.shared.get().actor = "calm".to_owned();
    let stays = if world.judge(|judge| judge.troubled) {
        world.rng.u8(..4)
    } else {
        0
    };
    // Whoever has begun keeps its lease as long as nobody can ask about it.
    let began = |judge: &Judge| {
        let starts = judge.starts.iter().enumerate();
        starts
            .filter(|(_, record)| record.fickle)
            .any(|(who, record)| record.has_run() && (judge.has_key(who) || record.is_waiting()))
    };
    let began = world.judge(|judge| began(judge));
    world.listed = stays < 2;
    let now = world.now();
    world.service(|starts| {
        starts.gone = stays == 1;
        starts.denied.clear();
        if stays == 3 && !began {
            starts.denied.push("DescribeExecution");
            starts.gone = true;
        }
        starts.judge.calm = true;
        starts.judge.calm_since = now;
        starts.judge.decided = 0;
    });
    world
        .shared
        .get()
        .note(|| format!("all faults end; the machine stays away: {stays}"));
    stop(world, false);
    for key in 0..world.keys.len() {
        world.operate(key, Act::Limit(None));
        world.operate(key, Act::Unfreeze);
    }
    finish(world);
}

/// What goes on without any fault, in a round after a pause of so long.
fn goes_on(world: &mut World, pause: u64) {
    let known = world.judge(|judge| judge.starts.len());
    for who in 0..known {
        // What runs without its key runs on until somebody sees to it.
        let stays = |judge: &mut Judge| {
            judge.is_beside(who) || judge.starts[who].asking.must_stop.is_some()
        };
        let stays = world.judge(stays) && can_be_asked(world, who);
        if world.judge(|judge| judge.is_running(who)) && !stays && world.rng.bool() {
            let end = [End::Succeeded, End::Failed][world.rng.usize(..2)];
            let proven = world.rng.u8(..4) > 0;
            let execution = execution(world, who);
            world.shared.get().end(&execution, end, proven);
        }
        let asked_again = world.rng.u8(..8) == 0;
        if asked_again && world.listed {
            world.ask(who);
            finish(world);
        }
    }
    for who in 0..world.tokens.len() {
        world.token_goes_on(who);
        finish(world);
    }
    let events = world.service(|starts| std::mem::take(&mut starts.events));
    for execution in events {
        if !world.plan.events_lost {
            world.reap(execution);
            finish(world);
        }
    }
    let redriven = world.service(|starts| std::mem::take(&mut starts.redriven));
    for execution in redriven {
        if !world.plan.events_lost {
            world.runs_again(execution);
            finish(world);
        }
    }
    world.sweep();
    finish(world);
    let now = world.now();
    let unaskable = world.service(|starts| !starts.denied.is_empty());
    let look = world.plan.look;
    world.judge(|judge| {
        judge.nobody_is_beside_for_long(pause, unaskable, now);
        judge.nobody_outlives_its_caller(look, pause, unaskable, now);
        if !unaskable {
            judge.nobody_waits_in_vain();
        }
    });
}

/// Not, if nobody may ask about its machine for good.
fn can_be_asked(world: &World, who: usize) -> bool {
    let (fickle, calm) = world.judge(|judge| (judge.starts[who].fickle, judge.calm));
    !(fickle && calm && world.service(|starts| !starts.denied.is_empty()))
}

/// Nothing is left but what has failed, whole; and the keys can be taken.
fn is_at_rest(world: &mut World) {
    world.judge(Judge::at_the_end);
    let unaskable = world.service(|starts| !starts.denied.is_empty());
    world.judge(|judge| judge.nobody_waits_for_results(unaskable));
    let segment = ScanSegment {
        segment: 0,
        total: 1,
    };
    let page = at_once(world.memory.scan(segment, None, 1000, Duration::MAX));
    let mut listed = Vec::new();
    for entry in page.expect("memory does not fail").entries {
        let item = match &entry.address {
            Some(ItemAddress::Start(key, request)) => {
                let item = world.memory.start_item(key, request, Duration::MAX);
                at_once(item).expect("memory does not fail")
            }
            // Nobody may ask, and DynamoDB deletes it.
            Some(
                ItemAddress::Redrivable(..) | ItemAddress::Result(..) | ItemAddress::Called(..),
            ) if world.service(|starts| !starts.denied.is_empty()) => {
                continue;
            }
            _ => None,
        };
        match item {
            Some(item) if matches!(item.status, StartStatus::Failed(_)) => {
                world.judge(|judge| judge.is_kept(&item));
                listed.push(item);
            }
            _ => world.is_wrong("stuck: something is left in the index".to_owned()),
        }
    }
    world.judge(|judge| judge.are_kept(&listed));
    world.jump(SKEW);
    for key in 0..world.keys.len() {
        match world.may_be_taken(key) {
            Ok(true) => {}
            Ok(false) => world.is_wrong(format!("stuck: {key} cannot be taken")),
            Err(error) => world.is_wrong(format!("stuck: {key} cannot be taken: {error}")),
        }
    }
}

impl Record {
    fn is_waiting(&self) -> bool {
        self.says() == "waiting"
    }
}
