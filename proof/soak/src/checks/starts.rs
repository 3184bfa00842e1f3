//! Starts through a key: what their callers heard, against the executions that the double of Step Functions ran.
//!
//! A start that was skipped, sent away or has failed stays so: the library stores that in the item that its grant would need. Only
//! what was refused is not stored, so that another copy of it may be accepted.

use std::collections::BTreeMap;

use super::Violation;
use crate::fixture::{GRACE, SKEW};
use crate::history::{Micros, Run, StartAnswer, StartAsked, StartCall};
use crate::starts::POOL;
use crate::watch::BLUR;

/// By as much less may a clock show that a time has passed.
const TOLERANCE: Micros = (SKEW + BLUR).unsigned_abs() * 1000;

/// A start, and one run of its execution.
type Ran<'a> = (&'a StartAsked, &'a Run);

/// S1, S2, S7, S8, S12, S13, S15, L3, L4 and L6 of starts, and that what was answered is what happened.
#[must_use]
pub fn starts(asked: &[StartAsked], runs: &[Run]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut keys: BTreeMap<&str, Vec<&StartAsked>> = BTreeMap::new();
    let mut pools: BTreeMap<&str, Vec<&StartAsked>> = BTreeMap::new();
    for start in asked {
        keys.entry(&start.key).or_default().push(start);
        if let Some(pool) = &start.pool {
            pools.entry(pool).or_default().push(start);
        }
    }
    for (pool, starts) in pools {
        let all = in_order(&starts, runs);
        violations.extend(too_many_in_pool(&all).map(|what| Violation {
            around: around(&starts, &all, &what),
            ..Violation::new("S15", pool, what)
        }));
    }
    for (key, starts) in keys {
        let all = in_order(&starts, runs);
        let found = starts
            .iter()
            .flat_map(|start| of_start(start, &starts, &all));
        let found = found.chain(of_key(&all));
        violations.extend(found.map(|(invariant, what)| Violation {
            around: around(&starts, &all, &what),
            ..Violation::new(invariant, key, what)
        }));
    }
    violations
}

/// The runs of these starts.
fn in_order<'a>(starts: &[&'a StartAsked], runs: &'a [Run]) -> Vec<Ran<'a>> {
    let mut all: Vec<Ran<'_>> = Vec::new();
    for start in starts {
        let own = runs.iter().filter(|run| run.execution == start.execution);
        all.extend(own.map(|run| (*start, run)));
    }
    all.sort_by_key(|(_, run)| run.from);
    all
}

/// What is known of the executions that are named.
fn around(starts: &[&StartAsked], all: &[Ran<'_>], what: &str) -> Vec<String> {
    let is_named = |execution: &str| what.split(' ').any(|word| word == execution);
    let named = starts.iter().filter(|start| is_named(&start.execution));
    let calls = named.flat_map(|start| {
        let line = |call: &StartCall| {
            let (from, to) = (call.begin / 1000, call.end / 1000);
            format!("{from}..{to} ms: {} was {:?}", start.execution, call.answer)
        };
        start.calls.iter().map(line)
    });
    let runs = all.iter().filter(|(_, run)| is_named(&run.execution));
    let line = |(_, run): &Ran<'_>| {
        let (from, to) = (run.from / 1000, run.until.map(|until| until / 1000));
        format!(
            "{from} ms: {} ran until {to:?} by {}",
            run.execution, run.token
        )
    };
    calls.chain(runs.map(line)).collect()
}

/// A promise and how it was broken.
type Found = (&'static str, String);

fn of_start(start: &StartAsked, starts: &[&StartAsked], all: &[Ran<'_>]) -> Vec<Found> {
    let own = all.iter().filter(|(other, _)| std::ptr::eq(*other, start));
    let own: Vec<_> = own.map(|(_, run)| *run).collect();
    let begun: Vec<_> = own.iter().filter(|run| !run.is_redrive).collect();
    let mut found = Vec::new();
    if begun.len() > 1 {
        found.push(("S7", "began twice".to_owned()));
    }
    found.extend(start.unlike(begun.first().map(|run| **run)));
    found.extend(start.changed_answer().map(|what| ("contract", what)));
    found.extend(start.sent_away(starts, all).map(|what| ("L6", what)));
    if let Some(stopped) = own.iter().find(|run| run.status == "ABORTED") {
        let replaces = |other: &&&StartAsked| {
            let asked_before = stopped.until.is_none_or(|until| other.asked_at() < until);
            other.if_held == "replace" && !std::ptr::eq(**other, start) && asked_before
        };
        if !start.leaves && starts.iter().find(replaces).is_none() {
            found.push(("S12", "was stopped, and nobody asked for that".to_owned()));
        }
    }
    let named = |(invariant, what)| (invariant, format!("{} {what}", start.execution));
    found.into_iter().map(named).collect()
}

fn of_key(all: &[Ran<'_>]) -> Vec<Found> {
    let mut found: Vec<_> = crowded(all).map(|what| ("S8", what)).collect();
    found.extend(falling(all).map(|what| ("S2", what)));
    if all.iter().all(|(start, _)| start.permits == 1) {
        found.extend(overtaken(all).map(|what| ("L3", what)));
        found.extend(too_early(all).map(|what| ("S13", what)));
    }
    found
}

impl StartAsked {
    fn asked_at(&self) -> Micros {
        let calls = self.calls.iter().map(|call| call.begin);
        calls.min().unwrap_or(Micros::MAX)
    }

    fn heard(&self, is_it: impl Fn(&StartAnswer) -> bool) -> Option<&StartCall> {
        let calls = self.calls.iter().filter(|call| is_it(&call.answer));
        calls.min_by_key(|call| call.end)
    }

    /// What became of it, and what was heard of it.
    fn unlike(&self, run: Option<&Run>) -> Option<Found> {
        let started = self.heard(|it| *it == StartAnswer::Started);
        let refused = |call: &StartCall| call.answer == StartAnswer::Refused;
        let Some(run) = run else {
            let is_accepted = self.heard(StartAnswer::is_accepted).is_some();
            let is_settled = self.heard(StartAnswer::is_never).is_some();
            let what = match started {
                Some(_) => "was answered as begun, and has not run",
                None if is_accepted && !is_settled => "was queued, and has never begun",
                None => return None,
            };
            return Some(("L4", what.to_owned()));
        };
        if let Some(settled) = self.heard(StartAnswer::is_never) {
            let is_superseded = matches!(settled.answer, StartAnswer::Superseded(_));
            let promise = if is_superseded { "L6" } else { "contract" };
            return Some((promise, format!("has run, and was {:?}", settled.answer)));
        }
        let what = match started {
            _ if self.calls.iter().all(refused) => "has run, and was refused",
            Some(it) if it.end < run.from => "was answered as begun before it was",
            _ => return None,
        };
        Some(("contract", what.to_owned()))
    }

    /// Two answers, one after the other, that do not go together. That it has begun may not be written down yet.
    fn changed_answer(&self) -> Option<String> {
        let pairs = self
            .calls
            .iter()
            .flat_map(|one| self.calls.iter().map(move |next| (one, next)));
        let mut changed = pairs.filter(|(one, next)| {
            let is_later = one.end < next.begin && next.answer != StartAnswer::Unknown;
            let goes_on = matches!(next.answer, StartAnswer::Started | StartAnswer::Queued);
            is_later
                && match &one.answer {
                    StartAnswer::Unknown | StartAnswer::Refused => false,
                    StartAnswer::Started => !goes_on,
                    StartAnswer::Queued => match next.answer {
                        StartAnswer::Refused => true,
                        StartAnswer::Skipped => !self.leaves,
                        _ => false,
                    },
                    settled => *settled != next.answer,
                }
        });
        let (one, next) = changed.next()?;
        Some(format!("was {:?}, and then {:?}", one.answer, next.answer))
    }

    /// It was sent away for one that did not wait.
    fn sent_away(&self, starts: &[&Self], all: &[Ran<'_>]) -> Option<String> {
        let call = self.heard(|it| matches!(it, StartAnswer::Superseded(_)))?;
        let StartAnswer::Superseded(by) = &call.answer else {
            return None;
        };
        let later = starts.iter().find(|start| start.execution == *by);
        let waited = later.is_some_and(|later| {
            let has_run = all.iter().any(|(start, _)| std::ptr::eq(*start, *later));
            let is_sent_away = later.heard(StartAnswer::is_never).is_some();
            ["latest", "replace"].contains(&later.if_held)
                && later.asked_at() < call.end
                && (has_run || is_sent_away)
        });
        (!waited).then(|| format!("was sent away for {by}, which never waited"))
    }
}

impl StartAnswer {
    fn is_accepted(&self) -> bool {
        !matches!(self, Self::Refused | Self::Unknown)
    }

    /// It does not begin any more.
    fn is_never(&self) -> bool {
        matches!(self, Self::Skipped | Self::Superseded(_) | Self::Failed)
    }
}

impl Run {
    /// Until when nobody else may begin: after a failure it may be redriven, or a task of it be at work.
    fn keeps_until(&self, start: &StartAsked) -> Option<Micros> {
        let grace = if self.is_answered {
            0
        } else {
            GRACE.unsigned_abs() * 1000
        };
        let keeps = if ["RUNNING", "SUCCEEDED"].contains(&self.status) {
            0
        } else {
            start.keep.max(grace).saturating_sub(TOLERANCE)
        };
        self.until.map(|until| until + keeps)
    }
}

/// The others that have what they had, when this run begins.
fn beside<'a>(all: &'a [Ran<'a>], index: usize) -> BTreeMap<&'a str, &'a Ran<'a>> {
    let (_, run) = all[index];
    // Of one that was redriven, its last run says how long it keeps the key.
    let mut last: BTreeMap<&str, &Ran<'_>> = BTreeMap::new();
    for earlier in &all[..index] {
        last.insert(&earlier.1.execution, earlier);
    }
    last.remove(run.execution.as_str());
    last.retain(|_, (other, earlier)| {
        let until = earlier.keeps_until(other);
        until.is_none_or(|until| until > run.from)
    });
    last
}

/// More run than there are permits of the pool.
fn too_many_in_pool<'a>(all: &'a [Ran<'a>]) -> impl Iterator<Item = String> + 'a {
    all.iter().enumerate().filter_map(|(index, (_, run))| {
        let others = beside(all, index).len();
        let are_many = others >= usize::from(POOL);
        are_many.then(|| format!("{} began beside {others} others of its pool", run.execution))
    })
}

/// More have the key at once than there are permits, or two the same permit.
fn crowded<'a>(all: &'a [Ran<'a>]) -> impl Iterator<Item = String> + 'a {
    all.iter().enumerate().filter_map(|(index, (start, run))| {
        let last = beside(all, index);
        let mut others = last.values();
        if let Some((_, other)) = others.find(|(_, other)| other.permit == run.permit) {
            return Some(format!(
                "{} began beside {}",
                run.execution, other.execution
            ));
        }
        let are_many = last.len() >= usize::from(start.permits);
        are_many.then(|| format!("{} began beside {} others", run.execution, last.len()))
    })
}

/// A later execution has an older token of the same permit.
fn falling<'a>(all: &'a [Ran<'a>]) -> impl Iterator<Item = String> + 'a {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let begun = all.iter().filter(|(_, run)| !run.is_redrive);
    begun.filter_map(move |(_, run)| {
        let before = last.insert(run.permit, run.token).unwrap_or(0);
        let (execution, token) = (&run.execution, run.token);
        (token <= before).then(|| format!("{execution} began by {token} after {before}"))
    })
}

/// One that was asked for after another was in the queue began before it.
fn overtaken<'a>(all: &'a [Ran<'a>]) -> impl Iterator<Item = String> + 'a {
    let begun = all
        .iter()
        .enumerate()
        .filter(|(_, (_, run))| !run.is_redrive);
    begun.flat_map(move |(index, (later, _))| {
        let placed = later.heard(|it| *it == StartAnswer::Queued);
        let before = all[..index]
            .iter()
            .filter(move |(first, _)| placed.is_some_and(|placed| placed.end < first.asked_at()));
        before.map(|(first, _)| format!("{} began before {}", first.execution, later.execution))
    })
}

/// The key was to stay closed for longer after a grant, which came no earlier than the request and the end of the run before.
fn too_early<'a>(all: &'a [Ran<'a>]) -> impl Iterator<Item = String> + 'a {
    let mut ended = 0;
    let mut opens: Option<(Micros, &str)> = None;
    all.iter()
        .filter(|(_, run)| !run.is_redrive)
        .filter_map(move |(start, run)| {
            let early = opens.filter(|(at, _)| run.from < *at);
            let granted = ended.max(start.asked_at());
            opens = (start.at_least > 0).then(|| {
                let at = (granted + start.at_least).saturating_sub(TOLERANCE);
                (at, run.execution.as_str())
            });
            ended = run.until.unwrap_or(ended);
            early.map(|(_, before)| format!("{} began too soon after {before}", run.execution))
        })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use StartAnswer::*;

    /// Instants in milliseconds.
    pub(in crate::checks) fn asked(name: &str, calls: &[(u64, u64, StartAnswer)]) -> StartAsked {
        let call = |(begin, end, answer): &(u64, u64, StartAnswer)| StartCall {
            begin: begin * 1000,
            end: end * 1000,
            answer: answer.clone(),
        };
        StartAsked {
            key: "k".to_owned(),
            execution: name.to_owned(),
            request: serde_json::Value::Null,
            is_certain: true,
            permits: 1,
            pool: None,
            if_held: "wait",
            leaves: false,
            at_least: 0,
            keep: 0,
            calls: calls.iter().map(call).collect(),
        }
    }

    fn newest(name: &str, calls: &[(u64, u64, StartAnswer)]) -> StartAsked {
        StartAsked {
            if_held: "replace",
            ..asked(name, calls)
        }
    }

    pub(in crate::checks) fn run(name: &str, token: u64, from: u64, until: u64) -> Run {
        Run {
            execution: name.to_owned(),
            token,
            permit: 0,
            is_redrive: false,
            from: from * 1000,
            until: Some(until * 1000),
            status: "SUCCEEDED",
            is_answered: true,
        }
    }

    pub(in crate::checks) fn stopped(run: Run) -> Run {
        Run {
            status: "ABORTED",
            ..run
        }
    }

    fn found(asked: &[StartAsked], runs: &[Run]) -> Vec<&'static str> {
        let violations = starts(asked, runs);
        violations.iter().map(|it| it.invariant).collect()
    }

    #[test]
    fn kept_promises_are_no_finding() {
        let sent = Superseded("f".to_owned());
        let all = [
            asked(
                "a",
                &[(0, 9, Unknown), (10, 11, Started), (90, 91, Started)],
            ),
            asked("b", &[(12, 13, Queued), (14, 15, Queued)]),
            asked("c", &[(14, 16, Skipped), (30, 31, Skipped)]),
            asked("d", &[(14, 16, Queued), (30, 31, sent)]),
            asked(
                "e",
                &[(14, 16, Refused), (30, 31, Started), (32, 33, Queued)],
            ),
            newest("f", &[(15, 16, Queued)]),
            asked("g", &[(14, 16, Unknown)]),
            asked("h", &[(14, 16, Queued), (30, 31, Failed)]),
        ];
        let runs = [
            run("a", 2, 5, 20),
            stopped(run("b", 4, 20, 30)),
            run("e", 6, 30, 40),
            run("f", 8, 40, 50),
        ];
        assert_eq!(found(&all, &runs), [""; 0]);
    }

    #[test]
    fn a_start_lost_is_found() {
        let begun = || asked("a", &[(0, 3, Started)]);
        assert_eq!(found(&[begun()], &[]), ["L4"], "never begun");
        assert_eq!(found(&[asked("a", &[(0, 3, Queued)])], &[]), ["L4"]);
        assert_eq!(
            found(&[begun()], &[run("a", 2, 4, 5)]),
            ["contract"],
            "too early"
        );
        let sent = [asked("a", &[(0, 3, Superseded("b".to_owned()))])];
        assert_eq!(found(&sent, &[]), ["L6"], "for nobody");
        let asks_later = newest("b", &[(4, 5, Started)]);
        let two = [sent[0].clone(), asks_later];
        assert_eq!(
            found(&two, &[run("b", 2, 4, 6)]),
            ["L6"],
            "for one that came later"
        );
    }

    #[test]
    fn settled_starts_never_run() {
        for settled in [Skipped, Failed, Refused] {
            let one = [asked("a", &[(0, 3, settled.clone())])];
            assert_eq!(
                found(&one, &[run("a", 2, 4, 5)]),
                ["contract"],
                "{settled:?}"
            );
        }
        let sent = Superseded("b".to_owned());
        let two = [asked("a", &[(2, 3, sent)]), newest("b", &[(0, 3, Started)])];
        let both = [run("b", 2, 1, 3), run("a", 4, 4, 5)];
        assert_eq!(found(&two, &both), ["L6"]);
        let copies = [asked("a", &[(0, 3, Skipped), (1, 4, Started)])];
        assert_eq!(
            found(&copies, &[run("a", 2, 2, 5)]),
            ["contract"],
            "beside a copy"
        );
    }

    #[test]
    fn a_changed_answer_is_found() {
        let changed = [
            (Queued, Refused),
            (Queued, Skipped),
            (Started, Refused),
            (Skipped, Refused),
            (Skipped, Queued),
        ];
        for (one, next) in changed {
            let asked = [asked("a", &[(0, 1, one.clone()), (2, 9, next.clone())])];
            let runs = [run("a", 2, 0, 1)];
            let runs = if [&one, &next].contains(&&Skipped) {
                &[][..]
            } else {
                &runs
            };
            assert_eq!(found(&asked, runs), ["contract"], "{one:?}, {next:?}");
        }
    }

    #[test]
    fn two_executions_beside_are_found() {
        let begun = |name| asked(name, &[(0, 3, Started)]);
        let two = [begun("a"), begun("b")];
        assert_eq!(found(&two, &[run("a", 2, 1, 9), run("b", 4, 2, 9)]), ["S8"]);
        assert_eq!(found(&two, &[run("a", 4, 1, 2), run("b", 2, 2, 9)]), ["S2"]);
        assert_eq!(found(&two, &[run("a", 2, 1, 2), run("b", 2, 2, 9)]), ["S2"]);
        let one = [begun("a")];
        assert_eq!(found(&one, &[run("a", 2, 1, 2), run("a", 4, 2, 9)]), ["S7"]);
        let late = [asked("a", &[(0, 3, Queued)]), asked("b", &[(4, 5, Queued)])];
        assert_eq!(
            found(&late, &[run("b", 2, 6, 7), run("a", 4, 8, 9)]),
            ["L3"]
        );
    }

    #[test]
    fn more_than_the_pool_has_are_found() {
        let of = |key: &str| StartAsked {
            key: key.to_owned(),
            pool: Some("p".to_owned()),
            ..asked(key, &[(0, 1, Queued)])
        };
        let keys = ["a", "b", "c", "d"];
        let starts = keys.map(of);
        let runs = |last| {
            let mut runs = keys.map(|key| run(key, 2, 1, 9));
            runs[3] = run("d", 2, last, last + 9);
            runs
        };
        assert_eq!(found(&starts, &runs(2)), ["S15"]);
        assert_eq!(found(&starts, &runs(9)), [""; 0]);
    }

    #[test]
    fn permits_are_counted() {
        let begun = |name| StartAsked {
            permits: 2,
            ..asked(name, &[(0, 3, Started)])
        };
        let has = |name, permit| Run {
            permit,
            ..run(name, 2, 1, 9)
        };
        let three = [begun("a"), begun("b"), begun("c")];
        assert_eq!(found(&three[..2], &[has("a", 0), has("b", 1)]), [""; 0]);
        assert_eq!(
            found(&three, &[has("a", 0), has("b", 1), has("c", 2)]),
            ["S8"]
        );
        let one = [run("a", 2, 1, 9), run("b", 4, 2, 9)];
        assert_eq!(found(&three[..2], &one), ["S8"], "the same permit");
    }

    #[test]
    fn a_failed_execution_keeps_key() {
        let failed = |is_answered| Run {
            status: "FAILED",
            is_answered,
            ..run("a", 2, 1, 100)
        };
        let begun = |name| asked(name, &[(0, 99, Started)]);
        let kept = StartAsked {
            keep: 2_000_000,
            ..begun("a")
        };
        let next = asked("b", &[(5, 6, Queued)]);
        let soon = run("b", 4, 101, 9_000);
        let two = [begun("a"), next.clone()];
        assert_eq!(found(&two, &[failed(true), soon.clone()]), [""; 0]);
        assert_eq!(
            found(&two, &[failed(false), soon.clone()]),
            ["S8"],
            "at work"
        );
        assert_eq!(
            found(&[kept.clone(), next.clone()], &[failed(true), soon]),
            ["S8"]
        );
        let again = Run {
            is_redrive: true,
            ..run("a", 2, 1_000, 1_500)
        };
        let two = [kept, next];
        let runs = |begins| [failed(true), again.clone(), run("b", 4, begins, 2_000)];
        assert_eq!(found(&two, &runs(1_499)), ["S8"], "redriven");
        assert_eq!(found(&two, &runs(1_500)), [""; 0]);
    }

    #[test]
    fn pace_and_stops_are_checked() {
        let paced = StartAsked {
            at_least: 1_000_000,
            ..asked("a", &[(0, 9, Started)])
        };
        let two = [paced, asked("b", &[(5, 6, Queued)])];
        let begins = |from| [run("a", 2, 1, 2), run("b", 4, from, 2_000)];
        assert_eq!(found(&two, &begins(600)), ["S13"]);
        assert_eq!(found(&two, &begins(1_000)), [""; 0]);
        let one = [asked("a", &[(0, 9, Started)])];
        let stop = [stopped(run("a", 2, 1, 9))];
        assert_eq!(found(&one, &stop), ["S12"]);
    }
}
