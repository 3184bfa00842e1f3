//! `leasehold force-release`: ends a lease without its handle, or stops the execution that has it.

use clap::Args;
use leasehold::{
    ForceReleaseOptions, ForceReleaseOutcome, HeldView, Inspection, KeyView, ViewUntil,
};

use super::{OperatorArgs, stop};
use crate::connect::TableClient;
use crate::exit::{Code, Failure};
use crate::lease_text;
use crate::output::{print, print_error};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold force-release orders/42 --who alice --why 'worker 7 hangs, ticket 1234'
  leasehold force-release partner-api --permit 3 --yes --who oncall --why 'instance was terminated'

It shows the holder and asks for confirmation; without a terminal, --yes is required. Only the grant that was shown is
ended: if somebody else holds the key by then, nothing is changed. The old holder learns of it at its next extend, and may
work until then: stop it first, or fence the resource with the token that is printed.

A lease that lasts while an execution runs needs no extend, so its execution learns nothing, and works on beside the next
holder. With --stop the execution is stopped instead, and the lease ends as after any stop: at once if every task has
answered, which the command waits for. If it is kept, for the grace time of the stack or for a redrive (keep_seconds), the
command says so and does not wait. The execution of a start that has its turn and has not begun is begun first.

Requests that wait in the queue are served by the next sweep of the stack, which runs every minute.

Exit codes: 0 ended, 1 nobody holds the key, you declined, or the lease of a stopped execution is kept.")]
pub(crate) struct ForceRelease {
    /// The permit, counted from 0, if the key is a semaphore
    #[arg(long, value_name = "N")]
    permit: Option<u16>,
    /// Stop the execution that holds the lease, and wait until its lease has ended, unless it is kept
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl ForceRelease {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let operator = &self.operator;
        let (table_client, view) = operator.connect().await?;
        let held: Vec<_> = view
            .held()
            .filter(|one| self.permit.is_none_or(|permit| permit == one.lease.permit))
            .collect();
        let what = match (self.permit, held.as_slice()) {
            (Some(permit), _) => format!("permit {permit} of {}", operator.key),
            (None, [one]) => lease_text::name(&one.lease),
            _ => operator.key.to_string(),
        };
        let permit = match held.as_slice() {
            [one] => *one,
            [] => {
                let words = format!("nobody holds {what}");
                operator.print(&ForceReleaseOutcome::NotHeld, &words)?;
                return Ok(Code::FAILURE);
            }
            several => return Err(unnamed(&view, several)),
        };
        let Some(held) = &permit.lease.held else {
            return Ok(Code::FAILURE);
        };
        let holder = &held.holder;
        let lasts_while_it_runs = matches!(held.until, ViewUntil::Execution { .. });
        if self.stop {
            if !lasts_while_it_runs {
                let what =
                    format!("--stop: {holder} is no execution whose lease lasts while it runs");
                return Err(Failure::usage(what));
            }
            operator.confirm(&view, [permit], &format!("Stop {holder}?"))?;
            return stop::stop(operator, &table_client, &permit.lease, holder).await;
        }
        if lasts_while_it_runs {
            print_error(work_goes_on(held));
        }
        operator.confirm(&view, [permit], &format!("Evict {holder}?"))?;
        self.evict(&table_client, &view, permit, (held, &what))
            .await
    }

    async fn evict(
        &self,
        table_client: &TableClient,
        view: &KeyView,
        permit: &Inspection,
        (held, what): (&HeldView, &str),
    ) -> Result<Code, Failure> {
        let (operator, holder) = (&self.operator, &held.holder);
        let which = ForceReleaseOptions {
            permit: Some(permit.lease.permit),
            fencing_token: Some(permit.lease.fencing_token),
        };
        let (leases, because) = (&table_client.leases, operator.because());
        let forced = leases.force_release(&operator.key, which, &because);
        let forced = forced.await?;
        match &forced {
            ForceReleaseOutcome::Forced { fencing_token, .. } => {
                operator.print(&forced, &format!("{what} is released; {holder} had it"))?;
                if !operator.json {
                    print(&format!(
                        "write to the resource with token {fencing_token}, so that it refuses this holder's writes"
                    ))?;
                }
                operator.print_who_waits(view)?;
                Ok(Code::DONE)
            }
            ForceReleaseOutcome::Cancelled { free_at, .. } => {
                operator.print(
                    &forced,
                    &format!("{holder} had not begun, and will not: {what} is free at {free_at}, when no late call can begin it"),
                )?;
                Ok(Code::DONE)
            }
            ForceReleaseOutcome::NotHeld => {
                operator.print(&forced, &format!("{holder} no longer holds {what}"))?;
                Ok(Code::FAILURE)
            }
        }
    }
}

/// The failure if it is not clear which permit is meant.
fn unnamed(view: &KeyView, held: &[&Inspection]) -> Failure {
    let (number, key) = (held.len(), &view.key);
    let permits = held.iter().map(|one| one.lease.permit.to_string());
    let permits: Vec<_> = permits.collect();
    let failure = Failure::usage(format!("{number} permits of {key} are held: name one"));
    failure.advice(format!("--permit {}", permits.join(", or ")))
}

/// An evicted execution may work on beside the next holder.
const fn work_goes_on(held: &HeldView) -> &'static str {
    match held.until {
        ViewUntil::Execution {
            look_again_at: Some(_),
            ..
        } => {
            "its execution is over or unknown, and a task of it may still be at work beside the next holder"
        }
        _ => {
            "its execution may still run, and learns nothing of this: it works on beside the next holder; \
             --stop stops it first"
        }
    }
}
