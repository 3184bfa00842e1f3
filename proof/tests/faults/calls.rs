//! The three calls that everything here is done to, each ready to be made again with the very same arguments.

use std::{fmt::Debug, future::Future, sync::Arc, time::Duration};

use leasehold::{
    Acquired, Clock as _, DynamoDb, Error, ExtendOptions, Extended, GrantKind, Lease, Leases,
    ManualClock, ReleaseOutcome, Settings, Timestamp,
};
use tokio::task::JoinSet;

use crate::bench::{Table, request};

pub const KEY: &str = "orders/42";
pub const TTL: Duration = Duration::from_mins(1);
pub const UPDATE: &str = "UpdateItem";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Acquire,
    Extend,
    Release,
}

/// What a call brought.
#[derive(Debug)]
pub enum Told {
    Granted(GrantKind, Lease),
    Held,
    Extended(Lease),
    Revived,
    Released(ReleaseOutcome),
}

/// A table, a clock that stands still, and the arguments of one call.
pub struct Scene {
    pub table: Table,
    pub clock: Arc<ManualClock>,
    pub leases: Leases<DynamoDb>,
    pub call: Call,
    /// What was granted before, if the call is one of a holder.
    pub lease: Option<Lease>,
}

impl Call {
    pub const ALL: [Self; 3] = [Self::Acquire, Self::Extend, Self::Release];
}

impl Scene {
    /// A key that is free for an acquire; else `a` holds it, since a second ago.
    pub async fn of(call: Call) -> Self {
        let table = Table::start().await;
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let leases = table.leases().with_clock(clock.clone());
        let mut scene = Self {
            table,
            clock,
            leases,
            call: Call::Acquire,
            lease: None,
        };
        if call != Call::Acquire {
            scene.lease = Some(scene.granted("a", "1").await);
            scene.call = call;
        }
        scene.clock.advance(Duration::from_secs(1));
        scene.table.proxy.reset();
        scene
    }

    /// Makes the call, again if it was made before.
    pub async fn make(&self) -> Result<Told, Error> {
        match (self.call, &self.lease) {
            (Call::Extend, Some(lease)) => {
                let extended = self.leases.extend(lease, ExtendOptions::default()).await?;
                Ok(match extended {
                    Extended::Extended { lease } => Told::Extended(lease),
                    Extended::Revived { .. } => Told::Revived,
                })
            }
            (Call::Release, Some(lease)) => {
                let released = self.leases.release(lease).await?;
                Ok(Told::Released(released.outcome))
            }
            _ => match self.leases.acquire(request(KEY, "a", "1")).await? {
                Acquired::Granted(granted) => Ok(Told::Granted(granted.grant, granted.lease)),
                Acquired::Held(_) => Ok(Told::Held),
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
    pub async fn stands(&self, lease: &Lease) {
        let row = self.table.row(KEY).await;
        assert_eq!(row.fencing_token, lease.fencing_token);
        let held = row.holding().expect("held");
        assert_eq!(
            (&held.lease_id, held.expires_at),
            (&lease.lease_id, lease.expires_at)
        );
    }

    /// The deadline that a whole ttl from now makes.
    pub fn whole(&self) -> Timestamp {
        self.clock.now().plus(TTL)
    }
}

/// Every call of `calls` under every fault of `faults`, side by side, each with a table of its own.
pub async fn each<F, T>(faults: &[F], calls: &[Call], check: impl Fn(F, Scene) -> T)
where
    F: Copy + Debug,
    T: Future<Output = ()> + Send + 'static,
{
    let mut checks = JoinSet::new();
    for &fault in faults {
        for &call in calls {
            checks.spawn(check(fault, Scene::of(call).await));
        }
    }
    while let Some(checked) = checks.join_next().await {
        checked.unwrap();
    }
}
