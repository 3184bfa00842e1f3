//! One round: everybody does as was drawn; then all is put in order, and what was written down is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_local::Proxy;
use serde_json::json;
use tokio::task::JoinSet;

use crate::calls::{Answer, Caller};
use crate::checks::{self, Strangers};
use crate::client::Client;
use crate::history::Micros;
use crate::plan::Step;
use crate::scene::Scene;
use crate::unheard::hear_out;
use crate::violation::Violation;
use crate::watch::{Watch, rest};
use crate::world::World;
use crate::{Error, chaos, operators};

/// How long clients may take to finish what they began, with everything that may befall it.
const TO_FINISH: Duration = Duration::from_secs(90);
/// When every lease of the round has run out: the longest ttl and the margin, after the last request that may be late.
const UNTIL_ALL_IS_OVER: u64 = 5_500;

/// What one round is made of.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// The seed of the whole soak.
    pub seed: u64,
    /// Which round.
    pub number: u64,
    /// How long anything new is begun.
    pub length: Duration,
    /// How many clients.
    pub clients: u64,
}

/// What came of it, or of several.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls of functions.
    pub operations: u64,
    /// Of these, calls that told what became of them.
    pub told: u64,
    /// What went wrong, by kind.
    pub faults: BTreeMap<String, u64>,
    /// What should not have been.
    pub violations: Vec<Violation>,
    /// Rows of which too much was open to decide.
    pub undecided: u64,
    /// Times that two had written without a fence, and one of the writes is gone.
    pub lost_without_fence: u64,
    /// Writes that the fence refused.
    pub fenced: u64,
    /// Leases that somebody believed in.
    pub grants: u64,
    /// Those in line who were told only when the round was over.
    pub late: u64,
}

impl Tally {
    /// Adds another round's.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.told += other.told;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.violations.extend(other.violations);
        self.undecided += other.undecided;
        self.lost_without_fence += other.lost_without_fence;
        self.fenced += other.fenced;
        self.grants += other.grants;
        self.late += other.late;
    }

    /// How many faults there were.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations ({} of unknown outcome), {} grants, {} writes fenced off, {} lost without a fence, {} faults (",
            self.operations,
            self.operations - self.told,
            self.grants,
            self.fenced,
            self.lost_without_fence,
            self.faults(),
        )?;
        for (n, (kind, count)) in self.faults.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{kind} {count}")?;
        }
        f.write_str(")")?;
        if self.late > 0 {
            write!(f, ", {} in line told late", self.late)?;
        }
        if self.undecided > 0 {
            write!(f, ", {} rows undecided", self.undecided)?;
        }
        Ok(())
    }
}

impl Round {
    /// Plays it.
    ///
    /// # Errors
    /// What keeps it from being played; never what is found.
    pub async fn play(self, world: &Arc<World>, watch: Watch) -> Result<Tally, Error> {
        let length = Micros::try_from(self.length.as_micros()).unwrap_or(Micros::MAX);
        let (world, watch) = (Arc::clone(world), watch);
        let scene = Arc::new(Scene::new(world, watch, self.seed, self.number, length));
        let direct = scene.world.direct.clone();
        let strangers = Strangers::put(direct, &scene.keys.strange).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let sweeping = tokio::spawn({
            let (scene, stop) = (Arc::clone(&scene), Arc::clone(&stop));
            async move { operators::sweep_until(&scene, &stop).await }
        });
        let finished = tokio::time::timeout(self.length + TO_FINISH, self.all(&scene)).await;
        let mut tally = Tally::default();
        if finished.is_err() {
            let what = "a client did not come to an end";
            tally
                .violations
                .push(Violation::new("L1", "the round", what));
        }
        for (proxy, whose) in [
            (&scene.world.proxy, ""),
            (&scene.world.calls_back, "call back "),
        ] {
            count(&mut tally, proxy, whose);
        }
        rest(UNTIL_ALL_IS_OVER).await;
        let heard = tokio::time::timeout(TO_FINISH, hear_out(&scene)).await;
        if heard.is_err() {
            let what = "sweeps do not come to their ends";
            tally
                .violations
                .push(Violation::new("L1", "the round", what));
        }
        for key in scene.keys.mutexes().chain(&scene.keys.lines) {
            let free = free_again(&scene, key).await;
            tally.violations.extend(free);
        }
        tally.violations.extend(left_alone(&scene).await);
        stop.store(true, Ordering::Release);
        let _ = sweeping.await;
        self.check(&scene, &strangers, &mut tally).await?;
        scene.world.desk.clear();
        let broken = scene.broken.lock().map(|mut broken| broken.take());
        match broken {
            Ok(Some(error)) => Err(error),
            _ => Ok(tally),
        }
    }

    async fn all(self, scene: &Arc<Scene>) {
        let mut everybody = JoinSet::new();
        for number in 0..self.clients {
            let scene = Arc::clone(scene);
            everybody.spawn(async move { Client::new(&scene, number).run().await });
        }
        let others = Arc::clone(scene);
        everybody.spawn(async move {
            tokio::join!(
                operators::operate(&others),
                operators::delete(&others),
                chaos::reign(&others)
            );
        });
        everybody.join_all().await;
    }

    async fn check(
        self,
        scene: &Scene,
        strangers: &Strangers,
        tally: &mut Tally,
    ) -> Result<(), Error> {
        let book = std::mem::take(&mut *scene.book());
        tally.operations = book.calls;
        tally.told = book.told;
        tally.fenced = book.fenced;
        tally.grants = book.beliefs.len() as u64;
        tally.late = book.late;
        for (kind, count) in &book.befallen {
            *tally.faults.entry(kind.clone()).or_default() += count;
        }
        let found = &mut tally.violations;
        for what in &book.unexpected {
            found.push(Violation::new("contract", "an answer", what));
        }
        // What has no order of its own: on a thread that may take its time.
        let (order, undecided) = checks::order(&checked(scene, &book));
        found.extend(order);
        found.extend(checks::tokens(&book.ops));
        found.extend(checks::alone(&book));
        found.extend(checks::line(&book.waits));
        for (key, (guarded, unguarded)) in &book.writes {
            let witnessed = scene.world.resource.read(key).await?;
            found.extend(checks::fence(key, &witnessed, *guarded));
            tally.lost_without_fence += checks::lost_without(&witnessed, *unguarded);
        }
        found.extend(strangers.check().await?);
        strangers.remove().await?;
        let logs = scene.world.take_logs().map_err(Error::Log)?;
        let said = book.said.join("\n");
        let texts = logs.iter().map(|(name, text)| (name.as_str(), &text[..]));
        let texts = texts.chain([("what was told", said.as_bytes())]);
        found.extend(checks::secrets(&book.secrets, texts));
        tally.undecided = undecided;
        for violation in found {
            let disturbances = book.disturbances.iter().rev().take(5);
            let replay = format!(
                "replay: make soak SOAK=\"--seed {} --round {} --clients {}\" (the same plan; how it interleaves differs)",
                self.seed, self.number, self.clients
            );
            violation.around.push(replay);
            if violation.invariant == "L4" || violation.invariant == "contract" {
                let lines = disturbances.map(|(at, what)| format!("{} ms: {what}", at / 1000));
                violation.around.extend(lines);
            }
        }
        Ok(())
    }
}

/// The rows that have an order to be found. Those of lines follow other rules, which are checked by themselves.
fn checked(
    scene: &Scene,
    book: &crate::book::Book,
) -> BTreeMap<crate::history::Place, Vec<crate::history::Op>> {
    let lines = &scene.keys.lines;
    let ours = book.ops.iter();
    let ours = ours.filter(|(place, _)| !lines.contains(&place.key));
    ours.map(|(place, ops)| (place.clone(), ops.clone()))
        .collect()
}

fn count(tally: &mut Tally, proxy: &Proxy, whose: &str) {
    for fault in proxy.happened() {
        *tally.faults.entry(format!("{whose}{fault:?}")).or_default() += 1;
    }
    proxy.reset();
}

const CLEAN: Step = Step {
    fleet: 0,
    fault: None,
    after: 0,
};

/// L1: whatever became of its holders, by now anybody can be granted the key.
async fn free_again(scene: &Scene, key: &str) -> Option<Violation> {
    let mark = format!("r{}-last. ", scene.round);
    let caller = Caller::new(scene, "the last one".to_owned(), mark);
    let mut told = String::new();
    for n in 0..5 {
        let payload = json!({
            "key": key,
            "holder": caller.holder,
            "request_id": format!("last-{n}"),
            "ttl_seconds": 1,
        });
        let reply = caller.call("acquire", CLEAN, &payload, "").await;
        match reply.answer {
            Answer::Well(_) => return None,
            other => told = format!("{other:?}"),
        }
        rest(1000).await;
    }
    let what = format!("all is over, and it cannot be had: {told}");
    Some(Violation::new("L1", key, what))
}

/// S10: what is not ours is refused, and told so.
async fn left_alone(scene: &Scene) -> Vec<Violation> {
    let mark = format!("r{}-strange. ", scene.round);
    let caller = Caller::new(scene, "the last one".to_owned(), mark);
    let mut violations = Vec::new();
    for key in &scene.keys.strange {
        let payload = json!({"key": key, "holder": caller.holder, "ttl_seconds": 1});
        let reply = caller.call("acquire", CLEAN, &payload, "").await;
        match reply.answer {
            Answer::Error(name, _) if name == "Lease.Corrupt" => {}
            Answer::Unknown => {}
            other => {
                let what = format!("somebody else's item was answered with {other:?}");
                violations.push(Violation::new("S10", key, what));
            }
        }
    }
    violations
}
