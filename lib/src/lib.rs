//! Leases in DynamoDB for processes that do not live long: Lambda functions and Step Functions
//! workflows.
//!
//! A lease makes one holder alone with a key until a deadline. What it hands out is plain data, the
//! [`Lease`]: any later process may extend or release with it. Nothing runs in the background and
//! nothing happens on drop; a holder extends by an explicit call, each one conditional write.
//!
//! # What it promises, and what no lease can
//!
//! While clocks differ by less than half of [`Settings::clock_margin`], at most one holder at a
//! time believes that it holds a key. A holder that was paused may wake up after its lease is over
//! and go on writing. No lock service can prevent that; the *resource* can, by remembering the
//! largest [`Lease::fencing_token`] and refusing smaller ones. Tokens of a key rise from grant to
//! grant: through release, expiry, purge, and deletion of the row.
//!
//! # Cookbook
//!
//! ## Be alone with something
//!
//! Work only until [`Lease::safe_until`]; extend before the lease is in danger; release at the end.
//!
//! ```
//! use leasehold::*;
//!
//! # async fn work() {}
//! async fn alone<S: store::Store>(leases: &Leases<S>) -> Result<(), Error> {
//!     let ttl = Ttl::new(std::time::Duration::from_secs(60)).expect("within 1 to 86400 s");
//!     let key = Key::new("orders/42").expect("a valid key");
//!     let me = Holder::new("worker 7").expect("a valid holder");
//!
//!     let mut lease = match leases.acquire(Acquire::new(key, me, ttl)).await? {
//!         Acquired::Granted(granted) => granted.lease,
//!         Acquired::Held(contention) => {
//!             println!("{} has it; ask again at {}", contention.held.holder, contention.retry_at);
//!             return Ok(());
//!         }
//!     };
//!     work().await;
//!     if leases.standing(&lease) != Standing::Safe {
//!         // An error here means: stop. Error::Lost, because somebody else may be at work.
//!         lease = leases.extend(&lease, ExtendOptions::default()).await?.into_lease();
//!     }
//!     work().await;
//!     leases.release(&lease).await?;
//!     Ok(())
//! }
//! # let leases = Leases::new(Memory::new(), Settings::default());
//! # tokio::runtime::Builder::new_current_thread().build().unwrap()
//! #     .block_on(alone(&leases)).unwrap();
//! ```
//!
//! ## Connect to a table
//!
//! [`Connection`] pins time limits and retries, which the SDK leaves open. [`table::create`] makes
//! a table, [`table::check`] tells whether one fits.
//!
//! ```no_run
//! use leasehold::{Connection, DynamoDb, Leases, Settings, table};
//!
//! # async fn example() -> Result<(), leasehold::Error> {
//! let client = Connection::from_env().await; // Region, credentials, AWS_ENDPOINT_URL_DYNAMODB
//! table::check(&client, "leases").await?;
//! let leases = Leases::new(DynamoDb::new(client, "leases"), Settings::default());
//! # Ok(())
//! # }
//! ```
//!
//! ## Survive a lost answer
//!
//! Name the acquire. With the same holder and request id it brings the same lease, however often
//! it is sent; once that lease is over, [`Error::Consumed`] and never a second grant.
//!
//! ```
//! use leasehold::*;
//!
//! # async fn example(leases: &Leases<Memory>) -> Result<(), Box<dyn std::error::Error>> {
//! let acquire = Acquire::new(
//!     Key::new("orders/42")?,
//!     Holder::new("worker 7")?,
//!     Ttl::new(std::time::Duration::from_secs(60))?,
//! )
//! .request_id(RequestId::new("import of 2026-11-21")?);
//! let first = leases.acquire(acquire.clone()).await?.granted()?;
//! let again = leases.acquire(acquire).await?.granted()?;
//! assert_eq!((again.lease, again.grant), (first.lease, GrantKind::Replayed));
//! # Ok(())
//! # }
//! # let leases = Leases::new(Memory::new(), Settings::default());
//! # tokio::runtime::Builder::new_current_thread().build().unwrap()
//! #     .block_on(example(&leases)).unwrap();
//! ```
//!
//! ## Wait for a lease
//!
//! Where waiting costs nothing, which is not in a Lambda function: [`Leases::acquire_within`] asks
//! until a budget runs out, and then tells who held the key last.
//!
//! ```
//! # use std::time::Duration;
//! # use leasehold::*;
//! # async fn example(leases: &Leases<Memory>, acquire: Acquire) -> Result<(), Error> {
//! match leases.acquire_within(acquire, Patience::of(Duration::from_secs(30))).await? {
//!     Waited::Granted(granted) => println!("token {}", granted.lease.fencing_token),
//!     Waited::TimedOut(last) => println!("{} still has it", last.held.holder),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ## Hand a lease to another process
//!
//! It is JSON. It is also the power to end the lease: keep it out of logs (`Debug` leaves the
//! secret out, serialization does not).
//!
//! ```
//! # use leasehold::*;
//! # async fn example(leases: &Leases<Memory>) -> Result<(), Box<dyn std::error::Error>> {
//! # let ttl = Ttl::new(std::time::Duration::from_secs(60))?;
//! # let acquire = Acquire::new(Key::new("k")?, Holder::new("h")?, ttl);
//! # let lease = leases.acquire(acquire).await?.granted()?.lease;
//! let text = serde_json::to_string(&lease)?;
//! // … elsewhere, later …
//! let lease: Lease = serde_json::from_str(&text)?;
//! assert_eq!(leases.release(&lease).await?.outcome, ReleaseOutcome::Released);
//! # Ok(())
//! # }
//! # let leases = Leases::new(Memory::new(), Settings::default());
//! # tokio::runtime::Builder::new_current_thread().build().unwrap()
//! #     .block_on(example(&leases)).unwrap();
//! ```
//!
//! ## Guard a write
//!
//! [`fence::condition`] guards one item by its largest token; [`Lease::condition_check`] guards a
//! transaction by the lease itself. Either stops a holder that wakes up late.
//!
//! ## Repair what a crashed holder left behind
//!
//! [`Granted::previous`] says how the grant before ended; [`Ended::Expired`] means that nobody
//! released it. Branch on it rather than on [`Granted::grant`]: after a lost answer that says
//! `Replayed`.
//!
//! ## Test without a table, and without waiting
//!
//! [`Memory`] is a table, [`ManualClock`] a clock that you move.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use leasehold::*;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
//! let leases = Leases::new(Memory::new(), Settings::default()).with_clock(clock.clone());
//! let ttl = Ttl::new(Duration::from_secs(60))?;
//! let ask = |who: &str| Ok::<_, BadValue>(Acquire::new(Key::new("k")?, Holder::new(who)?, ttl));
//! let crashed = leases.acquire(ask("a")?).await?.granted()?.lease;
//! clock.advance(Duration::from_secs(62)); // the ttl and the margin
//! let next = leases.acquire(ask("b")?).await?.granted()?;
//! assert_eq!(next.grant, GrantKind::Takeover);
//! assert!(next.lease.fencing_token > crashed.fencing_token);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap()
//! #     .block_on(example()).unwrap();
//! ```
//!
//! ## Write a handler, or another store
//!
//! `leasehold::lambda::serve` (feature `lambda`) is all that a handler's `main` needs. A store of
//! your own implements [`store::Store`] and has to pass the suite in `conformance` (feature
//! `conformance`).

mod acquire;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod fence;
mod inspect;
#[cfg(feature = "lambda")]
mod json;
#[cfg(feature = "lambda")]
pub mod lambda;
mod leases;
mod operate;
mod outcomes;
mod patience;
mod record;
mod requests;
pub mod row;
mod sets;
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
pub use leases::Leases;
pub use operate::{Because, Forced, Freeze, Raised, Unfreeze};
pub use outcomes::{
    Acquired, Contention, Ended, Extended, GrantKind, Granted, HeldLease, Lease, Previous,
    ReleaseOutcome, Released, Standing,
};
pub use patience::{Patience, Waited};
pub use record::{Act, Record};
pub use requests::{Acquire, AcquireAll, ExtendOptions};
pub use sets::{AcquiredAll, ExtendOutcome, ExtendedAll, GrantedAll, LeaseSet, ReleasedAll};
pub use settings::{Environment, Settings};
pub use store::{Connection, DynamoDb, Memory};
pub use sweep::{SweepBounds, Swept};
pub use values::{
    BadValue, Counter, Holder, Key, Keys, LeaseId, Metadata, ObservedVersion, Operator, Permits,
    Reason, RequestDigest, RequestId, Ttl,
};
pub use walk::{Cursor, PageSize};
