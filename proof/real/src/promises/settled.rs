//! L1 and L4: in the end every key can be acquired, and nobody waits: each waiter was granted the key, or told that its turn does
//! not come, or has gone.

use super::{Broken, Event, What, by_who};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let taken = events.iter().filter_map(|event| match &event.what {
        What::Tried(Some(said)) => {
            let what = format!("all is over, and {} was not granted it: {said}", event.who);
            Some(Broken::new("L1", &event.place, what))
        }
        _ => None,
    });
    let mut found: Vec<_> = taken.collect();
    for (who, events) in by_who(events) {
        let queued = events.iter().find(|event| event.what == What::Queued);
        let is_settled = |event: &&Event| matches!(event.what, What::Granted { .. } | What::GaveUp);
        if let Some(queued) = queued
            && !events.iter().any(is_settled)
        {
            let what = format!("{who} was queued at {}, and waits", queued.at);
            found.push(Broken::new("L4", &queued.place, what));
        }
    }
    found
}
