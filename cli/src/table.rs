//! `leasehold table`: creates and checks lease tables.

use aws_sdk_dynamodb::Client;
use clap::{Args, Subcommand};
use leasehold::{Connection, Error, table};
use leasehold_asl::plain;
use serde::Serialize;

use crate::connect::TableArgs;
use crate::exit::{Code, Failure};
use crate::output::{json, print, print_lines};
use crate::safeguards::Safeguards;

#[derive(Args, Debug)]
pub(crate) struct Table {
    #[command(subcommand)]
    command: TableCommand,
}

#[derive(Debug, Subcommand)]
enum TableCommand {
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
        match self.command {
            TableCommand::Create { table_args } => {
                let table_client = table_args.connect().await?;
                let client = Connection::client(&table_client.config);
                table::create(&client, &table_client.table).await?;
                print(&format!("table {} is ready", table_client.table))?;
                Ok(Code::DONE)
            }
            TableCommand::Check { json, table_args } => {
                let table_client = table_args.connect().await?;
                let client = Connection::client(&table_client.config);
                check(&client, &table_client.table, json).await
            }
        }
    }
}

/// The response of a check as JSON.
#[derive(Serialize)]
struct Answer {
    outcome: &'static str,
    problem: Option<String>,
    notes: Vec<String>,
}

async fn check(client: &Client, name: &str, for_programs: bool) -> Result<Code, Failure> {
    let faults = table::faults(client, name)
        .await
        .map_err(Error::of_a_read)?;
    let faults: Vec<_> = faults.into_iter().map(|fault| fault.what).collect();
    let notes = notes(client, name).await;
    let fits = faults.is_empty();
    let code = if fits { Code::DONE } else { Code::FAILURE };
    let differs = format!("table {name} is not a lease table");
    if for_programs {
        let outcome = if fits { "fits" } else { "differs" };
        let answer = Answer {
            outcome,
            problem: (!fits).then(|| format!("{differs}: {}", faults.join("; "))),
            notes,
        };
        print(&json(&answer)?)?;
        return Ok(code);
    }
    if fits {
        print(&format!("{name} is a lease table"))?;
    } else {
        let lines = std::iter::once(plain(&differs) + ":")
            .chain(faults.iter().map(|fault| format!("  {}", plain(fault))));
        print_lines(&lines.collect::<Vec<_>>().join("\n"))?;
    }
    for note in notes {
        print(&format!("note: {note}"))?;
    }
    Ok(code)
}

/// Settings that matter only after another fault.
async fn notes(client: &Client, name: &str) -> Vec<String> {
    let safeguards = Safeguards::read(client, name).await;
    let mut notes = safeguards.off();
    let unread = [
        (safeguards.protection.is_err(), "deletion protection"),
        (safeguards.recovery.is_err(), "point-in-time recovery"),
    ];
    let unread = unread.into_iter().filter(|(is_unread, _)| *is_unread);
    notes.extend(unread.map(|(_, what)| format!("could not read whether {what} is on")));
    notes
}
