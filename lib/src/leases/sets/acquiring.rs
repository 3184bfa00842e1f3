//! Acquires a set: one transaction, and the reading of a refusal.

use super::{AcquiredAll, GrantedAll};
use crate::{
    clock::Timestamp,
    error::Error,
    leases::acquire::{differs, other_keys},
    leases::{Leases, corrupt, frozen_error, stopped_error},
    outcomes::GrantKind,
    requests::AcquireAll,
    row::{Holding, Row, Stored},
    store::{Address, AppliedAll, Operations, Store},
    transition::{Change, CheckHeld, Grant, GrantRefusal, Prove, why_not_granted},
    values::{Key, KeysDigest, LeaseId},
};

/// What a refusal of a set means.
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
enum SetRefusal {
    /// No other holder is in the way: these changes may be tried (again).
    Retry(Vec<(Address, Change)>),
    /// The caller has the whole set already: these are its rows.
    Replayed(Vec<Row>),
    /// The same, but the refusal did not contain all rows: these leases are unchanged.
    AlreadyGranted(Vec<(Address, Change)>),
    /// The caller had the set already. A part of it may have ended, or was only missing in the refusal.
    Ended(Key),
    Held(Address, Row),
}

impl<S: Store> Leases<S> {
    /// Grants all of the leases or none, in one transaction, so no order of keys can cause a deadlock. Then it reads
    /// the tokens, which a transaction does not return.
    ///
    /// A repeated call with the same holder, request id and keys returns the same leases, and [`Error::Consumed`]
    /// once any of them has ended. A conflict of transactions is not contention of holders: the call retries it, with
    /// jitter, as long as a request may take.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a ttl that is no longer than the guard, for permits or an observed version, or for a request id
    /// that was granted other keys. If several keys refuse, [`Error::Corrupt`] before [`Error::Consumed`] before [`Error::Frozen`], naming
    /// the first such key. [`Error::Throttled`] if the conflicts do not end; and those of [`Store::write`].
    /// Contention is [`AcquiredAll::Held`].
    pub async fn acquire_all(&self, request: AcquireAll) -> Result<AcquiredAll, Error> {
        let keys = request.key.as_slice();
        check(&request)?;
        self.follow_rules().await?;
        let grant = self.grant(&request, KeysDigest::of(&request.key), false)?;
        let first = keys.iter();
        let first = first.map(|key| (Address::first(key), one_of(&grant)));
        let mut changes: Vec<_> = first.collect();
        if self.settings().stopped
            && let Some(key) = keys.first().cloned()
        {
            let asked = (&grant, request.reentrant);
            return match self.replayed_all(&changes, asked, key).await {
                Err(Error::Consumed { key }) => Err(stopped_error(key)),
                replayed => replayed,
            };
        }
        let mut backoff = self.conflict_backoff();
        loop {
            match self.store().apply_all(&changes, backoff.left()).await? {
                AppliedAll::Done => return self.read_back(&changes, &grant).await,
                AppliedAll::Conflict if backoff.wait().await => {}
                AppliedAll::Conflict => return Err(self.contention_error()),
                AppliedAll::Refused(stood) => {
                    match judge(&changes, stood, &grant, request.reentrant)? {
                        SetRefusal::Retry(again) => changes = again,
                        SetRefusal::Replayed(rows) => {
                            let addresses = changes.into_iter().map(|(address, _)| address);
                            return self.together(addresses.zip(rows), &grant, None);
                        }
                        SetRefusal::AlreadyGranted(leases) => {
                            return self.read_back(&leases, &grant).await;
                        }
                        SetRefusal::Ended(key) => {
                            let asked = (&grant, request.reentrant);
                            return self.replayed_all(&changes, asked, key).await;
                        }
                        SetRefusal::Held(address, row) => {
                            return self
                                .contention(address, row, &grant.request.holder)
                                .await
                                .map(AcquiredAll::Held);
                        }
                    }
                }
            }
        }
    }

    /// The rows of these changes, as they were at one moment.
    async fn rows_of(&self, changes: &[(Address, Change)]) -> Result<Vec<Stored>, Error> {
        let addresses: Vec<_> = changes.iter().map(|(address, _)| address.clone()).collect();
        let mut backoff = self.conflict_backoff();
        loop {
            match self.store().read_rows(&addresses, backoff.left()).await? {
                Some(rows) => return Ok(rows),
                None if backoff.wait().await => {}
                None => return Err(self.contention_error()),
            }
        }
    }

    /// The set that was granted to this very request, if all of it still exists. `over` is the key of a part that the
    /// refusal did not show.
    async fn replayed_all(
        &self,
        changes: &[(Address, Change)],
        (grant, reentrant): (&Grant, bool),
        over: Key,
    ) -> Result<AcquiredAll, Error> {
        let mut ours = Vec::with_capacity(changes.len());
        for ((address, _), stored) in changes.iter().zip(self.rows_of(changes).await?) {
            match stored {
                stood @ Stored::Row(_) => match why_not_granted(stood, grant, reentrant) {
                    GrantRefusal::Replayed(row) | GrantRefusal::Reentered(row) => {
                        ours.push((address.clone(), row));
                    }
                    _ => return Err(Error::Consumed { key: over }),
                },
                _ => return Err(Error::Consumed { key: over }),
            }
        }
        self.together(ours.into_iter(), grant, None)
    }

    /// The rows that a transaction wrote.
    async fn read_back(
        &self,
        changes: &[(Address, Change)],
        asked: &Grant,
    ) -> Result<AcquiredAll, Error> {
        let rows = self.rows_of(changes).await?;
        let mut ours = Vec::with_capacity(changes.len());
        for ((address, change), stored) in changes.iter().zip(rows) {
            let key = address.key.clone();
            match stored {
                Stored::Row(row) if is_of(&row, change) => ours.push((address.clone(), row)),
                Stored::Foreign(reason) => return Err(corrupt(key, reason)),
                // The read took longer than the lease lasted, and somebody has ended it.
                Stored::Row(_) | Stored::Absent => return Err(Error::Consumed { key }),
            }
        }
        let granted = changes.iter().zip(&ours);
        let granted = granted.filter(|((_, change), _)| matches!(change, Change::Grant(_)));
        let grant = granted
            .map(|(_, (_, row))| GrantKind::after(row.previous.as_ref()))
            .max_by_key(|kind| *kind == GrantKind::Takeover);
        self.together(ours.into_iter(), asked, grant)
    }

    /// The response. `grant` is how those were granted that this call was granted, if there are any.
    fn together(
        &self,
        rows: impl Iterator<Item = (Address, Row)>,
        asked: &Grant,
        grant: Option<GrantKind>,
    ) -> Result<AcquiredAll, Error> {
        let (mut leases, mut previous) = (Vec::new(), Vec::new());
        for (address, row) in rows {
            let has = self.as_replay(address, row, &asked.request.digest)?;
            previous.push(has.previous);
            leases.push(has.lease);
        }
        let all_reentered = leases.iter().all(|lease| lease.reentered);
        let had = if all_reentered {
            GrantKind::Reentered
        } else {
            GrantKind::Replayed
        };
        Ok(AcquiredAll::Granted(GrantedAll {
            leases,
            grant: grant.unwrap_or(had),
            previous,
        }))
    }
}

/// The largest result of a task that Step Functions accepts, in bytes.
const LARGEST_ANSWER: usize = 262_144;

/// The size of a lease in the response without its key, holder and metadata. It includes the grant before it, without
/// that grant's holder, whose name is assumed to be as long as this holder's.
const REST_OF_A_LEASE: usize = 480;

fn check(request: &AcquireAll) -> Result<(), Error> {
    for (field, given) in [
        ("observed_version", request.observed_version.is_some()),
        ("permits", request.permits.is_some()),
        ("pool", request.pool.is_some()),
    ] {
        if given {
            return Err(Error::invalid(field, "goes with one key only"));
        }
    }
    check_size(request)
}

/// A workflow must not lose the response to a grant because it is too long.
fn check_size(request: &AcquireAll) -> Result<(), Error> {
    let length = |text: Result<String, _>| text.map_or(0, |text: String| text.len());
    let metadata = length(serde_json::to_string(&request.metadata));
    let each = REST_OF_A_LEASE + metadata + 2 * length(serde_json::to_string(&request.holder));
    let keys = request.key.as_slice();
    let all: usize = keys
        .iter()
        .map(|key| each + length(serde_json::to_string(key)))
        .sum();
    if all <= LARGEST_ANSWER {
        return Ok(());
    }
    let field = if metadata > 2 { "metadata" } else { "keys" };
    let problem = format!(
        "the response for {} keys would be longer than the {LARGEST_ANSWER} bytes that a workflow accepts: \
         use fewer or shorter keys, or less metadata",
        keys.len()
    );
    Err(Error::invalid(field, problem))
}

/// Each lease of the set has a lease id of its own.
fn one_of(grant: &Grant) -> Change {
    Change::Grant(Grant {
        lease_id: LeaseId::random(),
        ..grant.clone()
    })
}

fn is_of(row: &Row, change: &Change) -> bool {
    let lease_id = match change {
        Change::Grant(grant) => &grant.lease_id,
        Change::CheckHeld(check) => &check.lease_id,
        Change::Prove(proof) => &proof.lease_id,
        _ => return false,
    };
    row.holding().is_some_and(|held| held.lease_id == *lease_id)
}

/// What is in the way of a set, the worst first. `stood` has the stored item for each change that was refused.
fn judge(
    changes: &[(Address, Change)],
    stood: Vec<Option<Stored>>,
    grant: &Grant,
    reentrant: bool,
) -> Result<SetRefusal, Error> {
    let mut shown = Shown::default();
    for ((address, change), stood) in changes.iter().zip(stood) {
        match (stood, change) {
            (None, _) => shown.again.push((address.clone(), change.clone())),
            (Some(stood), Change::Grant(tried)) => {
                let refusal = why_not_granted(stood, tried, reentrant);
                shown.add(address, refusal, grant)?;
            }
            // A lease that the holder already had has changed. Ask for it anew.
            (Some(_), _) => shown.again.push((address.clone(), one_of(grant))),
        }
    }
    shown.meaning(changes.len())
}

/// What the keys of a set show.
#[derive(Default)]
struct Shown {
    /// What may be tried next, if nothing is in the way.
    again: Vec<(Address, Change)>,
    /// The leases that the caller has already.
    rows: Vec<Row>,
    /// Whether one of them was granted to this very request.
    own: bool,
    /// Whether the holder was to learn of one of them by a task token.
    untold: bool,
    // What is in the way: of each kind the first.
    consumed: Option<Key>,
    other_keys: bool,
    frozen: Option<(Key, Row)>,
    held: Option<(Address, Row)>,
}

impl Shown {
    /// What one key shows.
    fn add(
        &mut self,
        address: &Address,
        refusal: GrantRefusal,
        grant: &Grant,
    ) -> Result<(), Error> {
        let (address, key) = (address.clone(), address.key.clone());
        match refusal {
            GrantRefusal::Corrupt(reason) => return Err(corrupt(key, reason)),
            GrantRefusal::Consumed => self.consumed = self.consumed.take().or(Some(key)),
            GrantRefusal::OtherKeys => self.other_keys = true,
            GrantRefusal::Grantable(tokens) => {
                let grant = one_of(&grant.with_tokens(tokens));
                self.again.push((address, grant));
            }
            GrantRefusal::Frozen(row) => self.frozen = self.frozen.take().or(Some((key, row))),
            GrantRefusal::Held(row) => self.held = self.held.take().or(Some((address, row))),
            GrantRefusal::Differs(field) => return Err(differs(field)),
            GrantRefusal::Replayed(row) | GrantRefusal::Reentered(row) => {
                self.own |= row.request == grant.request.digest;
                if let Some(held) = row.holding() {
                    self.untold |= held.notification.is_some();
                    self.again
                        .push((address, still_held(&row, held, grant.now)));
                }
                self.rows.push(row);
            }
        }
        Ok(())
    }

    /// What all of them mean together, of which there are so many.
    fn meaning(self, keys: usize) -> Result<SetRefusal, Error> {
        if let Some(key) = self.consumed {
            return Err(Error::Consumed { key });
        }
        if self.other_keys {
            return Err(other_keys());
        }
        let grants = |(_, change): &&(_, Change)| matches!(change, Change::Grant(_));
        let missing = self.again.iter().find(grants);
        let missing = missing.map(|(address, _)| &address.key);
        // A part of the set that was granted to this very request has ended, or was missing in the refusal.
        let over = missing.or(self.frozen.as_ref().map(|(key, _)| key));
        let over = over.or(self.held.as_ref().map(|(address, _)| &address.key));
        if let Some(key) = over.filter(|_| self.own) {
            return Ok(SetRefusal::Ended(key.clone()));
        }
        let missing = missing.is_some();
        if let Some((key, row)) = self.frozen {
            return Err(frozen_error(key, row));
        }
        Ok(match self.held {
            Some((address, row)) => SetRefusal::Held(address, row),
            None if missing || self.untold => SetRefusal::Retry(self.again),
            None if self.rows.len() == keys => SetRefusal::Replayed(self.rows),
            None => SetRefusal::AlreadyGranted(self.again),
        })
    }
}

/// That a lease which the holder already has is unchanged, while the others are granted. One that it was to learn of by a
/// task token it learns of here, which is written.
fn still_held(row: &Row, held: &Holding, now: Timestamp) -> Change {
    let (lease_id, fencing_token) = (held.lease_id.clone(), row.fencing_token);
    match held.notification {
        None => Change::CheckHeld(CheckHeld {
            lease_id,
            fencing_token,
            now,
        }),
        Some(_) => Change::Prove(Prove {
            lease_id,
            fencing_token,
            now,
            behind: held.is_written_after(now),
        }),
    }
}

#[cfg(test)]
mod tests;
