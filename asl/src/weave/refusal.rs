//! Why nothing was woven.

use crate::read::node::Node;
use crate::read::source::{Place, Source, Unreadable};
use std::fmt;

/// Why nothing was woven: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the file it is about.
    pub name: String,
    /// Where in it, if it is about a place.
    pub place: Option<Place>,
    /// What is wrong, and what would not be.
    pub message: String,
    /// Whether the fault is this program's own: what it wrote did not hold, and was thrown away.
    pub internal: bool,
}

impl Refusal {
    pub(crate) fn at(source: &Source, node: &Node, message: impl Into<String>) -> Self {
        Self {
            place: Some(source.place(node.span.start)),
            ..Self::of(&source.name, message)
        }
    }

    /// A refusal that is about a file as a whole.
    #[must_use]
    pub fn of(name: &str, message: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            place: None,
            message: message.into(),
            internal: false,
        }
    }

    pub(crate) fn internal(name: &str, message: impl Into<String>) -> Self {
        Self {
            internal: true,
            ..Self::of(name, message)
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(Place { line, column }) => write!(f, "{}:{line}:{column}: ", self.name)?,
            None => write!(f, "{}: ", self.name)?,
        }
        f.write_str(&self.message)?;
        if self.internal {
            f.write_str(" (nothing was written; this is a fault of leasehold weave itself)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl From<Unreadable> for Refusal {
    fn from(unreadable: Unreadable) -> Self {
        Self {
            name: unreadable.name,
            place: unreadable.place,
            message: unreadable.message,
            internal: false,
        }
    }
}
