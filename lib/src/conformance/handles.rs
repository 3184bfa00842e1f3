//! Several handles at once.

use super::{Bench, Case, TTL};
use crate::{
    Error, ExtendOptions, ExtendOutcome, Lease, LeaseSet, ReleaseOutcome, Settings, Ttl,
    row::Stored,
};

pub(super) async fn all<B: Bench>(bench: &B) {
    a_set_is_extended_and_released_key_by_key(bench).await;
    the_worst_outcome_is_told(bench).await;
    a_hundred_keys_are_one_set(bench).await;
    a_ttl_that_the_guard_uses_up_is_refused_before_anything_is_written(bench).await;
}

fn set_of(leases: &[Lease]) -> LeaseSet {
    LeaseSet::new(leases.to_vec()).expect("distinct leases")
}

async fn a_set_is_extended_and_released_key_by_key<B: Bench>(bench: &B) {
    use ReleaseOutcome::{AlreadyReleased, Lost, Released};
    let case = Case::new(bench, "set/extend and release");
    let leases = case.grant_all(&["a", "b", "c"], "h", "1").await.leases;
    let options = ExtendOptions::default();
    case.pass(TTL / 2);
    let extended = case
        .leases
        .extend_all(&set_of(&leases), options)
        .await
        .expect("extended");
    assert_eq!(
        (extended.outcome, extended.lapsed),
        (ExtendOutcome::Extended, None)
    );
    let keys = |leases: &[Lease]| leases.iter().map(|l| l.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&extended.leases), keys(&leases));
    assert!(
        extended
            .leases
            .iter()
            .all(|l| l.expires_at == case.now().plus(TTL))
    );
    case.pass(TTL + TTL / 2);
    let revived = case
        .leases
        .extend_all(&set_of(&leases), options)
        .await
        .expect("revived");
    assert_eq!(
        (revived.outcome, revived.lapsed),
        (ExtendOutcome::Revived, Some(TTL / 2))
    );

    // One is lost: the others are extended all the same, and the message tells which is which.
    case.give_back(&leases[1]).await;
    case.pass(TTL / 2);
    let error = case
        .leases
        .extend_all(&set_of(&leases), options)
        .await
        .expect_err("one is lost");
    assert_eq!(
        (error.name(), error.key()),
        ("Lease.Lost", Some(&leases[1].key))
    );
    let message = error.to_string();
    for (lease, outcome) in leases.iter().zip(["extended", "Lease.Lost", "extended"]) {
        assert!(
            message.contains(&format!("{}: {outcome}", lease.key)),
            "{message}"
        );
    }
    let Stored::Row(row) = case.stored("c").await else {
        panic!("no row");
    };
    assert_eq!(
        row.holding().expect("held").expires_at,
        case.now().plus(TTL)
    );

    let released = case
        .leases
        .release_all(&set_of(&leases))
        .await
        .expect("an answer");
    assert_eq!(released.outcomes, [Released, AlreadyReleased, Released]);
    assert_eq!(
        (released.outcome, released.expired),
        (AlreadyReleased, true)
    );
    let other = case.single("b", "x").await;
    let leases = [
        case.single("a", "h").await,
        leases[1].clone(),
        case.single("c", "h").await,
    ];
    case.expire();
    let successor = case.single("a", "x").await;
    let released = case
        .leases
        .release_all(&set_of(&leases))
        .await
        .expect("an answer");
    assert_eq!(released.outcomes, [Lost, AlreadyReleased, Released]);
    assert_eq!(released.outcome, Lost);
    let strict = case.leases.release_all_strictly(&set_of(&leases)).await;
    assert_eq!(strict.expect_err("one is lost").name(), "Lease.Lost");
    for (name, lease) in [("a", successor), ("b", other)] {
        let Stored::Row(row) = case.stored(name).await else {
            panic!("no row");
        };
        assert_eq!(
            row.version, lease.version,
            "{name} is somebody else's, and untouched"
        );
    }
}

async fn a_hundred_keys_are_one_set<B: Bench>(bench: &B) {
    let case = Case::new(bench, "set/hundred");
    let names: Vec<_> = (0..100).map(|n| format!("{n:0>1000}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let granted = case.grant_all(&names, "h", "1").await;
    assert_eq!(granted.leases.len(), 100);
    let options = ExtendOptions::default();
    let set = set_of(&granted.leases);
    assert_eq!(
        case.leases
            .extend_all(&set, options)
            .await
            .expect("extended")
            .leases
            .len(),
        100
    );
    let released = case.leases.release_all(&set).await.expect("released");
    assert_eq!(released.outcomes, [ReleaseOutcome::Released; 100]);
    // A message has to fit into a workflow's history.
    let error = case
        .leases
        .extend_all(&set, options)
        .await
        .expect_err("all are over");
    let message = error.to_string();
    assert!(
        message.len() < 8000 && message.ends_with(" more"),
        "{message}"
    );
}

async fn the_worst_outcome_is_told<B: Bench>(bench: &B) {
    let case = Case::new(bench, "set/worst outcome");
    let unexpired = ExtendOptions {
        require_unexpired: true,
        ..ExtendOptions::default()
    };
    let (expired, lost) = (case.single("a", "h").await, case.single("b", "h").await);
    case.pass(TTL);
    let lasting = case.single("c", "h").await;
    case.give_back(&lost).await;
    // Lost comes before expired, in whichever order they were given.
    for leases in [
        [expired.clone(), lost.clone(), lasting.clone()],
        [lasting.clone(), lost.clone(), expired.clone()],
    ] {
        let error = case.leases.extend_all(&set_of(&leases), unexpired).await;
        let error = error.expect_err("one is lost");
        assert_eq!((error.name(), error.key()), ("Lease.Lost", Some(&lost.key)));
    }
    let set = set_of(&[lasting.clone(), expired.clone()]);
    let error = case
        .leases
        .extend_all(&set, unexpired)
        .await
        .expect_err("one has expired");
    assert_eq!(
        (error.name(), error.key()),
        ("Lease.Expired", Some(&expired.key))
    );
    // One deadline that has passed is enough to say so.
    let released = case.leases.release_all(&set).await.expect("an answer");
    assert_eq!(
        (released.outcome, released.expired),
        (ReleaseOutcome::Released, true)
    );
    let set = set_of(&[lasting]);
    let released = case.leases.release_all(&set).await.expect("an answer");
    assert_eq!(
        (released.outcome, released.expired),
        (ReleaseOutcome::AlreadyReleased, false)
    );
}

async fn a_ttl_that_the_guard_uses_up_is_refused_before_anything_is_written<B: Bench>(bench: &B) {
    let case = Case::new(bench, "set/short");
    let mut leases = case.grant_all(&["a", "b"], "h", "1").await.leases;
    let before = [case.stored("a").await, case.stored("b").await];
    leases[1].ttl = Ttl::new(Settings::default().guard).expect("a valid ttl");
    case.pass(TTL / 2);
    let extended = case
        .leases
        .extend_all(&set_of(&leases), ExtendOptions::default())
        .await;
    let Err(Error::Invalid { field, .. }) = extended else {
        panic!("{extended:?}");
    };
    assert_eq!(field.as_deref(), Some("ttl_seconds"));
    assert_eq!([case.stored("a").await, case.stored("b").await], before);
}
