//! What docs/explanation/threats.md says that somebody can do with what has leaked, and how it is ended.

use std::{sync::Arc, time::Duration};

use leasehold::{
    Acquire, Acquired, AuditReason, Error, ExtendOptions, ForceReleaseOptions, GrantKind, Holder,
    Key, Lease, Leases, ManualClock, Memory, ObservedVersion, Operator, Reason, RequestId,
    Settings, Timestamp, Ttl,
};

const DAY: Duration = Duration::from_hours(24);

fn table() -> (Leases<Memory>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_800_000_000_000)));
    let leases = Leases::new(Memory::new(), Settings::default());
    (leases.with_clock(clock.clone()), clock)
}

fn ask(holder: &str) -> Acquire {
    let ttl = Ttl::new(Duration::from_mins(1)).unwrap();
    let request = Acquire::new(Key::new("k").unwrap(), Holder::new(holder).unwrap(), ttl);
    request.request_id(RequestId::new(format!("by {holder}")).unwrap())
}

async fn lease(leases: &Leases<Memory>, holder: &str) -> Lease {
    let acquired = leases.acquire(ask(holder)).await.unwrap();
    acquired.granted().unwrap().lease
}

fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("night shift").unwrap(),
        why: Reason::new("a handle has leaked").unwrap(),
    }
}

#[tokio::test]
async fn a_leaked_handle_extends_day_after_day_until_an_operator_ends_it() {
    let (leases, clock) = table();
    let leaked = lease(&leases, "holder").await;
    let most = ExtendOptions {
        ttl: Ttl::new(DAY).ok(),
        ..ExtendOptions::default()
    };
    for _ in 0..400 {
        let extended = leases.extend(&leaked, most).await.unwrap().into_lease();
        assert_eq!(extended.expires_at, leases.now().plus(DAY));
        assert_eq!(extended.holder, leaked.holder, "it cannot change the name");
        clock.advance(Duration::from_secs(86_399));
    }
    // A freeze is not enough: a holder that extends in time continues.
    let _ = leases.freeze(&leaked.key, &because()).await.unwrap();
    let _ = leases.extend(&leaked, most).await.unwrap();
    let (which, because) = (ForceReleaseOptions::default(), because());
    let forced = leases.force_release(&leaked.key, which, &because).await;
    let _ = forced.unwrap();
    let lost = leases.extend(&leaked, most).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    let lost = leases.release_strictly(&leaked).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
}

#[tokio::test]
async fn a_lease_that_was_released_behind_its_holders_back_is_reported_lost_and_fenced() {
    let (leases, _) = table();
    let leaked = lease(&leases, "holder").await;
    let _ = leases.release(&leaked).await.unwrap();
    let next = lease(&leases, "next").await;
    assert!(next.fencing_token > leaked.fencing_token);
    let lost = leases.extend(&leaked, ExtendOptions::default()).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
}

/// A caller that may acquire may obtain any holder's lease.
#[tokio::test]
async fn a_name_is_enough_for_whoever_may_acquire() {
    let (leases, _) = table();
    let held = lease(&leases, "holder").await;
    let mut posing = ask("holder");
    posing.request_id = RequestId::random();
    let acquired = leases.acquire(posing.reentrant()).await.unwrap();
    let theirs = acquired.granted().unwrap();
    assert_eq!(theirs.grant, GrantKind::Replayed);
    assert_eq!(theirs.lease.lease_id, held.lease_id);
}

#[tokio::test]
async fn who_says_that_it_has_watched_is_believed_and_fenced_off_by_the_token() {
    let (leases, _) = table();
    let held = lease(&leases, "holder").await;
    let mut impatient = ask("impatient");
    impatient.observed_version = Some(ObservedVersion::from(held.version));
    let taken = leases.acquire(impatient).await.unwrap().granted().unwrap();
    assert_eq!(taken.grant, GrantKind::Takeover);
    assert!(taken.lease.fencing_token > held.fencing_token);
    let lost = leases.extend(&held, ExtendOptions::default()).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
}

#[tokio::test]
async fn everything_public_of_a_lease_neither_extends_nor_releases_it() {
    let (leases, clock) = table();
    let held = lease(&leases, "holder").await;
    let mut guess = serde_json::to_value(&held).unwrap();
    guess["lease_id"] = "0".repeat(32).into();
    let guess: Lease = serde_json::from_value(guess).unwrap();
    let lost = leases.extend(&guess, ExtendOptions::default()).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    let lost = leases.release_strictly(&guess).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    clock.advance(Duration::from_secs(1));
    let still = leases.acquire(ask("another")).await.unwrap();
    assert!(matches!(still, Acquired::Held(_)), "{still:?}");
}

#[tokio::test]
async fn a_table_in_memory_is_shown_without_what_is_in_it() {
    let (leases, _) = table();
    let held = lease(&leases, "holder").await;
    let shown = format!("{leases:?} {held:?}");
    assert!(shown.contains("Memory(1 items)"), "{shown}");
    assert!(!shown.contains(held.lease_id.expose()), "{shown}");
}
