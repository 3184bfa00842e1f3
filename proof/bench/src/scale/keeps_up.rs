//! How many waiters a second may be served, if one sweep a minute is to clear up behind all of them.

use std::time::{Duration, Instant};

use leasehold::{Reaped, SweepBounds};
use serde::Serialize;

use super::field::{Field, execution, failed};
use crate::Error;

/// What one sweep did behind waiters that were served.
#[derive(Clone, Debug, Serialize)]
pub struct KeepsUp {
    /// In how many lines they had waited.
    pub lines: u64,
    /// How many were served.
    pub served: u64,
    /// What is added to the way of each request, in milliseconds.
    pub latency_ms: u64,
    /// The sweep's requests to the table.
    pub requests: u64,
    /// Its time, in seconds.
    pub seconds: f64,
    /// How many it clears up behind in each second of a minute: if it takes all of its invocation's time, which is a minute.
    pub served_per_second: f64,
}

const WAIT: Duration = Duration::from_hours(10);

/// Lines whose waiters have gone, and a sweep, each request of which takes `latency` longer.
///
/// # Errors
/// [`Error`] when the database refuses, or something is left.
pub async fn measure(lines: u64, served: u64, latency: Duration) -> Result<KeepsUp, Error> {
    let field = Field::empty().await?;
    for line in 0..lines {
        let key = format!("orders/{line}");
        field.grant(&key, &format!("holder/{line}")).await?;
        for n in 0..served / lines {
            // As one who was served: its item is there, and it has no place in line any more.
            let waiter = format!("waiter/{line}/{n}");
            field.join(&key, &waiter, WAIT).await?;
            let waiter = execution(&waiter)?;
            field
                .calls
                .set_execution(waiter.as_str(), crate::site::ENDED);
            let gone = field.leases.reap(&waiter).await;
            match gone.map_err(failed("reap"))? {
                Reaped::Reaped { left: 1, .. } => {}
                other => return Err(failed("leave the line")(format!("{other:?}"))),
            }
        }
    }
    field.site.set_latency(latency);
    let (before, began) = (field.site.spent(), Instant::now());
    let swept = field.leases.sweep(SweepBounds::Schedule).await;
    let seconds = began.elapsed().as_secs_f64();
    let requests = field.site.spent().since(&before).cycle.total();
    let swept = swept.map_err(failed("sweep"))?;
    field.site.set_latency(Duration::ZERO);
    let again = field.leases.sweep(SweepBounds::Schedule).await;
    let left = again.map_err(failed("sweep"))?.examined - lines;
    if left > 0 || swept.examined != served + lines {
        return Err(failed("clear up")(format!(
            "{left} are left after {swept:?}"
        )));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let served_per_second = served as f64 / seconds;
    Ok(KeepsUp {
        lines,
        served,
        latency_ms: u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
        requests,
        seconds,
        served_per_second,
    })
}

/// The table on the terminal.
pub(super) fn told(all: &[KeepsUp]) -> String {
    let head = "lines  served  ms a request  sweep's requests  served a second, at most";
    let row = |one: &KeepsUp| {
        format!(
            "{:>5}  {:>6}  {:>12}  {:>16}  {:>23.0}",
            one.lines, one.served, one.latency_ms, one.requests, one.served_per_second
        )
    };
    let lines: Vec<_> = std::iter::once(head.to_owned())
        .chain(all.iter().map(row))
        .chain([String::new()])
        .collect();
    lines.join("\n")
}
