//! Why nothing was woven.

use crate::read::node::Node;
use crate::read::source::{Source, Unreadable};
use std::fmt;

/// Why nothing was woven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file and the place, what is wrong, and what to do about it.
    pub fault: Unreadable,
    /// Whether the fault is this program's own: its output failed the check and was discarded.
    pub internal: bool,
}

impl Refusal {
    pub(crate) fn at(source: &Source, node: &Node, message: impl Into<String>) -> Self {
        source.unreadable(node.span.start, message).into()
    }

    /// A refusal of a whole file.
    #[must_use]
    pub fn of(name: &str, message: impl Into<String>) -> Self {
        let fault = Unreadable {
            name: name.to_owned(),
            place: None,
            message: message.into(),
        };
        fault.into()
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
        self.fault.fmt(f)?;
        if self.internal {
            f.write_str(" (nothing was written; this is a fault of leasehold weave itself)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

impl From<Unreadable> for Refusal {
    fn from(fault: Unreadable) -> Self {
        Self {
            fault,
            internal: false,
        }
    }
}
