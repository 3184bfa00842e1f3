//! The secret scanner learns every secret that passes through a stack, and finds them in logs. Every stack that a test starts has
//! one, and its functions log as much as possible.

mod forms;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_local::Observer;
use serde_json::Value;

use forms::{SHORTEST, window_of, windows};

/// The known secrets, and the forms of each in a log.
#[derive(Debug, Default)]
pub struct SecretScanner {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    secrets: HashSet<String>,
    /// Keyed by prefix, so that a log is searched for all of them at once.
    forms: HashMap<u128, Vec<(&'static str, Vec<u8>)>>,
}

/// Shows the number of secrets, but none of them.
impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.secrets.len())
    }
}

/// Fields and attributes whose values must not be logged. A task token and the id of a callback have two names each.
pub const NAMES: [&str; 5] = [
    "lease_id",
    "task_token",
    "taskToken",
    "callback_id",
    "callbackId",
];

impl SecretScanner {
    /// Learns the secrets in a request or a response of any kind. In JSON it also searches texts.
    pub fn learn(&self, passing: &[u8]) {
        if let Ok(value) = serde_json::from_slice(passing) {
            self.learn_from(&value);
        }
    }

    fn learn_from(&self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    // As a field, as an attribute, or as the value of an expression.
                    let text = value.as_str().or_else(|| value["S"].as_str());
                    match text {
                        Some(text) if is_secret(name) => self.keep(text),
                        _ => self.learn_from(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.learn_from(item)),
            Value::String(text) if text.starts_with('{') => self.learn(text.as_bytes()),
            _ => {}
        }
    }

    /// A text that is so short that it may occur by chance is no secret.
    fn keep(&self, secret: &str) {
        let mut known = self.known();
        if secret.len() < SHORTEST || !known.secrets.insert(secret.to_owned()) {
            return;
        }
        for (name, form) in forms::of(secret) {
            if let Some(window) = window_of(&form) {
                known.forms.entry(window).or_default().push((name, form));
            }
        }
    }

    /// The number of known secrets.
    #[must_use]
    pub fn secrets(&self) -> usize {
        self.known().secrets.len()
    }

    /// The first line of `log` that contains a secret, and its form.
    #[must_use]
    pub fn finds(&self, log: &[u8]) -> Option<String> {
        let known = self.known();
        let (at, form) = windows(log).find_map(|(at, window)| {
            let forms = known.forms.get(&window)?.iter();
            let mut here = forms.filter(|(_, form)| log[at..].starts_with(form));
            here.next().map(|(name, _)| (at, *name))
        })?;
        let line = |part: &[u8]| part.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec);
        let before = log[..at].rsplit(|byte| *byte == b'\n').next();
        let mut whole = before.unwrap_or_default().to_vec();
        whole.extend(line(&log[at..]).unwrap_or_default());
        Some(format!("{form}: {}", String::from_utf8_lossy(&whole)))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for SecretScanner {
    fn see(&self, passing: &[u8]) {
        self.learn(passing);
    }

    fn finds(&self, log: &[u8]) -> Option<String> {
        self.finds(log)
    }

    /// Fails the test whose stack it was.
    fn ended(&self, found: &[String]) {
        // A failing test already has its message, and a second panic would abort it.
        if !std::thread::panicking() {
            assert!(found.is_empty(), "faults in logs: {found:#?}");
        }
    }
}

fn is_secret(name: &str) -> bool {
    NAMES.contains(&name)
        || name
            .strip_prefix(':')
            .is_some_and(|name| NAMES.contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "5d0c2a9be1f34768a2b7c45d9e8f1032";

    fn taught(passing: &Value) -> SecretScanner {
        let secret_scanner = SecretScanner::default();
        secret_scanner.learn(passing.to_string().as_bytes());
        secret_scanner
    }

    #[test]
    fn secret_is_learnt_wherever_it_passes() {
        let handle = json!({"lease": {"lease_id": SECRET}}).to_string();
        for passing in [
            json!({"lease": {"lease_id": SECRET}}),
            json!({"leases": [{"lease_id": SECRET}]}),
            json!({"ExpressionAttributeValues": {":lease_id": {"S": SECRET}}}),
            json!({"Item": {"lease_id": {"S": SECRET}}}),
            json!({"task_token": SECRET}),
            json!({"taskToken": SECRET, "output": "{}"}),
            json!({"taskToken": "short", "output": handle}),
        ] {
            let secret_scanner = taught(&passing);
            assert_eq!(secret_scanner.secrets(), 1, "{passing}");
            assert!(
                secret_scanner.finds(SECRET.as_bytes()).is_some(),
                "{passing}"
            );
        }
        for public in [
            json!({"holder": SECRET, "request": {"S": SECRET}}),
            json!({"lease_id": "too short"}),
            json!([SECRET]),
        ] {
            assert_eq!(taught(&public).secrets(), 0, "{public}");
        }
    }

    #[test]
    fn secret_is_found_in_each_form() {
        let secret_scanner = taught(&json!({"lease_id": SECRET}));
        for (name, form) in forms::of(SECRET) {
            let form = String::from_utf8(form).unwrap();
            let log = format!("one line\nanother with {form} in it\nthe last\n");
            let found = secret_scanner.finds(log.as_bytes()).unwrap();
            assert_eq!(found, format!("{name}: another with {form} in it"));
        }
        assert_eq!(secret_scanner.finds(&SECRET.as_bytes()[1..]), None);
        assert_eq!(secret_scanner.finds(b""), None);
    }
}
