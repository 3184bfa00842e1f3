//! What grows with the table and the line, and what does not; and how many waiters one sweep a minute can clear up behind.
//!
//! The leases' clock stands still, so that every run counts the same to the byte.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::{AttributeValue, StreamSpecification};
use leasehold::conformance::FakeStepFunctions;
use leasehold::{
    Acquire, Acquired, DynamoDb, ExtendOptions, Inspected, Key, Lease, LeaseState, Leases,
    ManualClock, Queue, Queued, Reaped, RequestId, Settings, SweepBounds, Swept, TaskToken,
    Timestamp, Ttl, WaitTime,
};

use crate::chart::{Panel, lines};
use crate::clients::{ENDED, Library, TABLE, holder};
use crate::report::{Found, Measure};
use crate::site::{Cost, Site};
use crate::{Error, Options, failed, ratio};

const HOUR: Duration = Duration::from_hours(1);
/// When everything begins: always the same, so that numbers have the same length in every run.
const BEGINNING: Timestamp = Timestamp::from_millis(1_795_000_000_000);

/// A table of leases, and those who use it.
struct Field {
    site: Site,
    client: aws_sdk_dynamodb::Client,
    leases: Leases<DynamoDb>,
    clock: Arc<ManualClock>,
    /// Those who are called back. Such a call is no request to the table.
    calls: Arc<FakeStepFunctions>,
}

pub(crate) async fn measure(options: &Options) -> Result<Found, Error> {
    let mut measures = tables(options).await?;
    let (depths, chart) = depths(options).await?;
    measures.extend(depths);
    let served = if options.quick { 200 } else { 1000 };
    for lines in [1, 8] {
        let found = keeps_up(lines, served, Duration::from_millis(5)).await?;
        let name = format!("requests of a sweep per waiter it clears up behind, {lines} lines");
        measures.push(Measure::new(name, "requests", ratio(found.requests, served)).at_most(2.1));
        let name = format!(
            "waiters a second that one sweep a minute keeps up with, 5 ms away, {lines} lines"
        );
        measures.push(Measure::new(name, "waiters a second", found.per_second));
    }
    Ok(Found {
        measures,
        charts: vec![("scale", chart)],
    })
}

/// What operations cost beside more and more free rows.
async fn tables(options: &Options) -> Result<Vec<Measure>, Error> {
    let (rows, held): (&[u64], _) = if options.quick {
        (&[1, 10_000], 100)
    } else {
        (&[1, 10_000, 1_000_000], 1000)
    };
    let mut tables = Vec::new();
    for rows in rows {
        tables.push((*rows, beside(*rows, held).await?));
    }
    let mut measures = Vec::new();
    let (_, alone) = &tables[0];
    for (rows, table) in &tables {
        let steps = table.steps.iter().zip(&alone.steps);
        let different = steps.filter(|(one, other)| one != other).count();
        let name = format!(
            "operations, of {}, that cost another than beside one free row, beside {rows}",
            table.steps.len()
        );
        let different = u64::try_from(different).unwrap_or(u64::MAX);
        measures.push(Measure::new(name, "operations", ratio(different, 1)).at_most(0.0));
        let sweep = table.of("sweep");
        let of = |what: &str, ours: f64, scan: f64| {
            let name = format!("{what} of a sweep of {held} held, beside {rows} free rows");
            Measure::new(name, what, ours).peer("scan of the table", scan)
        };
        measures.push(of(
            "requests",
            ratio(sweep.requests(), 1),
            ratio(table.scan.requests(), 1),
        ));
        measures.push(of("read units", sweep.read_units, table.scan.read_units));
    }
    Ok(measures)
}

/// What a line costs that gets deeper and deeper.
async fn depths(options: &Options) -> Result<(Vec<Measure>, String), Error> {
    let depths: &[u64] = if options.quick {
        &[1, 8, 32]
    } else {
        &[1, 8, 32, 128, 512]
    };
    let depths = line(depths).await?;
    let mut measures = Vec::new();
    for depth in &depths {
        for (what, cost, target) in [
            ("to join", &depth.join, 1.0),
            ("to hand over", &depth.hand_over, 2.0),
            ("to confirm", &depth.confirm, 1.0),
        ] {
            let name = format!("requests {what} with {} in line", depth.waiting);
            measures
                .push(Measure::new(name, "requests", ratio(cost.requests(), 1)).at_most(target));
        }
    }
    let units = |what: &str, which: fn(&Depth) -> &Cost| {
        let each = depths.iter().map(|depth| {
            let name = format!("write units {what} with {} in line", depth.waiting);
            Measure::new(name, "write units", which(depth).write_units)
        });
        each.collect::<Vec<_>>()
    };
    let (join, hand_over) = (
        units("to join", |depth| &depth.join),
        units("to hand over", |depth| &depth.hand_over),
    );
    let numbers = depths
        .iter()
        .map(|depth| usize::try_from(depth.waiting).unwrap_or(usize::MAX));
    let panels = [
        Panel {
            title: "write units to join",
            points: numbers.clone().zip(&join).collect(),
        },
        Panel {
            title: "write units to hand over",
            points: numbers.zip(&hand_over).collect(),
        },
    ];
    let chart = lines("in line", &panels)?;
    measures.extend(join.into_iter().chain(hand_over));
    Ok((measures, chart))
}

impl Field {
    /// An empty table. Its stream is off: what it feeds is not measured here, and the embedded database would keep a copy of every
    /// write.
    async fn empty() -> Result<Self, Error> {
        let site = Site::start().await?;
        let Library { client, .. } = Library::at(site.door()).await?;
        let off = StreamSpecification::builder()
            .stream_enabled(false)
            .build()
            .map_err(failed("name the stream"))?;
        let update = client
            .update_table()
            .table_name(TABLE)
            .stream_specification(off);
        update
            .send()
            .await
            .map_err(failed("switch the stream off"))?;
        let (clock, calls) = (
            Arc::new(ManualClock::at(BEGINNING)),
            Arc::<FakeStepFunctions>::default(),
        );
        let mut settings = Settings::default();
        // How deep a line may be is what is measured.
        settings.queue_cap = 1000;
        let leases = Leases::new(DynamoDb::new(client.clone(), TABLE), settings)
            .with_clock(clock.clone())
            .with_workflows(Arc::clone(&calls) as _);
        Ok(Self {
            site,
            client,
            leases,
            clock,
            calls,
        })
    }

    /// So many free rows, each as the library leaves one that was granted, extended and released.
    async fn fill(&self, rows: u64) -> Result<(), Error> {
        let free = |number: u64| format!("free/{number:07}");
        let model = free(9_999_999);
        let lease = self.grant(&model, "before").await?;
        let lease = self.extend(&lease).await?;
        self.release(&lease).await?;
        self.site
            .database()
            .copy(TABLE, (&model, "LEASE#0000"), (0..rows).map(free))?;
        // The library reads them as its own.
        for row in [0, rows / 2, rows.saturating_sub(1)] {
            let found = self
                .leases
                .inspect(&key(&free(row))?)
                .await
                .map_err(failed("read a row back"))?;
            if !matches!(found, Inspected::Found { first, .. } if first.state == LeaseState::Free) {
                return Err(Error::Failed("a copied row is not free".to_owned()));
            }
        }
        Ok(())
    }

    async fn grant(&self, key: &str, who: &str) -> Result<Lease, Error> {
        match self
            .leases
            .acquire(ask(key, who)?)
            .await
            .map_err(failed("acquire"))?
        {
            Acquired::Granted(granted) => Ok(granted.lease),
            Acquired::Held(_) => Err(Error::Failed(format!("{key} is held"))),
        }
    }

    async fn extend(&self, lease: &Lease) -> Result<Lease, Error> {
        let extended = self.leases.extend(lease, ExtendOptions::default()).await;
        Ok(extended.map_err(failed("extend"))?.into_lease())
    }

    async fn release(&self, lease: &Lease) -> Result<(), Error> {
        self.leases
            .release_strictly(lease)
            .await
            .map(drop)
            .map_err(failed("release"))
    }

    async fn sweep(&self) -> Result<Swept, Error> {
        self.leases
            .sweep(SweepBounds::Schedule)
            .await
            .map_err(failed("sweep"))
    }

    async fn join(&self, key: &str, who: &str) -> Result<(), Error> {
        let queue = Queue {
            task_token: TaskToken::new(format!("{key}: {who}")).map_err(failed("name a task"))?,
            wait: WaitTime::new(10 * HOUR).map_err(failed("set the wait"))?,
        };
        match self
            .leases
            .acquire_in_line(ask(key, who)?, queue)
            .await
            .map_err(failed("join the line"))?
        {
            Queued::Queued { .. } => Ok(()),
            Queued::Acquired => Err(Error::Failed(format!("{key} was free"))),
        }
    }

    /// The first extend of whoever was called back, which is the grant.
    async fn confirm(&self) -> Result<Lease, Error> {
        let called = self.calls.take_answers();
        let [called] = &called[..] else {
            return Err(Error::Failed(format!(
                "{} were called back instead of one",
                called.len()
            )));
        };
        let lease: Lease = serde_json::from_value(called.output()["lease"].clone())
            .map_err(failed("read a call"))?;
        self.extend(&lease).await
    }
}

/// The request of a holder, which asks for a key once or has given it back.
fn ask(name: &str, who: &str) -> Result<Acquire, Error> {
    let ttl = Ttl::new(HOUR).map_err(failed("set the ttl"))?;
    let id = RequestId::new(who).map_err(failed("name a request"))?;
    Ok(Acquire::new(
        key(name)?,
        holder(who).map_err(failed("name a holder"))?,
        ttl,
    )
    .request_id(id))
}

fn key(name: &str) -> Result<Key, Error> {
    Key::new(name).map_err(failed("name a key"))
}

/// What operations cost beside so many free rows.
#[derive(Debug)]
pub struct Table {
    /// How many leases were held.
    pub held: u64,
    /// Each operation with its cost.
    pub steps: Vec<(&'static str, Cost)>,
    /// To look for expired leases at every row, as who has no index has to.
    pub scan: Cost,
}

impl Table {
    fn of(&self, step: &str) -> Cost {
        let found = self.steps.iter().find(|(name, _)| *name == step);
        found.map_or_else(Cost::default, |(_, cost)| cost.clone())
    }
}

/// Goes through the operations beside so many free rows and so many held ones.
///
/// # Errors
/// [`Error`] when an operation does not do what it is to.
pub async fn beside(rows: u64, held: u64) -> Result<Table, Error> {
    let field = Field::empty().await?;
    field.fill(rows).await?;
    let mut leases = Vec::new();
    for n in 0..held {
        leases.push(
            field
                .grant(&format!("held/{n:04}"), &format!("holder/{n:04}"))
                .await?,
        );
    }
    let site = &field.site;
    let (lease, acquire) = site.cost(field.grant("new", "one")).await?;
    let (lease, extend) = site.cost(field.extend(&lease)).await?;
    let ((), release) = site.cost(field.release(&lease)).await?;
    let looked = key("held/0000")?;
    let (_, inspect) = site
        .cost(field.leases.inspect(&looked))
        .await
        .map_err(failed("inspect"))?;
    let theirs = holder("holder/0001").map_err(failed("name a holder"))?;
    let (found, of_a_holder) = site
        .cost(field.leases.held_by(&theirs, 10, None))
        .await
        .map_err(failed("look a holder up"))?;
    same("leases of a holder", found.leases.len(), 1)?;
    let (swept, sweep) = site.cost(field.sweep()).await?;
    same("rows that a sweep examined", swept.examined, held)?;
    let ((), scan) = site.cost(scan(&field, held)).await?;
    // All of them are over.
    field.clock.advance(2 * HOUR);
    let (swept, freeing) = site.cost(field.sweep()).await?;
    same("rows that a sweep freed", swept.freed, held)?;
    let steps = vec![
        ("acquire", acquire),
        ("extend", extend),
        ("release", release),
        ("inspect", inspect),
        ("held by a holder", of_a_holder),
        ("sweep", sweep),
        ("sweep that frees all", freeing),
    ];
    Ok(Table { held, steps, scan })
}

async fn scan(field: &Field, held: u64) -> Result<(), Error> {
    let over = AttributeValue::N(field.leases.now().plus(2 * HOUR).as_millis().to_string());
    let mut found = 0;
    let mut from: Option<HashMap<String, AttributeValue>> = None;
    loop {
        let scan = field.client.scan().table_name(TABLE);
        let scan = scan
            .filter_expression("attribute_exists(#holder) AND #expires_at < :over")
            .expression_attribute_names("#holder", "holder")
            .expression_attribute_names("#expires_at", "expires_at")
            .expression_attribute_values(":over", over.clone())
            .projection_expression("pk, sk")
            // More than the megabyte of a page has. Without it the embedded database reads all that is left, each time.
            .limit(10_000)
            .set_exclusive_start_key(from);
        let page = scan.send().await.map_err(failed("scan"))?;
        found += page.items().len();
        from = page.last_evaluated_key;
        if from.is_none() {
            return same("rows that the scan found", found, held);
        }
    }
}

fn same<A: TryInto<u64>>(what: &str, found: A, wanted: u64) -> Result<(), Error> {
    match found.try_into().unwrap_or(u64::MAX) {
        found if found == wanted => Ok(()),
        found => Err(Error::Failed(format!(
            "{what}: {found} instead of {wanted}"
        ))),
    }
}

/// The operations on one key at one depth of its line.
#[derive(Clone, Debug)]
pub struct Depth {
    /// How many wait: after a join, before a hand-over.
    pub waiting: u64,
    /// To join, as the last.
    pub join: Cost,
    /// To release: the row is written, and the task token of the next is read.
    pub hand_over: Cost,
    /// To confirm, with one less in line.
    pub confirm: Cost,
}

/// A line that grows to each of `depths` in turn, which have to rise.
///
/// # Errors
/// [`Error`] when the database refuses, or somebody is not in line.
pub async fn line(depths: &[u64]) -> Result<Vec<Depth>, Error> {
    const KEY: &str = "orders/42";
    let field = Field::empty().await?;
    // A row remembers some of its grants: from here on it grows with the line alone.
    for n in 0..4 {
        let lease = field.grant(KEY, &format!("before/{n}")).await?;
        field.release(&lease).await?;
    }
    let mut held = field.grant(KEY, "holder").await?;
    let (mut waiting, mut asked) = (0, 0);
    let mut found = Vec::new();
    for depth in depths {
        let mut name = || {
            asked += 1;
            format!("waiter/{asked:06}")
        };
        while waiting + 1 < *depth {
            field.join(KEY, &name()).await?;
            waiting += 1;
        }
        let ((), join) = field.site.cost(field.join(KEY, &name())).await?;
        let ((), hand_over) = field.site.cost(field.release(&held)).await?;
        let (next, confirm) = field.site.cost(field.confirm()).await?;
        held = next;
        waiting = *depth - 1;
        found.push(Depth {
            waiting: *depth,
            join,
            hand_over,
            confirm,
        });
    }
    Ok(found)
}

/// What one sweep did behind waiters that were served.
#[derive(Clone, Copy, Debug)]
pub struct KeepsUp {
    /// Its requests.
    pub requests: u64,
    /// How many it clears up behind in each second of a minute, if it takes all of that minute.
    pub per_second: f64,
}

/// Lines whose waiters have gone, and a sweep each request of which takes `latency` longer.
///
/// # Errors
/// [`Error`] when the sweep leaves something.
pub async fn keeps_up(lines: u64, served: u64, latency: Duration) -> Result<KeepsUp, Error> {
    let field = Field::empty().await?;
    for line in 0..lines {
        let key = format!("orders/{line}");
        field.grant(&key, &format!("holder/{line}")).await?;
        for n in 0..served / lines {
            // As one who was served: its item is there, and it has no place in line any more.
            let name = format!("waiter/{line}/{n}");
            field.join(&key, &name).await?;
            let waiter = holder(&name).map_err(failed("name a holder"))?;
            field.calls.set_execution(waiter.as_str(), ENDED);
            let gone = field.leases.reap(&waiter).await.map_err(failed("reap"))?;
            if !matches!(gone, Reaped::Reaped { left: 1, .. }) {
                return Err(Error::Failed(format!(
                    "one did not leave the line: {gone:?}"
                )));
            }
        }
    }
    field.site.set_latency(latency);
    let began = Instant::now();
    let (swept, cost) = field.site.cost(field.sweep()).await?;
    let seconds = began.elapsed().as_secs_f64();
    same("rows that a sweep examined", swept.examined, served + lines)?;
    field.site.set_latency(Duration::ZERO);
    same("rows that it left", field.sweep().await?.examined, lines)?;
    Ok(KeepsUp {
        requests: cost.requests(),
        per_second: ratio(served, 1) / seconds,
    })
}
