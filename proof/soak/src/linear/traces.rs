//! What the history shows of grants whose own callers were told nothing.

use std::collections::HashSet;

use crate::history::{Ask, Kind, Name, Op, Response};

/// See the module.
pub(super) struct Traces {
    /// Who was seen to hold a grant that nobody was told of as new.
    holders: HashSet<Name>,
    /// Requests that were told that they had had a grant, and not which.
    consumed: HashSet<Name>,
}

impl Traces {
    pub(super) fn of(ops: &[Op]) -> Self {
        let (mut told, mut seen) = (HashSet::new(), HashSet::new());
        let (mut granted, mut consumed) = (HashSet::new(), HashSet::new());
        for op in ops {
            if let Response::Held { holder, token, .. } = op.told {
                seen.insert((holder, token));
            }
            let Ask::Acquire {
                holder, request, ..
            } = op.ask
            else {
                continue;
            };
            match op.told {
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
                        told.insert(token);
                        granted.insert(request);
                    }
                }
                _ => {}
            }
        }
        let orphans = seen.into_iter().filter(|(_, token)| !told.contains(token));
        Self {
            holders: orphans.map(|(holder, _)| holder).collect(),
            consumed: consumed.difference(&granted).copied().collect(),
        }
    }

    /// Whether something may come of what the call did besides.
    pub(super) fn lead_to(&self, op: &Op) -> bool {
        match op.ask {
            Ask::Acquire {
                holder, request, ..
            } => self.holders.contains(&holder) || self.consumed.contains(&request),
            _ => true,
        }
    }
}
