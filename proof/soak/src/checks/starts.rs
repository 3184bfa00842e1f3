//! Starts through a key: what their callers heard, against the executions that the double of Step Functions ran.

use std::collections::BTreeMap;

use super::Violation;
use crate::history::{Run, StartAnswer, StartAsked};

/// S1, S2, S8, L3 and L4 of starts.
#[must_use]
pub fn starts(asked: &[StartAsked], runs: &[Run]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut keys: BTreeMap<&str, Vec<&StartAsked>> = BTreeMap::new();
    for start in asked {
        keys.entry(&start.key).or_default().push(start);
    }
    for (key, starts) in keys {
        let find = |invariant, what: String| Violation::new(invariant, key, what);
        let mut of: Vec<(&StartAsked, &Run)> = Vec::new();
        for start in &starts {
            let own: Vec<_> = runs
                .iter()
                .filter(|run| run.execution == start.execution)
                .collect();
            if own.len() > 1 {
                violations.push(find("S7", format!("{} began twice", start.execution)));
            }
            if let Some(what) = start.contradicts(own.first().copied()) {
                violations.push(find("L4", format!("{} {what}", start.execution)));
            }
            of.extend(own.into_iter().map(|run| (*start, run)));
        }
        of.sort_by_key(|(_, run)| run.from);
        violations.extend(crowded(&of).map(|what| find("S8", what)));
        let is_alone = of.iter().all(|(start, _)| start.permits == 1);
        if is_alone {
            violations.extend(falling(&of).map(|what| find("S2", what)));
            violations.extend(overtaken(&of).map(|what| find("L3", what)));
        }
    }
    violations
}

impl StartAsked {
    /// What is wrong with what was heard of it.
    fn contradicts(&self, run: Option<&Run>) -> Option<&'static str> {
        let heard = |answer| self.calls.iter().find(|call| call.answer == answer);
        let is_settled = [StartAnswer::Skipped, StartAnswer::Superseded]
            .iter()
            .any(|answer| heard(*answer).is_some());
        // Nothing is kept of a refused start: a repetition is another.
        let is_refused = self
            .calls
            .iter()
            .all(|call| call.answer == StartAnswer::Refused);
        match run {
            Some(_) if is_settled || is_refused => Some("was settled, and has run"),
            Some(run) if heard(StartAnswer::Started).is_some_and(|it| it.end < run.from) => {
                Some("was answered as begun before it was")
            }
            None if heard(StartAnswer::Started).is_some() => {
                Some("was answered as begun, and has not run")
            }
            None if heard(StartAnswer::Queued).is_some() && !is_settled => {
                Some("was queued, and has never begun")
            }
            _ => None,
        }
    }
}

/// More run at once than there are permits.
fn crowded<'a>(of: &'a [(&StartAsked, &Run)]) -> impl Iterator<Item = String> + 'a {
    of.iter().enumerate().filter_map(|(index, (start, run))| {
        let running =
            |(_, other): &&(&StartAsked, &Run)| other.until.is_none_or(|it| it > run.from);
        let others = of[..index].iter().filter(running).count();
        (others >= usize::from(start.permits))
            .then(|| format!("{} began beside {others} others", run.execution))
    })
}

/// A later execution has an older token.
fn falling<'a>(of: &'a [(&StartAsked, &Run)]) -> impl Iterator<Item = String> + 'a {
    of.windows(2)
        .map(|two| (two[0].1, two[1].1))
        .filter(|(one, next)| next.token <= one.token)
        .map(|(one, next)| {
            let (before, after) = (one.token, next.token);
            format!("{} began by {after} after {before}", next.execution)
        })
}

/// One that was asked for after another was in the queue began before it.
fn overtaken<'a>(of: &'a [(&StartAsked, &Run)]) -> impl Iterator<Item = String> + 'a {
    of.iter().enumerate().flat_map(move |(index, (later, _))| {
        of[..index].iter().filter_map(move |(first, _)| {
            let placed = later
                .calls
                .iter()
                .filter(|call| call.answer == StartAnswer::Queued)
                .map(|call| call.end)
                .min()?;
            let asked = first.calls.iter().map(|call| call.begin).min()?;
            let waits = first.waits && later.waits;
            (waits && placed < asked)
                .then(|| format!("{} began before {}", first.execution, later.execution))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::StartCall;

    fn asked(name: &str, permits: u16, calls: &[(u64, u64, StartAnswer)]) -> StartAsked {
        let call = |&(begin, end, answer)| StartCall { begin, end, answer };
        StartAsked {
            key: "k".to_owned(),
            execution: name.to_owned(),
            permits,
            waits: true,
            calls: calls.iter().map(call).collect(),
        }
    }

    fn run(name: &str, token: u64, from: u64, until: u64) -> Run {
        Run {
            execution: name.to_owned(),
            token,
            from,
            until: Some(until),
        }
    }

    fn found(asked: &[StartAsked], runs: &[Run]) -> Vec<&'static str> {
        let violations = starts(asked, runs);
        violations.iter().map(|it| it.invariant).collect()
    }

    #[test]
    fn kept_promises_are_no_finding() {
        use StartAnswer::*;
        let all = [
            asked("a", 1, &[(0, 9, Unknown), (10, 11, Started)]),
            asked("b", 1, &[(12, 13, Queued), (14, 15, Queued)]),
            asked("c", 1, &[(14, 16, Skipped)]),
            asked("d", 1, &[(14, 16, Queued), (30, 31, Superseded)]),
            asked("e", 1, &[(14, 16, Refused), (30, 31, Started)]),
            asked("f", 1, &[(14, 16, Unknown)]),
        ];
        let runs = [run("a", 2, 5, 20), run("b", 4, 20, 30), run("e", 6, 30, 40)];
        assert_eq!(found(&all, &runs), [""; 0]);
        let two = [
            asked("a", 2, &[(0, 3, Started)]),
            asked("b", 2, &[(0, 3, Started)]),
        ];
        let beside = [run("a", 2, 1, 9), run("b", 2, 2, 9)];
        assert_eq!(found(&two, &beside), [""; 0]);
    }

    #[test]
    fn each_breach_of_a_start_is_found() {
        use StartAnswer::*;
        let begun = |name| asked(name, 1, &[(0, 3, Started)]);
        let two = [begun("a"), begun("b")];
        assert_eq!(found(&two, &[run("a", 2, 1, 9), run("b", 4, 2, 9)]), ["S8"]);
        assert_eq!(found(&two, &[run("a", 4, 1, 2), run("b", 2, 2, 9)]), ["S2"]);
        let one = [begun("a")];
        assert_eq!(found(&one, &[run("a", 2, 1, 2), run("a", 4, 2, 9)]), ["S7"]);
        assert_eq!(found(&one, &[run("a", 2, 4, 5)]), ["L4"], "too early");
        assert_eq!(found(&one, &[]), ["L4"], "never begun");
        for settled in [Skipped, Superseded, Refused] {
            let one = [asked("a", 1, &[(0, 3, settled)])];
            assert_eq!(found(&one, &[run("a", 2, 4, 5)]), ["L4"], "{settled:?}");
        }
        assert_eq!(found(&[asked("a", 1, &[(0, 3, Queued)])], &[]), ["L4"]);
        let late = [
            asked("a", 1, &[(0, 3, Queued)]),
            asked("b", 1, &[(4, 5, Queued)]),
        ];
        assert_eq!(
            found(&late, &[run("b", 2, 6, 7), run("a", 4, 8, 9)]),
            ["L3"]
        );
    }
}
