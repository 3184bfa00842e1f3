//! Input transformers, by which a rule sends less than the whole event: the part of the language that the templates here use.
//! Anything else is refused when it is read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The only member of an object that marks a substitution.
const PLACE: &str = "\0";

/// A parsed transformer.
#[derive(Clone, Debug)]
pub(crate) struct Transformer {
    /// JSON pointers into the event, by name.
    paths: BTreeMap<String, String>,
    template: Value,
}

impl Transformer {
    /// Reads paths such as `$.detail.status`, and a template that is JSON with names in angle brackets in the place of values, or
    /// within a text.
    ///
    /// # Errors
    /// The part that is not supported.
    pub(crate) fn read(paths: &BTreeMap<String, String>, template: &str) -> Result<Self, String> {
        let unknown =
            |what: &str| format!("the input transformer: {what} is not understood locally");
        let mut pointers = BTreeMap::new();
        for (name, path) in paths {
            let members = path.strip_prefix("$.").ok_or_else(|| unknown(path))?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
            if !members.chars().all(is_plain) {
                return Err(unknown(path));
            }
            pointers.insert(name.clone(), format!("/{}", members.replace('.', "/")));
        }
        // Every other part is within quotation marks.
        let parts = template.split('"').enumerate().map(|(at, part)| {
            let is_outside = at.is_multiple_of(2);
            let names = pointers.keys().filter(|_| is_outside);
            names.fold(part.to_owned(), |part, name| {
                part.replace(&format!("<{name}>"), &json!({PLACE: name}).to_string())
            })
        });
        let json = parts.collect::<Vec<_>>().join("\"");
        let read = serde_json::from_str(&json).ok();
        let read = read.filter(|_| !template.contains('\\'));
        let template = read.ok_or_else(|| unknown(template))?;
        Ok(Self {
            paths: pointers,
            template,
        })
    }

    /// The text that is sent instead of the event. A value that the event does not have is null here.
    pub(crate) fn apply(&self, event: &Value) -> Value {
        self.fill(&self.template, event)
    }

    fn fill(&self, template: &Value, event: &Value) -> Value {
        match template {
            Value::Object(members) => {
                if let Some(name) = members.get(PLACE).and_then(Value::as_str) {
                    return event
                        .pointer(&self.paths[name])
                        .cloned()
                        .unwrap_or_default();
                }
                let members = members.iter();
                let filled = members.map(|(name, value)| (name.clone(), self.fill(value, event)));
                Value::Object(filled.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.fill(item, event)).collect(),
            Value::String(text) => {
                let filled = self.paths.iter().fold(text.clone(), |text, (name, path)| {
                    let value = match event.pointer(path) {
                        Some(Value::String(value)) => value.clone(),
                        other => other.cloned().unwrap_or_default().to_string(),
                    };
                    text.replace(&format!("<{name}>"), &value)
                });
                filled.into()
            }
            plain => plain.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, template: &str) -> Result<Transformer, String> {
        Transformer::read(
            &BTreeMap::from([("a".to_owned(), path.to_owned())]),
            template,
        )
    }

    #[test]
    fn transformer_inserts_only_named_values() {
        let transformer = read("$.detail.x", r#"{"b": [<a>, "c"], "d": <a>}"#).unwrap();
        for value in [json!("text \"quoted\""), json!(1), json!({"e": null})] {
            let event = json!({"detail": {"x": value, "secret": 1}, "more": 2});
            assert_eq!(
                transformer.apply(&event),
                json!({"b": [value, "c"], "d": value})
            );
        }
    }

    #[test]
    fn name_within_text_is_replaced() {
        let transformer = read("$.x", r#"{"key": "orders/<a>", "all": <a>}"#).unwrap();
        for (value, key) in [(json!("7"), "orders/7"), (json!(7), "orders/7")] {
            let sent = transformer.apply(&json!({"x": value}));
            assert_eq!(sent, json!({"key": key, "all": value}));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(read("$.a[0]", "{}").is_err());
        assert!(read("a", "{}").is_err());
        for template in [r#"{"b": "\"<a>"}"#, r#"{"b": <other>}"#, "<a", ""] {
            assert!(read("$.a", template).is_err(), "{template}");
        }
    }
}
