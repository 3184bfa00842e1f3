//! `leasehold force-release`, `freeze`, `unfreeze` and `limit`: acts of operators on a key or a pool. The key's row records who did it and why.

mod change;
mod force_release;
mod stop;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use leasehold::{
    AuditReason, Caller, Inspection, Key, KeyDetails, KeyView, LimitedTo, Operator, Reason,
};
use leasehold_asl::plain;

use crate::connect::{TableArgs, TableClient};
use crate::exit::{Code, Failure};
use crate::named::pool;
use crate::output::{json, print, print_error};
use crate::{environment, key_text};
pub(crate) use change::{Change, who_waits};
pub(crate) use force_release::ForceRelease;
pub(crate) use stop::{ask_to_stop, check_stoppable};

/// Timeout for STS. After it, the act goes on without the caller.
const ASKING: Duration = Duration::from_secs(2);

/// The arguments of every act on a key.
#[derive(Args, Debug)]
struct OperatorArgs {
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
    async fn connect(&self, key: &Key) -> Result<(TableClient, KeyView), Failure> {
        let mut table_client = self.table_args.connect().await?;
        let caller = caller(&table_client).await;
        table_client.leases = table_client.leases.with_caller(caller);
        let leases = &table_client.leases;
        let view = leases.key_view(key, KeyDetails::default()).await?;
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

    /// Prints the response, as the JSON of the function operate or in words.
    fn print(&self, answer: &impl serde::Serialize, words: &str) -> Result<(), Failure> {
        if self.json {
            print(&json(answer)?)
        } else {
            print(words)
        }
    }

    /// Shows the permits concerned, asks, does it, and says what was done.
    async fn carry_out<'a>(
        &self,
        table_client: &TableClient,
        view: &KeyView,
        permits: impl IntoIterator<Item = &'a Inspection>,
        change: &Change,
    ) -> Result<Code, Failure> {
        if let Some(warning) = change.warning() {
            print_error(warning);
        }
        self.confirm(view, permits, &change.question(&view.key))?;
        let leases = &table_client.leases;
        let done = change.carry_out(leases, view, &self.because()).await?;
        let done = done.and_serves(table_client, &view.key).await;
        if self.json {
            print(&done.json)?;
        } else {
            for words in &done.words {
                print(words)?;
            }
        }
        if let Some(note) = &done.note {
            print_error(note);
        }
        Ok(done.code)
    }

    /// Does it to the whole key.
    async fn change_key(&self, key: &Key, change: &Change) -> Result<Code, Failure> {
        let (table_client, view) = self.connect(key).await?;
        let permits = &view.permits;
        self.carry_out(&table_client, &view, permits, change).await
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold freeze deploy/production --who alice --why 'incident 77'
  leasehold unfreeze deploy/production --who alice --why 'incident 77 has ended'

A frozen key has no new grants, takeovers or revivals. The present holder may still extend in time and release: end its lease
with `leasehold force-release`. A key that was never leased can be frozen too.

Exit codes: 0 frozen, now or before, 1 you declined.")]
pub(crate) struct FreezeArgs {
    /// The key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl FreezeArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        self.operator.change_key(&self.key, &Change::Freeze).await
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold unfreeze deploy/production --who alice --why 'incident 77 has ended'

The first waiter in the queue is served at once: by the stack's function sweep if LEASEHOLD_SWEEP names it, otherwise with
your rights in Step Functions. If neither can be, the next sweep of the stack serves it, within a minute.

Exit codes: 0 the key can be granted again, 1 it was not frozen, or you declined.")]
pub(crate) struct UnfreezeArgs {
    /// The key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    #[command(flatten)]
    operator: OperatorArgs,
}

impl UnfreezeArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        self.operator.change_key(&self.key, &Change::Unfreeze).await
    }
}

/// The caller that STS names for the credentials, because `--who` is only what the operator claims: the ARN, if STS answers in time. With a DynamoDB endpoint of its own the table may not be AWS's, and its credentials must not
/// be sent to AWS: STS is then called only if its endpoint is set too.
pub(crate) async fn caller(table_client: &TableClient) -> Option<Caller> {
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
  leasehold limit partner-x none --who alice --why 'maintenance has ended'
  leasehold limit deploy/production 0 --who alice --why 'incident 77'
  leasehold limit --pool imports 4 --who alice --why 'the partner is slow'

The number stands in place of the one that requests send with permits, until another is set; none leaves it to them again. It
takes effect at once, and a lower one as leases end. A key whose requests send no permits is a mutex and stays one.

With 0 nobody is granted the key. Unlike a frozen key's, its queue stays open: who waits keeps the place, and others may join.
Who does not wait gets Lease.Frozen, which says who has set the limit and why, or Lease.Held while somebody has the key or waits.

The first waiter in the queue is served at once: by the stack's function sweep if LEASEHOLD_SWEEP names it, otherwise with
your rights in Step Functions. If neither can be, the next sweep of the stack serves it, within a minute.

Exit codes: 0 stored, or removed, 1 there was no limit to remove, or you declined.")]
pub(crate) struct LimitArgs {
    /// The key; left out with --pool
    #[arg(required = true)]
    key: Option<String>,
    /// How many may hold the key, or have a permit of the pool, at once: 0 to 1000, or none
    #[arg(value_name = "N", required_unless_present = "pool")]
    permits: Option<String>,
    /// Limit the pool of this name, instead of a key
    #[arg(long, value_name = "NAME", value_parser = pool, conflicts_with = "permits")]
    pool: Option<Key>,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// A number, or none, as one word of the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberOrNone(pub(crate) Option<LimitedTo>);

pub(crate) fn limit(text: &str) -> Result<NumberOrNone, String> {
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
        let (key, permits) = self.named()?;
        let change = Change::Limit(permits);
        self.operator.change_key(&key, &change).await
    }

    /// With a pool the only word is the number.
    fn named(&self) -> Result<(Key, Option<LimitedTo>), Failure> {
        let first = self.key.as_deref().unwrap_or_default();
        let (key, number) = match (&self.pool, &self.permits) {
            (Some(pool), _) => (pool.clone(), first),
            (None, number) => {
                let key = Key::new(first);
                let key = key.map_err(|problem| Failure::usage(format!("the key: {problem}")))?;
                (key, number.as_deref().unwrap_or_default())
            }
        };
        let number = limit(number).map_err(|problem| {
            Failure::usage(format!("how many may hold {}: {problem}", key.label()))
        })?;
        Ok((key, number.0))
    }
}
