//! S1, S2 and S7: each grant has a token of its own, a later grant a larger one, and a request is granted once, for as long as the
//! row remembers it.

use std::collections::{BTreeMap, HashMap};

use super::{At, Broken, Event, What, by_place};

/// How many grants a row remembers the requests of.
const REMEMBERED: usize = 4;

/// A token: the request that has it, when that was sent, and when somebody first heard of it.
struct Grant<'a> {
    request: &'a str,
    asked: At,
    heard: At,
}

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (place, events) in by_place(events) {
        let mut grants: BTreeMap<u64, Grant<'_>> = BTreeMap::new();
        for event in events {
            let What::Granted {
                token,
                request,
                asked,
            } = &event.what
            else {
                continue;
            };
            let (asked, heard) = (*asked, event.at);
            let grant = grants.entry(*token).or_insert(Grant {
                request,
                asked,
                heard,
            });
            grant.asked = grant.asked.min(asked);
            if grant.request != request {
                let what = format!("{} and {request} have {token}", grant.request);
                found.push(Broken::new("S1", place, what));
            }
        }
        found.extend(falling(&grants).map(|what| Broken::new("S2", place, what)));
        found.extend(twice(&grants).map(|what| Broken::new("S7", place, what)));
    }
    found
}

/// A token that was asked for after a larger one was heard of.
fn falling(grants: &BTreeMap<u64, Grant<'_>>) -> impl Iterator<Item = String> {
    let mut first: Option<(At, u64)> = None;
    grants.iter().rev().filter_map(move |(token, grant)| {
        let before = first.filter(|(heard, _)| *heard < grant.asked);
        first = Some(first.map_or((grant.heard, *token), |it| it.min((grant.heard, *token))));
        before.map(|(_, larger)| format!("{token} was granted after {larger}"))
    })
}

/// A request that was granted again before the row forgot it.
fn twice<'a>(grants: &'a BTreeMap<u64, Grant<'a>>) -> impl Iterator<Item = String> + 'a {
    let mut last: HashMap<&str, usize> = HashMap::new();
    let numbered = grants.iter().enumerate();
    numbered.filter_map(move |(index, (token, grant))| {
        let before = last.insert(grant.request, index)?;
        let is_remembered = index - before < REMEMBERED;
        is_remembered.then(|| format!("{} was granted again, by {token}", grant.request))
    })
}
