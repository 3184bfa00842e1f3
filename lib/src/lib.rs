//! Leases in DynamoDB.

mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod inspect;
#[cfg(feature = "lambda")]
mod json;
#[cfg(feature = "lambda")]
pub mod lambda;
mod leases;
mod outcomes;
pub mod row;
mod settings;
pub mod store;
mod sweep;
pub mod table;
pub mod transition;
mod values;
mod walk;

pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use error::{Cause, Error};
pub use inspect::{HeldView, Inspected, Inspection, LeaseState, LeaseView, Listed};
pub use leases::{Acquire, ExtendOptions, Leases};
pub use outcomes::{
    Acquired, Contention, Ended, Extended, GrantKind, Granted, HeldLease, Lease, Previous,
    ReleaseOutcome, Released, Standing,
};
pub use settings::{Environment, Settings};
pub use store::{Connection, DynamoDb, Memory};
pub use sweep::{SweepBounds, Swept};
pub use values::{
    BadValue, Counter, Holder, Key, LeaseId, Metadata, RequestDigest, RequestId, Ttl,
};
pub use walk::{Cursor, PageSize};
