//! Several keys at once.

use std::time::Duration;

use super::observing::reentered;
use super::{Case, MS, TTL, first, invalid, make};
use leasehold::{
    AcquireAll, AcquiredAll, Contention, Ended, Error, GrantKind, GrantedAll, Key, Lease, LeaseSet,
    ReleaseOutcome,
    row::{Row, Stored},
    store::{Address, AppliedAll, Operations as _},
    transition::{Change, CheckHeld},
};

/// Keys `a` to `d`, prefixed with the case's own key.
impl Case {
    pub(super) fn key(&self, name: &str) -> Key {
        make::key(format!("{}/{name}", self.address.key))
    }

    pub(super) fn set(&self, names: &[&str], holder: &str, id: &str) -> AcquireAll {
        let keys = make::keys(names.iter().map(|name| self.key(name)).collect());
        AcquireAll::new(keys, make::holder(holder), make::ttl(TTL)).request_id(make::request_id(id))
    }

    pub(super) async fn ask_all(
        &self,
        names: &[&str],
        holder: &str,
        id: &str,
    ) -> Result<AcquiredAll, Error> {
        self.leases.acquire_all(self.set(names, holder, id)).await
    }

    pub(super) async fn grant_all(&self, names: &[&str], holder: &str, id: &str) -> GrantedAll {
        let acquired = self.ask_all(names, holder, id).await.expect("an answer");
        acquired.granted().expect("a grant")
    }

    async fn refused_all(&self, names: &[&str], holder: &str, id: &str) -> Contention {
        match self.ask_all(names, holder, id).await.expect("an answer") {
            AcquiredAll::Held(contention) => contention,
            AcquiredAll::Granted(granted) => panic!("it was granted: {granted:?}"),
        }
    }

    pub(super) async fn stored(&self, name: &str) -> Stored {
        let (address, limit) = (self.at(name), Duration::from_secs(1));
        let stored = self.leases.store().read_row(&address, limit).await;
        stored.expect("an answer")
    }

    pub(super) async fn row_at(&self, name: &str) -> Row {
        match self.stored(name).await {
            Stored::Row(row) => row,
            other => panic!("no row but {other:?}"),
        }
    }

    pub(super) fn at(&self, name: &str) -> Address {
        first(&self.key(name))
    }

    /// The key `name`, acquired by `holder` alone.
    pub(super) async fn single(&self, name: &str, holder: &str) -> Lease {
        let mut request = self.request(holder, &format!("{holder} alone"));
        request.key = self.key(name);
        let acquired = self.leases.acquire(request).await.expect("an answer");
        acquired.granted().expect("a grant").lease
    }
}

#[track_caller]
fn is_consumed(answer: Result<AcquiredAll, Error>, key: &Key) {
    let error = answer.expect_err("it is consumed");
    assert_eq!((error.name(), error.key()), ("Lease.Consumed", Some(key)));
}

#[tokio::test]
async fn all_or_nothing() {
    let case = Case::new("set/all or nothing");
    let blocker = case.single("b", "x").await;
    for (names, free) in [(["a", "b", "c"], ["a", "c"]), (["b", "a", "c"], ["a", "c"])] {
        let held = case.refused_all(&names, "h", "1").await.held;
        assert_eq!((&held.key, &held.holder), (&blocker.key, &blocker.holder));
        for name in free {
            assert_eq!(case.stored(name).await, Stored::Absent);
        }
    }
    // Of two held keys, the first in the order asked is named.
    case.single("c", "y").await;
    let contention = case.refused_all(&["a", "c", "b"], "h", "1").await;
    assert_eq!(contention.held.key, case.key("c"));

    case.give_back(&blocker).await;
    let granted = case.grant_all(&["b", "a"], "h", "1").await;
    assert_eq!(granted.grant, GrantKind::New);
    let keys = granted.leases.iter().map(|lease| lease.key.clone());
    assert!(keys.eq(["b", "a"].map(|name| case.key(name))));
    assert_ne!(granted.leases[0].lease_id, granted.leases[1].lease_id);
    let before = granted.previous.iter().map(|p| p.as_ref().map(|p| p.ended));
    assert!(before.eq([Some(Ended::Released), None]));
    // The leases in the result are those in the table.
    for (name, lease) in [("b", &granted.leases[0]), ("a", &granted.leases[1])] {
        let row = case.row_at(name).await;
        assert_eq!(row.fencing_token, lease.fencing_token);
        assert_eq!(row.version, lease.version);
    }
}

#[tokio::test]
async fn repeated_request_gets_whole_set() {
    let case = Case::new("set/replay");
    let first = case.grant_all(&["a", "b"], "h", "1").await;
    for _ in 0..3 {
        case.pass(TTL);
        let again = case.grant_all(&["a", "b"], "h", "1").await;
        assert_eq!(again.grant, GrantKind::Replayed);
        assert_eq!(again.leases, first.leases);
    }
    let turned = case.grant_all(&["b", "a"], "h", "1").await;
    assert_eq!(turned.leases[0], first.leases[1], "in the order asked");
    // Once any of them has ended, the request is consumed.
    case.give_back(&first.leases[1]).await;
    is_consumed(case.ask_all(&["a", "b"], "h", "1").await, &case.key("b"));
}

#[tokio::test]
async fn request_is_for_own_keys_only() {
    let case = Case::new("set/other keys");
    case.grant_all(&["a", "b"], "h", "1").await;
    let invalid = async |names: &[&str]| {
        let answer = case.ask_all(names, "h", "1").await;
        invalid(answer, "request_id");
    };
    invalid(&["a", "c"]).await;
    invalid(&["a"]).await;
    invalid(&["a", "b", "c"]).await;
    case.single("d", "x").await;
    invalid(&["d", "b"]).await;
    assert_eq!(case.stored("c").await, Stored::Absent);
    // Not even if the request was granted both, in different sets.
    case.grant_all(&["e", "f"], "h", "1").await;
    invalid(&["a", "e"]).await;
    // Nor for one of them alone.
    let mut request = case.request("h", "1");
    request.key = case.key("a");
    refused!(case.leases.acquire(request).await, Invalid);
}

#[tokio::test]
async fn the_worst_refusal_is_told() {
    let case = Case::new("set/worst");
    case.single("held", "x").await;
    let frozen = case.single("frozen", "x").await;
    case.give_back(&frozen).await;
    let froze = case.leases.freeze(&frozen.key, &make::because()).await;
    froze.expect("frozen");
    let spent = case.grant_all(&["spent"], "h", "1").await;
    case.give_back(&spent.leases[0]).await;
    case.table.put(case.at("strange"), &make::foreign_item());

    let refusal = async |names: &[&str]| match case.ask_all(names, "h", "1").await {
        Ok(AcquiredAll::Held(contention)) => ("Lease.Held", contention.held.key),
        Ok(AcquiredAll::Granted(granted)) => panic!("{granted:?}"),
        Err(error) => (error.name(), error.key().expect("a key").clone()),
    };
    let names = ["free", "held", "frozen", "spent", "strange"];
    for (last, error) in [(1, "Held"), (2, "Frozen"), (3, "Consumed"), (4, "Corrupt")] {
        let (found, key) = refusal(&names[..=last]).await;
        assert_eq!(found, format!("Lease.{error}"));
        assert_eq!(key, case.key(names[last]));
    }
    assert_eq!(case.stored("free").await, Stored::Absent);
}

#[tokio::test]
async fn a_takeover_tells_of_each_key() {
    let case = Case::new("set/takeover");
    let crashed = case.grant_all(&["a", "b"], "x", "1").await.leases;
    case.refused_all(&["a", "c"], "h", "1").await;
    case.expire();
    let taken = case.grant_all(&["c", "a", "b"], "h", "1").await;
    assert_eq!(taken.grant, GrantKind::Takeover, "as soon as one is");
    assert_eq!(taken.previous[0], None);
    for (previous, lease) in taken.previous[1..].iter().zip(&crashed) {
        let previous = previous.as_ref().expect("a grant before");
        assert_eq!(previous.holder, lease.holder);
        assert_eq!(previous.fencing_token, lease.fencing_token);
        assert_eq!(previous.ended, Ended::Expired);
    }
    let again = case.grant_all(&["c", "a", "b"], "h", "1").await;
    assert_eq!(again.grant, GrantKind::Replayed);
    assert_eq!(again.previous, taken.previous);
}

#[tokio::test]
async fn reentrant_set_takes_holders_leases() {
    let case = Case::new("set/reentrant");
    let own = case.single("a", "h").await;
    let other = case.single("c", "x").await;
    let ask = async |names: &[&str], id: &str| {
        case.leases
            .acquire_all(case.set(names, "h", id).reentrant())
            .await
    };
    // Without `reentrant` the holder is in its own way.
    let answer = case
        .ask_all(&["a", "b"], "h", "0")
        .await
        .expect("an answer");
    assert!(matches!(answer, AcquiredAll::Held(c) if c.held.by_you));
    let held = ask(&["a", "c"], "1").await.expect("an answer");
    assert!(matches!(held, AcquiredAll::Held(c) if c.held.key == other.key));
    let set = ask(&["a", "b"], "2")
        .await
        .expect("an answer")
        .granted()
        .expect("a grant");
    assert_eq!(
        (&set.leases[0], set.grant),
        (&reentered(&own), GrantKind::New)
    );
    assert!(!set.leases[1].reentered);
    assert_eq!(set.leases[1].key, case.key("b"));
    // A repeated request gets the same result, and so does another request that finds all of it held.
    for (id, names, grant) in [
        ("2", ["a", "b"], GrantKind::Replayed),
        ("3", ["b", "a"], GrantKind::Reentered),
    ] {
        let again = ask(&names, id)
            .await
            .expect("an answer")
            .granted()
            .expect("the same");
        assert_eq!(again.grant, grant);
        for lease in &again.leases {
            let is_own = id == "2" && lease.key == set.leases[1].key;
            assert_eq!(lease.reentered, !is_own, "{id} {lease:?}");
        }
        if grant == GrantKind::Reentered {
            let set = LeaseSet::new(again.leases).expect("valid");
            let released = case.leases.release_all(&set).await.expect("an answer");
            assert_eq!(released.outcome, ReleaseOutcome::Kept);
        }
    }
    // A confirmed lease must not have expired.
    for (now, lasts) in [
        (own.expires_at().minus(MS), true),
        (own.expires_at(), false),
    ] {
        let change = Change::CheckHeld(CheckHeld {
            lease_id: own.lease_id.clone(),
            fencing_token: own.fencing_token,
            now,
        });
        let limit = Duration::from_secs(1);
        let changes = [(case.at("a"), change)];
        let applied = case.leases.store().apply_all(&changes, limit).await;
        assert_eq!(applied.expect("an answer") == AppliedAll::Done, lasts);
    }
    case.pass(TTL);
    let late = ask(&["a", "b"], "4").await.expect("an answer");
    assert!(matches!(late, AcquiredAll::Held(_)), "expired: {late:?}");
}

#[tokio::test]
async fn set_ends_with_any_part() {
    let case = Case::new("set/parted");
    let own = case.single("a", "h").await;
    let set = || case.set(&["a", "b"], "h", "1").reentrant();
    let ask = async || case.leases.acquire_all(set()).await;
    drop(ask().await.expect("an answer").granted().expect("a grant"));
    case.give_back(&own).await;
    is_consumed(ask().await, &own.key);
    // Also when the row has forgotten the request.
    let case = Case::new("set/forgotten");
    let set = case.grant_all(&["a", "b"], "h", "1").await.leases;
    case.give_back(&set[0]).await;
    for holder in ["v", "w", "x", "y"] {
        let other = case.single("a", holder).await;
        case.give_back(&other).await;
    }
    is_consumed(case.ask_all(&["a", "b"], "h", "1").await, &set[0].key);
}
