use super::*;
use crate::{
    conformance::make,
    row::Stored,
    transition::{
        ConfirmReservation, Join, Leave, PassReservation, RenewReservation, Reserve, Successor,
        transition,
    },
    values::{LeaseId, Metadata, RequestDigest, RequestId},
};

#[expect(clippy::too_many_lines, reason = "one of each")]
fn every_change() -> Vec<Change> {
    let (lease_id, now) = (LeaseId::random(), Timestamp::from_millis(1000));
    let holder = make::holder("h");
    let ttl = make::ttl(std::time::Duration::from_secs(1));
    let fencing_token = Counter::MIN;
    let extend = |require_unexpired| {
        Change::Extend(Extend {
            lease_id: lease_id.clone(),
            fencing_token,
            ttl,
            now,
            expires_at: now,
            require_unexpired,
        })
    };
    let grant = |over, keys| {
        Change::Grant(Grant {
            request: RequestDigest::of(&holder, &RequestId::random()),
            holder: holder.clone(),
            keys,
            lease_id: lease_id.clone(),
            ttl,
            metadata: Metadata::default(),
            now,
            over,
            tokens: TokenFloor::Reached(Counter::MIN),
            expires_at: now,
            sweep_after: now,
        })
    };
    let clock = grant(TakeoverRule::ExpiredBy(now), None);
    let row = transition(&Stored::Absent, &clock).expect("a first grant");
    let swap = |seen| {
        let row = row.clone();
        Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged { seen, row }))
    };
    let Change::Grant(plain) = clock.clone() else {
        unreachable!("a grant")
    };
    let request = RequestDigest::of(&holder, &RequestId::random());
    let successor = Successor {
        lease_id: LeaseId::random(),
        until: now,
        tokens: TokenFloor::Reached(Counter::MIN),
    };
    let floor = Counter::new(7).expect("valid");
    let above = |tokens| Successor {
        tokens,
        ..successor.clone()
    };
    let release = |of, next| {
        Change::Release(Release {
            lease_id: lease_id.clone(),
            fencing_token,
            of,
            ended: Ended::Released,
            next,
            purge_at: 1,
        })
    };
    let join = |over| Join {
        request: request.clone(),
        over,
        cap: 1,
    };
    let take = |require_unexpired| {
        Change::ConfirmReservation(ConfirmReservation {
            lease_id: lease_id.clone(),
            fencing_token,
            floor,
            holder: holder.clone(),
            metadata: Metadata::default(),
            ttl,
            acquired_at: now,
            now,
            expires_at: now,
            sweep_after: now,
            require_unexpired,
        })
    };
    let suited = |tokens| Change::Grant(plain.with_tokens(tokens));
    let reserve = |tokens| {
        Change::Reserve(Reserve {
            heir: above(tokens),
        })
    };
    let try_again = |tokens| {
        Change::RenewReservation(RenewReservation {
            lease_id: lease_id.clone(),
            tries: Counter::MIN,
            until: now,
            tokens,
        })
    };
    let pass = |tokens| {
        Change::PassReservation(PassReservation {
            lease_id: lease_id.clone(),
            tries: Counter::MIN,
            heir: above(tokens),
        })
    };
    vec![
        clock,
        extend(false),
        extend(true),
        release(ReleaseTarget::Grant, HandOver::Later),
        release(ReleaseTarget::Grant, HandOver::Now(successor.clone())),
        release(ReleaseTarget::Reservation(holder.clone()), HandOver::Later),
        release(
            ReleaseTarget::Reservation(holder.clone()),
            HandOver::Now(successor.clone()),
        ),
        release(
            ReleaseTarget::Grant,
            HandOver::Now(above(TokenFloor::Reached(floor))),
        ),
        release(
            ReleaseTarget::Grant,
            HandOver::Now(above(TokenFloor::Below(floor))),
        ),
        release(
            ReleaseTarget::Reservation(holder.clone()),
            HandOver::Now(above(TokenFloor::Below(floor))),
        ),
        Change::EndIfUnchanged(EndIfUnchanged {
            version: Counter::MIN,
            ended: Ended::Expired,
            next: HandOver::Now(successor.clone()),
            purge_at: 1,
        }),
        Change::ShortenDeadline(ShortenDeadline {
            version: Counter::MIN,
            expires_at: now,
            sweep_after: now,
        }),
        Change::Join(join(TakeoverRule::ExpiredBy(now))),
        Change::Join(join(TakeoverRule::VersionUnchanged(Counter::MIN.into()))),
        Change::Leave(Leave {
            request: request.clone(),
            place: 17,
        }),
        reserve(TokenFloor::Reached(Counter::MIN)),
        reserve(TokenFloor::Below(floor)),
        try_again(TokenFloor::Reached(Counter::MIN)),
        try_again(TokenFloor::Below(floor)),
        pass(TokenFloor::Reached(Counter::MIN)),
        pass(TokenFloor::Below(floor)),
        take(false),
        take(true),
        grant(
            TakeoverRule::VersionUnchanged(Counter::MIN.into()),
            Some(KeysDigest::stored(b"k")),
        ),
        suited(TokenFloor::Reached(floor)),
        suited(TokenFloor::Below(floor)),
        swap(None),
        swap(Some(Counter::MIN)),
        Change::CheckHeld(CheckHeld {
            lease_id: lease_id.clone(),
            fencing_token,
            now,
        }),
    ]
}

/// Operators and functions; at least as many as DynamoDB counts.
fn operators(text: &str) -> usize {
    let words = [
        "AND", "OR", "NOT", "BETWEEN", "IN", "+", "=", "<", ">", "<=", ">=", "<>",
    ];
    text.split_whitespace()
        .filter(|word| words.contains(word))
        .count()
        + text.matches('(').count()
}

#[test]
fn every_name_is_an_attribute_and_every_value_is_given() {
    let attributes: Vec<_> = at::ALL.into_iter().chain([at::PK, at::SK]).collect();
    for change in every_change() {
        let e = of(&change);
        for name in e.names.values() {
            assert!(attributes.contains(&name.as_str()), "{name}");
        }
        let both = format!("{} {}", e.condition, e.update);
        let mentioned: std::collections::HashSet<_> = both
            .split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)))
            .filter(|word| word.starts_with(':'))
            .collect();
        let given = e.values.keys().map(String::as_str).collect();
        assert_eq!(mentioned, given);
        for text in [&e.condition, &e.update] {
            assert!(text.len() < 4096, "DynamoDB's limit");
            assert!(operators(text) <= 300, "DynamoDB's limit");
        }
    }
}

#[test]
fn an_extend_touches_nothing_that_the_index_holds() {
    let Expressions { update, .. } = of(&every_change()[1]);
    for name in [at::PK, at::SK, at::HOLDER, at::SWEEP_AFTER] {
        assert!(!update.contains(&format!("#{name}")), "{name} in {update}");
    }
}

#[test]
fn a_grant_and_a_join_ask_for_every_request_that_the_row_remembers() {
    let asks = |change: &Change| matches!(change, Change::Grant(_) | Change::Join(_));
    for change in every_change().into_iter().filter(asks) {
        let Expressions { condition, .. } = of(&change);
        for name in [at::REQUEST].into_iter().chain(at::PAST_REQUESTS) {
            assert!(
                condition.contains(&format!("#{name} <> :request")),
                "{name}: {condition}"
            );
        }
    }
}
