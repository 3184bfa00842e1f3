//! S8, and of pools S15: no more are inside at once than there is room for. It is reported as S8.
//!
//! Who entered by a clock is inside until that time, everybody else until it leaves.

use std::collections::HashMap;

use super::{At, Broken, Event, What, by_place};

struct Stay<'a> {
    who: &'a str,
    token: u64,
    room: usize,
    from: At,
    until: At,
}

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let crowded = |(place, events): (&str, Vec<&Event>)| {
        let stays = stays(&events);
        let found = stays.iter().filter_map(|stay| crowd(stay, &stays));
        let found = found.map(|what| Broken::new("S8", place, what));
        found.collect::<Vec<_>>()
    };
    by_place(events).into_iter().flat_map(crowded).collect()
}

fn stays<'a>(events: &[&'a Event]) -> Vec<Stay<'a>> {
    let mut left: HashMap<(&str, u64), At> = HashMap::new();
    for event in events {
        if let What::Left { token } = event.what {
            left.entry((&event.who, token)).or_insert(event.at);
        }
    }
    let stays = events.iter().filter_map(|event| {
        let What::Entered { token, room, until } = event.what else {
            return None;
        };
        let left = left.get(&(event.who.as_str(), token)).copied();
        Some(Stay {
            who: &event.who,
            token,
            room,
            from: event.at,
            until: until.unwrap_or(At::MAX).min(left.unwrap_or(At::MAX)),
        })
    });
    stays.filter(|stay| stay.from < stay.until).collect()
}

/// Who is inside when this one enters, if they are too many.
fn crowd(stay: &Stay<'_>, stays: &[Stay<'_>]) -> Option<String> {
    let inside = stays
        .iter()
        .filter(|other| other.from <= stay.from && stay.from < other.until);
    let mut inside: Vec<_> = inside
        .map(|other| format!("{} by {}", other.who, other.token))
        .collect();
    inside.sort_unstable();
    inside.dedup();
    (inside.len() > stay.room).then(|| format!("{} at {}", inside.join(" and "), stay.from))
}
