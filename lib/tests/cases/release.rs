use std::collections::BTreeSet;

use super::{Case, MS, TTL, invalid, make};
use leasehold::{
    Ended, GrantKind, Inspected, Lease, LeaseState, LeaseView, ReleaseOutcome, SweepBounds, Swept,
    store::{Applied, Operations as _},
    transition::{Change, EndIfUnchanged},
};

impl Case {
    async fn release(&self, lease: &Lease) -> (ReleaseOutcome, bool) {
        let released = self.leases.release(lease).await.expect("an answer");
        (released.outcome, released.expired)
    }
}

#[tokio::test]
async fn release_may_be_repeated_forever() {
    use ReleaseOutcome::{AlreadyReleased, Released};
    let case = Case::new("release/repeated");
    let lease = case.lease("a").await;
    assert_eq!(case.release(&lease).await, (Released, false));
    assert_eq!(case.release(&lease).await, (AlreadyReleased, false));
    // Also while somebody else holds the key; that lease does not change.
    let other = case.grant("b", "2").await;
    assert_eq!(other.grant, GrantKind::New);
    assert_eq!(other.previous.map(|p| p.ended), Some(Ended::Released));
    assert_eq!(case.release(&lease).await, (AlreadyReleased, false));
    assert_eq!(case.row().await.version, other.lease.version);
    let strict = case.leases.release_strictly(&lease).await;
    assert_eq!(strict.expect("the row proves it").outcome, AlreadyReleased);
    case.delete();
    assert_eq!(case.release(&lease).await, (AlreadyReleased, false));
}

#[tokio::test]
async fn release_after_takeover_is_lost() {
    let case = Case::new("release/lost");
    let lease = case.lease("a").await;
    case.expire();
    let other = case.lease("b").await;
    assert_eq!(case.release(&lease).await, (ReleaseOutcome::Lost, true));
    refused!(case.leases.release_strictly(&lease).await, Lost);
    assert_eq!(case.row().await.version, other.version, "untouched");
    // The other lease has ended by now, which proves nothing about the old one.
    case.give_back(&other).await;
    assert_eq!(case.release(&lease).await, (ReleaseOutcome::Lost, true));
}

/// A release whose answer was lost, and that is repeated when others had the key since.
#[tokio::test]
async fn release_is_remembered_through_next_grants() {
    let case = Case::new("release/remembered");
    let first = case.lease("a").await;
    case.give_back(&first).await;
    let second = case.lease("b").await;
    case.give_back(&second).await;
    case.lease("c").await;
    for lease in [&first, &second] {
        let strict = case.leases.release_strictly(lease).await;
        let outcome = strict.expect("the row proves it").outcome;
        assert_eq!(outcome, ReleaseOutcome::AlreadyReleased);
    }
    // What was taken over or forced in between was not released, and pushes nothing out.
    case.expire();
    let taken = case.lease("d").await;
    case.expire();
    let forced = case.lease("e").await;
    case.evict(None).await;
    let last = case.lease("f").await;
    for lease in [&taken, &forced] {
        assert_eq!(case.give_back(lease).await, ReleaseOutcome::Lost);
    }
    case.give_back(&last).await;
    let seen = case.give_back(&first).await;
    assert_eq!(seen, ReleaseOutcome::AlreadyReleased);
    // The row remembers three. Of an older one it proves nothing.
    case.give_back(&case.lease("g").await).await;
    assert_eq!(case.give_back(&first).await, ReleaseOutcome::Lost);
}

#[tokio::test]
async fn an_expired_lease_may_be_released() {
    let case = Case::new("release/expired");
    let lease = case.lease("a").await;
    case.clock.set(lease.expires_at());
    assert_eq!(case.release(&lease).await, (ReleaseOutcome::Released, true));
    let next = case.grant("b", "2").await;
    assert_eq!(next.grant, GrantKind::New);
    assert_eq!(next.previous.map(|p| p.ended), Some(Ended::Released));
}

#[tokio::test]
async fn sweep_frees_only_expired_leases() {
    let case = Case::new("sweep/expired");
    let (start, table) = (case.now(), &case.table);
    let at_start = |key: &str| {
        let case = Case::on(table.clone(), key);
        case.clock.set(start);
        case
    };
    let expired = case.lease("a").await;
    let frozen = at_start("sweep/frozen");
    frozen.lease("a").await;
    frozen.freeze().await;
    let stranger = at_start("sweep/stranger");
    stranger.lease("a").await;
    stranger.tamper(|item| drop(item.remove("lease_id"))).await;
    let extended = at_start("sweep/extended");
    let lease = extended.lease("a").await;
    extended.pass(TTL / 2);
    let lease = extended.extended(&lease).await;

    case.expire();
    case.clock.set(case.now().minus(MS));
    let early = case.swept().await;
    assert_eq!((early.freed, early.skipped_corrupt), (0, 0), "too early");
    case.pass(MS);
    let mut swept = Swept::default();
    let mut cursor = None;
    loop {
        let bounds = SweepBounds::Call { limit: 1, cursor };
        let one = case.leases.sweep(bounds).await.expect("swept");
        assert!(one.examined <= 1, "{one:?}");
        swept.examined += one.examined;
        swept.freed += one.freed;
        swept.skipped_corrupt += one.skipped_corrupt;
        cursor = one.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((swept.freed, swept.skipped_corrupt), (1, 1), "{swept:?}");
    assert_eq!(swept.examined, 4, "{swept:?}");

    refused!(case.extension(&expired).await, Lost);
    let released = case.release(&expired).await;
    assert_eq!(released, (ReleaseOutcome::AlreadyReleased, true));
    let next = case.grant("b", "2").await;
    assert_eq!(next.grant, GrantKind::Takeover);
    assert_eq!(next.previous.map(|p| p.ended), Some(Ended::Expired));
    assert_eq!(extended.row().await.version, lease.version, "untouched");
    assert!(frozen.row().await.holding().is_some(), "passed over");
}

#[tokio::test]
async fn sweep_frees_nothing_changed_since_read() {
    let case = Case::new("sweep/changed");
    let lease = case.lease("a").await;
    let read = case.row().await.version;
    let extended = case.extended(&lease).await;
    let expire = async |version| {
        let change = Change::EndIfUnchanged(EndIfUnchanged {
            version,
            ended: Ended::Expired,
            purge_at: 1,
        });
        let limit = std::time::Duration::from_secs(1);
        let store = case.leases.store();
        store.apply(&case.address, &change, limit).await
    };
    let late = expire(read).await;
    assert!(matches!(late, Ok(Applied::Refused(_))), "{late:?}");
    assert_eq!(case.row().await.version, extended.version, "untouched");
    let timely = expire(extended.version).await;
    assert!(matches!(timely, Ok(Applied::Done { .. })), "{timely:?}");
}

#[tokio::test]
async fn inspect_tells_everything_but_the_secret() {
    let case = Case::new("inspect/one");
    let absent = case.leases.inspect(&case.address.key).await;
    assert_eq!(absent.expect("an answer"), Inspected::Absent);
    let lease = case.lease("a").await;
    let (held, permits) = case.inspected().await;
    assert!(permits.is_empty(), "a mutex");
    let json = serde_json::to_string(&held).expect("JSON");
    assert!(!json.contains(lease.lease_id.expose()), "{json}");
    assert!(!json.contains("lease_id"), "{json}");
    assert_eq!((held.state, held.frozen), (LeaseState::Held, false));
    assert_eq!(held.previous, None);
    let view = held.lease.held.expect("it is held");
    assert_eq!(view.holder, lease.holder.clone());
    assert_eq!(view.expires_at(), Some(lease.expires_at()));
    case.clock.set(lease.expires_at());
    assert_eq!(case.inspected().await.0.state, LeaseState::Expired);
    case.freeze().await;
    case.release(&lease).await;
    let (free, _) = case.inspected().await;
    assert_eq!((free.state, free.frozen), (LeaseState::Free, true));
    assert_eq!(free.lease.held, None);
    assert_eq!(free.lease.fencing_token, lease.fencing_token);
    let previous = free.previous.expect("the lease that ended");
    assert_eq!(previous.fencing_token, lease.fencing_token);
    assert_eq!(previous.ended, Ended::Released);
}

#[tokio::test]
async fn lists_show_what_is_held() {
    let one = Case::new("list/one");
    let two = Case::on(one.table.clone(), "list/two");
    let lease = one.lease("list holder").await;
    two.lease("list holder").await;
    let held_by = async |limit, cursor| {
        let listed = one.leases.held_by(&lease.holder, limit, cursor).await;
        listed.expect("an answer")
    };
    let keys = |leases: Vec<LeaseView>| {
        leases
            .into_iter()
            .map(|view| view.key)
            .collect::<BTreeSet<_>>()
    };
    let (first_key, second_key) = (one.address.key.clone(), two.address.key.clone());
    let both = BTreeSet::from([first_key.clone(), second_key.clone()]);
    assert_eq!(keys(held_by(10, None).await.leases), both);
    // One at a time, and not from a cursor of another holder's list.
    let first = held_by(1, None).await;
    let rest = held_by(1, first.cursor.clone()).await;
    assert_eq!((first.leases.len(), rest.leases.len()), (1, 1));
    assert_eq!(keys([first.leases, rest.leases].concat()), both);
    let stranger = make::holder("somebody else");
    let mixed = one.leases.held_by(&stranger, 1, first.cursor).await;
    invalid(mixed, "cursor");
    let mut cursor = None;
    let mut all = Vec::new();
    loop {
        let page = one.leases.list(1, cursor).await.expect("an answer");
        assert!(page.leases.len() <= 1);
        all.extend(page.leases.into_iter().map(|view| view.key));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    for key in [first_key, second_key.clone()] {
        let times = all.iter().filter(|listed| **listed == key).count();
        assert_eq!(times, 1, "{key} in {all:?}");
    }
    one.release(&lease).await;
    assert_eq!(keys(held_by(10, None).await.leases), [second_key].into());
}
