//! F3: a lease that nobody ends expires no earlier than its holder was told, and the margin that clocks may differ by.

use std::collections::BTreeMap;

use super::{At, Broken, Event, What, by_place};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (place, events) in by_place(events) {
        // Until when each token is granted, and to whom; none once somebody is about to end it.
        let mut grants: BTreeMap<u64, Option<(At, &str)>> = BTreeMap::new();
        for Event { at, who, what, .. } in events {
            match *what {
                What::Expires {
                    token,
                    until,
                    is_by_clock,
                } => {
                    // Of two with a number between them, somebody else may have had the key.
                    let before = token.checked_sub(1).and_then(|it| grants.get(&it));
                    if let Some(Some((before, whose))) = before
                        && is_by_clock
                        && at < before
                    {
                        let what = format!("{who} has {whose}'s {} us too early", before - at);
                        found.push(Broken::new("F3", place, what));
                    }
                    let last = grants.entry(token).or_insert(Some((until, who)));
                    *last = last.map(|(last, who)| (last.max(until), who));
                }
                What::Left { token } => drop(grants.insert(token, None)),
                _ => {}
            }
        }
    }
    found
}
