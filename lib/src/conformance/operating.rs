//! What operators do.

use std::time::Duration;

use super::{Bench, Case, TTL};
use crate::{
    Act, AuditReason, Ended, Error, Evict, Forced, Freeze, GrantKind, Inspected, Operator, Permits,
    Previous, Reason, ReleaseOutcome, SweepBounds, Unfreeze,
    row::{Row, Stored, s},
    store::{Applied, Store as _},
    transition::{Change, Swap},
};

pub(super) async fn all<B: Bench>(bench: &B) {
    a_forced_release_evicts_and_fences(bench).await;
    of_a_semaphore_one_permit_is_forced(bench).await;
    a_frozen_key_stays_frozen(bench).await;
    a_key_that_was_never_leased_can_be_frozen(bench).await;
    a_stranger_is_not_operated_on(bench).await;
    an_operators_write_is_for_the_row_it_has_seen(bench).await;
}

pub(super) fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("night shift").expect("valid"),
        why: Reason::new("partner is down").expect("valid"),
    }
}

fn evict(permit: Option<u16>) -> Evict {
    Evict {
        permit,
        ..Evict::default()
    }
}

impl<B: Bench> Case<'_, B> {
    pub(super) async fn force(&self, permit: Option<u16>) -> Forced {
        let key = &self.address.key;
        let forced = self
            .leases
            .force_release(key, evict(permit), &because())
            .await;
        forced.expect("an answer")
    }

    async fn freeze_it(&self) -> Freeze {
        let froze = self.leases.freeze(&self.address.key, &because()).await;
        froze.expect("an answer")
    }

    async fn thaw(&self) -> Unfreeze {
        let thawed = self.leases.unfreeze(&self.address.key, &because()).await;
        thawed.expect("an answer")
    }

    pub(super) async fn signed(&self, act: Act) -> Row {
        let row = self.row().await;
        let record = row.operator.clone().expect("a record");
        assert_eq!((record.act, record.at), (act, self.now()));
        assert_eq!((record.who, record.why), (because().who, because().why));
        row
    }
}

async fn a_forced_release_evicts_and_fences<B: Bench>(bench: &B) {
    let case = Case::new(bench, "operate/force");
    assert_eq!(case.force(None).await, Forced::NotHeld);
    let lease = case.lease("a").await;
    case.pass(TTL / 10);
    let Forced::Forced {
        evicted,
        fencing_token,
    } = case.force(None).await
    else {
        panic!("nobody was evicted");
    };
    let held = evicted.held.expect("a holder");
    assert_eq!(
        (held.holder, evicted.fencing_token),
        (lease.holder.clone(), lease.fencing_token)
    );
    assert!(fencing_token > lease.fencing_token);
    let row = case.signed(Act::ForceRelease).await;
    assert!(row.purge_at.is_some_and(|at| at < Row::NEVER));
    assert_eq!(case.force(None).await, Forced::NotHeld);

    // The evicted holder learns of it, however it asks.
    refused!(case.extension(&lease).await, Lost);
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Lost);
    refused!(case.ask("a", "by a").await, Consumed);
    let previous = Some(Previous {
        holder: lease.holder.clone(),
        fencing_token: lease.fencing_token,
        ended: Ended::Forced,
    });
    let inspected = case.leases.inspect(&lease.key).await.expect("found");
    let Inspected::Found { first, .. } = inspected else {
        panic!("nothing was found");
    };
    assert_eq!((&first.previous, first.operator), (&previous, row.operator));
    let next = case.grant("b", "1").await;
    assert_eq!(
        (next.grant, &next.previous),
        (GrantKind::Takeover, &previous)
    );
    assert!(
        next.lease.fencing_token > fencing_token,
        "the operator's own lies below it"
    );
    let again = case.grant("b", "1").await;
    assert_eq!(again.previous, previous);
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Lost);
    // An expired lease that nobody took can be ended too.
    case.expire();
    assert!(matches!(case.force(Some(0)).await, Forced::Forced { .. }));
}

async fn of_a_semaphore_one_permit_is_forced<B: Bench>(bench: &B) {
    let case = Case::new(bench, "operate/force a permit");
    let mut leases = Vec::new();
    for n in 0..3 {
        let permits = Permits::new(3).expect("valid");
        let request = case.request(&format!("h{n}"), "1").permits(permits);
        let granted = case.leases.acquire(request).await.expect("an answer");
        leases.push(granted.granted().expect("a permit").lease);
    }
    let which = case
        .leases
        .force_release(&case.address.key, Evict::default(), &because())
        .await;
    let Err(Error::Invalid { field, .. }) = which else {
        panic!("{which:?}");
    };
    assert_eq!(field.as_deref(), Some("permit"));
    assert_eq!(case.force(Some(77)).await, Forced::NotHeld);
    for (n, lease) in leases.iter().enumerate() {
        // The last of them needs no name.
        let permit = (n < 2).then_some(lease.permit);
        let Forced::Forced { evicted, .. } = case.force(permit).await else {
            panic!("nobody was evicted");
        };
        assert_eq!(evicted.permit, lease.permit);
        refused!(case.extension(lease).await, Lost);
        for other in &leases[n + 1..] {
            let extended = case.extension(other).await;
            drop(extended.expect("the others go on"));
        }
    }
}

async fn a_frozen_key_stays_frozen<B: Bench>(bench: &B) {
    let case = Case::new(bench, "operate/freeze");
    let lease = case.lease("a").await;
    assert_eq!(case.freeze_it().await, Freeze::Frozen);
    case.signed(Act::Freeze).await;
    case.pass(TTL / 10);
    assert_eq!(case.freeze_it().await, Freeze::AlreadyFrozen);
    let extended = case.extension(&lease).await;
    drop(extended.expect("in time"));
    let answer = case.ask("b", "1").await;
    let Err(error @ Error::Frozen { .. }) = answer else {
        panic!("{answer:?}");
    };
    let message = error.to_string();
    assert!(
        message.contains("partner is down (night shift"),
        "{message}"
    );
    // Sweep passes over it, past its deadline too; and a release does not set it up for the purge.
    case.expire();
    case.leases
        .sweep(SweepBounds::Schedule)
        .await
        .expect("swept");
    assert!(case.row().await.holding().is_some());
    case.give_back(&lease).await;
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
    refused!(case.ask("b", "1").await, Frozen);

    assert_eq!(case.thaw().await, Unfreeze::Unfrozen);
    let row = case.signed(Act::Unfreeze).await;
    assert!(row.purge_at.is_some_and(|at| at < Row::NEVER));
    assert_eq!(case.thaw().await, Unfreeze::NotFrozen);
    let next = case.grant("b", "1").await;
    assert_eq!(next.previous.map(|p| p.ended), Some(Ended::Released));
    // What is frozen by hand is thawed as well, and a held row needs no purge.
    case.freeze().await;
    assert_eq!(case.thaw().await, Unfreeze::Unfrozen);
    assert_eq!(case.row().await.purge_at, None);
    assert_eq!(
        case.grant("b", "1").await.lease.fencing_token,
        next.lease.fencing_token
    );
    // Evicted while frozen, it stays frozen.
    case.freeze_it().await;
    assert!(matches!(case.force(None).await, Forced::Forced { .. }));
    refused!(case.ask("c", "1").await, Frozen);
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
}

async fn a_key_that_was_never_leased_can_be_frozen<B: Bench>(bench: &B) {
    let case = Case::new(bench, "operate/freeze ahead");
    assert_eq!(case.thaw().await, Unfreeze::NotFrozen);
    assert_eq!(case.freeze_it().await, Freeze::Frozen);
    let row = case.signed(Act::Freeze).await;
    assert_eq!(row.purge_at, Some(Row::NEVER));
    refused!(case.ask("a", "1").await, Frozen);
    assert_eq!(case.thaw().await, Unfreeze::Unfrozen);
    let first = case.grant("a", "1").await;
    assert_eq!(first.grant, GrantKind::New);
    assert!(first.lease.fencing_token > row.fencing_token);
}

async fn a_stranger_is_not_operated_on<B: Bench>(bench: &B) {
    let case = Case::new(bench, "operate/stranger");
    case.lease("a").await;
    case.tamper(|item| drop(item.insert("granted_to".into(), s("somebody else"))))
        .await;
    let key = &case.address.key;
    for _ in 0..2 {
        let answers = [
            case.leases
                .force_release(key, Evict::default(), &because())
                .await
                .err(),
            case.leases.freeze(key, &because()).await.err(),
            case.leases.unfreeze(key, &because()).await.err(),
            case.leases.raise_floor(key, None, &because()).await.err(),
        ];
        for answer in answers {
            assert!(matches!(answer, Some(Error::Corrupt { .. })), "{answer:?}");
        }
    }
}

async fn an_operators_write_is_for_the_row_it_has_seen<B: Bench>(bench: &B) {
    let case = Case::new(bench, "operate/seen");
    let lease = case.lease("a").await;
    let seen = case.row().await;
    let extended = case.extension(&lease).await;
    drop(extended.expect("extended"));
    let stored = case.row().await;
    for version in [Some(seen.version), None] {
        let swap = Change::Swap(Box::new(Swap {
            seen: version,
            row: seen.clone(),
        }));
        let limit = Duration::from_secs(1);
        let applied = case.leases.store().apply(&case.address, &swap, limit).await;
        let refused = Applied::Refused(Stored::Row(stored.clone()));
        assert_eq!(applied.expect("an answer"), refused);
    }
    assert_eq!(case.row().await, stored);
}
