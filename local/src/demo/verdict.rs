//! Whether the run kept its promises: pure functions from what was recorded to what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Part;
use super::record::{Execution, Hold, Record};
use super::resource::{Audit, Write};

/// One promise, and whether it was kept.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// What was looked at, in numbers.
    pub(super) seen: String,
    /// What is wrong; empty if it was kept.
    pub(super) violations: Vec<String>,
}

/// Judges the whole run.
pub(super) fn judge(record: &Record, audit: &Audit, margin_ms: u64) -> Vec<Check> {
    let named = |arn: &str| record.name(arn).to_owned();
    let check = |name, seen, violations| Check {
        name,
        seen,
        violations,
    };
    let (holds, writes) = (&record.holds, &audit.writes);
    let both = audit.writes.iter().filter(|write| write.enters).count();
    let late: usize = record
        .executions
        .iter()
        .map(|execution| execution.refused_writes.len())
        .sum();
    vec![
        check(
            "executions ended as expected",
            format!("{} executions", record.executions.len()),
            unexpected_ends(&record.executions),
        ),
        check(
            "every invocation was seen",
            format!("{} missed", record.missed),
            missed(record.missed),
        ),
        check(
            "no overlap in the leases",
            format!("{} intervals", holds.len()),
            overlapping_holds(holds, named),
        ),
        check(
            "no overlap in the resource",
            format!("{both} entries"),
            overlapping_entries(writes, audit.overlaps, record),
        ),
        check(
            "tokens rise in grant order",
            format!("{} tokens on {} keys", holds.len(), by_key(holds).len()),
            token_order(holds),
        ),
        check(
            "no write with an old token accepted",
            format!("{} writes accepted, {late} refused", writes.len()),
            stale_writes(writes),
        ),
        check(
            "taken over after its ttl and margin",
            format!("take-overs: {}", takeovers(holds).count()),
            takeover(record, margin_ms),
        ),
        check(
            "replayed after the kill",
            format!("replays: {}", replays(holds).count()),
            replay(record),
        ),
    ]
}

/// Whether all promises were kept.
pub(super) fn passed(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.violations.is_empty())
}

/// Grants after a holder that did not release.
pub(super) fn takeovers(holds: &[Hold]) -> impl Iterator<Item = &Hold> {
    let expired = |hold: &&Hold| {
        let previous = hold.previous.as_ref();
        previous.is_some_and(|previous| previous.ended == "expired")
    };
    holds.iter().filter(expired)
}

/// Grants of which their holders learnt by asking again.
pub(super) fn replays(holds: &[Hold]) -> impl Iterator<Item = &Hold> {
    holds.iter().filter(|hold| hold.kind == "replayed")
}

fn by_key(holds: &[Hold]) -> BTreeMap<&str, Vec<&Hold>> {
    let mut keys: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        keys.entry(&hold.key).or_default().push(hold);
    }
    for on_key in keys.values_mut() {
        on_key.sort_by_key(|hold| hold.from);
    }
    keys
}

fn missed(invocations: u64) -> Vec<String> {
    let some = (invocations > 0).then(|| format!("{invocations} invocations went by unseen"));
    some.into_iter().collect()
}

fn unexpected_ends(executions: &[Execution]) -> Vec<String> {
    executions
        .iter()
        .filter(|execution| execution.status != execution.expected_status)
        .map(|execution| {
            let error = execution.error.as_deref().unwrap_or("no error");
            format!(
                "{} ended {} ({error}), not {}",
                execution.name, execution.status, execution.expected_status
            )
        })
        .collect()
}

/// Two holders who counted on the same key at the same time. A holder counts on its lease from the answer that
/// tells of it to the request that gives it back, at most until `safe_until`: within what the table granted, so
/// that two such intervals can only meet if two were granted at once.
fn overlapping_holds(holds: &[Hold], name: impl Fn(&str) -> String) -> Vec<String> {
    let mut violations = Vec::new();
    for (key, on_key) in by_key(holds) {
        for (index, one) in on_key.iter().enumerate() {
            let beside = on_key[index + 1..]
                .iter()
                .filter(|other| other.from < one.until());
            violations.extend(beside.map(|other| {
                format!(
                    "{} held {key} from {} to {}, and {} had it from {}",
                    name(&one.holder),
                    one.from,
                    one.until(),
                    name(&other.holder),
                    other.from
                )
            }));
        }
    }
    violations
}

/// Somebody came in while somebody else was inside: neither gone, nor past the instant at which it had to stop.
fn overlapping_entries(writes: &[Write], counted: u64, record: &Record) -> Vec<String> {
    let mut violations = Vec::new();
    if counted > 0 {
        violations.push(format!(
            "the resource refused {counted} entries beside another"
        ));
    }
    let mut inside: BTreeMap<&str, &Write> = BTreeMap::new();
    for write in writes {
        let before = inside.get(write.key.as_str());
        let until = |occupant: &Write| {
            let passes = record.passes.iter().filter(|pass| {
                pass.key == occupant.key && pass.fencing_token == occupant.fencing_token
            });
            // Without a word from the step nobody knows when it stops.
            passes.map(|pass| pass.safe_until).max().unwrap_or(u64::MAX)
        };
        if let Some(occupant) = before
            && occupant.fencing_token != write.fencing_token
            && write.at < until(occupant)
        {
            violations.push(format!(
                "write {} of {} with token {} while token {} was inside",
                write.number, write.key, write.fencing_token, occupant.fencing_token
            ));
        }
        if write.enters {
            inside.insert(&write.key, write);
        } else {
            inside.remove(write.key.as_str());
        }
    }
    violations
}

/// Every grant has a larger token than the one before, and names that one as its predecessor.
fn token_order(holds: &[Hold]) -> Vec<String> {
    let mut violations = Vec::new();
    for (key, on_key) in by_key(holds) {
        for pair in on_key.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if after.fencing_token <= before.fencing_token {
                violations.push(format!(
                    "{key}: token {} was granted after {}",
                    after.fencing_token, before.fencing_token
                ));
            }
            let named = after.previous.as_ref().map(|grant| grant.fencing_token);
            if named != Some(before.fencing_token) {
                violations.push(format!(
                    "{key}: token {} names {named:?} as the grant before, which was {}",
                    after.fencing_token, before.fencing_token
                ));
            }
        }
    }
    violations
}

/// The resource accepted an old token after a newer one.
pub(super) fn stale_writes(writes: &[Write]) -> Vec<String> {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    for write in writes {
        let newest = newest.entry(&write.key).or_default();
        if write.fencing_token < *newest {
            violations.push(format!(
                "write {} of {} came with token {} after {newest}",
                write.number, write.key, write.fencing_token
            ));
        }
        *newest = write.fencing_token.max(*newest);
    }
    violations
}

/// The stopped execution's lease went on to the next, which was told so, and not before it could.
fn takeover(record: &Record, margin_ms: u64) -> Vec<String> {
    let Some(stopped) = record.with_part(Part::Stopped) else {
        return Vec::new();
    };
    let Some(left) = record.holds_of(&stopped.arn).next() else {
        return vec![format!("{} was never granted its lease", stopped.name)];
    };
    let after = takeovers(&record.holds).find(|hold| {
        let previous = hold.previous.as_ref();
        hold.key == left.key
            && previous.is_some_and(|previous| {
                previous.fencing_token == left.fencing_token && previous.holder == stopped.arn
            })
    });
    match after {
        None => vec![format!(
            "nobody took over {} from {}",
            left.key, stopped.name
        )],
        Some(after) if after.acquired_at < left.expires_at + margin_ms => vec![format!(
            "{} took {} over {} ms too early",
            record.name(&after.holder),
            left.key,
            left.expires_at + margin_ms - after.acquired_at
        )],
        Some(_) => Vec::new(),
    }
}

/// The grant whose answer died with its process is the one that the same request was told the next time.
fn replay(record: &Record) -> Vec<String> {
    let Some(killed) = record.with_part(Part::Killed) else {
        return Vec::new();
    };
    let Some(death) = killed.deaths.iter().find(|death| death.verb == "acquire") else {
        return vec![format!("no process of {} was killed", killed.name)];
    };
    let tokens: BTreeSet<_> = record
        .holds_of(&killed.arn)
        .map(|hold| hold.fencing_token)
        .collect();
    let same = |hold: &Hold| {
        hold.kind == "replayed"
            && hold.request_id == death.request_id
            && (death.from..=death.at).contains(&hold.acquired_at)
    };
    if tokens.len() == 1 && record.holds_of(&killed.arn).all(same) {
        return Vec::new();
    }
    vec![format!(
        "{} did not get the lease back that was granted before the kill",
        killed.name
    )]
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
