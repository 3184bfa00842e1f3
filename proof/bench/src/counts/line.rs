//! Ours in line: who waits joins once and is called back. What a workflow gets from Step Functions, a client here reads
//! from a board.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::conformance::FakeStepFunctions;
use leasehold::{
    DynamoDb, ExtendOptions, Holder, Lease, Leases, Queue, Queued, SweepBounds, TaskToken, WaitTime,
};
use serde::Deserialize;

use super::clients::{HOLDER, Ours, Setting, told};
use super::crash;
use super::played::{Marks, Played, Spent};
use super::sections::site;
use crate::site::Site;

const KEY: &str = "orders/42";
const NEXT: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:order-43";
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(1);

/// Ours, in line.
pub const IN_LINE: &str = "leasehold, in line";
/// A section while others are in line, from joining to the next one's confirmation.
pub const CYCLE: &str = "contended section";

/// A key that is held, by one who went in through the door aside, and one who wants it.
struct Line {
    site: Site,
    calls: Arc<FakeStepFunctions>,
    ours: Ours,
    leases: Leases<DynamoDb>,
    aside: Leases<DynamoDb>,
}

impl Line {
    async fn start(setting: &Setting) -> Result<Self, String> {
        let site = site().await?;
        let aside = Ours::at(&site.config_aside().await, setting.lease).await?;
        let ours = Ours::at(&site.config().await, setting.lease).await?;
        let calls = Arc::new(FakeStepFunctions::default());
        Ok(Self {
            leases: ours.leases.clone().with_workflows(calls.clone()),
            aside: aside.leases.with_workflows(calls.clone()),
            site,
            calls,
            ours,
        })
    }

    /// Somebody holds the key who was granted it at once.
    async fn hold(&self) -> Result<Lease, String> {
        let request = self.ours.request(KEY, HOLDER)?;
        let granted = self.aside.acquire(request).await;
        let granted = granted.and_then(leasehold::Acquired::granted);
        Ok(granted.map_err(|error| told(&error))?.lease)
    }

    async fn join(&self) -> Result<Queued, String> {
        let queue = Queue {
            // As long as Step Functions' own.
            task_token: TaskToken::new("t".repeat(600)).map_err(|error| told(&error))?,
            wait: WaitTime::new(Duration::from_hours(1)).map_err(|error| told(&error))?,
        };
        let joined = self
            .leases
            .acquire_in_line(self.ours.request(KEY, NEXT)?, queue);
        joined.await.map_err(|error| told(&error))
    }

    /// The lease that the one who waits is told of.
    async fn woken(&self) -> Result<Lease, String> {
        loop {
            if let [one] = &self.calls.take_answers()[..] {
                let what = one.result.as_ref().map_err(|(error, _)| error.clone())?;
                let output: serde_json::Value =
                    serde_json::from_str(what).map_err(|error| told(&error))?;
                return Lease::deserialize(&output["lease"]).map_err(|error| told(&error));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn confirm(&self, lease: &Lease) -> Result<Lease, String> {
        let extended = self.leases.extend(lease, ExtendOptions::default()).await;
        Ok(extended.map_err(|error| told(&error))?.into_lease())
    }

    async fn release(&self, lease: &Lease) -> Result<(), String> {
        let released = self.leases.release_strictly(lease).await;
        released.map(|_| ()).map_err(|error| told(&error))
    }

    async fn sweep(&self) -> Result<(), String> {
        let swept = self.leases.sweep(SweepBounds::Schedule).await;
        swept.map(|_| ()).map_err(|error| told(&error))
    }

    fn begin(&self) -> (Marks, Instant) {
        (Marks::begin(self.site.door().counts()), Instant::now())
    }

    fn step(&self, marks: &mut Marks, name: &'static str) {
        marks.step(name, self.site.door().counts());
    }
}

/// A section of one who goes in line for a key that is free.
pub async fn alone(setting: &Setting) -> Result<Played, String> {
    let line = Line::start(setting).await?;
    let held = line.hold().await?;
    line.release(&held).await?;
    let (mut marks, began) = line.begin();
    line.join().await?;
    line.step(&mut marks, "join");
    let lease = line.confirm(&line.woken().await?).await?;
    line.step(&mut marks, "confirm");
    line.release(&lease).await?;
    line.step(&mut marks, "release");
    let played = Played::once("section", IN_LINE, marks, began.elapsed());
    Ok(played.knowing("released"))
}

/// A contended cycle: one joins, another hands over to it, and it confirms. Then what a sweep does behind it, and what
/// it does with nothing to do.
pub async fn behind_one(setting: &Setting) -> Result<Vec<Played>, String> {
    let line = Line::start(setting).await?;
    let held = line.hold().await?;
    let (mut marks, began) = line.begin();
    line.join().await?;
    line.step(&mut marks, "join");
    line.release(&held).await?;
    line.step(&mut marks, "hand over");
    line.confirm(&line.woken().await?).await?;
    line.step(&mut marks, "confirm");
    let mut played = vec![
        Played::once(CYCLE, IN_LINE, marks, began.elapsed())
            .knowing("its own; told through a board here, and by Step Functions in a workflow"),
    ];
    for scene in ["sweep behind one who waited", "sweep with nothing to do"] {
        let (mut marks, began) = line.begin();
        line.sweep().await?;
        line.step(&mut marks, "sweep");
        let swept = Played::once(scene, IN_LINE, marks, began.elapsed());
        played.push(swept.knowing("not for each section: it comes once a minute for all of them"));
    }
    Ok(played)
}

/// The holder vanishes; a sweep comes every second.
pub async fn swept(setting: &Setting) -> Result<Played, String> {
    let line = Line::start(setting).await?;
    line.hold().await?;
    let (mut marks, began) = line.begin();
    line.join().await?;
    line.step(&mut marks, "join");
    let before = line.site.spent().aside;
    let sweeper = line.aside.clone();
    let sweeping = tokio::spawn(async move {
        loop {
            tokio::time::sleep(SWEEP_EVERY).await;
            // What fails is done the next time.
            let _ = sweeper.sweep(SweepBounds::Schedule).await;
        }
    });
    let woken = line.woken().await;
    let aside = Spent::from(&line.site.spent().aside.since(&before));
    sweeping.abort();
    line.confirm(&woken?).await?;
    let took = began.elapsed();
    line.step(&mut marks, "confirm");
    Ok(vanished(crash::SWEPT, setting, marks, took, aside))
}

/// The holder vanishes; its execution has ended, and somebody tells so.
pub async fn reaped(setting: &Setting) -> Result<Played, String> {
    let line = Line::start(setting).await?;
    line.hold().await?;
    let (mut marks, began) = line.begin();
    line.join().await?;
    line.step(&mut marks, "join");
    let before = line.site.spent().aside;
    let holder = Holder::new(HOLDER).map_err(|error| told(&error))?;
    line.calls.set_execution(HOLDER, crate::site::ENDED);
    let reaped = line.aside.reap(&holder).await;
    reaped.map_err(|error| told(&error))?;
    let aside = Spent::from(&line.site.spent().aside.since(&before));
    line.confirm(&line.woken().await?).await?;
    let took = began.elapsed();
    line.step(&mut marks, "confirm");
    Ok(vanished(crash::REAPED, setting, marks, took, aside))
}

fn vanished(
    client: &'static str,
    setting: &Setting,
    marks: Marks,
    took: Duration,
    aside: Spent,
) -> Played {
    let played = Played::once(crash::NAME, client, marks, took);
    let played = played.with_aside(aside).under(setting.lease);
    played.knowing("its own")
}
