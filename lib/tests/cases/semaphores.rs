//! Permits: each is a lease of its own.

use std::collections::{BTreeSet, HashSet};

use super::observing::reentered;
use super::{Case, MARGIN, MS, TTL, contention, grant, invalid, make, with};
use leasehold::{
    Acquire, AtLeast, Contention, GrantKind, Granted, LeaseState, LimitedTo, ReleaseOutcome,
    store::Address,
};

impl Case {
    fn one_of(&self, permits: u16, holder: &str, id: &str) -> Acquire {
        let permits = make::permits(permits);
        self.request(holder, id).permits(permits)
    }

    async fn permit_of(&self, permits: u16, holder: &str) -> Granted {
        let request = self.one_of(permits, holder, &format!("by {holder}"));
        grant(&self.leases, request).await
    }

    async fn limited_to(&self, permits: Option<u16>) {
        let permits = permits.map(|n| LimitedTo::new(n).expect("valid"));
        let key = &self.address.key;
        let limited = self.leases.limit_to(key, permits, &make::because()).await;
        let _ = limited.expect("an answer");
    }

    async fn full(&self, permits: u16) -> Contention {
        contention(&self.leases, self.one_of(permits, "too many", "too many")).await
    }
}

#[tokio::test]
async fn no_more_than_there_are_permits() {
    let case = Case::new("semaphore/full");
    let (mut permits, mut tokens) = (BTreeSet::new(), HashSet::new());
    let mut leases = Vec::new();
    for n in 0..5 {
        let granted = case.permit_of(5, &format!("h{n}")).await;
        assert_eq!(granted.grant, GrantKind::New);
        assert!(permits.insert(granted.lease.permit));
        tokens.insert((granted.lease.permit, granted.lease.fencing_token));
        leases.push(granted.lease);
        case.pass(TTL / 100);
    }
    assert_eq!(permits, (0..5).collect());
    // The contention names the permit that must end first.
    let contention = case.full(5).await;
    assert_eq!(contention.held.permit, leases[0].permit);
    assert_eq!(contention.held.holder, leases[0].holder);
    // A permit that is released is the next one that is granted.
    case.give_back(&leases[2]).await;
    let next = case.permit_of(5, "next").await;
    assert_eq!(next.lease.permit, leases[2].permit);
    assert!(next.lease.fencing_token > leases[2].fencing_token);
    case.full(5).await;
    // The permit of a crashed holder is taken over after the margin.
    case.clock.set(leases[0].expires_at());
    case.full(5).await;
    case.clock
        .set(contention.retry.expect("a deadline").retry_at);
    let taken = case.permit_of(5, "heir").await;
    assert_eq!(taken.grant, GrantKind::Takeover);
    assert_eq!(taken.lease.permit, leases[0].permit);
    assert_eq!(taken.previous.expect("a grant").holder, leases[0].holder);
}

#[tokio::test]
async fn request_finds_its_permit_again() {
    let case = Case::new("semaphore/replay");
    let others: Vec<_> = [case.permit_of(3, "x").await, case.permit_of(3, "y").await].into();
    let first = case.permit_of(3, "a").await;
    for _ in 0..5 {
        case.pass(TTL / 2);
        let again = case.permit_of(3, "a").await;
        assert_eq!(again.grant, GrantKind::Replayed);
        assert_eq!(again.lease, first.lease);
    }
    // Whichever other permits became free in the meantime, and whatever the number is now.
    for other in others {
        case.give_back(&other.lease).await;
    }
    for permits in [2, 3, 1000] {
        assert_eq!(case.permit_of(permits, "a").await.lease, first.lease);
    }
    case.give_back(&first.lease).await;
    for holder in ["a", "x"] {
        let spent = case.one_of(3, holder, &format!("by {holder}"));
        refused!(case.leases.acquire(spent).await, Consumed);
    }
}

#[tokio::test]
async fn each_permit_is_own_lease() {
    let case = Case::new("semaphore/own");
    let a = case.permit_of(2, "a").await.lease;
    let b = case.permit_of(2, "b").await.lease;
    case.pass(TTL / 2);
    let longer = case.extended(&a).await;
    assert_eq!(longer.permit, a.permit);
    assert_eq!(longer.expires_at(), case.now().plus(TTL));
    let (first, permits) = case.inspected().await;
    assert_eq!((first.lease.permit, permits.len()), (0, 2));
    assert!(permits.iter().all(|one| one.state == LeaseState::Held));
    assert_eq!(case.give_back(&b).await, ReleaseOutcome::Released);
    // The handle of one permit does not end another.
    let swapped = with(b, |lease| lease.permit = a.permit);
    refused!(case.extension(&swapped).await, Lost);
    assert_eq!(case.give_back(&swapped).await, ReleaseOutcome::Lost);
    assert_eq!(case.give_back(&a).await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn lower_number_applies_as_permits_return() {
    let case = Case::new("semaphore/lowered");
    let mut leases = Vec::new();
    for n in 0..5 {
        leases.push(case.permit_of(5, &format!("h{n}")).await.lease);
    }
    leases.sort_by_key(|lease| lease.permit);
    case.full(2).await;
    // Three permits have to be released before the next grant, whichever they are.
    for lease in &leases[..3] {
        case.give_back(lease).await;
        case.full(2).await;
    }
    case.give_back(&leases[3]).await;
    let granted = case.permit_of(2, "new").await;
    assert!(granted.lease.permit < 2, "{}", granted.lease.permit);
    case.full(2).await;
    case.give_back(&leases[4]).await;
    assert!(case.permit_of(2, "newer").await.lease.permit < 2);
    case.full(2).await;
    // A number of 1 is no mutex as long as it is given: two permits are held.
    case.full(1).await;
    case.give_back(&granted.lease).await;
    case.full(1).await;
}

/// A caller with a larger number does not break the limit of those who hold, and a raised one counts when they have ended.
#[tokio::test]
async fn the_smallest_number_counts() {
    let case = Case::new("semaphore/smallest");
    let older = [case.permit_of(2, "a").await, case.permit_of(2, "b").await];
    case.full(3).await;
    case.full(1000).await;
    case.give_back(&older[0].lease).await;
    let c = case.permit_of(3, "c").await.lease;
    case.full(3).await;
    // An extended lease keeps its number, and one that has expired is none.
    let b = case.extended(&older[1].lease).await;
    case.full(3).await;
    let (first, permits) = case.inspected().await;
    let numbers = permits.iter().map(|one| one.lease.permits);
    let numbers: BTreeSet<_> = numbers.collect();
    assert_eq!(numbers, [2, 3].map(|n| Some(make::permits(n))).into());
    assert!(first.limit.is_none());
    case.give_back(&c).await;
    case.clock.set(b.expires_at().plus(MARGIN + MS));
    let mut leases = Vec::new();
    for who in ["d", "e", "f"] {
        leases.push(case.permit_of(3, who).await.lease);
    }
    case.full(3).await;
    case.full(1000).await;
    // What a version granted that stored no number counts with what is asked.
    case.tamper(|item| drop(item.remove("permits"))).await;
    case.full(3).await;
    for lease in leases.iter().filter(|lease| lease.permit > 0) {
        case.give_back(lease).await;
    }
    for who in ["g", "h", "i"] {
        case.permit_of(4, who).await;
    }
    case.full(4).await;
}

#[tokio::test]
async fn a_closed_permit_keeps_its_number() {
    let case = Case::new("semaphore/closed");
    for who in ["a", "b"] {
        let request = case
            .one_of(2, who, "1")
            .at_least(AtLeast::new(TTL).expect("valid"));
        let lease = grant(&case.leases, request).await.lease;
        case.give_back(&lease).await;
    }
    case.full(3).await;
    case.expire();
    case.pass(MS);
    for who in ["c", "d", "e"] {
        case.permit_of(3, who).await;
    }
}

#[tokio::test]
async fn a_mutex_has_no_number() {
    let case = Case::new("semaphore/mutex");
    let lease = case.permit_of(2, "a").await.lease;
    assert_eq!(lease.permit, 0);
    case.give_back(&lease).await;
    assert!(case.row().await.permits.is_some());
    case.lease("b").await;
    assert!(case.row().await.permits.is_none());
    for who in ["c", "d"] {
        case.permit_of(3, who).await;
    }
    case.full(3).await;
}

/// The contention names the lease whose end makes room: with four held and two allowed that is the third to end, not
/// the first; and not one that has expired already.
#[tokio::test]
async fn held_reports_permit_that_makes_room() {
    let case = Case::new("semaphore/wait");
    let mut leases = Vec::new();
    for n in 0..5 {
        leases.push(case.permit_of(5, &format!("h{n}")).await.lease);
        case.pass(TTL / 10);
    }
    case.clock.set(leases[1].expires_at().minus(MS));
    for (permits, first) in [(4, 1), (3, 2), (2, 3), (1, 4)] {
        let contention = case.full(permits).await;
        assert_eq!(contention.held.permit, leases[first].permit, "{permits}");
        assert!(contention.retry.expect("a deadline").retry_at > case.now());
    }
    let last = case.full(2).await.retry.expect("a deadline").retry_at;
    case.clock.set(last.minus(2 * MS));
    case.full(2).await;
    case.clock.set(last);
    case.permit_of(2, "next").await;
}

/// Three of two are held after an operator's limit: the end of the one that asked for two makes room among three.
#[tokio::test]
async fn held_reports_permit_that_lifts_number() {
    let case = Case::new("semaphore/lifted");
    case.limited_to(Some(3)).await;
    let mut leases = Vec::new();
    for (permits, who) in [(2, "a"), (5, "b"), (5, "c")] {
        leases.push(case.permit_of(permits, who).await.lease);
        case.pass(TTL / 10);
    }
    case.limited_to(None).await;
    assert_eq!(case.full(5).await.held.permit, leases[0].permit);
    assert_eq!(case.full(2).await.held.permit, leases[1].permit);
    case.give_back(&leases[0]).await;
    case.permit_of(5, "d").await;
}

#[tokio::test]
async fn strangers_row_is_no_permit() {
    let case = Case::new("semaphore/stranger");
    let address = |permit| Address {
        permit,
        ..case.address.clone()
    };
    case.table.put(address(1), &make::foreign_item());
    let granted = case.permit_of(2, "a").await;
    assert_eq!(granted.lease.permit, 0);
    // The item that is not ours is left alone and never becomes free, but the other permit will.
    assert_eq!(case.full(2).await.held.permit, 0);
    case.give_back(&granted.lease).await;
    case.table.put(address(0), &make::foreign_item());
    refused!(case.leases.acquire(case.one_of(2, "b", "1")).await, Corrupt);
}

#[tokio::test]
async fn a_frozen_semaphore_grants_nothing() {
    let case = Case::new("semaphore/frozen");
    let lease = case.permit_of(3, "a").await.lease;
    case.freeze_by_operator().await;
    refused!(case.leases.acquire(case.one_of(3, "b", "1")).await, Frozen);
    let again = case.permit_of(3, "a").await.lease;
    assert_eq!(again.lease_id, lease.lease_id, "a replay goes on");
    case.unfreeze_by_operator().await;
    case.permit_of(3, "b").await;
}

#[tokio::test]
async fn a_holder_may_reenter_its_permit() {
    let case = Case::new("semaphore/reentrant");
    let lease = case.permit_of(3, "a").await.lease;
    let request = case.one_of(3, "a", "another").reentrant();
    let again = grant(&case.leases, request).await;
    let has = (GrantKind::Reentered, reentered(&lease));
    assert_eq!((again.grant, again.lease), has);
    // A smaller number would be more than it says, and a larger one than anybody allows.
    for number in [Some(2), Some(4), None] {
        let mut other = case.one_of(3, "a", "of another number").reentrant();
        other.permits = number.map(make::permits);
        invalid(case.leases.acquire(other).await, "permits");
    }
    // Without `reentrant` it is another permit; and each request finds its own permit before any other.
    for id in ["another", "a third"] {
        let request = case.one_of(3, "a", id);
        let other = grant(&case.leases, request).await;
        assert_eq!(other.grant, GrantKind::New);
        let request = case.one_of(3, "a", id).reentrant();
        assert_eq!(grant(&case.leases, request).await.lease, other.lease);
    }
    // Whichever permit it has.
    let case = Case::new("semaphore/reentrant without a number");
    case.permit_of(2, "a").await;
    case.permit_of(2, "b").await;
    for holder in ["a", "b"] {
        let mut other = case.one_of(2, holder, "of no number").reentrant();
        other.permits = None;
        invalid(case.leases.acquire(other).await, "permits");
    }
}

/// Otherwise all requests would collide at the first free permit.
#[tokio::test]
async fn requests_begin_at_different_permits() {
    let case = Case::new("semaphore/spread");
    let mut permits = BTreeSet::new();
    for n in 0..8 {
        permits.insert(case.permit_of(1000, &format!("h{n}")).await.lease.permit);
    }
    assert_eq!(permits.len(), 8);
    assert!(permits.last() > Some(&100), "{permits:?}");
}
