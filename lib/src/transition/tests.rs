//! Cases that no other test of the library covers. A differential test compares the table with these rules.

use std::time::Duration;

use super::*;
use crate::conformance::make;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + 1000 * seconds)
}

fn counter(n: u64) -> Counter {
    Counter::new(n).expect("a counter")
}

fn holder(name: &str) -> Holder {
    make::holder(name)
}

fn grant(name: &str, now: Timestamp, tokens: TokenFloor) -> Grant {
    let ttl = make::ttl(Duration::from_secs(5));
    let request = make::request_id(name);
    Grant {
        holder: holder(name),
        request: RequestDigest::of(&holder(name), &request),
        keys: Some(KeysDigest::stored(b"keys")),
        lease_id: LeaseId::stored(name),
        ttl,
        metadata: Metadata::default(),
        now,
        over: TakeoverRule::ExpiredBy(now),
        tokens,
        expires_at: now.plus(ttl.as_duration()),
        sweep_after: now.plus(ttl.as_duration()),
    }
}

fn first(name: &str) -> Row {
    let grant = grant(name, at(0), TokenFloor::Reached(Counter::MIN));
    transition(&Stored::Absent, &Change::Grant(grant)).expect("a first grant")
}

fn release(row: &Row) -> Change {
    Change::Release(Release {
        lease_id: row.holding().expect("a holding").lease_id.clone(),
        fencing_token: row.fencing_token,
        of: ReleaseTarget::Grant,
        ended: Ended::Released,
        next: HandOver::Now(Successor {
            lease_id: LeaseId::stored("heir"),
            until: at(9),
            tokens: TokenFloor::Reached(Counter::MIN),
        }),
        purge_at: 77,
    })
}

#[test]
fn a_floor_lifts_what_is_below_it_and_nothing_else() {
    let row = first("a");
    let token = row.fencing_token.get();
    let takes = |tokens| {
        let change = Change::Grant(grant("b", at(10), tokens));
        transition(&Stored::Row(row.clone()), &change).map(|row| row.fencing_token.get())
    };
    for floor in [token - 1, token] {
        assert_eq!(takes(TokenFloor::Reached(counter(floor))), Some(token + 2));
        assert_eq!(takes(TokenFloor::Below(counter(floor))), None);
    }
    assert_eq!(takes(TokenFloor::Reached(counter(token + 1))), None);
    assert_eq!(
        takes(TokenFloor::Below(counter(token + 1))),
        Some(token + 3)
    );
}

#[test]
fn a_row_that_is_gone_is_not_put_back_by_who_saw_one() {
    let row = first("a");
    let swap = |seen| {
        let row = row.clone();
        transition(
            &Stored::Absent,
            &Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged { seen, row })),
        )
    };
    assert_eq!(swap(None), Some(row.clone()));
    assert_eq!(swap(Some(row.version)), None);
}

#[test]
fn a_grant_keeps_a_row_that_was_to_be_purged() {
    let held = first("a");
    let free = transition(&Stored::Row(held.clone()), &release(&held)).expect("a release");
    assert_eq!(free.purge_at, Some(77));
    let next = Change::Grant(grant("b", at(10), TokenFloor::Reached(Counter::MIN)));
    let held = transition(&Stored::Row(free), &next).expect("a grant");
    assert_eq!(held.purge_at, None);
}

#[test]
fn who_takes_up_a_promise_asked_for_one_key() {
    let held = first("a");
    let b = grant("b", at(1), TokenFloor::Reached(Counter::MIN));
    let join = Change::Join(Join {
        request: b.request.clone(),
        over: TakeoverRule::ExpiredBy(at(1)),
        cap: 9,
    });
    let in_line = transition(&Stored::Row(held.clone()), &join).expect("a place in line");
    let kept = transition(&Stored::Row(in_line), &release(&held)).expect("a release");
    assert_eq!(kept.request_keys, held.request_keys);
    let take = Change::ConfirmReservation(ConfirmReservation {
        lease_id: LeaseId::stored("heir"),
        fencing_token: kept.fencing_token.plus(1),
        floor: Counter::MIN,
        holder: holder("b"),
        metadata: Metadata::default(),
        ttl: b.ttl,
        acquired_at: at(1),
        now: at(2),
        expires_at: at(7),
        sweep_after: at(9),
        require_unexpired: false,
    });
    let taken = transition(&Stored::Row(kept), &take).expect("a take");
    assert_eq!(taken.request_keys, None);
}

#[test]
fn an_extend_says_when() {
    let row = first("a");
    assert_eq!(row.holding().expect("a holding").extended_at, None);
    let extend = Change::Extend(Extend {
        lease_id: LeaseId::stored("a"),
        fencing_token: row.fencing_token,
        ttl: make::ttl(Duration::from_secs(9)),
        now: at(3),
        expires_at: at(12),
        require_unexpired: true,
    });
    let extended = transition(&Stored::Row(row), &extend).expect("an extend");
    let held = extended.holding().expect("a holding");
    assert_eq!((held.extended_at, held.expires_at), (Some(at(3)), at(12)));
}

#[test]
fn a_holder_has_its_lease_again_by_another_request_only_if_it_asks_so_and_in_time() {
    let row = Stored::Row(first("a"));
    let refused = |name: &str, now, reentrant| {
        let mut again = grant("again", now, TokenFloor::Reached(Counter::MIN));
        again.holder = holder(name);
        why_not_granted(row.clone(), &again, reentrant)
    };
    assert!(matches!(
        refused("a", at(1), true),
        GrantRefusal::Replayed(_)
    ));
    for (name, now, reentrant) in [
        ("b", at(1), true),
        ("a", at(1), false),
        ("a", at(5), true),
        ("b", at(5), false),
    ] {
        let refused = refused(name, now, reentrant);
        assert!(matches!(refused, GrantRefusal::Held(_)), "{refused:?}");
    }
}

#[test]
fn a_line_is_full_when_as_many_wait_as_it_takes() {
    let row = Stored::Row(first("a"));
    let b = grant("b", at(1), TokenFloor::Reached(Counter::MIN));
    let refused = |cap| {
        let join = Join {
            request: b.request.clone(),
            over: TakeoverRule::ExpiredBy(at(1)),
            cap,
        };
        why_not_joined(row.clone(), &join, &b)
    };
    assert!(matches!(refused(0), JoinRefusal::Full(_)));
    let other = refused(1);
    assert!(
        matches!(other, JoinRefusal::Other(GrantRefusal::Held(_))),
        "{other:?}"
    );
}

#[test]
fn an_extend_that_is_repeated_is_known_by_its_time_and_its_deadline() {
    let mut row = first("a");
    let extend = Extend {
        lease_id: LeaseId::stored("a"),
        fencing_token: row.fencing_token,
        ttl: make::ttl(Duration::from_secs(5)),
        now: at(1),
        expires_at: at(6),
        require_unexpired: false,
    };
    let State::Held(held) = &mut row.state else {
        panic!("{row:?}");
    };
    (held.extended_at, held.expires_at) = (Some(at(1)), at(6));
    let stored = Stored::Row(row);
    let refused = |now, expires_at, confirming| {
        let extend = Extend {
            now,
            expires_at,
            ..extend.clone()
        };
        why_not_extended(stored.clone(), &extend, confirming, Counter::MIN)
    };
    assert!(matches!(
        refused(at(1), at(6), true),
        ExtendRefusal::Taken(_)
    ));
    assert!(matches!(
        refused(at(1), at(6), false),
        ExtendRefusal::Longer(_)
    ));
    for (now, expires_at) in [(at(1), at(7)), (at(2), at(6)), (at(2), at(7))] {
        let refused = refused(now, expires_at, true);
        assert!(matches!(refused, ExtendRefusal::Confirmed), "{refused:?}");
    }
}

#[test]
fn a_lease_is_confirmed_until_it_ends_and_not_from_then_on() {
    let row = Stored::Row(first("a"));
    let confirmed = |now| {
        let change = Change::CheckHeld(CheckHeld {
            lease_id: LeaseId::stored("a"),
            fencing_token: first("a").fencing_token,
            now,
        });
        transition(&row, &change)
    };
    let before_its_end = Timestamp::from_millis(at(5).as_millis() - 1);
    assert_eq!(confirmed(before_its_end), Some(first("a")));
    for too_late in [at(5), at(6)] {
        assert_eq!(confirmed(too_late), None);
    }
}
