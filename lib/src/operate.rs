//! What operators do, and nobody's workflow: end a grant by force, freeze a key, raise a token's
//! floor. Each act is written on the row with who did it and why, and is logged.

use serde::Serialize;

use crate::{
    error::{Cause, Error},
    inspect::LeaseView,
    leases::{Leases, corrupt},
    outcomes::Ended,
    record::{Act, Record},
    row::{Row, State, Stored},
    store::{Address, Applied, Store},
    transition::{Change, Over, Swap, TOKEN_STEP, seed},
    values::{Counter, Holder, Key, Operator, Reason, RequestDigest, RequestId},
};

/// Who acts, and why. Both are kept on the row and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Because {
    /// Who.
    pub who: Operator,
    /// Why.
    pub why: Reason,
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
    /// Nobody held it.
    NotHeld,
}

/// The answer to a freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Freeze {
    /// It is frozen as of now.
    Frozen,
    /// It was frozen before; who did it and why stays.
    AlreadyFrozen,
}

/// The answer to an unfreeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Unfreeze {
    /// It can be granted again.
    Unfrozen,
    /// It was not frozen.
    NotFrozen,
}

/// The answer to a raise of the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Raised {
    /// The next token will be above the floor.
    Raised,
    /// It would have been anyway.
    HighEnough,
}

/// How often an act is tried again because somebody else wrote to the row in between.
const TRIES: usize = 8;

impl<S: Store> Leases<S> {
    /// Ends the grant of `key` whoever holds it, and raises its token, so that a guarded write of
    /// the evicted holder can be refused. The holder's next extend is [`Error::Lost`], so is its
    /// strict release, and the next grant is a takeover from a holder that was `forced` out. The
    /// holder itself may still be at work: stop it first, or fence the resource.
    ///
    /// Of a semaphore it ends one permit; which one has to be said if more than one is held.
    /// Repeated, it finds nobody: [`Forced::NotHeld`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if a permit has to be named, [`Error::Corrupt`], [`Error::Throttled`] if
    /// others kept writing to the row, and those of [`Store::apply`].
    pub async fn force_release(
        &self,
        key: &Key,
        permit: Option<u16>,
        because: &Because,
    ) -> Result<Forced, Error> {
        for _ in 0..TRIES {
            let rows = self.rows(key).await?;
            let held = rows.into_iter().filter(|(at, row)| {
                row.holding().is_some() && permit.is_none_or(|permit| permit == *at)
            });
            let mut held: Vec<_> = held.collect();
            let (at, row) = match (held.pop(), held.len()) {
                (None, _) => return Ok(Forced::NotHeld),
                (Some(held), 0) => held,
                (Some(_), others) => {
                    let problem = format!("{} permits of the key are held: say which", others + 1);
                    return Err(Error::invalid("permit", problem));
                }
            };
            let address = Address {
                key: key.clone(),
                permit: at,
            };
            let next = Row {
                fencing_token: Ended::Forced.token_of_row(row.fencing_token),
                purge_at: row.purge_at.or(Some(self.purge_at(self.now()))),
                state: State::Free {
                    ended: Ended::Forced,
                },
                ..row.clone()
            };
            let fencing_token = next.fencing_token;
            if self
                .swap(&address, Some(&row), next, Act::ForceRelease, because)
                .await?
            {
                return Ok(Forced::Forced {
                    evicted: Box::new(self.view(address, &row)),
                    fencing_token,
                });
            }
        }
        Err(self.never_still())
    }

    /// Keeps `key` from being granted, taken over or revived, until [`Leases::unfreeze`]. Whoever
    /// holds it may extend in time, and release. A key that was never leased can be frozen too.
    ///
    /// Of a semaphore all permits are frozen; an acquire that is under way at that very moment
    /// may still be granted one that was never granted before. Repeated, or cut short and called
    /// again, it goes on where it was.
    ///
    /// # Errors
    /// As [`Leases::force_release`].
    pub async fn freeze(&self, key: &Key, because: &Because) -> Result<Freeze, Error> {
        let froze = self
            .change_all(key, Act::Freeze, because, |row| match row {
                Some(row) => (!row.frozen).then(|| Row {
                    frozen: true,
                    purge_at: Some(Row::NEVER),
                    ..row.clone()
                }),
                None => Some(Row {
                    frozen: true,
                    purge_at: Some(Row::NEVER),
                    ..self.untouched(because)
                }),
            })
            .await?;
        Ok(if froze {
            Freeze::Frozen
        } else {
            Freeze::AlreadyFrozen
        })
    }

    /// Lets `key` be granted again.
    ///
    /// # Errors
    /// As [`Leases::force_release`].
    pub async fn unfreeze(&self, key: &Key, because: &Because) -> Result<Unfreeze, Error> {
        let thawed = self
            .change_all(key, Act::Unfreeze, because, |row| {
                let row = row.filter(|row| row.frozen)?;
                let free = row.holding().is_none();
                Some(Row {
                    frozen: false,
                    purge_at: free.then(|| self.purge_at(self.now())),
                    ..row.clone()
                })
            })
            .await?;
        Ok(if thawed {
            Unfreeze::Unfrozen
        } else {
            Unfreeze::NotFrozen
        })
    }

    /// Sees to it that the next token of `key` is above `floor`: for tables that were restored
    /// from a backup, which sets tokens back. If not given, the floor is now in milliseconds since
    /// the epoch, which is above all tokens that were ever given out.
    ///
    /// The key must not be held: the tokens of a grant do not change. What was the last grant is
    /// then a grant to the operator that ended `forced`, since a restored row does not know how
    /// the last one ended.
    ///
    /// # Errors
    /// [`Error::Held`] while somebody holds it (force its release first), [`Error::Invalid`] for
    /// a floor above 2^51, and as [`Leases::force_release`].
    pub async fn raise_floor(
        &self,
        key: &Key,
        floor: Option<Counter>,
        because: &Because,
    ) -> Result<Raised, Error> {
        let now = self.now();
        let floor = floor.unwrap_or_else(|| seed(now));
        if floor > Counter::HIGHEST_FLOOR {
            return Err(Error::invalid("floor", "must be at most 2^51"));
        }
        let over = Over::At(now.minus(self.settings().clock_margin));
        for (permit, row) in self.rows(key).await? {
            if row.fencing_token < floor && row.holding().is_some() && !over.holds(&row) {
                let key = key.clone();
                let address = Address { key, permit };
                let asker = Holder::from(&because.who);
                let contention = self.contention(address, row, &asker)?;
                return Err(Error::Held(Box::new(contention)));
            }
        }
        let token = Ended::Forced.token_of_row(floor);
        let raised = self
            .change_all(key, Act::RaiseFloor, because, |row| match row {
                None if seed(now) >= floor => None,
                None => Some(Row {
                    fencing_token: token,
                    ..self.untouched(because)
                }),
                Some(row) if row.fencing_token >= floor => None,
                Some(row) if row.holding().is_some() && !over.holds(row) => None,
                Some(row) => {
                    let untouched = self.untouched(because);
                    let [first, second, _] = row.past_requests.clone();
                    Some(Row {
                        fencing_token: token,
                        previous: Some(row.last_grant()),
                        past_requests: [Some(row.request.clone()), first, second],
                        state: State::Free {
                            ended: Ended::Forced,
                        },
                        purge_at: row.purge_at.or(untouched.purge_at),
                        version: row.version,
                        frozen: row.frozen,
                        ..untouched
                    })
                }
            })
            .await?;
        Ok(if raised {
            Raised::Raised
        } else {
            Raised::HighEnough
        })
    }

    /// A row that the operator was granted and gave back.
    fn untouched(&self, because: &Because) -> Row {
        let now = self.now();
        let holder = Holder::from(&because.who);
        Row {
            fencing_token: seed(now).plus(TOKEN_STEP),
            version: seed(now),
            request: RequestDigest::of(&holder, &RequestId::random()),
            granted_to: holder,
            set_size: 1,
            past_requests: [None, None, None],
            previous: None,
            frozen: false,
            operator: None,
            purge_at: Some(self.purge_at(now)),
            state: State::Free {
                ended: Ended::Released,
            },
        }
    }

    /// Changes every row of a key that `change` has a new form for; whether there was one. A key
    /// without a row has the row of its first permit made up.
    async fn change_all(
        &self,
        key: &Key,
        act: Act,
        because: &Because,
        change: impl Fn(Option<&Row>) -> Option<Row>,
    ) -> Result<bool, Error> {
        let mut changed = false;
        for _ in 0..TRIES {
            let rows = self.rows(key).await?;
            let mut seen: Vec<_> = rows.iter().map(|(at, row)| (*at, Some(row))).collect();
            if rows.iter().all(|(permit, _)| *permit > 0) {
                seen.insert(0, (0, None));
            }
            let mut quiet = true;
            for (permit, row) in seen {
                let Some(next) = change(row) else { continue };
                let key = key.clone();
                let address = Address { key, permit };
                let swapped = self.swap(&address, row, next, act, because).await?;
                changed |= swapped;
                quiet &= swapped;
            }
            if quiet {
                return Ok(changed);
            }
        }
        Err(self.never_still())
    }

    /// Puts `next` in the place of `row` if nobody else has written in between; whether it did.
    async fn swap(
        &self,
        address: &Address,
        row: Option<&Row>,
        next: Row,
        act: Act,
        because: &Because,
    ) -> Result<bool, Error> {
        let Because { who, why } = because.clone();
        let at = self.now();
        let next = Row {
            version: next.version.plus(1),
            operator: Some(Record { act, who, why, at }),
            ..next
        };
        let token = next.fencing_token.get();
        let change = Change::Swap(Box::new(Swap {
            seen: row.map(|row| row.version),
            row: next.clone(),
        }));
        match self.store().apply(address, &change, self.limit()).await? {
            Applied::Done { .. } => {
                let (key, permit) = (&address.key, address.permit);
                let held = row.is_some_and(|row| row.holding().is_some());
                let holder = row.filter(|_| held).map(|row| row.granted_to.as_str());
                let (act, Because { who, why }) = (act.as_str(), because);
                tracing::warn!(%key, permit, act, %who, %why, holder, fencing_token = token, "an operator acted");
                Ok(true)
            }
            // Ours after all, if the answer was lost and the write sent again.
            Applied::Refused(stands) => Ok(stands == Stored::Row(next)),
        }
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

    fn never_still(&self) -> Error {
        Error::Throttled {
            action: "dynamodb:UpdateItem",
            table: self.store().name().to_owned(),
            source: Cause::said("others kept writing to the same row"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Acquire, Memory, Settings, Ttl,
        store::meddled::{Before, Meddled},
    };

    #[tokio::test]
    async fn an_act_is_tried_again_when_somebody_else_was_quicker() {
        let key = Key::new("k").expect("valid");
        let address = Address {
            key: key.clone(),
            permit: 0,
        };
        let other = {
            let leases = Leases::new(Memory::new(), Settings::default());
            let ttl = Ttl::new(Duration::from_mins(1)).expect("valid");
            let holder = Holder::new("h").expect("valid");
            let acquired = leases.acquire(Acquire::new(key.clone(), holder, ttl)).await;
            drop(acquired.expect("an answer").granted().expect("a grant"));
            match leases.store().read(&address, Duration::MAX).await {
                Ok(Stored::Row(row)) => row.to_item(),
                other => panic!("{other:?}"),
            }
        };
        // There is no row when the operator looks, and one when it writes.
        let store = Meddled::new(Before::Apply, 1, {
            let address = address.clone();
            move |table: &Memory| table.put(address, &other)
        });
        let leases = Leases::new(store.clone(), Settings::default());
        let because = Because {
            who: Operator::new("o").expect("valid"),
            why: Reason::new("y").expect("valid"),
        };
        let froze = leases.freeze(&key, &because).await;
        assert_eq!(froze.expect("an answer"), Freeze::Frozen);
        assert!(store.is_done());
        match store.table.read(&address, Duration::MAX).await {
            Ok(Stored::Row(row)) => assert!(row.frozen && row.holding().is_some()),
            other => panic!("{other:?}"),
        }
    }
}
