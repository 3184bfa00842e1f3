//! What the library does, case by case, on a table in memory: each case is a test with a table of its own.
#![allow(missing_docs)]

use std::{future::Future, sync::Arc, time::Duration};

use leasehold::{
    Acquire, Acquired, Clock as _, Contention, Counter, Error, ExtendOptions, Extended, Granted,
    Inspected, Inspection, Key, Lease, Leases, ManualClock, Memory, Queue, ReleaseOutcome,
    Settings, SweepBounds, Swept, Timestamp,
    metrics::{self, Metric},
    row::{Item, Row, Stored},
    store::{Address, AttributeValue, Operations as _, Store},
    test_support::{FakeStepFunctions, Late, Lost, StartFate, grant, invalid, make},
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
struct Case {
    table: Memory,
    clock: Arc<ManualClock>,
    leases: Queue<Memory>,
    address: Address,
}

impl Case {
    fn new(key: &str) -> Self {
        Self::on(Memory::new(), key)
    }

    /// A key of this table.
    fn on(table: Memory, key: &str) -> Self {
        let clock = make::clock();
        let leases = Leases::new(table.clone(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(Arc::new(FakeStepFunctions::default()));
        Self {
            table,
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

    fn delete(&self) {
        self.table.delete(&self.address);
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
    fn elsewhere(&self, clock: &Arc<ManualClock>) -> Queue<Memory> {
        self.leases.clone().with_clock(clock.clone())
    }

    /// Changes the stored item without the library.
    async fn tamper(&self, change: impl FnOnce(&mut Item)) {
        let mut item = self.row().await.to_item();
        change(&mut item);
        self.table.put(self.address.clone(), &item);
    }

    async fn freeze(&self) {
        self.tamper(|item| {
            item.insert("frozen".into(), s("by an operator"));
        })
        .await;
    }
}
