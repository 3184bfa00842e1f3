//! Leases in DynamoDB for short-lived processes: Lambda functions and Step Functions workflows.
//!
//! A lease gives one holder exclusive use of a key: until a deadline, or while an execution runs. An acquire returns plain data, the [`Lease`];
//! any later process may extend or release with it. Nothing of it runs in the background and nothing happens on drop. A
//! holder extends by an explicit call, and each such call is one conditional write.
//!
//! # What a lease guarantees, and what it cannot
//!
//! While no clock is wrong by more than half of [`Settings::clock_margin`], at most one holder at a time believes that it
//! holds a key. A holder that was paused may resume after its lease has expired and continue to write. No lock
//! service can prevent that. The *resource* can: it stores the largest [`Lease::fencing_token`] and refuses smaller
//! ones. The tokens of a key increase from grant to grant: through release, expiry, purge, and deletion of the row.
//!
//! # What a version covers
//!
//! Versions cover everything that is documented here. [`store::Store`], [`Memory`]
//! and [`Engine`] serve those who write a store or an engine of their own; the crate `leasehold-conformance` tests a store. A store takes what the module [`store`] has: it need not look into a
//! [`store::Write`]. What that consists of, in the modules `row`, `transition` and `waiter`, is hidden, and may change with any
//! version.
//!
//! # Cookbook
//!
#![doc = include_str!("cookbook.md")]

mod clock;
mod error;
mod executions;
pub mod fence;
mod key_lists;
mod leases;
pub mod metrics;
mod outcomes;
mod pagination;
mod pool;
mod queue;
// Public for the authors of other stores; not covered by versions.
#[doc(hidden)]
pub mod redrivable;
#[doc(hidden)]
pub mod request;
mod requests;
mod retry;
mod rules;
// Public for the authors of other stores and for the proofs; not covered by versions.
#[doc(hidden)]
pub mod row;
#[cfg(feature = "schema")]
mod schema;
mod settings;
mod start;
pub mod store;
pub mod table;
// For this crate's own tests and those of others; not covered by versions.
#[cfg(any(test, feature = "test-support"))]
#[doc(hidden)]
pub mod test_support;
// Public for the authors of other stores and for the proofs; not covered by versions.
#[doc(hidden)]
pub mod transition;
mod values;
// Public for the authors of other stores and for the proofs; not covered by versions.
#[doc(hidden)]
pub mod waiter;

// For the client of Step Functions; not covered by versions.
#[doc(hidden)]
pub use clock::stopwatch;
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use error::{Cause, Error, ErrorKind, Retriable};
pub use executions::Executions;
pub use key_lists::RestrictedKeys;
pub use leases::{
    AcquireOutcome, AcquiredAll, AuditReason, ExtendOutcome, ExtendedAll, FailedStart,
    ForceReleaseOptions, ForceReleaseOutcome, FreezeOutcome, GrantedAll, HeldView, Inspected,
    Inspection, KeyDetails, KeyView, LeasePage, LeaseSet, LeaseState, LeaseTerms, LeaseView,
    Leases, LimitOutcome, RaiseFloorOutcome, ReleasedAll, RetryPolicy, UnfreezeOutcome, ViewUntil,
    WaiterView,
};
pub use outcomes::{
    Acquired, Contention, Deadline, Ended, Extended, GrantKind, Granted, HeldLease, HeldUntil,
    Lease, LeaseStatus, LifetimeKind, Previous, ReleaseOutcome, Released, Retry,
};
pub use pagination::{Cursor, PageSize};
pub use pool::Pool;
pub use queue::{
    Answer, Begun, Call, Delivery, Engine, Execution, Failure, IfHeld, Outcome, Question, Queue,
    Queued, Reaped, Receipt, Redrives, Stands, Start, Started, StopFor, SweepBounds, Swept,
};
pub use requests::{Acquire, AcquireAll, ExtendOptions, Lifetime, Wait};
pub use row::{Act, Limit, Record};
pub use rules::TableRules;
pub use settings::{Environment, Settings};
pub use start::{
    ExecutionInput, ExecutionName, PassLease, ResultItem, ResultTo, StartItem, StartRules,
    StartStatus, StateMachineArn,
};
pub use store::{Connection, DynamoDb, Memory};
pub use values::{
    AtLeast, BadValue, CallbackId, Caller, Counter, Holder, KeepTime, Key, Keys, KeysDigest,
    LeaseId, LimitedTo, Metadata, ObservedVersion, Operator, Permit, Permits, Reason,
    RequestDigest, RequestId, TaskToken, Ttl, WaitTime,
};
