//! How each query language writes what a woven state computes. The rest of a state is the same in both.

use crate::read::language::Language;
use crate::read::node::Node;
use crate::weave::render::{JsonValue, object};

impl Language {
    /// A computed field: an expression, or a path or intrinsic under a name that ends with `.$`.
    pub(crate) fn computed(self, key: &str, jsonata: &str, json_path: &str) -> (String, JsonValue) {
        match self {
            Self::Jsonata => (key.to_owned(), format!("{{% {jsonata} %}}").into()),
            Self::JsonPath => (format!("{key}.$"), json_path.into()),
        }
    }

    /// A field from the context.
    pub(crate) fn context(self, key: &str, path: &str) -> (String, JsonValue) {
        let (jsonata, json_path) = (format!("$states.context.{path}"), format!("$$.{path}"));
        self.computed(key, &jsonata, &json_path)
    }

    /// A field that joins parts of the context, and a variable.
    pub(crate) fn joined(
        self,
        key: &str,
        context: &[&str],
        variable: Option<String>,
    ) -> (String, JsonValue) {
        let variable = variable.map(|name| format!("${name}"));
        let parts = |root: &str| -> Vec<String> {
            let context = context.iter().map(|path| format!("{root}{path}"));
            context.chain(variable.clone()).collect()
        };
        let paths = parts("$$.");
        let places = vec!["{}"; paths.len()].join("/");
        let intrinsic = format!("States.Format('{places}', {})", paths.join(", "));
        self.computed(
            key,
            &parts("$states.context.").join(" & '/' & "),
            &intrinsic,
        )
    }

    /// A field with the specification's value.
    pub(crate) fn specified(self, key: &str, value: &Node) -> (String, JsonValue) {
        let is_path = value
            .expr()
            .is_some_and(|expr| (self, expr.language) == (Self::JsonPath, self));
        let end = if is_path { ".$" } else { "" };
        (
            key.to_owned() + end,
            value.text().unwrap_or_default().into(),
        )
    }

    /// The field with a task's arguments.
    pub(crate) fn arguments(self) -> &'static str {
        match self {
            Self::Jsonata => "Arguments",
            Self::JsonPath => "Parameters",
        }
    }

    /// Makes the output of a state, or of a clause of a Catch, its input.
    pub(crate) fn keep_input(self, state: &mut JsonValue) {
        match self {
            Self::Jsonata => state.set("Output", "{% $states.input %}".into()),
            Self::JsonPath => state.set("ResultPath", JsonValue::Null),
        }
    }

    /// The field of a Wait for the end of the lease in this variable.
    pub(crate) fn time_left(self, lease: &str) -> (&'static str, String) {
        match self {
            Self::Jsonata => ("Timestamp", format!("{{% ${lease}.safe_until %}}")),
            Self::JsonPath => ("TimestampPath", format!("${lease}.safe_until")),
        }
    }

    /// The assignment of a failure to a variable.
    pub(crate) fn failure(self, variable: &str) -> (String, JsonValue) {
        self.computed(variable, "$states.errorOutput", "$")
    }

    /// A clause that keeps the failure in a variable and leads to `next`. The failure is also the output, if that is the language's
    /// default.
    pub(crate) fn caught(self, variable: &str, names: &[&str], next: String) -> JsonValue {
        self.clause(variable, names, next, self == Self::JsonPath)
    }

    /// The same, and the input is the output.
    pub(crate) fn caught_beside(self, variable: &str, names: &[&str], next: String) -> JsonValue {
        self.clause(variable, names, next, true)
    }

    fn clause(self, variable: &str, names: &[&str], next: String, keeps: bool) -> JsonValue {
        let mut clause = object! {
            "ErrorEquals" => JsonValue::texts(names),
            "Assign" => JsonValue::Object(vec![self.failure(variable)]),
        };
        if keeps {
            self.keep_input(&mut clause);
        }
        clause.set("Next", next.into());
        clause
    }
}
