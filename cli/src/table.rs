//! `leasehold table`: creates and checks lease tables.

use aws_sdk_dynamodb::{Client, types::PointInTimeRecoveryStatus};
use clap::{Args, Subcommand};
use leasehold::{Connection, Error, table};
use leasehold_asl::plain;
use serde::Serialize;

use crate::connect::TableArgs;
use crate::exit::{Code, Failure, in_full};
use crate::output::{json, print, print_lines};

#[derive(Args, Debug)]
pub(crate) struct Table {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Create the table as template.yaml defines it, and wait until it is active
    #[command(after_help = "\
Examples:
  leasehold table create --table leases

Use it where no template creates the table. It is idempotent. Point-in-time recovery and deletion protection are left to
you: `leasehold table check` reports whether they are on.")]
    Create {
        #[command(flatten)]
        table_args: TableArgs,
    },
    /// Check whether the table can hold leases, and list what is missing
    #[command(after_help = "\
Examples:
  leasehold table check --table leases

Exit codes: 0 it is a lease table, 1 it is not. Every difference is listed: keys, index, billing, TTL. It also notes
if point-in-time recovery or deletion protection is off, which does not change the exit code.")]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        table_args: TableArgs,
    },
}

impl Table {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        match self.what {
            What::Create { table_args } => {
                let table_client = table_args.connect().await?;
                let client = Connection::client(&table_client.config);
                table::create(&client, &table_client.table).await?;
                print(&format!("table {} is ready", table_client.table))?;
                Ok(Code::DONE)
            }
            What::Check { json, table_args } => {
                let table_client = table_args.connect().await?;
                let client = Connection::client(&table_client.config);
                check(&client, &table_client.table, json).await
            }
        }
    }
}

/// The answer of a check as JSON.
#[derive(Serialize)]
struct Answer {
    outcome: &'static str,
    problem: Option<String>,
    notes: Vec<String>,
}

async fn check(client: &Client, name: &str, for_programs: bool) -> Result<Code, Failure> {
    let fault = match table::check(client, name).await {
        Ok(()) => None,
        // No error of the service below it: the table's shape is wrong.
        Err(error @ Error::Misconfigured { source: None, .. }) => Some(in_full(&error)),
        Err(error) => return Err(error.into()),
    };
    let notes = notes(client, name).await;
    let code = if fault.is_some() {
        Code::FAILURE
    } else {
        Code::DONE
    };
    if for_programs {
        let outcome = if fault.is_some() { "differs" } else { "fits" };
        let answer = Answer {
            outcome,
            problem: fault,
            notes,
        };
        print(&json(&answer)?)?;
        return Ok(code);
    }
    match fault {
        Some(fault) => {
            let fault = plain(&fault).replacen(": ", ":\n  ", 1);
            print_lines(&fault.replace("; ", "\n  "))?;
        }
        None => print(&format!("{name} is a lease table"))?,
    }
    for note in notes {
        print(&format!("note: {note}"))?;
    }
    Ok(code)
}

/// Settings that matter only after another fault.
async fn notes(client: &Client, name: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let backups = client.describe_continuous_backups().table_name(name).send();
    let recovery = backups.await.ok().and_then(|answer| {
        let answer = answer.continuous_backups_description?;
        answer
            .point_in_time_recovery_description?
            .point_in_time_recovery_status
    });
    match recovery {
        Some(PointInTimeRecoveryStatus::Enabled) => {}
        Some(_) => notes.push("point-in-time recovery is off".to_owned()),
        None => notes.push("could not read whether point-in-time recovery is on".to_owned()),
    }
    let described = client.describe_table().table_name(name).send().await;
    let is_protected = described
        .ok()
        .and_then(|answer| answer.table?.deletion_protection_enabled);
    if is_protected != Some(true) {
        notes.push("deletion protection is off".to_owned());
    }
    notes
}
