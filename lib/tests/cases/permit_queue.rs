//! The queue of a semaphore: whichever permit comes free is granted to whoever waits first.

use std::collections::BTreeSet;

use super::queue::{QueueCase, Turn, WAIT};
use super::{Lost, contention, make};
use leasehold::{Acquire, Error, Execution, Lease, Leases, Queued, Settings, Wait};

impl QueueCase {
    fn of(&self, permits: u16, who: &str) -> Acquire {
        self.request(who).permits(make::permits(permits))
    }

    async fn asks_for_one(&self, permits: u16, who: &str, queue: Wait) -> Result<Queued, Error> {
        self.is(who, Execution::Running);
        let request = self.of(permits, who);
        self.leases.acquire_queued(request, queue).await
    }

    /// Has a permit at once.
    async fn has_permit(&self, permits: u16, who: &str) -> Lease {
        let answer = self.asks_for_one(permits, who, self.queue(who, WAIT)).await;
        assert_eq!(answer.expect("an answer"), Queued::Acquired);
        self.turn_of(who).lease
    }

    async fn waits_for_permit(&self, permits: u16, who: &str) {
        let answer = self.asks_for_one(permits, who, self.queue(who, WAIT)).await;
        let answer = answer.expect("an answer");
        assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
        self.expect_no_answers();
    }

    /// All of so many permits are held, by "h0", "h1" and so on, and these wait.
    async fn full(key: &str, permits: u16, waiting: &[&str]) -> (QueueCase, Vec<Lease>) {
        let case = QueueCase::new(key);
        let mut leases = Vec::new();
        for n in 0..permits {
            leases.push(case.has_permit(permits, &format!("h{n}")).await);
        }
        for who in waiting {
            case.waits_for_permit(permits, who).await;
        }
        (case, leases)
    }

    async fn release_silently_all(&self, leases: &[Lease]) {
        for lease in leases {
            self.release_silently(lease).await;
        }
    }
}

/// The first that was granted from a place that the row of this permit does not show.
fn with_own_row(leases: &[Lease]) -> &Lease {
    let beside = leases.iter().find(|lease| lease.permit > 0);
    beside.expect("a permit other than the first")
}

/// The first row was unused for so long that it was purged, and fewer may have a permit than have one.
#[tokio::test]
async fn queue_comes_back_without_the_first_row() {
    let (case, held) = QueueCase::full("permits/purged", 4, &[]).await;
    let first = held.iter().find(|lease| lease.permit == 0);
    case.release(first.expect("the first permit")).await;
    case.delete();
    case.waits_for_permit(3, "a").await;
    case.release(with_own_row(&held)).await;
    case.turn_of("a");
}

#[tokio::test]
async fn permits_pass_in_queue_order() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let (case, mut held) = QueueCase::full("permits/in order", 3, &names).await;
    let permits: BTreeSet<_> = held.iter().map(|lease| lease.permit).collect();
    assert_eq!(permits, (0..3).collect());
    case.has_waiting(&names).await;
    for (n, who) in names.iter().enumerate() {
        // Whichever comes free, the first two of them more than once.
        let back = held.remove([0, 1, 1, 0, 2, 0][n]);
        case.release(&back).await;
        let Turn { lease, output, .. } = case.turn_of(who);
        assert_eq!(lease.permit, back.permit);
        assert!(lease.fencing_token > back.fencing_token);
        assert!(lease.deadline.is_none());
        assert_eq!(
            output["previous"]["fencing_token"],
            back.fencing_token.get()
        );
        case.has_waiting(&names[n + 1..]).await;
        assert!(case.waiter(who).await.is_none(), "its item is left");
        held.push(case.prove(&lease).await);
    }
    for lease in &held {
        case.release(lease).await;
    }
    case.expect_no_answers();
    case.has_permit(3, "later").await;
}

#[tokio::test]
async fn request_copy_gets_no_second_permit() {
    let (case, held) = QueueCase::full("permits/copies", 2, &["a", "b"]).await;
    // Of one that has a permit: it is told again.
    let again = case
        .asks_for_one(2, "h1", case.queue("h1 again", WAIT))
        .await;
    assert_eq!(again.expect("an answer"), Queued::Acquired);
    let told = case.turn_of("h1 again");
    assert_eq!(told.lease.lease_id, held[1].lease_id);
    assert_eq!(told.output["grant"], "replayed");
    // Of one that waits: it keeps its place, and its new token counts.
    let again = case.asks_for_one(2, "a", case.queue("a again", WAIT)).await;
    assert!(matches!(again, Ok(Queued::Queued { .. })), "{again:?}");
    case.has_waiting(&["a", "b"]).await;
    let at = held[1].clone();
    case.release(&case.prove(&at).await).await;
    let a = case.turn_of("a again").lease;
    // Of one that has given its permit back, while others wait.
    let late = case.asks_for_one(2, "h1", case.queue("h1", WAIT)).await;
    refused!(late, Consumed);
    case.has_waiting(&["b"]).await;
    // And of one that was granted it from the queue.
    let again = case
        .asks_for_one(2, "a", case.queue("a once more", WAIT))
        .await;
    assert_eq!(again.expect("an answer"), Queued::Acquired);
    assert_eq!(case.turn_of("a once more").lease.lease_id, a.lease_id);
    // A holder that asks by another request, and says so, has what it has.
    let other = case.of(2, "a").request_id(make::request_id("another"));
    let asked = case
        .leases
        .acquire_queued(other.reentrant(), case.queue("x", WAIT));
    assert_eq!(asked.await.expect("an answer"), Queued::Acquired);
    assert_eq!(case.turn_of("x").lease.lease_id, a.lease_id);
    case.has_waiting(&["b"]).await;
    // One that does not say so waits for another permit, unless its own are all there are.
    let other = case.of(2, "a").request_id(make::request_id("a third"));
    let asked = case.leases.acquire_queued(other, case.queue("y", WAIT));
    assert!(matches!(asked.await, Ok(Queued::Queued { .. })));
    let other = case.of(1, "a").request_id(make::request_id("a fourth"));
    let asked = case.leases.acquire_queued(other, case.queue("z", WAIT));
    refused!(asked.await, Held);
}

#[tokio::test]
async fn lowered_number_waits_for_returned_permits() {
    let (case, held) = QueueCase::full("permits/lowered", 3, &[]).await;
    case.waits_for_permit(2, "a").await;
    case.waits_for_permit(2, "b").await;
    // The first of them makes room for nobody; from the second on, two are held at most.
    let last = held
        .iter()
        .position(|lease| lease.permit == 2)
        .expect("one");
    let mut order: Vec<_> = held.iter().filter(|lease| lease.permit < 2).collect();
    order.push(&held[last]);
    case.release(order[0]).await;
    case.expect_no_answers();
    case.release(order[1]).await;
    let a = case.turn_of("a").lease;
    assert!(a.permit < 2);
    case.has_waiting(&["b"]).await;
    case.release(order[2]).await;
    let b = case.turn_of("b").lease;
    assert!(b.permit < 2 && b.permit != a.permit);
}

#[tokio::test]
async fn raised_number_waits_for_older() {
    let (case, held) = QueueCase::full("permits/raised later", 2, &[]).await;
    case.waits_for_permit(3, "a").await;
    case.waits_for_permit(3, "b").await;
    case.waits_for_permit(3, "c").await;
    assert!(!case.hand_over().await);
    case.release(&held[0]).await;
    case.turn_of("a");
    case.has_waiting(&["b", "c"]).await;
    // The last of the older ones makes room for two.
    case.release(&held[1]).await;
    let told: Vec<_> = case.answers().into_iter().map(|(who, _)| who).collect();
    assert_eq!(told, ["b", "c"]);
    case.waits_for_permit(3, "d").await;
}

#[tokio::test]
async fn first_waiter_brings_its_number() {
    let (case, held) = QueueCase::full("permits/smaller", 3, &[]).await;
    case.waits_for_permit(2, "a").await;
    case.waits_for_permit(3, "b").await;
    case.release(&held[0]).await;
    case.expect_no_answers();
    case.release(&held[1]).await;
    let a = case.turn_of("a").lease;
    assert!(!case.hand_over().await, "two are held, of two at most");
    case.has_waiting(&["b"]).await;
    // A proof keeps the number.
    let a = case.prove(&a).await;
    assert!(!case.hand_over().await);
    case.release(&a).await;
    case.turn_of("b");
    case.has_permit(3, "c").await;
    case.waits_for_permit(3, "d").await;
}

#[tokio::test]
async fn nobody_passes_permit_waiters() {
    let (case, held) = QueueCase::full("permits/no passing", 2, &["a", "b"]).await;
    let asker = case.case.request("x", "by x").permits(make::permits(2));
    let meets = contention(&case.leases, asker.clone()).await;
    assert_eq!(meets.held.waiting, 2);
    // Both are free, and nobody was told.
    case.release_silently_all(&held).await;
    let meets = contention(&case.leases, asker.clone()).await;
    assert_eq!(
        (meets.held.waiting, meets.held.holder),
        (2, make::execution("a"))
    );
    let next = case.asks_for_one(2, "c", case.queue("c", WAIT)).await;
    assert!(matches!(next, Ok(Queued::Queued { .. })), "{next:?}");
    case.has_waiting(&["a", "b", "c"]).await;
    // Whoever serves the queue serves all who have room.
    assert!(case.hand_over().await);
    let told: Vec<_> = case.answers().into_iter().map(|(who, _)| who).collect();
    assert_eq!(told, ["a", "b"]);
    case.has_waiting(&["c"]).await;
    assert!(!case.hand_over().await);
    assert_eq!(contention(&case.leases, asker).await.held.waiting, 1);
}

#[tokio::test]
async fn hopeless_waiter_is_passed_over() {
    for from_first in [false, true] {
        let key = format!("permits/in vain {from_first}");
        let (case, held) = QueueCase::full(&key, 2, &["a", "b", "c"]).await;
        case.calls.expire_token(&case.token("a"));
        let item = case.waiter("b").await.expect("an item");
        let deleted = leasehold::store::Operations::delete_waiter(
            case.leases.store(),
            &case.address.key,
            &item,
            std::time::Duration::from_secs(1),
        );
        deleted.await.expect("deleted");
        let back = held.iter().find(|lease| (lease.permit == 0) == from_first);
        let back = back.expect("a permit");
        case.release(back).await;
        let turn = case.turn_of("c");
        assert_eq!(turn.lease.permit, back.permit);
        // The token of the grant that was taken back is used up.
        assert!(turn.lease.fencing_token.get() > back.fencing_token.get() + 1);
        case.has_waiting(&[]).await;
        // Nobody knows of that grant, so that the request may ask anew.
        case.calls.renew_token(&case.token("a"));
        case.waits_for_permit(2, "a").await;
    }
}

#[tokio::test]
async fn sweep_tells_of_untold_permit() {
    let (case, held) = QueueCase::full("permits/untold", 2, &["a", "b"]).await;
    case.calls.lose(&case.token("a"), Lost::Request, 2);
    case.release(with_own_row(&held)).await;
    case.expect_no_answers();
    case.has_waiting(&["b"]).await;
    case.swept_later().await;
    let a = case.turn_of("a").lease;
    assert!(a.permit > 0 && case.waiter("a").await.is_none());
    case.sweep().await;
    case.expect_no_answers();
    case.prove(&a).await;
}

#[tokio::test]
async fn a_frozen_queue_keeps_its_places() {
    let (case, held) = QueueCase::full("permits/frozen", 2, &["a", "b"]).await;
    let key = &case.address.key;
    let frozen = case.leases.freeze(key, &make::because()).await;
    let _ = frozen.expect("frozen");
    for lease in &held {
        case.release(lease).await;
    }
    case.sweep().await;
    case.expect_no_answers();
    case.has_waiting(&["a", "b"]).await;
    refused!(
        case.asks_for_one(2, "c", case.queue("c", WAIT)).await,
        Frozen
    );
    // Who waits may ask again, and by another token.
    let again = case.asks_for_one(2, "a", case.queue("a again", WAIT)).await;
    assert!(matches!(again, Ok(Queued::Queued { .. })), "{again:?}");
    let unfrozen = case.leases.unfreeze(key, &make::because()).await;
    let _ = unfrozen.expect("unfrozen");
    let told: Vec<_> = case.answers().into_iter().map(|(who, _)| who).collect();
    assert_eq!(told, ["a again", "b"]);
    case.has_waiting(&[]).await;
}

#[tokio::test]
async fn permit_with_deadline_is_passed_on() {
    let case = QueueCase::new("permits/ttl");
    let mut held = Vec::new();
    for n in 0..2 {
        let request = case.case.request(&format!("p{n}"), &format!("by p{n}"));
        let request = request.permits(make::permits(2));
        held.push(super::grant(&case.leases, request).await.lease);
    }
    case.waits_for_permit(2, "a").await;
    case.waits_for_permit(2, "b").await;
    // Given back, which serves at once, and run out.
    case.release(with_own_row(&held)).await;
    case.turn_of("a");
    case.case.expire();
    case.sweep().await;
    case.sweep().await;
    case.turn_of("b");
}

#[tokio::test]
async fn ended_execution_passes_permit_on() {
    let (case, held) = QueueCase::full("permits/ended", 2, &["a"]).await;
    let lease = with_own_row(&held);
    let ended = Execution::Ended {
        stopped_at: case.now(),
        all_answered: true,
        redrivable: false,
    };
    let who = if held[0].permit > 0 { "h0" } else { "h1" };
    case.is(who, ended);
    // Because somebody waits, no sweep leaves it out.
    case.sweep().await;
    let turn = case.turn_of("a");
    assert_eq!(turn.lease.permit, lease.permit);
    turn.follows(lease);
}

/// One of its permits was granted just now, and the index still shows that it waits.
#[tokio::test]
async fn reap_ends_every_permit_held() {
    let (case, held) = QueueCase::full("permits/reaped", 2, &[]).await;
    // The same execution waits once more, by another request.
    let holder = held[0].holder.clone();
    let mut once_more = case.of(2, "h0").request_id(make::request_id("once more"));
    once_more.holder = holder.clone();
    let asked = case
        .leases
        .acquire_queued(once_more, case.queue("once more", WAIT));
    assert!(matches!(asked.await, Ok(Queued::Queued { .. })));
    case.waits_for_permit(2, "a").await;
    case.release(&held[1]).await;
    let granted = case.turn_of("once more").lease;
    let ended = Execution::Ended {
        stopped_at: case.now(),
        all_answered: true,
        redrivable: false,
    };
    case.is("h0", ended);
    case.pass(super::MS);
    let reaped = case.leases.reap(&holder).await;
    reaped.expect("an answer");
    let row = case.row_of(granted.permit).await;
    assert!(row.holding().is_none_or(|_| row.granted_to != holder));
    case.turn_of("a");
}

/// The number was raised while somebody waited.
#[tokio::test]
async fn unused_permit_goes_to_waiter() {
    let case = QueueCase::new("permits/raised");
    let lease = case.lease("holder").await;
    case.waits_for_permit(1, "a").await;
    case.waits_for_permit(3, "b").await;
    case.waits_for_permit(3, "c").await;
    case.release(&lease).await;
    let a = case.turn_of("a").lease;
    case.sweep().await;
    case.expect_no_answers();
    case.release(&a).await;
    let answers = case.answers();
    let told: Vec<_> = answers.iter().map(|(who, _)| who.as_str()).collect();
    assert_eq!(told, ["b", "c"]);
    let permits = answers.iter().map(|(_, answer)| {
        let output = answer.as_ref().expect("its turn");
        output["lease"]["permit"].as_u64().expect("a number")
    });
    assert_eq!(permits.collect::<Vec<_>>(), [0, 1]);
    // A late write of a client that knows nothing of it is none of theirs.
    let stranger = Leases::new(case.table.clone(), Settings::default());
    let gone = stranger.release(&lease).await.expect("an answer");
    assert_ne!(gone.outcome, leasehold::ReleaseOutcome::Released);
    assert!(case.row_of(1).await.holding().is_some());
}

#[tokio::test]
async fn only_newest_waits_for_permit() {
    let (case, held) = QueueCase::full("permits/newest", 2, &["a", "b"]).await;
    let queue = Wait {
        latest: true,
        ..case.queue("c", WAIT)
    };
    let answer = case.asks_for_one(2, "c", queue).await;
    assert!(matches!(answer, Ok(Queued::Queued { .. })), "{answer:?}");
    let away: Vec<_> = case.answers().into_iter().collect();
    for (who, answer) in &away {
        let (name, _) = answer.as_ref().expect_err("a failure");
        assert_eq!(name, "Lease.Superseded", "{who}");
    }
    assert_eq!(away.len(), 2);
    case.release(with_own_row(&held)).await;
    case.turn_of("c");
}
