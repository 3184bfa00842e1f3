//! The look: what Step Functions says of an execution decides whether its leases end. Reap looks when an event says that
//! an execution ended; sweep looks from time to time, because an event may be lost.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    error::Error,
    leases::{CALLS_WITHIN, LATEST_ANSWER},
    metrics::{self, Metric},
    outcomes::Ended,
    queue::engine::{Execution, Question, Receipt, Redrives, Stands},
    queue::{Queue, begin::Begins},
    row::{Holding, Row, Term},
    start::{Known, StartStatus},
    store::{Address, Applied, Operations, Store},
    transition::{Change, Look},
    values::KeepTime,
};

/// The longest time between two looks at an execution that runs.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// What a look decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The lease ends.
    End(Ended),
    /// The lease stays.
    Keep {
        /// From this instant on another look may end it, if the execution has ended and something of it may be at work.
        look_again_at: Option<Timestamp>,
        /// When to look next.
        next: Timestamp,
    },
}

/// Whether a holder knows of its grant.
enum Knows {
    /// Its history shows the lease.
    Yes,
    /// It was never notified, and never will be.
    No,
    /// It is too early to ask: not before this instant.
    AskAgainAt(Timestamp),
    /// There is no reason to ask, or no answer.
    NotAsked,
}

/// What became of a lease after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It ended.
    Ended {
        /// Whether a waiter was notified.
        notified: bool,
    },
    /// It stays.
    Kept,
    /// The row has changed since it was read.
    Changed,
}

impl<S: Store> Queue<S> {
    /// Ends the execution lease that `row` carries, or keeps it, by what the service said of its holder after the row was
    /// read; nothing, if it may not be asked. Each write requires the version that was read, so that what an extend has verified
    /// meanwhile stays. It goes by the instant at which the service was asked: a process that was suspended since knows nothing of
    /// a redrive in between, which writes nothing.
    pub(crate) async fn decide(
        &self,
        address: &Address,
        row: &Row,
        (said, asked_at): (Option<Execution>, Timestamp),
    ) -> Result<Looked, Error> {
        let is_unbegun = row.is_unbegun_start();
        if row.waits_in_pool()
            && !is_unbegun
            && let (Some(Execution::Ended { stopped_at, .. }), Some(held)) = (said, row.holding())
            && !self.may_be_redriven(row, held, (stopped_at, asked_at))
        {
            // It was never notified, so that nothing of it is at work under this lease.
            return self.take_back_from(address, row).await;
        }
        if is_unbegun && let Some(looked) = self.look_at_start(address, row, said).await? {
            return Ok(looked);
        }
        let Some(said) = said else {
            return Ok(Looked::Kept);
        };
        if said == Execution::Running {
            self.keep_item_of(&address.key, row).await?;
        }
        let Some((held, verdict)) = self.verdict(row, said, asked_at) else {
            return Ok(Looked::Changed);
        };
        let (look_again_at, next) = match verdict {
            Verdict::End(ended) => {
                if !self.note_redrivable(address, row, said).await? {
                    return Ok(Looked::Changed);
                }
                return self.end_and_serve(address, row, ended).await;
            }
            Verdict::Keep {
                look_again_at,
                next,
            } => (look_again_at, next),
        };
        let (mut known, mut next_look) = (is_unbegun, None);
        match self.may_know(row, held, said).await? {
            Knows::Yes => known = true,
            Knows::No => return self.take_back_from(address, row).await,
            Knows::AskAgainAt(at) => next_look = Some(at),
            Knows::NotAsked => {}
        }
        let now = self.now();
        let sweep_after = next_look.map_or(next, |at| next.min(at));
        let (was, is) = (held.term.look_again_at(), look_again_at);
        let forgets = known && held.notification.is_some();
        // Looked at before it was due, since others wait, and as it was.
        let is_due_as_before = |due| now < due && due <= sweep_after;
        if was == is && !forgets && held.sweep_after.is_some_and(is_due_as_before) {
            return Ok(Looked::Kept);
        }
        let change = Change::Look(Look {
            version: row.version,
            now,
            look_again_at,
            sweep_after,
            known,
        });
        Ok(
            match self.store().apply(address, &change, self.limit()).await? {
                Applied::Done { .. } => Looked::Kept,
                Applied::Refused(_) => Looked::Changed,
            },
        )
    }

    /// Ends the lease of an execution that has ended, and serves the waiters.
    pub(crate) async fn end_and_serve(
        &self,
        address: &Address,
        row: &Row,
        ended: Ended,
    ) -> Result<Looked, Error> {
        let ends_at = self.now();
        let Some(notified) = self.pass_on(address, row, ended).await? else {
            return Ok(Looked::Changed);
        };
        if let Some(held) = row.holding() {
            let length = ends_at.since(held.acquired_at);
            metrics::record_duration(Metric::HeldTime, length);
        }
        Ok(Looked::Ended { notified })
    }

    /// Before the lease in `row` ends, whose execution has ended: notes that it may be redriven. False if it runs again already, or
    /// the service does not say, so that the lease is not to end.
    async fn note_redrivable(
        &self,
        address: &Address,
        row: &Row,
        said: Execution,
    ) -> Result<bool, Error> {
        let Execution::Ended {
            redrivable: true, ..
        } = said
        else {
            return Ok(true);
        };
        let redrives: Option<Redrives> = self
            .engine(Question::Redrives(row.granted_to.clone()))
            .await?;
        match redrives {
            Some(redrives) if redrives.stands == Stands::Final => {}
            Some(redrives) if redrives.stands == Stands::Redrivable => {
                self.note(address, row, Some(redrives.count)).await?;
            }
            // It runs again, or this answer is older than the one that it has ended.
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the holder of a lease that would be kept knows of the grant that was sent to its task token. Only a holder that may never have been notified is
    /// asked about: one that was granted the key at once, by a call of acquire that may have died, or one whose token was
    /// found dead.
    async fn may_know(&self, row: &Row, held: &Holding, said: Execution) -> Result<Knows, Error> {
        let Some(notification) = held.notification else {
            return Ok(Knows::NotAsked);
        };
        if row.request.is_start() {
            // Its item says so.
            return Ok(Knows::NotAsked);
        }
        let over_at = match said {
            Execution::Running => None,
            Execution::Ended { stopped_at, .. } => Some(stopped_at),
            Execution::Unknown => return Ok(Knows::NotAsked),
        };
        let runs = over_at.is_none();
        let since = match (notification.ticket, notification.refused_at) {
            (_, Some(refused_at)) => refused_at,
            (Some(_), None) if runs => return Ok(Knows::NotAsked),
            (_, None) => notification.at,
        };
        // Before that, its history may not show yet that it was notified: perhaps just before its end.
        let shows_after = self.shows_after(over_at.map_or(since, |at| at.max(since)));
        if self.now() < shows_after {
            return Ok(Knows::AskAgainAt(shows_after));
        }
        let (holder, lease) = (row.granted_to.clone(), held.lease_id.clone());
        let received = Question::Received(holder, lease, held.acquired_at);
        Ok(match self.engine(received).await? {
            Receipt::Shown => Knows::Yes,
            // Its acquire may be about to be repeated, with another token; but not one of before a redrive.
            Receipt::Missing { waits: true }
                if runs
                    && notification.ticket.is_none()
                    && !self.was_redriven_since(row, notification.at).await =>
            {
                Knows::NotAsked
            }
            Receipt::Missing { .. } => Knows::No,
            Receipt::Unreadable => Knows::NotAsked,
        })
    }

    /// Whether the holder was redriven after this notification, or about then. Whatever waited for the lease before that is gone: what the
    /// execution waits for now it has asked for anew, and it may be waiting for itself. Only once nobody may call any more who was to
    /// notify the holder: the notification may be of the new run. What cannot be said is left to a later look.
    async fn was_redriven_since(&self, row: &Row, notified: Timestamp) -> bool {
        if self.now() < self.shows_after(notified.plus(CALLS_WITHIN)) {
            return false;
        }
        let redrives = self.engine(Question::Redrives(row.granted_to.clone()));
        let redrives: Option<Redrives> = redrives.await.unwrap_or_default();
        let at = redrives.and_then(|redrives| redrives.at);
        at.is_some_and(|at| notified < self.shows_after(at))
    }

    /// Of a lease that was granted to a start of which no look has shown yet that it began: begins it, or takes back what it
    /// was granted. None if it has begun; then the service decides, as for any execution.
    async fn look_at_start(
        &self,
        address: &Address,
        row: &Row,
        said: Option<Execution>,
    ) -> Result<Option<Looked>, Error> {
        let (key, request) = (&address.key, &row.request);
        let item = self.store().start_item(key, request, self.limit()).await?;
        match item {
            Some(item) if item.status == StartStatus::Begun => Ok(None),
            Some(item) if item.status == StartStatus::Waiting && self.is_being_notified(row) => {
                Ok(Some(Looked::Kept))
            }
            Some(item) if item.status == StartStatus::Waiting => {
                let begins = self.begin_again(address, row, &item).await?;
                Ok(Some(match begins {
                    Begins::Failed { free, .. } => Looked::Ended {
                        notified: self.serve(free).await,
                    },
                    Begins::Begun | Begins::InPool | Begins::Later => Looked::Kept,
                }))
            }
            // Settled, or deleted, at the moment at which it was granted the key: it may have begun all the same.
            item => {
                let known = match (&item, said) {
                    (Some(item), _) => self.known(item).await?,
                    (None, Some(Execution::Unknown)) => Known::No,
                    (None, Some(_)) => Known::Ours,
                    (None, None) => Known::Unasked,
                };
                if known == Known::Ours {
                    if let Some(item) = &item {
                        self.note_begun(item, Some(row)).await?;
                    }
                    return Ok(None);
                }
                if self.never_begins(known, address, row).await? {
                    return self.take_back_from(address, row).await.map(Some);
                }
                Ok(Some(Looked::Kept))
            }
        }
    }

    /// Ends a grant of which its holder never knew.
    async fn take_back_from(&self, address: &Address, row: &Row) -> Result<Looked, Error> {
        Ok(match self.take_back(address, row).await? {
            Some(free) => Looked::Ended {
                notified: self.serve(Some(free)).await,
            },
            None => Looked::Changed,
        })
    }

    /// None if the row has no execution lease.
    fn verdict<'a>(
        &self,
        row: &'a Row,
        said: Execution,
        now: Timestamp,
    ) -> Option<(&'a Holding, Verdict)> {
        let held = row.holding()?;
        let Term::Execution {
            keep,
            look_again_at,
            ..
        } = held.term
        else {
            return None;
        };
        let shows_by = match held.notification {
            // Its execution may have begun some time after the row was written.
            Some(told) if row.request.is_start() => self.shows_all_calls(told.at),
            _ => self.shows_by(held),
        };
        // Twice as long after each look, so that many long leases take few looks.
        let age = now.since(held.acquired_at);
        let pause = age.clamp(self.settings().look, LONGEST_PAUSE);
        let keep_until = |next| Verdict::Keep {
            look_again_at,
            next,
        };
        let verdict = match said {
            Execution::Running => Verdict::Keep {
                look_again_at: None,
                next: now.plus(pause),
            },
            Execution::Ended {
                stopped_at,
                redrivable: true,
                ..
            } if self.may_be_redriven(row, held, (stopped_at, now)) => {
                keep_until(self.shows_by(held))
            }
            Execution::Ended {
                stopped_at,
                redrivable: true,
                ..
            } if keep != KeepTime::default() && now < kept_until(stopped_at, keep) => {
                keep_until(kept_until(stopped_at, keep))
            }
            Execution::Ended {
                all_answered: true, ..
            } => Verdict::End(Ended::Released),
            // The service may not know yet that it has begun.
            Execution::Unknown if shows_by > now => keep_until(shows_by),
            Execution::Ended { .. } | Execution::Unknown => {
                self.after_the_grace(look_again_at, said, now)
            }
        };
        Some((held, verdict))
    }

    /// Something may still be at work, or the service does not know the execution (any more): one answer alone ends nothing, even
    /// without a grace.
    fn after_the_grace(
        &self,
        look_again_at: Option<Timestamp>,
        said: Execution,
        now: Timestamp,
    ) -> Verdict {
        let grace = self.settings().reap_grace;
        // It may have been redriven and have ended again since the first look.
        let after_end = match said {
            Execution::Ended { stopped_at, .. } => stopped_at.plus(grace),
            Execution::Running | Execution::Unknown => now,
        };
        // Two answers within half a minute may both be older than its beginning, and count as one.
        let apart = match said {
            Execution::Unknown => self.shows_after(now),
            _ => now,
        };
        let at = look_again_at.unwrap_or_else(|| apart.max(now.plus(grace)));
        let at = at.max(after_end);
        if look_again_at.is_some() && at <= now {
            Verdict::End(Ended::Expired)
        } else {
            Verdict::Keep {
                look_again_at: Some(at),
                next: at,
            }
        }
    }

    /// Whether a redrive that the look does not show may have written the row: after the end, by any two clocks within
    /// the margin, and less than half a minute ago.
    pub(crate) fn may_be_redriven(
        &self,
        row: &Row,
        held: &Holding,
        (stopped_at, now): (Timestamp, Timestamp),
    ) -> bool {
        let margin = self.settings().clock_margin;
        // A start is granted its key, and called for, by others than its execution: of its own end only a proof says more. An end
        // before the grant is of an earlier run.
        let is_own = row.request.is_start() && stopped_at.plus(margin) >= held.acquired_at;
        let written_at = match held.extended_at {
            None if is_own => return false,
            Some(proven_at) if is_own => proven_at,
            _ => held.written_at(),
        };
        written_at.plus(margin) >= stopped_at && self.shows_after(written_at) > now
    }

    /// When the service shows at the latest what had happened before the row was written last. The writer's clock may be
    /// behind by a whole margin.
    fn shows_by(&self, held: &Holding) -> Timestamp {
        self.shows_after(held.written_at())
    }
}

/// Until when a lease that is kept for a redrive stays: a redrive just before shows half a minute later at the latest.
fn kept_until(stopped_at: Timestamp, keep: KeepTime) -> Timestamp {
    stopped_at.plus(keep.as_duration()).plus(LATEST_ANSWER)
}
