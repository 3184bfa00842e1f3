//! A step, in words.

use super::{
    actions::{Action, Fate},
    library::{Call, Next, Table},
    names::{self, CALLERS, KeyNo, POOL, Who},
    seam::Ask,
    state::State,
    world::World,
};
use leasehold::{
    Key,
    store::{ItemAddress, Write},
    transition::Change,
    transition::Head,
    waiter::TokenItem,
};

pub fn step(world: &World, action: &Action, after: &State) -> String {
    format!("{:<66} {}", what(world, action), table(world, after))
}

fn name(who: Who) -> String {
    if let Some(of) = who.checked_sub(CALLERS) {
        return format!("{}'s caller", name(of));
    }
    char::from(b'A' + who).to_string()
}

fn what(world: &World, action: &Action) -> String {
    match action {
        Action::Tick => "half a minute passes".into(),
        Action::Step(node, fate) => {
            let call = world.library.call(*node);
            let Next::Asks(ask) = world.library.next(*node) else {
                return words(call);
            };
            let fate = match fate {
                Fate::Answered(0) => String::new(),
                Fate::Answered(_) if matches!(&*world.library.ask(ask), Ask::Begin(..)) => {
                    ", which is refused".into()
                }
                Fate::Answered(n) => format!(", by an answer of before ({n})"),
                Fate::AnswerLost => ", answer lost".into(),
                Fate::Late => ", which is late".into(),
                Fate::SentAgain => ", and sends it again".into(),
                Fate::Dies => ", and dies before that".into(),
            };
            format!("{}: {}{fate}", words(call), asks(&world.library.ask(ask)))
        }
        Action::Arrives(_) => "what was late arrives".into(),
        Action::Asks(who) => format!("{} asks", name(*who)),
        Action::Retries(who) => format!("{} asks again, with another token", name(*who)),
        Action::AsksAnew(who) => format!("{} asks anew", name(*who)),
        Action::TimesOut(who) => format!("{}'s task times out", name(*who)),
        Action::CarriesOn(who) => format!("{} carries on without", name(*who)),
        Action::GivesUp(who) => format!("{} gives up", name(*who)),
        Action::Releases(who) => format!("{} releases", name(*who)),
        Action::Nests(who) => format!("{} has a section of the same key", name(*who)),
        Action::Proves(who) => format!("{} proves", name(*who)),
        Action::Succeeds(who) => format!("{} succeeds without a release", name(*who)),
        Action::Fails(who, true) => {
            format!("{} fails, and its Lambda function goes on", name(*who))
        }
        Action::Fails(who, false) => format!("{} fails", name(*who)),
        Action::WorkEnds(who) => format!("{}'s Lambda function is done", name(*who)),
        Action::IsRedriven(who) => format!("{} is redriven", name(*who)),
        Action::Sweeps => "a sweep begins".into(),
        Action::Reaps(who) => format!("reap begins with {}", name(*who)),
        Action::Evicts(key) => format!("an operator begins to force a release{}", of(*key)),
        Action::Limits(key, true) => {
            format!("an operator begins to set the limit to 0{}", of(*key))
        }
        Action::Limits(key, false) => format!("an operator begins to remove the limit{}", of(*key)),
        Action::Extends(who) => format!("{} extends", name(*who)),
        Action::Writes(who) => format!("{} writes to the resource", name(*who)),
        Action::Lands(_) => "a write reaches the resource".into(),
        Action::Jumps(who, to) => format!("{}'s clock jumps to {to:+}", name(*who)),
        Action::SweeperJumps(to) => format!("the sweep's clock jumps to {to:+}"),
        Action::Restores => "the table is restored".into(),
        Action::Indexes => "the index catches up".into(),
        Action::Freezes(key, on) => {
            let what = if *on { "freeze" } else { "unfreeze" };
            format!("an operator begins to {what}{}", of(*key))
        }
        Action::Wipes => "the row is deleted".into(),
        Action::Again(who) => format!("{}'s event comes again", name(*who)),
        Action::Other(who) => format!("{}'s name comes with another input", name(*who)),
        Action::Purges(who) => format!("{}'s item is purged", name(*who)),
        Action::Repeats(who) => format!("an operator repeats {}", name(*who)),
        Action::Dismisses(who) => format!("an operator dismisses {}", name(*who)),
        Action::Begins(who) => format!("an operator lets {} begin", name(*who)),
        Action::CallerEnds(who) => format!("{}'s caller is stopped", name(*who)),
        Action::IsToldRedriven(who) => format!("the event that {} runs again arrives", name(*who)),
    }
}

/// Of which key, where it is not the first.
fn of(key: KeyNo) -> &'static str {
    match key {
        0 => "",
        POOL => " of the pool",
        _ => " of another key",
    }
}

fn of_key(key: &Key) -> &'static str {
    of(names::which(key.as_str()).unwrap_or(0))
}

fn words(call: Call) -> String {
    match call {
        Call::Acquire(who, _, n) | Call::Ask(who, n, ..) => format!("{}'s acquire {n}", name(who)),
        Call::Release(who, ..) | Call::Return(who, ..) => format!("{}'s release", name(who)),
        Call::Prove(who, ..) => format!("{}'s proof", name(who)),
        Call::Nests(who, ..) => format!("{}'s section of the same key", name(who)),
        Call::Sweep(_) => "sweep".into(),
        Call::Reap(who, _) => format!("reap of {}", name(who)),
        Call::Evict(..) => "force-release".into(),
        Call::Limit(..) => "limit".into(),
        Call::Freeze(..) => "freeze".into(),
        Call::Extend(who, ..) => format!("{}'s extend", name(who)),
        Call::Start(who, n, _) => format!("{}'s start {n}", name(who)),
        Call::Repeat(who, _) => format!("repetition of {}", name(who)),
        Call::Dismiss(who, _) => format!("dismissal of {}", name(who)),
        Call::Begin(who, _) => format!("an operator's begin of {}", name(who)),
        Call::Redriven(who, _) => format!("look at the redrive of {}", name(who)),
    }
}

fn asks(ask: &Ask) -> String {
    match ask {
        Ask::Write(writes) => writes_of(writes),
        Ask::Read(items) => match items[..] {
            [ItemAddress::Waiter(..)] => "reads the item".into(),
            [ItemAddress::Start(..)] => "reads the start's item".into(),
            [ItemAddress::Redrivable(..)] => "reads the note".into(),
            [ItemAddress::Result(..)] => "reads the task".into(),
            _ => "reads".into(),
        },
        Ask::ReadKey(key) => format!("reads{}", of_key(key)),
        Ask::Scan | Ask::HeldBy(_) => "reads the index".into(),
        Ask::Succeed(token, _) => format!("tells {}", token.expose()),
        Ask::Fail(token, _) => format!("fails {}", token.expose()),
        Ask::Waits(token) => format!("asks whether {} waits", token.expose()),
        Ask::Describe(_) => "asks about the execution".into(),
        Ask::Received(..) => "reads the history".into(),
        Ask::Begin(execution, ..) => format!("StartExecution {}", name(names::who(execution))),
        Ask::Input(_) => "asks for the input".into(),
        Ask::Outcome(_) => "asks for the result".into(),
        Ask::Stop(execution, _) => format!("stops {}", name(names::who(execution))),
        Ask::Redrives(_) => "asks about redrives".into(),
    }
}

fn writes_of(writes: &[Write]) -> String {
    let token = |waiter: &TokenItem| waiter.task_token.expose().to_owned();
    match writes {
        [Write::Row(at, Change::ReplaceIfUnchanged(swap))] => {
            let told = swap.row.holding().and_then(|held| held.notification);
            let what = match (&swap.head, swap.row.holding(), told) {
                (Head::Leaves(_), ..) => "grants to the head",
                (_, None, _) => "takes back",
                (_, Some(_), Some(told)) if told.refused_at.is_some() => "notes a refusal",
                (_, Some(_), None) => "grants",
                (_, Some(_), _) => "marks a notification",
            };
            format!("{what}{}", of_key(&at.key))
        }
        [Write::Row(at, change)] => {
            let all = format!("{change:?}");
            let what = all.split('(').next().unwrap_or_default();
            format!("{what}{}", of_key(&at.key))
        }
        [.., Write::Wait(..)] => "joins".into(),
        [Write::NewToken(_, waiter, _)] => format!("stores token {}", token(waiter)),
        [Write::Forget(_, waiter)] => format!("deletes the item of {}", token(waiter)),
        [.., Write::Supersede(_, waiter, _)] => format!("supersedes {}", token(waiter)),
        [.., Write::Start(item) | Write::Restart(item, _)]
        | [
            ..,
            Write::Start(item) | Write::Restart(item, _),
            Write::Result(_),
        ] => {
            let with = match writes {
                [Write::Row(_, Change::Join(_)), ..] => ", which joins",
                [Write::Row(..), ..] => ", which has the key",
                _ => "",
            };
            format!("stores the start {}{with}", item.name)
        }
        [.., Write::Settle(item, settlement)] => {
            let settlement = format!("{settlement:?}");
            let word = settlement.split(['(', ' ']).next().unwrap_or_default();
            format!("settles {} as {word}", item.name)
        }
        [Write::Result(_)] => "stores the task".into(),
        [Write::LookAtResult(_)] => "will look at the task later".into(),
        [Write::ForgetResult(_)] => "deletes the task".into(),
        [Write::Note(_)] => "writes a note".into(),
        [Write::ForgetNote(_)] => "deletes the note".into(),
        _ => "grants a permit to the head".into(),
    }
}

fn table(world: &World, state: &State) -> String {
    let table = world.library.table(state.table);
    let mut rows = Vec::new();
    for key in (0..=POOL).filter(|key| *key == 0 || table.row(*key).is_some()) {
        rows.push(row(&table, key));
    }
    let phases: Vec<_> = state
        .executions
        .iter()
        .map(|e| format!("{:?}", e.phase))
        .collect();
    format!(
        "time {}: {}; {}",
        state.now,
        rows.join("; "),
        phases.join(" ")
    )
}

fn row(table: &Table, key: KeyNo) -> String {
    let view = &table.view(key, 0);
    let holds = match (table.row(key), view.holder) {
        (None, _) => "no row".to_owned(),
        (Some(_), None) => "free".to_owned(),
        (Some(row), Some(who)) => {
            let told = row.holding().and_then(|held| held.notification);
            let told = told.map_or(String::new(), |told| {
                let refused = if told.refused_at.is_some() {
                    ", refused"
                } else {
                    ""
                };
                format!(" (notification {}{refused})", told.tries.get())
            });
            let waits = if view.waits_in_pool {
                ", which waits in the pool"
            } else {
                ""
            };
            format!("held by {}{told}{waits}", name(who))
        }
    };
    let beside = table.views(key).iter().skip(1);
    let beside = beside.filter_map(|view| view.holder);
    let beside: Vec<_> = beside
        .map(|who| format!(", and by {}", name(who)))
        .collect();
    let (beside, waiting) = (beside.concat(), view.queue.len());
    if key == POOL {
        let names = |all: &[(Who, u64)]| all.iter().map(|(who, _)| name(*who)).collect::<String>();
        let (inside, waiting) = (names(&table.inside), names(&table.waiting));
        return format!("in the pool [{inside}], before it [{waiting}]");
    }
    let which = match key {
        0 => "",
        _ => "another key ",
    };
    format!("{which}{holds}{beside}, {waiting} wait")
}
