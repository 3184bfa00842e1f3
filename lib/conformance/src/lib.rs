//! A suite that every store has to pass: run [`all`] on your own bench, as the memory store does on its own
//! ([`Bench`] for [`Memory`]).
//!
//! ```no_run
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(
//! leasehold_conformance::all(&leasehold::Memory::new())
//! # );
//! ```
//!
//! The cases use [`FakeStepFunctions`], and so may your own tests:
//!
//! ```
//! use std::sync::Arc;
//! use leasehold::{Leases, Memory, Settings};
//! use leasehold_conformance::FakeStepFunctions;
//!
//! let fake = Arc::new(FakeStepFunctions::default());
//! let leases = Leases::new(Memory::new(), Settings::default()).with_engine(fake.clone());
//! // ... acquire with a task token, release what is in the way ...
//! # drop(leases);
//! assert_eq!(fake.take_answers(), []);
//! ```

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use leasehold::{
    Acquire, Acquired, Clock as _, Contention, Counter, Error, ExtendOptions, Extended, Granted,
    Inspected, Inspection, Key, Lease, Leases, ManualClock, Queue, ReleaseOutcome, Settings,
    SweepBounds, Swept, Timestamp,
    metrics::{self, Metric},
    row::{Item, Row, Stored},
    store::{Address, AttributeValue, Memory, Operations, Store},
    test_support::{grant, invalid, make},
};

/// What `work` comes to, and how much it counts of this metric.
async fn counted<T>(metric: Metric, work: impl Future<Output = T>) -> (T, u64) {
    let (done, counts) = metrics::counted(work).await;
    let of_metric = counts.values().filter(|(of, _)| *of == metric);
    (done, of_metric.map(|(_, n)| n).sum())
}

/// Asserts that a result is this error.
macro_rules! refused {
    ($answer:expr, $error:ident) => {{
        let answer = $answer;
        assert!(
            matches!(answer, Err(leasehold::Error::$error { .. })),
            "{answer:?}"
        );
    }};
}

mod accepted_starts;
mod acquiring;
mod execution_leases;
mod extending;
mod floors;
mod hand_over;
mod handles;
mod limits;
mod newest;
mod notification;
mod observing;
mod operating;
mod pace;
mod permit_queue;
mod pools;
mod queue;
mod queue_maintenance;
mod reaping;
mod redriven;
mod release;
mod results;
mod rules;
mod semaphores;
mod sets;
mod starts;
mod strangers;
mod waiting;

#[doc(inline)]
pub use leasehold::test_support::{FakeStepFunctions, Late, Lost, StartFate, TaskAnswer};

/// A store to be tested, and the acts of another writer on its table.
pub trait Bench {
    /// The store.
    type Store: Store + 'static;

    /// The store, on the same table each time.
    fn store(&self) -> Self::Store;

    /// Stores an item without the library. `pk` and `sk` follow from the address.
    fn put(&self, address: &Address, item: Item) -> impl Future<Output = ()>;

    /// Deletes a row without the library.
    fn delete(&self, address: &Address) -> impl Future<Output = ()>;
}

impl Bench for Memory {
    type Store = Self;

    fn store(&self) -> Self {
        self.clone()
    }

    async fn put(&self, address: &Address, item: Item) {
        Self::put(self, address.clone(), &item);
    }

    async fn delete(&self, address: &Address) {
        Self::delete(self, address);
    }
}

/// Runs the whole suite. Every case has keys of its own, but the cases with a sweep need a table that nobody else
/// uses.
///
/// # Panics
/// If the store fails a case.
pub async fn all<B: Bench>(bench: &B) {
    apart(|| acquiring::all(bench)).await;
    apart(|| extending::all(bench)).await;
    apart(|| release::all(bench)).await;
    // From here on the table contains items that are not ours, which sweep would count.
    apart(|| observing::all(bench)).await;
    apart(|| semaphores::all(bench)).await;
    apart(|| sets::all(bench)).await;
    apart(|| handles::all(bench)).await;
    apart(|| operating::all(bench)).await;
    // Before the others that leave executions behind, at which sweep looks.
    apart(|| execution_leases::all(bench)).await;
    apart(|| floors::all(bench)).await;
    apart(|| waiting::all(bench)).await;
    apart(|| hand_over::all(bench)).await;
    apart(|| notification::all(bench)).await;
    apart(|| newest::all(bench)).await;
    apart(|| permit_queue::all(bench)).await;
    apart(|| limits::all(bench)).await;
    apart(|| pace::all(bench)).await;
    apart(|| queue_maintenance::all(bench)).await;
    apart(|| reaping::all(bench)).await;
    apart(|| starts::all(bench)).await;
    apart(|| accepted_starts::all(bench)).await;
    apart(|| pools::all(bench)).await;
    apart(|| results::all(bench)).await;
    apart(|| redriven::all(bench)).await;
    apart(|| strangers::all(bench)).await;
    // From here on the table has rules.
    apart(|| rules::all(bench)).await;
}

/// A future made on the heap: without it, that of all cases would fill the stack of a test.
fn apart<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

const TTL: Duration = Duration::from_mins(1);
const MS: Duration = Duration::from_millis(1);
/// The default clock margin.
const MARGIN: Duration = Duration::from_secs(2);
/// The time limit of a call of the store.
const LIMIT: Duration = Duration::from_secs(1);
/// How old a response of Step Functions may be.
const STALE: Duration = Duration::from_secs(30);

const UNEXPIRED: ExtendOptions = ExtendOptions {
    ttl: None,
    require_unexpired: true,
};

/// The value after a change: literals of types that may gain fields are the library's alone.
fn with<T>(mut value: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut value);
    value
}

/// The counter so much higher.
fn plus(counter: Counter, step: u64) -> Counter {
    Counter::new(counter.get() + step).expect("a valid counter")
}

/// The row of a mutex.
fn first(key: &Key) -> Address {
    let key = key.clone();
    Address { key, permit: 0 }
}

/// Of a stored item.
fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// The contention that this request meets.
async fn contention<S: Store>(leases: &Leases<S>, request: Acquire) -> Contention {
    match leases.acquire(request).await.expect("an answer") {
        Acquired::Held(contention) => contention,
        Acquired::Granted(granted) => panic!("it was granted: {granted:?}"),
    }
}

/// One key, a clock that moves only on request, and the usual calls.
struct Case<'a, B: Bench> {
    bench: &'a B,
    clock: Arc<ManualClock>,
    leases: Queue<B::Store>,
    address: Address,
}

impl<'a, B: Bench> Case<'a, B> {
    fn new(bench: &'a B, key: &str) -> Self {
        let clock = make::clock();
        let leases = Leases::new(bench.store(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(Arc::new(FakeStepFunctions::default()));
        Self {
            bench,
            clock,
            leases,
            address: first(&make::key(key)),
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn pass(&self, length: Duration) {
        self.clock.advance(length);
    }

    /// Advances past the deadline of a lease that is granted now, and past the margin.
    fn expire(&self) {
        self.pass(TTL + MARGIN);
    }

    fn request(&self, holder: &str, request_id: &str) -> Acquire {
        make::request(self.address.key.clone(), holder, TTL)
            .request_id(make::request_id(request_id))
    }

    async fn ask(&self, holder: &str, request_id: &str) -> Result<Acquired, Error> {
        self.leases.acquire(self.request(holder, request_id)).await
    }

    async fn grant(&self, holder: &str, request_id: &str) -> Granted {
        grant(&self.leases, self.request(holder, request_id)).await
    }

    async fn lease(&self, holder: &str) -> Lease {
        self.grant(holder, &format!("by {holder}")).await.lease
    }

    async fn contention(&self, holder: &str) -> Contention {
        contention(&self.leases, self.request(holder, &format!("by {holder}"))).await
    }

    async fn give_back(&self, lease: &Lease) -> ReleaseOutcome {
        let released = self.leases.release(lease).await;
        released.expect("an answer").outcome
    }

    /// An extend by the lease's own ttl.
    async fn extension(&self, lease: &Lease) -> Result<Extended, Error> {
        self.leases.extend(lease, ExtendOptions::default()).await
    }

    /// The lease after an extend by its own ttl.
    async fn extended(&self, lease: &Lease) -> Lease {
        self.extension(lease).await.expect("extended").into_lease()
    }

    async fn swept(&self) -> Swept {
        let swept = self.leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept")
    }

    /// A sweep that does not leave what was granted just now to the process that granted it.
    async fn swept_later(&self) -> Swept {
        self.pass(Settings::default().first_call);
        self.swept().await
    }

    /// What inspect returns for the key: the first row, and for a semaphore all permits.
    async fn inspected(&self) -> (Inspection, Vec<Inspection>) {
        match self.leases.inspect(&self.address.key).await {
            Ok(Inspected::Found { first, permits }) => (first, permits),
            other => panic!("nothing was found: {other:?}"),
        }
    }

    async fn delete(&self) {
        self.bench.delete(&self.address).await;
    }

    async fn freeze_by_operator(&self) {
        let frozen = self
            .leases
            .freeze(&self.address.key, &make::because())
            .await;
        frozen.expect("frozen");
    }

    async fn unfreeze_by_operator(&self) {
        let unfrozen = self
            .leases
            .unfreeze(&self.address.key, &make::because())
            .await;
        unfrozen.expect("unfrozen");
    }

    async fn row(&self) -> Row {
        self.row_of(self.address.permit).await
    }

    async fn row_of(&self, permit: u16) -> Row {
        let address = Address {
            permit,
            ..self.address.clone()
        };
        match self.leases.store().read_row(&address, LIMIT).await {
            Ok(Stored::Row(row)) => row,
            other => panic!("no row but {other:?}"),
        }
    }

    /// Another process, with a clock of its own.
    fn elsewhere(&self, clock: &Arc<ManualClock>) -> Queue<B::Store> {
        self.leases.clone().with_clock(clock.clone())
    }

    /// Changes the stored item without the library.
    async fn tamper(&self, change: impl FnOnce(&mut Item)) {
        let mut item = self.row().await.to_item();
        change(&mut item);
        self.bench.put(&self.address, item).await;
    }

    async fn freeze(&self) {
        self.tamper(|item| {
            item.insert("frozen".into(), s("by an operator"));
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::all;
    use leasehold::Memory;

    #[tokio::test]
    async fn the_memory_store_conforms() {
        Box::pin(all(&Memory::new())).await;
    }
}
