//! Who takes part: one file for each kind.

pub mod execution;
pub mod holder;
mod operator;
mod starter;
mod stranger;
pub mod sweeper;
mod task;
mod waiter;

use std::sync::Arc;
use std::time::Duration;

use leasehold_proof::fake_step_functions::StepFunctionsCall;
use tokio::sync::oneshot::Receiver;
use tokio::task::JoinSet;

pub use stranger::Stranger;

use crate::promises::At;
use crate::round::Round;

/// As many hold by deadlines.
const HOLDERS: u64 = 28;
/// As many wait in queues.
const WAITERS: u64 = 14;

/// The keys by kind, how many there are, and how many permits each has: the few that many want, those of which operators evict
/// holders, one with several permits, and those with queues.
const KINDS: [(&str, usize, usize); 4] = [
    ("hot", 3, 1),
    ("key", 6, 1),
    ("permits", 1, 3),
    ("queue", 3, 1),
];

/// A key, and how many permits it has.
pub type Key = (String, usize);

/// Everybody but who sweeps, at work until the round is over, and then until nobody waits.
pub fn all(round: &Arc<Round>) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for client in 0..HOLDERS {
        all.spawn(holder::live(Arc::clone(round), client));
    }
    for client in HOLDERS..HOLDERS + WAITERS {
        all.spawn(waiter::live(Arc::clone(round), client));
    }
    for way in 0..starter::WAYS.len() {
        all.spawn(starter::live(Arc::clone(round), way));
    }
    all.spawn(operator::live(Arc::clone(round)));
    all
}

/// All keys of a round: each has its own, so that the one before can be forgotten.
pub fn keys(round: u64) -> Vec<Key> {
    let kinds = KINDS.into_iter();
    let keys = kinds.flat_map(|(kind, count, permits)| {
        let named = move |n| (format!("round-{round}/{kind}-{n}"), permits);
        (0..count).map(named)
    });
    let ways = starter::WAYS.into_iter().enumerate();
    let ways = ways.map(|(way, it)| (format!("round-{round}/start-{way}"), it.permits));
    keys.chain(ways).collect()
}

/// Those of some kinds.
fn of_kinds(round: &Round, kinds: &[&str]) -> Vec<Key> {
    let mut keys = keys(round.number);
    keys.retain(|(key, _)| kinds.iter().any(|kind| key.contains(&format!("/{kind}-"))));
    keys
}

/// The ARN of the execution of this name.
fn execution_arn(machine: &str, name: &str) -> String {
    format!("arn:aws:states:us-east-1:123456789012:execution:{machine}:{name}")
}

/// What a task hears before this time, if it ends then, or until nobody is to be waited for any more.
async fn listen(
    round: &Round,
    waiting: &mut Receiver<StepFunctionsCall>,
    until: Option<At>,
) -> Option<StepFunctionsCall> {
    while !round.patience_is_over() && until.is_none_or(|until| round.now() < until) {
        let listening = tokio::time::timeout(Duration::from_millis(20), &mut *waiting);
        if let Ok(heard) = listening.await {
            return heard.ok();
        }
    }
    // Unless it was answered at the last moment.
    waiting.close();
    waiting.try_recv().ok()
}
