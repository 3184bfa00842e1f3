//! Tests on virtual time.

use tokio::time::timeout;

use super::*;
use crate::{
    ExtendOptions, GrantKind, Lease, LeaseStatus, Memory, Settings,
    clock::paused::Paused,
    test_support::{self, make},
};

use crate::store::wire::{Fate, ROUND_TRIP, Wire};

fn leases_in<S: Store>(store: S) -> Leases<S> {
    Leases::new(store, Settings::default()).with_clock(Paused::new())
}

fn leases() -> Leases<Memory> {
    leases_in(Memory::new())
}

const TTL: Duration = Duration::from_secs(9);

fn request(holder: &str) -> Acquire {
    asking(holder, TTL)
}

fn asking(holder: &str, ttl: Duration) -> Acquire {
    make::request(make::key("k"), holder, ttl)
}

fn named(holder: &str) -> Acquire {
    request(holder).request_id(make::request_id("the one"))
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn grant<S: Store>(leases: &Leases<S>, request: Acquire) -> Lease {
    test_support::grant(leases, request).await.lease
}

fn granted(waited: Result<AcquireOutcome, Error>) -> Granted {
    match waited {
        Ok(AcquireOutcome::Granted(granted)) => granted,
        other => panic!("{other:?}"),
    }
}

fn last_holder(waited: Result<AcquireOutcome, Error>) -> String {
    match waited {
        Ok(AcquireOutcome::TimedOut(last)) => last.held.holder.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn contenders_keep_their_budgets() {
    let leases = leases();
    let contenders: Vec<_> = (1..=32_u64)
        .map(|n| {
            let leases = leases.clone();
            tokio::spawn(async move {
                let budget = Duration::from_secs(n);
                let start = leases.now();
                let waited = leases
                    .acquire_within(request(&format!("h{n}")), RetryPolicy::with_budget(budget))
                    .await
                    .expect("an answer");
                let took = leases.now().since(start);
                assert!(took <= budget, "{took:?} of {budget:?}");
                match waited {
                    AcquireOutcome::Granted(granted) => {
                        leases.sleep(Duration::from_millis(1500)).await;
                        let _ = leases.release(&granted.lease).await.expect("released");
                        true
                    }
                    AcquireOutcome::TimedOut(last) => {
                        assert_eq!(took, budget, "not a moment before it ran out");
                        assert_ne!(last.held.holder.as_str(), format!("h{n}"));
                        false
                    }
                }
            })
        })
        .collect();
    let mut granted = 0;
    for contender in contenders {
        granted += u32::from(contender.await.expect("no panic"));
    }
    assert!(
        (2..32).contains(&granted),
        "{granted} were granted: some, and not all"
    );
}

#[tokio::test(start_paused = true)]
async fn last_attempt_comes_at_budgets_end() {
    for (budget, in_time) in [(11_000, true), (10_999, false), (0, false)] {
        let leases = leases();
        let start = leases.now();
        let dead = grant(&leases, request("dead")).await;
        assert_eq!(dead.expires_at().plus(seconds(2)), start.plus(seconds(11)));
        let patience = RetryPolicy::with_budget(Duration::from_millis(budget));
        let waited = leases.acquire_within(request("b"), patience).await;
        assert_eq!(leases.now(), start.plus(Duration::from_millis(budget)));
        assert_eq!(matches!(waited, Ok(AcquireOutcome::Granted(_))), in_time);
    }
}

/// Limits double from the period up to the longest, and each pause is anything up to its limit.
#[tokio::test(start_paused = true)]
async fn pauses_jitter_under_doubling_limit() {
    const RUNS: usize = 200;
    let patience = RetryPolicy {
        budget: seconds(60),
        initial_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_millis(700),
    };
    let limits = [100_u32, 200, 400, 700, 700, 700].map(f64::from);
    let (mut least, mut most) = ([f64::MAX; 6], [0_f64; 6]);
    for _ in 0..RUNS {
        let clock = Paused::new();
        let store = Wire::default();
        let leases = Leases::new(store.clone(), Settings::default()).with_clock(clock.clone());
        grant(&leases, asking("a", seconds(600))).await;
        let waited = leases.acquire_within(request("b"), patience).await;
        assert_eq!(last_holder(waited), "a");
        let mut pauses = clock.pauses.lock().expect("no panic").clone();
        assert_eq!(store.requests() as usize, 1 + pauses.len() + 1);
        // The last pause ends with the budget.
        pauses.pop();
        for (n, pause) in pauses.iter().enumerate() {
            let n = n.min(limits.len() - 1);
            let part = pause.as_secs_f64() * 1000.0 / limits[n];
            assert!(part <= 1.0, "pause {n} was {pause:?}");
            (least[n], most[n]) = (least[n].min(part), most[n].max(part));
        }
    }
    // By chance this fails once in 10^10 runs.
    for n in 0..limits.len() {
        assert!(least[n] < 0.125 && most[n] > 0.875, "{least:?} {most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_crashed_is_not_slept_through() {
    for _ in 0..5 {
        let (leases, patience) = (leases(), RetryPolicy::with_budget(seconds(300)));
        let crashed = grant(&leases, request("crashed")).await;
        granted(leases.acquire_within(request("next"), patience).await);
        let free = crashed.expires_at().plus(Settings::default().clock_margin);
        assert!(leases.now().since(free) <= Duration::from_millis(102));
    }
}

/// No limit makes it ask without a pause, or overflow.
#[tokio::test(start_paused = true)]
async fn extreme_backoff_limits_are_clamped() {
    for limit in [Duration::ZERO, Duration::MAX] {
        let store = Wire::default();
        let leases = leases_in(store.clone());
        grant(&leases, asking("a", seconds(600))).await;
        let patience = RetryPolicy {
            budget: seconds(10),
            initial_backoff: limit,
            max_backoff: limit,
        };
        let waited = leases.acquire_within(request("b"), patience).await;
        assert_eq!(last_holder(waited), "a");
        // One round trip and on average half of the limit: about 667.
        assert!(store.requests() < 800, "{}", store.requests());
    }
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_names_last_holder() {
    let leases = leases();
    let first = grant(&leases, request("first")).await;
    let waiting = tokio::spawn({
        let leases = leases.clone();
        async move {
            let patience = RetryPolicy::with_budget(seconds(8));
            leases.acquire_within(request("b"), patience).await
        }
    });
    leases.sleep(seconds(4)).await;
    // In one step, while the waiting call sleeps.
    let _ = leases.release(&first).await.expect("released");
    grant(&leases, request("second")).await;
    assert_eq!(last_holder(waiting.await.expect("no panic")), "second");
}

#[tokio::test(start_paused = true)]
async fn lost_grant_found_without_request_id() {
    let store = Wire::default();
    let leases = leases_in(store.clone());
    store.script([Fate::Throttled, Fate::AnswerLost, Fate::AnswerLost]);
    let found = leases.acquire_within(request("a"), RetryPolicy::with_budget(seconds(30)));
    let found = granted(found.await);
    assert_eq!(found.grant, GrantKind::Replayed);
    assert_eq!((store.requests(), store.grants()), (4, 1));
    assert_eq!(store.row().await.fencing_token, found.lease.fencing_token);
}

#[tokio::test(start_paused = true)]
async fn last_attempts_outage_is_reported() {
    let store = Wire::default();
    let leases = leases_in(store.clone());
    grant(&leases, asking("a", seconds(600))).await;
    let patience = RetryPolicy::with_budget(seconds(20));
    store.script([Fate::RequestLost, Fate::Throttled]);
    let waited = leases.acquire_within(request("b"), patience).await;
    assert_eq!(last_holder(waited), "a");
    for (fate, name) in [
        (Fate::Throttled, "Lease.Throttled"),
        (Fate::RequestLost, "Lease.Unavailable"),
    ] {
        store.always(fate);
        let start = leases.now();
        let error = leases.acquire_within(request("b"), patience).await;
        assert_eq!(error.expect_err("an outage").name(), name);
        let took = leases.now().since(start);
        let longest = patience.budget + crate::Connection::OPERATION;
        assert!(took >= patience.budget && took <= longest, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn consumed_request_fails_at_once() {
    let leases = leases();
    let lease = grant(&leases, named("a")).await;
    let _ = leases.release(&lease).await.expect("released");
    let start = leases.now();
    let waited = leases.acquire_within(named("a"), RetryPolicy::with_budget(seconds(60)));
    assert!(matches!(waited.await, Err(Error::Consumed { .. })));
    assert_eq!(leases.now(), start);
}

#[tokio::test(start_paused = true)]
async fn drop_in_pause_grants_once() {
    let store = Wire::default();
    let leases = leases_in(store.clone());
    let first = grant(&leases, request("first")).await;
    let patience = RetryPolicy::with_budget(seconds(600));
    for _ in 0..3 {
        let waiting = leases.acquire_within(named("b"), patience);
        timeout(seconds(1), waiting).await.expect_err("dropped");
    }
    let asked = store.requests();
    leases.sleep(seconds(60)).await;
    assert_eq!(store.requests(), asked, "nothing went on");
    let _ = leases.release(&first).await.expect("released");
    let new = granted(leases.acquire_within(named("b"), patience).await);
    let again = granted(leases.acquire_within(named("b"), patience).await);
    assert_eq!(new.grant, GrantKind::New);
    assert_eq!(again.grant, GrantKind::Replayed);
    assert_eq!(new.lease, again.lease);
    assert_eq!(store.grants(), 2, "the first one's and this one");
    let next = first.fencing_token.plus(1);
    assert_eq!(new.lease.fencing_token, next);
}

/// The grant was made or it was not; a repeated call returns the existing one.
#[tokio::test(start_paused = true)]
async fn drop_in_flight_grants_once() {
    for (fate, grant) in [
        (Fate::AnswerLost, GrantKind::Replayed),
        (Fate::RequestLost, GrantKind::New),
    ] {
        let store = Wire::default();
        let leases = leases_in(store.clone());
        let patience = RetryPolicy::with_budget(seconds(600));
        store.script([fate]);
        let waiting = leases.acquire_within(named("b"), patience);
        timeout(ROUND_TRIP * 2, waiting).await.expect_err("dropped");
        assert_eq!(store.requests(), 1, "it was in flight");
        let made = store.grants();
        let found = granted(leases.acquire_within(named("b"), patience).await);
        assert_eq!(found.grant, grant);
        let again = granted(leases.acquire_within(named("b"), patience).await);
        assert_eq!(again.lease, found.lease);
        assert_eq!(store.grants(), 1);
        assert_eq!(made, u32::from(grant == GrantKind::Replayed));
    }
}

#[tokio::test(start_paused = true)]
async fn grant_dropped_in_flight_expires() {
    let store = Wire::default();
    let leases = leases_in(store.clone());
    let start = leases.now();
    store.script([Fate::AnswerLost]);
    let waiting = leases.acquire_within(named("b"), RetryPolicy::with_budget(seconds(600)));
    timeout(ROUND_TRIP * 2, waiting).await.expect_err("dropped");
    let free = start.plus(TTL).plus(leases.settings().clock_margin);
    leases.sleep(free.since(leases.now()) / 2).await;
    assert_eq!(
        (store.requests(), store.grants()),
        (1, 1),
        "nothing went on"
    );
    let just_before = free.minus(Duration::from_millis(1));
    leases.sleep(just_before.since(leases.now())).await;
    let held = leases.acquire_within(request("c"), RetryPolicy::with_budget(Duration::ZERO));
    assert_eq!(last_holder(held.await), "b");
    leases.sleep(free.since(leases.now())).await;
    let next = leases.acquire(request("c")).await.expect("an answer");
    let previous = next.granted().expect("a grant").previous.expect("a grant");
    assert_eq!(previous.holder.as_str(), "b");
    assert_eq!(store.grants(), 2);
}

/// Otherwise the last response, perhaps a grant, would arrive too late.
#[tokio::test(start_paused = true)]
async fn last_attempt_can_be_answered() {
    let leases = leases_in(Wire::default());
    let start = leases.now();
    let dead = grant(&leases, request("dead")).await;
    let patience = RetryPolicy::with_budget(seconds(60));
    let short = leases.for_call(start.plus(seconds(4)));
    let waited = short.acquire_within(request("b"), patience).await;
    assert_eq!(last_holder(waited), "dead");
    let ended = start.plus(seconds(4)).minus(crate::Connection::OPERATION);
    let last = ended.plus(ROUND_TRIP);
    assert!((ended..=last).contains(&leases.now()), "{:?}", leases.now());
    let found = granted(leases.acquire_within(request("b"), patience).await);
    assert!(found.lease.acquired_at >= dead.expires_at().plus(seconds(2)));
}

#[tokio::test(start_paused = true)]
async fn extend_is_due_in_danger() {
    let leases = leases();
    let lease = grant(&leases, request("a")).await;
    let just_before = lease.extend_due().minus(Duration::from_millis(1));
    leases.sleep(just_before.since(leases.now())).await;
    assert_eq!(leases.status(&lease), LeaseStatus::Safe);
    leases.sleep(Duration::from_millis(1)).await;
    assert_eq!(leases.status(&lease), LeaseStatus::Danger);
    assert_eq!(
        lease.remaining(leases.now()),
        lease.ttl().expect("a ttl lease").as_duration() / 3
    );
    leases.sleep(lease.remaining(leases.now())).await;
    assert_eq!(leases.status(&lease), LeaseStatus::Stop);
    let extended = leases
        .extend(&lease, ExtendOptions::default())
        .await
        .expect("extended");
    assert_eq!(leases.status(&extended.into_lease()), LeaseStatus::Safe);
}
