//! What everybody in a simulation shares: the time, the next fault, the waiters for a
//! notification, and a record of what happened.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
    time::Duration,
};

use serde::Deserialize as _;

use super::{
    starts::{Judge, Starts},
    store::FaultyStore,
};
use leasehold::{
    Cause, Clock, Delivery, Error, Execution, Holder, Key, LeaseId, Receipt, RequestDigest,
    TaskToken, Timestamp,
    row::{State, Stored},
    transition::Change,
};

/// What may befall a call, before it takes effect or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryFault {
    /// The call, or its answer, does not arrive.
    Lost,
    /// The caller gets an error as if the call had not arrived, and it takes effect later.
    Late,
    /// Too busy to take it; or it is sent twice, and the second answer counts.
    Twice,
    /// It takes effect, and a copy of it does so later.
    Again,
}

/// A step of the library that is done wrong, to see that the simulation notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Whoever joins is put first.
    OrderIgnored,
    /// Waiters in the queue do not prevent grants to others.
    QueueIgnored,
    /// A waiter loses its place in the queue when the waiter before it is granted the key.
    DropsNextWaiter,
    /// A grant is taken back without a check of whom somebody told since.
    TakesBackWithoutCheck,
    /// A start is settled whatever its row says.
    SettledAlone,
    /// Nobody learns that an execution has begun.
    BeginsUnseen,
    /// That an execution may be redriven is not noted.
    NotesNothing,
    /// A note is gone when it was looked at.
    NoteForgotten,
    /// A note says that a later redrive was seen to.
    CountsAhead,
    /// Of no execution it is known whether it was started.
    StopsWhoAcquires,
    /// What was redriven is not stopped.
    StopsNothing,
    /// The rule that redrives are only counted is not followed.
    RuleIgnored,
    /// Whoever reads that a task waits for a result forgets it, although it was not answered yet.
    ResultForgotten,
    /// An execution that runs is taken for one that has succeeded.
    ResultGuessed,
    /// What waited for its result has ended, and the execution is not stopped with it.
    CalledRunsOn,
    /// What waits for a result is taken for an execution that has ended.
    CallerSeemsOver,
    /// Who is granted a key is notified although it is not in its pool.
    PoolIgnored,
    /// An entry in a pool stays when its grant has ended.
    PoolNeverLeft,
    /// An entry in a pool goes although its grant lasts.
    EntryEnds,
    /// That it has entered is noted in the row of a key whatever became of its grant.
    EntryNotedLate,
    /// Who waits in a pool is not served.
    PoolNotServed,
    /// Whoever comes to a pool is put first.
    PoolOrderIgnored,
}

/// How an execution comes to its end. Whatever the end, a function of its may still be at work: that
/// of a branch which a Parallel has aborted, or one that was in the middle when it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Succeeded,
    /// By an error of its own.
    Failed,
    Stopped,
}

/// What a task token was answered with.
pub type TaskResult = Result<String, String>;

/// What arrives after its caller has given up on it.
pub enum Delayed {
    Write(Box<dyn FnOnce(&FaultyStore) + Send>),
    Call(TaskToken, TaskResult),
    /// A call that starts or stops an execution.
    Signed(Box<dyn FnOnce(&Shared) + Send>),
}

/// What a history shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    Told(LeaseId),
    Waits(bool),
}

#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Environment>>);

#[derive(Default)]
pub struct Environment {
    pub now: u64,
    /// A function at work may take one step.
    pub turn: bool,
    /// The function that has just taken a step sleeps until then.
    pub sleeps_until: Option<u64>,
    /// What befalls it there.
    pub fault: Option<DeliveryFault>,
    pub broken: Option<Broken>,
    /// Task tokens that somebody waits with, and who.
    pub tokens: BTreeMap<String, (usize, String)>,
    /// Answers to task tokens, on their way to the waiters.
    pub results: Vec<(usize, TaskResult)>,
    /// How each execution has stood, and since when.
    pub executions: BTreeMap<String, Vec<(u64, Execution)>>,
    /// With when they set out.
    pub delayed: Vec<(u64, Delayed)>,
    /// Which keys a call was for that met a fault; none if it was for no single key.
    pub met: Vec<Option<Key>>,
    /// What the history of each execution shows: that it was told of a lease, or that a task of its waits, or no longer.
    pub histories: BTreeMap<String, Vec<(u64, Shown)>>,
    /// What requests are called in the trace.
    pub names: HashMap<RequestDigest, String>,
    /// What there is beside in a simulation of starts.
    pub starts: Option<Starts>,
    pub actor: String,
    /// How often what has happened.
    pub seen: BTreeMap<String, u64>,
    pub trace: Option<String>,
}

impl Shared {
    pub fn get(&self) -> MutexGuard<'_, Environment> {
        self.0.lock().expect("one thread")
    }

    /// The end of a step of a function at work: it continues when the schedule lets it.
    pub async fn step(&self) -> Option<DeliveryFault> {
        let mut been = false;
        poll_fn(|context| {
            if been && std::mem::take(&mut self.get().turn) {
                return Poll::Ready(());
            }
            been = true;
            // Of several that go on side by side another one may take the next step.
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.get().fault.take()
    }

    /// Ends the task that waits with `token`, if anybody does.
    pub fn answer(&self, token: &TaskToken, result: TaskResult) -> Delivery {
        let mut shared = self.get();
        let lease_id = result.as_ref().ok().and_then(|output| lease_id_in(output));
        let waits = shared.tokens.get(token.expose()).cloned();
        let Some((who, execution)) = waits else {
            shared.note(|| format!("  {} is nobody's", token.expose()));
            shared.saw("nobody's token");
            return Delivery::Refused;
        };
        shared.is_done(token.expose());
        if let Some(lease_id) = lease_id {
            shared.judge(|judge| judge.told(who, &lease_id));
            let now = shared.now;
            let history = shared.histories.entry(execution).or_default();
            history.push((now, Shown::Told(lease_id)));
        }
        let what = result.as_ref().map_or_else(String::as_str, |_| "success");
        shared.note(|| format!("  {} hears: {what}", token.expose()));
        shared.saw(&format!("answered {what}"));
        shared.results.push((who, result));
        Delivery::Delivered
    }
}

fn lease_id_in(output: &str) -> Option<LeaseId> {
    let value: serde_json::Value = serde_json::from_str(output).ok()?;
    LeaseId::deserialize(value.get("lease")?.get("lease_id")?).ok()
}

impl Environment {
    /// Sets what an execution is doing from now on.
    pub fn set_execution(&mut self, execution: &Holder, standing: Execution) {
        let history = self.executions.entry(execution.as_str().to_owned());
        history.or_default().push((self.now, standing));
    }

    /// How an execution stood so many milliseconds ago.
    pub fn status(&self, execution: &str, ago: u64) -> Option<Execution> {
        let history = self.executions.get(execution)?;
        let known = |(since, _): &&(u64, Execution)| *since + ago <= self.now;
        Some(history.iter().rev().find(known)?.1)
    }

    /// A task of an execution waits with this token from now on.
    pub fn waits(&mut self, token: &str, who: usize, execution: &Holder) {
        let execution = execution.as_str().to_owned();
        self.tokens
            .insert(token.to_owned(), (who, execution.clone()));
        let history = self.histories.entry(execution).or_default();
        history.push((self.now, Shown::Waits(true)));
    }

    /// A task does not wait with this token any more.
    pub fn is_done(&mut self, token: &str) {
        if let Some((_, execution)) = self.tokens.remove(token) {
            let history = self.histories.entry(execution).or_default();
            history.push((self.now, Shown::Waits(false)));
        }
    }

    /// Whether the history of an execution, as it was so many milliseconds ago, shows that it was told of a lease.
    pub fn receipt(&self, execution: &str, lease: &LeaseId, ago: u64) -> Receipt {
        let all = self.histories.get(execution).into_iter().flatten();
        let known = all.filter(|(at, _)| *at + ago <= self.now);
        let mut waits = false;
        for (_, shown) in known {
            match shown {
                Shown::Told(told) if told == lease => return Receipt::Shown,
                Shown::Told(_) => {}
                Shown::Waits(so) => waits = *so,
            }
        }
        Receipt::Missing { waits }
    }

    /// What the judge of starts makes of what happens.
    pub fn judge(&mut self, sees: impl FnOnce(&mut Judge)) {
        let Some(starts) = &mut self.starts else {
            return;
        };
        let known = starts.judge.wrong.len();
        sees(&mut starts.judge);
        for seen in std::mem::take(&mut starts.judge.seen) {
            self.saw(seen);
        }
        let judge = self.starts.as_ref().map(|starts| &starts.judge);
        let wrong = judge.map_or_else(Vec::new, |judge| judge.wrong[known..].to_owned());
        for problem in wrong {
            self.note(|| format!("WRONG: {problem}"));
        }
    }

    /// One of two ways, in a simulation of starts.
    pub fn by_chance(&mut self) -> bool {
        self.starts
            .as_mut()
            .is_some_and(|starts| starts.chance.bool())
    }

    /// How old an answer of Step Functions is, if it may be so old.
    pub fn age(&mut self, most: u64) -> u64 {
        match &mut self.starts {
            Some(starts) if most > 0 => {
                [0, most, starts.chance.u64(0..=most)][starts.chance.usize(..3)]
            }
            _ => most,
        }
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let since = self.now.saturating_sub(START);
            let _ = writeln!(trace, "{since:>7} {:<18} {}", self.actor, line());
        }
    }

    pub fn saw(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_default() += 1;
    }

    /// A row, for the trace.
    pub fn row(&self, stored: &Stored) -> String {
        let Stored::Row(row) = stored else {
            return "no row".into();
        };
        let name = |request: &RequestDigest| match self.names.get(request) {
            Some(name) => name.clone(),
            None => "somebody".to_owned(),
        };
        let state = match &row.state {
            State::Held(_) => format!("held by {}", name(&row.request)),
            State::Free { .. } => "free".to_owned(),
        };
        let queue: Vec<_> = row.waiting().iter().map(name).collect();
        let frozen = if row.frozen.is_some() { ", frozen" } else { "" };
        let token = row.fencing_token.get() % 1_000_000;
        format!("{token} {state}{frozen}, queue {queue:?}")
    }
}

/// How far a clock is from the true time, at most.
pub const SKEW: u64 = 1000;
/// How old what Step Functions says may be.
pub const STALE: u64 = 30_000;

/// What a future comes to that waits for nothing.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    use futures_util::FutureExt as _;
    future.now_or_never().expect("nothing to wait for")
}

/// When a simulation begins.
pub const START: u64 = 1_800_000_000_000;

/// Longer than any pause between two attempts.
const A_STAY: Duration = Duration::from_millis(300);

/// Somebody's clock, so many milliseconds before the true time, or behind it.
pub struct Skewed(pub Shared, pub i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let now = self.0.get().now;
        Timestamp::from_millis(now.saturating_add_signed(self.1))
    }

    /// A pause between two attempts ends at once. Who stays until something is due sleeps until the time has passed, whatever happens
    /// meanwhile.
    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        if length < A_STAY {
            return Box::pin(std::future::ready(()));
        }
        let length = u64::try_from(length.as_millis()).expect("short");
        let until = self.0.get().now + length;
        self.0.get().saw("a stay");
        Box::pin(async move {
            while self.0.get().now < until {
                self.0.get().sleeps_until = Some(until);
                self.0.step().await;
            }
        })
    }
}

pub fn no_answer() -> Error {
    Error::Unavailable {
        problem: "no answer".to_owned(),
        source: None,
    }
}

pub fn too_busy() -> Error {
    Error::Throttled {
        action: "any",
        resource: "anything".to_owned(),
        source: Cause::of(&std::io::Error::other("too busy")),
    }
}

/// The kind of a change.
pub fn kind_of(change: &Change) -> String {
    if let Change::EndIfUnchanged(end) = change {
        return format!("End {:?}", end.ended)
            .to_lowercase()
            .replacen('e', "E", 1);
    }
    let all = format!("{change:?}");
    let (name, _) = all.split_once('(').unwrap_or((&all, ""));
    name.to_owned()
}
