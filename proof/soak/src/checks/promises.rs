//! What the shared judge finds in the history of a round: S1, S2, S3, S8, L3 and L4; and S7, which it does not know.
//!
//! The judge goes by milliseconds. What makes a belief shorter, or two calls more nearly simultaneous, is how they are rounded.

use std::collections::{BTreeMap, HashMap};

use super::Violation;
use crate::fixture::Observed;
use crate::history::{Belief, Denial, Invocation, Micros, Name, Op, Place, Response, Wait};
use crate::judge::{EventKind, History as Judged, Promise, judge};

/// How many grants a row remembers the requests of.
const REMEMBERED: usize = 4;

/// What the judge finds of these promises.
fn found(history: &Judged, promises: &[Promise]) -> Vec<Violation> {
    judge(history)
        .into_iter()
        .filter(|finding| promises.contains(&finding.promise))
        .map(|finding| {
            let name = match finding.promise {
                Promise::TokensAreUnique => "S1",
                Promise::TokensRise => "S2",
                Promise::OldTokensAreRefused => "S3",
                Promise::HoldersAreLimited | Promise::EntriesAreLimited => "S8",
                Promise::ServedInOrder => "L3",
                Promise::EverybodyIsServed => "L4",
            };
            Violation::new(name, &finding.key, finding.what)
        })
        .collect()
}

/// S1 and S2: tokens are one per grant, and rise with time. A grant is known by its proof, and who asks first has the smaller
/// token if the other one asks only after that was answered.
#[must_use]
pub fn grants(ops: &BTreeMap<Place, Vec<Op>>) -> Vec<Violation> {
    let mut history = Judged::default();
    for (place, ops) in ops {
        for op in ops {
            if let (Invocation::Acquire { .. }, Response::Granted { token, lease, .. }) =
                (&op.ask, &op.response)
            {
                let what = EventKind::Granted {
                    token: *token,
                    asked_at: op.begin / 1000,
                    safe_until: 0,
                };
                let proof = format!("proof {lease}");
                history.record(op.end.div_ceil(1000), &place.to_string(), &proof, what);
            }
        }
    }
    found(&history, &[Promise::TokensAreUnique, Promise::TokensRise])
}

/// S7: a request is granted once, as long as the row remembers it.
#[must_use]
pub fn once(ops: &BTreeMap<Place, Vec<Op>>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, ops) in ops {
        let mut requests: BTreeMap<u64, (Name, &Op)> = BTreeMap::new();
        for op in ops {
            if let (Invocation::Acquire { request, .. }, Response::Granted { token, .. }) =
                (&op.ask, &op.response)
            {
                requests.entry(*token).or_insert((*request, op));
            }
        }
        let mut last: HashMap<Name, (usize, &Op)> = HashMap::new();
        for (index, (token, (request, op))) in requests.iter().enumerate() {
            if let Some((before, earlier)) = last.insert(*request, (index, op))
                && index - before < REMEMBERED
            {
                let what = format!("one request was granted twice, the second time {token}");
                let mut violation = Violation::new("S7", place, what);
                violation.around = vec![earlier.to_string(), op.to_string()];
                violations.push(violation);
            }
        }
    }
    violations
}

/// S8: no two believe at once that they hold the same row. A belief ends with the first release or eviction of its grant, by any
/// sender (a holder that comes back releases for the one that died), and with its row.
#[must_use]
pub fn holders(ops: &BTreeMap<Place, Vec<Op>>, beliefs: &[Belief]) -> Vec<Violation> {
    let mut history = Judged::default();
    for (place, ops) in ops {
        for op in ops {
            if let Invocation::Release { token, .. } | Invocation::Force { token } = op.ask {
                let what = EventKind::Ended { token };
                history.record(op.begin / 1000, &place.to_string(), "", what);
            }
        }
    }
    for belief in beliefs {
        let deleted = ops.get(&belief.place).into_iter().flatten();
        let deleted = deleted.filter(|op| op.ask == Invocation::Delete && op.begin > belief.from);
        let until = deleted.map(|op| op.begin).min().unwrap_or(Micros::MAX);
        let what = EventKind::Granted {
            token: belief.token,
            asked_at: belief.from / 1000,
            safe_until: until.min(belief.until) / 1000,
        };
        let key = belief.place.to_string();
        history.record(belief.from.div_ceil(1000), &key, &belief.by, what);
    }
    found(&history, &[Promise::HoldersAreLimited])
}

/// S12: no execution lease is over before its release or eviction, or the end of its execution and the grace.
#[must_use]
pub fn lasting(
    ops: &BTreeMap<Place, Vec<Op>>,
    beliefs: &[Belief],
    denials: &[Denial],
) -> Vec<Violation> {
    let ended = |place: &Place, token, at| {
        let mut ops = ops.get(place).into_iter().flatten();
        ops.any(|op| {
            op.begin <= at
                && matches!(op.ask, Invocation::Release { token: of, .. } | Invocation::Force { token: of } if of == token)
        })
    };
    let mut violations = Vec::new();
    for Denial { place, token, at } in denials {
        let holds = |belief: &&Belief| {
            belief.place == *place && belief.token == *token && *at < belief.until
        };
        if let Some(belief) = beliefs.iter().find(holds)
            && !ended(place, *token, *at)
        {
            let what = format!("{} has lost {token}, and its execution runs", belief.by);
            violations.push(Violation::new("S12", place, what));
        }
    }
    violations
}

/// S3: the resource accepts no older token after a newer one, and no write that was answered as done is undone.
#[must_use]
pub fn writes(key: &str, observed: &Observed, done: u64) -> Vec<Violation> {
    let mut history = Judged::default();
    for token in &observed.tokens {
        let what = EventKind::Wrote {
            token: *token,
            accepted: true,
        };
        history.record(0, key, "", what);
    }
    let mut violations = found(&history, &[Promise::OldTokensAreRefused]);
    if observed.number != done {
        let shown = observed.number;
        let what = format!("{done} writes were answered as done, and the number shows {shown}");
        violations.push(Violation::new("S3", key, what));
    }
    violations
}

/// L3 and L4: a later caller is not served before, and no waiter is left without an answer; and S1 of the served waiters, whose
/// grants appear in no call of acquire.
#[must_use]
pub fn waiters(waits: &[Wait]) -> Vec<Violation> {
    let mut history = Judged::default();
    for wait in waits {
        let queued = wait.queued.or((!wait.answered).then_some(wait.begin));
        if let Some(queued) = queued {
            history.record(
                queued.div_ceil(1000),
                &wait.key,
                &wait.by,
                EventKind::Queued,
            );
        }
        if let Some(token) = wait.token {
            let what = EventKind::Granted {
                token,
                asked_at: wait.begin / 1000,
                safe_until: 0,
            };
            let heard = queued.unwrap_or(wait.begin).div_ceil(1000);
            history.record(heard, &wait.key, &wait.by, what);
        } else if wait.answered
            && let Some(queued) = queued
        {
            history.record(
                queued.div_ceil(1000),
                &wait.key,
                &wait.by,
                EventKind::GaveUp,
            );
        }
    }
    found(
        &history,
        &[
            Promise::TokensAreUnique,
            Promise::ServedInOrder,
            Promise::EverybodyIsServed,
        ],
    )
}
