//! What operations cost beside a few free rows and beside a million: the same.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{ExtendOptions, Inspected, Lease, Reaped, SweepBounds, Swept};
use serde::Serialize;

use super::cost::Cost;
use super::field::{Doing, Field, TABLE, ask, execution, failed, free, key};
use crate::Error;

/// What is in use in the table, whatever else there is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InUse {
    /// Leases that are held and for which nobody waits, the first [`FLEET`] of them by one holder.
    pub held: u64,
    /// Keys with a line; each is held too.
    pub lines: u64,
    /// How many wait in each.
    pub waiting: u64,
}

/// How many leases one holder has that is looked up and reaped.
pub const FLEET: u64 = 10;

impl InUse {
    /// A thousand leases that are held, a thousand who wait.
    pub const THOUSAND: Self = Self {
        held: 1000,
        lines: 8,
        waiting: 125,
    };
}

/// One operation beside so many rows.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// What was done.
    pub what: &'static str,
    /// What it came to.
    pub cost: Cost,
}

/// Everything beside so many rows.
#[derive(Clone, Debug, Serialize)]
pub struct Rows {
    /// Free rows in the table.
    pub free: u64,
    /// What is in use beside them.
    pub in_use: InUse,
    /// How long it took to put them there. A time of this machine, for who waits.
    pub filled_in_seconds: f64,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// What a client needs that looks for what has expired by a scan of the whole table.
    pub scan: Cost,
}

impl Rows {
    /// The step of that name.
    #[must_use]
    pub fn step(&self, what: &str) -> Option<&Cost> {
        let mut steps = self.steps.iter();
        steps.find(|step| step.what == what).map(|step| &step.cost)
    }
}

/// The sweep of every minute: everything is in time.
pub const SWEEP: &str = "sweep, nothing over";

/// Puts so many free rows into a new table, what is in use beside them, and goes through the operations.
///
/// # Errors
/// [`Error`] when the database refuses, or an operation does not do what it is to.
pub async fn measure(rows: u64, in_use: InUse) -> Result<Rows, Error> {
    let field = Field::empty().await?;
    let began = Instant::now();
    field.fill(rows).await?;
    let filled_in_seconds = crate::rounded(began.elapsed().as_secs_f64());
    let mut leases = Vec::new();
    for n in 0..in_use.held {
        leases.push(field.grant(&held_key(n), &holder(n)).await?);
    }
    for line in 0..in_use.lines {
        let key = format!("line/{line:04}");
        leases.push(field.grant(&key, "first").await?);
        for n in 0..in_use.waiting {
            let waiter = format!("waiter/{line:04}/{n:04}");
            field.join(&key, &waiter, 10 * HOUR).await?;
        }
    }
    let mut walk = Walk {
        field: &field,
        in_use,
        leases,
        steps: Vec::new(),
    };
    walk.life(["acquire, new key", "extend", "release"], "new")
        .await?;
    // The row in the middle, which was never touched since it was put there.
    let again = ["acquire, key with a row", "extend again", "release again"];
    walk.life(again, &free(rows / 2)).await?;
    walk.looks().await?;
    let scan = field.cost(scan(&field, in_use)).await?.1;
    walk.clean_up().await?;
    Ok(Rows {
        free: rows,
        in_use,
        filled_in_seconds,
        steps: walk.steps,
        scan,
    })
}

const HOUR: Duration = Duration::from_hours(1);
/// Who has several leases.
const BUSY: &str = "fleet";

fn held_key(n: u64) -> String {
    format!("held/{n:04}")
}

fn holder(n: u64) -> String {
    if n < FLEET {
        BUSY.to_owned()
    } else {
        format!("holder/{n:04}")
    }
}

struct Walk<'a> {
    field: &'a Field,
    in_use: InUse,
    /// What is held.
    leases: Vec<Lease>,
    steps: Vec<Step>,
}

impl Walk<'_> {
    async fn step<T>(
        &mut self,
        what: &'static str,
        doing: Doing<'_, (T, Cost)>,
    ) -> Result<T, Error> {
        let (done, cost) = doing.await?;
        self.steps.push(Step { what, cost });
        Ok(done)
    }

    /// The life of a lease.
    async fn life(&mut self, names: [&'static str; 3], key: &str) -> Result<(), Error> {
        let leases = &self.field.leases;
        let [acquire, extend, release] = names;
        let lease = self
            .step(acquire, self.field.cost(self.field.grant(key, "one")))
            .await?;
        let extending = async {
            let extended = leases.extend(&lease, ExtendOptions::default()).await;
            Ok(extended.map_err(failed("extend"))?.into_lease())
        };
        let lease = self.step(extend, self.field.cost(extending)).await?;
        let releasing = async {
            let released = leases.release_strictly(&lease).await;
            released.map_err(failed("release"))
        };
        let _ = self.step(release, self.field.cost(releasing)).await?;
        Ok(())
    }

    /// What only reads.
    async fn looks(&mut self) -> Result<(), Error> {
        let leases = &self.field.leases;
        let one = key(&held_key(0))?;
        let inspecting = async { leases.inspect(&one).await.map_err(failed("inspect")) };
        match self
            .step("inspect a key", self.field.cost(inspecting))
            .await?
        {
            Inspected::Found { .. } => {}
            Inspected::Absent => return Err(failed("inspect")("the key is not there")),
        }
        let busy = execution(BUSY)?;
        let theirs = async {
            let theirs = leases.held_by(&busy, 1000, None).await;
            Ok(theirs.map_err(failed("look a holder up"))?.leases.len())
        };
        let found = self
            .step("inspect a holder of ten", self.field.cost(theirs))
            .await?;
        same("leases of a holder", found, self.in_use.held.min(FLEET))?;
        let everything = async {
            let mut listed = 0;
            let mut cursor = None;
            loop {
                let page = leases.list(100, cursor).await.map_err(failed("list"))?;
                listed += page.leases.len();
                cursor = page.cursor;
                if cursor.is_none() {
                    return Ok(listed);
                }
            }
        };
        let found = self
            .step("inspect everything held", self.field.cost(everything))
            .await?;
        same("leases in all", found, self.in_use.held + self.in_use.lines)
    }

    /// What frees.
    async fn clean_up(&mut self) -> Result<(), Error> {
        let InUse {
            held,
            lines,
            waiting,
        } = self.in_use;
        let all = held + lines + lines * waiting;
        let swept = self.sweep(SWEEP).await?;
        same("examined by a sweep", swept.examined, all)?;
        same("freed by a sweep", swept.freed, 0_u64)?;

        let busy = execution(BUSY)?;
        self.field
            .calls
            .set_execution(busy.as_str(), crate::site::ENDED);
        let leases = &self.field.leases;
        let reaping = async {
            let reaped = leases.reap(&busy).await;
            reaped.map_err(failed("reap"))
        };
        let theirs = held.min(FLEET);
        match self
            .step("reap a holder of ten", self.field.cost(reaping))
            .await?
        {
            Reaped::Reaped { released, .. } => same("leases reaped", released, theirs)?,
            Reaped::Running => return Err(failed("reap")("it is said to run")),
        }
        self.leases.retain(|lease| lease.holder != busy);
        for n in 0..theirs {
            let request = ask(&held_key(n), BUSY)?;
            // The one before is over, and a request is not granted twice.
            let again = leasehold::RequestId::new("again").map_err(failed("name a request"))?;
            let acquired = leases.acquire(request.request_id(again)).await;
            let granted = acquired.and_then(leasehold::Acquired::granted);
            self.leases.push(granted.map_err(failed("acquire"))?.lease);
        }

        // An extend leaves the index alone, so that sweep has to read each row of which the first deadline is over.
        self.field.clock.advance(HOUR / 2);
        for lease in &self.leases {
            let extended = leases.extend(lease, ExtendOptions::default()).await;
            let _ = extended.map_err(failed("extend"))?;
        }
        self.field.clock.advance(HOUR * 3 / 4);
        let swept = self.sweep("sweep, all extended").await?;
        same("freed by a sweep", swept.freed, 0_u64)?;

        // The leases of an hour are over, those in line go on waiting.
        self.field.clock.advance(2 * HOUR);
        let swept = self.sweep("sweep, all leases over").await?;
        same("freed by a sweep", swept.freed, held + lines)?;
        same("told by a sweep", swept.granted, lines)?;
        self.field.clock.advance(20 * HOUR);
        self.sweep("sweep, all waits over").await?;
        // Whoever was told that its turn had come is told again, and then passed over.
        for what in ["sweep, told in vain", "sweep, told in vain again"] {
            self.field.clock.advance(HOUR);
            self.sweep(what).await?;
        }
        let swept = self.sweep("sweep, nothing held").await?;
        same("left", swept.examined, 0_u64)
    }

    async fn sweep(&mut self, what: &'static str) -> Result<Swept, Error> {
        let leases = &self.field.leases;
        let sweeping = async {
            let swept = leases.sweep(SweepBounds::Schedule).await;
            swept.map_err(failed("sweep"))
        };
        self.step(what, self.field.cost(sweeping)).await
    }
}

/// Looks at every row of the table for leases that are held and over, as who has no index has to. It gives the reader
/// what it needs and no more, and does not free anything.
async fn scan(field: &Field, in_use: InUse) -> Result<(), Error> {
    let over = AttributeValue::N(field.leases.now().plus(2 * HOUR).as_millis().to_string());
    let mut found = 0;
    let mut from: Option<HashMap<String, AttributeValue>> = None;
    loop {
        let page = field
            .client
            .scan()
            .table_name(TABLE)
            .filter_expression("attribute_exists(#holder) AND #expires_at < :over")
            .expression_attribute_names("#holder", "holder")
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":over", over.clone())
            .projection_expression("pk, sk")
            // More than the megabyte of a page has. Without it the embedded database reads all that is left, each time.
            .limit(10_000)
            .set_exclusive_start_key(from)
            .send()
            .await;
        let page = page.map_err(|error| failed("scan")(error.into_service_error()))?;
        found += page.items().len();
        from = page.last_evaluated_key;
        if from.is_none() {
            return same("found by the scan", found, in_use.held + in_use.lines);
        }
    }
}

/// Counts that say that an operation has done what it is to.
fn same<A: TryInto<u64>>(
    what: &'static str,
    found: A,
    wanted: impl Into<u64>,
) -> Result<(), Error> {
    let (found, wanted) = (found.try_into().unwrap_or(u64::MAX), wanted.into());
    if found == wanted {
        return Ok(());
    }
    Err(failed("go on")(format!(
        "{what}: {found} instead of {wanted}"
    )))
}
