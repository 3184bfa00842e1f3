use std::time::Duration;

use super::{Case, MS, TTL, UNEXPIRED, make, plus, with};
use leasehold::{
    ExtendOptions, Extended, Lease,
    row::Stored,
    store::{Applied, Operations as _},
    transition::{Change, Extend},
};

impl Case {
    async fn extend(&self, lease: &Lease, options: ExtendOptions) -> Lease {
        match self.leases.extend(lease, options).await {
            Ok(Extended::Extended { lease }) => lease,
            other => panic!("not extended: {other:?}"),
        }
    }

    async fn is_lost(&self, lease: &Lease) {
        for options in [ExtendOptions::default(), UNEXPIRED] {
            refused!(self.leases.extend(lease, options).await, Lost);
        }
    }
}

#[tokio::test]
async fn an_extend_moves_the_deadline() {
    let case = Case::new("extend/moves");
    let lease = case.lease("a").await;
    case.pass(TTL / 2);
    let extended = case.extend(&lease, ExtendOptions::default()).await;
    let expected = with(lease.clone(), |lease| {
        lease.version = extended.version;
        lease.deadline = extended.deadline;
    });
    assert_eq!(extended, expected);
    assert!(extended.version > lease.version);
    // An older handle of the same grant works, and another ttl becomes the lease's own.
    let longer = case.extend(&lease, make::extend_by(10 * TTL)).await;
    assert_eq!(
        longer.expires_at(),
        case.now().plus(Duration::from_mins(10))
    );
    assert_eq!(longer.ttl().expect("a ttl lease").as_millis(), 600_000);
    assert_eq!(case.row().await.version, longer.version);
}

#[tokio::test]
async fn an_extend_never_shortens() {
    let case = Case::new("extend/never shortens");
    let lease = case.lease("a").await;
    case.pass(Duration::from_secs(30));
    let longer = case.extend(&lease, ExtendOptions::default()).await;
    for options in [
        make::extend_by(TTL / 30),
        UNEXPIRED,
        make::extend_by(TTL / 60 * 59),
    ] {
        // The clock goes back, or a duplicate of an earlier extend arrives late.
        let written_at = case.row().await.holding().expect("held").written_at();
        case.clock.set(lease.acquired_at);
        let version = case.row().await.version;
        let extended = case.extend(&lease, options).await;
        let row = case.row().await;
        assert_eq!(row.holding().expect("held").written_at(), written_at);
        // Only the version has changed, which shows that the holder is alive.
        assert!(extended.version > version);
        assert_eq!(
            with(extended, |lease| lease.version = longer.version),
            longer
        );
    }
    // One of before that asked for more.
    let more = TTL * 2;
    let of_before = Change::Extend(Extend {
        lease_id: lease.lease_id.clone(),
        fencing_token: lease.fencing_token,
        ttl: make::ttl(more),
        now: lease.acquired_at,
        expires_at: lease.acquired_at.plus(more),
        require_unexpired: false,
        behind: false,
    });
    let late = case.leases.store().apply(&case.address, &of_before, TTL);
    assert!(matches!(late.await, Ok(Applied::Refused(_))));
}

#[tokio::test]
async fn lapsed_lease_is_revived_unless_refused() {
    let case = Case::new("extend/revive");
    let lease = case.lease("a").await;
    case.clock.set(lease.expires_at());
    refused!(case.leases.extend(&lease, UNEXPIRED).await, Expired);
    let at_once = case.extension(&lease).await.expect("extended");
    let Extended::Revived { lease, lapsed } = at_once else {
        panic!("a lease is over at its deadline: {at_once:?}");
    };
    assert_eq!(lapsed, Duration::ZERO);
    case.clock.set(lease.expires_at());
    case.pass(Duration::from_hours(1));
    let revived = case.extension(&lease).await;
    let Ok(Extended::Revived { lease, lapsed }) = revived else {
        panic!("not revived: {revived:?}");
    };
    assert_eq!(lapsed, Duration::from_hours(1));
    assert_eq!(lease.expires_at(), case.now().plus(TTL));
    case.clock.set(lease.expires_at().minus(MS));
    case.extend(&lease, UNEXPIRED).await;
}

#[tokio::test]
async fn ended_grant_is_lost() {
    let taken = Case::new("extend/taken");
    let lease = taken.lease("a").await;
    taken.expire();
    let other = taken.lease("b").await;
    taken.is_lost(&lease).await;
    taken.give_back(&other).await;
    taken.is_lost(&lease).await;
    taken.is_lost(&other).await;

    let deleted = Case::new("extend/deleted");
    let lease = deleted.lease("a").await;
    deleted.delete();
    deleted.is_lost(&lease).await;
    let stored = deleted.leases.store().read_row(&deleted.address, TTL).await;
    assert!(
        matches!(stored, Ok(Stored::Absent)),
        "an extend never creates a row: {stored:?}"
    );

    let forged = Case::new("extend/forged");
    let lease = forged.lease("a").await;
    let fencing_token = plus(lease.fencing_token, 2);
    forged
        .is_lost(&with(lease.clone(), |lease| {
            lease.fencing_token = fencing_token;
        }))
        .await;
    let lease_id = leasehold::LeaseId::random();
    forged
        .is_lost(&with(lease, |lease| lease.lease_id = lease_id))
        .await;
}

#[tokio::test]
async fn frozen_key_extends_only_in_time() {
    let case = Case::new("extend/frozen");
    let lease = case.lease("a").await;
    case.freeze().await;
    case.pass(TTL / 2);
    let lease = case.extend(&lease, ExtendOptions::default()).await;
    case.clock.set(lease.expires_at());
    refused!(case.extension(&lease).await, Frozen);
}
