//! One round: every client follows its plan; then the faults end, and the record is checked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_local::Proxy;
use serde_json::json;
use tokio::task::JoinSet;

use crate::calls::{Answer, Caller};
use crate::checks::Violation;
use crate::checks::{self, Strangers};
use crate::client::{Client, execution_arn};
use crate::context::Context;
use crate::fixture::Fixture;
use crate::history::Micros;
use crate::late_waiters::{SWEEPS_TO_TELL, wait_for_answers};
use crate::plan::Step;
use crate::watch::{Watch, sleep_ms};
use crate::{faults, operators, starts};

/// How long clients may take to finish what they began, with every fault that may occur.
const TO_FINISH: Duration = Duration::from_secs(90);
/// When every lease of the round has run out: the longest ttl and the margin, after the last request that may be late.
const UNTIL_ALL_IS_OVER: u64 = 5_500;

/// How long after a token was found dead, or after the last write for a dead execution, its history shows the truth; and
/// the time of a sweep and its grace.
const UNTIL_A_HISTORY_SHOWS: Duration = Duration::from_secs(40);

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

/// The result of one round, or of several.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Calls of functions.
    pub operations: u64,
    /// Of these, calls with an answer.
    pub answered: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// Rows of which too much was open to decide.
    pub undecided: u64,
    /// Writes that the fence refused.
    pub fenced: u64,
    /// Leases that somebody believed in.
    pub grants: u64,
    /// Starts by what was heard of them, and by what their executions did.
    pub starts: BTreeMap<&'static str, u64>,
    /// Waiters in a queue that were answered only after the end of the round.
    pub late: u64,
}

impl Totals {
    /// Adds another round's.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.answered += other.answered;
        for (kind, count) in other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        self.violations.extend(other.violations);
        self.undecided += other.undecided;
        self.fenced += other.fenced;
        self.grants += other.grants;
        for (kind, count) in other.starts {
            *self.starts.entry(kind).or_default() += count;
        }
        self.late += other.late;
    }

    /// How many faults there were.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = self.operations - self.answered;
        write!(
            f,
            "{} operations ({unknown} of unknown outcome), {} grants, {} writes fenced off, starts ({}), {} faults ({})",
            self.operations,
            self.grants,
            self.fenced,
            listed(&self.starts),
            self.faults(),
            listed(&self.faults),
        )?;
        if self.late > 0 {
            write!(f, ", {} in the queue answered late", self.late)?;
        }
        if self.undecided > 0 {
            write!(f, ", {} rows undecided", self.undecided)?;
        }
        Ok(())
    }
}

fn listed(counts: &BTreeMap<impl fmt::Display, u64>) -> String {
    let counts = counts.iter();
    let counts: Vec<_> = counts
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    counts.join(", ")
}

impl Round {
    /// Plays it.
    pub async fn play(self, fixture: &Arc<Fixture>, watch: Watch) -> Totals {
        let length = Micros::try_from(self.length.as_micros()).unwrap_or(Micros::MAX);
        let fixture = Arc::clone(fixture);
        let context = Arc::new(Context::new(fixture, watch, self.seed, self.number, length));
        let direct = context.fixture.direct.clone();
        let strangers = Strangers::put(direct, &context.keys.strange).await;
        let stop = Arc::new(AtomicBool::new(false));
        let sweeping = tokio::spawn({
            let (context, stop) = (Arc::clone(&context), Arc::clone(&stop));
            async move { operators::sweep_until(&context, &stop).await }
        });
        let working = tokio::spawn({
            let (context, stop) = (Arc::clone(&context), Arc::clone(&stop));
            async move { starts::run_until(&context, &stop).await }
        });
        let finished = tokio::time::timeout(self.length + TO_FINISH, self.all(&context)).await;
        let mut totals = Totals::default();
        if finished.is_err() {
            let what = "a client did not come to an end";
            totals
                .violations
                .push(Violation::new("L1", "the round", what));
        }
        for (proxy, whose) in [
            (&context.fixture.proxy, ""),
            (&context.fixture.calls_back, "call back "),
        ] {
            count(&mut totals, proxy, whose);
        }
        sleep_ms(UNTIL_ALL_IS_OVER).await;
        let heard = tokio::time::timeout(TO_FINISH, wait_for_answers(&context)).await;
        if heard.is_err() {
            let what = "sweeps do not come to their ends";
            totals
                .violations
                .push(Violation::new("L1", "the round", what));
        }
        totals
            .violations
            .extend(starts::drain(&context, TO_FINISH).await);
        starts::are_told(&context).await;
        let lines = context.keys.lines.iter();
        let served = join_all(lines.map(|key| served_again(&context, key))).await;
        totals.violations.extend(served.into_iter().flatten());
        for key in context.keys.mutexes() {
            let free = free_again(&context, key).await;
            totals.violations.extend(free);
        }
        totals.violations.extend(left_alone(&context).await);
        stop.store(true, Ordering::Release);
        sweeping.await.unwrap();
        working.await.unwrap();
        self.check(&context, &strangers, &mut totals).await;
        context.fixture.step_functions.forget();
        totals
    }

    async fn all(self, context: &Arc<Context>) {
        let mut everybody = JoinSet::new();
        for number in 0..self.clients {
            let context = Arc::clone(context);
            everybody.spawn(async move { Client::new(&context, number).run().await });
        }
        let others = Arc::clone(context);
        everybody.spawn(async move {
            tokio::join!(
                operators::operate(&others),
                operators::delete(&others),
                starts::ask(&others),
                faults::inject_faults(&others)
            );
        });
        everybody.join_all().await;
    }

    async fn check(self, context: &Context, strangers: &Strangers, totals: &mut Totals) {
        let history = std::mem::take(&mut *context.history());
        totals.operations = history.calls;
        totals.answered = history.answered;
        totals.fenced = history.fenced;
        totals.grants = history.beliefs.len() as u64;
        totals.late = history.late;
        let runs = starts::runs(context);
        totals.starts = starts::count(&history.starts, &runs);
        let told = history.tasks.iter().filter(|task| task.told.is_some());
        totals.starts.insert("tasks told", told.count() as u64);
        for (kind, count) in &history.faults {
            *totals.faults.entry(kind.clone()).or_default() += count;
        }
        let found = &mut totals.violations;
        for what in &history.unexpected {
            found.push(Violation::new("contract", "an answer", what));
        }
        // What has no order of its own: on a thread that may take its time.
        // Rows with queues follow other rules, which are checked by themselves.
        let lines = &context.keys.lines;
        let ordered = history
            .ops
            .iter()
            .filter(|(at, _)| !lines.contains(&at.key));
        let (order, undecided) = checks::order(ordered);
        found.extend(order);
        found.extend(checks::grants(&history.ops));
        found.extend(checks::once(&history.ops));
        found.extend(checks::holders(&history.ops, &history.beliefs));
        let (beliefs, denials) = (&history.beliefs, &history.denials);
        found.extend(checks::lasting(&history.ops, beliefs, denials));
        found.extend(checks::waiters(&history.waits));
        found.extend(checks::starts(&history.starts, &runs));
        found.extend(checks::results(&history.tasks, &history.starts, &runs));
        for (key, done) in &history.writes {
            let observed = context.fixture.resource.read(key).await;
            found.extend(checks::writes(key, &observed, *done));
        }
        found.extend(strangers.check().await);
        strangers.remove().await;
        let logs = context.fixture.take_logs();
        let messages = history.messages.join("\n");
        let texts = logs.iter().map(|(name, text)| (name.as_str(), &text[..]));
        let texts = texts.chain([("what was answered", messages.as_bytes())]);
        found.extend(checks::secrets(&history.secrets, texts));
        totals.undecided = undecided;
        for violation in found {
            let fault_log = history.fault_log.iter().rev().take(5);
            let replay = format!(
                "replay: make -C proof soak SOAK=\"--seed {} --round {} --clients {}\" (the same plan; how it interleaves differs)",
                self.seed, self.number, self.clients
            );
            violation.around.push(replay);
            if violation.invariant == "L4" || violation.invariant == "contract" {
                let lines = fault_log.map(|(at, what)| format!("{} ms: {what}", at / 1000));
                violation.around.extend(lines);
            }
        }
    }
}

fn count(totals: &mut Totals, proxy: &Proxy, whose: &str) {
    for fault in proxy.happened() {
        *totals
            .faults
            .entry(format!("{whose}{fault:?}"))
            .or_default() += 1;
    }
    proxy.reset();
}

/// L1: whatever happened to its holders, anybody can now acquire the key.
async fn free_again(context: &Context, key: &str) -> Option<Violation> {
    let mark = format!("r{}-last. ", context.round);
    let caller = Caller::new(context, "the last one".to_owned(), mark);
    let mut last = String::new();
    for n in 0..5 {
        let payload = json!({
            "key": key,
            "holder": caller.holder,
            "request_id": format!("last-{n}"),
            "ttl_seconds": 1,
        });
        let reply = caller.call("acquire", Step::CLEAN, &payload, "").await;
        match reply.answer {
            Answer::Well(_) => return None,
            other => last = format!("{other:?}"),
        }
        sleep_ms(1000).await;
    }
    let what = format!("all is over, and it cannot be had: {last}");
    Some(Violation::new("L1", key, what))
}

/// L1 and L5: whoever held the key and died, and whoever waited for it and is gone, an execution that comes now is granted
/// it. By then every execution is over but those whose wait has timed out.
async fn served_again(context: &Context, key: &str) -> Option<Violation> {
    let mark = format!("r{}-last in the queue. ", context.round);
    let holder = execution_arn(&format!("r{}-last", context.round));
    let caller = Caller::new(context, holder, mark);
    let step_functions = &context.fixture.step_functions;
    let token = format!("the last one in the queue for {key}");
    let mut waiting = step_functions.wait(&caller.holder, &token);
    let payload = json!({
        "key": key,
        "holder": caller.holder,
        "request_id": format!("last for {key}"),
        "task_token": token,
        "wait_seconds": 3600,
    });
    for _ in 0..5 {
        let reply = caller.call("acquire", Step::CLEAN, &payload, "").await;
        if matches!(reply.answer, Answer::Well(_)) {
            break;
        }
    }
    let enough = context.swept.load(Ordering::Acquire) + SWEEPS_TO_TELL;
    let began = Instant::now();
    while began.elapsed() < UNTIL_A_HISTORY_SHOWS || context.swept.load(Ordering::Acquire) < enough
    {
        match tokio::time::timeout(Duration::from_millis(100), &mut waiting).await {
            Ok(Ok(call)) if call.operation == "SendTaskSuccess" => return None,
            Ok(call) => {
                let what = format!("the last one in the queue was answered {call:?}");
                return Some(Violation::new("L4", key, what));
            }
            Err(_) if began.elapsed() > TO_FINISH => break,
            Err(_) => {}
        }
    }
    let shown = caller
        .call("inspect", Step::CLEAN, &json!({"key": key}), "")
        .await;
    let Answer::Well(shown) = shown.answer else {
        return Some(Violation::new("L1", key, format!("{:?}", shown.answer)));
    };
    let holds = shown["lease"]["holder"].as_str().unwrap_or_default();
    let promise = if step_functions.is_running(holds) {
        "L5"
    } else {
        "L1"
    };
    let what = format!("all is over, and it is not granted to who waits: {shown}");
    Some(Violation::new(promise, key, what))
}

/// S10: what is not ours is refused, by name.
async fn left_alone(context: &Context) -> Vec<Violation> {
    let mark = format!("r{}-strange. ", context.round);
    let caller = Caller::new(context, "the last one".to_owned(), mark);
    let mut violations = Vec::new();
    for key in &context.keys.strange {
        let payload = json!({"key": key, "holder": caller.holder, "ttl_seconds": 1});
        let reply = caller.call("acquire", Step::CLEAN, &payload, "").await;
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
