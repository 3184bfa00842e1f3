//! The acts of operators.

use std::time::Duration;

use super::{Case, TTL, grant, invalid, make, make::because, s};
use leasehold::{
    Act, Counter, Ended, ForceReleaseOptions, ForceReleaseOutcome, FreezeOutcome, GrantKind,
    LeaseView, Previous, ReleaseOutcome, UnfreezeOutcome,
    row::{Row, Stored},
    store::{Applied, Operations as _},
    transition::{Change, Head, ReplaceIfUnchanged},
};

impl Case {
    pub(super) async fn force(&self, permit: Option<u16>) -> ForceReleaseOutcome {
        let which = ForceReleaseOptions {
            permit,
            ..ForceReleaseOptions::default()
        };
        let key = &self.address.key;
        let forced = self.leases.force_release(key, which, &because()).await;
        forced.expect("an answer")
    }

    /// The lease that a forced release ends, and the operator's token.
    pub(super) async fn evict(&self, permit: Option<u16>) -> (LeaseView, Counter) {
        match self.force(permit).await {
            ForceReleaseOutcome::Forced {
                evicted,
                fencing_token,
            } => (*evicted, fencing_token),
            other => panic!("nobody was evicted: {other:?}"),
        }
    }

    async fn freeze_it(&self) -> FreezeOutcome {
        let froze = self.leases.freeze(&self.address.key, &because()).await;
        froze.expect("an answer")
    }

    async fn thaw(&self) -> UnfreezeOutcome {
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

#[tokio::test]
async fn a_forced_release_evicts_and_fences() {
    let case = Case::new("operate/force");
    assert_eq!(case.force(None).await, ForceReleaseOutcome::NotHeld);
    let lease = case.lease("a").await;
    case.pass(TTL / 10);
    let (evicted, fencing_token) = case.evict(None).await;
    assert_eq!(evicted.held.expect("a holder").holder, lease.holder);
    assert_eq!(evicted.fencing_token, lease.fencing_token);
    assert!(fencing_token > lease.fencing_token);
    let row = case.signed(Act::ForceRelease).await;
    assert!(row.purge_at.is_some_and(|at| at < Row::NEVER));
    assert_eq!(case.force(None).await, ForceReleaseOutcome::NotHeld);

    // Every call of the evicted holder shows that its lease has ended.
    refused!(case.extension(&lease).await, Lost);
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Lost);
    refused!(case.ask("a", "by a").await, Consumed);
    let previous = Some(Previous {
        holder: lease.holder.clone(),
        fencing_token: lease.fencing_token,
        ended: Ended::Forced,
    });
    let (first, _) = case.inspected().await;
    assert_eq!((&first.previous, first.operator), (&previous, row.operator));
    let next = case.grant("b", "1").await;
    assert_eq!(next.grant, GrantKind::Takeover);
    assert_eq!(next.previous, previous);
    assert!(
        next.lease.fencing_token > fencing_token,
        "above the operator's"
    );
    let again = case.grant("b", "1").await;
    assert_eq!(again.previous, previous);
    assert_eq!(case.give_back(&lease).await, ReleaseOutcome::Lost);
    // An expired lease that nobody took can be ended too.
    case.expire();
    case.evict(Some(0)).await;
}

#[tokio::test]
async fn force_release_takes_one_permit() {
    let case = Case::new("operate/force a permit");
    let mut leases = Vec::new();
    for n in 0..3 {
        let permits = make::permits(3);
        let request = case.request(&format!("h{n}"), "1").permits(permits);
        leases.push(grant(&case.leases, request).await.lease);
    }
    let (key, any) = (&case.address.key, ForceReleaseOptions::default());
    let which = case.leases.force_release(key, any, &because()).await;
    invalid(which, "permit");
    assert_eq!(case.force(Some(77)).await, ForceReleaseOutcome::NotHeld);
    for (n, lease) in leases.iter().enumerate() {
        // The last permit that is held need not be named.
        let permit = (n < 2).then_some(lease.permit);
        let (evicted, _) = case.evict(permit).await;
        assert_eq!(evicted.permit, lease.permit);
        refused!(case.extension(lease).await, Lost);
        for other in &leases[n + 1..] {
            case.extended(other).await;
        }
    }
}

#[tokio::test]
async fn a_frozen_key_stays_frozen() {
    let case = Case::new("operate/freeze");
    let lease = case.lease("a").await;
    assert_eq!(case.freeze_it().await, FreezeOutcome::Frozen);
    case.signed(Act::Freeze).await;
    case.pass(TTL / 10);
    assert_eq!(case.freeze_it().await, FreezeOutcome::AlreadyFrozen);
    case.extended(&lease).await;
    let error = case.ask("b", "1").await.expect_err("it is frozen");
    assert_eq!(error.name(), "Lease.Frozen");
    assert!(
        error.to_string().contains("partner is down (night shift"),
        "{error}"
    );
    // Sweep skips it, also past its deadline; and a release does not let it be purged.
    case.expire();
    case.swept().await;
    assert!(case.row().await.holding().is_some());
    case.give_back(&lease).await;
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
    refused!(case.ask("b", "1").await, Frozen);

    assert_eq!(case.thaw().await, UnfreezeOutcome::Unfrozen);
    let row = case.signed(Act::Unfreeze).await;
    assert!(row.purge_at.is_some_and(|at| at < Row::NEVER));
    assert_eq!(case.thaw().await, UnfreezeOutcome::NotFrozen);
    let next = case.grant("b", "1").await;
    assert_eq!(next.previous.map(|p| p.ended), Some(Ended::Released));
    // A freeze that was set by hand is removed as well, and a held row is not purged.
    case.freeze().await;
    assert_eq!(case.thaw().await, UnfreezeOutcome::Unfrozen);
    assert_eq!(case.row().await.purge_at, None);
    assert_eq!(
        case.grant("b", "1").await.lease.fencing_token,
        next.lease.fencing_token
    );
    // Evicted while frozen, it stays frozen.
    case.freeze_it().await;
    case.evict(None).await;
    refused!(case.ask("c", "1").await, Frozen);
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
}

#[tokio::test]
async fn never_leased_key_can_be_frozen() {
    let case = Case::new("operate/freeze ahead");
    assert_eq!(case.thaw().await, UnfreezeOutcome::NotFrozen);
    assert_eq!(case.freeze_it().await, FreezeOutcome::Frozen);
    let row = case.signed(Act::Freeze).await;
    assert_eq!(row.purge_at, Some(Row::NEVER));
    assert_eq!(row.last_ended(), None);
    refused!(case.ask("a", "1").await, Frozen);
    assert_eq!(case.thaw().await, UnfreezeOutcome::Unfrozen);
    let first = case.grant("a", "1").await;
    assert_eq!((first.grant, first.previous), (GrantKind::New, None));
    assert_eq!(case.row().await.last_ended(), None);
    assert!(first.lease.fencing_token > row.fencing_token);
}

#[tokio::test]
async fn a_stranger_is_not_operated_on() {
    let case = Case::new("operate/stranger");
    case.lease("a").await;
    case.tamper(|item| drop(item.insert("granted_to".into(), s("somebody else"))))
        .await;
    let (leases, key, because) = (&case.leases, &case.address.key, because());
    for _ in 0..2 {
        refused!(
            leases
                .force_release(key, ForceReleaseOptions::default(), &because)
                .await,
            Corrupt
        );
        refused!(leases.freeze(key, &because).await, Corrupt);
        refused!(leases.unfreeze(key, &because).await, Corrupt);
        refused!(leases.raise_floor(key, None, &because).await, Corrupt);
    }
}

#[tokio::test]
async fn operator_writes_only_seen_row() {
    let case = Case::new("operate/seen");
    let lease = case.lease("a").await;
    let seen = case.row().await;
    case.extended(&lease).await;
    let stored = case.row().await;
    let replaced = async |version| {
        let swap = Change::ReplaceIfUnchanged(Box::new(ReplaceIfUnchanged {
            seen: version,
            row: seen.clone(),
            head: Head::Any,
        }));
        let limit = Duration::from_secs(1);
        let applied = case.leases.store().apply(&case.address, &swap, limit).await;
        applied.expect("an answer")
    };
    for version in [Some(seen.version), None] {
        let refused = Applied::Refused(Stored::Row(stored.clone()));
        assert_eq!(replaced(version).await, refused);
    }
    assert_eq!(case.row().await, stored);
    // A row that is gone is not put back by one who has seen it.
    case.delete();
    let refused = Applied::Refused(Stored::Absent);
    assert_eq!(replaced(Some(seen.version)).await, refused);
}
