//! What an execution is billed by: the states that it entered and the tasks that it tried again, read from its history.

use std::collections::BTreeMap;

use aws_sdk_sfn::types::{StateEnteredEventDetails, StateExitedEventDetails};
use leasehold_proof::execution::Execution;

/// What an execution came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// By the state's name: how often it was entered, and how often its task was tried.
    pub states: BTreeMap<String, (u64, u64)>,
    /// Events, those of the execution itself too.
    pub events: u64,
}

impl History {
    /// What an execution has come to so far.
    pub async fn of(execution: &Execution) -> Self {
        let events = execution.history().await.0;
        let mut history = Self {
            events: u64::try_from(events.len()).unwrap_or(u64::MAX),
            ..Self::default()
        };
        // By event: the state that it belongs to.
        let mut owners: BTreeMap<i64, &str> = BTreeMap::new();
        for event in &events {
            let kind = event.r#type().as_str();
            let entered = event
                .state_entered_event_details()
                .map(StateEnteredEventDetails::name);
            let own = entered.or(event
                .state_exited_event_details()
                .map(StateExitedEventDetails::name));
            let inherited = || owners.get(&event.previous_event_id()).copied();
            let Some(owner) = own.or_else(inherited) else {
                continue;
            };
            owners.insert(event.id(), owner);
            let (times, tries) = history.states.entry(owner.to_owned()).or_default();
            *times += u64::from(entered.is_some());
            *tries += u64::from(kind == "TaskScheduled");
        }
        history
    }

    /// Transitions of the states that `pick` picks.
    #[must_use]
    pub fn transitions(&self, pick: impl Fn(&str) -> bool) -> u64 {
        let picked = self.states.iter().filter(|(name, _)| pick(name));
        // Each try of a task is billed as a transition; the first one is the entry.
        picked.map(|(_, (times, tries))| *times.max(tries)).sum()
    }
}
