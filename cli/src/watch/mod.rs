//! `leasehold watch`: leases as they change, a line for each change.

mod changes;

use std::time::Duration;

use clap::Args;
use leasehold::{Clock as _, Error, Key, KeyDetails, LeaseView, SystemClock, Timestamp};
use serde::Serialize;

use crate::connect::{TableArgs, TableClient};
use crate::durations;
use crate::exit::{Code, Failure};
use crate::output::{json, print, print_error};
use crate::pages::Pages;
use crate::signals::{self, Signals};

/// Read units per second that a watch consumes at most.
const UNITS_A_SECOND: u32 = 25;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold watch
  leasehold watch deploy/production deploy/staging
  leasehold watch --prefix orders/ --every 10s
  leasehold watch --json | jq -r 'select(.change == \"expired\") | .lease.key'

It prints a line for each change, or with --json an object: {\"at\", \"change\", \"lease\"}, where change is held, extended,
expired or free, and lease is as in `leasehold ls --json`. At its start every held lease is a change. It does not see what
happens between two looks. Ctrl-C ends it.

A look costs about one read unit for each held lease and two more for the list, or one unit for each named key,
of a semaphore at most one for each permit. A watch consumes at most 25 units a second: with many leases it looks less often than
--every says.")]
pub(crate) struct Watch {
    /// Only these keys
    #[arg(conflicts_with = "prefix", value_parser = |text: &str| Key::new(text))]
    keys: Vec<Key>,
    /// Only keys that begin like this
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    prefix: String,
    /// How often to look, at least a second
    #[arg(long, value_name = "LENGTH", default_value = "2s", value_parser = every)]
    every: Duration,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table_args: TableArgs,
}

fn every(text: &str) -> Result<Duration, String> {
    let length = durations::parse(text)?;
    if length < Duration::from_secs(1) {
        return Err("at least 1s".to_owned());
    }
    Ok(length)
}

/// Read units of a key with so many rows, which are read consistently: one for each, which is more than small rows take.
fn units_of(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX).max(1)
}

/// A change as JSON.
#[derive(Serialize)]
struct Line {
    at: Timestamp,
    change: changes::Change,
    lease: LeaseView,
}

/// The leases of one look, by key and permit, and roughly how many read units it consumed.
struct Look {
    leases: changes::Leases,
    units: u32,
}

impl Watch {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let table_client = self.table_args.connect().await?;
        let mut signals = signals::listen()?;
        self.print_changes(&table_client, &mut signals).await
    }

    async fn look(&self, table_client: &TableClient) -> Result<Look, Failure> {
        let mut leases = changes::Leases::new();
        let mut add = |lease: LeaseView| {
            leases.insert((lease.key.as_str().to_owned(), lease.permit), lease);
        };
        if self.keys.is_empty() {
            let mut pages = Pages::of(None);
            let mut read = 0;
            while let Some(page) = pages.next(table_client).await? {
                read += page.len();
                page.into_iter()
                    .filter(|lease| lease.key.label().starts_with(&self.prefix))
                    .for_each(&mut add);
            }
            let units = u32::try_from(read).unwrap_or(u32::MAX).saturating_add(2);
            return Ok(Look { leases, units });
        }
        let mut units = 0;
        for key in &self.keys {
            let view = table_client.leases.key_view(key, KeyDetails::default());
            let view = view.await.map_err(Error::of_a_read)?;
            units += units_of(view.permits.len());
            view.permits.into_iter().for_each(|one| add(one.lease));
        }
        Ok(Look { leases, units })
    }

    /// How long to wait after a look that consumed this many units.
    fn pause(&self, units: u32) -> Duration {
        self.every
            .max(Duration::from_secs(1) * units / UNITS_A_SECOND)
    }

    /// Prints a line for each change.
    async fn print_changes(
        &self,
        table_client: &TableClient,
        signals: &mut Signals,
    ) -> Result<Code, Failure> {
        let mut known: changes::Seen = None;
        loop {
            let look = tokio::select! {
                look = self.look(table_client) => look,
                _ = signals.next() => return Ok(Code::DONE),
            };
            let pause = match look {
                Ok(look) => {
                    let now = table_client.leases.now();
                    for (change, lease) in changes::between(&known, &look.leases, now) {
                        if self.json {
                            let at = now;
                            print(&json(&Line { at, change, lease })?)?;
                        } else {
                            print(&changes::line(now, change, &lease))?;
                        }
                    }
                    known = Some((look.leases, now));
                    self.pause(look.units)
                }
                // Only an error that may pass is retried at the next look.
                Err(failure) if failure.code == Code::UNREACHABLE && known.is_some() => {
                    print_error(&format!("{}; retries", failure.what()));
                    self.every
                }
                Err(failure) => return Err(failure),
            };
            table_client.credentials.refresh_if_expiring().await;
            tokio::select! {
                () = SystemClock.sleep(pause) => {}
                _ = signals.next() => return Ok(Code::DONE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_permit_is_read() {
        for (rows, units) in [(0, 1), (1, 1), (500, 500)] {
            assert_eq!(units_of(rows), units);
        }
    }
}
