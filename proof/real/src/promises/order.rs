//! L3: nobody is granted a key before a waiter that was in the queue when it asked.

use std::collections::{BTreeMap, HashMap};

use super::{At, Broken, Event, What, by_place};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (place, events) in by_place(events) {
        let mut waits: HashMap<&str, At> = HashMap::new();
        // Of several copies the first has asked.
        let mut grants: BTreeMap<u64, (At, &str)> = BTreeMap::new();
        let mut served = Vec::new();
        for event in events {
            let who = event.who.as_str();
            match event.what {
                What::Queued => drop(waits.entry(who).or_insert(event.at)),
                What::Granted { token, asked, .. } => {
                    let first = grants.entry(token).or_insert((asked, who));
                    first.0 = first.0.min(asked);
                    let queued = waits.remove(who);
                    served.extend(queued.map(|queued| (queued, token, who)));
                }
                _ => {}
            }
        }
        for (token, (asked, who)) in grants {
            let overtaken = served
                .iter()
                .find(|(queued, theirs, _)| *queued < asked && token < *theirs);
            found.extend(overtaken.map(|(queued, theirs, waiter)| {
                let what = format!(
                    "{who} asked at {asked} and has {token}; {waiter}, in the queue since {queued}, has {theirs}"
                );
                Broken::new("L3", place, what)
            }));
        }
    }
    found
}
