//! The clients that play the scenes, each in its own way behind the same three calls.

mod direct;
mod dynamodb_lease;
mod ours;
mod python_lock;

use std::path::PathBuf;
use std::time::Duration;

use crate::site::Site;

pub(super) use direct::{Direct, refusable, table, text};
pub(super) use dynamodb_lease::DynamodbLease;
pub(super) use ours::{HOLDER, Ours};
pub(super) use python_lock::PythonLock;

/// The table of ours, and of direct calls.
pub(super) const TABLE: &str = "leases";

/// Who plays.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Who {
    /// Ours.
    Leasehold,
    /// Conditional writes by the SDK, as one writes them oneself.
    DirectCalls,
    /// The Rust crate of that name.
    DynamodbLease,
    /// The Python package of that name.
    PythonDynamodbLock,
}

impl Who {
    /// Everybody, ours first.
    pub const ALL: [Self; 4] = [
        Self::Leasehold,
        Self::DirectCalls,
        Self::DynamodbLease,
        Self::PythonDynamodbLock,
    ];

    /// As it is written in the report.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::DirectCalls => "direct calls",
            Self::DynamodbLease => "dynamodb-lease",
            Self::PythonDynamodbLock => "python-dynamodb-lock",
        }
    }

    /// Which version, with which settings.
    #[must_use]
    pub const fn settings(self) -> &'static str {
        match self {
            Self::Leasehold => ours::SETTINGS,
            Self::DirectCalls => direct::SETTINGS,
            Self::DynamodbLease => dynamodb_lease::SETTINGS,
            Self::PythonDynamodbLock => python_lock::SETTINGS,
        }
    }

    /// The operation that writes when it acquires, extends or releases.
    #[must_use]
    pub const fn writes(self, act: Act) -> &'static str {
        match (self, act) {
            (Self::Leasehold, _) | (_, Act::Extend) => "UpdateItem",
            (_, Act::Acquire) => "PutItem",
            (_, Act::Release) => "DeleteItem",
        }
    }
}

/// What every client can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Act {
    /// To get the key, waiting if need be.
    Acquire,
    /// To keep it for another length of a lease.
    Extend,
    /// To give it back.
    Release,
}

impl Act {
    /// All of them, in the order of a section.
    pub const ALL: [Self; 3] = [Self::Acquire, Self::Extend, Self::Release];

    /// As a step of a scene.
    #[must_use]
    pub const fn told(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Extend => "extend",
            Self::Release => "release",
        }
    }
}

/// How a client is set up for a scene.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where Python packages are found.
    pub root: PathBuf,
    /// The length of a lease.
    pub lease: Duration,
    /// How often those extend who do it by themselves; if nothing is said, hardly ever.
    pub extends_every: Option<Duration>,
}

/// A client at a site. What a call fails with is text: it is told, not handled.
pub trait Lock: Sized + Send + 'static {
    /// Who it is.
    const WHO: Who;
    /// Whether it extends in the background, in its own time.
    const EXTENDS_BY_ITSELF: bool = false;
    /// What is kept of a key that is held.
    type Held: Send;

    /// A client at this site's door; it makes the table if there is none.
    fn enter(site: &Site, setting: &Setting) -> impl Future<Output = Result<Self, String>> + Send;

    /// Asks until it has the key, or knows that it will not get it.
    fn acquire(&mut self, key: &str) -> impl Future<Output = Result<Self::Held, String>> + Send;

    /// Extends once. Who extends in the background has done it when this comes back.
    fn extend(&mut self, held: &mut Self::Held) -> impl Future<Output = Result<(), String>> + Send;

    /// Gives the key back.
    fn release(&mut self, held: Self::Held) -> impl Future<Output = Result<(), String>> + Send;
}

/// An error with its causes, once each.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
