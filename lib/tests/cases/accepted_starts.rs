//! What was accepted as a start runs, or is a failed start with its request, whatever is frozen, stopped, full or denied.

use std::time::Duration;

use super::starts::{HOUR, MACHINE, StartCase, execution, lease_of};
use super::{LIMIT, MARGIN, MS, STALE, StartFate, TTL, grant, make, with};
use leasehold::{
    Acquire, Acquired, Execution, ForceReleaseOutcome, IfHeld, Leases, Lifetime, Memory, Queue,
    Queued, RequestDigest, Settings, Start, StartRules, StartStatus, Started, TaskToken, Wait,
    WaitTime,
    store::{Operations as _, Settled, Settlement},
    transition::Change,
    transition::Join,
    transition::JoinRule,
};

/// The default grace.
const GRACE: Duration = Duration::from_mins(15);

impl StartCase {
    /// The same key, under other settings.
    fn under(&self, settings: Settings) -> Queue<Memory> {
        let starts = StartRules::of(&format!("starts/*={MACHINE}")).expect("valid");
        Leases::new(self.case.table.clone(), settings)
            .with_clock(self.case.clock.clone())
            .with_engine(self.calls.clone())
            .with_starts(starts)
    }

    fn while_stopped(&self) -> Queue<Memory> {
        self.under(with(Settings::default(), |settings| {
            settings.stopped = true;
        }))
    }

    async fn is_queued(&self, leases: &Queue<Memory>, start: Start) {
        let answer = leases.start(start).await;
        assert!(matches!(answer, Ok(Started::Queued { .. })), "{answer:?}");
    }

    /// From when on no call for a grant of this instant can begin anything.
    fn pass_all_calls(&self) {
        self.case.pass(Duration::from_mins(6) + MARGIN + STALE);
    }
}

#[tokio::test]
async fn a_place_outlasts_a_freeze() {
    for permits in [None, Some(make::permits(1))] {
        let name = format!("frozen {}", permits.is_some());
        let case = StartCase::new(&name);
        let ask = |name: &str| with(case.request(name), |start| start.permits = permits);
        let leases = &case.case.leases;
        leases.start(ask("first")).await.expect("started");
        case.is_queued(leases, ask("a")).await;
        case.case.freeze_by_operator().await;
        // A duplicate, and a retry a minute later.
        for _ in 0..2 {
            case.is_queued(leases, ask("a")).await;
            case.case.pass(Duration::from_mins(1));
        }
        refused!(leases.start(ask("b")).await, Frozen);
        assert_eq!(case.item("b").await, None);
        case.case.unfreeze_by_operator().await;
        case.ends("first").await;
        case.has_started(&["first", "a"]);
        case.ends("a").await;
    }
}

#[tokio::test]
async fn a_place_outlasts_stopped_grants() {
    for permits in [None, Some(make::permits(1))] {
        let name = format!("stopped {}", permits.is_some());
        let case = StartCase::new(&name);
        let ask = |name: &str| with(case.request(name), |start| start.permits = permits);
        let leases = &case.case.leases;
        leases.start(ask("first")).await.expect("started");
        case.is_queued(leases, ask("a")).await;
        let stopped = case.while_stopped();
        case.is_queued(&stopped, ask("a")).await;
        refused!(stopped.start(ask("b")).await, Frozen);
        assert_eq!(case.item("b").await, None);
        case.ends("first").await;
        case.has_started(&["first", "a"]);
        case.ends("a").await;
    }
}

#[tokio::test]
async fn a_waiters_place_outlasts_stopped_grants() {
    for permits in [None, Some(make::permits(1))] {
        let name = format!("stopped waiter {}", permits.is_some());
        let case = StartCase::new(&name);
        let ask = async |leases: &Queue<Memory>, who: &str, token: &str| {
            let keep = leasehold::KeepTime::default();
            let request = with(
                Acquire::new(
                    case.case.address.key.clone(),
                    make::execution(who),
                    Lifetime::Execution { keep },
                )
                .request_id(make::request_id(who)),
                |request| request.permits = permits,
            );
            let queue = Wait {
                task_token: TaskToken::new(format!("{name} {token}")).expect("valid"),
                wait: WaitTime::DAY,
                latest: false,
            };
            leases.acquire_queued(request, queue).await
        };
        let leases = &case.case.leases;
        ask(leases, "first", "one").await.expect("granted");
        ask(leases, "a", "two").await.expect("queued");
        case.case.pass(MS);
        let again = ask(&case.while_stopped(), "a", "three").await;
        assert!(matches!(again, Ok(Queued::Queued { .. })), "{again:?}");
        refused!(ask(&case.while_stopped(), "b", "four").await, Frozen);
        let over = Execution::Ended {
            stopped_at: case.case.now(),
            redrivable: false,
            all_answered: true,
        };
        for who in ["first", "a"] {
            let holder = make::execution(who);
            case.calls.set_execution(holder.as_str(), over);
            case.case.pass(MS);
            leases.reap(&holder).await.expect("an answer");
        }
        case.is_free().await;
    }
}

#[tokio::test]
async fn a_lost_place_is_given_again() {
    let case = StartCase::held("lost and frozen").await;
    case.queues("a").await;
    case.case.delete();
    case.case.freeze_by_operator().await;
    // Later than the first call, of which it would be the same write. It was accepted: a retry that is refused does not
    // withdraw it.
    case.case.pass(MS);
    refused!(case.ask("a").await, Frozen);
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    case.case.pass(Duration::from_mins(1));
    case.case.swept().await;
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    case.case.unfreeze_by_operator().await;
    case.case.swept().await;
    case.has_started(&["first", "a"]);
    case.ends("a").await;
}

#[tokio::test]
async fn stranded_starts_go_in_their_order() {
    let case = StartCase::held("stranded").await;
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        case.queues(name).await;
        case.case.pass(MS);
    }
    case.case.delete();
    case.case.pass(Duration::from_mins(1));
    case.case.swept().await;
    for (begun, name) in names.iter().enumerate() {
        let started: Vec<_> = ["first"].iter().chain(&names[..=begun]).copied().collect();
        case.has_started(&started);
        case.holds(name).await;
        case.ends(name).await;
    }
}

#[tokio::test]
async fn a_refused_repetition_stays_failed() {
    let case = StartCase::held("repeated").await;
    let key = &case.case.address.key;
    case.queues("a").await;
    case.case.pass(HOUR);
    case.case.swept().await;
    case.fails("a", "not free").await;
    case.case.freeze_by_operator().await;
    let repeated = case.case.leases.repeat_start(key, &execution("a")).await;
    refused!(repeated, Frozen);
    case.fails("a", "not free").await;
    case.case.unfreeze_by_operator().await;
    let stopped = case.while_stopped();
    refused!(stopped.repeat_start(key, &execution("a")).await, Frozen);
    case.fails("a", "not free").await;
    let full = case.under(with(Settings::default(), |settings| settings.queue_cap = 1));
    case.queues("b").await;
    refused!(full.repeat_start(key, &execution("a")).await, QueueFull);
    case.fails("a", "not free").await;
    let repeated = case.case.leases.repeat_start(key, &execution("a")).await;
    assert!(
        matches!(repeated, Ok(Started::Queued { .. })),
        "{repeated:?}"
    );
    for name in ["first", "b", "a"] {
        case.ends(name).await;
    }
    case.has_started(&["first", "a", "b"]);
}

/// A call that was suspended may settle only what it has read.
#[tokio::test]
async fn what_is_stored_anew_is_another() {
    let case = StartCase::held("stored anew").await;
    let (leases, key) = (&case.case.leases, &case.case.address.key);
    case.queues("a").await;
    let read = case.item("a").await.expect("an item");
    case.case.pass(HOUR);
    case.case.swept().await;
    case.fails("a", "not free").await;
    let repeated = leases.repeat_start(key, &execution("a")).await;
    repeated.expect("an answer");
    let late = Settlement::Failed("late".to_owned());
    let settled = leases.store().settle_start(&read, &late, None, LIMIT).await;
    assert_eq!(settled.expect("an answer"), Settled::NotWaiting);
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    case.ends("first").await;
    case.ends("a").await;
    case.has_started(&["first", "a"]);
}

#[tokio::test]
async fn unlisted_machine_passes_key_on() {
    let mut case = StartCase::held("unlisted and denied").await;
    case.queues("a").await;
    case.case.leases = (case.case.leases.clone())
        .with_starts(StartRules::of(&format!("starts/*={MACHINE}2")).expect("valid"));
    case.calls.deny_execution(execution("a").as_str());
    case.ends("first").await;
    case.fails("a", "StartedStateMachine").await;
    case.is_free().await;
}

#[tokio::test]
async fn denied_start_ends_after_grace() {
    let case = StartCase::new("denied");
    let denied = vec![StartFate::Denied; 100];
    case.calls.script_starts("a", &denied);
    case.calls.deny_execution(execution("a").as_str());
    case.queues("a").await;
    case.queues("b").await;
    // Others' leases are freed all the same.
    let ttl = make::request(make::key("starts/denied, another"), "h", TTL);
    grant(&case.case.leases, ttl).await;
    case.case.pass(TTL + MARGIN);
    assert_eq!(case.case.swept().await.freed, 1);
    for _ in 0..14 {
        case.case.pass(Duration::from_mins(1));
        case.case.swept().await;
        assert_eq!(case.status("a").await, StartStatus::Waiting);
    }
    for _ in 0..25 {
        case.case.pass(Duration::from_mins(1));
        case.case.swept().await;
    }
    case.fails("a", "refused").await;
    case.has_started(&["b"]);
    case.ends("b").await;
}

#[tokio::test]
async fn unobservable_start_comes_to_end() {
    let case = StartCase::new("not asked");
    let fates = [StartFate::Lost, StartFate::Refused];
    case.calls.script_starts("a", &fates);
    case.queues("a").await;
    case.queues("b").await;
    case.case.swept_later().await;
    case.calls.deny_execution(execution("a").as_str());
    case.pass_all_calls();
    // One refusal to be asked ends nothing: it may be of this moment.
    case.case.swept().await;
    assert_eq!(case.status("a").await, StartStatus::Waiting);
    case.holds("a").await;
    case.case.pass(STALE + GRACE);
    case.case.swept().await;
    case.fails("a", "refused").await;
    case.has_started(&["b"]);
    case.ends("b").await;
    // What has begun is found, as soon as somebody may ask.
    let fates = [StartFate::AnswerLost, StartFate::Refused];
    case.calls.script_starts("c", &fates);
    case.queues("c").await;
    case.calls.deny_execution(execution("c").as_str());
    case.case.swept_later().await;
    case.case.pass(HOUR);
    case.calls.allow_execution(execution("c").as_str());
    case.case.swept().await;
    assert_eq!(case.status("c").await, StartStatus::Begun);
    case.holds("c").await;
    case.ends("c").await;
}

#[tokio::test]
async fn cancelled_start_frees_key_when_said() {
    let case = StartCase::new("cancelled and denied");
    case.calls.script_starts("a", &[StartFate::Lost]);
    case.queues("a").await;
    case.queues("b").await;
    case.calls.deny_execution(execution("a").as_str());
    let forced = case.case.force(None).await;
    let ForceReleaseOutcome::Cancelled { free_at, .. } = forced else {
        panic!("{forced:?}");
    };
    while case.case.now() < free_at {
        case.case.pass(Duration::from_mins(1));
        case.case.swept().await;
    }
    case.fails("a", "operator").await;
    case.has_started(&["b"]);
    case.ends("b").await;
}

#[tokio::test]
async fn place_without_item_is_passed_over() {
    let case = StartCase::held("no item").await;
    let stray = Change::Join(Join {
        request: RequestDigest::of_start(&execution("nobody")),
        rule: JoinRule::Always,
        cap: 9,
    });
    let store = case.case.leases.store();
    let joined = store.apply(&case.case.address, &stray, LIMIT).await;
    let _ = joined.expect("an answer");
    // Whoever frees the key serves no queue.
    let plain = Leases::new(case.case.table.clone(), Settings::default())
        .with_clock(case.case.clock.clone());
    let row = case.case.row().await;
    let _ = plain
        .release(&lease_of(&case.case.address, &row))
        .await
        .expect("released");
    let ask = || make::request(case.case.address.key.clone(), "polls", TTL);
    refused!(plain.acquire(ask()).await, Unavailable);
    let acquired = plain.acquire(ask()).await;
    assert!(matches!(acquired, Ok(Acquired::Granted(_))), "{acquired:?}");
}

#[tokio::test]
async fn a_queue_is_not_purged() {
    let ways: [fn(WaitTime) -> IfHeld; 2] = [IfHeld::Wait, IfHeld::Latest];
    for (number, if_held) in ways.into_iter().enumerate() {
        no_queue_is_purged(number, if_held).await;
    }
}

async fn no_queue_is_purged(number: usize, if_held: fn(WaitTime) -> IfHeld) {
    let case = StartCase::held(&format!("purged {number}")).await;
    let month = WaitTime::new(Duration::from_hours(24 * 30)).expect("valid");
    let waits = with(case.request("a"), |start| start.if_held = if_held(month));
    case.is_queued(&case.case.leases, waits).await;
    let over = Execution::Ended {
        stopped_at: case.case.now(),
        redrivable: false,
        all_answered: true,
    };
    case.calls.set_execution(execution("first").as_str(), over);
    case.case.pass(MS);
    let stopped = case.while_stopped();
    stopped.reap(&execution("first")).await.expect("an answer");
    for _ in 0..4 {
        let swept = stopped.sweep(leasehold::SweepBounds::Schedule).await;
        swept.expect("swept");
        case.case.pass(Duration::from_hours(6 * 24));
        let (purged, now) = (case.case.row().await.purge_at, case.case.now());
        assert!(
            purged.is_none_or(|at| at > now.as_seconds_rounded_up()),
            "{purged:?}"
        );
    }
    case.case.swept().await;
    case.ends("a").await;
    case.has_started(&["first", "a"]);
}

#[tokio::test]
async fn dead_starts_hold_up_nobody() {
    let case = StartCase::held("dead").await;
    for n in 0..20 {
        let name = format!("dead-{n}");
        case.queues(&name).await;
        case.calls.script_starts(&name, &[StartFate::Refused]);
    }
    case.queues("live").await;
    case.ends("first").await;
    case.has_started(&["first", "live"]);
    case.ends("live").await;
}
