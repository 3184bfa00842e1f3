//! S12: who holds until it ends has its lease for as long, unless an operator takes it away; and it is stopped only if its caller
//! has ended, and only then.

use super::{Broken, Event, What, by_who};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (who, events) in by_who(events) {
        for (index, event) in events.iter().enumerate() {
            let before = &events[..index];
            let what = match event.what {
                What::Lost { token } if holds(before, &event.place, token) => {
                    format!("{who} runs, and has lost {token}")
                }
                What::Ended("ABORTED") if before.iter().all(|it| it.what != What::CallerEnded) => {
                    format!("{who} was stopped, and its caller runs")
                }
                _ => continue,
            };
            found.push(Broken::new("S12", &event.place, what));
        }
    }
    found
}

/// It was told so, and nobody has ended it: not even an operator before it was told.
fn holds(before: &[&Event], place: &str, token: u64) -> bool {
    let mut own = before.iter().filter(|event| event.place == place);
    let has_it = |event: &&Event| matches!(event.what, What::Entered { token: of, until: None, .. } if of == token);
    own.clone().any(has_it) && !own.any(|event| event.what == What::Left { token })
}
