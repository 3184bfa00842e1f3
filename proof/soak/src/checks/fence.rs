//! S3: what the resource itself remembers of the tokens that it was shown.

use crate::violation::Violation;
use crate::world::Witnessed;

/// S3: no write with an older token after one with a newer, and no write that was told as done undone.
#[must_use]
pub fn fence(key: &str, witnessed: &Witnessed, told: u64) -> Vec<Violation> {
    let mut violations = Vec::new();
    for pair in witnessed.tokens.windows(2) {
        if pair[1] < pair[0] {
            let what = format!("a write with {} passed after one with {}", pair[1], pair[0]);
            violations.push(Violation::new("S3", key, what));
        }
    }
    if witnessed.guarded != told {
        let what = format!(
            "{told} writes were told as done, and the number shows {}",
            witnessed.guarded
        );
        violations.push(Violation::new("S3", key, what));
    }
    violations
}

/// How many of the writes without a fence were lost: without any, the soak would not be dangerous.
#[must_use]
pub fn lost_without(witnessed: &Witnessed, told: u64) -> u64 {
    told.saturating_sub(witnessed.unguarded)
}
