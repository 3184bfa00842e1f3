//! `leasehold ls`, `show` and `holders`: the content of the table. None of them shows a secret.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use leasehold::{
    Error, Holder, Inspected, KeyDetails, LeasePage, LeaseState, LeaseView, Timestamp, WaiterView,
};
use serde::Serialize;

use crate::columns::Columns;
use crate::connect::{TableArgs, TableClient};
use crate::ended_executions::EndedExecutions;
use crate::exit::{Code, Failure};
use crate::key_lists::{self, Wanted};
use crate::named::Named;
use crate::output::{json, json_in_lines, print, print_error, print_lines, write};
use crate::pages::Pages;
use crate::{failed_starts, key_text, lease_text};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold ls
  leasehold ls --prefix orders/ --state expired
  leasehold ls --json | jq -r '.leases[].key'
  leasehold ls --failed
  leasehold ls --frozen --limited --waiting

The list has what is held. A last line, on standard error, counts the keys that are frozen, limited, or waited for, held or not.
--frozen, --limited and --waiting list them instead, several together those that are one of them; --json then prints
{\"keys\":[…]}, each the response of the function inspect. `leasehold show` has who did it and why.

Of a lease that lasts while an execution runs it asks Step Functions whether that has ended, of a hundred at most, if your
credentials may ask. Reading the list costs about one read unit for each held lease and each key with a queue, whatever the prefix. No index has frozen
and limited keys: to count them reads the first thousand items of the table, at most some sixty read units, and to list them all of
it; --quiet and --json count nothing. On a terminal the ARN of an execution is cut to its machine and name; everywhere else it is
whole. --json prints the response of the function inspect.

With --failed it lists starts that have failed (`leasehold start`) instead, each with its reason and the command that repeats it.
--json then prints {\"starts\":[{\"key\",\"execution_arn\",\"state_machine_arn\",\"name\",\"asked_at\",\"reason\"}]}.")]
pub(crate) struct Ls {
    /// Only keys that begin like this
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,
    /// Only leases in this state
    #[arg(long, value_enum)]
    state: Option<State>,
    /// Starts that have failed, instead of leases
    #[arg(long, conflicts_with = "state")]
    failed: bool,
    #[command(flatten)]
    wanted: Wanted,
    /// At most this many leases
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but leases
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// Held and not expired
    Held,
    /// Expired, not released, and not taken over
    Expired,
}

impl Ls {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_client = self.table_args.connect().await?;
        if self.failed {
            return self.list_failed_starts(&table_client).await;
        }
        if self.wanted.any() {
            return self.list_keys(&table_client).await;
        }
        let mut columns = Columns::new(&lease_text::HEADER);
        let mut pages = Pages::of(None);
        let (mut shown, mut ended) = (0, EndedExecutions::default());
        if self.json {
            write("{\"leases\":[")?;
        }
        while let Some(listed) = pages.next(&table_client).await? {
            let now = table_client.leases.now();
            let mut leases: Vec<_> = listed
                .into_iter()
                .filter(|lease| self.wants(lease, now))
                .collect();
            leases.truncate(self.limit.unwrap_or(usize::MAX) - shown);
            leases.sort_by(|a, b| (&a.key, a.permit).cmp(&(&b.key, b.permit)));
            if self.json {
                for (at, lease) in leases.iter().enumerate() {
                    let comma = if shown + at == 0 { "\n " } else { ",\n " };
                    write(&format!("{comma}{}", json(lease)?))?;
                }
            } else if !leases.is_empty() {
                ended.ask(&table_client, leases.iter()).await;
                let rows: Vec<_> = leases
                    .iter()
                    .map(|lease| lease_text::row(lease, &ended, now))
                    .collect();
                print_lines(&columns.page(&rows))?;
            }
            shown += leases.len();
            pages.show_progress(self.quiet);
            if self.limit.is_some_and(|limit| shown >= limit) {
                break;
            }
        }
        pages.end_progress();
        if self.json {
            write("\n]}\n")?;
        } else if shown == 0 && !self.quiet {
            print_error("no lease matches");
        }
        if !self.json
            && !self.quiet
            && let Some(counted) = key_lists::counted(&table_client, &self.prefix).await?
        {
            print_error(&counted);
        }
        Ok(Code::DONE)
    }

    async fn list_keys(&self, table_client: &TableClient) -> Result<Code, Failure> {
        let most = self.limit.unwrap_or(usize::MAX);
        let keys = self.wanted.keys(table_client, &self.prefix, most).await?;
        if self.json {
            let keys: Vec<_> = keys.into_iter().map(Inspected::from).collect();
            print(&json(&BTreeMap::from([("keys", keys)]))?)?;
        } else if !keys.is_empty() {
            print_lines(&key_lists::table(&keys))?;
        } else if !self.quiet {
            print_error("no key matches");
        }
        Ok(Code::DONE)
    }

    async fn list_failed_starts(&self, table_client: &TableClient) -> Result<Code, Failure> {
        let mut starts = failed_starts::all(table_client).await?;
        starts.retain(|start| start.key.as_str().starts_with(&self.prefix));
        starts.truncate(self.limit.unwrap_or(usize::MAX));
        if self.json {
            print(&json(&BTreeMap::from([("starts", starts)]))?)?;
            return Ok(Code::DONE);
        }
        if starts.is_empty() && !self.quiet {
            print_error("no failed start matches");
        }
        let now = table_client.leases.now();
        let details = starts
            .iter()
            .map(|start| failed_starts::details(start, &self.table_args, now));
        let details: Vec<_> = details.collect();
        if !details.is_empty() {
            print_lines(&details.join("\n\n"))?;
        }
        Ok(Code::DONE)
    }

    fn wants(&self, lease: &LeaseView, now: Timestamp) -> bool {
        let wanted = match self.state {
            None => true,
            Some(State::Held) => lease.state(now) == LeaseState::Held,
            Some(State::Expired) => lease.state(now) == LeaseState::Expired,
        };
        wanted && lease.key.label().starts_with(&self.prefix)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold show orders/42
  leasehold show deploy/production --json | jq -r .state
  leasehold show orders/42 --waiters
  leasehold show --pool imports --waiters

It names the key's failed starts if your credentials may query the index: `leasehold ls --failed` has the commands that repeat them.

Exit codes: 0 the key has a row, 1 the key was never leased, or its row has been purged.
--json prints the response of the function inspect, with --waiters also
waiters: [{place, holder, start, permits, since, until, metadata}].")]
pub(crate) struct Show {
    #[command(flatten)]
    named: Named,
    /// Also show who waits for it, since when and how long at most
    #[arg(long)]
    waiters: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

impl Show {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_client = self.table_args.connect().await?;
        let leases = &table_client.leases;
        let details = KeyDetails {
            waiters: if self.waiters { usize::MAX } else { 0 },
            starts: !self.json,
        };
        let Some(key) = self.named.key() else {
            return Err(Failure::usage("no key is named"));
        };
        let view = leases.key_view(key, details).await;
        let mut view = view.map_err(Error::of_a_read)?;
        let code = match view.first() {
            Some(_) => Code::DONE,
            None => Code::FAILURE,
        };
        if self.json {
            let waiters = view.waiters.take();
            let seen = view.into();
            print_lines(&json_in_lines(&Shown { seen, waiters })?)?;
            return Ok(code);
        }
        if view.first().is_none() {
            let key = key.label();
            print_error(&format!("{key} {}", key_text::ABSENT));
        }
        let mut ended = EndedExecutions::default();
        let shown = view.permits.iter().map(|one| &one.lease);
        ended.ask(&table_client, shown).await;
        let text = key_text::whole(&view, &ended, leases.now());
        if !text.is_empty() {
            print_lines(&text)?;
        }
        Ok(code)
    }
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    seen: Inspected,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiters: Option<Vec<WaiterView>>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold holders
  leasehold holders arn:aws:states:eu-west-1:123456789012:execution:order:1b2c

With a holder, --json prints the response of the function inspect; without, {\"holders\":[{\"holder\",\"leases\"}]}.")]
pub(crate) struct Holders {
    /// Only the leases of this holder
    #[arg(value_parser = |text: &str| Holder::new(text))]
    holder: Option<Holder>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

impl Holders {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_client = self.table_args.connect().await?;
        let leases = Pages::of(self.holder.as_ref()).all(&table_client).await?;
        let now = table_client.leases.now();
        let code = match (&self.holder, leases.is_empty()) {
            (Some(_), true) => Code::FAILURE,
            _ => Code::DONE,
        };
        if self.holder.is_some() {
            if self.json {
                print(&json(&LeasePage {
                    leases,
                    cursor: None,
                })?)?;
            } else if leases.is_empty() {
                print_error("this holder has no leases");
            } else {
                print_lines(&lease_text::table(leases.iter(), now))?;
            }
            return Ok(code);
        }
        let mut holders: BTreeMap<&str, Vec<&LeaseView>> = BTreeMap::new();
        for lease in &leases {
            if let Some(held) = &lease.held {
                holders.entry(held.holder.as_str()).or_default().push(lease);
            }
        }
        if self.json {
            let each = |(holder, leases)| Held { holder, leases };
            let holders: Vec<_> = holders.into_iter().map(each).collect();
            print(&json(&BTreeMap::from([("holders", holders)]))?)?;
            return Ok(code);
        }
        if holders.is_empty() {
            print_error("no lease is held");
            return Ok(code);
        }
        let rows: Vec<_> = holders
            .into_iter()
            .map(|(holder, leases)| lease_text::of_holder(holder, &leases, now))
            .collect();
        print_lines(&Columns::new(&["LEASES", "FIRST ENDS", "HOLDER", "KEYS"]).page(&rows))?;
        Ok(code)
    }
}

/// A holder as JSON.
#[derive(Serialize)]
struct Held<'a> {
    holder: &'a str,
    leases: Vec<&'a LeaseView>,
}
