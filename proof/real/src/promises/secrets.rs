//! S11: no lease id and no task token is in anything that people read, in whatever form.

use leasehold_proof::secret_scanner::SecretScanner;
use serde_json::json;

use super::{Broken, Event, What};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let scanner = SecretScanner::default();
    for event in events.iter().filter(|event| event.what == What::Secret) {
        scanner.learn(json!({"task_token": event.who}).to_string().as_bytes());
    }
    let read = events.iter().filter_map(|event| match &event.what {
        What::Read(text) => Some((&event.place, scanner.finds(text.as_bytes())?)),
        _ => None,
    });
    read.map(|(place, line)| Broken::new("S11", place, format!("a secret was written, {line}")))
        .collect()
}
