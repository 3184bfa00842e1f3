//! Tasks that wait for the results of starts: what they were told, against what the executions did.

use super::Violation;
use crate::history::{Run, StartAnswer, StartAsked};
use crate::starts::{Task, Told};

/// Each task is told, with what its start came to. One whose execution has ended before may be told or not.
#[must_use]
pub fn results(tasks: &[Task], asked: &[StartAsked], runs: &[Run]) -> Vec<Violation> {
    let wrong = tasks.iter().filter_map(|task| {
        let start = asked.iter().find(|start| start.execution == task.start)?;
        let own = runs.iter().filter(|run| run.execution == task.start);
        let own: Vec<_> = own.collect();
        let is_replaced =
            |other: &&StartAsked| other.key == start.key && other.if_held == "replace";
        let found = if start.leaves && !asked.iter().any(|other| is_replaced(&other)) {
            stopped_too_early(task, &own)
        } else {
            None
        };
        let (promise, what) = found.or_else(|| unlike(task, start, &own))?;
        let calls = start
            .calls
            .iter()
            .map(|call| format!("{} ms: {:?}", call.end / 1000, call.answer));
        Some(Violation {
            around: calls.collect(),
            ..Violation::new(promise, &task.start, what)
        })
    });
    wrong.collect()
}

fn stopped_too_early(task: &Task, runs: &[&Run]) -> Option<(&'static str, String)> {
    let mut stopped = runs.iter().filter(|run| run.status == "ABORTED");
    let is_early = stopped.any(|run| task.left.is_none() || run.until < task.left);
    is_early.then(|| ("S12", "was stopped before its caller had ended".to_owned()))
}

fn unlike(task: &Task, start: &StartAsked, runs: &[&Run]) -> Option<(&'static str, String)> {
    let heard = |is_it: fn(&StartAnswer) -> bool| start.calls.iter().any(|it| is_it(&it.answer));
    let Some((told, by)) = &task.told else {
        let what = "its task was told nothing";
        return task.left.is_none().then(|| ("L4", what.to_owned()));
    };
    let has_ended = |statuses: &[&str]| {
        let mut ended = runs.iter().filter(|run| statuses.contains(&run.status));
        ended.any(|run| run.until.is_some_and(|until| until <= *by))
    };
    let fits = match told {
        Told::Skipped => runs.is_empty() && heard(|it| *it == StartAnswer::Skipped),
        Told::Output => has_ended(&["SUCCEEDED"]),
        Told::Error(name) => match name.as_str() {
            "Lease.Aborted" => has_ended(&["ABORTED"]),
            "Lease.NotStarted" | "Lease.QueueTimeout" | "Lease.Superseded" => runs.is_empty(),
            "States.TaskFailed" => has_ended(&["FAILED"]),
            _ => false,
        },
    };
    (!fits).then(|| {
        let ran: Vec<_> = runs.iter().map(|run| (run.status, run.until)).collect();
        (
            "contract",
            format!("its task was told {told:?} at {by}, and it ran {ran:?}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::super::starts::tests::{asked, run, stopped};
    use super::*;
    use StartAnswer::{Failed, Queued, Skipped, Started};

    fn task(told: Option<(Told, u64)>) -> Task {
        Task {
            start: "a".to_owned(),
            caller: "c".to_owned(),
            ends_at: None,
            left: None,
            told: told.map(|(told, at)| (told, at * 1000)),
            waiting: oneshot::channel().1,
        }
    }

    fn error(name: &str) -> Told {
        Told::Error(name.to_owned())
    }

    fn found(task: Task, answer: StartAnswer, runs: &[Run]) -> Vec<&'static str> {
        let asked = [asked("a", &[(0, 3, answer)])];
        let violations = results(&[task], &asked, runs);
        violations.iter().map(|it| it.invariant).collect()
    }

    #[test]
    fn who_is_told_what_happened_is_no_finding() {
        let ran = [run("a", 2, 4, 5)];
        let cases = [
            (Some((Told::Output, 6)), Started, &ran[..]),
            (Some((Told::Skipped, 6)), Skipped, &[]),
            (Some((error("Lease.QueueTimeout"), 6)), Queued, &[]),
            (Some((error("Lease.NotStarted"), 6)), Failed, &[]),
        ];
        for (told, answer, runs) in cases {
            assert_eq!(found(task(told.clone()), answer, runs), [""; 0], "{told:?}");
        }
        let aborted = [stopped(run("a", 2, 4, 5))];
        let told = task(Some((error("Lease.Aborted"), 6)));
        assert_eq!(found(told, Started, &aborted), [""; 0]);
        let left = Task {
            left: Some(3),
            ..task(None)
        };
        assert_eq!(found(left, Queued, &[]), [""; 0]);
    }

    #[test]
    fn a_wrong_answer_is_found() {
        let ran = [run("a", 2, 4, 5)];
        assert_eq!(found(task(None), Started, &ran), ["L4"], "nothing");
        assert_eq!(found(task(None), Failed, &[]), ["L4"], "by the call alone");
        let wrong = [
            (Told::Output, 4),
            (Told::Skipped, 6),
            (error("Lease.QueueTimeout"), 6),
            (error("Lease.Aborted"), 6),
            (error("States.TaskFailed"), 6),
        ];
        for (told, at) in wrong {
            let task = task(Some((told.clone(), at)));
            assert_eq!(found(task, Started, &ran), ["contract"], "{told:?}");
        }
        let stopped = [stopped(run("a", 2, 4, 5))];
        let leaves = |left| Task { left, ..task(None) };
        let found_of = |task| {
            let asked = [StartAsked {
                leaves: true,
                ..asked("a", &[(0, 3, Started)])
            }];
            let violations = results(&[task], &asked, &stopped);
            violations.iter().map(|it| it.invariant).collect::<Vec<_>>()
        };
        assert_eq!(found_of(leaves(Some(4_000))), [""; 0]);
        assert_eq!(found_of(leaves(Some(6_000))), ["S12"], "too early");
        let output = task(Some((Told::Output, 6)));
        assert_eq!(found(output, Queued, &[]), ["contract"], "it never ran");
    }
}
