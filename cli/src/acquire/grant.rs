//! Acquiring a lease, with retries.

use std::time::Duration;

use leasehold::{Acquire, AcquireOutcome, Acquired, Contention, Error, Granted, RetryPolicy};
use rustix::process::Signal;

use crate::connect::TableClient;
use crate::durations::render;
use crate::exit::{Code, Failure, in_full};
use crate::lease_text;
use crate::output::print_error;
use crate::shell::quoted;
use crate::signals::Signals;

/// Retries acquire until the lease is granted or `wait` has passed. A signal ends the wait, and a lease that was granted
/// meanwhile is released.
pub(crate) async fn get(
    table_client: &TableClient,
    request: &Acquire,
    wait: Duration,
    quiet: bool,
    signals: &mut Signals,
) -> Result<Granted, Failure> {
    tokio::select! {
        granted = ask(table_client, request, wait, quiet) => granted,
        signal = signals.next() => Err(give_up(table_client, request, signal).await),
    }
}

async fn ask(
    table_client: &TableClient,
    request: &Acquire,
    wait: Duration,
    quiet: bool,
) -> Result<Granted, Failure> {
    let leases = &table_client.leases;
    let why = match leases.acquire(request.clone()).await {
        Ok(Acquired::Granted(granted)) => return Ok(granted),
        Ok(Acquired::Held(contention)) if wait.is_zero() => {
            return Err(held(table_client, &contention));
        }
        Ok(Acquired::Held(contention)) => describe(table_client, &contention),
        Err(error @ (Error::Throttled { .. } | Error::Unavailable { .. })) if !wait.is_zero() => {
            in_full(&error)
        }
        Err(error) => return Err(may_be_granted(error, request)),
    };
    if !quiet {
        print_error(&format!("{why}; retries for {}", render(wait)));
    }
    match leases
        .acquire_within(request.clone(), RetryPolicy::with_budget(wait))
        .await
        .map_err(|error| may_be_granted(error, request))?
    {
        AcquireOutcome::Granted(granted) => Ok(granted),
        AcquireOutcome::TimedOut(contention) => Err(held(table_client, &contention)),
    }
}

/// Without its id, a request whose outcome is unknown could not be repeated.
fn may_be_granted(error: Error, request: &Acquire) -> Failure {
    let is_unknown = matches!(error, Error::Unavailable { .. });
    let failure = Failure::from(error);
    if !is_unknown {
        return failure;
    }
    let (holder, id) = (request.holder.as_str(), request.request_id.as_str());
    failure.advice(format!(
        "it may have been granted: the same command with --holder {} --request-id {} asks for the same lease; otherwise one that was \
         granted expires by itself",
        quoted(holder),
        quoted(id)
    ))
}

/// A request may still be in flight. Repeating it with the same request id shows its outcome.
async fn give_up(table_client: &TableClient, request: &Acquire, signal: Signal) -> Failure {
    if let Ok(Acquired::Granted(granted)) = table_client.leases.acquire(request.clone()).await {
        let _ = table_client.leases.release(&granted.lease).await;
    }
    let code = Code::of_signal(signal.as_raw());
    Failure::new(code, "interrupted; no lease is held")
}

fn held(table_client: &TableClient, contention: &Contention) -> Failure {
    Failure::new(Code::HELD, describe(table_client, contention))
}

fn describe(table_client: &TableClient, Contention { held, .. }: &Contention) -> String {
    lease_text::held(held, table_client.leases.now())
}
