//! `leasehold force-release`, `freeze`, `unfreeze` and `limit`: acts of operators on a key. The key's row records who did it and why.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use aws_sdk_sfn::types::ExecutionStatus;
use clap::Args;
use leasehold::{
    AuditReason, Caller, ForceReleaseOptions, ForceReleaseOutcome, FreezeOutcome, HeldView, Holder,
    Inspected, Inspection, Key, LimitOutcome, LimitedTo, Operator, Reason, UnfreezeOutcome,
    ViewUntil,
};
use leasehold_asl::plain;

use crate::columns::pairs;
use crate::connect::{TableArgs, TableClient};
use crate::durations::render;
use crate::ended::Ended;
use crate::exit::{Code, Failure};
use crate::output::{json, print, print_error};
use crate::{environment, lease_text, start, step_functions};

/// Time limit for STS. After it, the act goes on without the caller.
const ASKING: Duration = Duration::from_secs(2);

/// The arguments of every act on a key.
#[derive(Args, Debug)]
pub(crate) struct Act {
    /// The key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// Who does it; recorded on the key and shown by inspect
    #[arg(long, value_parser = |text: &str| Operator::new(text))]
    who: Operator,
    /// Why; recorded and shown too
    #[arg(long, value_parser = |text: &str| Reason::new(text))]
    why: Reason,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Print JSON: the response of the function operate
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

impl Act {
    fn because(&self) -> AuditReason {
        AuditReason {
            who: self.who.clone(),
            why: self.why.clone(),
        }
    }

    async fn look(&self) -> Result<(TableClient, Vec<Inspection>), Failure> {
        let mut table_client = self.table_args.connect().await?;
        let caller = caller(&table_client).await;
        table_client.leases = table_client.leases.with_caller(caller);
        let seen = match table_client.leases.inspect(&self.key).await? {
            Inspected::Found { first, permits } if permits.is_empty() => vec![first],
            Inspected::Found { permits, .. } => permits,
            Inspected::Absent => Vec::new(),
        };
        Ok((table_client, seen))
    }

    /// Shows the leases concerned, and asks for confirmation.
    fn ask(
        &self,
        table_client: &TableClient,
        seen: &[Inspection],
        question: &str,
    ) -> Result<(), Failure> {
        if !self.yes {
            let now = table_client.leases.now();
            for one in seen {
                let details = lease_text::details(one, &[], &Ended::default(), now);
                eprintln!("{}\n", pairs(details));
            }
        }
        confirm(self.yes, question)
    }

    /// Says that others wait, who are not served by this command.
    fn tell_who_waits(&self, waiting: u64) -> Result<(), Failure> {
        let who = match waiting {
            0 => return Ok(()),
            1 => "one waits in the queue: the next sweep of the stack, within a minute, grants it to that one".to_owned(),
            n => format!("{n} wait in the queue: the next sweep of the stack, within a minute, grants it to the first"),
        };
        if self.json { Ok(()) } else { print(&who) }
    }

    fn tell(&self, answer: &impl serde::Serialize, words: &str) -> Result<(), Failure> {
        if self.json {
            print(&json(answer)?)
        } else {
            print(words)
        }
    }
}

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
    act: Act,
}

/// How long `--stop` waits for the stack to look at the execution: two sweeps, and half a minute.
const LOOKS: Duration = Duration::from_secs(150);

impl ForceRelease {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let act = &self.act;
        let (table_client, seen) = act.look().await?;
        let waiting = waiting(&seen);
        let held: Vec<_> = seen
            .into_iter()
            .filter(|one| one.lease.held.is_some())
            .filter(|one| self.permit.is_none_or(|permit| permit == one.lease.permit))
            .collect();
        let what = match (self.permit, held.as_slice()) {
            (Some(permit), _) => format!("permit {permit} of {}", act.key),
            (None, [one]) => lease_text::name(&one.lease),
            _ => act.key.to_string(),
        };
        let one = match held.as_slice() {
            [] => {
                act.tell(
                    &ForceReleaseOutcome::NotHeld,
                    &format!("nobody holds {what}"),
                )?;
                return Ok(Code::FAILURE);
            }
            [one] => one,
            several => {
                let permits: Vec<_> = several
                    .iter()
                    .map(|one| one.lease.permit.to_string())
                    .collect();
                let failure = Failure::usage(format!(
                    "{} permits of {} are held: name one",
                    several.len(),
                    act.key
                ));
                return Err(failure.advice(format!("--permit {}", permits.join(", or "))));
            }
        };
        let held_by = one.lease.held.as_ref();
        let holder = held_by
            .map(|held| held.holder.to_string())
            .unwrap_or_default();
        let execution = held_by
            .filter(|held| matches!(held.until, ViewUntil::Execution { .. }))
            .map(|held| held.holder.clone());
        if self.stop {
            let Some(execution) = execution else {
                return Err(Failure::usage(format!(
                    "--stop: {holder} is no execution whose lease lasts while it runs"
                )));
            };
            act.ask(&table_client, &held, &format!("Stop {holder}?"))?;
            return self.stop_it(&table_client, one, &execution).await;
        }
        if execution.is_some() {
            warn_of_its_work(held_by);
        }
        act.ask(&table_client, &held, &format!("Evict {holder}?"))?;
        let which = ForceReleaseOptions {
            permit: Some(one.lease.permit),
            fencing_token: Some(one.lease.fencing_token),
        };
        let forced = table_client
            .leases
            .force_release(&act.key, which, &act.because())
            .await?;
        match &forced {
            ForceReleaseOutcome::Forced { fencing_token, .. } => {
                act.tell(&forced, &format!("{what} is released; {holder} had it"))?;
                if !act.json {
                    print(&format!(
                        "write to the resource with token {fencing_token}, so that it refuses this holder's writes"
                    ))?;
                }
                act.tell_who_waits(waiting)?;
                Ok(Code::DONE)
            }
            ForceReleaseOutcome::Cancelled { free_at, .. } => {
                act.tell(
                    &forced,
                    &format!("{holder} had not begun, and will not: {what} is free at {free_at}, when no late call can begin it"),
                )?;
                Ok(Code::DONE)
            }
            ForceReleaseOutcome::NotHeld => {
                act.tell(&forced, &format!("{holder} no longer holds {what}"))?;
                Ok(Code::FAILURE)
            }
        }
    }
}

impl ForceRelease {
    /// Stops the execution, and waits until the stack has looked at it and ended its lease.
    async fn stop_it(
        &self,
        table_client: &TableClient,
        one: &Inspection,
        execution: &Holder,
    ) -> Result<Code, Failure> {
        if execution.is_durable_execution() {
            return Err(Failure::usage(format!(
                "--stop: {execution} is of a durable function; stop it by aws lambda stop-durable-execution \
                 --durable-execution-arn '{execution}', and sweep ends its lease"
            )));
        }
        let (act, leases, key) = (&self.act, &table_client.leases, &self.act.key);
        let sfn = step_functions::client(table_client)?;
        let stop = sfn.stop_execution().execution_arn(execution.as_str());
        let stop = stop.error("Leasehold.Stopped");
        let stop = stop.cause(format!("{}: {}", act.who, act.why));
        let mut stopped = stop.clone().send().await;
        if step_functions::is_unknown(&stopped)
            && start::begin(table_client, key, execution).await?
        {
            // A call that begins it may have been under way: begun now, it does not begin later. It may not show at once.
            for _ in 0..5 {
                stopped = stop.clone().send().await;
                if !step_functions::is_unknown(&stopped) {
                    break;
                }
                leases.sleep(step_functions::PAUSE).await;
            }
        }
        stopped.map_err(|error| step_functions::failed("StopExecution", &error))?;
        let name = lease_text::name(&one.lease);
        print_error(&format!(
            "asked Step Functions to stop {execution}; waiting until its lease of {name} has ended"
        ));
        let until = leases.now().plus(LOOKS);
        loop {
            let seen = match leases.inspect(key).await? {
                Inspected::Found { first, permits } if permits.is_empty() => vec![first],
                Inspected::Found { permits, .. } => permits,
                Inspected::Absent => Vec::new(),
            };
            let same = |other: &&Inspection| {
                other.lease.permit == one.lease.permit
                    && other.lease.fencing_token == one.lease.fencing_token
            };
            let still = seen
                .iter()
                .find(same)
                .and_then(|seen| seen.lease.held.as_ref());
            let Some(held) = still else {
                act.tell(
                    &serde_json::json!({"outcome": "stopped", "execution": execution}),
                    &format!("{execution} no longer holds {name}"),
                )?;
                return Ok(Code::DONE);
            };
            match held.until {
                ViewUntil::Execution {
                    look_again_at: Some(at),
                    ..
                } => {
                    let when = lease_text::when(at, leases.now());
                    let what = format!(
                        "a task of {execution} may still be at work; its lease ends {when}, at the sweep after that"
                    );
                    let advice = "end it now without --stop, if you know that nothing is at work";
                    return Err(Failure::new(Code::FAILURE, what).advice(advice));
                }
                ViewUntil::Execution { keep, .. }
                    if !keep.as_duration().is_zero()
                        && step_functions::status(&sfn, execution).await?
                            != ExecutionStatus::Succeeded =>
                {
                    let keep = render(keep.as_duration());
                    let what = format!(
                        "the lease of {execution} is kept for {keep} after its end, for a redrive"
                    );
                    let advice = "end it now without --stop, if nobody will redrive it";
                    return Err(Failure::new(Code::FAILURE, what).advice(advice));
                }
                _ => {}
            }
            if leases.now() >= until {
                let what = format!("the lease of {name} has not ended yet");
                let advice = "does the stack's sweep run? `leasehold doctor` checks it";
                return Err(Failure::new(Code::FAILURE, what).advice(advice));
            }
            leases.sleep(step_functions::PAUSE).await;
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold freeze deploy/production --who alice --why 'incident 77'
  leasehold unfreeze deploy/production --who alice --why 'incident 77 is over'

A frozen key has no new grants, takeovers or revivals. The present holder may still extend in time and release: end its lease
with `leasehold force-release`. A key that was never leased can be frozen too.

Exit codes: 0 frozen, now or before, 1 you declined.")]
pub(crate) struct FreezeArgs {
    #[command(flatten)]
    act: Act,
}

impl FreezeArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let act = &self.act;
        let (table_client, seen) = act.look().await?;
        act.ask(&table_client, &seen, &format!("Freeze {}?", act.key))?;
        let frozen = table_client.leases.freeze(&act.key, &act.because()).await?;
        let words = match frozen {
            FreezeOutcome::Frozen => format!("{} is frozen", act.key),
            FreezeOutcome::AlreadyFrozen => format!("{} was already frozen", act.key),
        };
        act.tell(&frozen, &words)?;
        if let Some(held) = seen.iter().find_map(|one| one.lease.held.as_ref()) {
            print_error(&format!(
                "{} still holds the key, until it releases the lease or the lease ends",
                held.holder
            ));
        }
        Ok(Code::DONE)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold unfreeze deploy/production --who alice --why 'incident 77 is over'

Requests that wait in the queue are served by the next sweep of the stack, which runs every minute.

Exit codes: 0 the key can be granted again, 1 it was not frozen, or you declined.")]
pub(crate) struct UnfreezeArgs {
    #[command(flatten)]
    act: Act,
}

impl UnfreezeArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let act = &self.act;
        let (table_client, seen) = act.look().await?;
        act.ask(&table_client, &seen, &format!("Unfreeze {}?", act.key))?;
        let unfrozen = table_client
            .leases
            .unfreeze(&act.key, &act.because())
            .await?;
        let (words, code) = match unfrozen {
            UnfreezeOutcome::Unfrozen => (format!("{} can be granted again", act.key), Code::DONE),
            UnfreezeOutcome::NotFrozen => (format!("{} was not frozen", act.key), Code::FAILURE),
        };
        act.tell(&unfrozen, &words)?;
        if unfrozen == UnfreezeOutcome::Unfrozen {
            act.tell_who_waits(waiting(&seen))?;
        }
        Ok(code)
    }
}

/// The caller that STS names for the credentials, because `--who` is only what the operator claims: the ARN, if STS answers in time. With a DynamoDB endpoint of its own the table may not be AWS's, and its credentials must not
/// be sent to AWS: STS is then called only if its endpoint is set too.
async fn caller(table_client: &TableClient) -> Option<Caller> {
    let elsewhere = table_client.config.endpoint_url().is_some()
        || environment::text("AWS_ENDPOINT_URL_DYNAMODB").is_some();
    let given = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"];
    if elsewhere && !given.iter().any(|name| environment::text(name).is_some()) {
        return None;
    }
    let sts = aws_sdk_sts::Client::new(&table_client.config);
    let asked = tokio::time::timeout(ASKING, sts.get_caller_identity().send()).await;
    Caller::new(asked.ok()?.ok()?.arn()?).ok()
}

/// An evicted execution may work on beside the next holder.
fn warn_of_its_work(held: Option<&HeldView>) {
    let is_over = held.is_some_and(|held| {
        matches!(
            held.until,
            ViewUntil::Execution {
                look_again_at: Some(_),
                ..
            }
        )
    });
    print_error(if is_over {
        "its execution is over or unknown, and a task of it may still be at work beside the next holder"
    } else {
        "its execution may still run, and learns nothing of this: it works on beside the next holder; \
         --stop stops it first"
    });
}

/// How many wait for a key with these permits: the first has the queue.
fn waiting(seen: &[Inspection]) -> u64 {
    seen.first().map_or(0, |first| first.waiting)
}

/// Asks for confirmation on the terminal. Without a terminal only `--yes` confirms.
fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let input = std::io::stdin();
    if !input.is_terminal() {
        let failure = Failure::usage("cannot ask for confirmation: this is not a terminal");
        return Err(failure.advice("use --yes to confirm"));
    }
    let mut answer = String::new();
    let mut asked = std::io::stderr();
    let heard = write!(asked, "{} [y/N] ", plain(question))
        .and_then(|()| asked.flush())
        .and_then(|()| input.lock().read_line(&mut answer));
    match (heard, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::new(Code::FAILURE, "nothing was done")),
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold limit partner-x 2 --who alice --why 'their maintenance, until six'
  leasehold limit partner-x none --who alice --why 'maintenance is over'
  leasehold limit deploy/production 0 --who alice --why 'incident 77'

The number stands in place of the one that requests send with permits, until another is set; none leaves it to them again. It
takes effect at once, and a lower one as leases end. A key whose requests send no permits is a mutex and stays one.

With 0 nobody is granted the key. Unlike a frozen key's, its queue stays open: who waits keeps the place, and others may join.
Who does not wait gets Lease.Frozen, which says who has set the limit and why, or Lease.Held while somebody has the key or waits.

Requests that wait in the queue are served by the next sweep of the stack, which runs every minute.

Exit codes: 0 stored, or removed, 1 there was no limit to remove, or you declined.")]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    act: Act,
    /// How many may hold the key at once: 0 to 1000, or none
    #[arg(value_name = "N", value_parser = limit)]
    permits: NumberOrNone,
}

/// A number, or none, as one word of the command line.
#[derive(Clone, Copy, Debug)]
struct NumberOrNone(Option<LimitedTo>);

fn limit(text: &str) -> Result<NumberOrNone, String> {
    if text == "none" {
        return Ok(NumberOrNone(None));
    }
    let number = text
        .parse()
        .map_err(|_| "expected a whole number, or none")?;
    let limited = LimitedTo::new(number).map_err(|error| error.to_string())?;
    Ok(NumberOrNone(Some(limited)))
}

impl LimitArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let (act, NumberOrNone(permits)) = (&self.act, self.permits);
        let (table_client, seen) = act.look().await?;
        let question = match permits {
            Some(permits) => format!("Limit {} to {}?", act.key, permits.get()),
            None => format!("Remove the limit of {}?", act.key),
        };
        act.ask(&table_client, &seen, &question)?;
        let leases = &table_client.leases;
        let limited = leases.limit_to(&act.key, permits, &act.because()).await?;
        let (words, code) = match limited {
            LimitOutcome::Limited { permits: 0 } => {
                let words = format!("{} is limited to 0: nobody is granted it", act.key);
                (words, Code::DONE)
            }
            LimitOutcome::Limited { permits } => {
                (format!("{} is limited to {permits}", act.key), Code::DONE)
            }
            LimitOutcome::Unlimited => (format!("{} has no limit any more", act.key), Code::DONE),
            LimitOutcome::NotLimited => (format!("{} had no limit", act.key), Code::FAILURE),
        };
        act.tell(&limited, &words)?;
        let held = seen.iter().filter(|one| one.lease.held.is_some()).count();
        let has_room = match limited {
            LimitOutcome::Limited { permits } => held < usize::from(permits),
            LimitOutcome::Unlimited => held == 0,
            LimitOutcome::NotLimited => false,
        };
        if has_room {
            act.tell_who_waits(waiting(&seen))?;
        }
        if let LimitOutcome::Limited { permits } = limited
            && held > usize::from(permits)
        {
            print_error(&format!(
                "held now: {held}; the limit takes effect as leases end"
            ));
        }
        Ok(code)
    }
}
