//! S10: an item that is not ours stays as it is.

use super::{Broken, Event, What, by_place};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (place, events) in by_place(events) {
        let items = events.iter().filter_map(|event| match &event.what {
            What::Item(item) => Some(item),
            _ => None,
        });
        let items: Vec<_> = items.collect();
        if let Some([was, is]) = items.windows(2).find(|pair| pair[0] != pair[1]) {
            let what = format!("{was} became {is}");
            found.push(Broken::new("S10", place, what));
        }
    }
    found
}
