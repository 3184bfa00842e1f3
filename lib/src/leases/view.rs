//! What an operator sees of a key: the one source for everything that shows keys to people.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{Inspected, Inspection, LeaseState, Leases, WaiterView},
    row::{Limit, Record, Row},
    start::{ExecutionName, FAILED, StartItem, StartStatus, StateMachineArn},
    store::{Address, ItemAddress, Operations, Store},
    values::{Holder, Key, Permits},
};

#[cfg(test)]
mod tests;

/// What an operator sees of a key, as it was at one instant. A text or a page is a function of this and of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// What is looked at.
    pub key: Key,
    /// Every permit that was ever granted, in order; of a mutex its only one. Empty if the key was never leased, or so long ago
    /// that its row is gone.
    pub permits: Vec<Inspection>,
    /// The permits whose holder is a start that is not known to have begun: Step Functions was not called yet, or did not accept
    /// the call, and the stack calls again. Empty unless [`KeyDetails::starts`] asks.
    pub not_begun: BTreeSet<u16>,
    /// Who waits for it, in the order of the queue, as far as [`KeyDetails::waiters`] asks.
    pub waiters: Option<Vec<WaiterView>>,
    /// The starts of the key that have failed, oldest first, if [`KeyDetails::starts`] asks and the caller may read the index.
    pub failed_starts: Option<Vec<FailedStart>>,
    /// When it was looked at.
    pub seen_at: Timestamp,
}

/// What to read of a key besides its rows, which take one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyDetails {
    /// How many of those who wait, from the head of the queue on: a request for each.
    pub waiters: usize,
    /// Whether what was started through it has begun, and what has failed to: one request for each permit that a start has, and
    /// one for each failed start of the key; and the entries of the index of all failed starts.
    pub starts: bool,
}

/// A start that has failed, without its input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedStart {
    /// The key that it was to have.
    pub key: Key,
    /// The execution that was to be.
    pub execution_arn: Holder,
    /// What was to be started.
    pub state_machine_arn: StateMachineArn,
    /// Under which name.
    pub name: ExecutionName,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// Why it has failed.
    pub reason: String,
}

impl FailedStart {
    /// The view of a start; none if it has not failed.
    #[must_use]
    pub fn of(start: StartItem) -> Option<Self> {
        let StartStatus::Failed(reason) = start.status else {
            return None;
        };
        Some(Self {
            execution_arn: start.request.holder,
            key: start.key,
            state_machine_arn: start.state_machine,
            name: start.name,
            asked_at: start.asked_at,
            reason,
        })
    }
}

impl KeyView {
    /// The view of a key from the response of the function inspect, without what that does not have.
    #[must_use]
    pub fn of(key: Key, inspected: Inspected, seen_at: Timestamp) -> Self {
        Self {
            key,
            permits: match inspected {
                Inspected::Found { first, permits } if permits.is_empty() => vec![first],
                Inspected::Found { permits, .. } => permits,
                Inspected::Absent => Vec::new(),
            },
            not_begun: BTreeSet::new(),
            waiters: None,
            failed_starts: None,
            seen_at,
        }
    }

    /// The first permit, which has the queue and the limit; of a mutex the only one.
    #[must_use]
    pub fn first(&self) -> Option<&Inspection> {
        self.permits.first()
    }

    /// The permits that are held, or expired and not taken.
    pub fn held(&self) -> impl Iterator<Item = &Inspection> {
        self.permits.iter().filter(|one| one.lease.held.is_some())
    }

    /// One that waits while its own permits leave it no room: nobody else ends its wait.
    #[must_use]
    pub fn waits_for_itself(&self) -> Option<&Holder> {
        let held = || self.held().filter_map(|one| one.lease.held.as_ref());
        let mut waiters = self.waiters.iter().flatten();
        let waiter = waiters.find(|waiter| {
            let own = held().filter(|held| held.holder == waiter.holder).count();
            let asked = waiter.permits.map_or(1, Permits::get);
            let most = self.limit().map_or(asked, |limit| limit.permits);
            own > 0 && own >= most.into()
        });
        waiter.map(|waiter| &waiter.holder)
    }

    /// Whether it was granted to several at once, or by another permit than the first.
    #[must_use]
    pub fn is_semaphore(&self) -> bool {
        self.permits.iter().any(|one| one.lease.permit > 0)
    }

    /// How many may hold it at once: as an operator has set it, or as many as were ever granted.
    #[must_use]
    pub fn size(&self) -> usize {
        self.limit()
            .map_or(self.permits.len(), |limit| limit.permits.into())
    }

    /// Whether an operator froze it, so that it cannot be granted.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.permits.iter().any(|one| one.frozen)
    }

    /// How many may hold it at once, if an operator has set that, and who did.
    #[must_use]
    pub fn limit(&self) -> Option<&Limit> {
        self.first()?.limit.as_deref()
    }

    /// How many requests wait for it.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.first().map_or(0, |first| first.waiting)
    }

    /// What an operator last did to it or to one of its permits, why, and when.
    #[must_use]
    pub fn last_act(&self) -> Option<&Record> {
        let acts = self.permits.iter().filter_map(|one| one.operator.as_ref());
        acts.max_by_key(|record| record.at)
    }

    /// The numbers of permits that those who have one, and those who were seen to wait, ask for. Several mean that callers disagree:
    /// then the smallest counts, or the limit.
    #[must_use]
    pub fn sizes_asked_for(&self) -> BTreeSet<u16> {
        let taken = self
            .permits
            .iter()
            .filter(|one| one.state != LeaseState::Free);
        let taken = taken.filter_map(|one| one.lease.permits);
        let waiters = self.waiters.iter().flatten();
        let waiting = waiters.filter_map(|waits| waits.permits);
        taken.chain(waiting).map(Permits::get).collect()
    }
}

/// The response of the function inspect.
impl From<KeyView> for Inspected {
    fn from(view: KeyView) -> Self {
        let is_semaphore = view.is_semaphore();
        let Some(first) = view.permits.first().cloned() else {
            return Self::Absent;
        };
        Self::Found {
            first,
            permits: if is_semaphore {
                view.permits
            } else {
                Vec::new()
            },
        }
    }
}

/// Entries of the index per request.
const PAGE: u32 = 1000;

impl<S: Store> Leases<S> {
    /// What is stored under `key`, read consistently: [`Leases::key_view`] as the function inspect answers it.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::write`].
    pub async fn inspect(&self, key: &Key) -> Result<Inspected, Error> {
        let view = self.key_view(key, KeyDetails::default()).await?;
        Ok(view.into())
    }

    /// What an operator sees of `key`: its rows, read consistently, and the details that are asked for.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and those of [`Store::write`].
    pub async fn key_view(&self, key: &Key, details: KeyDetails) -> Result<KeyView, Error> {
        let rows = self.rows_to_show(key).await?;
        let inspection = |(permit, row): &(u16, Row)| {
            let (key, permit) = (key.clone(), *permit);
            self.inspection(Address { key, permit }, row)
        };
        let mut view = KeyView {
            key: key.clone(),
            permits: rows.iter().map(inspection).collect(),
            not_begun: BTreeSet::new(),
            waiters: None,
            failed_starts: None,
            seen_at: self.now(),
        };
        if details.waiters > 0 {
            let first = rows.iter().find(|(permit, _)| *permit == 0);
            let waiters = first.map(|(_, row)| self.waiters_of(key, row, details.waiters));
            view.waiters = match waiters {
                Some(waiters) => Some(waiters.await?),
                None => Some(Vec::new()),
            };
        }
        if details.starts {
            view.not_begun = self.not_begun(key, &rows).await?;
            view.failed_starts = match self.failed_starts_of(key).await {
                // A caller that may read the table may lack the right to its index.
                Err(Error::Denied { .. }) => None,
                failed => Some(failed?),
            };
        }
        Ok(view)
    }

    async fn not_begun(&self, key: &Key, rows: &[(u16, Row)]) -> Result<BTreeSet<u16>, Error> {
        let mut not_begun = BTreeSet::new();
        for (permit, row) in rows {
            let request = &row.request;
            if !request.is_start() || row.holding().is_none() {
                continue;
            }
            let item = self.store().start_item(key, request, self.limit()).await?;
            if item.is_some_and(|item| item.status == StartStatus::Waiting) {
                not_begun.insert(*permit);
            }
        }
        Ok(not_begun)
    }

    async fn failed_starts_of(&self, key: &Key) -> Result<Vec<FailedStart>, Error> {
        let failed = Holder::stored(FAILED);
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let store = self.store();
            let page = store.held_by(&failed, from.as_ref(), PAGE, self.limit());
            let page = page.await?;
            for entry in page.entries {
                if let Some(ItemAddress::Start(of, request)) = entry.address
                    && of == *key
                {
                    let item = store.start_item(key, &request, self.limit()).await?;
                    found.extend(item.and_then(FailedStart::of));
                }
            }
            from = page.next;
            if from.is_none() {
                found.sort_by_key(|start| start.asked_at);
                return Ok(found);
            }
        }
    }
}
