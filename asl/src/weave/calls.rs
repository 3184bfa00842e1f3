//! What the calls of our functions have in common, in both languages.

use crate::read::error_names::{ASKED_AGAIN, HELD};
use crate::weave::clauses::failed;
use crate::weave::machine::comment;
use crate::weave::piece::{Piece, object};
use crate::weave::plan::Planner;
use crate::weave::section::{Language, language};

const INVOKE: &str = "arn:aws:states:::lambda:invoke";
/// More than the 10 s after which our functions end themselves.
pub(crate) const LIMIT: f64 = 15.0;
impl Planner<'_, '_> {
    /// An extend, but for what it catches and where it leads.
    pub(crate) fn extending(&self, section: usize, reason: &str) -> Piece {
        let payload = self.handle(section);
        let mut state = self.call(section, reason, &self.spec.functions.extend, payload);
        let from = if self.machine.jsonata {
            "{% $states.result.Payload.lease %}"
        } else {
            "$.Payload.lease"
        };
        state.set("Assign", self.taken(section, from));
        self.keeps_data(&mut state);
        state
    }

    pub(crate) fn call(
        &self,
        section: usize,
        reason: &str,
        function: &str,
        payload: Piece,
    ) -> Piece {
        let arguments = if self.machine.jsonata {
            "Arguments"
        } else {
            "Parameters"
        };
        object! {
            "Type" => "Task",
            "Comment" => self.reason(section, reason),
            "Resource" => INVOKE,
            "TimeoutSeconds" => LIMIT,
            arguments => object! { "FunctionName" => function, "Payload" => payload },
            "Retry" => Piece::List(vec![again(true)]),
        }
    }

    pub(crate) fn handle(&self, section: usize) -> Piece {
        let lease = self.sections[section].vars.lease();
        if self.machine.jsonata {
            object! { "lease" => format!("{{% ${lease} %}}") }
        } else {
            object! { "lease.$" => format!("${lease}") }
        }
    }

    /// What a grant or an extend leaves in variables.
    pub(crate) fn taken(&self, section: usize, from: &str) -> Piece {
        let vars = &self.sections[section].vars;
        let lease = (
            if self.machine.jsonata {
                vars.lease()
            } else {
                vars.lease() + ".$"
            },
            from.into(),
        );
        let proven = self.context(&vars.proven(), "Execution.RedriveCount");
        Piece::Object(vec![lease, proven])
    }

    /// Another one for each entry of the state, and the same for all its attempts.
    pub(crate) fn request(&self, section: usize) -> (String, Piece) {
        let mut parts = vec!["State.Name", "State.EnteredTime", "Execution.RedriveCount"];
        let around = self.machine.around(self.sections[section].scope);
        if around.iter().any(|(state, _)| self.machine.is_map(*state)) {
            parts.push("Map.Item.Index");
        }
        if self.machine.jsonata {
            let parts: Vec<String> = parts
                .iter()
                .map(|part| format!("$states.context.{part}"))
                .collect();
            (
                "request_id".to_owned(),
                format!("{{% {} %}}", parts.join(" & '/' & ")).into(),
            )
        } else {
            let places = vec!["{}"; parts.len()].join("/");
            let parts: Vec<String> = parts.iter().map(|part| format!("$$.{part}")).collect();
            (
                "request_id.$".to_owned(),
                format!("States.Format('{places}', {})", parts.join(", ")).into(),
            )
        }
    }

    /// A field from the context.
    pub(crate) fn context(&self, key: &str, path: &str) -> (String, Piece) {
        if self.machine.jsonata {
            (
                key.to_owned(),
                format!("{{% $states.context.{path} %}}").into(),
            )
        } else {
            (format!("{key}.$"), format!("$$.{path}").into())
        }
    }

    /// A field as the specification has it.
    pub(crate) fn computed(&self, key: &str, text: &str) -> (String, Piece) {
        let is_path = !self.machine.jsonata && language(text) == Some(Language::JsonPath);
        (
            if is_path {
                format!("{key}.$")
            } else {
                key.to_owned()
            },
            text.into(),
        )
    }

    /// A clause of a state of ours.
    pub(crate) fn uncaught(&self, section: usize, names: &[&str], next: String) -> Piece {
        failed(
            self.machine.jsonata,
            &self.sections[section].vars.failure(),
            names,
            next,
        )
    }

    /// What comes in goes out, whatever the answer.
    pub(crate) fn keeps_data(&self, state: &mut Piece) {
        if self.machine.jsonata {
            state.set("Output", "{% $states.input %}".into());
        } else {
            state.set("ResultPath", Piece::Null);
        }
    }

    /// For states that pass no data on, and compute what JSONPath cannot.
    pub(crate) fn in_jsonata(&self, state: &mut Piece) {
        if !self.machine.jsonata {
            state.set("QueryLanguage", "JSONata".into());
        }
    }

    pub(crate) fn reason(&self, section: usize, reason: &str) -> String {
        comment(&self.sections[section].name, reason)
    }
}

/// Asked again while the outcome is open.
pub(crate) fn again(after_timeout: bool) -> Piece {
    let names = if after_timeout {
        &ASKED_AGAIN[..]
    } else {
        &ASKED_AGAIN[..ASKED_AGAIN.len() - 1]
    };
    object! {
        "ErrorEquals" => Piece::texts(names),
        "IntervalSeconds" => 1.0,
        "BackoffRate" => 2.0,
        "MaxDelaySeconds" => 8.0,
        "MaxAttempts" => 6.0,
        "JitterStrategy" => "FULL",
    }
}

/// Asked again while somebody else has it.
pub(crate) fn held() -> Piece {
    object! {
        "ErrorEquals" => Piece::texts(&[HELD]),
        "IntervalSeconds" => 1.0,
        "BackoffRate" => 1.5,
        "MaxDelaySeconds" => 10.0,
        "MaxAttempts" => 60.0,
        "JitterStrategy" => "FULL",
    }
}
