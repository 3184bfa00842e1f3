//! What everybody in a simulated world shares: the time, the mishap to come, those who wait for a
//! call back, and what was seen to happen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::Poll,
    time::Duration,
};

use super::{steps::Op, witness::Witness};
use crate::{
    clock::{Clock, Timestamp},
    error::{Cause, Error},
    transition::Change,
    values::{Key, TaskToken},
    workflows::Delivery,
};

/// What may befall a call, before it takes effect or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// The call, or its answer, does not arrive.
    Lost,
    /// The caller hears that it did not arrive, and it takes effect later.
    Late,
    /// Too busy to take it; or it is sent twice, and the second answer counts.
    Twice,
}

/// A step of the library that is done wrong, to see that somebody notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Passing a turn on does not use up its token.
    TokenKept,
    /// The row is kept for the second in line.
    OrderIgnored,
    /// Nobody in the line keeps anybody else from being granted.
    Barging,
    /// Those who are sent away do not hear of it.
    Silence,
    /// A place in line is lost when the turn goes to the one before.
    Forgetful,
    /// Any turn may be passed on: what was tried since is not looked at.
    Hasty,
}

/// How a workflow comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndOf {
    /// Well: all that it started has answered.
    Success,
    /// Badly: all that it started has answered.
    Failure,
    /// While something of it may be at work.
    Force,
}

/// What a task token was answered with.
pub(super) type Told = Result<String, String>;

/// What arrives after its caller has given up on it.
#[derive(Clone, Debug)]
pub(super) enum Stray {
    Write(Op),
    Call(TaskToken, Told),
}

#[derive(Clone, Default)]
pub(super) struct Ground(Arc<Mutex<Inner>>);

#[derive(Default)]
pub(super) struct Inner {
    pub(super) now: u64,
    pub(super) mishap: Option<Mishap>,
    pub(super) clocks_differ: bool,
    pub(super) broken: Option<Broken>,
    /// Task tokens that somebody waits with, and who.
    pub(super) tokens: BTreeMap<String, usize>,
    /// Answers to task tokens, on their way to who waited.
    pub(super) told: Vec<(usize, Told)>,
    pub(super) running: BTreeSet<String>,
    /// The others: when they ended, and whether all that they started had answered.
    pub(super) over: BTreeMap<String, (u64, bool)>,
    /// With when they set out.
    pub(super) strays: Vec<(u64, Stray)>,
    /// Keys that a record of the stream is under way for.
    pub(super) records: Vec<Key>,
    pub(super) witness: Witness,
    pub(super) actor: String,
    /// What whoever is at work is about to do, or has done and not heard of.
    pub(super) about: String,
    /// How often what has happened.
    pub(super) seen: BTreeMap<String, u64>,
    pub(super) trace: Option<String>,
}

impl Ground {
    pub(super) fn get(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("one thread")
    }

    /// The end of a step of whoever is at work: it goes on when the world lets it.
    pub(super) async fn step(&self, about: String) -> Option<Mishap> {
        self.get().about = about;
        let mut been = false;
        poll_fn(|context| {
            if std::mem::replace(&mut been, true) {
                Poll::Ready(())
            } else {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
        self.get().mishap.take()
    }

    /// Ends the task that waits with `token`, if anybody does.
    pub(super) fn answer(&self, token: &TaskToken, told: Told) -> Delivery {
        let mut inner = self.get();
        let lease_id = told.as_ref().ok().and_then(|output| lease_id_in(output));
        let silent = told.is_err() && inner.broken == Some(Broken::Silence);
        let waits = if silent {
            None
        } else {
            inner.tokens.remove(token.expose())
        };
        let Some(who) = waits else {
            inner.note(|| format!("  {} is nobody's", token.expose()));
            inner.saw("nobody's token");
            return Delivery::Refused;
        };
        if let Some(lease_id) = lease_id {
            inner.witness.heard(lease_id);
        }
        let what = told.as_ref().map_or_else(String::as_str, |_| "success");
        inner.note(|| format!("  {} hears: {what}", token.expose()));
        inner.saw(&format!("told {what}"));
        inner.told.push((who, told));
        Delivery::Delivered
    }
}

fn lease_id_in(output: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(output).ok()?;
    Some(value.get("lease")?.get("lease_id")?.as_str()?.to_owned())
}

impl Inner {
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let since = self.now.saturating_sub(START);
            let _ = writeln!(trace, "{since:>7} {:<18} {}", self.actor, line());
        }
    }

    pub(super) fn saw(&mut self, what: &str) {
        *self.seen.entry(what.to_owned()).or_default() += 1;
    }

    pub(super) fn wrong(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(|| format!("WRONG: {what}"));
        self.witness.wrong.get_or_insert(what);
    }
}

/// When a world begins.
pub(super) const START: u64 = 1_800_000_000_000;

/// Somebody's clock, so many milliseconds before the true time, or behind it.
pub(super) struct Skewed(pub(super) Ground, pub(super) i64);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let now = self.0.get().now;
        Timestamp::from_millis(now.saturating_add_signed(self.1))
    }

    /// Whoever sleeps by it waits for nobody.
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

pub(super) fn no_answer() -> Error {
    Error::Unavailable {
        problem: "no answer".to_owned(),
        source: None,
    }
}

pub(super) fn too_busy() -> Error {
    Error::Throttled {
        action: "any",
        resource: "anything".to_owned(),
        source: Cause::said("too busy"),
    }
}

/// The kind of a change.
pub(super) fn kind_of(change: &Change) -> String {
    let text = format!("{change:?}");
    let end = text.find(['(', ' ']).unwrap_or(text.len());
    text[..end].to_owned()
}
