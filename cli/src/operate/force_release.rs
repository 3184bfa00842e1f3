//! `leasehold force-release`: ends a lease without its handle, or stops the execution that has it.

use clap::Args;
use leasehold::{ForceReleaseOutcome, Inspection, KeyView};

use super::{Change, OperatorArgs, check_stoppable, stop::stop};
use crate::exit::{Code, Failure};
use crate::lease_text;
use crate::named::Named;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold force-release orders/42 --who alice --why 'worker 7 hangs, ticket 1234'
  leasehold force-release --pool imports --permit 2 --who alice --why 'ticket 1234'
  leasehold force-release partner-api --permit 3 --yes --who oncall --why 'instance was terminated'

It shows the holder and asks for confirmation; without a terminal, --yes is required. Only the grant that was shown is
ended: if somebody else holds the key by then, nothing is changed. The old holder learns of it at its next extend, and may
work until then: stop it first, or fence the resource with the token that is printed.

A lease that lasts while an execution runs needs no extend, so its execution learns nothing, and works on beside the next
holder. With --stop the execution is stopped instead, and the lease ends as after any stop: at once if every task has
answered, which the command waits for. If it is kept, for the grace period of the stack or for a redrive (keep_seconds), the
command says so and does not wait. The execution of a start that was granted the key and has not begun is begun first.

With --pool it ends the lease of the holder of that permit of the pool: of the key too, since it is one lease.

The first waiter in the queue is served at once: by the stack's function sweep if LEASEHOLD_SWEEP names it, otherwise with
your rights in Step Functions. If neither can be, the next sweep of the stack serves it, within a minute.

Exit codes: 0 ended, 1 nobody holds the key, you declined, or the lease of a stopped execution is kept.")]
pub(crate) struct ForceRelease {
    /// The permit, counted from 0, if the key is a semaphore
    #[arg(long, value_name = "N")]
    permit: Option<u16>,
    /// Stop the execution that holds the lease, and wait until its lease has ended, unless it is kept
    #[arg(long)]
    stop: bool,
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl ForceRelease {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let operator = &self.operator;
        let Some(key) = self.named.key() else {
            return Err(Failure::usage("no key is named"));
        };
        let (table_client, view) = operator.connect(key).await?;
        let held: Vec<_> = view
            .held()
            .filter(|one| self.permit.is_none_or(|permit| permit == one.lease.permit))
            .collect();
        let what = match (self.permit, held.as_slice()) {
            (Some(permit), _) => format!("permit {permit} of {}", key.label()),
            (None, [one]) => lease_text::name(&one.lease),
            _ => key.label().into_owned(),
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
        if self.stop {
            check_stoppable(held)?;
            let question = format!("Stop {}?", held.holder);
            operator.confirm(&view, [permit], &question)?;
            return stop(operator, &table_client, &permit.lease, &held.holder).await;
        }
        let change = Change::ForceRelease {
            lease: Box::new(permit.lease.clone()),
            held: Box::new(held.clone()),
            what,
        };
        operator
            .carry_out(&table_client, &view, [permit], &change)
            .await
    }
}

/// The failure if it is not clear which permit is meant.
fn unnamed(view: &KeyView, held: &[&Inspection]) -> Failure {
    let (number, key) = (held.len(), view.key.label());
    let permits = held.iter().map(|one| one.lease.permit.to_string());
    let permits: Vec<_> = permits.collect();
    let failure = Failure::usage(format!("{number} permits of {key} are held: name one"));
    failure.advice(format!("--permit {}", permits.join(", or ")))
}
