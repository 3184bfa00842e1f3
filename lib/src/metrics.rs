//! The metrics of leases, and how the rules report values that no response contains.
//!
//! Each such value is a `tracing` event at [`TARGET`], at INFO, with the fields `metric` (a name of [`METRICS`]) and `value`,
//! for any subscriber of a program that uses the crate. [`counted`] counts those of one piece of work.

use std::{cell::RefCell, future::Future, time::Duration};

use crate::outcomes::GrantKind;

/// The target of the events.
pub const TARGET: &str = "leasehold::metrics";

macro_rules! metrics {
    ($($name:ident $unit:literal;)*) => {
        /// Every metric, with its unit as `CloudWatch` knows it. docs/reference/metrics.md says what each means, and
        /// which function writes it.
        pub const METRICS: [(&str, &str); [$($unit),*].len()] = [$((stringify!($name), $unit)),*];

        /// One of [`METRICS`], in their order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "docs/reference/metrics.md says what each means")]
        pub enum Metric {
            $($name),*
        }

        const ALL: [Metric; METRICS.len()] = [$(Metric::$name),*];
    };
}

metrics! {
    Grants "Count";
    Replays "Count";
    TakeOvers "Count";
    Refusals "Count";
    HeldTime "Milliseconds";
    WaitTime "Milliseconds";
    OldestWait "Milliseconds";
    QueueDepth "Count";
    PermitsDiffer "Count";
    Lost "Count";
    Revived "Count";
    Corrupt "Count";
    Unavailable "Count";
    Throttles "Count";
    StepFunctionsThrottles "Count";
    Denied "Count";
    FailedStarts "Count";
    UnguardedRedrives "Count";
    Sweeps "Count";
    SweepExamined "Count";
    SweepFreed "Count";
    ClockDifference "Milliseconds";
    Latency "Milliseconds";
}

impl Metric {
    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        METRICS[self as usize].0
    }

    /// The unit, as `CloudWatch` knows it.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        METRICS[self as usize].1
    }

    /// Whether several values add up. Of the others the largest counts.
    const fn is_counter(self) -> bool {
        !matches!(
            self,
            Self::HeldTime
                | Self::WaitTime
                | Self::OldestWait
                | Self::QueueDepth
                | Self::ClockDifference
                | Self::Latency
        )
    }

    /// The metric of a grant of this kind.
    #[must_use]
    pub const fn of_grant(kind: GrantKind) -> Self {
        match kind {
            GrantKind::New => Self::Grants,
            GrantKind::Replayed | GrantKind::Reentered => Self::Replays,
            GrantKind::Takeover => Self::TakeOvers,
        }
    }
}

/// One value for each metric that was reported: counts add up; of lengths, depths and differences the largest is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts([Option<u64>; METRICS.len()]);

impl Counts {
    /// Adds a value.
    pub fn add(&mut self, metric: Metric, value: u64) {
        let counted = &mut self.0[metric as usize];
        *counted = Some(match *counted {
            None => value,
            Some(before) if metric.is_counter() => before.saturating_add(value),
            Some(before) => before.max(value),
        });
    }

    /// The values, in the order of [`METRICS`].
    pub fn values(&self) -> impl Iterator<Item = (Metric, u64)> {
        let counted = ALL.into_iter().zip(self.0);
        counted.filter_map(|(metric, value)| Some((metric, value?)))
    }
}

tokio::task_local! {
    /// Those of the work that [`counted`] does.
    static COUNTS: RefCell<Counts>;
}

/// Does `work`, and counts what the rules report meanwhile. It needs no subscriber: `tracing` may remember for good that
/// nobody wants an event, if a thread without a subscriber reports it first.
pub fn counted<T>(work: impl Future<Output = T>) -> impl Future<Output = (T, Counts)> {
    // On the heap, because a future that is moved into another one takes its place twice.
    let work = Box::pin(work);
    COUNTS.scope(RefCell::default(), async {
        let done = work.await;
        (done, COUNTS.with(RefCell::take))
    })
}

/// Reports a value that no response contains.
pub(crate) fn record(metric: Metric, value: u64) {
    let _ = COUNTS.try_with(|counts| counts.borrow_mut().add(metric, value));
    tracing::info!(target: TARGET, metric = metric.name(), value);
}

/// Reports a length of time.
pub(crate) fn record_duration(metric: Metric, length: Duration) {
    record(
        metric,
        u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Acquire, Error, Execution, Leases, Memory, Settings, SweepBounds, TaskToken, Timestamp,
        Wait, WaitTime,
        store::wire::{Before, Wire},
        test_support::{FakeStepFunctions, grant, make},
    };

    fn values(counts: &Counts) -> Vec<(&'static str, u64)> {
        counts
            .values()
            .map(|(metric, n)| (metric.name(), n))
            .collect()
    }

    #[test]
    fn counts_add_others_keep_maximum() {
        let mut counts = Counts::default();
        for (metric, value) in [
            (Metric::Unavailable, 1),
            (Metric::Unavailable, 2),
            (Metric::QueueDepth, 3),
            (Metric::QueueDepth, 1),
            (Metric::WaitTime, 5),
            (Metric::WaitTime, 9),
        ] {
            counts.add(metric, value);
        }
        let expected = [("WaitTime", 9), ("QueueDepth", 3), ("Unavailable", 3)];
        assert_eq!(values(&counts), expected);
    }

    #[tokio::test]
    async fn metrics_are_counted_where_they_happen() {
        record(Metric::QueueDepth, 5);
        let (told, counts) = counted(async {
            record(Metric::QueueDepth, 7);
            record_duration(Metric::HeldTime, Duration::from_secs(2));
            let unheard = Error::Unavailable {
                problem: String::new(),
                source: None,
            };
            unheard.count();
            for action in ["dynamodb:Query", "states:DescribeExecution"] {
                let throttled = Error::Throttled {
                    action,
                    resource: String::new(),
                    source: crate::Cause::said("no"),
                };
                throttled.count();
            }
            "done"
        })
        .await;
        let expected = [
            ("HeldTime", 2000),
            ("QueueDepth", 7),
            ("Unavailable", 1),
            ("Throttles", 1),
            ("StepFunctionsThrottles", 1),
        ];
        assert_eq!((told, &values(&counts)[..]), ("done", &expected[..]));
    }

    #[tokio::test]
    async fn another_number_of_permits_is_counted() {
        let leases = Leases::new(Memory::new(), Settings::default());
        let ask = async |permits, id: &str| {
            let request = make::request(make::key("k"), "h", Duration::from_mins(1));
            let request = request.request_id(make::request_id(id));
            let asked = leases.acquire(request.permits(make::permits(permits)));
            let (asked, counts) = counted(asked).await;
            let _ = asked.expect("an answer");
            counts
        };
        for (permits, id) in [(2, "a"), (2, "b"), (2, "c")] {
            assert_eq!(ask(permits, id).await, Counts::default());
        }
        for permits in [1, 3] {
            let counts = ask(permits, "c").await;
            assert_eq!(values(&counts), [("PermitsDiffer", 1)], "{permits}");
        }
        assert_eq!(ask(3, "a").await, Counts::default(), "a replay");
        let (key, limit) = (make::key("k"), crate::LimitedTo::new(2).ok());
        let limited = leases.limit_to(&key, limit, &make::because()).await;
        let _ = limited.expect("an answer");
        assert_eq!(
            ask(3, "c").await,
            Counts::default(),
            "a stored limit counts"
        );
    }

    #[tokio::test]
    async fn sweep_reports_oldest_wait() {
        let clock = make::clock();
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::clone(&clock) as _)
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let hour = Duration::from_hours(1);
        for (key, age) in [("a", 0), ("b", 60), ("c", 90)] {
            grant(&leases, make::request(make::key(key), "holder", hour)).await;
            clock.advance(Duration::from_secs(age));
            for n in 0..2 {
                let queue = Wait {
                    task_token: TaskToken::new(format!("{key}{n}")).expect("valid"),
                    wait: WaitTime::new(hour).expect("valid"),
                    latest: false,
                };
                let waits = make::of_execution(make::key(key), n);
                let joined = leases.acquire_queued(waits, queue).await;
                joined.expect("queued");
                clock.advance(Duration::from_secs(1));
            }
        }
        let (swept, counts) = counted(leases.sweep(SweepBounds::Schedule)).await;
        swept.expect("swept");
        let of_a = 2 + 60 + 2 + 90 + 2;
        let expected = [("OldestWait", of_a * 1000), ("QueueDepth", 2)];
        assert_eq!(values(&counts), expected);
    }

    #[tokio::test]
    async fn sweep_reports_wait_in_pool() {
        let clock = make::clock();
        let queue = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::clone(&clock) as _)
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let pool = crate::Pool::new(&make::key("pool"), make::permits(1));
        for key in ["a", "b"] {
            let wait = Wait {
                task_token: TaskToken::new(key).expect("valid"),
                wait: WaitTime::DAY,
                latest: false,
            };
            let request = make::of_execution(make::key(key), key).pool(pool.clone());
            let asked = queue.acquire_queued(request, wait).await;
            asked.expect("an answer");
        }
        clock.advance(Duration::from_mins(2));
        let (swept, counts) = counted(queue.sweep(SweepBounds::Schedule)).await;
        swept.expect("swept");
        let oldest: Vec<_> = values(&counts)
            .into_iter()
            .filter(|(name, _)| *name == "OldestWait")
            .collect();
        assert_eq!(oldest, [("OldestWait", 120_000)]);
    }

    #[tokio::test]
    async fn release_and_reap_report_held_time() {
        let clock = make::clock();
        let calls = Arc::new(FakeStepFunctions::default());
        let ended = Execution::Ended {
            stopped_at: Timestamp::MAX,
            redrivable: true,
            all_answered: true,
        };
        calls.set_execution("h", ended);
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::clone(&clock) as _)
            .with_engine(calls);
        for by_reap in [false, true] {
            let work = async {
                let (key, holder) = (make::key("k"), make::holder("h"));
                let ttl = make::ttl(Duration::from_mins(1));
                let wanted = Acquire::new(key, holder.clone(), ttl);
                let granted = leases.acquire(wanted).await.expect("an answer");
                let lease = granted.granted().expect("a grant").lease;
                clock.advance(Duration::from_secs(7));
                for _ in 0..2 {
                    if by_reap {
                        leases.reap(&holder).await.expect("an answer");
                    } else {
                        let _ = leases.release(&lease).await.expect("an answer");
                    }
                }
            };
            let ((), counts) = counted(work).await;
            assert_eq!(values(&counts), [("HeldTime", 7000)], "{by_reap}");
        }
    }

    /// It takes long until the next has the key.
    #[tokio::test(start_paused = true)]
    async fn held_time_is_without_the_serving() {
        let clock = make::clock();
        let late = Arc::clone(&clock);
        // The grant; the end of it, with the next grant.
        let store = Wire::meddled(Before::Apply, 2, move |_| {
            late.advance(Duration::from_secs(20));
        });
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(Arc::clone(&clock) as _)
            .with_engine(calls.clone());
        for who in ["a", "b"] {
            let wait = Wait {
                task_token: TaskToken::new(who).expect("valid"),
                wait: WaitTime::DAY,
                latest: false,
            };
            let asked = leases.acquire_queued(make::of_execution(make::key("k"), who), wait);
            asked.await.expect("an answer");
        }
        clock.advance(Duration::from_secs(7));
        let over = Execution::Ended {
            stopped_at: leases.now(),
            redrivable: false,
            all_answered: true,
        };
        let a = make::execution("a");
        calls.set_execution(a.as_str(), over);
        let (reaped, counts) = counted(leases.reap(&a)).await;
        reaped.expect("an answer");
        assert!(store.is_done(), "it took long");
        let held = values(&counts).into_iter().find(|of| of.0 == "HeldTime");
        let (_, held) = held.expect("a lease ended");
        assert!((7000..8000).contains(&held), "{held}");
    }

    #[tokio::test]
    async fn who_is_served_by_sweep_does_not_wait() {
        let clock = make::clock();
        let table = Memory::new();
        let plain = Leases::new(table, Settings::default()).with_clock(Arc::clone(&clock) as _);
        let leases = plain
            .clone()
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let hour = Duration::from_hours(1);
        let held = grant(&plain, make::request(make::key("k"), "holder", hour)).await;
        let wait = Wait {
            task_token: TaskToken::new("a").expect("valid"),
            wait: WaitTime::DAY,
            latest: false,
        };
        let asked = leases.acquire_queued(make::of_execution(make::key("k"), "a"), wait);
        asked.await.expect("queued");
        clock.advance(Duration::from_mins(2));
        // It serves nobody.
        let _ = plain.release(&held.lease).await.expect("released");
        let (swept, counts) = counted(leases.sweep(SweepBounds::Schedule)).await;
        assert_eq!(swept.expect("swept").granted, 1);
        let oldest = values(&counts).into_iter().find(|of| of.0 == "OldestWait");
        assert_eq!(oldest, None);
    }
}
