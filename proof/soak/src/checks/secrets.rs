//! S11: no lease id and no task token in what anybody reads.

use std::collections::BTreeSet;

use leasehold_local::Canary;
use serde_json::json;

use crate::checks::Violation;

/// S11: whether any secret is in one of these texts, in whatever form.
#[must_use]
pub fn secrets<'a>(
    secrets: &BTreeSet<String>,
    texts: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Vec<Violation> {
    let canary = Canary::default();
    for secret in secrets {
        canary.learn(json!({"task_token": secret}).to_string().as_bytes());
    }
    let found = texts.filter_map(|(about, text)| Some((about, canary.finds(text)?)));
    let violation =
        |(about, line)| Violation::new("S11", about, format!("a secret was written, {line}"));
    found.map(violation).collect()
}
