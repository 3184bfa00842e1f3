//! Whether the line kept its promises: pure functions from the evidence to what is wrong.

use super::super::resource::Write;
use super::super::verdict::{Check, stale_writes};
use super::cast::{Part, TTL_SECONDS};
use super::evidence::{Evidence, Waiter};

/// Judges the act.
pub(super) fn judge(evidence: &Evidence, grace_ms: u64) -> Vec<Check> {
    let turns = evidence.turns().len();
    let check = |name, seen, violations| Check {
        name,
        seen,
        violations,
    };
    let waiters = evidence.waiters.len();
    let writes = &evidence.audit.writes;
    vec![
        check(
            "the line stands in the order of coming",
            format!("{waiters} executions"),
            line_up(evidence),
        ),
        check(
            "first come, first served",
            format!("{turns} turns"),
            order(evidence),
        ),
        check(
            "nobody was inside beside another",
            format!("{} writes", writes.len()),
            overlaps(writes, evidence),
        ),
        check(
            "nobody held beside another",
            "by the histories".to_owned(),
            holds(evidence, grace_ms),
        ),
        check(
            "no write with an old token accepted",
            format!("{} writes", writes.len()),
            stale_writes(writes),
        ),
        check(
            "nobody was lost",
            format!("{turns} of {waiters} had a turn"),
            lost(evidence),
        ),
        check(
            "who was stopped waiting gave up its place",
            name_of(evidence, Part::StoppedWaiting),
            place(evidence),
        ),
        check(
            "who was stopped holding kept others out for its grace, not for its ttl",
            name_of(evidence, Part::StoppedHolding),
            grace(evidence, grace_ms),
        ),
        check(
            "the key is free, and nothing is left of the line",
            "the table's items".to_owned(),
            left_over(evidence),
        ),
    ]
}

fn name_of(evidence: &Evidence, part: Part) -> String {
    let waiter = evidence.with_part(part);
    waiter.map_or_else(String::new, |waiter| waiter.name.clone())
}

fn names(evidence: &Evidence, arns: &[&str]) -> String {
    let names: Vec<_> = arns.iter().map(|arn| evidence.name(arn)).collect();
    names.join(", ")
}

/// The table's list is the order in which they were started.
fn line_up(evidence: &Evidence) -> Vec<String> {
    let started: Vec<_> = evidence.waiters.iter().map(|one| &*one.arn).collect();
    let line: Vec<_> = evidence.full.order.iter().map(|arn| &**arn).collect();
    let wrong = (line != started).then(|| {
        let line = names(evidence, &line);
        format!("the line was {line}")
    });
    wrong.into_iter().collect()
}

/// The resource saw everybody once, in the order of the line, but who was stopped before.
fn order(evidence: &Evidence) -> Vec<String> {
    let turns = evidence.turns();
    let held: Vec<_> = turns.iter().map(|turn| &*turn.holder).collect();
    let waiting = |waiter: &&Waiter| waiter.part != Part::StoppedWaiting;
    let due: Vec<_> = evidence.waiters.iter().filter(waiting).collect();
    let due: Vec<_> = due.iter().map(|waiter| &*waiter.arn).collect();
    let wrong = (held != due).then(|| {
        let held = names(evidence, &held);
        format!("the turns were {held}")
    });
    wrong.into_iter().collect()
}

/// The resource's record is one of comings and goings in turn: whoever comes in finds nobody.
fn overlaps(writes: &[Write], evidence: &Evidence) -> Vec<String> {
    let mut violations = Vec::new();
    let counted = evidence.audit.overlaps;
    if counted > 0 {
        violations.push(format!(
            "the resource refused {counted} entries beside another"
        ));
    }
    let mut inside: Option<&Write> = None;
    for write in writes {
        let same = |other: &Write| other.fencing_token == write.fencing_token;
        let fits = match inside {
            Some(other) => !write.enters && same(other),
            None => write.enters,
        };
        if !fits {
            let other = inside.map_or("nobody", |other| evidence.name(&other.holder));
            violations.push(format!(
                "write {} of {} while {other} was inside",
                write.number,
                evidence.name(&write.holder)
            ));
        }
        inside = write.enters.then_some(write);
    }
    violations
}

/// From the confirmation to the release, as the engine has recorded both, nobody else had confirmed. Who was
/// stopped holds until its grace is over.
fn holds(evidence: &Evidence, grace_ms: u64) -> Vec<String> {
    let span = |waiter: &Waiter| {
        let story = &waiter.story;
        let until = match waiter.part {
            Part::StoppedHolding => story.ended.map(|at| at + grace_ms),
            _ => story.released,
        };
        Some((story.confirmed?, until.unwrap_or(u64::MAX)))
    };
    let waiters = evidence.waiters.iter();
    let mut spans: Vec<_> = waiters
        .filter_map(|waiter| Some((span(waiter)?, &waiter.name)))
        .collect();
    spans.sort_unstable();
    let pairs = spans.windows(2);
    let told = pairs.filter_map(|pair| match pair {
        [((_, until), before), ((from, _), after)] if from < until => {
            Some(format!("{after} held while {before} did"))
        }
        _ => None,
    });
    told.collect()
}

/// Everybody ended as it had to, and did all of its work, or as much as it was let do.
fn lost(evidence: &Evidence) -> Vec<String> {
    let turns = evidence.turns();
    let mut violations = Vec::new();
    for waiter in &evidence.waiters {
        let (status, entries) = match waiter.part {
            Part::Waits => ("SUCCEEDED", 2),
            Part::StoppedWaiting => ("ABORTED", 0),
            Part::StoppedHolding => ("ABORTED", 1),
        };
        if waiter.story.status != status {
            violations.push(format!(
                "{} ended {:?}, not {status}",
                waiter.name, waiter.story.status
            ));
        }
        let own = turns.iter().filter(|turn| turn.holder == waiter.arn);
        let done: usize = own.map(|turn| turn.entries).sum();
        if done != entries {
            violations.push(format!(
                "{} came in {done} times instead of {entries}",
                waiter.name
            ));
        }
    }
    violations
}

/// Its place was gone before whoever stood behind it had a turn, and it was never woken.
fn place(evidence: &Evidence) -> Vec<String> {
    let Some(index) = evidence.index_of(Part::StoppedWaiting) else {
        return Vec::new();
    };
    let waiter = &evidence.waiters[index];
    let mut violations = Vec::new();
    if waiter.stopped.is_none() {
        violations.push(format!("{} was never stopped", waiter.name));
    }
    if waiter.story.woken.is_some() {
        violations.push(format!("{} was woken", waiter.name));
    }
    let next = evidence.waiters.get(index + 1);
    let turns = evidence.turns();
    let turn = turns
        .iter()
        .find(|turn| next.is_some_and(|next| next.arn == turn.holder));
    match (evidence.place_gone, turn) {
        (None, _) => violations.push(format!("{} kept its place", waiter.name)),
        (Some(gone), Some(turn)) if gone > turn.from => violations.push(format!(
            "{} kept its place until its turn had come",
            waiter.name
        )),
        _ => {}
    }
    violations
}

/// Nobody came in before the grace was over, and somebody did before the lease would have run out by itself.
fn grace(evidence: &Evidence, grace_ms: u64) -> Vec<String> {
    let Some(waiter) = evidence.with_part(Part::StoppedHolding) else {
        return Vec::new();
    };
    let (Some(ended), Some(confirmed)) = (waiter.story.ended, waiter.story.confirmed) else {
        return vec![format!("{} was never stopped holding", waiter.name)];
    };
    let Some(next) = evidence.turn_after(&waiter.arn) else {
        return vec![format!("nobody had a turn after {}", waiter.name)];
    };
    let name = evidence.name(&next.holder);
    let mut violations = Vec::new();
    if next.from < ended + grace_ms {
        violations.push(format!("{name} came in before the grace was over"));
    }
    if next.from >= confirmed + TTL_SECONDS * 1000 {
        violations.push(format!("{name} had to wait until the lease ran out"));
    }
    violations
}

fn left_over(evidence: &Evidence) -> Vec<String> {
    let (_, line) = &evidence.at_last;
    let mut violations = Vec::new();
    if line.held {
        violations.push("somebody holds the key".to_owned());
    }
    if line.kept {
        violations.push("the key is kept for somebody".to_owned());
    }
    for (arns, what) in [(&line.order, "in line"), (&line.items, "among the items")] {
        let arns: Vec<_> = arns.iter().map(|arn| &**arn).collect();
        if !arns.is_empty() {
            violations.push(format!("still {what}: {}", names(evidence, &arns)));
        }
    }
    violations
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
