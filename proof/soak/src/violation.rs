//! What should not have been: a promise that was broken, where, and what happened around it.

use std::fmt;

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// The key, or what else it is about.
    pub about: String,
    /// What is wrong.
    pub what: String,
    /// What happened around it, line by line.
    pub around: Vec<String>,
}

impl Violation {
    /// One without anything around it.
    #[must_use]
    pub fn new(
        invariant: &'static str,
        about: &(impl ToString + ?Sized),
        what: impl Into<String>,
    ) -> Self {
        Self {
            invariant,
            about: about.to_string(),
            what: what.into(),
            around: Vec::new(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "VIOLATION {} of {}: {}",
            self.invariant, self.about, self.what
        )?;
        for line in &self.around {
            write!(f, "\n    {line}")?;
        }
        Ok(())
    }
}
