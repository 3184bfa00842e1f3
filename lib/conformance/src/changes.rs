//! The steps as writes of what is stored, so that most of them fit.

use std::time::Duration;

use leasehold::{
    Act, AtLeast, Counter, Ended, Holder, KeepTime, Key, Keys, KeysDigest, LeaseId, Lifetime,
    Metadata, Operator, Permits, Pool, Previous, Reason, Record, RequestDigest, RequestId,
    TaskToken, Timestamp, Ttl,
    request::Request,
    row::{Entries, Entry, Frozen, Holding, InPool, Limit, Notification, Row, State, Stored, Term},
    transition::{
        Change, CheckHeld, EndIfUnchanged, Extend, Grant, Head, Join, JoinRule, Leave, LeaveReason,
        Look, Prove, Release, ReplaceIfUnchanged, ShortenDeadline, TakeoverRule, TokenFloor,
    },
    waiter::TokenItem,
};

use crate::steps::{GRANTED, NOBODY, PROOFS, REQUESTS, START, Step, THREE, Write};

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
    if who == START {
        return RequestDigest::of_start(&holder(who));
    }
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

    fn proof(&self) -> LeaseId {
        let held = self.row.and_then(Row::holding).map(|held| &held.lease_id);
        match held {
            Some(known) if self.step.proof >= PROOFS => known.clone(),
            _ => id(self.step.proof % PROOFS),
        }
    }

    fn over(&self) -> TakeoverRule {
        TakeoverRule {
            passed: seconds(self.step.at).minus(MARGIN),
            unchanged: self.step.observed.then(|| self.version().into()),
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
            _ => TokenFloor::Reached(Counter::MIN),
        }
    }

    fn expires_at(&self) -> Timestamp {
        seconds(self.step.at).plus(ttl(self.step.ttl).as_duration())
    }

    fn change(&self) -> Option<Change> {
        let (step, now) = (self.step, seconds(self.step.at));
        Some(match step.write {
            Write::Grant => Change::Grant(self.grant()),
            Write::Extend => Change::Extend(Extend {
                lease_id: self.proof(),
                fencing_token: near(self.token(), step.away),
                ttl: ttl(step.ttl),
                now,
                expires_at: self.expires_at(),
                require_unexpired: step.strict,
                behind: step.told,
            }),
            Write::Prove => Change::Prove(Prove {
                lease_id: self.proof(),
                fencing_token: near(self.token(), step.away),
                now,
                behind: step.told,
            }),
            Write::Look => Change::Look(Look {
                version: self.version(),
                now,
                look_again_at: step.strict.then(|| seconds(step.until)),
                sweep_after: now.plus(MARGIN),
                known: step.told,
            }),
            Write::Release => Change::Release(Release {
                lease_id: self.proof(),
                fencing_token: near(self.token(), step.away),
                purge_at: 2000,
            }),
            Write::Expire => Change::EndIfUnchanged(EndIfUnchanged {
                version: self.version(),
                ended: Ended::Expired,
                purge_at: 3000,
            }),
            Write::Cut => Change::ShortenDeadline(ShortenDeadline {
                version: self.version(),
                expires_at: now,
                sweep_after: now.plus(MARGIN),
            }),
            Write::JoinStart => Change::Join(self.join()),
            Write::Leave => Change::Leave(self.leave()),
            Write::Swap => Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                seen: Some(self.version()),
                row: replaced(self.row?.clone(), step.act),
                head: if step.strict { Head::Nobody } else { Head::Any },
            })),
            Write::HandOver => Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                seen: Some(self.version()),
                row: replaced(self.row?.clone(), step.act),
                head: Head::Leaves(self.head()),
            })),
            Write::Make => Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
                seen: None,
                row: made(step.act),
                head: if step.strict { Head::Nobody } else { Head::Any },
            })),
            _ => return None,
        })
    }

    fn grant(&self) -> Grant {
        let step = self.step;
        Grant {
            request: Request {
                digest: digest(step.who, step.request),
                holder: holder(step.who),
                keys: step.strict.then(two_keys).flatten(),
                lifetime: if step.execution {
                    let keep = keep(step.ttl);
                    Lifetime::Execution { keep }
                } else {
                    ttl(step.ttl).into()
                },
                permits: step.strict.then(|| of_permits(step.at)).flatten(),
                pool: None,
                at_least: at_least(step.at_least),
                metadata: Metadata::default(),
                instead_of: None,
            },
            lease_id: id(step.proof),
            now: seconds(step.at),
            tokens: self.tokens(),
            over: self.over(),
            sweep_after: self.expires_at().plus(MARGIN),
            by_token: step.told,
        }
    }

    /// Who is granted the free row.
    fn head(&self) -> RequestDigest {
        let (step, first) = (self.step, self.row.and_then(Row::head));
        match first {
            Some(first) if step.request >= REQUESTS => first.clone(),
            _ => digest(step.who, step.request),
        }
    }

    fn join(&self) -> Join {
        Join {
            request: digest(self.step.who, self.step.request),
            rule: match (self.step.execution, self.step.strict) {
                (false, _) => JoinRule::IfTaken(self.over()),
                (true, true) => JoinRule::BehindOthers,
                (true, false) => JoinRule::Always,
            },
            cap: self.step.cap.into(),
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
            because: match (step.strict, step.told) {
                (true, _) => LeaveReason::Superseded(digest(step.proof, step.request)),
                (false, true) => LeaveReason::Granted,
                (false, false) => LeaveReason::GaveUp,
            },
        }
    }
}

/// A step that joins the queue, and the item beside it.
pub fn join(stored: &Stored, step: &Step) -> (Join, TokenItem) {
    let row = row_of(stored);
    let join = Written { step, row }.join();
    (join, waiter(step, step.at))
}

pub fn waiter(step: &Step, at: u8) -> TokenItem {
    let deadline = seconds(at).plus(Duration::from_secs(10));
    TokenItem {
        request: Request {
            digest: digest(step.who, step.request),
            holder: holder(step.who),
            keys: None,
            lifetime: Lifetime::Execution { keep: keep(1 + at) },
            permits: Permits::new((at % 3).into()).ok(),
            pool: at.is_multiple_of(3).then(imports),
            at_least: at_least(at % 2),
            metadata: Metadata::new([("at".to_owned(), at.to_string())].into()).unwrap(),
            instead_of: None,
        },
        task_token: TaskToken::new(format!("token {}", step.token)).unwrap(),
        ticket: seconds(at).as_millis(),
        deadline,
        purge_at: deadline.as_seconds_rounded_up() + 5,
        superseded_by: None,
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

/// Another number than that of a moment before.
fn of_permits(at: u8) -> Option<Permits> {
    Permits::new(u16::from(at % 7) + 1).ok()
}

fn at_least(seconds: u8) -> AtLeast {
    AtLeast::new(Duration::from_secs(seconds.into())).unwrap()
}

fn keep(seconds: u8) -> KeepTime {
    KeepTime::new(Duration::from_secs(seconds.into())).unwrap()
}

/// An execution lease that is kept so many seconds after a failure.
fn of_execution(seconds: u8) -> Term {
    Term::Execution {
        keep: keep(seconds),
        looked_at: None,
        look_again_at: None,
    }
}

fn two_keys() -> Option<KeysDigest> {
    let keys = ["a", "b"].map(|key| Key::new(key).unwrap());
    KeysDigest::of(&Keys::new(keys.into()).unwrap())
}

/// A row as an operator might leave it, or one that counts another notification (4).
fn replaced(row: Row, act: u8) -> Row {
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
            kept_until: Some(Row::NEVER),
            ..row
        },
        1 => Row {
            frozen: None,
            limit: None,
            kept_until: None,
            purge_at: None,
            ..row
        },
        2 => Row {
            state: State::Free {
                ended: Ended::Forced,
                last_token: row.fencing_token,
            },
            fencing_token: Counter::new(row.fencing_token.get() + 1).unwrap(),
            ..row
        },
        // The queue stays, whatever the write says of it.
        3 => Row {
            queue: vec![digest(0, 0)],
            ..row
        },
        4 => told_again(row),
        NOBODY | THREE => Row {
            limit: Some(Box::new(Limit {
                permits: if act == NOBODY { 0 } else { 3 },
                by: row.operator.clone(),
            })),
            kept_until: Some(Row::NEVER),
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
        permits: None,
        past_requests: [None, None, None],
        past_releases: [None; 3],
        previous: None,
        frozen: None,
        limit: None,
        opens_at: None,
        kept_until: None,
        operator: None,
        purge_at: None,
        queue: Vec::new(),
        entries: None,
        state: State::Free {
            ended: Ended::Released,
            last_token: Counter::MIN,
        },
    };
    replaced(unheld, act)
}

/// A held row whose holder was told once more, and whose task token was dead.
fn told_again(row: Row) -> Row {
    let State::Held(held) = row.state else {
        return row;
    };
    let tries = held.notification.map_or(Counter::MIN, |told| told.tries);
    Row {
        state: State::Held(Holding {
            notification: Some(Notification {
                tries: near(tries.get(), 1),
                at: seconds(40),
                ticket: Some(41),
                refused_at: Some(seconds(42)),
            }),
            pool: matches!(held.term, Term::Execution { .. })
                .then(in_pool)
                .map(Box::new),
            ..held
        }),
        ..row
    }
}

fn imports() -> Pool {
    Pool::new(&Key::new("imports").unwrap(), Permits::new(2).unwrap())
}

/// A grant that is in its pool.
fn in_pool() -> InPool {
    let Pool { key, permits, .. } = imports();
    InPool {
        key,
        permits,
        entered: true,
    }
}

/// What the row of a pool has.
fn entries() -> Entries {
    let entry = |n| Entry {
        request: digest(1, n),
        key: Key::new("one in it").unwrap(),
        permit: 2,
        fencing_token: Counter::MIN,
        number: imports().permits,
    };
    Entries {
        inside: [(3, entry(1))].into(),
        waiting: vec![entry(2)],
    }
}

/// A row of which nothing is as it was: held (5), free (6), or held by an execution, with all that is said of one (7) or
/// as it is granted to the first in the queue. No act of an operator leaves such a one.
fn another(row: Row, act: u8) -> Row {
    let held = |term, notification| {
        State::Held(Holding {
            lease_id: id(2),
            term,
            acquired_at: seconds(34),
            extended_at: (act != GRANTED).then_some(seconds(35)),
            sweep_after: Some(seconds(37)),
            metadata: Metadata::new([("another".to_owned(), "one".to_owned())].into()).unwrap(),
            notification,
            pool: (act == 7).then(in_pool).map(Box::new),
        })
    };
    Row {
        fencing_token: Counter::new(9).unwrap(),
        granted_to: holder(2),
        request: digest(2, 20),
        request_keys: (act == 5).then(two_keys).flatten(),
        permits: (act == 5).then(|| of_permits(36)).flatten(),
        past_requests: [21, 22, 23].map(|n| Some(digest(2, n))),
        past_releases: [3, 2, 1].map(|token| Counter::new(token).filter(|_| act != 6)),
        previous: Some(Previous {
            holder: holder(1),
            fencing_token: Counter::new(5).unwrap(),
            ended: Ended::Forced,
        }),
        purge_at: (act == 6).then_some(77),
        opens_at: (act > 6).then(|| seconds(36)),
        entries: (act == 5 || act == 6).then(|| Box::new(entries())),
        state: match act {
            5 => {
                let (ttl, expires_at) = (ttl(33), seconds(36));
                held(Term::Ttl { ttl, expires_at }, None)
            }
            6 => State::Free {
                ended: Ended::Expired,
                last_token: Counter::new(7).unwrap(),
            },
            7 => {
                let term = Term::Execution {
                    keep: keep(33),
                    looked_at: Some(seconds(31)),
                    look_again_at: Some(seconds(32)),
                };
                let notification = Notification {
                    tries: Counter::new(4).unwrap(),
                    at: seconds(38),
                    ticket: Some(39),
                    refused_at: Some(seconds(40)),
                };
                held(term, Some(notification))
            }
            _ => held(
                of_execution(33),
                Some(Notification::first(seconds(34), Some(39))),
            ),
        },
        ..row
    }
}
