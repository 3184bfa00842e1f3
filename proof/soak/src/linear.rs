//! Whether there is an order in which the calls of a history, one after the other, answer what they answered.
//!
//! Just-in-time linearization: the history is read from its beginning to its end, with all rows that may stand
//! there so far. A call that returns must have happened by then; calls that are under way may have, in any order, as
//! far as that takes. What has returned is forgotten, so that a long history costs time and no memory.

use std::collections::{HashMap, HashSet};

use crate::history::{ExtraEffect, Invocation, Micros, Op, Response};
use crate::row::Row;

mod traces;

use traces::Traces;

/// How long after a call's end a request of its may still arrive: more than any process is stopped or request held
/// back here. Longer would be as right, and slower.
const LATE: Micros = 6_000_000;

/// As many calls as can be under way at once, late ones included.
const MOST: usize = 128;

/// As many rows as may be possible at once before we give up: far more than were ever seen.
const POSSIBLE: usize = 50_000;

/// The result.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none; by its index the first call that cannot have answered what it answered.
    Impossible(usize),
    /// Too much was open.
    Undecided(usize),
}

/// One moment of the history. The order of the variants is that in which moments of the same instant come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Calls,
    Returns,
    IsOver,
}

/// Something under way: a call, or its possible further effect.
#[derive(Clone, Copy, Debug)]
struct Pending {
    op: usize,
    besides: bool,
}

/// A row that may stand there, and what of the pending has happened by then.
type Possible = (Row, u128);

/// Checks the calls of one row.
///
/// Nearly all grants that got no answer did not happen. So an order is looked for first
/// without those that left no trace, and only if there is none with all.
#[must_use]
pub fn check(ops: &[Op]) -> Verdict {
    let traces = Traces::of(ops);
    match check_with(ops, |op| traces.lead_to(op)) {
        Verdict::Linearizable => Verdict::Linearizable,
        Verdict::Impossible(_) | Verdict::Undecided(_) => check_with(ops, |_| true),
    }
}

fn check_with(ops: &[Op], may_have_been: impl Fn(&Op) -> bool) -> Verdict {
    let mut moments: Vec<(Micros, What, usize, bool)> = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let (answered, later) = phases(op);
        let later = later.filter(|_| may_have_been(op));
        if answered {
            moments.push((op.begin, What::Calls, index, false));
            moments.push((op.end, What::Returns, index, false));
        }
        if let Some(until) = later {
            moments.push((op.begin, What::Calls, index, true));
            moments.push((until, What::IsOver, index, true));
        }
    }
    moments.sort_unstable();
    let mut pending: Vec<Option<Pending>> = vec![None; MOST];
    let mut possible: HashSet<Possible> = HashSet::from([(Row::default(), 0)]);
    for (_, what, op, besides) in moments {
        let slot = |wanted: Option<(usize, bool)>, pending: &[Option<Pending>]| {
            pending
                .iter()
                .position(|p| p.map(|p| (p.op, p.besides)) == wanted)
        };
        if what == What::Calls {
            let Some(free) = slot(None, &pending) else {
                return Verdict::Undecided(op);
            };
            pending[free] = Some(Pending { op, besides });
            continue;
        }
        let Some(at) = slot(Some((op, besides)), &pending) else {
            continue;
        };
        let Some(left) = until_it_has_happened(&possible, ops, &pending, at) else {
            return Verdict::Undecided(op);
        };
        match what {
            What::Returns if left.is_empty() => return Verdict::Impossible(op),
            What::Returns => possible = left,
            // It may have happened, and need not.
            _ => possible.extend(left),
        }
        pending[at] = None;
        let others = !(1 << at);
        let forgotten = possible
            .into_iter()
            .map(|(row, happened)| (row, happened & others))
            .collect();
        possible = without_the_narrower(forgotten, &pending);
    }
    Verdict::Linearizable
}

/// Whether the call was answered, and until when it may have had a further effect.
fn phases(op: &Op) -> (bool, Option<Micros>) {
    // What sweep and reap tell is about no row.
    let answered = !matches!(op.response, Response::Unknown)
        && !matches!(op.ask, Invocation::Sweep | Invocation::Reap { .. });
    let until = match op.besides {
        ExtraEffect::Nothing => None,
        ExtraEffect::Within => Some(op.end),
        ExtraEffect::Later => Some(op.end + LATE),
    };
    (answered, until)
}

/// All rows that may stand there once the call of slot `wanted` has happened; none if there are too many to tell.
fn until_it_has_happened(
    possible: &HashSet<Possible>,
    ops: &[Op],
    pending: &[Option<Pending>],
    wanted: usize,
) -> Option<HashSet<Possible>> {
    let mut left = HashSet::new();
    let mut seen: HashSet<Possible> = HashSet::new();
    let mut open: Vec<Possible> = possible.iter().cloned().collect();
    while let Some((row, happened)) = open.pop() {
        if happened & (1 << wanted) != 0 {
            left.insert((row, happened));
            continue;
        }
        let (row, happened) = with_what_changes_nothing(row, happened, ops, pending);
        if happened & (1 << wanted) != 0 {
            left.insert((row, happened));
            continue;
        }
        if !seen.insert((row.clone(), happened)) {
            continue;
        }
        if seen.len() > POSSIBLE {
            return None;
        }
        for (slot, pending) in pending.iter().enumerate() {
            let Some(pending) = pending.filter(|_| happened & (1 << slot) == 0) else {
                continue;
            };
            let op = &ops[pending.op];
            let next = if pending.besides {
                row.after_all(op)
            } else {
                row.after(op)
            };
            // Which of several sweeps it was tells nothing, and each may come by again.
            let mark = if op.ask == Invocation::Sweep && slot != wanted {
                0
            } else {
                1 << slot
            };
            open.extend(next.map(|next| (next, happened | mark)));
        }
    }
    Some(left)
}

/// Of two ways to the same row, the one on which less has happened that need not leaves all that the other leaves.
fn without_the_narrower(
    possible: HashSet<Possible>,
    pending: &[Option<Pending>],
) -> HashSet<Possible> {
    let mut optional = 0_u128;
    for (slot, pending) in pending.iter().enumerate() {
        if pending.is_some_and(|pending| pending.besides) {
            optional |= 1 << slot;
        }
    }
    let mut ways: HashMap<(Row, u128), Vec<u128>> = HashMap::new();
    for (row, happened) in possible {
        let ways = ways.entry((row, happened & !optional)).or_default();
        let extra = happened & optional;
        if !ways.iter().any(|way| way & !extra == 0) {
            ways.retain(|way| extra & !way != 0);
            ways.push(extra);
        }
    }
    let widest = ways.into_iter().flat_map(|((row, must), ways)| {
        ways.into_iter()
            .map(move |extra| (row.clone(), must | extra))
    });
    widest.collect()
}

/// A call that may have happened and changes nothing can as well happen at once: no order is lost by that.
fn with_what_changes_nothing(
    row: Row,
    mut happened: u128,
    ops: &[Op],
    pending: &[Option<Pending>],
) -> Possible {
    for (slot, pending) in pending.iter().enumerate() {
        if let Some(pending) = pending
            && !pending.besides
            && happened & (1 << slot) == 0
            && row.after(&ops[pending.op]).as_ref() == Some(&row)
        {
            happened |= 1 << slot;
        }
    }
    (row, happened)
}

#[cfg(test)]
mod tests;
