//! A measure: what was found for us, for the others, and what it is held to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One measure, as it stands in `report.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What was measured, so that it is understood by itself.
    pub name: String,
    /// What is counted: `requests`, `bytes`, `instructions`, `ratio` …
    pub unit: String,
    /// Ours.
    pub ours: f64,
    /// The others', by name, as far as they can do it at all.
    pub peers: BTreeMap<String, f64>,
    /// The most that ours may be; `null` if nothing was promised.
    pub target: Option<f64>,
    /// Whether it is; `null` if nothing was promised.
    pub met: Option<bool>,
    /// What has to be known to read it, such as that a figure is only a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Measure {
    /// A measure of ours alone, without a target.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: impl Into<String>, ours: f64) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            ours,
            peers: BTreeMap::new(),
            target: None,
            met: None,
            note: None,
        }
    }

    /// The same of somebody else.
    #[must_use]
    pub fn peer(mut self, name: impl Into<String>, value: f64) -> Self {
        self.peers.insert(name.into(), value);
        self
    }

    /// Holds ours to `target` at most.
    #[must_use]
    pub fn at_most(self, target: f64) -> Self {
        self.within(target, 0.0)
    }

    /// Holds ours to `target` at most; by `slack` it may be more, where the way of measuring cannot tell.
    #[must_use]
    pub fn within(mut self, target: f64, slack: f64) -> Self {
        self.target = Some(target);
        self.met = Some(self.ours <= target + slack);
        self
    }

    /// Says what has to be known to read it.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Whether a target was missed.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.met == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_up_to_itself_and_a_measure_without_one_is_neither() {
        let measure = || Measure::new("requests per acquire", "requests", 1.0);
        assert_eq!(measure().at_most(1.0).met, Some(true));
        assert_eq!(measure().at_most(0.9).met, Some(false));
        assert_eq!(measure().within(0.9, 0.1).met, Some(true));
        assert_eq!((measure().met, measure().missed()), (None, false));
        assert!(measure().at_most(0.9).missed());
    }

    #[test]
    fn its_json_has_the_six_fields() {
        let measure = Measure::new("a", "b", 1.5).peer("other", 2.0);
        let json = serde_json::json!({
            "name": "a", "unit": "b", "ours": 1.5, "peers": {"other": 2.0}, "target": null, "met": null,
        });
        assert_eq!(serde_json::to_value(&measure).unwrap(), json);
        let noted = serde_json::to_value(measure.note("c")).unwrap();
        assert_eq!(noted["note"], "c");
    }
}
