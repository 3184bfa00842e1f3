//! What the pages show, read from the table.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::{Error, FailedStart, Key, KeyDetails, KeyView, RestrictedKeys, Timestamp};

use crate::connect::TableClient;
use crate::ended_executions::EndedExecutions;
use crate::exit::Failure;
use crate::failed_starts;

/// The keys that somebody has or waits for, and those that an operator has frozen or limited.
#[derive(Debug)]
pub(super) struct Listed {
    /// Each with the first who waits for it.
    pub(super) views: Vec<KeyView>,
    /// Why some may be missing.
    pub(super) missing: Option<&'static str>,
    /// How many requests it took.
    pub(super) requests: usize,
}

/// A key with everything that can be read of it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) view: KeyView,
    pub(super) ended: EndedExecutions,
    pub(super) requests: usize,
}

/// Frozen and limited keys, which no index has: the table is read for them, a part of it, and not each time.
#[derive(Debug, Default)]
pub(super) struct Restricted(Mutex<Option<(Timestamp, Found)>>);

#[derive(Clone, Debug)]
struct Found {
    keys: BTreeSet<Key>,
    missing: Option<&'static str>,
}

impl Restricted {
    /// For how long they are remembered.
    const FRESH: Duration = Duration::from_mins(5);

    /// Lets the next page read them anew.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn find(&self, table_client: &TableClient) -> Result<Found, Failure> {
        let now = table_client.leases.now();
        let known = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some((at, found)) = known
            && now.since(at) < Self::FRESH
        {
            return Ok(found);
        }
        let found = match table_client.leases.restricted_keys(1).await {
            Ok(RestrictedKeys { keys, complete }) => Found {
                keys: keys.into_iter().map(|key| key.lease.key).collect(),
                missing: (!complete).then_some(
                    "The table is large: frozen and limited keys that nobody has or waits for may be missing. \
                     `leasehold ls --frozen --limited` lists them all.",
                ),
            },
            // A user who may list leases may lack the right to read the table.
            Err(Error::Denied { .. }) => Found {
                keys: BTreeSet::new(),
                missing: Some(
                    "Frozen and limited keys that nobody has or waits for are missing: to list them needs dynamodb:Scan \
                     on the table.",
                ),
            },
            Err(error) => return Err(error.of_a_read().into()),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((now, found.clone()));
        Ok(found)
    }
}

/// Reads the list of keys.
pub(super) async fn keys(
    table_client: &TableClient,
    restricted: &Restricted,
) -> Result<Listed, Failure> {
    let head = KeyDetails {
        waiters: 1,
        starts: false,
    };
    let leases = &table_client.leases;
    let views = leases.keys_in_use(head).await;
    let mut views = views.map_err(Error::of_a_read)?;
    let found = restricted.find(table_client).await?;
    let known: BTreeSet<_> = views.iter().map(|view| view.key.clone()).collect();
    for key in found.keys.difference(&known) {
        let view = leases.key_view(key, head).await;
        views.push(view.map_err(Error::of_a_read)?);
    }
    let waited_for = views.iter().filter(|view| view.waiting() > 0).count();
    Ok(Listed {
        // The index is read in parts.
        requests: 4 + views.len() + waited_for,
        missing: found.missing,
        views,
    })
}

/// Reads a key, and asks about the executions that have it.
pub(super) async fn key(table_client: &TableClient, key: &Key) -> Result<Seen, Failure> {
    let everything = KeyDetails {
        waiters: usize::MAX,
        starts: true,
    };
    let view = table_client.leases.key_view(key, everything).await;
    let view = view.map_err(Error::of_a_read)?;
    let mut ended = EndedExecutions::default();
    let leases = view.permits.iter().map(|one| &one.lease);
    ended.ask(table_client, leases).await;
    let items = [
        view.held().count(),
        view.waiters.iter().flatten().count(),
        view.failed_starts.iter().flatten().count(),
    ];
    Ok(Seen {
        requests: 2 + items.iter().sum::<usize>(),
        view,
        ended,
    })
}

/// Reads the failed starts.
pub(super) async fn failed_starts(table_client: &TableClient) -> Result<Vec<FailedStart>, Failure> {
    failed_starts::all(table_client).await
}
