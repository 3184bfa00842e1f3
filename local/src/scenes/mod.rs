//! The scenes of the sample events: the table's content before each event, and the function's response. One list serves
//! the functions as processes and the same functions in containers.

mod fit;
mod mask;
mod stage;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub use fit::misfit;
pub use mask::masked;
pub use stage::{Stage, item_of};

use crate::error::Error;

const LIST: &str = include_str!("../../scenes.yaml");

/// The preparation of one sample event, and its expected outcome.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The file in `events/`, without its ending.
    pub event: String,
    entry: Entry,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    before: Vec<Step>,
    /// Settings of the function that differ from the template's.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    answer: Option<Value>,
    error: Option<String>,
    message: Option<Value>,
    /// The calls to Step Functions, in order.
    #[serde(default)]
    tells: Vec<String>,
}

/// A preparation step, done by the functions themselves if possible.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// An execution was stopped, with a task still running.
    Stop(String),
    /// A lease of another holder.
    Hold { key: String, holder: Option<String> },
    /// Another sample event.
    Event(String),
    /// A call of any function, with any request.
    Call(String, Value),
    /// The request of a sample event, granted and released.
    Spend(String),
    /// The rows for the handles of a sample event, as if they had been granted.
    Stand(String),
    /// A changed attribute of a lease row.
    Change {
        key: String,
        attribute: String,
        number: String,
    },
    /// A foreign item in the place of a lease row.
    Strange(String),
}

/// The whole list, in the order of the events' names.
///
/// # Errors
/// [`Error::Template`] when the list cannot be read.
pub fn all() -> Result<Vec<Scene>, Error> {
    let wrong = |message: String| Error::Template {
        file: "local/scenes.yaml".into(),
        message,
    };
    // Read through a JSON value, because a step is written as an object with one field.
    let list: Value = yaml_serde::from_str(LIST).map_err(|error| wrong(error.to_string()))?;
    let list: BTreeMap<String, Entry> =
        serde_json::from_value(list).map_err(|error| wrong(error.to_string()))?;
    let scenes = list.into_iter();
    Ok(scenes
        .map(|(event, entry)| Scene { event, entry })
        .collect())
}

impl Scene {
    /// The verb of the function that the event is for.
    #[must_use]
    pub fn function(&self) -> &str {
        self.event.split('-').next().unwrap_or_default()
    }

    /// The first difference of the response or the calls to Step Functions from the list. None if they fit.
    #[must_use]
    pub fn judge(&self, answer: &str, calls: &[crate::StepFunctionsCall]) -> Option<String> {
        let operations: Vec<_> = calls.iter().map(|call| call.operation.as_str()).collect();
        if operations != self.entry.tells {
            let expected = self.entry.tells.join(", ");
            let operations = operations.join(", ");
            return Some(format!(
                "calls to Step Functions: expected [{expected}], got [{operations}]"
            ));
        }
        let Ok(answer) = serde_json::from_str::<Value>(answer) else {
            return Some(format!("this is not JSON: {answer}"));
        };
        match (&self.entry.answer, &self.entry.error) {
            (Some(expected), None) => misfit(expected, &answer),
            (None, Some(name)) => self.judge_error(name, &answer),
            _ => Some("the list has to have either an answer or an error".to_owned()),
        }
    }

    fn judge_error(&self, name: &str, answer: &Value) -> Option<String> {
        if answer["errorType"] != name {
            return Some(format!("expected the error {name}, got {answer}"));
        }
        // The message is one JSON object, as text.
        let message = answer["errorMessage"].as_str().unwrap_or_default();
        let Ok(message) = serde_json::from_str(message) else {
            return Some(format!("the message is not JSON: {answer}"));
        };
        let expected = self.entry.message.as_ref().unwrap_or(&Value::Null);
        misfit(expected, &message).map(|misfit| format!("errorMessage.{misfit}"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_event_has_its_scene() {
        let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../events");
        let mut events: Vec<_> = std::fs::read_dir(events)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            // Events for state machines have a directory of their own.
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        events.sort();
        let scenes: Vec<_> = all().unwrap().into_iter().map(|s| s.event).collect();
        assert_eq!(scenes, events);
    }

    #[test]
    fn what_is_other_than_the_list_says_is_reported() {
        let scenes = all().unwrap();
        let scene = |event: &str| scenes.iter().find(|scene| scene.event == event).unwrap();
        let absent = scene("inspect-absent");
        assert_eq!(absent.judge(r#"{"outcome":"absent"}"#, &[]), None);
        for other in [
            r#"{"outcome":"found"}"#,
            r#"{"outcome":"absent","more":1}"#,
            r#"{"outcome_":"absent"}"#,
            "null",
            "",
        ] {
            assert!(absent.judge(other, &[]).is_some(), "{other}");
        }
        let call = crate::StepFunctionsCall {
            operation: "SendTaskSuccess".to_owned(),
            body: Value::Null,
        };
        assert!(absent.judge(r#"{"outcome":"absent"}"#, &[call]).is_some());
        let lost = scene("extend-lost");
        let error = |name: &str, message: &str| {
            serde_json::json!({"errorType": name, "errorMessage": message}).to_string()
        };
        let message = r#"{"key":"orders/52","message":"it is over"}"#;
        assert_eq!(lost.judge(&error("Lease.Lost", message), &[]), None);
        assert!(lost.judge(&error("Lease.Held", message), &[]).is_some());
        assert!(lost.judge(&error("Lease.Lost", "over"), &[]).is_some());
        assert!(lost.judge(&error("Lease.Lost", "{}"), &[]).is_some());
    }
}
