//! What an execution is billed by: the states that it entered and the tasks that it tried again, read from its history.

use std::collections::BTreeMap;

use aws_sdk_sfn::types::HistoryEvent;
use serde::Serialize;

/// What matters of an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: i64,
    /// The one that it followed, in the same branch.
    pub(crate) previous: i64,
    pub(crate) kind: String,
    /// The state that it entered or left.
    pub(crate) state: Option<String>,
}

impl From<&HistoryEvent> for Event {
    fn from(event: &HistoryEvent) -> Self {
        let entered = event.state_entered_event_details();
        let left = event.state_exited_event_details();
        let state = entered.map(aws_sdk_sfn::types::StateEnteredEventDetails::name);
        let state = state.or(left.map(aws_sdk_sfn::types::StateExitedEventDetails::name));
        Self {
            id: event.id(),
            previous: event.previous_event_id(),
            kind: event.r#type().as_str().to_owned(),
            state: state.map(str::to_owned),
        }
    }
}

/// What one state came to in an execution, all its entries together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// How often it was entered.
    pub entered: u64,
    /// How often its task was tried again.
    pub retried: u64,
    /// Events of the history.
    pub events: u64,
}

impl State {
    /// As the service bills it: each retry is a transition of its own.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.entered + self.retried
    }
}

/// What an execution came to, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct History {
    /// By the state's name.
    pub states: BTreeMap<String, State>,
    /// Events of the history, those of the execution itself too.
    pub events: u64,
}

impl History {
    /// Reads a history, the oldest event first.
    pub(crate) fn read(events: &[Event]) -> Self {
        let mut history = Self {
            events: events.len() as u64,
            ..Self::default()
        };
        // By event: the state that it belongs to.
        let mut owners: BTreeMap<i64, &str> = BTreeMap::new();
        let mut frame = None;
        for event in events {
            let kind = event.kind.as_str();
            if kind.starts_with("Execution") {
                continue;
            }
            let own = event.state.as_deref();
            if own.is_some() && matches!(kind, "ParallelStateEntered" | "MapStateEntered") {
                frame = own;
            }
            // What begins and ends a frame follows an event of what is inside it.
            let of_frame = kind.starts_with("Map") || kind.starts_with("ParallelState");
            let inherited = || owners.get(&event.previous).copied();
            let owner = own.or(if of_frame { frame } else { inherited() });
            let Some(owner) = owner else {
                continue;
            };
            owners.insert(event.id, owner);
            let state = history.states.entry(owner.to_owned()).or_default();
            state.events += 1;
            if kind.ends_with("StateEntered") {
                state.entered += 1;
            }
            if kind == "TaskScheduled" {
                state.retried += 1;
            }
        }
        for state in history.states.values_mut() {
            // The first attempt of each entry is the entry. A task whose arguments cannot be made is never scheduled.
            state.retried = state.retried.saturating_sub(state.entered);
        }
        history
    }

    /// Transitions of the states that `pick` picks.
    #[must_use]
    pub fn transitions_of(&self, pick: impl Fn(&str) -> bool) -> u64 {
        self.sum(pick, State::transitions)
    }

    /// Events of the states that `pick` picks.
    #[must_use]
    pub fn events_of(&self, pick: impl Fn(&str) -> bool) -> u64 {
        self.sum(pick, |state| state.events)
    }

    /// All transitions.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.transitions_of(|_| true)
    }

    /// Counts another execution's in.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        for (name, more) in &other.states {
            let state = self.states.entry(name.clone()).or_default();
            state.entered += more.entered;
            state.retried += more.retried;
            state.events += more.events;
        }
    }

    fn sum(&self, pick: impl Fn(&str) -> bool, what: impl Fn(&State) -> u64) -> u64 {
        let picked = self.states.iter().filter(|(name, _)| pick(name));
        picked.map(|(_, state)| what(state)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(events: &[(i64, &str, Option<&str>)]) -> History {
        let events = (1..)
            .zip(events)
            .map(|(id, (previous, kind, state))| Event {
                id,
                previous: *previous,
                kind: (*kind).to_owned(),
                state: state.map(str::to_owned),
            });
        History::read(&events.collect::<Vec<_>>())
    }

    #[test]
    fn a_retry_is_a_transition_and_its_events_are_the_states() {
        let found = history(&[
            (0, "ExecutionStarted", None),
            (0, "TaskStateEntered", Some("Take")),
            (2, "TaskScheduled", None),
            (3, "TaskStarted", None),
            (4, "TaskFailed", None),
            (5, "TaskScheduled", None),
            (6, "TaskStarted", None),
            (7, "TaskSucceeded", None),
            (8, "TaskStateExited", Some("Take")),
            (9, "WaitStateEntered", Some("Pause")),
            (10, "WaitStateExited", Some("Pause")),
            (11, "ExecutionSucceeded", None),
        ]);
        let take = State {
            entered: 1,
            retried: 1,
            events: 8,
        };
        assert_eq!(found.states["Take"], take);
        assert_eq!((found.transitions(), found.events), (3, 12));
        assert_eq!(found.transitions_of(|state| state == "Pause"), 1);
    }

    #[test]
    fn branches_that_run_side_by_side_are_told_apart_and_a_frame_has_its_own() {
        let found = history(&[
            (0, "ExecutionStarted", None),
            (0, "ParallelStateEntered", Some("Both")),
            (2, "ParallelStateStarted", None),
            (3, "TaskStateEntered", Some("A")),
            (3, "TaskStateEntered", Some("B")),
            (4, "TaskScheduled", None),
            (5, "TaskScheduled", None),
            (6, "TaskFailed", None),
            (8, "TaskScheduled", None),
            (9, "TaskSucceeded", None),
            (7, "TaskSucceeded", None),
            (10, "TaskStateExited", Some("A")),
            (11, "TaskStateExited", Some("B")),
            (13, "ParallelStateSucceeded", None),
            (14, "ParallelStateExited", Some("Both")),
        ]);
        assert_eq!(
            (found.states["A"].retried, found.states["B"].retried),
            (1, 0)
        );
        assert_eq!(found.states["A"].events, 6);
        assert_eq!(found.states["Both"].events, 4);
        assert_eq!(found.transitions(), 4);
    }
}
