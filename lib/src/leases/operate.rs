//! The acts of operators, which no workflow needs: end a grant by force, freeze a key, limit it, raise a token's floor. Each
//! act is stored in the row with who did it and why, and is logged.

use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::inspect::LeaseView,
    leases::{Leases, TRIES, changed, check_size_of_pool, corrupt},
    outcomes::Ended,
    row::{Act, Frozen, Limit, Record, Row, State, Stored},
    start::{Known, StartItem, StartStatus},
    store::{Address, Applied, Operations, Store},
    transition::{Change, Head, ReplaceIfUnchanged, seed},
    values::{Caller, Counter, Holder, Key, LimitedTo, Operator, Reason, RequestDigest, RequestId},
};

#[cfg(test)]
mod tests;

/// Who acts, and why. Both are stored in the row and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReason {
    /// The person or program that acts.
    pub who: Operator,
    /// The reason, a ticket for example.
    pub why: Reason,
}

/// Which grant to end; if not set, the only one that the key has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForceReleaseOptions {
    /// Of a semaphore, which permit.
    pub permit: Option<u16>,
    /// End only the grant with this token, as [`Leases::inspect`] shows it. If somebody else holds the key by then,
    /// nobody is evicted.
    pub fencing_token: Option<Counter>,
}

impl ForceReleaseOptions {
    /// Whether they mean this grant.
    pub(crate) fn names(self, permit: u16, token: Counter) -> bool {
        self.permit.is_none_or(|wanted| wanted == permit)
            && self.fencing_token.is_none_or(|wanted| wanted == token)
    }
}

/// The result of a forced release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Forced"))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ForceReleaseOutcome {
    /// The grant has ended.
    Forced {
        /// The lease that was ended.
        evicted: Box<LeaseView>,
        /// The operator's token, above the evicted holder's and below the next grant's: a fenced
        /// write with it makes the resource refuse the evicted holder at once.
        fencing_token: Counter,
    },
    /// It was granted to a start that has not begun. Nobody starts it any more; as soon as it is certain that no call is under
    /// way, some minutes after the last one, the start fails and the key is free.
    Cancelled {
        /// The execution that was to be.
        execution_arn: Holder,
        /// From when on a sweep frees the key.
        free_at: Timestamp,
    },
    /// Nobody held it, or the grant with the given token was not the current one.
    NotHeld,
}

/// The result of a raise of the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Raised"))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum RaiseFloorOutcome {
    /// The next token will be above the floor.
    Raised,
    /// The next token would have been above the floor anyway.
    HighEnough,
}

/// The result of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LimitAnswer"))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LimitOutcome {
    /// So many may hold the key at once from now on, whatever they ask for.
    Limited {
        /// The number.
        permits: u16,
    },
    /// The callers say how many, as before.
    Unlimited,
    /// It had no limit.
    NotLimited,
}

/// The result of a freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Freeze"))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FreezeOutcome {
    /// It is now frozen.
    Frozen,
    /// It was frozen before. The record still names who froze it first, and why.
    AlreadyFrozen,
}

/// The result of an unfreeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Unfreeze"))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum UnfreezeOutcome {
    /// It can be granted again.
    Unfrozen,
    /// It was not frozen.
    NotFrozen,
}

/// A grant that an operator may end.
pub(crate) struct Evictable {
    pub(crate) address: Address,
    pub(crate) row: Row,
    pub(crate) start: NotBegun,
    /// The pool and the place in it by which it was named.
    pub(crate) place: Option<(Key, u16)>,
}

/// Whether a grant is that of a start of which no look has shown yet that it began.
pub(crate) enum NotBegun {
    No,
    /// The start with its item.
    Start(Box<StartItem>),
    /// Its item was deleted by hand: nobody begins it.
    Deleted,
}

impl<S: Store> Leases<S> {
    /// Ends the grant of `key`, whichever holder has it, and raises its token, so that the resource can refuse a fenced
    /// write of the evicted holder. The holder's next extend is [`Error::Lost`], and so is its strict release. The
    /// next grant is a takeover from a holder whose grant ended `forced`. The holder itself may still be at work:
    /// stop it first, or fence the resource.
    ///
    /// The call ends the grant that it reads first, or none. If somebody else is granted the key while the call runs,
    /// that grant is not ended. Of a semaphore it ends one permit; name the permit if more than one is held. A
    /// repeated call may evict the next holder: set [`ForceReleaseOptions::fencing_token`] if the call may be repeated.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a permit has to be named, [`Error::Corrupt`], [`Error::Throttled`] if others kept
    /// writing to the row, and those of [`Store::write`].
    pub async fn force_release(
        &self,
        key: &Key,
        which: ForceReleaseOptions,
        because: &AuditReason,
    ) -> Result<ForceReleaseOutcome, Error> {
        let Some(evictable) = self.evictable(key, which).await? else {
            return Ok(ForceReleaseOutcome::NotHeld);
        };
        let place = evictable.place.clone();
        let outcome = self.evict(evictable, Known::No, because).await?;
        Ok(outcome.of(place))
    }

    /// Ends a grant that was read; of a start that may not have begun, by what the service says of its execution.
    pub(crate) async fn evict(
        &self,
        Evictable {
            address,
            row: mut seen,
            start,
            place: _,
        }: Evictable,
        known: Known,
        because: &AuditReason,
    ) -> Result<ForceReleaseOutcome, Error> {
        let key = &address.key;
        let (waits, was_asked_for) = match start {
            NotBegun::No => (false, true),
            NotBegun::Deleted => (false, false),
            NotBegun::Start(item) => (item.status == StartStatus::Waiting, true),
        };
        if waits && known != Known::Ours {
            let free_at = self.cancel_start(&address, &seen, known).await?;
            let execution_arn = seen.granted_to;
            return Ok(ForceReleaseOutcome::Cancelled {
                execution_arn,
                free_at,
            });
        }
        let noted_at = self.now();
        self.note_forced(&address, &seen).await?;
        let token = seen.fencing_token;
        for _ in 0..TRIES {
            let next = self.evicted(&seen, was_asked_for);
            let refused = self.swap(&address, Some(&seen), next, Act::ForceRelease, because);
            match refused.await? {
                // It was extended in between.
                Some(Stored::Row(row)) if row.fencing_token == token && row.holding().is_some() => {
                    seen = row;
                }
                None => {
                    // A redrive since then was one with its lease, if this process was suspended.
                    if self.now().since(noted_at) > self.settings().clock_margin {
                        self.note_forced(&address, &seen).await?;
                    }
                    return Ok(self.forced(address, &seen));
                }
                // The response was lost and others were granted the key since; or another operator did the same.
                Some(Stored::Row(row)) if was_forced(&row, token) => {
                    return Ok(self.forced(address, &seen));
                }
                Some(Stored::Foreign(reason)) => return Err(corrupt(key.clone(), reason)),
                Some(_) => return Ok(ForceReleaseOutcome::NotHeld),
            }
        }
        Err(self.contention_error())
    }

    /// The row once its grant is ended by force.
    fn evicted(&self, seen: &Row, was_asked_for: bool) -> Row {
        let token = self.operators(seen.fencing_token);
        Row {
            fencing_token: token,
            purge_at: Some(seen.purge_once_free(self.purge_at(token))),
            opens_at: None,
            state: State::Free {
                ended: Ended::Forced,
                last_token: seen.fencing_token,
            },
            // A start that nobody asked for was not granted the key, and may be asked for.
            request: if was_asked_for {
                seen.request.clone()
            } else {
                RequestDigest::of(&seen.granted_to, &RequestId::random())
            },
            ..seen.clone()
        }
    }

    /// Writes down who is about to have the execution stopped that holds `key`, and why: the row says so, and the log of the one that
    /// ends its lease. Returns whether it holds the key.
    ///
    /// # Errors
    /// As [`Leases::freeze`].
    pub async fn note_stop(
        &self,
        key: &Key,
        execution: &Holder,
        because: &AuditReason,
    ) -> Result<bool, Error> {
        if key.pool_name().is_some() {
            let mut holds = false;
            for key in self.keys_inside(key, execution).await? {
                holds |= Box::pin(self.note_stop(&key, execution, because)).await?;
            }
            return Ok(holds);
        }
        let holds = |row: &&Row| row.holding().is_some() && row.granted_to == *execution;
        let noted = self.change_all(key, Act::Stop, because, |_, row| {
            Ok(row.filter(holds).cloned())
        });
        noted.await
    }

    /// Keeps `key` from being granted, taken over or revived, until [`Leases::unfreeze`]. The current holder may
    /// still extend in time, and release. A key that was never leased can be frozen too.
    ///
    /// Of a semaphore, all permits are frozen. An acquire that is in progress at that moment may still be granted a
    /// permit that was never granted before. If the call is repeated, also after its future was dropped, it continues
    /// where it stopped.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Throttled`] if others kept writing to a row, and those of
    /// [`Store::write`].
    pub async fn freeze(&self, key: &Key, because: &AuditReason) -> Result<FreezeOutcome, Error> {
        let frozen = Some(Frozen::By(self.record(Act::Freeze, because)));
        let froze = self
            .change_all(key, Act::Freeze, because, |_, row| {
                let row = match row {
                    Some(row) if row.frozen.is_some() => return Ok(None),
                    Some(row) => row.clone(),
                    None => self.untouched(),
                };
                Ok(Some(self.purged_as_it_is(Row {
                    frozen: frozen.clone(),
                    ..row
                })))
            })
            .await?;
        Ok(if froze {
            FreezeOutcome::Frozen
        } else {
            FreezeOutcome::AlreadyFrozen
        })
    }

    /// Lets `key` be granted again.
    ///
    /// # Errors
    /// As [`Leases::freeze`].
    pub async fn unfreeze(
        &self,
        key: &Key,
        because: &AuditReason,
    ) -> Result<UnfreezeOutcome, Error> {
        let thawed = self
            .change_all(key, Act::Unfreeze, because, |_, row| {
                Ok(row.filter(|row| row.frozen.is_some()).map(|row| {
                    self.purged_as_it_is(Row {
                        frozen: None,
                        ..row.clone()
                    })
                }))
            })
            .await?;
        Ok(if thawed {
            UnfreezeOutcome::Unfrozen
        } else {
            UnfreezeOutcome::NotFrozen
        })
    }

    /// Sets how many may hold `key` at once, whatever callers ask for with [`Acquire::permits`](crate::Acquire::permits); without
    /// a number, the callers say so again. It stays until another one is set, also while nobody uses the key. A key that was
    /// never leased can be limited too.
    ///
    /// A lower number takes effect as permits are returned, a higher one at once, also for those who wait. A mutex, whose
    /// callers ask for no permit, stays a mutex. With 0 nobody is granted the key, and everybody keeps the place in the queue;
    /// a caller that does not wait gets [`Error::Frozen`], or [`Error::Held`] while somebody has it or waits. An acquire or a grant to a waiter
    /// that is in progress at that moment may still grant a permit as before. If the call is repeated, it stores the same number
    /// again.
    ///
    /// # Errors
    /// As [`Leases::freeze`].
    pub async fn limit_to(
        &self,
        key: &Key,
        permits: Option<LimitedTo>,
        because: &AuditReason,
    ) -> Result<LimitOutcome, Error> {
        if key.pool_name().is_some()
            && let Some(permits) = permits
        {
            check_size_of_pool(permits.get(), "permits")?;
        }
        let limit = permits.map(|permits| {
            Box::new(Limit {
                permits: permits.get(),
                by: Some(self.record(Act::Limit, because)),
            })
        });
        let changed = self
            .change_all(key, Act::Limit, because, |address, row| {
                // The first row says it for all.
                let limited = row.is_some_and(|row| row.limit.is_some());
                if address.permit > 0 || limit.is_none() && !limited {
                    return Ok(None);
                }
                let row = row.cloned().unwrap_or_else(|| self.untouched());
                Ok(Some(self.purged_as_it_is(Row {
                    limit: limit.clone(),
                    ..row
                })))
            })
            .await?;
        Ok(match limit {
            Some(limit) => LimitOutcome::Limited {
                permits: limit.permits,
            },
            None if changed => LimitOutcome::Unlimited,
            None => LimitOutcome::NotLimited,
        })
    }

    /// When DynamoDB may delete the row as it is now.
    fn purged_as_it_is(&self, row: Row) -> Row {
        let is_kept = row.frozen.is_some() || row.limit.is_some();
        let row = Row {
            kept_until: is_kept.then_some(Row::NEVER),
            ..row
        };
        // One that is held is not purged, and one that has a queue.
        let has_entries = row
            .entries
            .as_ref()
            .is_some_and(|entries| !entries.is_empty());
        let is_in_use = row.holding().is_some() || row.head().is_some() || has_entries;
        Row {
            purge_at: (!is_in_use).then(|| row.purge_once_free(self.purge_at(row.fencing_token))),
            ..row
        }
    }

    /// Ensures that the next token of `key` is above `floor`: for tables that were restored from a backup, which sets
    /// tokens back. If not given, the floor is now in milliseconds since the epoch, which is above all tokens that
    /// were ever granted. A permit that was never granted starts from the clock, and so above any floor that is not
    /// in the future. For a whole table, use [`crate::Settings::token_floor`].
    ///
    /// The key must not be held, because the token of a grant does not change. Afterwards the last grant of the key is
    /// a grant to the operator that ended `forced`, because a restored row does not know how its last grant ended.
    ///
    /// # Errors
    /// [`Error::Held`] while somebody holds it (force its release first); [`Error::Invalid`] for
    /// a floor above [`Counter::HIGHEST_FLOOR`]; and as [`Leases::freeze`].
    pub async fn raise_floor(
        &self,
        key: &Key,
        floor: Option<Counter>,
        because: &AuditReason,
    ) -> Result<RaiseFloorOutcome, Error> {
        let now = self.now();
        let floor = floor.unwrap_or_else(|| seed(now));
        if floor > Counter::HIGHEST_FLOOR {
            return Err(Error::invalid("floor", "must be at most 5 * 10^14"));
        }
        let floor = floor.max(self.settings().token_floor);
        let token = floor.plus(1);
        let raised = self
            .change_all(key, Act::RaiseFloor, because, |at, row| match row {
                Some(row) => self.raised(at, row, (floor, now), because),
                None => Ok((seed(now) < floor).then(|| Row {
                    fencing_token: token,
                    purge_at: Some(self.purge_at(token)),
                    state: State::Free {
                        ended: Ended::Released,
                        last_token: token,
                    },
                    ..self.untouched()
                })),
            })
            .await?;
        Ok(if raised {
            RaiseFloorOutcome::Raised
        } else {
            RaiseFloorOutcome::HighEnough
        })
    }

    /// The row once its next token is above this floor; none if it would have been anyway.
    fn raised(
        &self,
        at: &Address,
        row: &Row,
        (floor, now): (Counter, Timestamp),
        because: &AuditReason,
    ) -> Result<Option<Row>, Error> {
        if row.fencing_token >= floor {
            return Ok(None);
        }
        let passed = now.minus(self.settings().clock_margin);
        if row.holding().is_some_and(|held| held.expires_at() > passed) {
            let contention = self.held(at.clone(), row, &Holder::from(&because.who))?;
            return Err(Error::Held(Box::new(contention)));
        }
        let token = floor.plus(1);
        let [first, second, _] = row.past_requests.clone();
        Ok(Some(Row {
            fencing_token: token,
            granted_to: Holder::from(&because.who),
            previous: Some(row.last_grant()),
            past_requests: [Some(row.request.clone()), first, second],
            past_releases: row.past_releases,
            state: State::Free {
                ended: Ended::Forced,
                last_token: floor,
            },
            // Later than after a release; a freeze and a limit go on.
            purge_at: row
                .purge_at
                .max(Some(row.purge_once_free(self.purge_at(token)))),
            version: row.version,
            frozen: row.frozen.clone(),
            limit: row.limit.clone(),
            kept_until: row.kept_until,
            ..self.untouched()
        }))
    }

    /// The grant to end; of a pool that of the key that is inside.
    pub(crate) async fn evictable(
        &self,
        key: &Key,
        which: ForceReleaseOptions,
    ) -> Result<Option<Evictable>, Error> {
        if key.pool_name().is_some() {
            let Some((place, entry)) = self.inside(key, which).await? else {
                return Ok(None);
            };
            let of_key = ForceReleaseOptions {
                permit: Some(entry.permit),
                fencing_token: Some(entry.fencing_token),
            };
            let meant = Box::pin(self.evictable(&entry.key, of_key)).await?;
            let place = Some((key.clone(), place));
            return Ok(meant.map(|meant| Evictable { place, ..meant }));
        }
        let rows = self.read_own_rows(key).await?;
        let held = rows.into_iter().filter(|(permit, row)| {
            row.holding().is_some() && which.names(*permit, row.fencing_token)
        });
        let mut held: Vec<_> = held.collect();
        only_one(held.iter().map(|(permit, _)| *permit))?;
        match held.pop() {
            None => Ok(None),
            Some((permit, row)) => {
                let start = if row.is_unbegun_start() {
                    let item = self.store().start_item(key, &row.request, self.limit());
                    let item = item.await?.map(Box::new);
                    item.map_or(NotBegun::Deleted, NotBegun::Start)
                } else {
                    NotBegun::No
                };
                let key = key.clone();
                let address = Address { key, permit };
                Ok(Some(Evictable {
                    address,
                    row,
                    start,
                    place: None,
                }))
            }
        }
    }

    /// Nobody begins the start any more that `row` was granted to. A call may be under way, so that the key is free only when that
    /// shows: at the instant that is returned.
    async fn cancel_start(
        &self,
        at: &Address,
        row: &Row,
        known: Known,
    ) -> Result<Timestamp, Error> {
        let notification = row.holding().and_then(|held| held.notification);
        let Some(notification) = notification else {
            return Err(changed(&at.key));
        };
        if notification.refused_at.is_none() && self.note_refusal(at, row).await?.is_none() {
            return Err(self.contention_error());
        }
        let over_at = self.shows_all_calls(notification.at);
        Ok(match known {
            Known::Unasked => self.ends_unasked(over_at),
            Known::No | Known::Ours | Known::Another => over_at,
        })
    }

    pub(crate) fn forced(&self, address: Address, evicted: &Row) -> ForceReleaseOutcome {
        ForceReleaseOutcome::Forced {
            fencing_token: self.operators(evicted.fencing_token),
            evicted: Box::new(self.view(address, evicted)),
        }
    }

    /// A row that nobody was ever granted.
    pub(crate) fn untouched(&self) -> Row {
        let now = self.now();
        let holder = Holder::stored(Row::NOBODY);
        let token = seed(now).max(self.settings().token_floor).plus(1);
        Row {
            fencing_token: token,
            version: seed(now),
            request: RequestDigest::of(&holder, &RequestId::random()),
            granted_to: holder,
            request_keys: None,
            permits: None,
            past_requests: [None, None, None],
            past_releases: [None; 3],
            previous: None,
            frozen: None,
            limit: None,
            opens_at: None,
            kept_until: None,
            operator: None,
            purge_at: Some(self.purge_at(token)),
            queue: Vec::new(),
            entries: None,
            state: State::Free {
                ended: Ended::Released,
                last_token: token,
            },
        }
    }

    /// The operator's own token: above the evicted grant's and the floor, and below the next grant's.
    fn operators(&self, token: Counter) -> Counter {
        token.max(self.settings().token_floor).plus(1)
    }

    fn record(&self, act: Act, because: &AuditReason) -> Record {
        let AuditReason { who, why } = because.clone();
        let at = self.now();
        let caller = self.caller().cloned();
        Record {
            act,
            who,
            why,
            at,
            caller,
        }
    }

    /// Changes every row of a key for which `change` returns a new form; returns whether there was one. A key without
    /// a row gets the row of its first permit. Nothing is written if `change` refuses any of the rows.
    async fn change_all(
        &self,
        key: &Key,
        act: Act,
        because: &AuditReason,
        change: impl Fn(&Address, Option<&Row>) -> Result<Option<Row>, Error>,
    ) -> Result<bool, Error> {
        let mut changed = false;
        for _ in 0..TRIES {
            let rows = self.read_own_rows(key).await?;
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
        Err(self.contention_error())
    }

    /// Replaces `row` with `next` if nobody else has written in between; otherwise returns what is stored.
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
        let change = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: row.map(|row| row.version),
            row: next.clone(),
            head: Head::Any,
        }));
        let applied = self.store().apply(address, &change, self.limit()).await?;
        match applied {
            // Our own write, whose response was lost and which was sent again.
            Applied::Refused(Stored::Row(found)) if is_but_for_the_queue(&found, &next) => {}
            Applied::Refused(found) => return Ok(Some(found)),
            Applied::Done { .. } => {}
        }
        let (key, permit) = (&address.key, address.permit);
        let had_it = row.filter(|row| row.holding().is_some());
        let holder = had_it.map(|row| row.granted_to.as_str());
        let evicted = had_it.filter(|_| act == Act::ForceRelease);
        let evicted_token = evicted.map(|row| row.fencing_token.get());
        let acquired_at = evicted.and_then(|row| Some(row.holding()?.acquired_at.to_string()));
        let (act, AuditReason { who, why }) = (act.as_str(), because);
        let caller = self.caller().map(Caller::as_str);
        tracing::warn!(
            %key, permit, act, %who, caller, %why, holder, fencing_token = token, evicted_token, acquired_at,
            "an operator acted"
        );
        Ok(None)
    }
}

/// Fails if an operator may mean several.
pub(crate) fn only_one(permits: impl ExactSizeIterator<Item = u16>) -> Result<(), Error> {
    if permits.len() < 2 {
        return Ok(());
    }
    let named: Vec<_> = permits.take(20).map(|permit| permit.to_string()).collect();
    let problem = format!(
        "more than one permit is held: name one of {}",
        named.join(", ")
    );
    Err(Error::invalid("permit", problem))
}

/// The queue may grow and shrink at any time, whatever the operator does.
pub(crate) fn is_but_for_the_queue(found: &Row, next: &Row) -> bool {
    let queue = found.queue.clone();
    let next = next.clone();
    *found == Row { queue, ..next }
}

/// Whether the grant of this token was ended by force, whatever happened later.
fn was_forced(row: &Row, token: Counter) -> bool {
    let last = row.holding().is_none().then(|| row.last_grant());
    [last, row.previous.clone()]
        .into_iter()
        .flatten()
        .any(|grant| grant.fencing_token == token && grant.ended == Ended::Forced)
}
