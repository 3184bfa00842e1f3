//! What the history shows of grants whose own callers got no answer.

use std::collections::HashSet;

use crate::history::{Invocation, Kind, Name, Op, Response};

/// The holders and requests that had grants which no answer reported.
pub(super) struct Traces {
    /// The observed holder of a grant that no answer has reported as new.
    holders: HashSet<Name>,
    /// Requests whose answer was that they had had a grant, and not which.
    consumed: HashSet<Name>,
}

impl Traces {
    pub(super) fn of(ops: &[Op]) -> Self {
        let (mut reported, mut seen) = (HashSet::new(), HashSet::new());
        let (mut granted, mut consumed) = (HashSet::new(), HashSet::new());
        for op in ops {
            if let Response::Held { holder, token, .. } = op.response {
                seen.insert((holder, token));
            }
            let Invocation::Acquire {
                holder, request, ..
            } = op.ask
            else {
                continue;
            };
            match op.response {
                Response::Consumed => {
                    consumed.insert(request);
                }
                Response::Granted {
                    kind,
                    token,
                    previous,
                    ..
                } => {
                    seen.insert((holder, token));
                    seen.extend(previous.map(|before| (before.holder, before.token)));
                    if kind != Kind::Replayed {
                        reported.insert(token);
                        granted.insert(request);
                    }
                }
                _ => {}
            }
        }
        let orphans = seen
            .into_iter()
            .filter(|(_, token)| !reported.contains(token));
        Self {
            holders: orphans.map(|(holder, _)| holder).collect(),
            consumed: consumed.difference(&granted).copied().collect(),
        }
    }

    /// Whether the call's further effect may matter.
    pub(super) fn lead_to(&self, op: &Op) -> bool {
        match op.ask {
            Invocation::Acquire {
                holder, request, ..
            } => self.holders.contains(&holder) || self.consumed.contains(&request),
            _ => true,
        }
    }
}
