//! Takeover by observation, and reentrant requests.

use std::{sync::Arc, time::Duration};

use super::{Case, MS, TTL, contention, grant, invalid, make};
use leasehold::{
    Acquire, Acquired, Contention, Ended, ExtendOptions, GrantKind, Granted, Lease, Leases,
    ManualClock, ObservedVersion, ReleaseOutcome, store::Store,
};

const HOUR: Duration = Duration::from_hours(1);

async fn ask<S: Store>(
    leases: &Leases<S>,
    request: Acquire,
    version: impl Into<ObservedVersion>,
) -> Result<Granted, Contention> {
    let request = request.observed_version(version);
    match leases.acquire(request).await.expect("an answer") {
        Acquired::Granted(granted) => Ok(granted),
        Acquired::Held(contention) => Err(contention),
    }
}

/// The holder's clock and the observer's differ by an hour, in either direction. A holder that extends is never taken
/// over, and a dead one is after one ttl without an extend.
#[tokio::test]
async fn no_clock_is_compared() {
    for ahead in [false, true] {
        observes_extends(ahead).await;
    }
}

async fn observes_extends(ahead: bool) {
    let case = Case::new(&format!("observe/skew/{ahead}"));
    let theirs = if ahead {
        case.now().plus(HOUR)
    } else {
        case.now().minus(HOUR)
    };
    let clock = Arc::new(ManualClock::at(theirs));
    let observer = case.elsewhere(&clock);
    let pass = |length| {
        case.pass(length);
        clock.advance(length);
    };
    let mut lease = case.lease("a").await;
    let request = |n: u32| case.request("b", &format!("ask {n}"));
    let mut seen = ask(&observer, request(0), ObservedVersion::NONE)
        .await
        .expect_err("somebody holds it, whatever the clock says");
    for round in 1..10 {
        // One extend in each wait, at any time in it: in time, or so late that it revives the lease.
        let wait = Duration::from_secs(seen.retry.expect("a deadline").wait_seconds);
        let when = wait * round / 10;
        pass(when);
        lease = case.extended(&lease).await;
        pass(wait.checked_sub(when).expect("a part of it"));
        seen = ask(&observer, request(round), seen.held.version)
            .await
            .expect_err("the holder has shown life");
        assert_eq!(seen.held.version, lease.version);
    }
    // No more extends from here on. The holder knows by its own clock when to stop.
    let end = lease.expires_at();
    assert!(case.now() < end, "the last extend still counts");
    pass(Duration::from_secs(
        seen.retry.expect("a deadline").wait_seconds,
    ));
    assert!(end <= case.now(), "one ttl of silence is the end of it");
    let taken = ask(&observer, request(99), seen.held.version)
        .await
        .expect("a takeover");
    assert_eq!(taken.grant, GrantKind::Takeover);
    let previous = taken.previous.expect("a holder before");
    assert_eq!(previous.fencing_token, lease.fencing_token);
    assert_eq!(previous.ended, Ended::Expired);
    assert!(taken.lease.fencing_token > lease.fencing_token);
    refused!(case.extension(&lease).await, Lost);
}

/// The holder's calls may come from machines whose clocks differ. An extend that would move the deadline back changes
/// only the version.
#[tokio::test]
async fn extend_shows_life_by_any_clock() {
    let case = Case::new("observe/life");
    let behind = Arc::new(ManualClock::at(case.now().minus(HOUR)));
    let elsewhere = case.elsewhere(&behind);
    let lease = case.lease("a").await;
    let mut seen = ask(&case.leases, case.request("b", "0"), ObservedVersion::NONE)
        .await
        .expect_err("somebody holds it");
    for round in 1..5 {
        let extended = elsewhere.extend(&lease, ExtendOptions::default()).await;
        let extended = extended.expect("still the holder's").into_lease();
        assert_eq!(extended.expires_at(), lease.expires_at(), "never shortened");
        let request = case.request("b", &format!("{round}"));
        let again = ask(&case.leases, request, seen.held.version).await;
        seen = again.expect_err("the holder has shown life");
        assert_eq!(seen.held.version, extended.version);
    }
}

#[tokio::test]
async fn observed_version_takes_over_unmoved_lease() {
    let case = Case::new("observe/version");
    let lease = case.lease("a").await;
    // The library cannot check that the caller waited.
    let taken = ask(&case.leases, case.request("b", "1"), lease.version).await;
    assert_eq!(taken.expect("granted").grant, GrantKind::Takeover);
    // Expired long ago by the clock, but not at the version that was seen.
    case.pass(HOUR);
    let refused = ask(&case.leases, case.request("c", "1"), lease.version).await;
    let seen = refused.expect_err("another version").held;
    let none = ask(&case.leases, case.request("c", "1"), ObservedVersion::NONE).await;
    assert_eq!(
        none.expect_err("nothing was seen").held.version,
        seen.version
    );
    // The same request, once it has the current version; and a retry, as after a lost response.
    let taken = ask(&case.leases, case.request("c", "1"), seen.version).await;
    let taken = taken.expect("granted");
    let again = ask(&case.leases, case.request("c", "1"), seen.version).await;
    let again = again.expect("the same lease");
    assert_eq!(again.grant, GrantKind::Replayed);
    assert_eq!(again.lease, taken.lease.clone());
    assert_eq!(again.previous, taken.previous);
    // A free key needs no observation.
    case.give_back(&taken.lease).await;
    let free = ask(&case.leases, case.request("d", "1"), ObservedVersion::NONE).await;
    assert_eq!(free.expect("granted").grant, GrantKind::New);
}

#[tokio::test]
async fn an_observation_keeps_every_other_rule() {
    let case = Case::new("observe/rules");
    let lease = case.lease("a").await;
    case.freeze().await;
    let observing = |id: &str| case.request("b", id).observed_version(lease.version);
    refused!(case.leases.acquire(observing("1")).await, Frozen);
    // Nor 1: an observation sees one permit, and others may still be held.
    for permits in [2, 1] {
        let semaphore = observing("1").permits(make::permits(permits));
        let answer = case.leases.acquire(semaphore).await;
        invalid(answer, "observed_version");
    }
    case.tamper(|item| drop(item.insert("granted_to".into(), crate::s("x"))))
        .await;
    refused!(case.leases.acquire(observing("1")).await, Corrupt);
}

/// The handle of the same lease for another request of its holder.
pub(super) fn reentered(lease: &Lease) -> Lease {
    let mut lease = lease.clone();
    lease.reentered = true;
    lease
}

#[tokio::test]
async fn reentrant_request_gets_holders_lease() {
    let case = Case::new("acquire/reentrant");
    let first = case.grant("a", "1").await;
    let reentrant = async |holder: &str, id: &str| {
        let request = case.request(holder, id).reentrant();
        case.leases.acquire(request).await
    };
    let again = reentrant("a", "2").await.expect("an answer").granted();
    let again = again.expect("the same lease");
    assert_eq!(again.grant, GrantKind::Reentered);
    assert_eq!(again.lease, reentered(&first.lease));
    assert_eq!(again.previous, first.previous);
    // Extend works with it; and who re-enters gives nothing back.
    let extended = case
        .leases
        .extend(&again.lease, ExtendOptions::default())
        .await;
    let extended = extended.expect("still held").into_lease();
    assert!(extended.reentered, "{extended:?}");
    let version = case.row().await.version;
    for handle in [&again.lease, &extended] {
        assert_eq!(case.give_back(handle).await, ReleaseOutcome::Kept);
    }
    assert_eq!(case.row().await.version, version, "nothing was written");
    assert!(case.row().await.holding().is_some());
    let other = reentrant("b", "2").await.expect("an answer");
    assert!(matches!(other, Acquired::Held(_)), "{other:?}");
    // Also on a frozen key, as long as the lease has not expired, because this is no grant.
    case.freeze().await;
    let frozen = reentrant("a", "3").await.expect("an answer").granted();
    assert_eq!(
        frozen.expect("the same lease").lease.lease_id,
        first.lease.lease_id
    );
    case.clock.set(first.lease.expires_at().minus(MS));
    let still = reentrant("a", "3").await.expect("an answer");
    drop(still.granted().expect("still"));
    case.pass(MS);
    refused!(reentrant("a", "3").await, Frozen);
    let case = Case::new("acquire/reentrant and expired");
    let first = case.grant("a", "1").await;
    case.pass(TTL);
    let request = case.request("a", "2").reentrant();
    let expired = contention(&case.leases, request.clone()).await;
    assert!(expired.held.by_you);
    // If the holder has no lease, a new one.
    case.give_back(&first.lease).await;
    assert_eq!(grant(&case.leases, request).await.grant, GrantKind::New);
    let spent = case.request("a", "1").reentrant();
    refused!(case.leases.acquire(spent).await, Consumed);
}
