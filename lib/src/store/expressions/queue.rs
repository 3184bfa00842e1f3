//! The queue's changes of a row, as DynamoDB expressions.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    EXECUTION, Expressions, FREE, HELD, HISTORY, KEPT, OURS, TTL, UNKEPT, at_least_one, build,
    build_once, floor_condition, held, not_remembered,
};
use crate::{
    row::{b, instant, metadata_value, n, s},
    transition::{
        ConfirmReservation, HandOver, Join, Leave, PassReservation, RenewReservation, Reserve,
        Successor, TakeoverRule, TokenFloor,
    },
    values::Counter,
};

/// The waiter's proof. Its token is the next one, and conditions cannot add, so the row's token is compared.
pub(super) const PROMISED: &str = "#claim_id = :lease_id AND #fencing_token = :before";

/// The condition on a free row of ours that is reserved.
pub(super) fn kept() -> String {
    format!(
        "{FREE} AND attribute_type(#claim, :binary) AND attribute_type(#claim_id, :text) \
         AND attribute_type(#claim_until, :number) AND #claim_until BETWEEN :one AND :forever \
         AND attribute_type(#claim_tries, :number) AND #claim_tries BETWEEN :one AND :most"
    )
}

/// The condition on any row of ours: held, free, or reserved.
pub(super) fn ours_in_any_state() -> String {
    let (kept, held) = (kept(), held());
    format!("{OURS} AND (({held}) OR ({FREE} AND {UNKEPT}) OR ({kept}))")
}

/// The value that [`PROMISED`] compares with the row's token.
pub(super) fn promise_of(fencing_token: Counter) -> (&'static str, AttributeValue) {
    ("before", n(fencing_token.get().saturating_sub(1)))
}

/// What the reservation for the next waiter adds to the end of a grant.
pub(super) struct Handed {
    pub(super) condition: String,
    pub(super) set: &'static str,
    pub(super) remove: &'static str,
    pub(super) values: Vec<(&'static str, AttributeValue)>,
}

pub(super) fn handed(next: &HandOver) -> Handed {
    match next {
        HandOver::Now(successor) => Handed {
            condition: format!(
                " AND attribute_not_exists(#frozen){}",
                floor_condition(successor.tokens)
            ),
            set: KEEP_FOR_THE_FIRST,
            remove: "#heir, #line[0]",
            values: successor_values(successor).into(),
        },
        HandOver::Later => Handed {
            condition: String::new(),
            set: "#heir = if_not_exists(#line[0], :null)",
            remove: "#claim, #claim_id, #claim_until, #claim_tries",
            values: Vec::new(),
        },
    }
}

/// Together with the removal of the first entry.
const KEEP_FOR_THE_FIRST: &str = "#claim = if_not_exists(#line[0], :null), #claim_id = :heir, \
    #claim_until = :until, #claim_tries = :one";

fn successor_values(successor: &Successor) -> [(&'static str, AttributeValue); 3] {
    [
        ("heir", s(successor.lease_id.expose())),
        ("until", at_least_one(successor.until)),
        floor_of(successor.tokens),
    ]
}

fn floor_of(tokens: TokenFloor) -> (&'static str, AttributeValue) {
    ("floor", n(tokens.floor().get()))
}

/// The token of a free row before the next one is reserved: unchanged, or lifted to the floor.
fn lifting(tokens: TokenFloor) -> &'static str {
    match tokens {
        TokenFloor::Reached(_) => "",
        TokenFloor::Below(_) => {
            "#last_fencing_token = if_not_exists(#last_fencing_token, #fencing_token), \
             #fencing_token = :floor, "
        }
    }
}

/// The version stays, because observers watch the holder.
pub(super) fn joining(join: &Join) -> Expressions {
    let (lasts, which) = match join.over {
        TakeoverRule::ExpiredBy(instant) => ("#expires_at > :over", at_least_one(instant)),
        TakeoverRule::VersionUnchanged(version) => ("#version <> :over", n(version.get())),
    };
    let kept = kept();
    let not_remembered = not_remembered("request");
    build(
        format!(
            "{OURS} AND attribute_not_exists(#frozen) \
             AND (({HELD} AND (({TTL} AND ({lasts} OR attribute_exists(#line[0]))) OR ({EXECUTION}))) \
               OR ({kept} AND #claim <> :request) \
               OR ({FREE} AND {UNKEPT} AND attribute_exists(#line[0]))) \
             AND NOT contains(#line, :request) AND {not_remembered} AND size(#line) < :cap"
        ),
        "SET #line = list_append(#line, :joins)".to_owned(),
        [
            ("over", which),
            ("request", b(join.request.as_bytes())),
            ("joins", AttributeValue::L(vec![b(join.request.as_bytes())])),
            ("cap", n(join.cap.into())),
        ],
    )
}

pub(super) fn leaving(leave: &Leave) -> Expressions {
    let (place, ours) = (leave.place, ours_in_any_state());
    build_once(
        format!("{ours} AND #line[{place}] = :request"),
        format!("REMOVE #line[{place}]"),
        [("request", b(leave.request.as_bytes()))],
    )
}

pub(super) fn reserving(reserve: &Reserve) -> Expressions {
    let floor_condition = floor_condition(reserve.heir.tokens);
    let lifting = lifting(reserve.heir.tokens);
    build(
        format!(
            "{FREE} AND {UNKEPT} AND {OURS} AND attribute_exists(#line[0]) \
             AND attribute_not_exists(#frozen){floor_condition}"
        ),
        format!(
            "SET #version = #version + :one, {lifting}{KEEP_FOR_THE_FIRST} REMOVE #heir, #line[0]"
        ),
        successor_values(&reserve.heir),
    )
}

pub(super) fn renewing(again: &RenewReservation) -> Expressions {
    let kept = kept();
    let (floor_condition, lifting) = (floor_condition(again.tokens), lifting(again.tokens));
    build(
        format!(
            "{kept} AND {OURS} AND #claim_id = :lease_id AND #claim_tries = :tries{floor_condition}"
        ),
        format!(
            "SET {lifting}#claim_until = :until, \
             #claim_tries = #claim_tries + :one, #version = #version + :one"
        ),
        [
            ("lease_id", s(again.lease_id.expose())),
            ("tries", n(again.tries.get())),
            ("until", at_least_one(again.until)),
            floor_of(again.tokens),
        ],
    )
}

pub(super) fn passing(pass: &PassReservation) -> Expressions {
    let kept = kept();
    let values = [
        ("lease_id", s(pass.lease_id.expose())),
        ("tries", n(pass.tries.get())),
    ];
    let token = match pass.heir.tokens {
        TokenFloor::Reached(_) => {
            "#last_fencing_token = if_not_exists(#last_fencing_token, #fencing_token), \
             #fencing_token = #fencing_token + :one, "
        }
        lifted @ TokenFloor::Below(_) => lifting(lifted),
    };
    let floor_condition = floor_condition(pass.heir.tokens);
    build(
        format!(
            "{kept} AND {OURS} AND #claim_id = :lease_id AND #claim_tries = :tries \
             AND attribute_not_exists(#frozen){floor_condition}"
        ),
        format!(
            "SET {token}#version = #version + :one, {KEEP_FOR_THE_FIRST} REMOVE #heir, #line[0]"
        ),
        values.into_iter().chain(successor_values(&pass.heir)),
    )
}

pub(super) fn confirming_reservation(take: &ConfirmReservation) -> Expressions {
    let kept = kept();
    let in_time = if take.require_unexpired {
        " AND #claim_until > :now"
    } else {
        ""
    };
    let in_force = floor_condition(TokenFloor::Reached(take.floor));
    build(
        format!(
            "{kept} AND {OURS} AND {PROMISED} AND attribute_not_exists(#frozen){in_time}{in_force}"
        ),
        format!(
            "SET #holder = :holder, #granted_to = :holder, #lease_id = :lease_id, \
             #ttl_ms = :ttl_ms, #metadata = :metadata, #acquired_at = :acquired_at, \
             #extended_at = :now, #expires_at = :expires_at, #sweep_after = :sweep_after, \
             #fencing_token = :fencing_token, #version = #version + :one, \
             #request = #claim, {HISTORY} \
             REMOVE #ended, #keep_ms, #purge_at, #request_keys, #last_fencing_token, {KEPT}"
        ),
        [
            ("holder", s(take.holder.as_str())),
            ("lease_id", s(take.lease_id.expose())),
            ("ttl_ms", n(take.ttl.as_millis())),
            ("metadata", metadata_value(&take.metadata)),
            ("acquired_at", at_least_one(take.acquired_at)),
            ("now", at_least_one(take.now)),
            ("expires_at", instant(take.expires_at)),
            ("sweep_after", instant(take.sweep_after)),
            ("fencing_token", n(take.fencing_token.get())),
            promise_of(take.fencing_token),
            floor_of(TokenFloor::Reached(take.floor)),
        ],
    )
}
