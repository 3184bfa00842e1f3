//! The rules. Their names, texts and examples are those of the page docs/reference/check-rules.md. Its examples are excerpts of the
//! corpus, so the tests check every definition that is shown.

use std::sync::LazyLock;

const PAGE: &str = include_str!("../../../docs/reference/check-rules.md");

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
    /// A task is over before the wait that it asks for.
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

/// The name of each rule and its part of the page.
static SECTIONS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let (page, _) = PAGE.rsplit_once("\nRead next: ").unwrap_or((PAGE, ""));
    let sections = page
        .split("\n## ")
        .filter_map(|part| part.split_once("\n\n"));
    sections
        .filter(|(_, text)| text.contains("\n\nCure: "))
        .collect()
});

impl Rule {
    /// All of them, in the order of the page.
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

/// The explanation of a rule, for the terminal: its part of the page, without links and fences.
#[must_use]
pub fn explain(rule: Rule) -> String {
    let (id, text) = SECTIONS[rule as usize];
    let mut out = format!("{id}: ");
    for line in text.lines().filter(|line| !line.starts_with("```")) {
        match line.split_once(" ([").zip(line.split_once("](")) {
            Some(((word, _), (link, _))) => {
                let file = &link[word.len() + 3..];
                out.extend([word, " (", file, "):\n"]);
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}
