//! `leasehold force-release`, `freeze`, `unfreeze` and `limit`: acts of operators on a key. The key's row records who did it and why.

mod force_release;
mod stop;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use leasehold::{
    AuditReason, Caller, FreezeOutcome, Inspection, Key, KeyDetails, KeyView, LimitOutcome,
    LimitedTo, Operator, Reason, UnfreezeOutcome,
};
use leasehold_asl::plain;

use crate::connect::{TableArgs, TableClient};
use crate::exit::{Code, Failure};
use crate::output::{json, print, print_error};
use crate::{environment, key_text};
pub(crate) use force_release::ForceRelease;

/// Time limit for STS. After it, the act goes on without the caller.
const ASKING: Duration = Duration::from_secs(2);

/// The arguments of every act on a key.
#[derive(Args, Debug)]
struct OperatorArgs {
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

impl OperatorArgs {
    fn because(&self) -> AuditReason {
        AuditReason {
            who: self.who.clone(),
            why: self.why.clone(),
        }
    }

    /// Connects with the caller's identity, and looks at the key.
    async fn connect(&self) -> Result<(TableClient, KeyView), Failure> {
        let mut table_client = self.table_args.connect().await?;
        let caller = caller(&table_client).await;
        table_client.leases = table_client.leases.with_caller(caller);
        let leases = &table_client.leases;
        let view = leases.key_view(&self.key, KeyDetails::default()).await?;
        Ok((table_client, view))
    }

    /// Shows the permits concerned, and asks for confirmation.
    fn confirm<'a>(
        &self,
        view: &KeyView,
        permits: impl IntoIterator<Item = &'a Inspection>,
        question: &str,
    ) -> Result<(), Failure> {
        if !self.yes {
            for permit in permits {
                eprintln!("{}\n", key_text::permit(view, permit, view.seen_at));
            }
        }
        confirm(self.yes, question)
    }

    /// Prints the answer, as the JSON of the function operate or in words.
    fn print(&self, answer: &impl serde::Serialize, words: &str) -> Result<(), Failure> {
        if self.json {
            print(&json(answer)?)
        } else {
            print(words)
        }
    }

    /// Says that others wait, who are not served by this command.
    fn print_who_waits(&self, view: &KeyView) -> Result<(), Failure> {
        match who_waits(view) {
            Some(who) if !self.json => print(&who),
            _ => Ok(()),
        }
    }
}

fn who_waits(view: &KeyView) -> Option<String> {
    match view.waiting() {
        0 => None,
        1 => Some("one waits in the queue: the next sweep of the stack, within a minute, grants it to that one".to_owned()),
        n => Some(format!("{n} wait in the queue: the next sweep of the stack, within a minute, grants it to the first")),
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
    operator: OperatorArgs,
}

impl FreezeArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let (operator, key) = (&self.operator, &self.operator.key);
        let (table_client, view) = operator.connect().await?;
        operator.confirm(&view, &view.permits, &format!("Freeze {key}?"))?;
        let leases = &table_client.leases;
        let frozen = leases.freeze(key, &operator.because()).await?;
        let words = match frozen {
            FreezeOutcome::Frozen => format!("{key} is frozen"),
            FreezeOutcome::AlreadyFrozen => format!("{key} was already frozen"),
        };
        operator.print(&frozen, &words)?;
        if let Some(held) = view.held().find_map(|one| one.lease.held.as_ref()) {
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
    operator: OperatorArgs,
}

impl UnfreezeArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let (operator, key) = (&self.operator, &self.operator.key);
        let (table_client, view) = operator.connect().await?;
        operator.confirm(&view, &view.permits, &format!("Unfreeze {key}?"))?;
        let leases = &table_client.leases;
        let unfrozen = leases.unfreeze(key, &operator.because()).await?;
        let (words, code) = match unfrozen {
            UnfreezeOutcome::Unfrozen => (format!("{key} can be granted again"), Code::DONE),
            UnfreezeOutcome::NotFrozen => (format!("{key} was not frozen"), Code::FAILURE),
        };
        operator.print(&unfrozen, &words)?;
        if unfrozen == UnfreezeOutcome::Unfrozen {
            operator.print_who_waits(&view)?;
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
    operator: OperatorArgs,
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
        let (operator, key) = (&self.operator, &self.operator.key);
        let NumberOrNone(permits) = self.permits;
        let (table_client, view) = operator.connect().await?;
        let question = match permits {
            Some(permits) => format!("Limit {key} to {}?", permits.get()),
            None => format!("Remove the limit of {key}?"),
        };
        operator.confirm(&view, &view.permits, &question)?;
        let leases = &table_client.leases;
        let limited = leases.limit_to(key, permits, &operator.because()).await?;
        let (words, code) = match limited {
            LimitOutcome::Limited { permits: 0 } => {
                let words = format!("{key} is limited to 0: nobody is granted it");
                (words, Code::DONE)
            }
            LimitOutcome::Limited { permits } => {
                (format!("{key} is limited to {permits}"), Code::DONE)
            }
            LimitOutcome::Unlimited => (format!("{key} has no limit any more"), Code::DONE),
            LimitOutcome::NotLimited => (format!("{key} had no limit"), Code::FAILURE),
        };
        operator.print(&limited, &words)?;
        let held = view.held().count();
        let has_room = match limited {
            LimitOutcome::Limited { permits } => held < usize::from(permits),
            LimitOutcome::Unlimited => held == 0,
            LimitOutcome::NotLimited => false,
        };
        if has_room {
            operator.print_who_waits(&view)?;
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
