//! What each state of a machine is there for: only then can be said what the lease costs and what the work.

use serde::Serialize;

use super::history::{History, State};

/// What a state is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// To have the lease and to give it back.
    Lease,
    /// To keep it.
    Extend,
    /// To wait for it.
    Waiting,
    /// Around the sections of a Map.
    Frame,
    /// What the caller wants done.
    Work,
}

fn of(state: &str) -> For {
    match state {
        "First" | "Second" | "Work" | "Read" | "Write" | "Run" => For::Work,
        "Extend" | "Prove" | "Wait" | "Again" => For::Extend,
        "AcquireInLine" | "Confirm" | "TurnMissed" | "Watch" | "TakeOver" | "Look" | "IsItMine"
        | "OftenEnough?" | "Pause" => For::Waiting,
        "Each" | "AllWell?" | "Succeeded" => For::Frame,
        _ => For::Lease,
    }
}

/// Transitions and events, by what they are there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purpose {
    /// State transitions, retries included.
    pub transitions: u64,
    /// Events of the history.
    pub events: u64,
}

/// What a scene came to, by what it was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purposes {
    /// To have leases and to give them back.
    pub lease: Purpose,
    /// To keep them.
    pub extend: Purpose,
    /// To wait for them.
    pub waiting: Purpose,
    /// Around the sections of a Map.
    pub frame: Purpose,
    /// The caller's own.
    pub work: Purpose,
}

impl Purposes {
    pub(super) fn of(history: &History) -> Self {
        let mut purposes = Self::default();
        let in_map = history.states.contains_key("Each");
        for (name, state) in &history.states {
            let name = match name.as_str() {
                "Done" if in_map => "Succeeded",
                name => name,
            };
            let purpose = of(name);
            let (entries, again) = split(purpose, *state);
            purposes.pick(purpose).add(entries);
            purposes.waiting.add(again);
        }
        purposes
    }

    fn pick(&mut self, purpose: For) -> &mut Purpose {
        match purpose {
            For::Lease => &mut self.lease,
            For::Extend => &mut self.extend,
            For::Waiting => &mut self.waiting,
            For::Frame => &mut self.frame,
            For::Work => &mut self.work,
        }
    }

    /// Without the caller's own, and without the Map around it.
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.lease.transitions + self.extend.transitions + self.waiting.transitions
    }

    /// Without the caller's own, and without the Map around it.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.lease.events + self.extend.events + self.waiting.events
    }
}

impl Purpose {
    fn add(&mut self, more: Self) {
        self.transitions += more.transitions;
        self.events += more.events;
    }
}

/// Events of one refused attempt: scheduled, started, failed.
const EVENTS_OF_A_RETRY: u64 = 3;

/// A state's entries, and what it has asked again: to take a key and to ask for it again is to wait.
fn split(purpose: For, state: State) -> (Purpose, Purpose) {
    let again = match purpose {
        For::Lease => Purpose {
            transitions: state.retried,
            events: EVENTS_OF_A_RETRY * state.retried,
        },
        _ => Purpose::default(),
    };
    let entries = Purpose {
        transitions: state.transitions() - again.transitions,
        events: state.events.saturating_sub(again.events),
    };
    (entries, again)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(states: &[(&str, u64, u64)]) -> History {
        let states = states.iter().map(|(name, entered, retried)| {
            let state = State {
                entered: *entered,
                retried: *retried,
                events: 5 * entered + 3 * retried,
            };
            ((*name).to_owned(), state)
        });
        History {
            states: states.collect(),
            events: 0,
        }
    }

    #[test]
    fn a_refused_attempt_is_waiting_and_the_step_is_the_callers() {
        let found = Purposes::of(&history(&[
            ("Acquire", 1, 2),
            ("First", 1, 0),
            ("Extend", 1, 1),
            ("Release", 1, 0),
        ]));
        assert_eq!((found.lease.transitions, found.lease.events), (2, 10));
        assert_eq!((found.waiting.transitions, found.waiting.events), (2, 6));
        assert_eq!((found.extend.transitions, found.work.transitions), (2, 1));
        assert_eq!((found.transitions(), found.events()), (6, 24));
    }

    #[test]
    fn what_ends_a_map_is_its_own_and_what_ends_the_sample_is_the_samples() {
        let map = history(&[("Each", 1, 0), ("Acquire", 3, 0), ("Done", 1, 0)]);
        let map = Purposes::of(&map);
        assert_eq!((map.lease.transitions, map.frame.transitions), (3, 2));
        let sample = Purposes::of(&history(&[("Take", 1, 0), ("Done", 1, 0)]));
        assert_eq!(sample.lease.transitions, 2);
    }
}
