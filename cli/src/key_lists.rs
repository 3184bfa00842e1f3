//! `leasehold ls --frozen`, `--limited` and `--waiting`: the keys that a list of leases does not show, and how many there are.

use std::collections::BTreeSet;

use clap::Args;
use leasehold::{Error, Inspection, KeyDetails, KeyView, RestrictedKeys};

use crate::columns::Columns;
use crate::connect::TableClient;
use crate::exit::Failure;
use crate::key_text;

/// Which keys to list instead of leases. Several together: those that are one of them.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Keys that an operator has frozen, instead of leases
    #[arg(long, conflicts_with_all = ["state", "failed"])]
    frozen: bool,
    /// Keys whose limit an operator has set, instead of leases
    #[arg(long, conflicts_with_all = ["state", "failed"])]
    limited: bool,
    /// Keys that requests or starts wait for, instead of leases
    #[arg(long, conflicts_with_all = ["state", "failed"])]
    waiting: bool,
}

impl Wanted {
    pub(crate) const fn any(self) -> bool {
        self.frozen || self.limited || self.waiting
    }

    const fn has(self, key: &Inspection) -> bool {
        self.frozen && key.frozen
            || self.limited && key.limit.is_some()
            || self.waiting && key.waiting > 0
    }

    /// The wanted keys that begin like this, at most so many, each with all its permits.
    pub(crate) async fn keys(
        self,
        table_client: &TableClient,
        prefix: &str,
        most: usize,
    ) -> Result<Vec<KeyView>, Failure> {
        let leases = &table_client.leases;
        let mut found = Vec::new();
        if self.waiting {
            found.extend(leases.keys_with_waiters().await.map_err(Error::of_a_read)?);
        }
        if self.frozen || self.limited {
            let restricted = leases.restricted_keys(usize::MAX).await;
            found.extend(restricted.map_err(Error::of_a_read)?.keys);
        }
        let found = found.into_iter().filter(|key| self.has(key));
        let found: BTreeSet<_> = found.map(|key| key.lease.key).collect();
        let begins_so = found.iter().filter(|key| key.label().starts_with(prefix));
        let mut keys = Vec::new();
        for key in begins_so.take(most) {
            // What was read may be one permit of several.
            let view = leases.key_view(key, KeyDetails::default()).await;
            keys.push(view.map_err(Error::of_a_read)?);
        }
        Ok(keys)
    }
}

const HEADER: [&str; 6] = ["KEY", "STATE", "FROZEN", "LIMIT", "WAITING", "HOLDER"];

/// A table of them.
pub(crate) fn table(keys: &[KeyView]) -> String {
    let rows: Vec<_> = keys.iter().map(key_text::row).collect();
    Columns::new(&HEADER).page(&rows)
}

/// A line that counts the keys of each kind that begin like this; none if there are none. Of a large table it reads a part only, and
/// says so.
pub(crate) async fn counted(
    table_client: &TableClient,
    prefix: &str,
) -> Result<Option<String>, Failure> {
    let is_asked = |key: &&Inspection| key.lease.key.label().starts_with(prefix);
    let waited_for = table_client.leases.keys_with_waiters().await;
    let waited_for = waited_for.map_err(Error::of_a_read)?;
    let queues: Vec<_> = waited_for.iter().filter(is_asked).collect();
    let mut counts = Vec::new();
    if !queues.is_empty() {
        let waiting: u64 = queues.iter().map(|key| key.waiting).sum();
        let wait = if waiting == 1 { "waits" } else { "wait" };
        counts.push(format!(
            "{waiting} {wait} for {} (--waiting)",
            keys(queues.len())
        ));
    }
    let unread = match table_client.leases.restricted_keys(1).await {
        Ok(RestrictedKeys {
            keys: found,
            complete,
        }) => {
            let count = |is: fn(&Inspection) -> bool| {
                found.iter().filter(is_asked).filter(|key| is(key)).count()
            };
            for (count, what) in [
                (count(|key| key.frozen), "frozen"),
                (count(|key| key.limit.is_some()), "limited"),
            ] {
                if count > 0 {
                    counts.push(format!("{} {what} (--{what})", keys(count)));
                }
            }
            (!complete).then_some("the table is large: --frozen and --limited read all of it")
        }
        // Somebody who may list leases may lack the right to read the table.
        Err(Error::Denied { .. }) => {
            Some("to count frozen and limited keys needs dynamodb:Scan on the table")
        }
        Err(error) => return Err(error.of_a_read().into()),
    };
    counts.extend(unread.map(str::to_owned));
    Ok((!counts.is_empty()).then(|| counts.join("; ")))
}

fn keys(number: usize) -> String {
    match number {
        1 => "1 key".to_owned(),
        n => format!("{n} keys"),
    }
}
