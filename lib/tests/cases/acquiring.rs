use std::time::Duration;

use super::{Case, MARGIN, MS, TTL, grant, make};
use leasehold::{Ended, GrantKind, HeldUntil, Previous, ReleaseOutcome, Settings};

#[tokio::test]
async fn a_free_key_is_granted() {
    let case = Case::new("acquire/free");
    let metadata = make::metadata("order", "42");
    let request = case.request("a", "1").metadata(metadata.clone());
    let granted = grant(&case.leases, request).await;
    assert_eq!((granted.grant, granted.previous), (GrantKind::New, None));
    let lease = granted.lease;
    assert_eq!(lease.key.as_str(), "acquire/free");
    assert_eq!(lease.holder.as_str(), "a");
    assert_eq!(lease.fencing_token.get(), case.now().as_millis() + 1);
    assert_eq!(lease.version.get(), case.now().as_millis() + 1);
    assert_eq!(lease.acquired_at, case.now());
    assert_eq!(lease.expires_at(), case.now().plus(TTL));
    assert_eq!(
        lease.safe_until(),
        lease.expires_at().minus(Settings::default().guard)
    );
    assert_eq!((lease.permit, lease.metadata), (0, metadata));
}

#[tokio::test]
async fn a_held_key_is_not() {
    let case = Case::new("acquire/held");
    let lease = case.lease("a").await;
    let contention = case.contention("b").await;
    let held = contention.held;
    assert_eq!(held.key, lease.key.clone());
    assert_eq!(held.holder, lease.holder.clone());
    assert_eq!(held.fencing_token, lease.fencing_token);
    assert_eq!(held.version, lease.version);
    let lasts = HeldUntil::Ttl {
        ttl: make::ttl(TTL),
        expires_at: lease.expires_at(),
    };
    assert_eq!(held.until, lasts);
    assert_eq!((held.waiting, held.permit, held.by_you), (0, 0, false));
    assert_eq!(
        contention.retry.expect("a deadline").retry_at,
        lease.expires_at().plus(MARGIN).plus(MS)
    );
    assert_eq!(contention.retry.expect("a deadline").wait_seconds, 61);
    // A fraction of a second is rounded up to a whole one; of a long ttl a thousandth comes on top.
    let day = Duration::from_hours(24);
    for (key, ttl, wait) in [("a broken second", TTL + MS, 62), ("a day", day, 86_487)] {
        let long = Case::new(&format!("acquire/held for {key}"));
        let mut request = long.request("a", "1");
        request.lifetime = make::ttl(ttl).into();
        let acquired = long.leases.acquire(request).await.expect("an answer");
        let lease = acquired.granted().expect("free").lease;
        let retry = long.contention("b").await.retry;
        assert_eq!(retry.expect("a deadline").wait_seconds, wait);
        assert_eq!(long.give_back(&lease).await, ReleaseOutcome::Released);
    }
    // The same holder with another request is another contender, and the result says so.
    let other = super::contention(&case.leases, case.request("a", "another")).await;
    assert!(other.held.by_you);
}

#[tokio::test]
async fn repeated_request_gets_its_lease() {
    let case = Case::new("acquire/replay");
    case.lease("before").await;
    case.expire();
    let first = case.grant("a", "1").await;
    assert_eq!(first.grant, GrantKind::Takeover);
    for _ in 0..3 {
        case.pass(TTL);
        let again = case.grant("a", "1").await;
        assert_eq!(again.grant, GrantKind::Replayed, "also past its deadline");
        assert_eq!(again.lease, first.lease);
        assert_eq!(again.previous, first.previous);
    }
}

#[tokio::test]
async fn takeover_comes_after_margin() {
    let case = Case::new("acquire/takeover");
    let old = case.lease("a").await;
    case.expire();
    case.clock.set(case.now().minus(MS));
    case.contention("b").await;
    case.pass(MS);
    let taken = case.grant("b", "by b").await;
    assert_eq!(taken.grant, GrantKind::Takeover);
    let previous = Previous {
        holder: old.holder,
        fencing_token: old.fencing_token,
        ended: Ended::Expired,
    };
    assert_eq!(taken.previous, Some(previous));
    assert!(taken.lease.fencing_token > old.fencing_token);
    assert_ne!(taken.lease.lease_id, old.lease_id);
}

#[tokio::test]
async fn spent_request_is_never_granted() {
    let case = Case::new("acquire/consumed");
    let consumed = async |id: &str| refused!(case.ask("a", id).await, Consumed);
    let first = case.grant("a", "1").await.lease;
    case.give_back(&first).await;
    consumed("1").await;
    // The row remembers four requests, whether their leases were released, expired, or are held.
    for id in ["2", "3"] {
        case.grant("a", id).await;
        case.expire();
    }
    let last = case.grant("a", "4").await.lease;
    for id in ["1", "2", "3"] {
        consumed(id).await;
    }
    case.give_back(&last).await;
    for id in ["1", "2", "3", "4"] {
        consumed(id).await;
    }
}

#[tokio::test]
async fn a_frozen_key_is_not_granted() {
    let case = Case::new("acquire/frozen");
    let lease = case.grant("a", "1").await.lease;
    case.freeze().await;
    let frozen = async || refused!(case.ask("b", "2").await, Frozen);
    frozen().await;
    assert_eq!(case.grant("a", "1").await.grant, GrantKind::Replayed);
    case.expire();
    frozen().await;
    case.give_back(&lease).await;
    frozen().await;
    refused!(case.ask("a", "1").await, Consumed);
}

#[tokio::test]
async fn tokens_rise_through_every_end() {
    let case = Case::new("acquire/tokens");
    let mut last = 0;
    for round in 0..12 {
        let lease = case.lease(&format!("holder {round}")).await;
        assert!(lease.fencing_token.get() > last, "round {round}");
        last = lease.fencing_token.get();
        match round % 3 {
            0 => drop(case.leases.release(&lease).await.expect("released")),
            1 => case.expire(),
            _ => {
                // The order of tokens needs more than two milliseconds per grant.
                case.pass(3 * MS * 3);
                case.delete();
            }
        }
    }
}

#[tokio::test]
async fn keys_differ_byte_by_byte() {
    let keys = [
        "odd/a",
        "odd/A",
        "odd/a ",
        "odd/a/",
        "odd/a#0000",
        "LEASE#0000",
        "odd/\u{e9}",
        "odd/e\u{301}",
        "odd/\u{5d0}\u{5d1}",
        "odd/\u{202e}a",
        "odd/'; --",
        "odd/\u{1f512}",
    ];
    for key in keys {
        let case = Case::new(key);
        let lease = case.lease("\u{0}\n\u{e9}").await;
        assert_eq!(lease.key.as_str(), key);
        assert_eq!(lease.holder.as_str(), "\u{0}\n\u{e9}");
    }
}
