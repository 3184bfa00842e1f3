//! What operators do, and nobody's workflow: end a grant by force, freeze a key, raise a token's
//! floor. Each act is written on the row with who did it and why, and is logged.

use serde::Serialize;

use crate::{
    error::Error,
    inspect::LeaseView,
    leases::{Leases, TRIES, corrupt},
    outcomes::Ended,
    row::{Act, Record},
    row::{Row, State, Stored},
    store::{Address, Applied, Store},
    transition::{Change, Swap, TOKEN_STEP, seed},
    values::{Counter, Holder, Key, Operator, Reason, RequestDigest, RequestId},
};

mod floors;
mod freezing;
#[cfg(test)]
mod tests;

pub use floors::Raised;
pub use freezing::{Freeze, Unfreeze};

/// Who acts, and why. Both are kept on the row and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReason {
    /// Who.
    pub who: Operator,
    /// Why.
    pub why: Reason,
}

/// Which grant to end; by default the only one that the key has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evict {
    /// Of a semaphore, which permit.
    pub permit: Option<u16>,
    /// Only the grant with this token, as [`Leases::inspect`] shows it: if somebody else holds the
    /// key by now, nobody is evicted.
    pub fencing_token: Option<Counter>,
}

/// The answer to a forced release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Forced {
    /// The grant is over.
    Forced {
        /// The lease that was ended.
        evicted: Box<LeaseView>,
        /// The operator's token, above the evicted holder's and below the next grant's: a guarded
        /// write with it makes the resource refuse the evicted holder at once.
        fencing_token: Counter,
    },
    /// Nobody held it, or not by the grant that was named.
    NotHeld,
}

impl<S: Store> Leases<S> {
    /// Ends the grant of `key` whoever holds it, and raises its token, so that a guarded write of
    /// the evicted holder can be refused. The holder's next extend is [`Error::Lost`], so is its
    /// strict release, and the next grant is a takeover from a holder that was `forced` out. The
    /// holder itself may still be at work: stop it first, or fence the resource.
    ///
    /// It ends the grant that it finds when it looks, or none: whoever is granted the key while it
    /// is at work is not evicted in that one's place. Of a semaphore it ends one permit; which one
    /// has to be said if more than one is held. Repeated, it finds nobody, or the next holder:
    /// name the [`Evict::fencing_token`] if it may be repeated.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a permit has to be named, [`Error::Corrupt`], [`Error::Throttled`] if
    /// others kept writing to the row, and those of [`Store::apply`].
    pub async fn force_release(
        &self,
        key: &Key,
        which: Evict,
        because: &AuditReason,
    ) -> Result<Forced, Error> {
        let Some((permit, mut seen)) = self.evictable(key, which).await? else {
            return Ok(Forced::NotHeld);
        };
        let address = Address {
            key: key.clone(),
            permit,
        };
        let token = seen.fencing_token;
        for _ in 0..TRIES {
            let next = Row {
                fencing_token: self.operators(token),
                purge_at: seen.purge_at.or(Some(self.purge_at(self.now()))),
                state: State::Free {
                    ended: Ended::Forced,
                    last_token: token,
                    reserved: None,
                },
                ..seen.clone()
            };
            let refused = self.swap(&address, Some(&seen), next, Act::ForceRelease, because);
            match refused.await? {
                // It was extended in between.
                Some(Stored::Row(row)) if row.fencing_token == token && row.holding().is_some() => {
                    seen = row;
                }
                None => return Ok(self.forced(address, &seen)),
                // The answer was lost, and the key has gone on to others since; or a colleague
                // did the same.
                Some(Stored::Row(row)) if was_forced(&row, token) => {
                    return Ok(self.forced(address, &seen));
                }
                Some(Stored::Foreign(reason)) => return Err(corrupt(key.clone(), reason)),
                Some(_) => return Ok(Forced::NotHeld),
            }
        }
        Err(self.never_still())
    }

    async fn evictable(&self, key: &Key, which: Evict) -> Result<Option<(u16, Row)>, Error> {
        let rows = self.rows(key).await?;
        let held = rows.into_iter().filter(|(permit, row)| {
            row.holding().is_some()
                && which.permit.is_none_or(|wanted| wanted == *permit)
                && which
                    .fencing_token
                    .is_none_or(|wanted| wanted == row.fencing_token)
        });
        let mut held: Vec<_> = held.collect();
        match (held.pop(), held.len()) {
            (Some((last, _)), 1..) => {
                let named = held.iter().map(|(permit, _)| *permit).chain([last]);
                let named: Vec<_> = named.take(20).map(|permit| permit.to_string()).collect();
                let problem = format!("more than one is held: say which of {}", named.join(", "));
                Err(Error::invalid("permit", problem))
            }
            (found, _) => Ok(found),
        }
    }

    fn forced(&self, address: Address, evicted: &Row) -> Forced {
        Forced::Forced {
            fencing_token: self.operators(evicted.fencing_token),
            evicted: Box::new(self.view(address, evicted)),
        }
    }

    /// A row that the operator was granted and gave back.
    fn untouched(&self, because: &AuditReason) -> Row {
        let now = self.now();
        let holder = Holder::from(&because.who);
        let token = seed(now).max(self.settings().token_floor).plus(TOKEN_STEP);
        Row {
            fencing_token: token,
            version: seed(now),
            request: RequestDigest::of(&holder, &RequestId::random()),
            granted_to: holder,
            request_keys: None,
            past_requests: [None, None, None],
            previous: None,
            frozen: None,
            operator: None,
            purge_at: Some(self.purge_at(now)),
            line: Vec::new(),
            state: State::Free {
                ended: Ended::Released,
                last_token: token,
                reserved: None,
            },
        }
    }

    /// The operator's own number: above the evicted grant's and the floor, and below the next grant's.
    fn operators(&self, token: Counter) -> Counter {
        token.max(self.settings().token_floor).plus(1)
    }

    fn record(&self, act: Act, because: &AuditReason) -> Record {
        let AuditReason { who, why } = because.clone();
        let at = self.now();
        Record { act, who, why, at }
    }

    /// Changes every row of a key that `change` has a new form for; whether there was one. A key
    /// without a row has the row of its first permit made up. Nothing is written if `change`
    /// refuses any of the rows.
    async fn change_all(
        &self,
        key: &Key,
        act: Act,
        because: &AuditReason,
        change: impl Fn(&Address, Option<&Row>) -> Result<Option<Row>, Error>,
    ) -> Result<bool, Error> {
        let mut changed = false;
        for _ in 0..TRIES {
            let rows = self.rows(key).await?;
            let mut seen: Vec<_> = rows.iter().map(|(at, row)| (*at, Some(row))).collect();
            if rows.iter().all(|(permit, _)| *permit > 0) {
                seen.insert(0, (0, None));
            }
            let mut planned = Vec::with_capacity(seen.len());
            for (permit, row) in seen {
                let key = key.clone();
                let address = Address { key, permit };
                if let Some(next) = change(&address, row)? {
                    planned.push((address, row, next));
                }
            }
            let mut quiet = true;
            for (address, row, next) in planned {
                let refused = self.swap(&address, row, next, act, because).await?;
                changed |= refused.is_none();
                quiet &= refused.is_none();
            }
            if quiet {
                return Ok(changed);
            }
        }
        Err(self.never_still())
    }

    /// Puts `next` in the place of `row` if nobody else has written in between; if somebody has,
    /// what stands there.
    async fn swap(
        &self,
        address: &Address,
        row: Option<&Row>,
        next: Row,
        act: Act,
        because: &AuditReason,
    ) -> Result<Option<Stored>, Error> {
        let next = Row {
            version: next.version.plus(1),
            operator: Some(self.record(act, because)),
            ..next
        };
        let token = next.fencing_token.get();
        let change = Change::Swap(Box::new(Swap {
            seen: row.map(|row| row.version),
            row: next.clone(),
        }));
        let applied = self.store().apply(address, &change, self.limit()).await?;
        match applied {
            // Ours after all, if the answer was lost and the write sent again.
            Applied::Refused(stands) if !is_but_for_the_line(&stands, next) => {
                return Ok(Some(stands));
            }
            Applied::Done { .. } | Applied::Refused(_) => {}
        }
        let (key, permit) = (&address.key, address.permit);
        let holder = row.filter(|row| row.holding().is_some());
        let holder = holder.map(|row| row.granted_to.as_str());
        let (act, AuditReason { who, why }) = (act.as_str(), because);
        tracing::warn!(%key, permit, act, %who, %why, holder, fencing_token = token, "an operator acted");
        Ok(None)
    }

    async fn rows(&self, key: &Key) -> Result<Vec<(u16, Row)>, Error> {
        let rows = self.store().read_key(key, self.limit()).await?;
        let ours = rows
            .into_iter()
            .filter_map(|(permit, stored)| match stored {
                Stored::Row(row) => Some(Ok((permit, row))),
                Stored::Foreign(reason) => Some(Err(corrupt(key.clone(), reason))),
                Stored::Absent => None,
            });
        ours.collect()
    }
}

/// The line may grow and shrink at any time, and is not the operator's.
fn is_but_for_the_line(stands: &Stored, next: Row) -> bool {
    match stands {
        Stored::Row(row) => {
            let line = row.line.clone();
            *row == Row { line, ..next }
        }
        _ => false,
    }
}

/// Whether the grant of this token was ended by force, whatever came after it.
fn was_forced(row: &Row, token: Counter) -> bool {
    let last = row.holding().is_none().then(|| row.last_grant());
    [last, row.previous.clone()]
        .into_iter()
        .flatten()
        .any(|grant| grant.fencing_token == token && grant.ended == Ended::Forced)
}
