//! The steps as writes of what stands there, so that most of them fit.

use std::time::Duration;

use leasehold::{
    Counter, LeaseId, Metadata, TaskToken,
    row::{Row, Stored},
    transition::{
        Change, End, Extend, Grant, Join, Leave, Pass, Release, ReleaseTarget, Reserve,
        ShortenDeadline, Swap, Take, TakeoverRule, TryAgain,
    },
    waiter::Waiter,
};

use super::{
    steps::{PROOFS, REQUESTS, Step, Token},
    values::{
        digest, heir, holder, id, made, near, next, operated, seconds, tokens, ttl, two_keys,
    },
};

/// The write that a step is, of a row that stands like this; none for what is no write of one row,
/// or makes no sense there.
pub fn change(stands: &Stored, step: &Step) -> Option<Change> {
    let row = match stands {
        Stored::Row(row) => Some(row),
        Stored::Absent | Stored::Foreign(_) => None,
    };
    Some(match *step {
        Step::Grant { .. } => Change::Grant(grant(row, step)?),
        Step::Swap { version, act } => Change::Swap(Box::new(Swap {
            seen: Some(near(self::version(row), version)),
            row: operated(row?.clone(), act),
        })),
        Step::Make { act } => Change::Swap(Box::new(Swap {
            seen: None,
            row: made(act),
        })),
        Step::Expire { version, heir } => Change::End(End {
            version: near(self::version(row), version),
            ended: leasehold::Ended::Expired,
            next: next(heir, token(row)),
            purge_at: 3000,
        }),
        Step::Cut { version, at } => Change::Cut(ShortenDeadline {
            version: near(self::version(row), version),
            expires_at: seconds(at),
            sweep_after: seconds(at).plus(MARGIN),
        }),
        Step::Extend { .. } | Step::Release { .. } | Step::Take { .. } => by_proof(row, step)?,
        _ => of_the_line(row, step)?,
    })
}

const MARGIN: Duration = Duration::from_secs(2);

fn token(row: Option<&Row>) -> u64 {
    row.map_or(10, |row| row.fencing_token.get())
}

fn version(row: Option<&Row>) -> u64 {
    row.map_or(10, |row| row.version.get())
}

fn proof(row: Option<&Row>, n: u8) -> LeaseId {
    let held = row.and_then(Row::holding).map(|held| &held.lease_id);
    let kept = row.and_then(Row::reserved).map(|kept| &kept.lease_id);
    match held.or(kept) {
        Some(stands) if n >= PROOFS => stands.clone(),
        _ => id(n % PROOFS),
    }
}

fn tries(row: Option<&Row>, step: Token) -> Counter {
    let tries = row.and_then(Row::reserved).map_or(1, |r| r.tries.get());
    near(tries, step)
}

fn over(row: Option<&Row>, at: u8, observed: Option<Token>) -> TakeoverRule {
    match observed {
        Some(step) => TakeoverRule::Unmoved(near(version(row), step).into()),
        None => TakeoverRule::At(seconds(at).minus(MARGIN)),
    }
}

fn grant(row: Option<&Row>, step: &Step) -> Option<Grant> {
    let &Step::Grant {
        who,
        request,
        id: n,
        at,
        ttl: length,
        observed,
        several,
        floor,
    } = step
    else {
        return None;
    };
    let (now, ttl, token) = (seconds(at), ttl(length), token(row));
    let expires_at = now.plus(ttl.as_duration());
    Some(Grant {
        request: digest(who, request),
        holder: holder(who),
        keys: several.then(two_keys).flatten(),
        lease_id: id(n),
        ttl,
        metadata: Metadata::default(),
        now,
        tokens: tokens(token, floor),
        over: over(row, at, observed),
        expires_at,
        sweep_after: expires_at.plus(MARGIN),
    })
}

fn by_proof(row: Option<&Row>, step: &Step) -> Option<Change> {
    let stands = token(row);
    Some(match *step {
        Step::Extend {
            id: n,
            token,
            at,
            ttl: length,
            require_unexpired,
        } => Change::Extend(Extend {
            lease_id: proof(row, n),
            fencing_token: near(stands, token),
            ttl: ttl(length),
            now: seconds(at),
            expires_at: seconds(at).plus(ttl(length).as_duration()),
            require_unexpired,
        }),
        Step::Release {
            id: n,
            token,
            kept_for,
            ended,
            heir,
        } => Change::Release(Release {
            lease_id: proof(row, n),
            // A promise is of the token to come.
            fencing_token: near(stands + u64::from(kept_for.is_some()), token),
            of: kept_for.map_or(ReleaseTarget::Grant, |who| {
                ReleaseTarget::Reservation(holder(who))
            }),
            ended: [leasehold::Ended::Released, leasehold::Ended::Expired][usize::from(ended)],
            next: next(heir, stands),
            purge_at: 2000,
        }),
        Step::Take {
            id: n,
            token,
            who,
            at,
            ttl: length,
            require_unexpired,
            floor,
        } => {
            let expires_at = seconds(at).plus(ttl(length).as_duration());
            Change::Take(Take {
                lease_id: proof(row, n),
                fencing_token: near(stands + 1, token),
                floor: tokens(stands, floor).floor(),
                holder: holder(who),
                metadata: Metadata::default(),
                ttl: ttl(length),
                acquired_at: seconds(at / 2),
                now: seconds(at),
                expires_at,
                sweep_after: expires_at.plus(MARGIN),
                require_unexpired,
            })
        }
        _ => return None,
    })
}

fn of_the_line(row: Option<&Row>, step: &Step) -> Option<Change> {
    Some(match *step {
        Step::Leave {
            who,
            request,
            place,
        } => {
            let line = row.map(Row::waiting).unwrap_or_default();
            let stands = usize::from(request) % line.len().max(1);
            let request = match line.get(stands) {
                Some(stands) if request >= REQUESTS => stands.clone(),
                _ => digest(who, request),
            };
            let stands = line.iter().position(|waits| *waits == request);
            Change::Leave(Leave {
                place: place.map(usize::from).or(stands).unwrap_or(0),
                request,
            })
        }
        Step::Reserve { heir: next } => Change::Reserve(Reserve {
            heir: heir(next, token(row)),
        }),
        Step::TryAgain {
            id: n,
            tries: step,
            until,
            floor,
        } => Change::TryAgain(TryAgain {
            tokens: tokens(token(row), floor),
            lease_id: proof(row, n),
            tries: tries(row, step),
            until: seconds(until),
        }),
        Step::Pass {
            id: n,
            tries: step,
            heir: next,
        } => Change::Pass(Pass {
            lease_id: proof(row, n),
            tries: tries(row, step),
            heir: heir(next, token(row)),
        }),
        _ => return None,
    })
}

/// A step that joins the line, and the item beside it.
pub fn join(stands: &Stored, step: &Step) -> Option<(Join, Waiter)> {
    let &Step::Join {
        who,
        request,
        at,
        observed,
        cap,
        token,
    } = step
    else {
        return None;
    };
    let row = match stands {
        Stored::Row(row) => Some(row),
        Stored::Absent | Stored::Foreign(_) => None,
    };
    let join = Join {
        request: digest(who, request),
        over: over(row, at, observed),
        cap: cap.into(),
    };
    Some((join, waiter(who, request, at, token)))
}

pub fn waiter(who: u8, request: u8, at: u8, token: u8) -> Waiter {
    let deadline = seconds(at).plus(Duration::from_secs(10));
    Waiter {
        request: digest(who, request),
        task_token: TaskToken::new(format!("token {token}")).unwrap(),
        holder: holder(who),
        ttl: ttl(1 + at),
        metadata: Metadata::new([("at".to_owned(), at.to_string())].into()).unwrap(),
        ticket: seconds(at).as_millis(),
        asked_at: seconds(at),
        deadline,
        purge_at: deadline.as_seconds_rounded_up() + 5,
    }
}
