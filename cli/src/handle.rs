//! `leasehold extend` and `release`, with a handle that `acquire` or the functions returned.

use std::path::PathBuf;

use clap::Args;
use leasehold::{ExtendOptions, Extended, Lease, ReleaseOutcome, Ttl};
use serde::Deserialize;

use crate::connect::TableArgs;
use crate::durations::when;
use crate::exit::{Code, Failure};
use crate::output::{json, print, print_error};
use crate::{durations, next, text_file};

#[derive(Args, Debug)]
struct HandleArgs {
    /// File with the handle, or with a response of acquire or extend that contains it; `-` is standard input
    #[arg(long, value_name = "FILE")]
    handle: PathBuf,
}

impl HandleArgs {
    /// Reads the handle. Errors never repeat the file's content.
    fn read(&self) -> Result<Lease, Failure> {
        let name = self.handle.display();
        let text = text_file::read(&self.handle)?;
        let not_one = || {
            let failure = Failure::usage(format!("{name}: this is not a lease handle"));
            failure.advice("`leasehold acquire KEY` without a command prints one")
        };
        let read: HandleText = serde_json::from_str(&text).map_err(|_| not_one())?;
        Ok(match read {
            HandleText::InAnswer { lease } | HandleText::Alone(lease) => lease,
        })
    }
}

/// A handle, or an answer that has one.
#[derive(Deserialize)]
#[serde(untagged)]
enum HandleText {
    InAnswer { lease: Lease },
    Alone(Lease),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold extend --handle handle.json
  leasehold extend --handle - --ttl 10m --json <handle.json

The old handle remains valid. --json prints the response of the function extend with the new handle, which is as secret
as the old one.

Exit codes: 0 extended, 79 the lease is lost.")]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    handle: HandleArgs,
    /// New length of the lease, counted from now [default: the lease's own ttl]
    #[arg(long, value_name = "LENGTH", value_parser = durations::ttl)]
    ttl: Option<Ttl>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

impl ExtendArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let lease = self.handle.read()?;
        let table_client = self.table_args.connect().await?;
        let options = ExtendOptions {
            ttl: self.ttl,
            ..ExtendOptions::default()
        };
        let extended = table_client.leases.extend(&lease, options).await?;
        if self.json {
            print(&json(&extended)?)?;
            return Ok(Code::DONE);
        }
        let how = match &extended {
            Extended::Extended { .. } => "extended",
            Extended::Revived { .. } => "had expired, and is held again by you",
        };
        let lease = extended.into_lease();
        let key = &lease.key;
        let Some(deadline) = lease.deadline else {
            print(&format!("{key} is still held, while its execution runs"))?;
            return Ok(Code::DONE);
        };
        let end = deadline.expires_at;
        let ends = when(end, table_client.leases.now());
        print(&format!("{key} {how} until {end} ({ends})"))?;
        Ok(Code::DONE)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold release --handle handle.json

Release is idempotent, and never frees somebody else's lease. --json prints the response of the function release.
The first waiter in the queue is served at once: by the stack's function sweep if LEASEHOLD_SWEEP names it, otherwise with
your rights in Step Functions. If neither can be, the next sweep of the stack serves it, within a minute.

Exit codes: 0 released, now or before, or kept because the lease was re-entered, 79 the lease expired and was taken over, or an operator ended it.")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    handle: HandleArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

impl ReleaseArgs {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let lease = self.handle.read()?;
        let table_client = self.table_args.connect().await?;
        let released = table_client.leases.release(&lease).await?;
        let key = &lease.key;
        let (words, code) = match released.outcome {
            ReleaseOutcome::Kept => (
                format!(
                    "{key} is kept for the request that was granted it: this lease was re-entered"
                ),
                Code::DONE,
            ),
            ReleaseOutcome::Released => (format!("{key} is free"), Code::DONE),
            ReleaseOutcome::AlreadyReleased => (format!("{key} was already released"), Code::DONE),
            ReleaseOutcome::Lost => (
                format!(
                    "{key} was not released: your lease expired and was taken over, or an operator ended it"
                ),
                Code::LOST,
            ),
        };
        if self.json {
            print(&json(&released)?)?;
        } else {
            print(&words)?;
        }
        if code == Code::DONE && next::serve(&table_client, key).await {
            print_error("the first waiter has it now");
        }
        Ok(code)
    }
}
