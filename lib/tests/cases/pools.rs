//! Pools: a permit of a semaphore that many keys share, besides the key.

use std::time::Duration;

use super::queue::{QueueCase, Turn, WAIT};
use super::starts::{MACHINE, execution};
use super::{Lost, MARGIN, MS, STALE, counted, invalid, make, with};
use leasehold::{
    Acquire, Error, Execution, ExecutionName, ExtendOptions, ForceReleaseOptions,
    ForceReleaseOutcome, IfHeld, Key, LimitedTo, Pool, Queued, Reaped, Redrives, ReleaseOutcome,
    Settings, Stands, Start, StartRules, StartStatus, Started, StateMachineArn, WaitTime,
    metrics::Metric,
    row::{Entries, Row},
    store::{Address, Operations as _},
};

/// Some tenants and their pool.
struct PoolCase {
    case: QueueCase,
    /// How many may have a permit.
    size: u16,
    /// How many of a tenant.
    each: Option<u16>,
}

impl PoolCase {
    fn new(name: &str, size: u16) -> Self {
        let mut case = QueueCase::with(&format!("pools/{name}"), Settings::default());
        let rules = StartRules::of(&format!("pools/*={MACHINE}")).expect("valid");
        case.case.leases = case.case.leases.clone().with_starts(rules);
        let each = None;
        Self { case, size, each }
    }

    fn key(&self, tenant: &str) -> Key {
        make::key(format!("{}/{tenant}", self.case.address.key))
    }

    fn pool(&self) -> Pool {
        Pool::new(&self.case.address.key, make::permits(self.size))
    }

    /// "a1" is the first of the tenant "a".
    fn start_of(&self, name: &str) -> Start {
        let machine = StateMachineArn::new(MACHINE).expect("valid");
        let name_of = ExecutionName::new(self.name(name)).expect("valid");
        with(
            Start::new(self.key(&name[..1]), machine, name_of),
            |start| {
                start.if_held = IfHeld::Wait(WaitTime::new(WAIT).expect("valid"));
                start.permits = self.each.map(make::permits);
                start.pool = Some(self.pool());
            },
        )
    }

    /// Names of executions are shared by all cases.
    fn name(&self, name: &str) -> String {
        let case = self.case.address.key.as_str().replace(['/', ' '], "-");
        format!("{case}-{name}")
    }

    async fn start(&self, name: &str) -> Started {
        let started = self.case.leases.start(self.start_of(name)).await;
        started.expect("an answer")
    }

    async fn starts(&self, name: &str) {
        let answer = self.start(name).await;
        assert!(matches!(answer, Started::Started { .. }), "{answer:?}");
    }

    async fn queues(&self, name: &str) {
        let answer = self.start(name).await;
        assert!(matches!(answer, Started::Queued { .. }), "{answer:?}");
    }

    #[track_caller]
    fn has_started(&self, names: &[&str]) {
        let all = self.case.calls.started();
        let mut wanted: Vec<_> = names
            .iter()
            .map(|name| execution(&self.name(name)).to_string())
            .collect();
        wanted.sort();
        assert_eq!(all.into_keys().collect::<Vec<_>>(), wanted);
    }

    async fn ends(&self, name: &str) {
        self.over(execution(&self.name(name)).as_str()).await;
    }

    async fn over(&self, arn: &str) {
        let over = Execution::Ended {
            stopped_at: self.case.now(),
            redrivable: false,
            all_answered: true,
        };
        self.case.calls.set_execution(arn, over);
        self.case.pass(MS);
        let reaped = self.case.leases.reap(&make::holder(arn)).await;
        reaped.expect("an answer");
    }

    async fn ask(&self, who: &str) -> Queued {
        self.case.is(who, Execution::Running);
        let request = make::of_execution(self.key(&who[..1]), who)
            .request_id(make::request_id(who))
            .pool(self.pool());
        let wait = self.case.queue(who, WAIT);
        let answer = self.case.leases.acquire_queued(request, wait).await;
        answer.expect("an answer")
    }

    async fn acquires(&self, who: &str) -> Turn {
        assert_eq!(self.ask(who).await, Queued::Acquired);
        self.case.turn_of(who)
    }

    async fn waits(&self, who: &str) {
        let answer = self.ask(who).await;
        assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
        self.case.expect_no_answers();
    }

    async fn row(&self, key: &Key, permit: u16) -> Option<Row> {
        let key = key.clone();
        let at = Address { key, permit };
        let limit = Duration::from_secs(1);
        let stored = self.case.leases.store().read_row(&at, limit).await;
        match stored.expect("an answer") {
            leasehold::row::Stored::Row(row) => Some(row),
            _ => None,
        }
    }

    /// Who is in the pool.
    async fn entries(&self) -> Entries {
        let row = self.row(&self.pool().key, 0).await;
        let entries = row.and_then(|row| row.entries);
        entries.map(|entries| *entries).unwrap_or_default()
    }

    /// Nobody has these tenants' keys, nor the pool, nor waits for one of them.
    async fn all_is_free(&self, tenants: &[&str]) {
        let keys = tenants.iter().map(|tenant| self.key(tenant));
        for key in keys {
            for permit in 0..self.size {
                if let Some(row) = self.row(&key, permit).await {
                    assert!(row.holding().is_none(), "{key}: {row:?}");
                    assert_eq!(row.waiting(), [], "{key}");
                }
            }
        }
        assert_eq!(self.entries().await, Entries::default());
    }

    async fn status(&self, name: &str) -> Option<StartStatus> {
        let execution = execution(&self.name(name));
        let request = leasehold::RequestDigest::of_start(&execution);
        let (key, limit) = (self.key(&name[..1]), Duration::from_secs(1));
        let item = self.case.leases.store().start_item(&key, &request, limit);
        item.await.expect("an answer").map(|item| item.status)
    }
}

#[tokio::test]
async fn a_pool_is_a_round_robin() {
    let case = PoolCase::new("round robin", 1);
    case.starts("a1").await;
    for name in ["a2", "a3", "a4", "b1", "b2", "c1"] {
        case.queues(name).await;
    }
    let order = ["a1", "b1", "c1", "a2", "b2", "a3", "a4"];
    for n in 0..order.len() {
        case.has_started(&order[..=n]);
        case.ends(order[n]).await;
    }
    case.all_is_free(&["a", "b", "c"]).await;
}

/// More permits and tenants than the model has.
#[tokio::test]
async fn forty_tenants_share_ten_permits() {
    let case = PoolCase::new("large", 10);
    let tenants: Vec<_> = ('A'..='Z').chain('a'..='n').map(String::from).collect();
    let all = [1, 2].map(|n| tenants.iter().map(move |tenant| format!("{tenant}{n}")));
    let all: Vec<_> = all.into_iter().flatten().collect();
    let order: Vec<_> = all.iter().map(String::as_str).collect();
    let (at_once, later) = order.split_at(10);
    for name in at_once {
        case.starts(name).await;
    }
    for name in later {
        case.queues(name).await;
    }
    for n in 0..order.len() {
        case.has_started(&order[..order.len().min(n + 10)]);
        case.ends(order[n]).await;
    }
    let tenants: Vec<_> = tenants.iter().map(String::as_str).collect();
    case.all_is_free(&tenants).await;
}

#[tokio::test]
async fn a_handle_is_for_both() {
    let case = PoolCase::new("handle", 1);
    let turn = case.acquires("a1").await;
    let name = case.case.address.key.as_str();
    let pool = turn.output["lease"]["pool"].clone();
    assert_eq!(pool, serde_json::json!({"name": name}));
    case.waits("b1").await;
    let lease = case.case.prove(&turn.lease).await;
    case.case.release(&lease).await;
    let next = case.case.turn_of("b1");
    // Once more, as after a lost response: it ends nothing of the next one.
    case.case.release(&lease).await;
    let kept = case.case.prove(&next.lease).await;
    // An operator who names the pool ends the lease, which is one.
    let (pool, because) = (case.pool().key, make::because());
    let options = ForceReleaseOptions::default();
    let forced = case.case.leases.force_release(&pool, options, &because);
    forced.await.expect("forced");
    let lost = case.case.leases.extend(&kept, ExtendOptions::default());
    assert!(matches!(lost.await, Err(Error::Lost { .. })));
    case.case.release(&kept).await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn tokens_and_starts_share_a_pool() {
    let case = PoolCase::new("shared", 2);
    let first = case.acquires("a1").await;
    case.starts("b1").await;
    case.queues("c1").await;
    case.waits("d1").await;
    // Asked for again, each keeps its place.
    case.queues("c1").await;
    case.waits("d1").await;
    case.case.release(&first.lease).await;
    case.has_started(&["b1", "c1"]);
    case.ends("b1").await;
    let last = case.case.turn_of("d1");
    assert!(last.lease.pool.is_some());
    case.ends("c1").await;
    case.case.release(&last.lease).await;
    case.all_is_free(&["a", "b", "c", "d"]).await;
}

#[tokio::test]
async fn keys_keep_their_own_number() {
    let case = PoolCase {
        each: Some(2),
        ..PoolCase::new("two of each", 3)
    };
    for name in ["a1", "a2"] {
        case.starts(name).await;
    }
    case.queues("a3").await;
    case.starts("b1").await;
    case.queues("b2").await;
    case.ends("a1").await;
    // The one of "b" entered first.
    case.has_started(&["a1", "a2", "b1", "b2"]);
    case.ends("b1").await;
    case.has_started(&["a1", "a2", "a3", "b1", "b2"]);
    for name in ["a2", "a3", "b2"] {
        case.ends(name).await;
    }
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn wait_in_pool_has_an_end() {
    let case = PoolCase::new("too late", 1);
    case.starts("a1").await;
    case.queues("b1").await;
    case.waits("c1").await;
    case.queues("b2").await;
    let arn = execution(&case.name("a1"));
    case.case
        .calls
        .set_execution(arn.as_str(), Execution::Running);
    case.case.pass(WAIT + MS);
    case.case.sweep().await;
    case.case.sweep().await;
    for name in ["b1", "b2"] {
        let status = case.status(name).await;
        assert!(matches!(status, Some(StartStatus::Failed(_))), "{status:?}");
    }
    let answers = case.case.answers();
    assert!(
        matches!(&answers[..], [(who, Err((name, _)))] if who == "c1" && name == "Lease.QueueTimeout"),
        "{answers:?}"
    );
    case.ends("a1").await;
    case.all_is_free(&["a", "b", "c"]).await;
    case.starts("c2").await;
    case.ends("c2").await;
}

#[tokio::test]
async fn dead_token_takes_no_permit() {
    let case = PoolCase::new("dead", 1);
    let first = case.acquires("a1").await;
    case.waits("b1").await;
    case.waits("b2").await;
    case.waits("c1").await;
    case.case.calls.expire_token(&case.case.token("b1"));
    case.case.release(&first.lease).await;
    // The next of "b" enters the pool after those who wait there.
    let next = case.case.turn_of("c1");
    case.case.release(&next.lease).await;
    let last = case.case.turn_of("b2");
    case.case.release(&last.lease).await;
    case.case.sweep().await;
    case.all_is_free(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn lost_notification_keeps_the_permit() {
    let case = PoolCase::new("lost", 1);
    let first = case.acquires("a1").await;
    case.waits("b1").await;
    case.waits("c1").await;
    let token = case.case.token("b1");
    case.case.calls.lose(&token, Lost::Request, 2);
    case.case.release(&first.lease).await;
    case.case.expect_no_answers();
    case.case.pass(Duration::from_mins(1));
    case.case.sweep().await;
    let next = case.case.turn_of("b1");
    case.case.release(&next.lease).await;
    let last = case.case.turn_of("c1");
    case.case.release(&last.lease).await;
    case.all_is_free(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn ended_execution_leaves_the_pool() {
    let case = PoolCase::new("ended", 1);
    let first = case.acquires("a1").await;
    for who in ["b1", "b2", "c1"] {
        case.waits(who).await;
    }
    case.over(make::execution("b1").as_str()).await;
    // The next of "b" has its place instead.
    assert_eq!(case.entries().await.waiting.len(), 2);
    case.case.release(&first.lease).await;
    let next = case.case.turn_of("c1");
    case.case.release(&next.lease).await;
    let last = case.case.turn_of("b2");
    case.case.release(&last.lease).await;
    case.case.sweep().await;
    case.all_is_free(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn force_release_leaves_the_pool() {
    let case = PoolCase::new("forced", 1);
    case.acquires("a1").await;
    case.waits("b1").await;
    case.waits("c1").await;
    for tenant in ["b", "a"] {
        let key = case.key(tenant);
        let options = ForceReleaseOptions::default();
        let because = make::because();
        let forced = case.case.leases.force_release(&key, options, &because);
        forced.await.expect("forced");
    }
    let next = case.case.turn_of("c1");
    case.case.release(&next.lease).await;
    case.case.sweep().await;
    let answers = case.case.answers();
    assert!(
        matches!(&answers[..], [(who, Err(_))] if who == "b1"),
        "{answers:?}"
    );
    case.all_is_free(&["a", "b", "c"]).await;
}

#[tokio::test]
async fn an_operator_sets_its_size() {
    let case = PoolCase::new("limited", 1);
    let (pool, because) = (case.pool().key, make::because());
    let limit = async |permits: u16| {
        let permits = LimitedTo::new(permits).expect("valid");
        let limited = case.case.leases.limit_to(&pool, Some(permits), &because);
        limited.await.expect("limited");
    };
    limit(0).await;
    case.queues("a1").await;
    case.waits("b1").await;
    case.queues("c1").await;
    limit(2).await;
    case.has_started(&["a1"]);
    let second = case.case.turn_of("b1");
    case.ends("a1").await;
    case.has_started(&["a1", "c1"]);
    case.case.release(&second.lease).await;
    case.ends("c1").await;
    case.all_is_free(&["a", "b", "c"]).await;
    let unlimited = case.case.leases.limit_to(&pool, None, &because);
    unlimited.await.expect("an answer");
}

#[tokio::test]
async fn replaced_in_the_pool_is_dismissed() {
    let case = PoolCase::new("replaced", 1);
    case.starts("a1").await;
    case.queues("b1").await;
    let newest = with(case.start_of("b2"), |start| {
        start.if_held = IfHeld::Replace(WaitTime::new(WAIT).expect("valid"));
    });
    let answer = case.case.leases.start(newest).await;
    assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    let status = case.status("b1").await;
    assert!(
        matches!(status, Some(StartStatus::Superseded(_))),
        "{status:?}"
    );
    assert_eq!(case.case.calls.take_stopped(), []);
    case.ends("a1").await;
    case.has_started(&["a1", "b2"]);
    case.ends("b2").await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn dismissed_in_the_pool_is_skipped() {
    let case = PoolCase::new("dismissed", 1);
    case.starts("a1").await;
    case.queues("b1").await;
    let (key, name) = (case.key("b"), execution(&case.name("b1")));
    let dismissed = case.case.leases.dismiss_start(&key, &name);
    assert!(dismissed.await.expect("an answer"));
    assert_eq!(case.status("b1").await, Some(StartStatus::Skipped));
    case.ends("a1").await;
    case.has_started(&["a1"]);
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn cooldown_counts_from_the_permit() {
    let case = PoolCase::new("cooldown", 1);
    let minute = Duration::from_mins(1);
    let paced = |name: &str| {
        with(case.start_of(name), |start| {
            start.at_least = leasehold::AtLeast::new(minute).expect("valid");
        })
    };
    case.starts("a1").await;
    for name in ["b1", "b2"] {
        let answer = case.case.leases.start(paced(name)).await;
        assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    }
    case.case.pass(minute + MARGIN);
    case.ends("a1").await;
    case.ends("b1").await;
    case.has_started(&["a1", "b1"]);
    case.case.pass(minute + MARGIN);
    case.case.sweep().await;
    case.has_started(&["a1", "b1", "b2"]);
    case.ends("b2").await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn nobody_polls_for_a_pool() {
    let case = PoolCase::new("polled", 1);
    let request = make::of_execution(case.key("a"), "a1").pool(case.pool());
    let refused = case.case.leases.acquire(request).await;
    assert!(
        matches!(&refused, Err(Error::Invalid { field, .. }) if field.as_deref() == Some("pool")),
        "{refused:?}"
    );
}

/// Another request of the holder whose first one has its key, and waits in the pool.
/// Else whoever has the key would have what the pool limits, whatever the pool says.
#[tokio::test]
async fn a_lease_is_reentered_with_its_pool() {
    let case = PoolCase::new("re-entered", 1);
    let first = case.acquires("a1").await;
    let asks = |who: &str| make::of_execution(case.key(&who[..1]), who).reentrant();
    let ask = async |request: Acquire, token: &str| {
        let wait = case.case.queue(token, WAIT);
        case.case.leases.acquire_queued(request, wait).await
    };
    // One that has its key by a request without a pool, and one that has a permit of another pool.
    case.case.is("b1", Execution::Running);
    let has = asks("b1").request_id(make::request_id("without a pool"));
    drop(case.case.leases.acquire(has).await.expect("granted"));
    let other = Pool::new(&make::key("pools/another"), make::permits(1));
    for (who, pool) in [("b1", case.pool()), ("a1", other)] {
        invalid(ask(asks(who).pool(pool), "x").await, "pool");
    }
    case.case.expect_no_answers();
    // With the same pool, and with none besides what it has.
    for (token, request) in [("same", asks("a1").pool(case.pool())), ("none", asks("a1"))] {
        let answer = ask(request, token).await.expect("an answer");
        assert_eq!(answer, Queued::Acquired);
        let turn = case.case.turn_of(token);
        assert_eq!(turn.output["grant"], "reentered");
        assert_eq!(turn.lease.pool, first.lease.pool);
        assert_eq!(case.case.release(&turn.lease).await, ReleaseOutcome::Kept);
    }
    case.waits("c1").await;
    assert_eq!(
        case.case.release(&first.lease).await,
        ReleaseOutcome::Released
    );
    case.case.turn_of("c1");
}

#[tokio::test]
async fn reentrant_request_waits_too() {
    let case = PoolCase::new("reentrant", 1);
    let first = case.acquires("a1").await;
    case.waits("b1").await;
    let again = make::of_execution(case.key("b"), "b1").pool(case.pool());
    let wait = case.case.queue("b1 again", WAIT);
    let answer = case.case.leases.acquire_queued(again.reentrant(), wait);
    let answer = answer.await.expect("an answer");
    assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
    case.case.expect_no_answers();
    // Its task has ended, and the second one is granted the key.
    case.case.calls.expire_token(&case.case.token("b1"));
    case.case.release(&first.lease).await;
    let next = case.case.turn_of("b1 again");
    assert!(next.lease.pool.is_some());
    case.case.release(&next.lease).await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn whoever_lost_its_pool_asks_again() {
    let case = PoolCase::new("taken", 1);
    let first = case.acquires("a1").await;
    let kept = case.case.prove(&first.lease).await;
    let (pool, because) = (case.pool().key, make::because());
    let options = ForceReleaseOptions::default();
    let forced = case.case.leases.force_release(&pool, options, &because);
    forced.await.expect("forced");
    let lost = case.case.leases.extend(&kept, ExtendOptions::default());
    assert!(matches!(lost.await, Err(Error::Lost { .. })));
    let again = make::of_execution(case.key("a"), "a1").pool(case.pool());
    let wait = case.case.queue("a1 again", WAIT);
    let answer = case.case.leases.acquire_queued(again.reentrant(), wait);
    assert_eq!(answer.await.expect("an answer"), Queued::Acquired);
    let turn = case.case.turn_of("a1 again");
    assert_eq!(turn.output["grant"], "takeover");
    case.case.release(&turn.lease).await;
    case.all_is_free(&["a"]).await;
}

#[tokio::test]
async fn cancelled_in_the_pool_fails_at_once() {
    let case = PoolCase::new("cancelled now", 1);
    case.starts("a1").await;
    case.queues("b1").await;
    let (key, because) = (case.key("b"), make::because());
    let options = ForceReleaseOptions::default();
    let forced = case.case.leases.force_release(&key, options, &because);
    let forced = forced.await.expect("an answer");
    assert!(
        matches!(forced, ForceReleaseOutcome::Forced { .. }),
        "{forced:?}"
    );
    let status = case.status("b1").await;
    assert!(matches!(status, Some(StartStatus::Failed(_))), "{status:?}");
    case.ends("a1").await;
    case.has_started(&["a1"]);
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn newest_sends_away_from_the_pool() {
    let case = PoolCase::new("newest", 1);
    case.starts("a1").await;
    case.waits("b1").await;
    let newest = with(case.start_of("b2"), |start| {
        start.if_held = IfHeld::Latest(WaitTime::new(WAIT).expect("valid"));
    });
    let answer = case.case.leases.start(newest).await;
    assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    let answers = case.case.answers();
    assert!(
        matches!(&answers[..], [(who, Err((name, _)))] if who == "b1" && name == "Lease.Superseded"),
        "{answers:?}"
    );
    case.ends("a1").await;
    case.has_started(&["a1", "b2"]);
    case.ends("b2").await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn many_dead_tokens_are_passed_over() {
    let case = PoolCase::new("many dead", 1);
    let first = case.acquires("a1").await;
    let tenants = ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    for round in 1..=4 {
        for tenant in tenants {
            let who = format!("{tenant}{round}");
            case.waits(&who).await;
            case.case.calls.expire_token(&case.case.token(&who));
        }
    }
    case.waits("l1").await;
    case.case.release(&first.lease).await;
    for _ in 0..3 {
        case.case.sweep().await;
    }
    let last = case.case.turn_of("l1");
    case.case.release(&last.lease).await;
    case.case.sweep().await;
    case.all_is_free(&tenants).await;
}

/// A team's function may serve the pool, and begins nothing.
#[tokio::test]
async fn starts_are_left_to_who_begins_them() {
    let case = PoolCase::new("of a team", 1);
    let first = case.acquires("a1").await;
    case.queues("b1").await;
    let leases = case.case.leases.clone();
    let of_a_team = leases.with_starts(StartRules::default());
    let released = of_a_team.release(&first.lease).await;
    assert_eq!(
        released.expect("an answer").outcome,
        ReleaseOutcome::Released
    );
    assert_eq!(case.status("b1").await, Some(StartStatus::Waiting));
    case.case.sweep().await;
    case.has_started(&["b1"]);
    case.ends("b1").await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn cancelled_in_the_pool_never_begins() {
    let case = PoolCase::new("cancelled", 1);
    case.starts("a1").await;
    for name in ["b1", "c1"] {
        case.queues(name).await;
    }
    let (key, options) = (case.key("b"), ForceReleaseOptions::default());
    let because = make::because();
    let forced = case.case.leases.force_release(&key, options, &because);
    forced.await.expect("forced");
    case.ends("a1").await;
    case.has_started(&["a1", "c1"]);
    case.case.pass(Duration::from_mins(10));
    case.case.sweep().await;
    let status = case.status("b1").await;
    assert!(matches!(status, Some(StartStatus::Failed(_))), "{status:?}");
    case.ends("c1").await;
    case.all_is_free(&["a", "b", "c"]).await;
}

/// Whoever ended the grant of the key died before it ended the entry. The next one of the key shows that it is over; of another key, a
/// sweep does.
#[tokio::test]
async fn permit_of_an_ended_grant_comes_back() {
    for next in ["a2", "b1"] {
        let case = PoolCase::new(&format!("left behind {next}"), 1);
        let first = case.acquires("a1").await;
        let entered = case.row(&case.pool().key, 0).await.expect("a row");
        case.case.release(&first.lease).await;
        let key = case.pool().key;
        let at = Address { key, permit: 0 };
        case.case.table.put(at, &entered.to_item());
        if next == "a2" {
            assert_eq!(case.ask(next).await, Queued::Acquired);
        } else {
            case.waits(next).await;
            case.case.sweep().await;
        }
        let next = case.case.turn_of(next);
        case.case.release(&next.lease).await;
        case.all_is_free(&["a", "b"]).await;
    }
}

impl PoolCase {
    fn stands(&self, name: &str, stands: Stands, count: u32) {
        let at = (count > 0).then(|| self.case.now());
        let execution = execution(&self.name(name));
        let calls = &self.case.calls;
        calls.set_redrives(execution.as_str(), Redrives { stands, count, at });
    }

    async fn fails(&self, name: &str) {
        self.case.pass(STALE + MARGIN + MS);
        let execution = execution(&self.name(name));
        let over = Execution::Ended {
            stopped_at: self.case.now(),
            redrivable: true,
            all_answered: true,
        };
        self.case.calls.set_execution(execution.as_str(), over);
        self.stands(name, Stands::Redrivable, 0);
        self.case.pass(STALE + MARGIN + MS);
        self.case.leases.reap(&execution).await.expect("an answer");
    }

    async fn redriven(&self, name: &str) -> (Reaped, u64) {
        let execution = execution(&self.name(name));
        let running = Execution::Running;
        self.case.calls.set_execution(execution.as_str(), running);
        self.stands(name, Stands::Runs, 1);
        let told = self.case.leases.redriven(&execution);
        let (told, alarmed) = counted(Metric::UnguardedRedrives, told).await;
        (told.expect("an answer"), alarmed)
    }
}

const fn taken_or_stopped(taken: u64, stopped: u64) -> Reaped {
    Reaped::Redriven {
        taken,
        stopped,
        alone: 0,
        undecided: 0,
    }
}

#[tokio::test]
async fn redriven_has_both_again() {
    let case = PoolCase::new("redriven", 2);
    case.starts("a1").await;
    case.fails("a1").await;
    case.all_is_free(&["a"]).await;
    assert_eq!(case.redriven("a1").await, (taken_or_stopped(1, 0), 0));
    let execution = execution(&case.name("a1"));
    let row = case.row(&case.key("a"), 0).await.expect("a row");
    assert!(row.holding().is_some());
    assert_eq!(row.granted_to, execution);
    let entries = case.entries().await;
    let inside: Vec<_> = entries
        .inside
        .values()
        .map(|one| one.fencing_token)
        .collect();
    assert_eq!(inside, [row.fencing_token]);
    let terms = case.case.leases.keys_of(&execution).await;
    let terms = terms.expect("an answer").into_iter();
    let both: Vec<_> = terms.map(|it| (it.key, it.permits, it.pool)).collect();
    assert_eq!(both, [(case.key("a"), None, Some(case.pool()))]);
    case.stands("a1", Stands::Final, 1);
    case.ends("a1").await;
    case.all_is_free(&["a"]).await;
}

#[tokio::test]
async fn redriven_without_a_permit_is_stopped() {
    let case = PoolCase::new("redriven beside", 1);
    case.starts("a1").await;
    case.queues("b1").await;
    case.fails("a1").await;
    case.has_started(&["a1", "b1"]);
    assert_eq!(case.redriven("a1").await, (taken_or_stopped(0, 1), 1));
    let stopped = case.case.calls.take_stopped();
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert!(
        stopped[0].1.contains(case.case.address.key.as_str()),
        "{stopped:?}"
    );
    case.stands("a1", Stands::Final, 1);
    case.ends("a1").await;
    case.ends("b1").await;
    case.all_is_free(&["a", "b"]).await;
}

#[tokio::test]
async fn dead_places_do_not_fill_a_pool() {
    let case = PoolCase::new("dead places", 1);
    let first = case.acquires("a1").await;
    case.waits("b1").await;
    let key = case.pool().key;
    let before = case.row(&key, 0).await.expect("a row");
    case.over(make::execution("b1").as_str()).await;
    case.case.sweep().await;
    let of_b = case.case.answers();
    assert!(matches!(&of_b[..], [(_, Err(_))]), "{of_b:?}");
    case.case.release(&first.lease).await;
    // Whoever took the grants away died before it said so here.
    let at = Address { key, permit: 0 };
    case.case.table.put(at, &before.to_item());
    assert!(matches!(case.ask("c1").await, Queued::Queued { .. }));
    case.case.sweep().await;
    let next = case.case.turn_of("c1");
    case.case.release(&next.lease).await;
    case.all_is_free(&["a", "b", "c"]).await;
}
