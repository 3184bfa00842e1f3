//! Keys that the list of leases does not show, because it has only what is held: those with a queue, and those that an operator
//! has frozen or limited.

use std::collections::BTreeSet;

use crate::{
    error::Error,
    leases::{Inspection, KeyDetails, KeyView, Leases},
    pagination::Cursor,
    retry::some_at_a_time,
    row::Stored,
    store::{Address, DynamoDb, ItemAddress, Store},
    values::Key,
};

/// Entries of the index per request.
const PAGE: u32 = 1000;

/// Keys that are read at once.
const AT_ONCE: usize = 10;

/// The keys that an operator has frozen or limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestrictedKeys {
    /// The first permit of each, in the order of the keys.
    pub keys: Vec<Inspection>,
    /// Whether the whole table was read.
    pub complete: bool,
}

impl<S: Store> Leases<S> {
    /// The keys that somebody waits for: the first permit of each, which has the queue, in the order of the keys. It reads the index,
    /// which lags a little behind the rows, and then the rows of each key. In a pool wait who has been granted a key: it is among them.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn keys_with_waiters(&self) -> Result<Vec<Inspection>, Error> {
        let keys = self.indexed(|address| match address {
            ItemAddress::Waiter(key, _) | ItemAddress::Start(key, _) => Some(key),
            _ => None,
        });
        let mut keys = keys.await?;
        let mut seen = Vec::new();
        while let Some(key) = keys.pop_first() {
            for (permit, stored) in self.store().read_key(&key, self.limit()).await? {
                let Stored::Row(row) = stored else { continue };
                keys.extend(
                    row.waited_for_pool()
                        .map(|name| Key::of_pool(&Key::stored(name))),
                );
                let key = key.clone();
                let inspection = self.inspection(Address { key, permit }, &row);
                // Of starts that have failed the index has items too. They are in no queue.
                if inspection.waiting > 0 {
                    seen.push(inspection);
                }
            }
        }
        seen.sort_by(|a, b| a.lease.key.cmp(&b.lease.key));
        seen.dedup_by(|a, b| a.lease.key == b.lease.key);
        Ok(seen)
    }

    /// The keys that somebody has or waits for, with these details, in the order of the keys. It reads the index, which lags a little
    /// behind the rows, and then each key. One whose rows cannot be read is left out: [`Leases::key_view`] says why.
    ///
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn keys_in_use(&self, details: KeyDetails) -> Result<Vec<KeyView>, Error> {
        let keys = self.indexed(|address| match address {
            ItemAddress::Row(address) => Some(address.key),
            ItemAddress::Waiter(key, _) | ItemAddress::Start(key, _) => Some(key),
            _ => None,
        });
        let mut views = self.views_of(&keys.await?, details).await?;
        let held = views.iter().flat_map(KeyView::held);
        let held = held.filter_map(|one| one.lease.held.as_ref());
        let pools = held.filter_map(|held| held.in_pool.as_ref().or(held.waits_in_pool.as_ref()));
        let pools = pools.map(Key::of_pool).collect();
        views.extend(self.views_of(&pools, details).await?);
        views.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(views)
    }

    async fn views_of(
        &self,
        keys: &BTreeSet<Key>,
        details: KeyDetails,
    ) -> Result<Vec<KeyView>, Error> {
        let reads = keys.iter().map(|key| self.key_view(key, details));
        let mut views = Vec::new();
        for view in some_at_a_time(AT_ONCE, reads.collect()).await {
            match view {
                // It may have been released since, or only have starts that failed.
                Ok(view) if view.waiting() == 0 && view.held().next().is_none() => {}
                Ok(view) => views.push(view),
                Err(Error::Corrupt { key, reason }) => {
                    tracing::warn!(%key, reason, "an item is not leasehold's");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(views)
    }

    /// The keys of the items of the index.
    async fn indexed(
        &self,
        key: impl Fn(ItemAddress) -> Option<Key>,
    ) -> Result<BTreeSet<Key>, Error> {
        let mut keys = BTreeSet::new();
        let mut cursor = Some(Cursor::start(0));
        while let Some(at) = cursor {
            let (entries, next) = self.page(at, PAGE).await?;
            let addresses = entries.into_iter().filter_map(|entry| entry.address);
            keys.extend(addresses.filter_map(&key));
            cursor = next;
        }
        Ok(keys)
    }
}

impl Leases<DynamoDb> {
    /// The keys that an operator has frozen or limited, whichever holder has them. No index has them, so this reads the table, a thousand
    /// items per request, and makes at most so many requests.
    ///
    /// # Errors
    /// [`Error::Denied`] without `dynamodb:Scan` on the table, and those of [`Store::write`].
    pub async fn restricted_keys(&self, requests: usize) -> Result<RestrictedKeys, Error> {
        let mut found = RestrictedKeys::default();
        let mut from = None;
        for _ in 0..requests {
            let (rows, next) = self.store().scan_restricted(from, self.limit()).await?;
            let rows = rows.iter();
            let seen = rows.map(|(address, row)| self.inspection(address.clone(), row));
            found.keys.extend(seen);
            from = next;
            if from.is_none() {
                found.complete = true;
                break;
            }
        }
        found.keys.sort_by(|a, b| a.lease.key.cmp(&b.lease.key));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        ExecutionName, Memory, Settings, Start, StartRules, StateMachineArn,
        test_support::{FakeStepFunctions, StartFate, grant, make},
    };

    #[tokio::test]
    async fn keys_in_use_are_listed() {
        let machine = "arn:aws:states:eu-west-1:123456789012:stateMachine:work";
        let calls = Arc::new(FakeStepFunctions::default());
        calls.script_starts("refused", &[StartFate::Refused]);
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(make::clock())
            .with_engine(calls)
            .with_starts(StartRules::of(machine).expect("valid"));
        let request = |key| make::request(make::key(key), "worker", Duration::from_secs(60));
        grant(&leases, request("held")).await;
        let freed = grant(&leases, request("freed")).await;
        let _ = leases.release(&freed.lease).await.expect("released");
        for (key, name) in [
            ("queue", "first"),
            ("queue", "second"),
            ("queue", "third"),
            ("failed", "refused"),
        ] {
            let machine = StateMachineArn::new(machine).expect("valid");
            let name = ExecutionName::new(name).expect("valid");
            let _ = leases
                .start(Start::new(make::key(key), machine, name))
                .await;
        }
        let head = KeyDetails {
            waiters: 1,
            ..KeyDetails::default()
        };
        let views = leases.keys_in_use(head).await.expect("views");
        let seen = views.iter().map(|view| {
            let first = view.waiters.iter().flatten().next();
            let first = first.map(|one| one.holder.as_str().rsplit(':').next().unwrap_or_default());
            (view.key.as_str(), view.waiting(), first)
        });
        let expected = [("held", 0, None), ("queue", 2, Some("second"))];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }
}
