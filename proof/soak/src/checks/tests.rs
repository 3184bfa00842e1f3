//! Each check on a history that it must accept, and on the smallest that it must not. Times are in milliseconds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    Violation, grants, holders, lasting, once, order, secrets, strangers::compare, waiters, writes,
};
use crate::fixture::Observed;
use crate::history::{
    Belief, Denial, ExtraEffect, Invocation, Kind, Micros, Op, Place, Response, Wait,
};

fn place() -> Place {
    Place {
        key: "k".to_owned(),
        permit: 0,
    }
}

fn grant(begin: Micros, end: Micros, token: u64, lease: u32, request: u32) -> Op {
    let millis = |at: Micros| i64::try_from(at).unwrap();
    Op {
        begin: begin * 1000,
        end: end * 1000,
        clock: (millis(begin), millis(end)),
        ask: Invocation::Acquire {
            holder: request,
            request,
            ttl: 1000,
            observed: None,
            reentrant: false,
        },
        response: Response::Granted {
            kind: Kind::New,
            token,
            lease,
            version: token,
            acquired_at: millis(begin),
            expires_at: millis(begin) + 1000,
            previous: None,
        },
        besides: ExtraEffect::Nothing,
        by: String::new(),
    }
}

fn other(begin: Micros, ask: Invocation) -> Op {
    Op {
        ask,
        response: Response::Unknown,
        ..grant(begin, begin, 0, 0, 0)
    }
}

fn of(ops: Vec<Op>) -> BTreeMap<Place, Vec<Op>> {
    BTreeMap::from([(place(), ops)])
}

fn names(violations: &[Violation]) -> Vec<&str> {
    violations.iter().map(|v| v.invariant).collect()
}

#[test]
fn grants_have_distinct_rising_tokens() {
    let two = |second| grants(&of(vec![grant(0, 10, 4, 1, 1), second]));
    assert!(two(grant(20, 30, 4, 1, 1)).is_empty());
    assert_eq!(names(&two(grant(5, 30, 4, 9, 1))), ["S1"]);
    assert!(two(grant(11, 20, 6, 2, 2)).is_empty());
    // At once, either may be the first.
    assert!(two(grant(9, 20, 2, 2, 2)).is_empty());
    assert_eq!(names(&two(grant(11, 20, 2, 2, 2))), ["S2"]);
}

#[test]
fn remembered_request_is_one_grant() {
    let with_others = |others: u64| {
        let one = |n: u64| {
            let number = u32::try_from(n).unwrap();
            grant(n * 20, n * 20 + 10, 2 * n + 2, number + 1, number + 1)
        };
        let again = 40 + others * 20;
        let again = grant(again, again + 10, 100, 99, 1);
        let mut ops: Vec<_> = (0..=others).map(one).collect();
        ops.push(again);
        once(&of(ops))
    };
    assert_eq!(names(&with_others(0)), ["S7"]);
    assert_eq!(names(&with_others(2)), ["S7"]);
    assert!(with_others(3).is_empty());
}

#[test]
fn unorderable_history_shows_its_surroundings() {
    let ops = of(vec![grant(0, 10, 2, 1, 1), grant(20, 30, 4, 2, 2)]);
    let (violations, undecided) = order(&ops);
    assert_eq!(
        (names(&violations), undecided),
        (vec!["linearizability"], 0)
    );
    assert_eq!(violations[0].around.len(), 2);
    assert!(violations[0].around[1].starts_with('>'));
}

/// Beliefs by their beginnings, ends and tokens.
fn believing(beliefs: &[(Micros, Micros, u64)], ops: Vec<Op>) -> Vec<Violation> {
    let belief = |(from, until, token): &(Micros, Micros, u64)| Belief {
        place: place(),
        token: *token,
        from: *from * 1000,
        until: *until * 1000,
        holder: String::new(),
        by: String::new(),
    };
    let beliefs: Vec<_> = beliefs.iter().map(belief).collect();
    holders(&of(ops), &beliefs)
}

#[test]
fn belief_ends_with_its_lease() {
    let two = [(0, 50, 2), (30, 40, 4)];
    assert_eq!(names(&believing(&two, vec![])), ["S8"]);
    let release = |token| Invocation::Release { token, lease: 1 };
    assert!(believing(&two, vec![other(20, release(2))]).is_empty());
    assert!(believing(&two, vec![other(20, Invocation::Force { token: 2 })]).is_empty());
    assert!(believing(&two, vec![other(20, Invocation::Delete)]).is_empty());
    assert_eq!(names(&believing(&two, vec![other(20, release(3))])), ["S8"]);
    assert_eq!(names(&believing(&two, vec![other(35, release(2))])), ["S8"]);
}

#[test]
fn execution_lease_lasts_with_execution() {
    let lost_at = |at: Micros, ops| {
        let belief = Belief {
            place: place(),
            token: 2,
            from: 0,
            until: 50_000,
            holder: String::new(),
            by: String::new(),
        };
        let denial = Denial {
            place: place(),
            token: 2,
            at: at * 1000,
        };
        names(&lasting(&of(ops), &[belief], &[denial])).concat()
    };
    assert_eq!(lost_at(49, vec![]), "S12");
    assert_eq!(lost_at(51, vec![]), "");
    assert_eq!(
        lost_at(49, vec![other(40, Invocation::Force { token: 2 })]),
        ""
    );
    let release = |token| Invocation::Release { token, lease: 1 };
    assert_eq!(lost_at(49, vec![other(40, release(2))]), "");
    assert_eq!(lost_at(49, vec![other(40, release(3))]), "S12");
    assert_eq!(lost_at(39, vec![other(40, release(2))]), "S12");
}

#[test]
fn fence_refuses_old_and_loses_nothing() {
    let observed = |tokens: &[u64], number| Observed {
        tokens: tokens.to_vec(),
        number,
    };
    assert!(writes("k", &observed(&[2, 2, 6], 2), 2).is_empty());
    assert_eq!(names(&writes("k", &observed(&[2, 6, 4], 2), 2)), ["S3"]);
    assert_eq!(names(&writes("k", &observed(&[2, 6], 1), 2)), ["S3"]);
}

fn wait(begin: Micros, queued: Option<Micros>, token: Option<u64>) -> Wait {
    Wait {
        key: "k".to_owned(),
        begin: begin * 1000,
        queued: queued.map(|at| at * 1000),
        token,
        answered: true,
        by: format!("asked at {begin}"),
    }
}

#[test]
fn unfair_and_double_service_are_found() {
    let with = |other| names(&waiters(&[wait(0, Some(10), Some(6)), other])).concat();
    assert_eq!(with(wait(11, Some(90), Some(8))), "");
    assert_eq!(with(wait(9, Some(90), Some(4))), "");
    assert_eq!(with(wait(11, Some(90), Some(4))), "L3");
    // Nor does one who does not wait at all.
    assert_eq!(with(wait(11, None, Some(4))), "L3");
    assert_eq!(with(wait(5, Some(10), Some(6))), "S1");
    // Sent away, and never answered.
    assert_eq!(with(wait(5, Some(10), None)), "");
    let in_vain = |queued| Wait {
        answered: false,
        ..wait(5, queued, None)
    };
    assert_eq!(with(in_vain(Some(10))), "L4");
    assert_eq!(with(in_vain(None)), "L4");
}

#[test]
fn foreign_item_stays_unchanged() {
    let item = |text: &str| HashMap::from([("pk".to_owned(), AttributeValue::S(text.to_owned()))]);
    assert_eq!(compare("k", &item("a"), Some(&item("a"))), None);
    let changed = [
        compare("k", &item("a"), Some(&item("b"))),
        compare("k", &item("a"), None),
    ];
    for violation in changed {
        assert_eq!(violation.unwrap().invariant, "S10");
    }
}

#[test]
fn secret_in_text_is_s11() {
    let secret = "c0ffee00c0ffee11c0ffee22c0ffee33";
    let texts = [("a log", secret.as_bytes())].into_iter();
    assert_eq!(
        names(&secrets(&BTreeSet::from([secret.to_owned()]), texts)),
        ["S11"]
    );
}
