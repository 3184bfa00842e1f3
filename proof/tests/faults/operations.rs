//! The three operations to which every fault is done, each ready to be called again with the very same arguments.

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use leasehold::{
    Acquired, Clock as _, DynamoDb, Error, ExtendOptions, Extended, GrantKind, Lease, Leases,
    ManualClock, ReleaseOutcome, Settings, Timestamp,
};
use tokio::task::JoinSet;

use leasehold_proof::fixture::{Table, request};

pub const KEY: &str = "orders/42";
pub const TTL: Duration = Duration::from_mins(1);
pub const UPDATE: &str = "UpdateItem";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Acquire,
    Extend,
    Release,
}

/// What an operation brought.
#[derive(Debug)]
pub enum Outcome {
    Granted(GrantKind, Lease),
    Held,
    Extended(Lease),
    Revived,
    Released(ReleaseOutcome),
}

/// A table, a clock that does not move, and the arguments of one call.
pub struct Scenario {
    pub table: Table,
    pub clock: Arc<ManualClock>,
    pub leases: Leases<DynamoDb>,
    pub operation: Operation,
    /// What was granted before, if the call is one of a holder.
    pub lease: Option<Lease>,
}

impl Operation {
    pub const ALL: [Self; 3] = [Self::Acquire, Self::Extend, Self::Release];
}

impl Scenario {
    /// A key that is free for an acquire; else `a` holds it, since a second ago.
    pub async fn of(operation: Operation) -> Self {
        let table = Table::start().await;
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let leases = table.leases().with_clock(clock.clone());
        let mut scenario = Self {
            table,
            clock,
            leases,
            operation: Operation::Acquire,
            lease: None,
        };
        if operation != Operation::Acquire {
            scenario.lease = Some(scenario.granted("a", "1").await);
            scenario.operation = operation;
        }
        scenario.clock.advance(Duration::from_secs(1));
        scenario.table.proxy.reset();
        scenario
    }

    /// Calls it, again if it was called before.
    pub async fn call(&self) -> Result<Outcome, Error> {
        match (self.operation, &self.lease) {
            (Operation::Extend, Some(lease)) => {
                let extended = self.leases.extend(lease, ExtendOptions::default()).await?;
                Ok(match extended {
                    Extended::Extended { lease } => Outcome::Extended(lease),
                    Extended::Revived { .. } => Outcome::Revived,
                })
            }
            (Operation::Release, Some(lease)) => {
                let released = self.leases.release(lease).await?;
                Ok(Outcome::Released(released.outcome))
            }
            _ => match self.leases.acquire(request(KEY, "a", "1")).await? {
                Acquired::Granted(granted) => Ok(Outcome::Granted(granted.grant, granted.lease)),
                Acquired::Held(_) => Ok(Outcome::Held),
            },
        }
    }

    /// Somebody asks, and gets it.
    pub async fn granted(&self, holder: &str, id: &str) -> Lease {
        let acquired = self.leases.acquire(request(KEY, holder, id)).await;
        acquired.unwrap().granted().unwrap().lease
    }

    /// Past every deadline, and past the margin.
    pub fn expire(&self) {
        self.clock.advance(TTL + Settings::default().clock_margin);
    }

    /// The requests since the last look, all of them updates.
    pub fn requests(&self) -> u64 {
        let counts = self.table.proxy.counts();
        assert_eq!(counts.total(), counts.of(UPDATE), "nothing but updates");
        self.table.proxy.reset();
        counts.total()
    }

    /// What the handle says is what the table says.
    pub async fn matches_table(&self, lease: &Lease) {
        let row = self.table.row(KEY).await;
        assert_eq!(row.fencing_token, lease.fencing_token);
        let held = row.holding().expect("held");
        assert_eq!(
            (&held.lease_id, held.expires_at()),
            (&lease.lease_id, lease.expires_at())
        );
    }

    /// The deadline that a whole ttl from now makes.
    pub fn renewed(&self) -> Timestamp {
        self.clock.now().plus(TTL)
    }
}

/// Every operation of `operations` under every fault of `faults`, side by side, each with a table of its own.
pub async fn each<F, T>(faults: &[F], operations: &[Operation], check: impl Fn(F, Scenario) -> T)
where
    F: Copy + Debug,
    T: Future<Output = ()> + Send + 'static,
{
    let mut checks = JoinSet::new();
    for &fault in faults {
        for &operation in operations {
            checks.spawn(check(fault, Scenario::of(operation).await));
        }
    }
    while let Some(checked) = checks.join_next().await {
        checked.unwrap();
    }
}
