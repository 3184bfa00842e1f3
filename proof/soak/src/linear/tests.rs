//! Histories made by hand: good ones that must pass, and one bad one for each rule of the specification.

use super::{Verdict, check};
use crate::history::{Ask, Before, Besides, Ended, Kind, Micros, Millis, Op, Response};
use crate::row::MARGIN;

mod ending;
mod late;

const TTL: Millis = 1000;

/// A call from `begin` to `end`, in milliseconds; clocks show the same.
fn op(begin: Millis, end: Millis, ask: Ask, response: Response) -> Op {
    let micros = |millis: Millis| Micros::try_from(millis).unwrap() * 1000;
    Op {
        begin: micros(begin),
        end: micros(end),
        clock: (begin, end),
        ask,
        response,
        besides: Besides::Nothing,
        by: String::new(),
    }
}

fn besides(what: Besides, op: Op) -> Op {
    Op {
        besides: what,
        ..op
    }
}

fn ask(client: u32, request: u32) -> Ask {
    Ask::Acquire {
        holder: client,
        request,
        ttl: TTL,
        observed: None,
        reentrant: false,
    }
}

fn observing(client: u32, request: u32, version: u64) -> Ask {
    Ask::Acquire {
        holder: client,
        request,
        ttl: TTL,
        observed: Some(version),
        reentrant: false,
    }
}

fn granted(at: Millis, token: u64, previous: Option<(u32, u64, Ended)>) -> Response {
    let clean = previous.is_none_or(|(_, _, ended)| ended == Ended::Released);
    Response::Granted {
        kind: if clean { Kind::New } else { Kind::Takeover },
        token,
        lease: u32::try_from(token).unwrap(),
        version: token * 10,
        acquired_at: at,
        expires_at: at + TTL,
        previous: previous.map(|(holder, token, ended)| Before {
            holder,
            token,
            ended,
        }),
    }
}

fn replayed(response: Response) -> Response {
    match response {
        Response::Granted {
            token,
            lease,
            version,
            acquired_at,
            expires_at,
            previous,
            ..
        } => Response::Granted {
            kind: Kind::Replayed,
            token,
            lease,
            version,
            acquired_at,
            expires_at,
            previous,
        },
        other => other,
    }
}

fn held(holder: u32, token: u64, expires_at: Millis) -> Response {
    Response::Held {
        holder,
        token,
        version: token * 10,
        expires_at,
    }
}

fn extend(token: u64) -> Ask {
    Ask::Extend {
        token,
        lease: u32::try_from(token).unwrap(),
        ttl: TTL,
        require_unexpired: false,
    }
}

fn extended(token: u64, expires_at: Millis) -> Response {
    Response::Extended {
        revived: false,
        version: token * 10 + 1,
        expires_at,
    }
}

fn release(token: u64) -> Ask {
    Ask::Release {
        token,
        lease: u32::try_from(token).unwrap(),
    }
}

const RELEASED: Option<(u32, u64, Ended)> = Some((1, 12, Ended::Released));
const EXPIRED: Option<(u32, u64, Ended)> = Some((1, 12, Ended::Expired));

/// Client 1 has it from 10, with token 12, until 1010.
fn first() -> Op {
    op(0, 20, ask(1, 101), granted(10, 12, None))
}

fn released() -> Op {
    op(100, 110, release(12), Response::Released)
}

#[track_caller]
fn fine(ops: &[Op]) {
    assert_eq!(check(ops), Verdict::Fine);
}

/// The last call cannot have answered what it answered.
#[track_caller]
fn impossible(ops: &[Op]) {
    assert_eq!(check(ops), Verdict::Impossible(ops.len() - 1));
}

#[test]
fn one_after_the_other_is_fine() {
    fine(&[
        first(),
        op(30, 40, ask(2, 201), held(1, 12, 1010)),
        op(50, 60, extend(12), extended(12, 1055)),
        op(100, 110, release(12), Response::Released),
        op(120, 130, ask(2, 202), granted(125, 14, RELEASED)),
        op(140, 150, release(12), Response::AlreadyReleased),
        op(160, 170, extend(12), Response::Lost),
        op(180, 190, ask(1, 101), Response::Consumed),
    ]);
}

#[test]
fn calls_at_once_have_happened_in_some_order() {
    let second = op(100, 140, ask(2, 201), granted(130, 14, RELEASED));
    let release = op(105, 150, release(12), Response::Released);
    // In the order of their ends there would be none.
    fine(&[first(), second, release]);
}

#[test]
fn nobody_is_granted_what_somebody_has() {
    impossible(&[first(), op(30, 40, ask(2, 201), granted(35, 14, EXPIRED))]);
}

#[test]
fn nobody_takes_over_within_the_margin() {
    let over = 1010 + MARGIN;
    let takes = |at| op(at - 5, at + 5, ask(2, 201), granted(at, 14, EXPIRED));
    impossible(&[first(), takes(over - 1)]);
    fine(&[first(), takes(over)]);
}

#[test]
fn whoever_observes_takes_over_what_stands_still_only() {
    let observed = |version| {
        let takes = observing(2, 201, version);
        op(500, 510, takes, granted(505, 14, EXPIRED))
    };
    fine(&[first(), observed(120)]);
    let extends = op(50, 60, extend(12), extended(12, 1055));
    impossible(&[first(), extends, observed(120)]);
}

#[test]
fn tokens_and_versions_rise() {
    impossible(&[
        first(),
        released(),
        op(120, 130, ask(2, 201), granted(125, 12, RELEASED)),
    ]);
    let mut again = granted(125, 14, RELEASED);
    if let Response::Granted { version, .. } = &mut again {
        *version = 120;
    }
    impossible(&[first(), released(), op(120, 130, ask(2, 201), again)]);
}

#[test]
fn tokens_rise_although_the_row_was_deleted() {
    let deleted = op(100, 110, Ask::Delete, Response::Done);
    let next = |token| op(120, 130, ask(2, 201), granted(125, token, None));
    fine(&[first(), deleted.clone(), next(127)]);
    impossible(&[first(), deleted, next(11)]);
}

#[test]
fn a_spent_request_is_never_granted_again() {
    impossible(&[
        first(),
        released(),
        op(120, 130, ask(1, 101), granted(125, 14, RELEASED)),
    ]);
}

#[test]
fn a_request_has_one_grant_and_the_deadline_it_asked_for() {
    let response = granted(10, 12, None);
    fine(&[first(), op(30, 40, ask(1, 101), replayed(response))]);
    impossible(&[
        first(),
        op(30, 40, ask(1, 101), replayed(granted(30, 14, None))),
    ]);
    let mut longer = granted(10, 12, None);
    if let Response::Granted { expires_at, .. } = &mut longer {
        *expires_at += 1;
    }
    impossible(&[op(0, 20, ask(1, 101), longer)]);
}

#[test]
fn a_replayed_grant_is_reported_as_it_is() {
    let again = |change: &dyn Fn(&mut Response)| {
        let mut response = replayed(granted(10, 12, None));
        change(&mut response);
        [first(), op(30, 40, ask(1, 101), response)]
    };
    fine(&again(&|_| ()));
    impossible(&again(&|response| {
        if let Response::Granted { lease, .. } = response {
            *lease = 99;
        }
    }));
    impossible(&again(&|response| {
        if let Response::Granted { version, .. } = response {
            *version = 119;
        }
    }));
    impossible(&again(&|response| {
        if let Response::Granted { expires_at, .. } = response {
            *expires_at = 9;
        }
    }));
    impossible(&again(&|response| {
        if let Response::Granted { previous, .. } = response {
            *previous = Some(Before {
                holder: 3,
                token: 2,
                ended: Ended::Released,
            });
        }
    }));
}

#[test]
fn a_grant_after_a_release_is_new_and_any_other_a_takeover() {
    for (response, kind) in [(RELEASED, Kind::Takeover), (EXPIRED, Kind::New)] {
        let at = 1700;
        let mut granted = granted(at, 14, response);
        if let Response::Granted { kind: is, .. } = &mut granted {
            *is = kind;
        }
        let takes = op(at - 5, at + 5, ask(2, 201), granted);
        let release = op(1690, 1693, release(12), Response::Released);
        match response {
            RELEASED => impossible(&[first(), release, takes]),
            _ => impossible(&[first(), takes]),
        }
    }
}

#[test]
fn a_holder_that_died_is_not_reported_to_have_released() {
    let before = Some((1, 12, Ended::Forced));
    impossible(&[
        first(),
        op(1700, 1710, ask(2, 201), granted(1705, 14, before)),
    ]);
}

#[test]
fn a_request_or_holder_that_has_it_is_not_refused_as_held() {
    impossible(&[first(), op(30, 40, ask(1, 101), held(1, 12, 1010))]);
    let enters = |reentrant| {
        let ask = Ask::Acquire {
            holder: 1,
            request: 102,
            ttl: TTL,
            observed: None,
            reentrant,
        };
        op(30, 40, ask, held(1, 12, 1010))
    };
    fine(&[first(), enters(false)]);
    impossible(&[first(), enters(true)]);
}

#[test]
fn only_its_own_request_or_holder_is_replayed_a_grant() {
    impossible(&[
        first(),
        op(30, 40, ask(2, 201), replayed(granted(10, 12, None))),
    ]);
}

#[test]
fn the_clock_that_granted_was_read_during_the_call() {
    impossible(&[op(0, 20, ask(1, 101), granted(21, 12, None))]);
}

#[test]
fn the_previous_grant_is_reported_as_it_was() {
    for previous in [
        None,
        EXPIRED,
        Some((3, 12, Ended::Released)),
        Some((1, 11, Ended::Released)),
    ] {
        impossible(&[
            first(),
            released(),
            op(120, 130, ask(2, 201), granted(125, 14, previous)),
        ]);
    }
}

#[test]
fn held_names_whoever_has_it_until_it_may_be_taken() {
    impossible(&[
        first(),
        released(),
        op(120, 130, ask(2, 201), held(1, 12, 1010)),
    ]);
    impossible(&[first(), op(30, 40, ask(2, 201), held(1, 12, 1011))]);
    impossible(&[first(), op(30, 40, ask(2, 201), held(3, 12, 1010))]);
    impossible(&[first(), op(30, 40, ask(2, 201), held(1, 11, 1010))]);
    let mut old = held(1, 12, 1010);
    if let Response::Held { version, .. } = &mut old {
        *version = 119;
    }
    impossible(&[first(), op(30, 40, ask(2, 201), old)]);
    let over = 1010 + MARGIN;
    fine(&[
        first(),
        op(over - 1, over + 5, ask(2, 201), held(1, 12, 1010)),
    ]);
    impossible(&[first(), op(over, over + 5, ask(2, 201), held(1, 12, 1010))]);
}
