//! Of those that have it already: extends, releases, and every other end.

use super::{
    EXPIRED, RELEASED, TTL, ask, besides, extend, extended, fine, first, granted, held, impossible,
    op, release, released,
};
use crate::history::{Ask, Besides, Ended, Response};
use crate::row::MARGIN;

#[test]
fn an_extend_never_shortens() {
    let long = Ask::Extend {
        token: 12,
        lease: 12,
        ttl: 5000,
        require_unexpired: false,
    };
    let longer = op(30, 40, long, extended(12, 5035));
    fine(&[
        first(),
        longer.clone(),
        op(50, 60, extend(12), extended(12, 5035)),
    ]);
    impossible(&[first(), longer, op(50, 60, extend(12), extended(12, 1055))]);
}

#[test]
fn an_extend_is_for_its_own_grant_alone() {
    let taken = op(1700, 1710, ask(2, 201), granted(1705, 14, EXPIRED));
    fine(&[
        first(),
        taken.clone(),
        op(1720, 1730, extend(12), Response::Lost),
    ]);
    impossible(&[
        first(),
        taken,
        op(1720, 1730, extend(12), extended(12, 2725)),
    ]);
    let forged = Ask::Extend {
        token: 12,
        lease: 99,
        ttl: TTL,
        require_unexpired: false,
    };
    impossible(&[first(), op(30, 40, forged, extended(12, 1035))]);
    impossible(&[first(), op(30, 40, extend(12), Response::Lost)]);
}

#[test]
fn an_extend_reaches_as_far_as_it_was_asked_to() {
    impossible(&[first(), op(300, 310, extend(12), extended(12, 1010))]);
    impossible(&[first(), op(300, 310, extend(12), extended(12, 1400))]);
}

#[test]
fn an_extend_shows_a_version_that_was_not_seen_before() {
    let mut old = extended(12, 1035);
    if let Response::Extended { version, .. } = &mut old {
        *version = 119;
    }
    impossible(&[first(), op(30, 40, extend(12), old)]);
}

#[test]
fn what_has_expired_is_revived_and_what_has_not_is_not() {
    let revived = Response::Extended {
        revived: true,
        version: 121,
        expires_at: 2105,
    };
    fine(&[first(), op(1100, 1110, extend(12), revived.clone())]);
    impossible(&[first(), op(1100, 1110, extend(12), extended(12, 2105))]);
    let early = op(
        300,
        310,
        extend(12),
        Response::Extended {
            revived: true,
            version: 121,
            expires_at: 1305,
        },
    );
    impossible(&[first(), early]);
    let strict = |response| {
        let strict = Ask::Extend {
            token: 12,
            lease: 12,
            ttl: TTL,
            require_unexpired: true,
        };
        op(1100, 1110, strict, response)
    };
    fine(&[first(), strict(Response::Expired)]);
    impossible(&[first(), strict(revived)]);
}

#[test]
fn a_release_ends_its_own_grant_and_says_what_is_true() {
    let next = op(120, 130, ask(2, 201), granted(125, 14, RELEASED));
    let late = |response| op(140, 150, release(12), response);
    fine(&[
        first(),
        released(),
        next.clone(),
        late(Response::AlreadyReleased),
    ]);
    impossible(&[first(), released(), next.clone(), late(Response::Released)]);
    impossible(&[first(), released(), next, late(Response::Lost)]);
    impossible(&[first(), op(30, 40, release(12), Response::AlreadyReleased)]);
    impossible(&[first(), op(30, 40, release(12), Response::Lost)]);
    let taken = op(1700, 1710, ask(2, 201), granted(1705, 14, EXPIRED));
    fine(&[
        first(),
        taken.clone(),
        op(1720, 1730, release(12), Response::Lost),
    ]);
    impossible(&[
        first(),
        taken,
        op(1720, 1730, release(12), Response::AlreadyReleased),
    ]);
}

#[test]
fn sweep_frees_what_is_over_and_nothing_else() {
    let swept = |at| besides(Besides::Within, op(at, at + 5, Ask::Sweep, Response::Done));
    let next = |at| op(at, at + 10, ask(2, 201), granted(at + 5, 14, EXPIRED));
    let over = 1010 + MARGIN;
    let again = op(over + 40, over + 50, release(12), Response::AlreadyReleased);
    fine(&[first(), swept(over), again.clone()]);
    impossible(&[first(), again]);
    impossible(&[first(), swept(900), next(910)]);
    // Nor within the margin.
    let late = op(over - 30, over - 20, release(12), Response::AlreadyReleased);
    impossible(&[first(), swept(over - 50), late]);
}

#[test]
fn reap_frees_what_its_holder_had_and_nothing_else() {
    let reaped = |holder| {
        let reap = op(30, 40, Ask::Reap { holder }, Response::Done);
        besides(Besides::Within, reap)
    };
    let next = op(50, 60, ask(2, 201), granted(55, 14, RELEASED));
    fine(&[first(), reaped(1), next.clone()]);
    impossible(&[first(), reaped(3), next]);
}

#[test]
fn whoever_is_evicted_is_reported_so() {
    let forced = op(
        100,
        110,
        Ask::Force { token: 12 },
        Response::Forced { token: 13 },
    );
    let next = |token| {
        let previous = Some((1, 12, Ended::Forced));
        op(120, 130, ask(2, 201), granted(125, token, previous))
    };
    fine(&[first(), forced.clone(), next(15)]);
    impossible(&[first(), forced.clone(), next(13)]);
    let no_more = op(
        100,
        110,
        Ask::Force { token: 12 },
        Response::Forced { token: 12 },
    );
    impossible(&[first(), no_more]);
    impossible(&[
        first(),
        forced.clone(),
        op(120, 130, extend(12), extended(12, 1125)),
    ]);
    impossible(&[
        first(),
        forced,
        op(120, 130, release(12), Response::AlreadyReleased),
    ]);
    impossible(&[
        first(),
        op(100, 110, Ask::Force { token: 12 }, Response::Nobody),
    ]);
}

#[test]
fn what_is_shown_is_what_is_stored() {
    fine(&[first(), op(30, 40, Ask::Inspect, held(1, 12, 1010))]);
    impossible(&[first(), op(30, 40, Ask::Inspect, Response::Nobody)]);
    impossible(&[
        first(),
        released(),
        op(120, 130, Ask::Inspect, held(1, 12, 1010)),
    ]);
}
