//! The act in numbers.

use std::collections::BTreeMap;

use leasehold_local::Counts;
use serde::Serialize;

use super::super::measures::{count, mean, rounded};
use super::cast::Part;
use super::evidence::{Evidence, Waiter};

/// The figures of the act, as they stand in the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) waiters: usize,
    /// Times that the key went to the next in line.
    pub(super) hand_overs: usize,
    /// Between one going out of the resource and the next coming in, where the first has released.
    pub(super) mean_idle_seconds: f64,
    pub(super) longest_idle_seconds: f64,
    /// The same behind the holder that was stopped.
    pub(super) idle_after_stopped_seconds: Option<f64>,
    /// From the entry into the waiting state to the end of the confirmation.
    pub(super) mean_wait_seconds: f64,
    pub(super) longest_wait_seconds: f64,
    /// Times that somebody had to wait once more, having come too late for its turn.
    pub(super) turns_missed: usize,
    pub(super) requests: Requests,
}

/// Requests that DynamoDB was sent about the line, counted at the socket of each function.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Requests {
    /// Joining, per waiter.
    pub(super) join: f64,
    /// Freeing the key for the next, per release.
    pub(super) hand_over: f64,
    /// Reading whom to wake, per release behind which somebody waited.
    pub(super) read: f64,
    /// The three together.
    pub(super) per_hand_over: f64,
    /// Apart: all extends, of which each holder's first is the confirmation.
    pub(super) extends: u64,
    /// Apart: sweep's, every two seconds, for clearing up and for the stopped holder.
    pub(super) sweep: u64,
    /// Apart: behind the two that were stopped, and a look for each of the others.
    pub(super) reap: u64,
    /// Apart: the table's stream has something to do only if a release could not wake anybody.
    pub(super) grant: u64,
}

/// Counts by function.
pub(super) type Read = BTreeMap<&'static str, Counts>;

impl Figures {
    /// The figures, with what was counted before anybody joined, and in the end.
    pub(super) fn of(evidence: &Evidence, before: &Read, after: &Read) -> Self {
        let turns = evidence.turns();
        let stopped = evidence.with_part(Part::StoppedHolding);
        let mut idle = Vec::new();
        let mut idle_after_stopped_seconds = None;
        for pair in turns.windows(2) {
            let from = pair[0].until.unwrap_or(pair[0].from);
            let length = evidence.seconds(pair[1].from) - evidence.seconds(from);
            if stopped.is_some_and(|one| one.arn == pair[0].holder) {
                idle_after_stopped_seconds = Some(rounded(length));
            } else {
                idle.push(length);
            }
        }
        let waits: Vec<f64> = evidence
            .waiters
            .iter()
            .filter_map(|waiter| {
                let story = &waiter.story;
                Some(evidence.seconds(story.confirmed?) - evidence.seconds(story.asked?))
            })
            .collect();
        let longest = |all: &[f64]| rounded(all.iter().copied().fold(0.0, f64::max));
        let again = |waits: usize| waits.saturating_sub(1);
        Self {
            waiters: evidence.waiters.len(),
            hand_overs: turns.len(),
            mean_idle_seconds: rounded(mean(&idle)),
            longest_idle_seconds: longest(&idle),
            idle_after_stopped_seconds,
            mean_wait_seconds: rounded(mean(&waits)),
            longest_wait_seconds: longest(&waits),
            turns_missed: evidence
                .waiters
                .iter()
                .map(|waiter| again(waiter.story.waits))
                .sum(),
            requests: Requests::of(evidence, before, after),
        }
    }
}

impl Requests {
    fn of(evidence: &Evidence, before: &Read, after: &Read) -> Self {
        let counted = |verb| {
            let before = before.get(verb).cloned().unwrap_or_default();
            let after = after.get(verb).cloned().unwrap_or_default();
            after.since(&before)
        };
        let gave_back = |waiter: &&Waiter| waiter.story.released.is_some();
        // The demo's own is one more.
        let releases = evidence.waiters.iter().filter(gave_back).count() + 1;
        // Behind the last one nobody waits.
        let woken = releases - 1;
        let per = |requests: u64, of: usize| {
            let requests = usize::try_from(requests).unwrap_or(usize::MAX);
            rounded(count(requests) / count(of.max(1)))
        };
        let release = counted("release");
        let join = per(counted("acquire").total(), evidence.waiters.len());
        let read = per(release.of("GetItem"), woken);
        let hand_over = per(release.total() - release.of("GetItem"), releases);
        Self {
            join,
            hand_over,
            read,
            per_hand_over: rounded(join + hand_over + read),
            extends: counted("extend").total(),
            sweep: counted("sweep").total(),
            reap: counted("reap").total(),
            grant: counted("grant").total(),
        }
    }
}
