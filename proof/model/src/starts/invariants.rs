//! What must never happen to starts and their executions, and what must happen in time.

use stateright::Property;

use super::{
    calls::{By, Call, Step},
    design::{Input, Status},
    rows::{MOST, Start},
    scope,
    service::{Exempt, Status as Of},
    world::{Service, State, World},
};
use crate::lists::{invariants, properties};

// What must hold, by name.
invariants! {
    S1 "S1, S2 every grant has a larger token"
    S8 "S8 two executions of a key never run at once"
    Twice "no start begins two executions"
    Both "no start runs and is in the dead-letter queue"
    Lost "no accepted start is lost"
    Same "a name and input is answered the same, the name with another input is refused"
    L1 "L1 what was given back is free a few sweeps later"
    L3 "L3 starts begin in the order in which they joined"
    L4 "every start runs or is in the dead-letter queue after so many sweeps"
}

/// What has been seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The inputs under which each start was accepted, as bits.
    accepted: [u8; MOST],
    /// Starts whose item was purged, as bits.
    pub purged: u8,
    broken: u16,
}

impl Seen {
    pub const fn has(&self, broken: Invariant) -> bool {
        self.broken & (1 << broken as u8) != 0
    }

    pub fn must(&mut self, holds: bool, invariant: Invariant) {
        if !holds {
            self.broken |= 1 << invariant as u8;
        }
    }

    /// A start is accepted, or told that its name has another input.
    pub fn answers(&mut self, (start, input): (Start, Input), accepted: bool) {
        let before = self.accepted[usize::from(start)];
        let purged = self.purged & (1 << start) != 0;
        let first = before == 0 || purged;
        let same = before & (1 << input) != 0;
        self.must(first || accepted == same, Invariant::Same);
        if accepted {
            self.accepted[usize::from(start)] |= 1 << input;
        }
    }
}

/// Looks at a state as it has just come about.
pub fn check(world: &World, state: &mut State) {
    let holder = world.rows.view(state.row).holder;
    for start in 0..world.scope.starts {
        let at = usize::from(start);
        let execution = state.executions[at];
        let runs = execution.runs() && execution.is_ours() && execution.exempt == Exempt::No;
        state
            .seen
            .must(!runs || holder == Some(start), Invariant::S8);
        if let Some(item) = state.items[at] {
            let ran = execution.ran(item.input);
            let failed = item.status == Status::Failed;
            state.seen.must(!(failed && ran), Invariant::Both);
            let served = item.status == Status::Served;
            state.seen.must(!served || ran, Invariant::Lost);
        }
        for input in 0..2 {
            let accepted = state.seen.accepted[at] & (1 << input) != 0;
            let kept = state.items[at].is_some_and(|item| item.input == input);
            let ran = execution.ran(input);
            state.seen.must(!accepted || kept || ran, Invariant::Lost);
        }
    }
}

/// How many sweeps it may take until everything is settled, if nothing goes wrong any more.
const SWEEPS: u8 = 24;
/// For so many of them an execution that gave its lease back runs on.
const RUNS_ON: u8 = 4;

/// From here on nothing goes wrong, a sweep runs each half minute, and executions end: then every start is settled.
pub fn look_ahead(world: &World, state: &mut State) {
    if !state.calls.is_empty() {
        return;
    }
    let mut quiet = State {
        late: Vec::new(),
        expected: Vec::new(),
        order: Vec::new(),
        left: scope::NOTHING,
        ..state.clone()
    };
    quiet.seen.broken = 0;
    if quiet.service == Service::Throttles {
        quiet.service = Service::Open;
    }
    let known = world.settled.get(&quiet).map(|known| *known);
    let broken = known.unwrap_or_else(|| {
        let mut ahead = quiet.clone();
        settles(world, &mut ahead);
        let broken = ahead.seen.broken;
        world.settled.insert(quiet, broken);
        broken
    });
    state.seen.broken |= broken;
}

fn settles(world: &World, state: &mut State) {
    for sweep in 0..SWEEPS {
        world.finish(state);
        for start in 0..world.scope.starts {
            let now = state.now;
            let holds = world.rows.view(state.row).holder == Some(start);
            let execution = &mut state.executions[usize::from(start)];
            if !execution.runs() {
                continue;
            }
            if execution.exempt == Exempt::Released {
                if sweep < RUNS_ON {
                    continue;
                }
                state.seen.must(!holds, Invariant::L1);
            }
            execution.exempt = Exempt::No;
            execution.becomes(Of::Succeeded, now);
        }
        let row = world.rows.view(state.row);
        let settled =
            |start: Start| !state.waits(start) && !state.executions[usize::from(start)].runs();
        let mut starts = 0..world.scope.starts;
        if row.holder.is_none() && row.queue.is_empty() && starts.all(settled) {
            return;
        }
        world.passes(state);
        state.begin(Call::new(Step::ReadRow, 0, By::Look));
    }
    state.seen.must(false, Invariant::L4);
}

pub fn properties() -> Vec<Property<World>> {
    properties!(World, seen: S1 S8 Twice Both Lost Same L1 L3 L4)
}
