//! The contract: nobody gets an answer that the documents do not know.

use super::{Broken, Event, What};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let unexpected = events.iter().filter_map(|event| match &event.what {
        What::Unexpected(what) => Some(format!("{} was answered {what}", event.who)),
        _ => None,
    });
    unexpected
        .map(|what| Broken::new("contract", "an answer", what))
        .collect()
}
