use super::{Bench, Case, MS, TTL};
use crate::{
    Ended, Error, GrantKind, Holder, Inspected, Lease, LeaseState, ReleaseOutcome, SweepBounds,
    Swept,
    store::{Applied, Store as _},
    transition::{Change, End, Next},
};

pub(super) async fn all<B: Bench>(bench: &B) {
    a_release_may_be_repeated_for_ever(bench).await;
    a_release_after_a_takeover_is_lost(bench).await;
    an_expired_lease_may_be_released(bench).await;
    sweep_frees_what_expired_and_nothing_else(bench).await;
    sweep_frees_nothing_that_changed_since_it_was_read(bench).await;
    inspect_tells_everything_but_the_secret(bench).await;
    lists_show_what_is_held(bench).await;
}

impl<B: Bench> Case<'_, B> {
    async fn release(&self, lease: &Lease) -> (ReleaseOutcome, bool) {
        let released = self.leases.release(lease).await.expect("an answer");
        (released.outcome, released.expired)
    }
}

async fn a_release_may_be_repeated_for_ever<B: Bench>(bench: &B) {
    use ReleaseOutcome::{AlreadyReleased, Released};
    let case = Case::new(bench, "release/repeated");
    let lease = case.lease("a").await;
    assert_eq!(case.release(&lease).await, (Released, false));
    assert_eq!(case.release(&lease).await, (AlreadyReleased, false));
    // Also while somebody else holds it, whose lease is untouched.
    let other = case.grant("b", "2").await;
    assert_eq!(other.grant, GrantKind::New);
    assert_eq!(other.previous.map(|p| p.ended), Some(Ended::Released));
    assert_eq!(case.release(&lease).await, (AlreadyReleased, false));
    assert_eq!(case.row().await.version, other.lease.version);
    let strict = case.leases.release_strictly(&lease).await;
    assert_eq!(strict.expect("the row proves it").outcome, AlreadyReleased);
    case.bench.delete(&case.address).await;
    assert_eq!(case.release(&lease).await, (AlreadyReleased, false));
}

async fn a_release_after_a_takeover_is_lost<B: Bench>(bench: &B) {
    let case = Case::new(bench, "release/lost");
    let lease = case.lease("a").await;
    case.expire();
    let other = case.lease("b").await;
    assert_eq!(case.release(&lease).await, (ReleaseOutcome::Lost, true));
    refused!(case.leases.release_strictly(&lease).await, Lost);
    assert_eq!(case.row().await.version, other.version, "untouched");
    // That the other lease is over by now proves nothing about the old one.
    case.give_back(&other).await;
    assert_eq!(case.release(&lease).await, (ReleaseOutcome::Lost, true));
}

async fn an_expired_lease_may_be_released<B: Bench>(bench: &B) {
    let case = Case::new(bench, "release/expired");
    let lease = case.lease("a").await;
    case.clock.set(lease.expires_at);
    assert_eq!(case.release(&lease).await, (ReleaseOutcome::Released, true));
    let next = case.grant("b", "2").await;
    assert_eq!(
        (next.grant, next.previous.map(|p| p.ended)),
        (GrantKind::New, Some(Ended::Released))
    );
}

async fn sweep_frees_what_expired_and_nothing_else<B: Bench>(bench: &B) {
    // Whatever the cases before left behind goes first.
    let case = Case::new(bench, "sweep/expired");
    case.pass(100 * TTL);
    case.leases
        .sweep(SweepBounds::Schedule)
        .await
        .expect("swept");

    let start = case.now();
    let expired = case.lease("a").await;
    let frozen = Case::new(bench, "sweep/frozen");
    frozen.clock.set(start);
    frozen.lease("a").await;
    frozen.freeze().await;
    let stranger = Case::new(bench, "sweep/stranger");
    stranger.clock.set(start);
    stranger.lease("a").await;
    stranger.tamper(|item| drop(item.remove("lease_id"))).await;
    let extended = Case::new(bench, "sweep/extended");
    extended.clock.set(start);
    let lease = extended.lease("a").await;
    extended.pass(TTL / 2);
    let lease = extended.extension(&lease).await;
    let lease = lease.expect("extended").into_lease();

    case.expire();
    case.clock.set(case.now().minus(MS));
    let early = case
        .leases
        .sweep(SweepBounds::Schedule)
        .await
        .expect("swept");
    assert_eq!(
        (early.freed, early.skipped_corrupt),
        (0, 0),
        "not before the margin"
    );
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
    // Frozen keys of earlier cases are passed over as well.
    assert_eq!((swept.freed, swept.skipped_corrupt), (1, 1), "{swept:?}");
    assert!(swept.examined >= 4, "{swept:?}");

    refused!(case.extension(&expired).await, Lost);
    assert_eq!(
        case.release(&expired).await,
        (ReleaseOutcome::AlreadyReleased, true)
    );
    let next = case.grant("b", "2").await;
    assert_eq!(
        (next.grant, next.previous.map(|p| p.ended)),
        (GrantKind::Takeover, Some(Ended::Expired))
    );
    assert_eq!(extended.row().await.version, lease.version, "untouched");
    assert!(frozen.row().await.holding().is_some(), "passed over");
}

async fn sweep_frees_nothing_that_changed_since_it_was_read<B: Bench>(bench: &B) {
    let case = Case::new(bench, "sweep/changed");
    let lease = case.lease("a").await;
    let read = case.row().await.version;
    let extended = case.extension(&lease).await;
    let extended = extended.expect("extended").into_lease();
    let expire = async |version| {
        let change = Change::End(End {
            version,
            ended: Ended::Expired,
            next: Next::Later,
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

async fn inspect_tells_everything_but_the_secret<B: Bench>(bench: &B) {
    let case = Case::new(bench, "inspect/one");
    let inspect = async || {
        case.leases
            .inspect(&case.address.key)
            .await
            .expect("an answer")
    };
    assert_eq!(inspect().await, Inspected::Absent);
    let lease = case.lease("a").await;
    let found = async || match inspect().await {
        Inspected::Found { first, permits } => {
            assert!(permits.is_empty(), "a mutex");
            first
        }
        Inspected::Absent => panic!("absent"),
    };
    let held = found().await;
    assert_eq!(
        (held.state, held.previous, held.frozen),
        (LeaseState::Held, None, false)
    );
    let view = held.lease.held.expect("it is held");
    assert_eq!(
        (view.holder, view.expires_at),
        (lease.holder.clone(), lease.expires_at)
    );
    let json = serde_json::to_string(&inspect().await).expect("json");
    assert!(
        !json.contains(lease.lease_id.expose()) && !json.contains("lease_id"),
        "{json}"
    );
    case.clock.set(lease.expires_at);
    assert_eq!(found().await.state, LeaseState::Expired);
    case.freeze().await;
    case.release(&lease).await;
    let free = found().await;
    assert_eq!(
        (free.state, free.lease.held, free.frozen),
        (LeaseState::Free, None, true)
    );
    assert_eq!(free.lease.fencing_token, lease.fencing_token);
    let previous = free.previous.expect("the lease that ended");
    assert_eq!(
        (previous.fencing_token, previous.ended),
        (lease.fencing_token, Ended::Released)
    );
}

async fn lists_show_what_is_held<B: Bench>(bench: &B) {
    let (one, two) = (Case::new(bench, "list/one"), Case::new(bench, "list/two"));
    let lease = one.lease("list holder").await;
    two.lease("list holder").await;
    let holder = lease.holder.clone();
    let keys = async || {
        let listed = one
            .leases
            .held_by(&holder, 10, None)
            .await
            .expect("an answer");
        let mut keys: Vec<_> = listed.leases.into_iter().map(|l| l.key).collect();
        keys.sort();
        keys
    };
    let both = [one.address.key.clone(), two.address.key.clone()];
    assert_eq!(keys().await, both);
    // One at a time, and not from a place in somebody else's list.
    let first = one.leases.held_by(&holder, 1, None).await;
    let first = first.expect("an answer");
    let rest = one.leases.held_by(&holder, 1, first.cursor.clone()).await;
    let rest = rest.expect("an answer");
    let paged = first.leases.into_iter().chain(rest.leases);
    let mut paged: Vec<_> = paged.map(|lease| lease.key).collect();
    paged.sort();
    assert_eq!(paged, both);
    let stranger = Holder::new("somebody else").expect("valid");
    let mixed = one.leases.held_by(&stranger, 1, first.cursor).await;
    let Err(Error::Invalid { field, .. }) = mixed else {
        panic!("{mixed:?}");
    };
    assert_eq!(field.as_deref(), Some("cursor"));
    let mut cursor = None;
    let mut all = Vec::new();
    loop {
        let page = one.leases.list(1, cursor).await.expect("an answer");
        assert!(page.leases.len() <= 1);
        all.extend(page.leases.into_iter().map(|l| l.key));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    for key in &both {
        assert_eq!(
            all.iter().filter(|k| *k == key).count(),
            1,
            "{key} in {all:?}"
        );
    }
    one.release(&lease).await;
    assert_eq!(keys().await, both[1..]);
}
