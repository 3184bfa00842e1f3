//! How long a sweep takes that finds a thousand at once: waiters whose time is over, waiters whose executions are gone,
//! and leases whose holders are gone.
//!
//! The proxy delays every request, as a network does. Nothing else waits, so the time is that of one worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::conformance::FakeStepFunctions;
use leasehold::{
    Acquire, BadValue, Key, Leases, ManualClock, Queue, SweepBounds, TaskToken, Timestamp, Ttl,
    WaitTime,
};

use crate::clients::leasehold::{Library, holder};
use crate::fixture::Fixture;
use crate::report::{Found, Measure};
use crate::{Error, Options, failed, ratio};

/// How long each request takes.
const LATENCY: Duration = Duration::from_millis(10);
/// Keys with a queue each, side by side in one sweep.
const QUEUES: usize = 10;

/// What a sweep finds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Finds {
    /// Waiters that have waited long enough, in queues of live holders.
    TimedOut,
    /// Waiters that nobody can notify, in queues of holders that are gone.
    Gone,
    /// Leases of holders that are gone.
    Expired,
}

/// What it took until nothing was left.
#[derive(Clone, Copy, Debug)]
pub struct Sweeps {
    /// From the first request to the last response.
    pub seconds: f64,
    /// Requests to the table.
    pub requests: u64,
    /// Calls of sweep.
    pub calls: u64,
}

pub(crate) async fn measure(options: &Options) -> Result<Found, Error> {
    let many = if options.quick { 100 } else { 1000 };
    let mut measures = Vec::new();
    for (finds, what) in [
        (Finds::TimedOut, "waiters whose time is over"),
        (Finds::Gone, "waiters whose executions are gone"),
        (Finds::Expired, "leases of holders that are gone"),
    ] {
        let sweeps = run(finds, many).await?;
        let one_by_one = ratio(sweeps.requests, 1) * LATENCY.as_secs_f64();
        let measure = Measure::new(
            format!("time for a sweep to see to {many} {what}"),
            "seconds",
            sweeps.seconds,
        );
        measures.push(
            measure
                .peer("one request at a time, by arithmetic", one_by_one)
                .at_most(60.0),
        );
        measures.push(Measure::new(
            format!("requests for each of {many} {what}"),
            "requests",
            ratio(sweeps.requests, many as u64),
        ));
    }
    Ok(Found {
        measures,
        charts: Vec::new(),
    })
}

/// Makes what is to be found, and sweeps until nothing is left.
///
/// # Errors
/// [`Error`] when a call fails, or sweep leaves something for good.
pub async fn run(finds: Finds, many: usize) -> Result<Sweeps, Error> {
    let fixture = Fixture::start().await?;
    let library = Library::at(fixture.measured_endpoint()).await?;
    let workflows = Arc::new(FakeStepFunctions::default());
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_795_000_000_000)));
    let leases = library.leases.clone().with_clock(clock.clone());
    let leases = leases.with_workflows(workflows.clone());
    match finds {
        Finds::Expired => {
            for n in 0..many {
                grant(&leases, &format!("crashed/{n}"), 60).await?;
            }
        }
        Finds::TimedOut | Finds::Gone => {
            let ttl = if finds == Finds::Gone { 60 } else { 86_400 };
            for n in 0..QUEUES {
                grant(&leases, &format!("queue/{n}"), ttl).await?;
            }
            for n in 0..many {
                let token = format!("token-{n}");
                if finds == Finds::Gone {
                    workflows.expire_token(&token);
                }
                let queue = || {
                    Ok(Queue {
                        task_token: TaskToken::new(token)?,
                        wait: WaitTime::new(Duration::from_secs(if finds == Finds::Gone {
                            86_400
                        } else {
                            60
                        }))?,
                    })
                };
                let queue = queue().map_err(failed::<BadValue>("wait"))?;
                let ask = ask(&format!("queue/{}", n % QUEUES), &format!("waiter-{n}"), 60)?;
                let joined = leases.acquire_queued(ask, queue).await;
                joined.map_err(failed("join a queue"))?;
            }
        }
    }
    clock.advance(Duration::from_secs(120));
    fixture.measured_endpoint().set_latency(LATENCY);
    let before = fixture.measured_endpoint().counts();
    let began = Instant::now();
    let mut calls = 0;
    while left(&library.client).await? > usize::from(finds == Finds::TimedOut) * QUEUES {
        let swept = leases.sweep(SweepBounds::Schedule).await;
        swept.map_err(failed("sweep"))?;
        calls += 1;
        if calls > 50 {
            return Err(Error::Failed("sweep leaves something".to_owned()));
        }
    }
    let counts = fixture.measured_endpoint().counts().since(&before);
    Ok(Sweeps {
        seconds: began.elapsed().as_secs_f64(),
        // The look whether anything is left, before each and at the end, is not sweep's.
        requests: counts.total() - counts.of("Scan"),
        calls,
    })
}

fn ask(key: &str, who: &str, ttl: u64) -> Result<Acquire, Error> {
    let ask = || {
        let ttl = Ttl::new(Duration::from_secs(ttl))?;
        Ok(Acquire::new(Key::new(key)?, holder(who)?, ttl))
    };
    ask().map_err(failed::<BadValue>("ask for a lease"))
}

async fn grant(leases: &Leases<leasehold::DynamoDb>, key: &str, ttl: u64) -> Result<(), Error> {
    let acquired = leases.acquire(ask(key, "holder", ttl)?).await;
    acquired.map(drop).map_err(failed("acquire"))
}

/// Leases and waiters that are in the index.
async fn left(client: &aws_sdk_dynamodb::Client) -> Result<usize, Error> {
    let mut pages = client
        .scan()
        .table_name(crate::clients::leasehold::TABLE)
        .index_name("held")
        .into_paginator()
        .items()
        .send();
    let mut left = 0;
    while let Some(item) = pages.next().await {
        item.map_err(failed("read the index"))?;
        left += 1;
    }
    Ok(left)
}
