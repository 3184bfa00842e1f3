//! What a scene came to.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_local::Counts;
use serde::Serialize;

use crate::rounded;

/// What was sent, and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Requests of all operations.
    pub requests: u64,
    /// Requests by operation.
    pub by_operation: BTreeMap<String, u64>,
    /// Bytes of the request bodies.
    pub bytes_up: u64,
    /// Bytes of the answers' bodies.
    pub bytes_down: u64,
    /// Write units that answers told.
    pub write_units: f64,
    /// Write units of refused conditions, as the service takes them; no answer tells them.
    pub refused_units: f64,
    /// Read units that answers told.
    pub read_units: f64,
}

impl Spent {
    /// All that is paid for as writing.
    #[must_use]
    pub fn writing(&self) -> f64 {
        self.write_units + self.refused_units
    }

    /// The operations and how often each was sent, in words.
    #[must_use]
    pub fn told(&self) -> String {
        let operations = self.by_operation.iter();
        let told: Vec<String> = operations
            .map(|(name, times)| format!("{name} {times}"))
            .collect();
        told.join(", ")
    }
}

impl From<&Counts> for Spent {
    fn from(counts: &Counts) -> Self {
        let units = counts.units();
        let mut spent = Self {
            requests: counts.total(),
            write_units: units.write,
            refused_units: units.refused,
            read_units: units.read,
            ..Self::default()
        };
        for (operation, tally) in counts.iter() {
            spent
                .by_operation
                .insert(operation.to_owned(), tally.requests);
            spent.bytes_up += tally.request_bytes;
            spent.bytes_down += tally.answer_bytes;
        }
        spent
    }
}

/// A scene that a client played.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Played {
    /// Which one.
    pub scene: String,
    /// Who, or in which way.
    pub client: &'static str,
    /// What was sent from the scene's first step to its last.
    pub all: Spent,
    /// The same by steps, in their order.
    pub steps: Vec<Step>,
    /// What others sent meanwhile who clean up for everybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aside: Option<Spent>,
    /// How many sections there were in it.
    pub sections: u32,
    /// How long it took; of several tries, the middle one.
    pub took_ms: f64,
    /// Of several tries, the longest.
    pub longest_ms: f64,
    /// How often it was tried.
    pub tries: usize,
    /// What the client was told, or believes, at the end.
    pub told: String,
    /// The lease's length, where it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<f64>,
}

/// One step of a scene.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What was done.
    pub name: &'static str,
    /// What was sent for it.
    pub spent: Spent,
}

impl Played {
    /// A scene that is over.
    #[must_use]
    pub fn once(
        scene: impl Into<String>,
        client: &'static str,
        marks: Marks,
        took: Duration,
    ) -> Self {
        Self {
            scene: scene.into(),
            client,
            all: Spent::from(&marks.last.since(&marks.first)),
            steps: marks.steps,
            aside: None,
            sections: 1,
            took_ms: millis(took),
            longest_ms: millis(took),
            tries: 1,
            told: String::new(),
            lease_ms: None,
        }
    }

    /// The same, with so many sections in it.
    #[must_use]
    pub fn of_sections(self, sections: u32) -> Self {
        Self { sections, ..self }
    }

    /// The same, with what others sent meanwhile.
    #[must_use]
    pub fn with_aside(self, aside: Spent) -> Self {
        Self {
            aside: Some(aside),
            ..self
        }
    }

    /// The same, with what the client knows at the end.
    #[must_use]
    pub fn knowing(self, told: impl Into<String>) -> Self {
        Self {
            told: told.into(),
            ..self
        }
    }

    /// The same, under leases of this length.
    #[must_use]
    pub fn under(self, lease: Duration) -> Self {
        Self {
            lease_ms: Some(millis(lease)),
            ..self
        }
    }

    /// Several tries of the same as one: the counts of the one that needed the most requests, the times of all.
    #[must_use]
    pub fn of_tries(mut tries: Vec<Self>) -> Option<Self> {
        let mut times: Vec<f64> = tries.iter().map(|played| played.took_ms).collect();
        times.sort_by(f64::total_cmp);
        tries.sort_by_key(|played| played.all.requests);
        let most = tries.pop()?;
        Some(Self {
            took_ms: times[(times.len() - 1) / 2],
            longest_ms: times[times.len() - 1],
            tries: times.len(),
            ..most
        })
    }

    /// How many leases long it took.
    #[must_use]
    pub fn in_leases(&self) -> Option<f64> {
        self.lease_ms.map(|lease| rounded(self.took_ms / lease))
    }

    /// What a step spent.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Spent> {
        let mut steps = self.steps.iter();
        steps.find(|step| step.name == name).map(|step| &step.spent)
    }
}

/// The counts between the steps of a scene.
#[derive(Clone, Debug)]
pub struct Marks {
    first: Counts,
    last: Counts,
    steps: Vec<Step>,
}

impl Marks {
    /// The scene begins.
    #[must_use]
    pub fn begin(counts: Counts) -> Self {
        Self {
            first: counts.clone(),
            last: counts,
            steps: Vec::new(),
        }
    }

    /// A step is over.
    pub fn step(&mut self, name: &'static str, counts: Counts) {
        let spent = Spent::from(&counts.since(&self.last));
        self.steps.push(Step { name, spent });
        self.last = counts;
    }
}

/// In milliseconds.
pub(super) fn millis(length: Duration) -> f64 {
    rounded(length.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_tries_the_middle_time_and_the_most_requests_stand() {
        let one = |took, requests| {
            let marks = Marks::begin(Counts::default());
            let mut played = Played::once("s", "c", marks, Duration::from_millis(took));
            played.all.requests = requests;
            played
        };
        let tries = vec![one(9, 2), one(5, 3), one(700, 2), one(6, 2)];
        let played = Played::of_tries(tries).unwrap();
        assert_eq!((played.all.requests, played.tries), (3, 4));
        assert!((played.took_ms - 6.0).abs() < 1e-9);
        assert!((played.longest_ms - 700.0).abs() < 1e-9);
        assert_eq!(Played::of_tries(Vec::new()), None);
        let under = one(700, 2).under(Duration::from_millis(500));
        assert_eq!(under.in_leases(), Some(1.4));
    }
}
