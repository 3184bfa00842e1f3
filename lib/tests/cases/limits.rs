//! Stored limits: how many may hold a key at once, whatever callers ask for.

use std::time::Duration;

use super::queue::{QueueCase, WAIT};
use super::{Case, MS, TTL, contention, grant, make};
use leasehold::{
    AcquireAll, AcquiredAll, Act, Execution, Lease, LimitOutcome, LimitedTo, Queued, Wait, row::Row,
};

impl Case {
    async fn limit(&self, permits: Option<u16>) -> LimitOutcome {
        let permits = permits.map(|n| LimitedTo::new(n).expect("valid"));
        let key = &self.address.key;
        let limited = self.leases.limit_to(key, permits, &make::because()).await;
        limited.expect("an answer")
    }

    async fn limited(&self, permits: u16) {
        let outcome = LimitOutcome::Limited { permits };
        assert_eq!(self.limit(Some(permits)).await, outcome);
    }

    async fn has_one_of(&self, permits: u16, who: &str) -> Lease {
        let request = self.request(who, &format!("by {who}"));
        let request = request.permits(make::permits(permits));
        grant(&self.leases, request).await.lease
    }

    /// What is held while somebody asks in vain for one of so many.
    async fn in_vain(&self, permits: u16, who: &str) -> u16 {
        let request = self.request(who, &format!("by {who}"));
        let request = request.permits(make::permits(permits));
        contention(&self.leases, request).await.held.permit
    }
}

impl QueueCase {
    async fn asks(&self, permits: Option<u16>, who: &str) -> Queued {
        self.is(who, Execution::Running);
        let mut request = self.request(who);
        request.permits = permits.map(make::permits);
        let queue: Wait = self.queue(who, WAIT);
        let asked = self.leases.acquire_queued(request, queue).await;
        asked.expect("an answer")
    }

    async fn queues(&self, permits: Option<u16>, who: &str) {
        let answer = self.asks(permits, who).await;
        assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
        self.expect_no_answers();
    }

    fn told(&self) -> Vec<String> {
        self.answers().into_iter().map(|(who, _)| who).collect()
    }
}

#[tokio::test]
async fn limit_overrides_callers_number() {
    let case = Case::new("limits/overrides");
    let first = case.has_one_of(3, "a").await;
    case.limited(2).await;
    case.signed(Act::Limit).await;
    let second = case.has_one_of(3, "b").await;
    case.in_vain(3, "c").await;
    // A higher one as well, also for whoever sends 1 and leaves the number to the limit.
    case.limited(4).await;
    let more = [case.has_one_of(3, "c").await, case.has_one_of(1, "d").await];
    case.in_vain(3, "e").await;
    let (seen, _) = case.inspected().await;
    let limit = seen.limit.expect("a limit");
    let record = limit.by.as_ref().expect("a record");
    assert_eq!(
        (limit.permits, record.act, &record.who, &record.why),
        (4, Act::Limit, &make::because().who, &make::because().why)
    );
    assert_eq!(case.limit(None).await, LimitOutcome::Unlimited);
    assert_eq!(case.limit(None).await, LimitOutcome::NotLimited);
    assert!(case.inspected().await.0.limit.is_none());
    case.in_vain(3, "e").await;
    for lease in [first, second].iter().chain(&more) {
        case.give_back(lease).await;
    }
    // A mutex stays one.
    case.limited(5).await;
    let lease = case.lease("alone").await;
    case.contention("b").await;
    case.give_back(&lease).await;
}

#[tokio::test]
async fn a_limit_outlasts_grants_and_purges() {
    let case = Case::new("limits/outlasts");
    let lease = case.has_one_of(3, "a").await;
    case.limited(1).await;
    assert_eq!(case.row().await.purge_at, None, "it is held");
    case.give_back(&lease).await;
    for n in 0..3 {
        assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
        let lease = case.has_one_of(3, &format!("b{n}")).await;
        assert_eq!(case.row().await.purge_at, None);
        case.in_vain(3, "c").await;
        if n == 1 {
            case.expire();
            case.swept().await;
        } else {
            case.give_back(&lease).await;
        }
    }
    assert_eq!(case.limit(None).await, LimitOutcome::Unlimited);
    let row = case.row().await;
    assert!(row.purge_at.is_some_and(|at| at < Row::NEVER));
    let lease = case.has_one_of(3, "d").await;
    case.give_back(&lease).await;
    let row = case.row().await;
    assert!(row.purge_at.is_some_and(|at| at < Row::NEVER));
}

#[tokio::test]
async fn never_leased_key_can_be_limited() {
    let case = Case::new("limits/ahead");
    assert_eq!(case.limit(None).await, LimitOutcome::NotLimited);
    case.limited(1).await;
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
    case.has_one_of(3, "a").await;
    case.in_vain(3, "b").await;
}

#[tokio::test]
async fn limit_of_none_keeps_places() {
    let (case, lease) = QueueCase::held("limits/none", &["a"]).await;
    case.limited(0).await;
    // The holder goes on.
    let lease = case.prove(&lease).await;
    case.release(&lease).await;
    case.sweep().await;
    case.expect_no_answers();
    case.join("b").await;
    case.has_waiting(&["a", "b"]).await;
    assert!(!case.hand_over().await);
    let meets = case.contention("c").await;
    assert_eq!(meets.held.waiting, 2);
    // Asked for again, it keeps its place, by its new token.
    let again = case.ask("a", "a again").await;
    assert!(matches!(again, Ok(Queued::Queued { .. })), "{again:?}");
    assert_eq!(case.limit(None).await, LimitOutcome::Unlimited);
    let a = case.turn_of("a again").lease;
    case.limited(0).await;
    case.release(&a).await;
    case.limited(1).await;
    let b = case.turn_of("b").lease;
    case.limited(0).await;
    case.release(&b).await;
    // Where nobody waits: who does not wait is refused, and others may join.
    let error = case.case.ask("c", "1").await.expect_err("nobody gets it");
    assert_eq!(error.name(), "Lease.Frozen");
    let text = error.to_string();
    let why = "is limited to 0 by an operator: partner is down (night shift";
    assert!(text.contains(why), "{text}");
    let keys = make::keys(vec![case.address.key.clone(), make::key("limits/none 2")]);
    let set = AcquireAll::new(keys, make::holder("c"), make::ttl(TTL));
    match case.leases.acquire_all(set).await {
        Err(error) => assert_eq!(error.name(), "Lease.Frozen"),
        Ok(AcquiredAll::Held(held)) => panic!("{held:?}"),
        Ok(AcquiredAll::Granted(granted)) => panic!("{granted:?}"),
    }
    case.join("d").await;
    case.sweep().await;
    case.expect_no_answers();
    case.has_waiting(&["d"]).await;
    assert_eq!(case.limit(None).await, LimitOutcome::Unlimited);
    case.turn_of("d");
}

#[tokio::test]
async fn limit_of_none_makes_permits_wait() {
    let case = QueueCase::new("limits/no permits");
    let held = case.case.has_one_of(2, "holder").await;
    case.limited(0).await;
    case.queues(Some(2), "a").await;
    case.queues(Some(2), "b").await;
    case.sweep().await;
    case.case.give_back(&held).await;
    case.sweep().await;
    case.expect_no_answers();
    case.has_waiting(&["a", "b"]).await;
    assert_eq!(case.limit(None).await, LimitOutcome::Unlimited);
    assert_eq!(case.told(), ["a", "b"]);
    // Who does not wait: as of a mutex.
    let case = Case::new("limits/no permit");
    let held = case.has_one_of(2, "holder").await;
    case.limited(0).await;
    assert_eq!(case.in_vain(2, "a").await, held.permit);
    case.give_back(&held).await;
    let request = case.request("a", "1").permits(make::permits(2));
    refused!(case.leases.acquire(request).await, Frozen);
}

#[tokio::test]
async fn a_higher_limit_serves_who_waits() {
    let case = QueueCase::new("limits/raised");
    case.limited(1).await;
    assert_eq!(case.asks(Some(3), "h").await, Queued::Acquired);
    case.turn_of("h");
    for who in ["a", "b", "c"] {
        case.queues(Some(3), who).await;
    }
    case.limited(3).await;
    assert_eq!(case.told(), ["a", "b"]);
    case.has_waiting(&["c"]).await;
    // More than they ask for.
    case.limited(4).await;
    assert_eq!(case.told(), ["c"]);
}

#[tokio::test]
async fn lower_limit_applies_as_permits_return() {
    let case = QueueCase::new("limits/lowered");
    let mut held = Vec::new();
    for who in ["h0", "h1", "h2"] {
        assert_eq!(case.asks(Some(3), who).await, Queued::Acquired);
        held.push(case.turn_of(who).lease);
    }
    case.queues(Some(3), "a").await;
    case.limited(1).await;
    held.sort_by_key(|lease| lease.permit);
    for (n, lease) in held.iter().rev().enumerate() {
        case.expect_no_answers();
        case.pass(MS);
        case.release(lease).await;
        case.sweep().await;
        assert_eq!(case.told().len(), usize::from(n == 2));
    }
}

#[tokio::test]
async fn an_unreadable_limit_is_none() {
    let case = Case::new("limits/by hand");
    let lease = case.lease("a").await;
    case.give_back(&lease).await;
    case.tamper(|item| drop(item.insert("limit".into(), crate::s("two"))))
        .await;
    refused!(case.ask("b", "1").await, Frozen);
    case.limited(2).await;
    case.lease("b").await;
}

#[tokio::test]
async fn operators_acts_leave_a_limit() {
    let case = Case::new("limits/other acts");
    case.has_one_of(2, "a").await;
    case.limited(1).await;
    let limit = async || {
        let limit = case.row().await.limit.clone();
        limit.map(|limit| limit.permits)
    };
    case.evict(Some(0)).await;
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
    assert_eq!(limit().await, Some(1));
    case.freeze_by_operator().await;
    case.unfreeze_by_operator().await;
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
    assert_eq!(limit().await, Some(1));
    let key = &case.address.key;
    case.pass(Duration::from_hours(1));
    let raised = case.leases.raise_floor(key, None, &make::because()).await;
    let _ = raised.expect("raised");
    assert_eq!(limit().await, Some(1));
    assert_eq!(case.row().await.purge_at, Some(Row::NEVER));
    // It is in the first row only.
    case.limited(2).await;
    case.has_one_of(2, "b").await;
    case.has_one_of(2, "c").await;
    assert!(case.row_of(1).await.limit.is_none());
}
