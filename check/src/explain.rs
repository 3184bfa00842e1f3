//! What a rule is about, in words and in two definitions.

use crate::rule::Rule;

/// The rule's sentence and its cure.
#[must_use]
pub fn explain(rule: Rule) -> String {
    format!(
        "{}: {}\n\nCure: {}.",
        rule.id(),
        rule.sentence(),
        rule.cure()
    )
}
