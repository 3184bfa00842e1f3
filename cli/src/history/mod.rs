//! `leasehold history`: who had a key, by the logs of the functions.

mod files;
mod grants;
mod insights;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::{Clock as _, Key, SystemClock, Timestamp};
use serde::Serialize;

use crate::columns::Columns;
use crate::connect::TableArgs;
use crate::durations::{self, render, when};
use crate::environment;
use crate::exit::{Code, Failure};
use crate::output::{json_in_lines, print_error, print_lines};
use grants::{Grant, How};

/// How many lines are read at most; Logs Insights returns no more.
const ROWS: usize = 10_000;

/// Lines of the functions' logs.
struct Lines {
    lines: Vec<String>,
    /// There are older ones, which were not read.
    is_cut: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold history orders/42 --stack leasehold
  leasehold history orders/42 --stack leasehold --since 7d --waits
  leasehold history orders/42 --logs target/local/logs
  leasehold history orders/42 --stack leasehold --json | jq '.grants[] | select(.ended != \"released\")'

It prints each grant of the key, the newest first: when it was granted, for how long, how it ended, and who had it. What no line says is
shown as unknown: lines may be missing, come late, or be older than --since. A grant without an end may go on: `leasehold show`
says who has the key now.

The logs are those of the stack's functions, by a query of CloudWatch Logs Insights, which costs $0.005 for each GB that the functions have
logged since then; or the files of a local stack. The functions write these lines at the LogLevel INFO. A caller that
uses the table without them writes none: a grant, a release or a force-release by this command line or by a program shows only in
the line of the next grant.

At most the newest 10,000 lines are read, for at most a minute; Ctrl-C stops the query.

Exit codes: 0 there is a grant, 1 there is none.
--json prints {\"key\", \"since\", \"complete\", \"grants\": [{\"fencing_token\", \"holder\", \"granted_at\", \"ended\", \"ended_at\", \"held_ms\", \"by\",
\"why\", \"waited_ms\"}]}: null is unknown, and ended is released, execution_ended, expired, taken_over, forced, taken_back or
not_started.")]
pub(crate) struct History {
    /// Which key
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// How far to look back
    #[arg(long, value_name = "LENGTH", default_value = "24h", value_parser = durations::parse)]
    since: Duration,
    /// Also show how long each waited in the queue
    #[arg(long)]
    waits: bool,
    /// Name or ARN of the stack
    #[arg(long, value_name = "NAME", conflicts_with = "logs")]
    stack: Option<String>,
    /// Directory of a local stack's logs [default: `LEASEHOLD_LOGS`, unless --stack is given]
    #[arg(long, value_name = "DIRECTORY")]
    logs: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Profile of the AWS CLI's files [default: `AWS_PROFILE`]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Region [default: `AWS_REGION`, or the profile's]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
}

/// The response as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    key: &'a Key,
    since: Timestamp,
    /// No line since then was left out for its number.
    complete: bool,
    grants: &'a [Grant],
}

impl History {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let now = SystemClock.now();
        let since = now.minus(self.since);
        let read = self.read((since, now)).await?;
        let lines = read.lines.iter().map(String::as_str);
        let grants = grants::grants(lines, self.key.as_str());
        if self.json {
            let answer = Answer {
                key: &self.key,
                since,
                complete: !read.is_cut,
                grants: &grants,
            };
            print_lines(&json_in_lines(&answer)?)?;
        } else if grants.is_empty() {
            let key = &self.key;
            print_error(&format!("no line since {since} reports a grant of {key}"));
        } else {
            print_lines(&table(&grants, self.waits, now))?;
        }
        if read.is_cut && !self.json {
            print_error(&format!(
                "these are the newest {ROWS} lines only: a shorter --since has all of its own"
            ));
        }
        Ok(if grants.is_empty() {
            Code::FAILURE
        } else {
            Code::DONE
        })
    }

    async fn read(&self, (since, now): (Timestamp, Timestamp)) -> Result<Lines, Failure> {
        if let Some(stack) = &self.stack {
            let table_args = TableArgs {
                table: None,
                profile: self.profile.clone(),
                region: self.region.clone(),
                endpoint_url: None,
            };
            let (config, _) = table_args.sign_in().await?;
            let key = self.key.as_str();
            return insights::lines(&config, name_of(stack), key, (since, now)).await;
        }
        let logs = self.logs.clone();
        let logs = logs.or_else(|| environment::variable("LEASEHOLD_LOGS").map(PathBuf::from));
        let Some(logs) = logs else {
            let failure = Failure::new(Code::UNREACHABLE, "no stack is named");
            return Err(failure.advice("use --stack NAME, or --logs DIRECTORY for a local stack"));
        };
        files::lines(&logs, self.key.as_str(), since)
    }
}

/// The name of a stack, by its name or ARN.
pub(crate) fn name_of(stack: &str) -> &str {
    stack
        .rsplit_once(":stack/")
        .map_or(stack, |(_, rest)| rest.split('/').next().unwrap_or(rest))
}

const UNKNOWN: &str = "unknown";

fn table(grants: &[Grant], waits: bool, now: Timestamp) -> String {
    let mut header = vec!["GRANTED", "FOR", "ENDED", "TOKEN", "HOLDER"];
    if waits {
        header.insert(1, "WAITED");
    }
    let rows = grants.iter().map(|grant| {
        let mut row = row(grant, now);
        if waits {
            row.insert(1, length(grant.waited_ms));
        }
        row
    });
    let rows: Vec<_> = rows.collect();
    Columns::new(&header).page(&rows)
}

fn row(grant: &Grant, now: Timestamp) -> Vec<String> {
    let granted = grant.granted_at;
    vec![
        granted.map_or_else(
            || UNKNOWN.to_owned(),
            |at| format!("{at} ({})", when(at, now)),
        ),
        length(grant.held_ms),
        end(grant),
        grant.fencing_token.to_string(),
        grant.holder.clone(),
    ]
}

fn length(millis: Option<u64>) -> String {
    millis.map_or_else(String::new, |millis| render(Duration::from_millis(millis)))
}

/// How it ended, by whom and why.
fn end(grant: &Grant) -> String {
    let Some(how) = grant.ended else {
        return UNKNOWN.to_owned();
    };
    let by = match &grant.by {
        Some(by) => format!(" by {by}"),
        None if how == How::Forced => " by somebody".to_owned(),
        None => String::new(),
    };
    let why = grant.why.as_ref();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    format!("{}{by}{why}", how.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parts_are_said() {
        let now = Timestamp::from_millis(1_800_000_060_000);
        let grant = Grant {
            fencing_token: 7,
            holder: "b".to_owned(),
            granted_at: Some(Timestamp::from_millis(1_800_000_000_000)),
            ended: None,
            ended_at: None,
            held_ms: None,
            by: None,
            why: None,
            waited_ms: Some(3000),
        };
        let before = Grant {
            fencing_token: 6,
            granted_at: None,
            ended: Some(How::Forced),
            by: Some("alice".to_owned()),
            why: Some("it hangs".to_owned()),
            ..grant.clone()
        };
        let expected = "\
GRANTED                               WAITED  FOR  ENDED                              TOKEN  HOLDER
2027-01-15T08:00:00.000Z (1 min ago)  3 s          unknown                            7      b
unknown                               3 s          force-released by alice: it hangs  6      b";
        assert_eq!(table(&[grant, before], true, now), expected);
    }

    #[test]
    fn stack_is_named_by_its_arn() {
        let arn = "arn:aws:cloudformation:eu-west-1:123456789012:stack/leasehold/0f1e";
        assert_eq!(
            (name_of(arn), name_of("leasehold")),
            ("leasehold", "leasehold")
        );
    }
}
