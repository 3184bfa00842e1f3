//! What a response came to. Each response says it itself; the rules count what no response says.

use leasehold::{
    Acquired, AcquiredAll, Counter, ExtendOutcome, Extended, ExtendedAll, ForceReleaseOutcome,
    FreezeOutcome, GrantKind, Inspected, Lease, LeasePage, LimitOutcome, Queued, RaiseFloorOutcome,
    Reaped, ReleaseOutcome, Released, ReleasedAll, Started, Swept, UnfreezeOutcome,
    metrics::Metric,
};
use serde::Serialize;

use crate::Handled;

/// A response of a function.
pub trait Response: Serialize {
    /// What it came to.
    fn summary(&self) -> Summary;
}

/// An outcome in a word, the token of the lease, and what to count.
#[derive(Debug)]
pub struct Summary {
    pub(crate) outcome: &'static str,
    pub(crate) fencing_token: Option<Counter>,
    pub(crate) counts: Vec<(Metric, u64)>,
}

impl Summary {
    /// This outcome, and nothing to count.
    #[must_use]
    pub const fn of(outcome: &'static str) -> Self {
        Self {
            outcome,
            fencing_token: None,
            counts: Vec::new(),
        }
    }

    fn lease(mut self, lease: &Lease) -> Self {
        self.fencing_token = Some(lease.fencing_token);
        self
    }

    fn count(mut self, metric: Metric, value: u64) -> Self {
        self.counts.push((metric, value));
        self
    }

    fn granted(grant: GrantKind) -> Self {
        Self::of("acquired").count(Metric::of_grant(grant), 1)
    }

    fn held() -> Self {
        Self::of("held").count(Metric::Refusals, 1)
    }

    fn revived() -> Self {
        Self::of("revived").count(Metric::Revived, 1)
    }

    fn ended(outcome: ReleaseOutcome) -> Self {
        let summary = Self::of(outcome.as_str());
        match outcome {
            ReleaseOutcome::Lost => summary.count(Metric::Lost, 1),
            ReleaseOutcome::Released | ReleaseOutcome::AlreadyReleased => summary,
        }
    }
}

impl Response for Acquired {
    fn summary(&self) -> Summary {
        match self {
            Self::Granted(granted) => Summary::granted(granted.grant).lease(&granted.lease),
            Self::Held(_) => Summary::held(),
        }
    }
}

impl Response for AcquiredAll {
    fn summary(&self) -> Summary {
        match self {
            Self::Granted(granted) => Summary::granted(granted.grant),
            Self::Held(_) => Summary::held(),
        }
    }
}

/// The grant of a waiter is counted where it is made: the lease went to its task token.
impl Response for Queued {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Acquired => "acquired",
            Self::Queued { .. } => "queued",
        })
    }
}

impl Response for Extended {
    fn summary(&self) -> Summary {
        match self {
            Self::Extended { lease } => Summary::of("extended").lease(lease),
            Self::Revived { lease, .. } => Summary::revived().lease(lease),
        }
    }
}

impl Response for ExtendedAll {
    fn summary(&self) -> Summary {
        match self.outcome {
            ExtendOutcome::Extended => Summary::of("extended"),
            ExtendOutcome::Revived => Summary::revived(),
        }
    }
}

impl Response for Released {
    fn summary(&self) -> Summary {
        Summary::ended(self.outcome)
    }
}

impl Response for ReleasedAll {
    fn summary(&self) -> Summary {
        Summary::ended(self.outcome)
    }
}

impl Response for Inspected {
    fn summary(&self) -> Summary {
        match self {
            Self::Found { first, .. } => Summary {
                fencing_token: Some(first.lease.fencing_token),
                ..Summary::of("found")
            },
            Self::Absent => Summary::of("absent"),
        }
    }
}

impl Response for LeasePage {
    fn summary(&self) -> Summary {
        Summary::of("listed")
    }
}

impl Response for ForceReleaseOutcome {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Forced { .. } => "forced",
            Self::Cancelled { .. } => "cancelled",
            Self::NotHeld => "not_held",
        })
    }
}

impl Response for FreezeOutcome {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Frozen => "frozen",
            Self::AlreadyFrozen => "already_frozen",
        })
    }
}

impl Response for UnfreezeOutcome {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Unfrozen => "unfrozen",
            Self::NotFrozen => "not_frozen",
        })
    }
}

impl Response for LimitOutcome {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Limited { .. } => "limited",
            Self::Unlimited => "unlimited",
            Self::NotLimited => "not_limited",
        })
    }
}

impl Response for RaiseFloorOutcome {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Raised => "raised",
            Self::HighEnough => "high_enough",
        })
    }
}

impl Response for Swept {
    fn summary(&self) -> Summary {
        let summary = Summary::of("swept")
            .count(Metric::Sweeps, 1)
            .count(Metric::SweepExamined, self.examined)
            .count(Metric::SweepFreed, self.freed);
        match self.skipped_corrupt {
            0 => summary,
            corrupt => summary.count(Metric::Corrupt, corrupt),
        }
    }
}

impl Response for Started {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Started { .. } => "started",
            Self::Queued { .. } => "queued",
            Self::Skipped { .. } => "skipped",
            Self::Superseded { .. } => "superseded",
        })
    }
}

impl Response for Reaped {
    fn summary(&self) -> Summary {
        Summary::of(match self {
            Self::Running => "running",
            Self::Redriven { .. } => "redriven",
            Self::Reaped { .. } => "reaped",
        })
    }
}

impl<T: Response> Response for Handled<T> {
    fn summary(&self) -> Summary {
        match self {
            Self::Done(done) => done.summary(),
            Self::Batch(batch) if batch.batch_item_failures.is_empty() => Summary::of("done"),
            Self::Batch(_) => Summary::of("done_in_part"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use aws_lambda_events::event::sqs::SqsBatchResponse;

    use leasehold::{
        Acquire, ExtendOptions, Holder, Key, Leases, ManualClock, Memory, RequestId, Settings,
        Timestamp, Ttl,
    };

    use super::*;

    fn told(response: &impl Response) -> (&'static str, Vec<(&'static str, u64)>) {
        let Summary {
            outcome, counts, ..
        } = response.summary();
        let counts = counts.into_iter();
        let counts = counts.map(|(metric, n)| (metric.name(), n));
        (outcome, counts.collect())
    }

    #[tokio::test]
    async fn each_response_counts_as_what_it_came_to() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
        let leases =
            Leases::new(Memory::new(), Settings::default()).with_clock(Arc::clone(&clock) as _);
        let minute = Duration::from_mins(1);
        let wanted = |who: &str| {
            let (key, holder) = (Key::new("k"), Holder::new(who));
            let ttl = Ttl::new(minute).expect("valid");
            let wanted = Acquire::new(key.expect("valid"), holder.expect("valid"), ttl);
            wanted.request_id(RequestId::new(who).expect("valid"))
        };
        let acquire = async |who: &str| leases.acquire(wanted(who)).await.expect("an answer");
        let acquired = acquire("a").await;
        assert_eq!(told(&acquired), ("acquired", vec![("Grants", 1)]));
        assert_eq!(
            told(&acquire("a").await),
            ("acquired", vec![("Replays", 1)])
        );
        assert_eq!(told(&acquire("b").await), ("held", vec![("Refusals", 1)]));
        let lease = acquired.granted().expect("a grant").lease;
        let token = Some(lease.fencing_token);
        let extend = async || {
            let extended = leases.extend(&lease, ExtendOptions::default()).await;
            extended.expect("an answer")
        };
        assert_eq!(told(&extend().await), ("extended", vec![]));
        clock.advance(minute);
        let revived = extend().await;
        assert_eq!(told(&revived), ("revived", vec![("Revived", 1)]));
        assert_eq!(revived.summary().fencing_token, token);
        clock.advance(minute * 2);
        assert_eq!(
            told(&acquire("b").await),
            ("acquired", vec![("TakeOvers", 1)])
        );
        let shown = leases.inspect(&lease.key).await.expect("an answer");
        assert!(shown.summary().fencing_token > token);
        assert_eq!(told(&shown), ("found", vec![]));
        let released = leases.release(&lease).await.expect("an answer");
        assert_eq!(told(&released), ("lost", vec![("Lost", 1)]));
    }

    /// The grant of a waiter is counted where it is made, and not again.
    #[test]
    fn what_counts_elsewhere_or_nothing_has_a_word() {
        let batch = |failed: &[&str]| {
            let mut batch = SqsBatchResponse::default();
            for id in failed {
                batch.add_failure(*id);
            }
            Handled::<Reaped>::Batch(batch)
        };
        assert_eq!(told(&Queued::Acquired), ("acquired", vec![]));
        assert_eq!(told(&Queued::Queued { ticket: 5 }), ("queued", vec![]));
        assert_eq!(told(&LeasePage::default()), ("listed", vec![]));
        assert_eq!(told(&batch(&[])), ("done", vec![]));
        assert_eq!(told(&batch(&["1"])), ("done_in_part", vec![]));
        let done = Handled::Done(Reaped::Running);
        assert_eq!(told(&done), ("running", vec![]));
    }

    #[test]
    fn a_sweep_counts_corrupt_items_only_if_there_are_any() {
        let swept = |examined, freed, skipped_corrupt| Swept {
            examined,
            freed,
            skipped_corrupt,
            ..Swept::default()
        };
        let sweeps = |examined, freed| {
            vec![
                ("Sweeps", 1),
                ("SweepExamined", examined),
                ("SweepFreed", freed),
            ]
        };
        assert_eq!(told(&swept(7, 2, 0)), ("swept", sweeps(7, 2)));
        let corrupt = [sweeps(3, 0), vec![("Corrupt", 3)]].concat();
        assert_eq!(told(&swept(3, 0, 3)), ("swept", corrupt));
    }
}
