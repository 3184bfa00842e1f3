//! Why nothing was woven.

use crate::read::node::Node;
use crate::read::source::{Place, Source, Unreadable};
use std::fmt;

/// Why nothing was woven: the place, the fault and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the file at fault.
    pub name: String,
    /// The place in the file, if there is one.
    pub place: Option<Place>,
    /// What is wrong, and what to do about it.
    pub message: String,
    /// Whether the fault is this program's own: its output failed the check and was discarded.
    pub internal: bool,
}

impl Refusal {
    pub(crate) fn at(source: &Source, node: &Node, message: impl Into<String>) -> Self {
        Self {
            place: Some(source.place(node.span.start)),
            ..Self::of(&source.name, message)
        }
    }

    /// A refusal of a whole file.
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
