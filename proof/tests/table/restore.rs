//! The way back after a restore, as docs/operate/incidents.md has it: with all of its steps tokens keep their order and no two
//! holders believe at once, and without any one of them this fails.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{
    Acquire, Acquired, Clock as _, Counter, DynamoDb, Error, ExtendOptions, Lease, Leases,
    ManualClock, Settings, SweepBounds, TableRules, Timestamp, table,
};
use leasehold_proof::fixture::{Table, request, without_executions};

const OLD: &str = "old";
const NEW: &str = "restored";
const KEY: &str = "orders/42";

/// A step of the runbook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Stop the grants of the old table, and leave them stopped.
    Stop,
    /// Raise the floor of the restored table.
    Floor,
    /// Wait until nothing is held in the old table.
    Wait,
}

/// One grant, and until when its holder believes in it.
struct Believed {
    token: Counter,
    from: Timestamp,
    until: Timestamp,
}

struct Rehearsal {
    table: Table,
    clock: Arc<ManualClock>,
    grants: Vec<Believed>,
}

impl Rehearsal {
    async fn start() -> Self {
        let table = Table::without_table().await;
        for name in [OLD, NEW] {
            table::create(&table.client, name).await.unwrap();
        }
        Self {
            table,
            clock: Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000))),
            grants: Vec::new(),
        }
    }

    /// The stack, deployed with these settings on this table. Its sweep has run.
    async fn deploy(&self, name: &str, settings: Settings) -> Leases<DynamoDb> {
        let stack = self.on(name, settings);
        stack.publish_rules().await.unwrap();
        let _ = without_executions(&stack)
            .sweep(SweepBounds::Schedule)
            .await
            .unwrap();
        stack
    }

    fn on(&self, name: &str, settings: Settings) -> Leases<DynamoDb> {
        let store = DynamoDb::new(self.table.client.clone(), name);
        Leases::new(store, settings).with_clock(self.clock.clone())
    }

    /// A team's function or a program, which has no settings of its own.
    fn other(&self, name: &str) -> Leases<DynamoDb> {
        self.on(name, Settings::default()).with_table_rules()
    }

    fn pass(&self, length: Duration) {
        self.clock.advance(length);
    }

    async fn ask(&mut self, leases: &Leases<DynamoDb>, who: &str) -> Option<Lease> {
        let asked: Acquire = request(KEY, who, &format!("{}", self.clock.now()));
        let lease = match leases.acquire(asked).await {
            Ok(Acquired::Granted(granted)) => granted.lease,
            Ok(Acquired::Held(_)) | Err(Error::Frozen { .. }) => return None,
            Err(error) => panic!("{error:?}"),
        };
        self.grants.push(Believed {
            token: lease.fencing_token,
            from: self.clock.now(),
            until: lease.safe_until(),
        });
        Some(lease)
    }

    async fn extend(&mut self, leases: &Leases<DynamoDb>, lease: &Lease) {
        let extended = leases.extend(lease, ExtendOptions::default()).await;
        let lease = extended.unwrap().into_lease();
        let mut grants = self.grants.iter_mut();
        let grant = grants.find(|grant| grant.token == lease.fencing_token);
        grant.unwrap().until = lease.safe_until();
    }

    async fn release(&mut self, leases: &Leases<DynamoDb>, lease: &Lease) {
        let _ = leases.release(lease).await.unwrap();
        let now = self.clock.now();
        let mut grants = self.grants.iter_mut();
        let grant = grants.find(|grant| grant.token == lease.fencing_token);
        grant.unwrap().until = now;
    }

    /// The promises that were broken: S2 and S8.
    fn broken(&self) -> Vec<&'static str> {
        let mut broken = Vec::new();
        for pair in self.grants.windows(2) {
            let [before, after] = pair else { continue };
            if after.token <= before.token {
                broken.push("S2");
            }
            if after.from < before.until {
                broken.push("S8");
            }
        }
        broken
    }

    async fn copy(&self) -> Vec<leasehold::row::Item> {
        let scan = self
            .table
            .client
            .scan()
            .table_name(OLD)
            .consistent_read(true);
        scan.send().await.unwrap().items.unwrap_or_default()
    }
}

/// An accident, and the way back without one step. Returns the promises that were broken.
async fn rehearse(without: Option<Step>) -> Vec<&'static str> {
    let with = |step| without != Some(step);
    let mut world = Rehearsal::start().await;
    let stack = world.deploy(OLD, Settings::default()).await;
    let straggler = world.other(OLD);

    // At the moment of the backup somebody holds the key. The old table goes on.
    let held = world.ask(&stack, "at the backup").await.unwrap();
    let backup = world.copy().await;
    world.release(&stack, &held).await;
    for who in ["first", "second", "third"] {
        world.pass(Duration::from_secs(1));
        let lease = world.ask(&straggler, who).await.unwrap();
        world.release(&straggler, &lease).await;
    }
    world.pass(Duration::from_secs(1));
    let last = world.ask(&straggler, "last").await.unwrap();

    // Stop: it has reached everybody after two minutes. Extends go on.
    let mut stopped = Settings::default();
    stopped.stopped = true;
    let old = if with(Step::Stop) {
        world.deploy(OLD, stopped).await
    } else {
        stack
    };
    for _ in 0..4 {
        world.pass(Duration::from_secs(30));
        world.extend(&straggler, &last).await;
    }
    assert!(TableRules::READ_EVERY <= Duration::from_mins(1));

    // Wait until nothing is held in the old table.
    while with(Step::Wait) {
        let _ = without_executions(&old)
            .sweep(SweepBounds::Schedule)
            .await
            .unwrap();
        let listed = old.list(100, None).await.unwrap();
        if listed.leases.is_empty() {
            break;
        }
        world.pass(Duration::from_secs(10));
    }

    // Restore, adopt and raise the floor, with the grants stopped.
    for item in backup {
        let put = world.table.client.put_item().table_name(NEW);
        put.set_item(Some(item)).send().await.unwrap();
    }
    let mut settings = stopped;
    if with(Step::Floor) {
        settings.token_floor = Counter::new(world.clock.now().as_millis()).unwrap();
    }
    world.deploy(NEW, settings).await;
    let adopted = world.other(NEW);
    assert!(world.ask(&adopted, "too early").await.is_none());

    // Open. Somebody has not changed over to the new table.
    settings.stopped = false;
    world.deploy(NEW, settings).await;
    let adopted = world.other(NEW);
    let next = world.ask(&adopted, "after the restore").await;
    assert!(next.is_some());
    world.ask(&straggler, "on the old table").await;
    let mut broken = world.broken();
    broken.sort_unstable();
    broken.dedup();
    broken
}

#[tokio::test]
async fn restore_keeps_order_and_exclusion() {
    assert!(rehearse(None).await.is_empty());
}

#[tokio::test]
async fn skipping_restore_step_breaks_promise() {
    for (step, promise) in [(Step::Stop, "S8"), (Step::Floor, "S2"), (Step::Wait, "S8")] {
        let broken = rehearse(Some(step)).await;
        assert!(broken.contains(&promise), "{step:?}: {broken:?}");
    }
}
