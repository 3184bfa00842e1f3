//! Only the newest waits: whoever joins the queue with `latest` sends away who waits already.

use serde_json::Value;

use super::queue::{QueueCase, WAIT};
use super::{LIMIT, Lost, make, with};
use leasehold::{
    AcquireAll, AcquiredAll, Error, Execution, Keys, Lifetime, Permits, Queued, RequestId,
    Settings, Ttl, Wait,
    request::InsteadOf,
    store::{Joined, Operations as _},
    transition::{Change, Join, JoinRule},
};

impl QueueCase {
    /// As [`QueueCase::ask`], with `latest`.
    async fn asks_last(&self, who: &str, token: &str) -> Result<Queued, Error> {
        self.is(who, Execution::Running);
        let queue = Wait {
            latest: true,
            ..self.queue(token, WAIT)
        };
        self.leases.acquire_queued(self.request(who), queue).await
    }

    async fn waits_alone(&self, who: &str) {
        let answer = self.asks_last(who, who).await.expect("an answer");
        assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
        self.has_waiting(&[who]).await;
    }

    /// Asserts that exactly these were told that `by` came later.
    fn sent_away(&self, tokens: &[&str], by: &str) {
        let answers = self.answers();
        let told: Vec<_> = answers.iter().map(|(token, _)| token.as_str()).collect();
        assert_eq!(told, tokens);
        let holder = make::execution(by);
        for (_, answer) in answers {
            let (name, cause) = answer.expect_err("a failure");
            assert_eq!(name, "Lease.Superseded");
            let message = cause["errorMessage"].as_str().expect("text");
            let message: Value = serde_json::from_str(message).expect("JSON once more");
            assert_eq!(message["by"], holder.as_str());
            assert_eq!(message["key"], self.address.key.as_str());
        }
    }
}

#[tokio::test]
async fn whoever_waits_is_sent_away() {
    let (case, lease) = QueueCase::held("newest/alone", &["a", "b"]).await;
    case.waits_alone("c").await;
    case.sent_away(&["a", "b"], "c");
    // Repeated, it keeps its place.
    case.waits_alone("c").await;
    case.expect_no_answers();
    case.waits_alone("d").await;
    case.sent_away(&["c"], "d");
    // Who does not say so waits behind it.
    case.join("e").await;
    case.expect_no_answers();
    case.has_waiting(&["d", "e"]).await;
    let waiters = case.leases.waiters(&case.address.key).await;
    let waiters = waiters.expect("an answer");
    let shown: Vec<_> = waiters
        .iter()
        .map(|waits| (waits.place, &waits.holder))
        .collect();
    let holders = ["d", "e"].map(make::execution);
    assert_eq!(shown, [(1, &holders[0]), (2, &holders[1])]);
    case.release(&lease).await;
    case.turn_of("d");
}

/// The newest has its place, and its call dies before the others are sent away.
#[tokio::test]
async fn sweep_finishes_what_the_newest_began() {
    let (case, lease) = QueueCase::held("newest/half", &["a"]).await;
    case.is("b", Execution::Running);
    let first = case.waiter("a").await.expect("an item");
    let holder = make::execution("b");
    let newest = with(first, |waiter| {
        waiter.request.digest = QueueCase::digest("b");
        waiter.request.holder = holder.clone();
        waiter.task_token = case.queue("b", WAIT).task_token;
        waiter.request.instead_of = Some(InsteadOf::Waiters);
    });
    let join = Change::Join(Join {
        request: newest.request.digest.clone(),
        rule: JoinRule::Always,
        cap: 9,
    });
    let store = case.leases.store();
    let newest = (&newest, None);
    let joined = store.put_token(&case.address, &join, newest, LIMIT).await;
    assert_eq!(joined.expect("an answer"), Joined::Done);
    case.has_waiting(&["a", "b"]).await;
    case.sweep().await;
    case.sent_away(&["a"], "b");
    case.has_waiting(&["b"]).await;
    case.release(&lease).await;
    case.turn_of("b");
}

#[tokio::test]
async fn granted_waiter_keeps_its_key() {
    let (case, turn) = QueueCase::handed_over("newest/granted", &["a"]).await;
    case.waits_alone("b").await;
    case.expect_no_answers();
    case.release(&turn.lease).await;
    case.turn_of("b");
}

#[tokio::test]
async fn sweep_tells_waiter_sent_away() {
    let (case, lease) = QueueCase::held("newest/untold", &["a"]).await;
    case.calls.lose(&case.token("a"), Lost::Request, 1);
    case.waits_alone("b").await;
    case.expect_no_answers();
    case.sweep().await;
    case.sent_away(&["a"], "b");
    case.sweep().await;
    case.expect_no_answers();
    case.release(&lease).await;
    case.turn_of("b");
}

#[tokio::test]
async fn sent_away_copy_does_not_return() {
    let (case, lease) = QueueCase::held("newest/copies", &["a"]).await;
    case.calls.lose(&case.token("a"), Lost::Request, 1);
    case.waits_alone("b").await;
    // Before it was told, and after; with its token, and with another.
    for swept in [false, true] {
        if swept {
            case.sweep().await;
            case.sent_away(&["a"], "b");
        }
        for token in ["a", "again"] {
            for answer in [case.ask("a", token).await, case.asks_last("a", token).await] {
                let by = match answer {
                    Err(Error::Superseded { by, .. }) => by,
                    answer => panic!("{answer:?}"),
                };
                assert_eq!(by, make::execution("b"));
            }
        }
        case.expect_no_answers();
        case.has_waiting(&["b"]).await;
    }
    case.release(&lease).await;
    case.turn_of("b");
}

/// A permit is asked for before the queue is joined, where the note of its request would be found.
#[tokio::test]
async fn sent_away_copy_gets_no_permit() {
    let case = QueueCase::new("newest/permits");
    let two = Permits::new(2).expect("valid");
    let ask = async |who: &str, token: &str, latest: bool| {
        case.is(who, Execution::Running);
        let wait = with(case.queue(token, WAIT), |wait| wait.latest = latest);
        let request = case.request(who).permits(two);
        case.leases.acquire_queued(request, wait).await
    };
    let mut held = Vec::new();
    for who in ["first", "second"] {
        assert_eq!(
            ask(who, who, false).await.expect("an answer"),
            Queued::Acquired
        );
        held.push(case.turn_of(who).lease);
    }
    for (who, latest) in [("a", false), ("b", true)] {
        let asked = ask(who, who, latest).await.expect("an answer");
        assert!(matches!(asked, Queued::Queued { .. }), "{asked:?}");
    }
    case.sent_away(&["a"], "b");
    case.release(&held[0]).await;
    case.turn_of("b");
    case.release(&held[1]).await;
    for token in ["again", "a"] {
        let copy = ask("a", token, false).await;
        assert!(matches!(copy, Err(Error::Superseded { .. })), "{copy:?}");
        case.expect_no_answers();
    }
    assert_eq!(
        ask("c", "c", false).await.expect("an answer"),
        Queued::Acquired
    );
}

#[tokio::test]
async fn newest_finds_place_in_full_queue() {
    let full = with(Settings::default(), |settings| settings.queue_cap = 1);
    let case = QueueCase::with("newest/full", full);
    let lease = case.case.lease("holder").await;
    case.join("a").await;
    let refused = case.ask("b", "b").await;
    assert!(
        matches!(refused, Err(Error::QueueFull { .. })),
        "{refused:?}"
    );
    case.waits_alone("c").await;
    case.sent_away(&["a"], "c");
    case.release(&lease).await;
    case.turn_of("c");
}

#[tokio::test]
async fn newest_is_granted_free_key() {
    let (case, lease) = QueueCase::held("newest/left", &["a"]).await;
    case.release_silently(&lease).await;
    let answer = case.asks_last("b", "b").await.expect("an answer");
    assert!(matches!(answer, Queued::Queued { .. }), "{answer:?}");
    let answers = case.answers();
    let told = answers
        .iter()
        .map(|(who, what)| (who.as_str(), what.is_ok()));
    assert_eq!(told.collect::<Vec<_>>(), [("a", false), ("b", true)]);
}

/// The row forgets which keys the grant before was for.
#[tokio::test]
async fn waiter_repeats_request_after_set() {
    let case = QueueCase::with("newest/after a set", Settings::default());
    let ttl = Ttl::new(std::time::Duration::from_mins(1)).expect("valid");
    let keys = vec![case.address.key.clone(), make::key("newest/beside")];
    let set = AcquireAll::new(
        Keys::new(keys).expect("valid"),
        make::holder("set"),
        Lifetime::Ttl(ttl),
    );
    let set = set.request_id(RequestId::random());
    let acquired = case.leases.acquire_all(set).await.expect("an answer");
    let AcquiredAll::Granted(granted) = acquired else {
        panic!("{acquired:?}");
    };
    case.join("a").await;
    case.release(&granted.leases[0]).await;
    let turn = case.turn_of("a");
    // Its call was repeated late: it has the lease.
    let again = case.leases.acquire(case.request("a")).await;
    let again = again.expect("an answer").granted().expect("the same lease");
    assert_eq!(again.lease.fencing_token, turn.lease.fencing_token);
    case.release(&turn.lease).await;
}
