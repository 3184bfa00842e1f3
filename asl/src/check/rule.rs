//! The rules. Their names and texts, and the states of the corpus that show each, are in rules.md, in the order of [`Rule`].

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::check::examples::excerpt;

const RULES: &str = include_str!("rules.md");

/// The rule that a finding breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A path from an acquire ends without its release.
    NoRelease,
    /// Something may end after the lease has expired.
    Outlasts,
    /// The longest time under a lease is not known.
    Unbounded,
    /// After a redrive, work starts under an execution lease that may be over.
    UnguardedRedrive,
    /// A task, an extend or a release is reached without the lease that it has on another path.
    WithoutLease,
    /// Work continues although the lease is lost.
    WorkAfterLost,
    /// Work has the handle of a lease that is already released.
    WorkAfterRelease,
    /// A Retry repeats a task after `Lease.Lost`.
    LostRetried,
    /// The wait for a held key may not end.
    HeldUnbounded,
    /// A task ends before the wait that it asks for.
    WaitCutShort,
    /// Concurrent branches or items have the same request.
    SharedRequest,
    /// The attempts of one acquire are different requests.
    UnstableRequest,
    /// An acquire is entered again with the same request.
    ConsumedRequest,
    /// A request has fields that it does not have or that exclude each other, or waits and passes no token.
    InvalidRequest,
    /// A key that looks computed is literal text.
    LiteralKey,
    /// The handle is lost before its last use.
    HandleOverwritten,
    /// A step that did not start leads back to an earlier one, which then runs twice.
    StepRepeated,
    /// A lease is released although its work may still be running.
    ReleasedWhileRunning,
    /// A failure aborts a branch or an item that holds a lease of its own.
    AbortedSiblings,
    /// A loop may fill the history of the execution.
    TooManyEvents,
    /// An Express workflow acquires a lease.
    Express,
    /// A clause names an error that is never raised.
    UnknownError,
    /// No path leads to a call of the functions.
    Unreachable,
    /// The definition does not have the shape that the service requires.
    Malformed,
    /// The definition is too large to be checked completely.
    TooLarge,
}

/// The name of each rule and its part of rules.md.
static SECTIONS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let sections = RULES.trim_start_matches("## ").split("\n## ");
    sections
        .filter_map(|part| part.split_once("\n\n"))
        .collect()
});

impl Rule {
    /// All of them, in the order of rules.md.
    pub const ALL: &[Self] = &[
        Self::NoRelease,
        Self::Outlasts,
        Self::Unbounded,
        Self::UnguardedRedrive,
        Self::WithoutLease,
        Self::WorkAfterLost,
        Self::WorkAfterRelease,
        Self::LostRetried,
        Self::HeldUnbounded,
        Self::WaitCutShort,
        Self::SharedRequest,
        Self::UnstableRequest,
        Self::ConsumedRequest,
        Self::InvalidRequest,
        Self::LiteralKey,
        Self::HandleOverwritten,
        Self::StepRepeated,
        Self::ReleasedWhileRunning,
        Self::AbortedSiblings,
        Self::TooManyEvents,
        Self::Express,
        Self::UnknownError,
        Self::Unreachable,
        Self::Malformed,
        Self::TooLarge,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub fn id(self) -> &'static str {
        SECTIONS[self as usize].0
    }

    /// What every definition must satisfy.
    #[must_use]
    pub fn statement(self) -> &'static str {
        self.paragraph(0)
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        let cure = self.paragraph(2).trim_start_matches("Cure: ");
        cure.trim_end().trim_end_matches('.')
    }

    /// The rule with this name.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }

    fn paragraph(self, nth: usize) -> &'static str {
        let text = SECTIONS[self as usize].1;
        text.split("\n\n").nth(nth).unwrap_or_default()
    }
}

/// The explanation of a rule, for the terminal: what it says, and the states of the corpus that break it and keep it.
#[must_use]
pub fn explain(rule: Rule) -> String {
    let (id, text) = SECTIONS[rule as usize];
    let mut out = format!("{id}: ");
    for line in text.trim_end().lines() {
        let example = ["Bad", "Good"].into_iter().find_map(|word| {
            let (file, states) = line
                .strip_prefix(word)?
                .strip_prefix(": ")?
                .split_once(": ")?;
            Some((word, file, states))
        });
        let _ = match example {
            Some((word, file, states)) => {
                write!(out, "{word} ({file}):\n\n{}\n", excerpt(file, states))
            }
            None => writeln!(out, "{line}"),
        };
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}
