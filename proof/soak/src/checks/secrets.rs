//! S11: no lease id and no task token in what anybody reads.

use std::collections::BTreeSet;

use leasehold_proof::secret_scanner::SecretScanner;
use serde_json::json;

use crate::checks::Violation;

/// S11: whether any secret is in one of these texts, in whatever form.
#[must_use]
pub fn secrets<'a>(
    secrets: &BTreeSet<String>,
    texts: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Vec<Violation> {
    let secret_scanner = SecretScanner::default();
    for secret in secrets {
        secret_scanner.learn(json!({"task_token": secret}).to_string().as_bytes());
    }
    let found = texts.filter_map(|(about, text)| Some((about, secret_scanner.finds(text)?)));
    let violation =
        |(about, line)| Violation::new("S11", about, format!("a secret was written, {line}"));
    found.map(violation).collect()
}
