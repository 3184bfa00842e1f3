//! `leasehold force-release --stop`: stops the execution that has a lease, and waits until the stack has ended the lease.

use std::time::Duration;

use aws_sdk_sfn::types::ExecutionStatus;
use leasehold::{AuditReason, HeldView, Holder, Key, KeyDetails, LeaseView, Timestamp, ViewUntil};

use super::OperatorArgs;
use crate::connect::TableClient;
use crate::durations::{render, when};
use crate::exit::{Code, Failure};
use crate::output::print_error;
use crate::{lease_text, start, step_functions};
use leasehold_net::quoted;

/// How long to wait for the stack to look at the execution: two sweeps, and half a minute.
const LOOKS: Duration = Duration::from_secs(150);

/// Stops the execution that has this lease, and waits until the lease has ended or is known to be kept.
pub(super) async fn stop(
    operator: &OperatorArgs,
    table_client: &TableClient,
    lease: &LeaseView,
    execution: &Holder,
) -> Result<Code, Failure> {
    let leases = &table_client.leases;
    let sfn = step_functions::client(table_client)?;
    ask_to_stop(table_client, &lease.key, execution, &operator.because()).await?;
    let name = lease_text::name(lease);
    print_error(&format!(
        "asked Step Functions to stop {execution}; waiting until its lease of {name} has ended"
    ));
    let until = leases.now().plus(LOOKS);
    loop {
        let view = leases.key_view(&lease.key, KeyDetails::default()).await?;
        let mut held = view.held().map(|one| &one.lease);
        let same = |other: &&LeaseView| {
            other.permit == lease.permit && other.fencing_token == lease.fencing_token
        };
        let Some(held) = held.find(same).and_then(|lease| lease.held.as_ref()) else {
            operator.print(
                &serde_json::json!({"outcome": "stopped", "execution": execution}),
                &format!("{execution} no longer holds {name}"),
            )?;
            return Ok(Code::DONE);
        };
        let is_kept = is_kept(held)
            && step_functions::status(&sfn, execution).await? != ExecutionStatus::Succeeded;
        if let Some(failure) = remains(held, is_kept, leases.now()) {
            return Err(failure);
        }
        if leases.now() >= until {
            let what = format!("the lease of {name} has not ended yet");
            let advice = "does the stack's sweep run? `leasehold doctor` checks it";
            return Err(Failure::new(Code::FAILURE, what).advice(advice));
        }
        leases.sleep(step_functions::PAUSE).await;
    }
}

/// The failure if what has this lease is no execution that can be stopped.
pub(crate) fn check_stoppable(held: &HeldView) -> Result<(), Failure> {
    let execution = &held.holder;
    if !matches!(held.until, ViewUntil::Execution { .. }) {
        let what = format!("--stop: {execution} is no execution whose lease lasts while it runs");
        return Err(Failure::usage(what).advice("leave --stop out, which ends the lease"));
    }
    if execution.is_durable_execution() {
        let arn = quoted(execution.as_str());
        return Err(Failure::usage(format!(
            "--stop: {execution} is of a durable function; stop it by aws lambda stop-durable-execution \
             --durable-execution-arn {arn}, and sweep ends its lease"
        )));
    }
    Ok(())
}

/// Stops the execution that has the key. That of a start that was granted the key and has not begun is begun first.
pub(crate) async fn ask_to_stop(
    table_client: &TableClient,
    key: &Key,
    execution: &Holder,
    because: &AuditReason,
) -> Result<(), Failure> {
    let _ = table_client
        .leases
        .note_stop(key, execution, because)
        .await?;
    let sfn = step_functions::client(table_client)?;
    let stop = sfn.stop_execution().execution_arn(execution.as_str());
    let stop = stop.error("Leasehold.Stopped");
    let stop = stop.cause(format!("{}: {}", because.who, because.why));
    let mut stopped = stop.clone().send().await;
    if step_functions::is_unknown(&stopped) {
        if !start::begin(table_client, key, execution).await? {
            let what =
                format!("Step Functions does not know {execution}: there is nothing to stop");
            let (key, arn) = (quoted(key.as_str()), quoted(execution.as_str()));
            let advice = format!(
                "a start that is not to begin: leasehold dismiss-start {key} {arn}; any other lease: without --stop"
            );
            return Err(Failure::new(Code::FAILURE, what).advice(advice));
        }
        // A call that begins it may have been under way: begun now, it does not begin later. It may not show at once.
        for _ in 0..5 {
            stopped = stop.clone().send().await;
            if !step_functions::is_unknown(&stopped) {
                break;
            }
            table_client.leases.sleep(step_functions::PAUSE).await;
        }
    }
    stopped.map_err(|error| step_functions::failed("StopExecution", &error))?;
    Ok(())
}

/// Whether a lease stays after a failure of its execution, as far as the lease says.
fn is_kept(held: &HeldView) -> bool {
    match held.until {
        ViewUntil::Execution {
            keep,
            look_again_at: None,
            ..
        } => !keep.as_duration().is_zero(),
        _ => false,
    }
}

/// The failure if the lease of a stopped execution is not going to end soon.
fn remains(held: &HeldView, is_kept: bool, now: Timestamp) -> Option<Failure> {
    let execution = &held.holder;
    let (what, advice) = match held.until {
        ViewUntil::Execution {
            look_again_at: Some(at),
            ..
        } => {
            let when = when(at, now);
            let what = format!(
                "a task of {execution} may still be at work; its lease ends {when}, at the sweep after that"
            );
            let advice = "end it now without --stop, if you know that nothing is at work";
            (what, advice)
        }
        ViewUntil::Execution { keep, .. } if is_kept => {
            let keep = render(keep.as_duration());
            let what =
                format!("the lease of {execution} is kept for {keep} after its end, for a redrive");
            let advice = "end it now without --stop, if nobody will redrive it";
            (what, advice)
        }
        _ => return None,
    };
    Some(Failure::new(Code::FAILURE, what).advice(advice))
}
