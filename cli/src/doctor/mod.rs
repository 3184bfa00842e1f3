//! `leasehold doctor`: inspects a deployed stack, exercises it on keys of its own, and reports which promises hold there.

pub(crate) mod account;
mod answers;
mod checks;
mod clocks;
mod exercise;
mod grace;
mod inspect;
mod queue;
mod quotas;
mod report;
mod template;

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use clap::{Args, ValueEnum};
use leasehold::{Clock as _, SystemClock};

use crate::connect::TableArgs;
use crate::durations;
use crate::exit::{Code, Failure};
use crate::history;
use crate::output::{json_in_lines, print_error, print_lines};
use account::{Account, unlisted};
use checks::checks;
use exercise::Actor;
use report::Report;

const CONNECTING: Duration = Duration::from_secs(3);
/// Longer than the longest timeout of a called function.
const ANSWERING: Duration = Duration::from_secs(30);

/// The SDK's default of a second is long if a service does not answer at all.
const BACKOFF: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold doctor --stack leasehold
  leasehold doctor --stack leasehold --read-only
  leasehold doctor --stack leasehold --format json | jq -r '.checks[] | select(.outcome == \"failed\") | .check'

The report is Markdown that you can paste into an issue. It lists the checks that failed, with what was found and what to do,
then those that could not be made, then those that passed. Each names its promise in docs/contributing/proofs.md. The report has
neither lease ids nor the account's number.

Doctor calls the stack's functions. The keys of its leases begin with leasehold-doctor/ and a random text. It also starts two
executions of the machine with-lease, which wait in the queue and start nothing. It takes about as long as sweep's schedule:
a minute or two. At the end it releases its leases and stops its executions. If it is interrupted, its leases expire.

Exit codes: 0 no check failed, 1 a check failed. A check that could not be made is no failure.")]
pub(crate) struct Doctor {
    /// Name or ARN of the stack
    #[arg(long, value_name = "NAME")]
    stack: String,
    /// Make only the checks that take no lease
    #[arg(long)]
    read_only: bool,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = Format::Markdown)]
    format: Format,
    /// Omit a check; may be repeated
    #[arg(long, value_name = "CHECK", value_parser = check)]
    skip: Vec<String>,
    /// How long to wait for what happens by itself, such as a sweep
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = durations::parse)]
    patience: Duration,
    /// Profile of the AWS CLI's files [default: `AWS_PROFILE`]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Region [default: `AWS_REGION`, or the profile's]
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people, and for issues
    Markdown,
    /// For programs
    Json,
}

/// The name of a check.
fn check(text: &str) -> Result<String, String> {
    let known: Vec<_> = checks().map(|check| check.id).collect();
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    let known = known.join(", ");
    Err(format!("no such check; the checks are {known}"))
}

impl Doctor {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_args = TableArgs {
            table: None,
            profile: self.profile,
            region: self.region,
            endpoint_url: None,
        };
        let (config, _) = table_args.sign_in().await?;
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECTING)
            .operation_attempt_timeout(ANSWERING)
            .build();
        let config = config
            .into_builder()
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_initial_backoff(BACKOFF))
            .build();
        let region = config.region().map(ToString::to_string).unwrap_or_default();
        let account = Account::of(&config);
        let resources = account.resources(&self.stack).await;
        let resources = resources.map_err(|trouble| unlisted(&self.stack, &trouble))?;
        let name = history::name_of(&self.stack);
        let mut report = Report::new(name.to_owned(), region, SystemClock.now(), self.read_only);
        report.skip(self.skip);
        let seen = inspect::inspect(&account, &resources, &mut report).await;
        inspect::list(&account, &seen, &mut report).await;
        inspect::clock_here(&account, seen.settings.clock_margin, &mut report);
        if !self.read_only {
            print_error(
                "takes leases of its own, and waits for a sweep; use --read-only to take none",
            );
            Actor::new(&account, &seen, &mut report, self.patience)
                .act()
                .await;
        }
        let answer = report.answer();
        let text = match self.format {
            Format::Markdown => answer.markdown().trim_end().to_owned(),
            Format::Json => json_in_lines(&answer)?,
        };
        print_lines(&text)?;
        Ok(match answer.outcome {
            "failed" => Code::FAILURE,
            _ => Code::DONE,
        })
    }
}
