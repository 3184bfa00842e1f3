//! Several handles at once.

use super::{Case, TTL, UNEXPIRED, invalid, make};
use leasehold::{
    Error, ExtendOptions, ExtendOutcome, ExtendedAll, Lease, LeaseSet, ReleaseOutcome, ReleasedAll,
    Settings,
};

fn set_of(leases: &[Lease]) -> LeaseSet {
    LeaseSet::new(leases.to_vec()).expect("distinct leases")
}

impl Case {
    async fn extend_all(
        &self,
        leases: &[Lease],
        options: ExtendOptions,
    ) -> Result<ExtendedAll, Error> {
        self.leases.extend_all(&set_of(leases), options).await
    }

    async fn release_all(&self, leases: &[Lease]) -> ReleasedAll {
        let released = self.leases.release_all(&set_of(leases)).await;
        released.expect("an answer")
    }
}

#[tokio::test]
async fn sets_extend_and_release_by_key() {
    use ReleaseOutcome::{AlreadyReleased, Lost, Released};
    let case = Case::new("set/extend and release");
    let leases = case.grant_all(&["a", "b", "c"], "h", "1").await.leases;
    let options = ExtendOptions::default();
    case.pass(TTL / 2);
    let extended = case.extend_all(&leases, options).await.expect("extended");
    assert_eq!(extended.outcome, ExtendOutcome::Extended);
    assert_eq!(extended.lapsed, None);
    let keys = |leases: &[Lease]| leases.iter().map(|l| l.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&extended.leases), keys(&leases));
    let end = case.now().plus(TTL);
    assert!(
        extended
            .leases
            .iter()
            .all(|lease| lease.expires_at() == end)
    );
    case.pass(TTL + TTL / 2);
    let revived = case.extend_all(&leases, options).await.expect("revived");
    assert_eq!(revived.outcome, ExtendOutcome::Revived);
    assert_eq!(revived.lapsed, Some(TTL / 2));

    // One is lost. The others are extended nevertheless, and the message gives the outcome of each.
    case.give_back(&leases[1]).await;
    case.pass(TTL / 2);
    let error = case.extend_all(&leases, options).await;
    let error = error.expect_err("one is lost");
    assert_eq!(error.name(), "Lease.Lost");
    assert_eq!(error.key(), Some(&leases[1].key));
    let message = error.to_string();
    for (lease, outcome) in leases.iter().zip(["extended", "Lease.Lost", "extended"]) {
        let part = format!("{}: {outcome}", lease.key);
        assert!(message.contains(&part), "{message}");
    }
    let row = case.row_at("c").await;
    let end = case.now().plus(TTL);
    assert_eq!(row.holding().expect("held").expires_at(), end);

    let released = case.release_all(&leases).await;
    assert_eq!(released.outcomes, [Released, AlreadyReleased, Released]);
    assert_eq!(released.outcome, AlreadyReleased);
    assert!(released.expired);
    let other = case.single("b", "x").await;
    let leases = [
        case.single("a", "h").await,
        leases[1].clone(),
        case.single("c", "h").await,
    ];
    case.expire();
    let successor = case.single("a", "x").await;
    let released = case.release_all(&leases).await;
    assert_eq!(released.outcomes, [Lost, AlreadyReleased, Released]);
    assert_eq!(released.outcome, Lost);
    let strict = case.leases.release_all_strictly(&set_of(&leases)).await;
    assert_eq!(strict.expect_err("one is lost").name(), "Lease.Lost");
    for (name, lease) in [("a", successor), ("b", other)] {
        let row = case.row_at(name).await;
        assert_eq!(row.version, lease.version, "{name} is untouched");
    }
}

#[tokio::test]
async fn a_hundred_keys_are_one_set() {
    let case = Case::new("set/hundred");
    let names: Vec<_> = (0..100).map(|n| format!("{n:0>1000}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let granted = case.grant_all(&names, "h", "1").await;
    assert_eq!(granted.leases.len(), 100);
    let options = ExtendOptions::default();
    let extended = case.extend_all(&granted.leases, options).await;
    assert_eq!(extended.expect("extended").leases.len(), 100);
    let released = case.release_all(&granted.leases).await;
    assert_eq!(released.outcomes, [ReleaseOutcome::Released; 100]);
    // A message has to fit into a workflow's history.
    let error = case.extend_all(&granted.leases, options).await;
    let message = error.expect_err("all are over").to_string();
    assert!(message.len() < 8000, "{message}");
    assert!(message.ends_with(" more"), "{message}");
}

#[tokio::test]
async fn the_worst_outcome_is_told() {
    use ReleaseOutcome::{AlreadyReleased, Released};
    let case = Case::new("set/worst outcome");
    let (expired, lost) = (case.single("a", "h").await, case.single("b", "h").await);
    case.pass(TTL);
    let lasting = case.single("c", "h").await;
    case.give_back(&lost).await;
    // Lost comes before expired, in whichever order they are given.
    for leases in [
        [expired.clone(), lost.clone(), lasting.clone()],
        [lasting.clone(), lost.clone(), expired.clone()],
    ] {
        let error = case.extend_all(&leases, UNEXPIRED).await;
        let error = error.expect_err("one is lost");
        assert_eq!((error.name(), error.key()), ("Lease.Lost", Some(&lost.key)));
    }
    let leases = [lasting.clone(), expired.clone()];
    let error = case.extend_all(&leases, UNEXPIRED).await;
    let error = error.expect_err("one has expired");
    assert_eq!(error.name(), "Lease.Expired");
    assert_eq!(error.key(), Some(&expired.key));
    // `expired` is true if one deadline has passed.
    let released = case.release_all(&leases).await;
    assert_eq!((released.outcome, released.expired), (Released, true));
    let released = case.release_all(&[lasting]).await;
    assert_eq!(released.outcome, AlreadyReleased);
    assert!(!released.expired);
}

#[tokio::test]
async fn ttl_within_guard_is_refused_unwritten() {
    let case = Case::new("set/short");
    let mut leases = case.grant_all(&["a", "b"], "h", "1").await.leases;
    let before = [case.stored("a").await, case.stored("b").await];
    let too_short = make::ttl(Settings::default().guard);
    leases[1].deadline.as_mut().expect("a ttl lease").ttl = too_short;
    case.pass(TTL / 2);
    let extended = case.extend_all(&leases, ExtendOptions::default()).await;
    invalid(extended, "ttl_seconds");
    assert_eq!([case.stored("a").await, case.stored("b").await], before);
}
