//! F48: a task that waits for the result of a start is told once, after the end of the execution, and as it ended; or why it never
//! began. One whose own execution has ended may be told or not.

use super::{Answer, Broken, Event, Told, What, by_who};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (start, events) in by_who(events) {
        let waits = events.iter().filter(|it| it.what == What::Waits).count();
        let told: Vec<_> = events
            .iter()
            .enumerate()
            .filter_map(|(index, event)| match &event.what {
                What::Told(told) => Some((index, told)),
                _ => None,
            })
            .collect();
        if told.len() > 1 {
            let what = format!("the task of {start} was told {} times", told.len());
            found.push(Broken::new("F48", start, what));
        }
        if told.len() < waits && events.iter().all(|it| it.what != What::CallerEnded) {
            let what = format!("the task of {start} was told nothing");
            found.push(Broken::new("F48", start, what));
        }
        for (index, told) in told {
            if !fits(told, &events, &events[..index]) {
                let what = format!("the task of {start} was told {told:?}");
                found.push(Broken::new("F48", start, what));
            }
        }
    }
    found
}

fn fits(told: &Told, events: &[&Event], before: &[&Event]) -> bool {
    let has_ended = |status| before.iter().any(|it| it.what == What::Ended(status));
    let never_begins = events.iter().all(|it| !matches!(it.what, What::Began(_)));
    let was_skipped = |event: &&Event| {
        matches!(
            event.what,
            What::Heard {
                answer: Answer::Skipped,
                ..
            }
        )
    };
    match told {
        Told::Output => has_ended("SUCCEEDED"),
        Told::Skipped => never_begins && events.iter().any(was_skipped),
        Told::Error(name) => match name.as_str() {
            "Lease.Aborted" => has_ended("ABORTED"),
            "Lease.NotStarted" | "Lease.QueueTimeout" => never_begins,
            "States.TaskFailed" => has_ended("FAILED"),
            _ => false,
        },
    }
}
