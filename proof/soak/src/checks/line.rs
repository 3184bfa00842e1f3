//! L3 and L4: whoever came later is not served before, and nobody waits in vain. And S1 of those who were served, of
//! whose grants no call of acquire tells.

use std::collections::BTreeMap;

use crate::book::Wait;
use crate::violation::Violation;

/// S1, L3 and L4.
#[must_use]
pub fn line(waits: &[Wait]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut of_key: BTreeMap<&str, Vec<&Wait>> = BTreeMap::new();
    for wait in waits {
        of_key.entry(&wait.key).or_default().push(wait);
        if !wait.answered {
            let what = format!("{} waited in vain", wait.by);
            violations.push(Violation::new("L4", &wait.key, what));
        }
    }
    for (key, waits) in of_key {
        let mut served: BTreeMap<u64, &Wait> = BTreeMap::new();
        for wait in &waits {
            let other = wait.token.and_then(|token| served.insert(token, wait));
            if let Some(other) = other {
                let what = format!("{} and {} were served by one token", other.by, wait.by);
                violations.push(Violation::new("S1", key, what));
            }
        }
        for first in &waits {
            let (Some(queued), Some(token)) = (first.queued, first.token) else {
                continue;
            };
            let overtook = |other: &&&Wait| {
                queued < other.begin && other.token.is_some_and(|theirs| theirs < token)
            };
            for other in waits.iter().filter(overtook) {
                let what = format!("{} was served before {}", other.by, first.by);
                violations.push(Violation::new("L3", key, what));
            }
        }
    }
    violations
}
