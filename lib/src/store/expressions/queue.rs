//! The queue's changes of a row, as DynamoDB expressions.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    EXECUTION, Expressions, FREE, HELD, NOT_LIMITED_TO_NONE, OPEN, OURS, TTL, build, build_once,
    held, not_remembered, over_values,
};
use crate::{
    row::{b, n},
    transition::{Join, JoinRule, Leave, LeaveReason},
};

/// The condition on any row of ours: held or free.
pub(super) fn ours_in_any_state() -> String {
    let held = held();
    format!("{OURS} AND (({held}) OR ({FREE}))")
}

/// The version stays, because observers watch the holder.
pub(super) fn joining(join: &Join) -> Expressions {
    let mut values = vec![
        ("request", b(join.request.as_bytes())),
        ("joins", AttributeValue::L(vec![b(join.request.as_bytes())])),
        ("cap", n(join.cap.into())),
    ];
    let waits = match join.rule {
        JoinRule::Always => ours_in_any_state(),
        JoinRule::BehindOthers => {
            format!("{} AND attribute_exists(#queue[0])", ours_in_any_state())
        }
        JoinRule::IfTaken(over) => {
            let lasts = match over.unchanged {
                None => "#expires_at > :passed",
                Some(_) => "#version <> :unchanged",
            };
            values.extend(over_values(over));
            let waits =
                format!("attribute_exists(#queue[0]) OR NOT {OPEN} OR NOT {NOT_LIMITED_TO_NONE}");
            format!(
                "{OURS} AND (({HELD} AND (({TTL} AND ({lasts} OR {waits})) OR ({EXECUTION}))) \
                   OR ({FREE} AND ({waits})))"
            )
        }
    };
    let stays = match join.rule {
        JoinRule::IfTaken(_) => "",
        // The row has the queue, and may stay free for long.
        JoinRule::BehindOthers | JoinRule::Always => " REMOVE #purge_at",
    };
    let not_remembered = not_remembered("request");
    build(
        format!(
            "{waits} AND attribute_not_exists(#frozen) \
             AND NOT contains(#queue, :request) AND {not_remembered} AND size(#queue) < :cap"
        ),
        format!("SET #queue = list_append(#queue, :joins){stays}"),
        values,
    )
}

pub(super) fn leaving(leave: &Leave) -> Expressions {
    let ours = ours_in_any_state();
    let place = leave.place;
    let (mut condition, mut values) = (
        format!("{ours} AND #queue[{place}] = :request"),
        vec![("request", b(leave.request.as_bytes()))],
    );
    match &leave.because {
        LeaveReason::GaveUp => {}
        LeaveReason::Superseded(later) => {
            condition += " AND contains(#queue, :later)";
            values.push(("later", b(later.as_bytes())));
        }
        LeaveReason::Granted => {
            condition += " AND attribute_not_exists(#frozen) AND ";
            condition += NOT_LIMITED_TO_NONE;
        }
    }
    build_once(
        condition,
        format!("SET #version = #version + :one REMOVE #queue[{place}]"),
        values,
    )
}
