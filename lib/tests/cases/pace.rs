//! Pace: a key that stays closed for a time after each grant.

use std::time::Duration;

use super::queue::{QueueCase, WAIT};
use super::{Case, MARGIN, MS, TTL, contention, grant, make};
use leasehold::{
    Acquire, AcquireAll, AcquiredAll, AtLeast, Execution, HeldUntil, Lease, LeaseState, Queued,
};

const SPAN: Duration = Duration::from_mins(10);

fn span() -> AtLeast {
    AtLeast::new(SPAN).expect("valid")
}

impl Case {
    fn paced(&self, who: &str) -> Acquire {
        self.request(who, &format!("by {who}")).at_least(span())
    }

    /// A grant that was given back a moment later.
    async fn ran(&self, who: &str) -> Lease {
        let lease = grant(&self.leases, self.paced(who)).await.lease;
        self.pass(MS);
        self.give_back(&lease).await;
        lease
    }
}

impl QueueCase {
    async fn asks_for(&self, permits: Option<u16>, who: &str) -> Queued {
        self.is(who, Execution::Running);
        let mut request = self.request(who).at_least(span());
        request.permits = permits.map(make::permits);
        let asked = self.leases.acquire_queued(request, self.queue(who, WAIT));
        asked.await.expect("an answer")
    }

    async fn is_queued(&self, permits: Option<u16>, who: &str) {
        let answer = self.asks_for(permits, who).await;
        assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
        self.expect_no_answers();
    }
}

#[tokio::test]
async fn key_stays_closed_after_release() {
    let case = Case::new("pace/given back");
    let granted_at = case.now();
    let lease = case.ran("a").await;
    let opens_at = granted_at.plus(SPAN);
    let retry_at = opens_at.plus(MARGIN + MS);
    let meets = contention(&case.leases, case.paced("b")).await;
    assert_eq!(meets.held.until, HeldUntil::Closed { opens_at });
    assert_eq!(meets.held.holder, lease.holder);
    let retry = meets.retry.expect("a time");
    assert_eq!((retry.retry_at, retry.wait_seconds), (retry_at, 602));
    let (seen, _) = case.inspected().await;
    assert_eq!(
        (seen.state, seen.opens_at),
        (LeaseState::Closed, Some(opens_at))
    );
    // The same request is a late duplicate, as after any end.
    refused!(case.leases.acquire(case.paced("a")).await, Consumed);
    // By the clock of another, which may be ahead by the margin.
    case.pass(opens_at.plus(MARGIN).since(case.now().plus(MS)));
    contention(&case.leases, case.paced("b")).await;
    let (seen, _) = case.inspected().await;
    assert_eq!(
        (seen.state, seen.opens_at),
        (LeaseState::Closed, Some(opens_at))
    );
    case.pass(2 * MS);
    let (seen, _) = case.inspected().await;
    assert_eq!((seen.state, seen.opens_at), (LeaseState::Free, None));
    let next = grant(&case.leases, case.paced("b")).await;
    assert_eq!(
        next.previous.map(|before| before.holder),
        Some(lease.holder)
    );
}

#[tokio::test]
async fn it_stays_closed_for_takers_too() {
    let case = Case::new("pace/taken over");
    let lease = grant(&case.leases, case.paced("a")).await.lease;
    let opens_at = lease.acquired_at.plus(SPAN);
    // The time to ask again is that of the opening.
    let meets = case.contention("b").await;
    let retry = meets.retry.expect("a time");
    assert_eq!(retry.retry_at, opens_at.plus(MARGIN + MS));
    case.expire();
    case.contention("b").await;
    let observes = case.request("c", "by c").observed_version(lease.version);
    contention(&case.leases, observes.clone()).await;
    case.swept().await;
    assert!(case.row().await.holding().is_none());
    contention(&case.leases, observes).await;
    // Its holder may hold it for longer than that.
    let case = Case::new("pace/held longer");
    let mut lease = grant(&case.leases, case.paced("a")).await.lease;
    for _ in 0..15 {
        case.pass(TTL * 9 / 10);
        lease = case.extended(&lease).await;
    }
    case.contention("b").await;
    case.give_back(&lease).await;
    case.grant("b", "by b").await;
}

#[tokio::test]
async fn each_grant_says_how_long() {
    let case = Case::new("pace/each grant");
    case.ran("a").await;
    case.pass(SPAN + MARGIN + MS);
    let lease = case.lease("b").await;
    assert_eq!(case.row().await.opens_at, None);
    case.give_back(&lease).await;
    case.lease("c").await;
}

#[tokio::test]
async fn pace_limits_permits_per_span() {
    let case = Case::new("pace/permits");
    let of_two = |who: &str| case.paced(who).permits(make::permits(2));
    let start = case.now();
    for who in ["a", "b"] {
        let lease = grant(&case.leases, of_two(who)).await.lease;
        case.give_back(&lease).await;
        case.pass(TTL);
    }
    let meets = contention(&case.leases, of_two("c")).await;
    let opens_at = start.plus(SPAN);
    assert_eq!(meets.held.until, HeldUntil::Closed { opens_at });
    let (_, permits) = case.inspected().await;
    let states: Vec<_> = permits.iter().map(|seen| seen.state).collect();
    assert_eq!(states, [LeaseState::Closed; 2]);
    case.pass(opens_at.since(case.now()) + MARGIN + MS);
    grant(&case.leases, of_two("c")).await;
    contention(&case.leases, of_two("d")).await;
    case.pass(TTL);
    grant(&case.leases, of_two("d")).await;
}

#[tokio::test]
async fn waiter_is_served_on_opening() {
    let case = QueueCase::new("pace/queue");
    case.case.ran("holder").await;
    case.is_queued(None, "a").await;
    case.is_queued(None, "b").await;
    case.sweep().await;
    assert!(!case.hand_over().await);
    case.pass(SPAN);
    case.sweep().await;
    case.expect_no_answers();
    case.pass(MARGIN);
    case.sweep().await;
    let a = case.turn_of("a").lease;
    // Whoever has it for longer than the span passes it on at once.
    let a = case.prove(&a).await;
    case.pass(SPAN + MARGIN);
    case.release(&a).await;
    case.turn_of("b");
}

#[tokio::test]
async fn queued_grant_closes_key_too() {
    let (case, lease) = QueueCase::held("pace/from the queue", &[]).await;
    case.is_queued(None, "a").await;
    case.is_queued(None, "b").await;
    case.release(&lease).await;
    let a = case.turn_of("a").lease;
    case.release(&a).await;
    case.expect_no_answers();
    let (seen, _) = case.inspected().await;
    assert_eq!(seen.opens_at, Some(a.acquired_at.plus(SPAN)));
    case.pass(SPAN + MARGIN);
    case.sweep().await;
    case.turn_of("b");
}

#[tokio::test]
async fn permits_that_wait_keep_the_pace() {
    let case = QueueCase::new("pace/permits wait");
    for who in ["h0", "h1"] {
        assert_eq!(case.asks_for(Some(2), who).await, Queued::Acquired);
        let lease = case.turn_of(who).lease;
        case.release(&lease).await;
    }
    for who in ["a", "b", "c"] {
        case.is_queued(Some(2), who).await;
    }
    case.sweep().await;
    case.expect_no_answers();
    case.pass(SPAN + MARGIN);
    case.sweep().await;
    let told: Vec<_> = case.answers().into_iter().map(|(who, _)| who).collect();
    assert_eq!(told, ["a", "b"]);
    case.has_waiting(&["c"]).await;
}

#[tokio::test]
async fn several_keys_stay_closed_together() {
    let case = Case::new("pace/several");
    let keys = || make::keys(vec![case.address.key.clone(), make::key("pace/another")]);
    let set = |who: &str| AcquireAll::new(keys(), make::holder(who), make::ttl(TTL));
    let all = case.leases.acquire_all(set("a").at_least(span())).await;
    match all.expect("an answer") {
        AcquiredAll::Granted(granted) => {
            for lease in &granted.leases {
                case.give_back(lease).await;
            }
        }
        AcquiredAll::Held(held) => panic!("{held:?}"),
    }
    let meets = case.leases.acquire_all(set("b")).await;
    let Ok(AcquiredAll::Held(held)) = meets else {
        panic!("{meets:?}");
    };
    assert!(matches!(held.held.until, HeldUntil::Closed { .. }));
    case.contention("c").await;
}

#[tokio::test]
async fn untold_grant_closes_nothing() {
    let (case, lease) = QueueCase::held("pace/untold", &[]).await;
    case.is_queued(None, "a").await;
    case.is_queued(None, "b").await;
    case.calls.expire_token(&case.token("a"));
    case.release(&lease).await;
    case.turn_of("b");
}

#[tokio::test]
async fn an_operator_opens_it() {
    let case = Case::new("pace/forced");
    grant(&case.leases, case.paced("a")).await;
    case.evict(None).await;
    case.lease("b").await;
    // Also one that nobody holds, by a new floor.
    let case = Case::new("pace/raised");
    case.ran("a").await;
    case.pass(TTL);
    let key = &case.address.key;
    let raised = case.leases.raise_floor(key, None, &make::because()).await;
    let _ = raised.expect("raised");
    case.lease("b").await;
}

#[tokio::test]
async fn an_unreadable_time_keeps_it_closed() {
    let case = Case::new("pace/by hand");
    let lease = case.lease("a").await;
    case.give_back(&lease).await;
    case.tamper(|item| drop(item.insert("opens_at".into(), crate::s("soon"))))
        .await;
    case.contention("b").await;
}
