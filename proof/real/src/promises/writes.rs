//! S3: of writes that carry their token, none is accepted after one with a newer token, and none is undone.

use super::{Broken, Event, What, by_place};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (place, events) in by_place(events) {
        let (mut newest, mut last) = (0, 0);
        for event in events {
            let What::Wrote { token, number } = event.what else {
                continue;
            };
            if token < newest {
                let what = format!("{token} was accepted after {newest}");
                found.push(Broken::new("S3", place, what));
            }
            if number != last + 1 {
                let what = format!("{token} wrote {number} after {last}");
                found.push(Broken::new("S3", place, what));
            }
            (newest, last) = (newest.max(token), number);
        }
    }
    found
}
