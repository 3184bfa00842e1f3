//! The steps as writes of what is stored, so that most of them fit.

use std::time::Duration;

use leasehold::{
    Act, Counter, Ended, Holder, KeepTime, Key, Keys, KeysDigest, LeaseId, Metadata, Operator,
    Previous, Reason, Record, RequestDigest, RequestId, TaskToken, Timestamp, Ttl,
    row::{Frozen, Holding, Reservation, Row, State, Stored, Term},
    transition::{
        Change, CheckHeld, ConfirmReservation, EndIfUnchanged, Extend, Grant, HandOver, Join,
        Leave, Look, PassReservation, Prove, Release, ReleaseTarget, RenewReservation,
        ReplaceIfUnchanged, Reserve, ShortenDeadline, Successor, TakeoverRule, TokenFloor,
    },
    waiter::Waiter,
};

use super::steps::{PROOFS, REQUESTS, Step, Write};

const MARGIN: Duration = Duration::from_secs(2);

pub fn seconds(n: u8) -> Timestamp {
    Timestamp::from_millis(1_000_000 + 1000 * u64::from(n))
}

pub fn id(n: u8) -> LeaseId {
    LeaseId::try_from(format!("id{n}")).unwrap()
}

pub fn holder(who: u8) -> Holder {
    Holder::new(format!("h{who}")).unwrap()
}

pub fn digest(who: u8, request: u8) -> RequestDigest {
    let request = RequestId::new(format!("r{request}")).unwrap();
    RequestDigest::of(&holder(who), &request)
}

pub fn ttl(seconds: u8) -> Ttl {
    Ttl::new(Duration::from_secs(seconds.into())).unwrap()
}

pub fn row_of(stored: &Stored) -> Option<&Row> {
    match stored {
        Stored::Row(row) => Some(row),
        Stored::Absent | Stored::Foreign(_) => None,
    }
}

/// The counter that is so far from this one.
fn near(counter: u64, away: i8) -> Counter {
    Counter::new(counter.saturating_add_signed(away.into()).max(1)).unwrap()
}

/// A step, and the row that it is about.
struct Written<'a> {
    step: &'a Step,
    row: Option<&'a Row>,
}

/// The write that a step is, of a row like this; none for what is no write of one row,
/// or makes no sense there.
pub fn change(stored: &Stored, step: &Step) -> Option<Change> {
    let row = row_of(stored);
    Written { step, row }.change()
}

impl Written<'_> {
    fn token(&self) -> u64 {
        self.row.map_or(10, |row| row.fencing_token.get())
    }

    fn version(&self) -> Counter {
        let version = self.row.map_or(10, |row| row.version.get());
        near(version, self.step.away)
    }

    fn tries(&self) -> Counter {
        let reserved = self.row.and_then(Row::reserved);
        near(reserved.map_or(1, |r| r.tries.get()), self.step.away)
    }

    fn proof(&self) -> LeaseId {
        let held = self.row.and_then(Row::holding).map(|held| &held.lease_id);
        let reserved = self.row.and_then(Row::reserved).map(|r| &r.lease_id);
        match held.or(reserved) {
            Some(known) if self.step.proof >= PROOFS => known.clone(),
            _ => id(self.step.proof % PROOFS),
        }
    }

    fn over(&self) -> TakeoverRule {
        if self.step.observed {
            TakeoverRule::VersionUnchanged(self.version().into())
        } else {
            TakeoverRule::ExpiredBy(seconds(self.step.at).minus(MARGIN))
        }
    }

    /// No floor, or one at the row's token or just above it, in either way.
    fn tokens(&self) -> TokenFloor {
        let token = self.token();
        match self.step.floor {
            1 => TokenFloor::Reached(near(token, 0)),
            2 => TokenFloor::Reached(near(token, 1)),
            3 => TokenFloor::Below(near(token, 0)),
            4 => TokenFloor::Below(near(token, 1)),
            // Above what was reserved as well.
            5 => TokenFloor::Below(near(token, 2)),
            _ => TokenFloor::Reached(Counter::MIN),
        }
    }

    fn heir(&self) -> Option<Successor> {
        Some(Successor {
            lease_id: id(self.step.successor?),
            until: seconds(self.step.until),
            tokens: self.tokens(),
        })
    }

    fn expires_at(&self) -> Timestamp {
        seconds(self.step.at).plus(ttl(self.step.ttl).as_duration())
    }

    fn change(&self) -> Option<Change> {
        let (step, now) = (self.step, seconds(self.step.at));
        let next = self.heir().map_or(HandOver::Later, HandOver::Now);
        Some(match step.write {
            Write::Grant => Change::Grant(self.grant()),
            Write::Extend => Change::Extend(Extend {
                lease_id: self.proof(),
                fencing_token: near(self.token(), step.away),
                ttl: ttl(step.ttl),
                now,
                expires_at: self.expires_at(),
                require_unexpired: step.strict,
            }),
            Write::Prove => Change::Prove(Prove {
                lease_id: self.proof(),
                fencing_token: near(self.token(), step.away),
                now,
            }),
            Write::Look => Change::Look(Look {
                version: self.version(),
                now,
                look_again_at: step.strict.then(|| seconds(step.until)),
                sweep_after: now.plus(MARGIN),
            }),
            Write::Release => Change::Release(Release {
                lease_id: self.proof(),
                // A reservation is of the token to come.
                fencing_token: near(
                    self.token() + u64::from(step.reserved_for.is_some()),
                    step.away,
                ),
                of: step.reserved_for.map_or(ReleaseTarget::Grant, |who| {
                    ReleaseTarget::Reservation(holder(who))
                }),
                ended: if step.expired {
                    Ended::Expired
                } else {
                    Ended::Released
                },
                next,
                purge_at: 2000,
            }),
            Write::Expire => Change::EndIfUnchanged(EndIfUnchanged {
                version: self.version(),
                ended: Ended::Expired,
                next,
                purge_at: 3000,
            }),
            Write::Cut => Change::ShortenDeadline(ShortenDeadline {
                version: self.version(),
                expires_at: now,
                sweep_after: now.plus(MARGIN),
            }),
            Write::Leave => Change::Leave(self.leave()),
            Write::Reserve => Change::Reserve(Reserve { heir: self.heir()? }),
            Write::TryAgain => Change::RenewReservation(RenewReservation {
                tokens: self.tokens(),
                lease_id: self.proof(),
                tries: self.tries(),
                until: seconds(step.until),
            }),
            Write::Pass => Change::PassReservation(PassReservation {
                lease_id: self.proof(),
                tries: self.tries(),
                heir: self.heir()?,
            }),
            Write::Take => Change::ConfirmReservation(ConfirmReservation {
                lease_id: self.proof(),
                fencing_token: near(self.token() + 1, step.away),
                floor: self.tokens().floor(),
                holder: holder(step.who),
                metadata: Metadata::default(),
                ttl: ttl(step.ttl),
                acquired_at: seconds(step.at / 2),
                now,
                expires_at: self.expires_at(),
                sweep_after: self.expires_at().plus(MARGIN),
                require_unexpired: step.strict,
            }),
            Write::Swap => Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                seen: Some(self.version()),
                row: operated(self.row?.clone(), step.act),
            })),
            Write::Make => Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                seen: None,
                row: made(step.act),
            })),
            _ => return None,
        })
    }

    fn grant(&self) -> Grant {
        let step = self.step;
        Grant {
            request: digest(step.who, step.request),
            holder: holder(step.who),
            keys: step.strict.then(two_keys).flatten(),
            lease_id: id(step.proof),
            term: if step.execution {
                of_execution(step.ttl)
            } else {
                Term::Ttl {
                    ttl: ttl(step.ttl),
                    expires_at: self.expires_at(),
                }
            },
            metadata: Metadata::default(),
            now: seconds(step.at),
            tokens: self.tokens(),
            over: self.over(),
            sweep_after: self.expires_at().plus(MARGIN),
        }
    }

    fn leave(&self) -> Leave {
        let (step, queue) = (self.step, self.row.map(Row::waiting).unwrap_or_default());
        let place = usize::from(step.request) % queue.len().max(1);
        let request = match queue.get(place) {
            Some(waits) if step.request >= REQUESTS => waits.clone(),
            _ => digest(step.who, step.request),
        };
        let place = queue.iter().position(|waits| *waits == request);
        let seen = step.place.map(usize::from);
        Leave {
            place: seen.or(place).unwrap_or(0),
            request,
        }
    }
}

/// A step that joins the queue, and the item beside it.
pub fn join(stored: &Stored, step: &Step) -> (Join, Waiter) {
    let row = row_of(stored);
    let join = Join {
        request: digest(step.who, step.request),
        over: Written { step, row }.over(),
        cap: step.cap.into(),
    };
    (join, waiter(step, step.at))
}

pub fn waiter(step: &Step, at: u8) -> Waiter {
    let deadline = seconds(at).plus(Duration::from_secs(10));
    Waiter {
        request: digest(step.who, step.request),
        task_token: TaskToken::new(format!("token {}", step.token)).unwrap(),
        holder: holder(step.who),
        ttl: ttl(1 + at),
        metadata: Metadata::new([("at".to_owned(), at.to_string())].into()).unwrap(),
        ticket: seconds(at).as_millis(),
        asked_at: seconds(at),
        deadline,
        purge_at: deadline.as_seconds_rounded_up() + 5,
    }
}

/// The two parts of a transaction: of this row, and of one beside it that is free.
pub fn together(stored: &Stored, step: &Step) -> [Change; 2] {
    let row = row_of(stored);
    let granted = Step {
        write: Write::Grant,
        who: step.proof,
        request: step.proof,
        ttl: 10,
        observed: false,
        strict: true,
        floor: 0,
        ..*step
    };
    let grant = Change::Grant(
        Written {
            step: &granted,
            row,
        }
        .grant(),
    );
    let confirm = Change::CheckHeld(CheckHeld {
        lease_id: id(step.proof),
        fencing_token: near(Written { step, row }.token(), step.away),
        now: seconds(step.at),
    });
    [if step.strict { confirm } else { grant.clone() }, grant]
}

/// An execution lease that is kept so many seconds after a failure.
fn of_execution(keep: u8) -> Term {
    Term::Execution {
        keep: KeepTime::new(Duration::from_secs(keep.into())).unwrap(),
        looked_at: None,
        look_again_at: None,
    }
}

fn two_keys() -> Option<KeysDigest> {
    let keys = ["a", "b"].map(|key| Key::new(key).unwrap());
    KeysDigest::of(&Keys::new(keys.into()).unwrap())
}

/// A row as an operator might leave it.
fn operated(row: Row, act: u8) -> Row {
    let version = Counter::new(row.version.get() + 1).unwrap();
    let record = Record {
        act: Act::Freeze,
        who: Operator::new("o").unwrap(),
        why: Reason::new("why").unwrap(),
        at: seconds(1),
        caller: None,
    };
    let row = Row {
        version,
        operator: Some(record),
        ..row
    };
    match act {
        0 => Row {
            frozen: row.operator.clone().map(Frozen::By),
            purge_at: Some(Row::NEVER),
            ..row
        },
        1 => Row {
            frozen: None,
            purge_at: None,
            ..row
        },
        2 => Row {
            state: State::Free {
                ended: Ended::Forced,
                last_token: row.fencing_token,
                reserved: None,
            },
            fencing_token: Counter::new(row.fencing_token.get() + 1).unwrap(),
            ..row
        },
        // The queue is not the operator's, whatever the write says of it.
        3 => Row {
            queue: vec![digest(0, 0)],
            ..row
        },
        _ => another(row, act),
    }
}

/// A row that an operator makes where there is none.
fn made(act: u8) -> Row {
    let unheld = Row {
        fencing_token: Counter::MIN,
        version: Counter::new(50).unwrap(),
        granted_to: holder(0),
        request: digest(0, 0),
        request_keys: None,
        past_requests: [None, None, None],
        past_releases: [None; 3],
        previous: None,
        frozen: None,
        operator: None,
        purge_at: None,
        queue: Vec::new(),
        state: State::Free {
            ended: Ended::Released,
            last_token: Counter::MIN,
            reserved: None,
        },
    };
    operated(unheld, act)
}

/// A row of which nothing is as it was: held (5), by an execution (8), free (6), or reserved for somebody. No act of an
/// operator leaves such a one.
fn another(row: Row, act: u8) -> Row {
    let free = |reserved| State::Free {
        ended: Ended::Expired,
        last_token: Counter::new(7).unwrap(),
        reserved,
    };
    Row {
        fencing_token: Counter::new(9).unwrap(),
        granted_to: holder(2),
        request: digest(2, 20),
        request_keys: (act == 5).then(two_keys).flatten(),
        past_requests: [21, 22, 23].map(|n| Some(digest(2, n))),
        past_releases: [3, 2, 1].map(Counter::new),
        previous: Some(Previous {
            holder: holder(1),
            fencing_token: Counter::new(5).unwrap(),
            ended: Ended::Forced,
        }),
        purge_at: (![5, 8].contains(&act)).then_some(77),
        state: match act {
            5 => State::Held(Holding {
                lease_id: id(2),
                term: Term::Ttl {
                    ttl: ttl(33),
                    expires_at: seconds(36),
                },
                acquired_at: seconds(34),
                extended_at: Some(seconds(35)),
                sweep_after: Some(seconds(37)),
                metadata: Metadata::new([("another".to_owned(), "one".to_owned())].into()).unwrap(),
            }),
            8 => State::Held(Holding {
                lease_id: id(2),
                term: Term::Execution {
                    keep: KeepTime::new(Duration::from_secs(33)).unwrap(),
                    looked_at: Some(seconds(31)),
                    look_again_at: Some(seconds(32)),
                },
                acquired_at: seconds(34),
                extended_at: Some(seconds(35)),
                sweep_after: Some(seconds(37)),
                metadata: Metadata::new([("another".to_owned(), "one".to_owned())].into()).unwrap(),
            }),
            6 => free(None),
            _ => free(Some(Reservation {
                request: digest(1, 24),
                lease_id: id(0),
                until: seconds(38),
                tries: Counter::new(4).unwrap(),
            })),
        },
        ..row
    }
}
