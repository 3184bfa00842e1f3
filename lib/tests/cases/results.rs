//! Tasks that wait for the results of starts.

use std::time::Duration;

use super::starts::{HOUR, StartCase, execution};
use super::{LIMIT, Late, Lost, MARGIN, MS, STALE, StartFate, counted, invalid, make, with};
use leasehold::{
    Error, Execution, Failure, Holder, IfHeld, Reaped, RequestDigest, ResultTo, Settings, Start,
    StartRules, Started, SweepBounds, TaskToken, WaitTime, metrics::Metric, store::Operations as _,
};

/// It has the key that what it starts would wait for, and waits for that.
#[tokio::test]
async fn caller_does_not_wait_for_itself() {
    let case = StartCase::new("result/itself");
    let key = &case.case.address.key;
    let own = make::of_execution(key.clone(), CALLER);
    let lease = case.case.leases.acquire(own).await.expect("an answer");
    let lease = lease.granted().expect("granted").lease;
    let wait = WaitTime::new(HOUR).expect("valid");
    for if_held in [
        IfHeld::Wait(wait),
        IfHeld::Latest(wait),
        IfHeld::Replace(wait),
    ] {
        let start = with(case.waits("child", "t", None), |start| {
            start.if_held = if_held;
        });
        let refused = case.case.leases.start(start).await;
        match if_held {
            IfHeld::Replace(_) => refused!(refused, Held),
            _ => invalid(refused, "key"),
        }
    }
    assert_eq!(case.item("child").await, None);
    // Of two permits it has one, so that the other may come free.
    case.case.give_back(&lease).await;
    let two = |name: &str| {
        with(case.waits(name, name, None), |start| {
            start.permits = Some(make::permits(2));
        })
    };
    let own = make::of_execution(key.clone(), CALLER).permits(make::permits(2));
    drop(
        case.case
            .leases
            .acquire(own)
            .await
            .expect("an answer")
            .granted(),
    );
    for (name, begins) in [("one", true), ("two", false)] {
        let started = case.case.leases.start(two(name)).await.expect("an answer");
        assert_eq!(
            matches!(started, Started::Started { .. }),
            begins,
            "{started:?}"
        );
    }
}

const CALLER: &str = "caller";

impl StartCase {
    fn waits(&self, name: &str, token: &str, stop_with: Option<&str>) -> Start {
        with(self.request(name), |start| {
            start.result_to = Some(ResultTo {
                task_token: TaskToken::new(self.token(token)).expect("valid"),
                caller: make::execution(stop_with.unwrap_or(CALLER)),
                stop_with_caller: stop_with.is_some(),
            });
        })
    }

    fn token(&self, token: &str) -> String {
        format!("{} {token}", self.case.address.key)
    }

    async fn call(&self, name: &str, token: &str) -> Result<Started, Error> {
        self.case.leases.start(self.waits(name, token, None)).await
    }

    /// Every task of this key that was answered since, with the output or the name of the error. A sweep covers all keys.
    fn are_told(&self, expected: &[(&str, &str)]) {
        let answers = self.calls.take_answers().into_iter();
        let answers = answers.filter(|answer| answer.token.starts_with(&self.token("")));
        let answers: Vec<_> = answers
            .map(|answer| {
                let result = answer.result.unwrap_or_else(|(error, _)| error);
                (answer.token, result)
            })
            .collect();
        let expected = expected.iter();
        let expected: Vec<_> = expected
            .map(|(token, result)| (self.token(token), (*result).to_owned()))
            .collect();
        assert_eq!(answers, expected);
    }

    async fn nobody_waits(&self, name: &str) {
        let request = RequestDigest::of_start(&execution(name));
        let store = self.case.leases.store();
        let item = store.result_item(&self.case.address.key, &request, LIMIT);
        assert_eq!(item.await.expect("an answer"), None);
    }

    async fn sweeps_after(&self, pause: Duration) {
        self.case.pass(pause);
        let swept = self.case.leases.sweep(SweepBounds::Schedule).await;
        swept.expect("swept");
    }

    fn ended(&self, caller: &str) {
        let over = Execution::Ended {
            stopped_at: self.case.now(),
            redrivable: true,
            all_answered: true,
        };
        let caller = make::execution(caller);
        self.calls.set_execution(caller.as_str(), over);
    }

    fn is_over(&self, execution: &str, result: Option<Result<&str, (&str, &str)>>) {
        let over = Execution::Ended {
            stopped_at: self.case.now(),
            redrivable: false,
            all_answered: true,
        };
        let result = result.map(|result| {
            let owned = |(error, cause): (&str, &str)| Failure {
                error: error.to_owned(),
                cause: cause.to_owned(),
            };
            result.map(str::to_owned).map_err(owned)
        });
        self.calls.set_result(execution, result);
        self.calls.set_execution(execution, over);
    }
}

const LOOK: Duration = Duration::from_mins(5);

#[tokio::test]
async fn output_is_sent_once() {
    let case = StartCase::new("result");
    let started = case.call("a", "one").await;
    assert!(
        matches!(started, Ok(Started::Started { .. })),
        "{started:?}"
    );
    case.are_told(&[]);
    case.is_over(execution("a").as_str(), Some(Ok("[9007199254740993]")));
    case.case.pass(MS);
    for _ in 0..2 {
        let reaped = case.case.leases.reap(&execution("a")).await;
        reaped.expect("an answer");
    }
    case.are_told(&[("one", "[9007199254740993]")]);
    case.is_free().await;
    case.nobody_waits("a").await;
    // A copy of the call comes after all.
    let again = case.call("a", "one").await;
    assert!(matches!(again, Ok(Started::Started { .. })), "{again:?}");
    case.are_told(&[]);
    case.nobody_waits("a").await;
}

#[tokio::test]
async fn each_failure_keeps_its_name() {
    let case = StartCase::new("failures");
    for (name, result, expected) in [
        ("a", Some(Err(("Mine", "why"))), "Mine"),
        ("b", None, "Lease.NoOutput"),
    ] {
        case.call(name, name).await.expect("started");
        case.is_over(execution(name).as_str(), result);
        case.case.pass(MS);
        let reaped = case.case.leases.reap(&execution(name)).await;
        reaped.expect("an answer");
        case.are_told(&[(name, expected)]);
    }
}

#[tokio::test]
async fn sweep_sends_without_an_event() {
    let case = StartCase::new("no event");
    case.call("a", "one").await.expect("started");
    case.sweeps_after(LOOK).await;
    case.are_told(&[]);
    case.is_over(execution("a").as_str(), Some(Ok("1")));
    case.sweeps_after(2 * LOOK).await;
    case.are_told(&[("one", "1")]);
    case.is_free().await;
    case.nobody_waits("a").await;
}

/// The service shows an end later than an event told of it, and what an execution came to later than its end.
#[tokio::test]
async fn what_shows_late_is_looked_at_again() {
    for (late, looks) in [(Late::End, 3), (Late::Result, 3)] {
        let case = StartCase::new(&format!("{late:?} shows late"));
        case.call("a", "one").await.expect("started");
        case.is_over(execution("a").as_str(), Some(Ok("1")));
        case.calls.shows_late(execution("a").as_str(), late, looks);
        case.case.pass(MS);
        let reaped = case.case.leases.reap_ended(&execution("a")).await;
        let reaped = reaped.expect("an answer");
        assert!(!reaped.is_undecided(), "{reaped:?}");
        case.are_told(&[("one", "1")]);
        case.is_free().await;
    }
    // Later still, it is left to the next sweep, and keeps no key.
    let case = StartCase::new("shows much later");
    case.call("a", "one").await.expect("started");
    case.is_over(execution("a").as_str(), Some(Ok("1")));
    case.calls
        .shows_late(execution("a").as_str(), Late::Result, 5);
    case.case.pass(MS);
    let reaped = case.case.leases.reap_ended(&execution("a")).await;
    assert!(reaped.expect("an answer").is_undecided());
    case.is_free().await;
    case.sweeps_after(MS).await;
    case.are_told(&[]);
    case.sweeps_after(MS).await;
    case.are_told(&[("one", "1")]);
    // Whoever does not go by an event asks once.
    let case = StartCase::new("end shows late");
    case.call("a", "one").await.expect("started");
    case.is_over(execution("a").as_str(), Some(Ok("1")));
    case.calls.shows_late(execution("a").as_str(), Late::End, 1);
    let reaped = case.case.leases.reap(&execution("a")).await;
    assert_eq!(reaped.expect("an answer"), Reaped::Running);
    case.ends("a").await;
}

/// It has begun, and the first look is older: the next is as for any other, and not at the end of the grace.
#[tokio::test]
async fn what_was_unknown_is_looked_at_again() {
    let case = StartCase::new("unknown at first");
    let (caller, name) = (make::execution(CALLER), execution("a"));
    let says = |who: &Holder, said| case.calls.set_execution(who.as_str(), said);
    says(&caller, Execution::Running);
    let start = case.waits("a", "one", Some(CALLER));
    case.case.leases.start(start).await.expect("started");
    says(&name, Execution::Unknown);
    case.sweeps_after(LOOK).await;
    says(&name, Execution::Running);
    let over = Execution::Ended {
        stopped_at: case.case.now(),
        redrivable: false,
        all_answered: true,
    };
    says(&caller, over);
    case.sweeps_after(LOOK).await;
    let stopped = case.calls.take_stopped();
    assert!(
        matches!(&stopped[..], [(one, _)] if one == name.as_str()),
        "{stopped:?}"
    );
    case.nobody_waits("a").await;
    case.ends("a").await;
}

#[tokio::test]
async fn a_later_token_takes_its_place() {
    let case = StartCase::held("later token").await;
    case.call("a", "one").await.expect("queued");
    case.case.pass(MS);
    case.call("a", "two").await.expect("queued");
    // The first call is delivered once more, and its token was stored before.
    case.ends("first").await;
    case.is_over(execution("a").as_str(), Some(Ok("1")));
    case.case.pass(MS);
    let reaped = case.case.leases.reap(&execution("a")).await;
    reaped.expect("an answer");
    case.are_told(&[("two", "1")]);
    case.nobody_waits("a").await;
}

/// Its message was delivered late: by then its attempt is over, and another waits.
#[tokio::test]
async fn an_earlier_call_takes_no_place() {
    let case = StartCase::held("earlier call").await;
    case.call("a", "two").await.expect("queued");
    case.calls.expire_token(&case.token("one"));
    case.case.pass(Duration::from_secs(5));
    refused!(case.call("a", "one").await, Unavailable);
    case.ends("first").await;
    case.is_over(execution("a").as_str(), Some(Ok("1")));
    let reaped = case.case.leases.reap(&execution("a")).await;
    reaped.expect("an answer");
    case.are_told(&[("two", "1")]);
    case.nobody_waits("a").await;
}

/// The task calls anew, after its first call has started what is over by then.
#[tokio::test]
async fn over_before_it_was_asked() {
    let case = StartCase::new("over");
    case.starts("a").await;
    case.is_over(execution("a").as_str(), Some(Ok("1")));
    case.case.pass(MS);
    let started = case.call("a", "one").await;
    assert!(
        matches!(started, Ok(Started::Started { .. })),
        "{started:?}"
    );
    case.are_told(&[("one", "1")]);
    case.nobody_waits("a").await;
    // Its end was so fast that its item does not say that it began.
    let case = StartCase::new("fast");
    case.calls.script_starts("b", &[StartFate::AnswerLost]);
    case.call("b", "two").await.expect("queued");
    case.is_over(execution("b").as_str(), Some(Ok("2")));
    case.case.pass(MS);
    let reaped = case.case.leases.reap(&execution("b")).await;
    reaped.expect("an answer");
    case.are_told(&[("two", "2")]);
}

/// The error of a call reaches a task only if the task made it: a message in a queue has nobody who hears. So what has failed for good is sent,
/// also by a later call. What is not accepted is not.
#[tokio::test]
async fn own_refusal_is_sent_if_it_is_final() {
    let case = StartCase::new("own refusal");
    case.calls.script_starts("a", &[StartFate::Refused]);
    refused!(case.call("a", "one").await, NotStarted);
    case.are_told(&[("one", "Lease.NotStarted")]);
    case.nobody_waits("a").await;
    refused!(case.call("a", "two").await, NotStarted);
    case.are_told(&[("two", "Lease.NotStarted")]);
    case.nobody_waits("a").await;
    case.starts("b").await;
    let fails = with(case.waits("c", "three", None), |start| {
        start.if_held = IfHeld::Fail;
    });
    refused!(case.case.leases.start(fails).await, Held);
    case.are_told(&[]);
    case.nobody_waits("c").await;
    case.ends("b").await;
}

#[tokio::test]
async fn later_refusals_are_sent() {
    let case = StartCase::held("later refusals").await;
    for name in ["refused", "dismissed", "superseded"] {
        case.call(name, name).await.expect("queued");
    }
    let late = with(case.waits("late", "late", None), |start| {
        start.if_held = IfHeld::Wait(WaitTime::new(Duration::from_secs(1)).expect("valid"));
    });
    case.case.leases.start(late).await.expect("queued");
    case.sweeps_after(Duration::from_secs(2)).await;
    case.are_told(&[("late", "Lease.QueueTimeout")]);
    let key = &case.case.address.key;
    let dismissed = case
        .case
        .leases
        .dismiss_start(key, &execution("dismissed"))
        .await;
    assert!(dismissed.expect("an answer"));
    case.are_told(&[("dismissed", "Lease.NotStarted")]);
    case.calls.script_starts("refused", &[StartFate::Refused]);
    case.ends("first").await;
    case.are_told(&[("refused", "Lease.NotStarted")]);
    case.call("next", "next").await.expect("queued");
    let newest = with(case.request("newest"), |start| {
        start.if_held = IfHeld::Latest(WaitTime::DAY);
    });
    case.case.leases.start(newest).await.expect("queued");
    case.are_told(&[("next", "Lease.Superseded")]);
    case.ends("superseded").await;
    case.are_told(&[("superseded", "{}")]);
    case.ends("newest").await;
    for name in ["late", "dismissed", "refused", "next", "superseded"] {
        case.nobody_waits(name).await;
    }
}

/// Once its task knows, it is neither counted nor listed. Whoever repeats it is nobody's task.
#[tokio::test]
async fn what_a_task_is_told_is_no_failed_start() {
    let case = StartCase::held("told, and not kept").await;
    case.call("a", "one").await.expect("queued");
    case.calls.script_starts("a", &[StartFate::Refused]);
    let ((), counts) = counted(Metric::FailedStarts, case.ends("first")).await;
    assert_eq!(counts, 0);
    case.are_told(&[("one", "Lease.NotStarted")]);
    case.fails("a", "StateMachineDoesNotExist").await;
    assert_eq!(case.listed().await, Vec::<String>::new());
    case.starts("holder").await;
    let key = case.case.address.key.clone();
    let repeated = case.case.leases.repeat_start(&key, &execution("a")).await;
    assert!(
        matches!(repeated, Ok(Started::Queued { .. })),
        "{repeated:?}"
    );
    case.calls.script_starts("a", &[StartFate::Refused]);
    let ((), counts) = counted(Metric::FailedStarts, case.ends("holder")).await;
    assert_eq!(counts, 1);
    case.are_told(&[]);
    assert_eq!(case.listed().await, ["a"]);
}

/// It has timed out, or never was one.
#[tokio::test]
async fn a_failure_that_no_task_hears_is_kept() {
    let case = StartCase::held("not told, and kept").await;
    case.call("a", "one").await.expect("queued");
    case.calls.expire_token(&case.token("one"));
    case.calls.script_starts("a", &[StartFate::Refused]);
    let ((), counts) = counted(Metric::FailedStarts, case.ends("first")).await;
    assert_eq!(counts, 1);
    assert_eq!(case.listed().await, ["a"]);
    case.nobody_waits("a").await;
    // That a task hears of it later changes nothing.
    refused!(case.call("a", "two").await, NotStarted);
    assert_eq!(case.listed().await, ["a"]);
}

/// It could not be told when the start failed; then it is as the start is dismissed, or as soon as it can be.
#[tokio::test]
async fn dismissed_failure_tells_its_task() {
    for lost in [1, 2] {
        let case = StartCase::held(&format!("dismissed after {lost} lost calls")).await;
        case.call("a", "one").await.expect("queued");
        case.calls.script_starts("a", &[StartFate::Refused]);
        case.calls.lose(&case.token("one"), Lost::Request, lost);
        case.ends("first").await;
        case.are_told(&[]);
        let (key, failed) = (&case.case.address.key, execution("a"));
        let dismissed = case.case.leases.dismiss_start(key, &failed);
        assert!(dismissed.await.expect("an answer"));
        if lost == 2 {
            case.are_told(&[]);
            case.sweeps_after(Duration::from_mins(1)).await;
        }
        case.are_told(&[("one", "Lease.NotStarted")]);
        case.nobody_waits("a").await;
    }
}

#[tokio::test]
async fn denied_token_keeps_no_lease() {
    let case = StartCase::new("denied token");
    case.calls.deny_token(&case.token("one"));
    case.call("a", "one").await.expect("started");
    case.ends("a").await;
    case.is_free().await;
    // As long as it may not be answered, every sweep tries.
    case.sweeps_after(Duration::from_mins(1)).await;
    case.are_told(&[]);
    case.calls.allow_token(&case.token("one"));
    case.sweeps_after(Duration::from_mins(1)).await;
    case.are_told(&[("one", "{}")]);
    case.nobody_waits("a").await;
}

#[tokio::test]
async fn execution_stops_with_its_caller() {
    let case = StartCase::new("stops");
    let caller = make::execution(CALLER);
    case.calls
        .set_execution(caller.as_str(), Execution::Running);
    let start = case.waits("a", "one", Some(CALLER));
    case.case.leases.start(start).await.expect("started");
    let ended_at = |stopped_at| Execution::Ended {
        stopped_at,
        redrivable: true,
        all_answered: true,
    };
    case.sweeps_after(LOOK).await;
    assert_eq!(case.calls.take_stopped(), []);
    // It fails, is redriven, and asks again: the answer that it has ended may be old.
    let before = case.case.now();
    case.calls.set_execution(caller.as_str(), ended_at(before));
    case.case.pass(Duration::from_mins(1));
    let again = case.waits("a", "two", Some(CALLER));
    case.case.leases.start(again).await.expect("started");
    assert_eq!(case.calls.take_stopped(), []);
    let now = case.case.now();
    case.calls.set_execution(caller.as_str(), ended_at(now));
    case.sweeps_after(LOOK).await;
    let stopped = case.calls.take_stopped();
    assert!(
        matches!(&stopped[..], [(one, why)] if one == execution("a").as_str() && why.contains(CALLER)),
        "{stopped:?}"
    );
    case.nobody_waits("a").await;
    case.are_told(&[]);
    case.ends("a").await;
}

/// Reap finds by the caller what runs and what waits, and nothing of others.
#[tokio::test]
async fn end_of_a_caller_is_heard() {
    let case = StartCase::new("hears of its caller");
    let caller = make::execution(CALLER);
    for (name, token, stop_with) in [
        ("runs", "one", Some(CALLER)),
        ("waits", "two", Some(CALLER)),
        ("stays", "three", Some("another")),
        ("goes-on", "four", None),
    ] {
        let start = case.waits(name, token, stop_with);
        case.case.leases.start(start).await.expect("accepted");
    }
    case.calls
        .set_execution(caller.as_str(), Execution::Running);
    let reap = || case.case.leases.reap(&caller);
    assert_eq!(reap().await.expect("an answer"), Reaped::Running);
    assert_eq!(case.calls.take_stopped(), []);
    case.case.pass(MS);
    case.ended(CALLER);
    case.case.pass(MS);
    for expected in [2, 0] {
        let reaped = reap().await.expect("an answer");
        assert!(
            matches!(reaped, Reaped::Reaped { stopped, undecided: 0, .. } if stopped == expected),
            "{reaped:?}"
        );
    }
    let stopped = case.calls.take_stopped();
    assert!(
        matches!(&stopped[..], [(one, _)] if one == execution("runs").as_str()),
        "{stopped:?}"
    );
    case.nobody_waits("runs").await;
    case.nobody_waits("waits").await;
    case.ends("runs").await;
    case.ends("stays").await;
    case.ends("goes-on").await;
    case.has_started(&["runs", "stays", "goes-on"]);
    case.is_free().await;
}

/// Whoever begins what has waited asks once whether anybody needs it: then an event need not come.
#[tokio::test]
async fn start_asks_for_its_caller() {
    let case = StartCase::held("asks for its caller").await;
    for (name, token, caller) in [
        ("a", "one", CALLER),
        // A later call of another execution, which lives.
        ("b", "two", CALLER),
        ("b", "three", "another"),
        ("c", "four", "another"),
    ] {
        let start = case.waits(name, token, Some(caller));
        case.case.leases.start(start).await.expect("queued");
        case.case.pass(MS);
    }
    case.ended(CALLER);
    case.case.pass(Duration::from_secs(2));
    for name in ["first", "b", "c"] {
        case.ends(name).await;
    }
    case.has_started(&["first", "b", "c"]);
    case.nobody_waits("a").await;
    case.is_free().await;
}

#[tokio::test]
async fn waiting_start_leaves_with_its_caller() {
    let case = StartCase::held("leaves").await;
    let caller = make::execution(CALLER);
    let start = case.waits("a", "one", Some(CALLER));
    case.case.leases.start(start).await.expect("queued");
    case.calls.expire_token(&case.token("one"));
    let now = case.case.now();
    let over = Execution::Ended {
        stopped_at: now,
        redrivable: true,
        all_answered: true,
    };
    case.calls.set_execution(caller.as_str(), over);
    case.sweeps_after(LOOK).await;
    case.ends("first").await;
    case.has_started(&["first"]);
    case.is_free().await;
    case.nobody_waits("a").await;
    // Whose task this stack may not answer cannot wait.
    let stranger = with(case.request("b"), |start| {
        start.result_to = Some(ResultTo {
            task_token: TaskToken::new("two").expect("valid"),
            caller: make::holder("worker 7"),
            stop_with_caller: false,
        });
    });
    invalid(case.case.leases.start(stranger).await, "caller");
}

#[tokio::test]
async fn unknown_execution_is_told_of() {
    let case = StartCase::new("unknown");
    case.call("a", "one").await.expect("started");
    case.calls
        .set_execution(execution("a").as_str(), Execution::Unknown);
    case.sweeps_after(LOOK).await;
    case.are_told(&[]);
    case.sweeps_after(Duration::from_mins(16)).await;
    case.are_told(&[("one", "Lease.NoOutput")]);
    case.nobody_waits("a").await;
    case.sweeps_after(Duration::from_hours(1)).await;
}

#[tokio::test]
async fn a_skipped_start_tells_its_task() {
    let case = StartCase::new("skipped task");
    case.call("a", "one").await.expect("started");
    // Also a copy of the call, with a token of its own.
    for token in ["two", "three"] {
        let skips = with(case.waits("b", token, None), |start| {
            start.if_held = IfHeld::Skip;
        });
        let skipped = case.case.leases.start(skips).await;
        assert!(
            matches!(skipped, Ok(Started::Skipped { .. })),
            "{skipped:?}"
        );
        let answers = case.calls.take_answers();
        let [answer] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(answer.token, case.token(token));
        let output = answer.result.as_ref().expect("a success");
        assert!(output.contains(r#""outcome":"skipped""#), "{output}");
        case.nobody_waits("b").await;
    }
}

#[tokio::test]
async fn unlisted_machine_leaves_the_task() {
    let case = StartCase::new("unlisted task");
    // One that may start nothing leaves the task to others.
    let none = case.case.leases.clone().with_starts(StartRules::default());
    invalid(
        none.start(case.waits("a", "one", None)).await,
        "state_machine_arn",
    );
    case.nobody_waits("a").await;
}

/// Somebody else has started an execution of its name, which has ended.
#[tokio::test]
async fn result_of_another_is_not_sent() {
    let case = StartCase::held("another's result").await;
    case.call("a", "one").await.expect("queued");
    case.queues("b").await;
    let name = execution("a");
    case.calls.start_elsewhere(name.as_str(), "{}");
    case.is_over(name.as_str(), Some(Ok("another's")));
    case.case.pass(MS);
    let reaped = case.case.leases.reap(&name).await;
    reaped.expect("an answer");
    case.are_told(&[]);
    // It has kept its place.
    case.ends("first").await;
    case.are_told(&[("one", "Lease.NotStarted")]);
    case.ends("b").await;
    case.is_free().await;
}

/// It has failed, was redriven and asks, and the service may not show the redrive yet.
#[tokio::test]
async fn earlier_end_of_caller_stops_nothing() {
    let look = Duration::from_secs(1);
    let settings = with(Settings::default(), |settings| settings.look = look);
    let case = StartCase::with("redriven caller", settings);
    let caller = make::execution(CALLER);
    let over = Execution::Ended {
        stopped_at: case.case.now(),
        redrivable: true,
        all_answered: true,
    };
    case.calls.set_execution(caller.as_str(), over);
    case.case.pass(MARGIN + MS);
    let start = case.waits("a", "one", Some(CALLER));
    case.case.leases.start(start).await.expect("started");
    case.sweeps_after(look).await;
    assert_eq!(case.calls.take_stopped(), []);
    case.sweeps_after(STALE + MARGIN).await;
    assert_eq!(case.calls.take_stopped().len(), 1);
    case.ends("a").await;
}
