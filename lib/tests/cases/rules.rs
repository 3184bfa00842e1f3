//! The rules that all users of a table share.

use std::time::Duration;

use super::{Case, MARGIN, MS, TTL, contention, grant, make, queue::QueueCase, with};
use leasehold::{
    AcquireAll, Clock as _, Counter, Error, ExtendOptions, Leases, Memory, ReleaseOutcome,
    Settings, TableRules, store::Operations as _,
};

impl Case {
    /// The stack of the table, with other settings: sweep's first run.
    async fn publish(&self, settings: Settings) -> Result<(), Error> {
        let stack = Leases::new(self.table.clone(), settings).with_clock(self.clock.clone());
        stack.publish_rules().await
    }

    /// Another process that reads the table's rules.
    fn reader(&self, settings: Settings) -> Leases<Memory> {
        let leases = Leases::new(self.table.clone(), settings).with_clock(self.clock.clone());
        leases.with_table_rules()
    }
}

fn stopped() -> Settings {
    with(Settings::default(), |settings| settings.stopped = true)
}

/// Above the clock at the beginning of a case.
fn floor() -> Counter {
    Counter::new(make::clock().now().as_millis() + 1_000).expect("valid")
}

fn floored() -> Settings {
    with(Settings::default(), |settings| {
        settings.token_floor = floor();
    })
}

#[tokio::test]
async fn table_without_rules_keeps_settings() {
    let case = Case::new("rules/none");
    let reader = case.reader(Settings::default());
    let lease = grant(&reader, case.request("a", "1")).await.lease;
    assert_eq!(
        lease.safe_until().plus(Settings::default().guard),
        lease.expires_at()
    );
    let retry = contention(&reader, case.request("b", "2")).await.retry;
    let retry_at = retry.expect("a deadline").retry_at;
    assert_eq!(retry_at, lease.expires_at().plus(MARGIN + MS));
    // Leases that own their rules read none, and readers publish none.
    reader.publish_rules().await.expect("nothing to do");
    let limit = Duration::from_secs(1);
    assert_eq!(reader.store().rules(limit).await.expect("an answer"), None);
}

#[tokio::test]
async fn stricter_of_both_rules_applies() {
    let case = Case::new("rules/stricter");
    let settings = with(floored(), |settings| {
        settings.clock_margin = 5 * MARGIN;
        settings.guard = Duration::from_secs(5);
    });
    case.publish(settings).await.expect("published");
    let reader = case.reader(Settings::default());
    let lease = grant(&reader, case.request("a", "1")).await.lease;
    assert!(lease.fencing_token > floor());
    assert_eq!(lease.safe_until().plus(settings.guard), lease.expires_at());
    let extended = reader.extend(&lease, ExtendOptions::default()).await;
    let extended = extended.expect("extended").into_lease();
    assert_eq!(
        extended.safe_until().plus(settings.guard),
        extended.expires_at()
    );
    // Without the table's margin it would be taken over here.
    case.pass(TTL + MARGIN);
    contention(&reader, case.request("b", "1")).await;
    let stricter = with(Settings::default(), |settings| {
        settings.clock_margin = 6 * MARGIN;
    });
    let stricter = case.reader(stricter);
    case.pass(4 * MARGIN);
    contention(&stricter, case.request("c", "1")).await;
    grant(&reader, case.request("b", "2")).await;
    case.publish(floored()).await.expect("published");
}

#[tokio::test]
async fn rule_change_applies_after_minute() {
    let case = Case::new("rules/changed");
    case.publish(floored()).await.expect("published");
    let reader = case.reader(Settings::default());
    let lease = grant(&reader, case.request("a", "1")).await.lease;
    let also_stopped = with(floored(), |settings| settings.stopped = true);
    case.publish(also_stopped).await.expect("published");
    case.pass(TableRules::READ_EVERY.saturating_sub(MS));
    // What was read is followed until then.
    let extended = reader.extend(&lease, ExtendOptions::default()).await;
    assert!(extended.is_ok(), "{extended:?}");
    contention(&reader, case.request("b", "1")).await;
    case.pass(MS);
    refused!(reader.acquire(case.request("b", "2")).await, Frozen);
    // A clock that is set back reads again.
    case.publish(floored()).await.expect("published");
    case.clock.set(case.now().minus(MS));
    contention(&reader, case.request("b", "3")).await;
}

#[tokio::test]
async fn while_stopped_nothing_is_granted() {
    let case = Case::new("rules/stopped");
    let lease = case.lease("a").await;
    let stopped = Leases::new(case.table.clone(), stopped()).with_clock(case.clock.clone());
    // What was granted before is told again, extended in time, and released.
    let replayed = grant(&stopped, case.request("a", "by a")).await.lease;
    assert_eq!(replayed, lease);
    let extended = stopped.extend(&lease, ExtendOptions::default()).await;
    let lease = extended.expect("extended").into_lease();
    refused!(stopped.acquire(case.request("b", "1")).await, Frozen);
    let row = case.row().await;
    let permits = case.request("b", "2").permits(make::permits(2));
    refused!(stopped.acquire(permits).await, Frozen);
    let keys = make::keys(vec![lease.key.clone(), make::key("rules/stopped/new")]);
    let set = || AcquireAll::new(keys.clone(), make::holder("b"), make::ttl(TTL));
    refused!(stopped.acquire_all(set()).await, Frozen);
    case.expire();
    // No takeover, no revival.
    refused!(stopped.acquire(case.request("b", "3")).await, Frozen);
    refused!(
        stopped.extend(&lease, ExtendOptions::default()).await,
        Frozen
    );
    assert_eq!(case.row().await, row, "nothing was written");
    let released = stopped.release(&lease).await.expect("an answer");
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    refused!(stopped.acquire(case.request("b", "4")).await, Frozen);
    refused!(stopped.acquire(case.request("a", "by a")).await, Consumed);
    case.lease("b").await;
}

#[tokio::test]
async fn while_stopped_nothing_is_handed_over() {
    let (mut case, holder) = QueueCase::held("rules/queue", &["a"]).await;
    let going = case.leases.clone();
    case.case.leases = Leases::new(case.table.clone(), stopped())
        .with_clock(case.clock.clone())
        .with_engine(case.calls.clone());
    case.release(&holder).await;
    assert!(!case.hand_over().await);
    case.sweep().await;
    let row = case.row().await;
    assert!(row.holding().is_none(), "{row:?}");
    case.case.leases = going;
    assert!(case.hand_over().await);
    case.turn_of("a");
}

#[tokio::test]
async fn a_published_floor_is_not_lowered() {
    let case = Case::new("rules/lowered");
    case.publish(floored()).await.expect("published");
    let limit = Duration::from_secs(1);
    let store = case.leases.store();
    let before = store.rules(limit).await.expect("an answer");
    assert!(before.is_some());
    refused!(case.publish(stopped()).await, Misconfigured);
    assert_eq!(store.rules(limit).await.expect("an answer"), before);
}
