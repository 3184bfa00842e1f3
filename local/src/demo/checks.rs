//! Whether the run kept its promises: those of the history, which the judge of all histories checks, and those of the demo's own
//! story.

use leasehold_local::history::{Promise, judge as judge_history};
use serde::Serialize;

use super::cast::{Part, QUEUE_KEY, QUEUE_TTL_SECONDS};
use super::queue::Left;
use super::record::{Execution, Record};
use super::{GRACE_SECONDS, MARGIN_MS};

/// One promise, and whether it was kept.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    /// The violations. Empty if the promise was kept.
    pub(super) violations: Vec<String>,
}

/// Checks the whole run.
pub(super) fn judge(record: &Record, left: &Left) -> Vec<Check> {
    let verdict = judge_history(&record.history);
    let promises = Promise::ALL.map(|promise| Check {
        name: promise.to_string(),
        violations: verdict
            .of(promise)
            .map(|finding| format!("{}: {}", finding.key, finding.what))
            .collect(),
    });
    let story: [(&str, Vec<String>); 8] = [
        ("the resource saw one holder at a time", overlaps(record)),
        ("executions ended as expected", ends(record)),
        ("every invocation was seen", missed(record)),
        (
            "taken over after its ttl and margin",
            takeover(record).into_iter().collect(),
        ),
        (
            "replayed after the kill",
            replay(record).into_iter().collect(),
        ),
        (
            "a stopped waiter gave up its place",
            place(record).into_iter().collect(),
        ),
        (
            "a stopped holder kept the key for its grace, not for its ttl",
            grace(record).into_iter().collect(),
        ),
        (
            "the key is free, and nothing is left of the queue",
            left_over(left),
        ),
    ];
    let story = story.into_iter().map(|(name, violations)| Check {
        name: name.to_owned(),
        violations,
    });
    promises.into_iter().chain(story).collect()
}

/// Whether all promises were kept.
pub(super) fn passed(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.violations.is_empty())
}

fn overlaps(record: &Record) -> Vec<String> {
    let times = (record.overlaps > 0).then(|| format!("{} times it did", record.overlaps));
    times.into_iter().collect()
}

fn ends(record: &Record) -> Vec<String> {
    let wrong = |one: &&Execution| one.status != one.expected_status;
    let text = |one: &Execution| {
        let error = one.error.as_deref().unwrap_or("no error");
        format!(
            "{} ended {} ({error}), not {}",
            one.name, one.status, one.expected_status
        )
    };
    record.executions.iter().filter(wrong).map(text).collect()
}

fn missed(record: &Record) -> Vec<String> {
    let some = (record.missed > 0).then(|| format!("{} went by unseen", record.missed));
    some.into_iter().collect()
}

/// The stopped execution's lease was taken over by the next one, which saw that it had expired, and not too early.
fn takeover(record: &Record) -> Option<String> {
    let stopped = record.with_part(Part::Stopped)?;
    let Some(lease) = &stopped.lease else {
        return Some(format!("{} was never granted its lease", stopped.name));
    };
    let next = record.executions.iter().find_map(|one| {
        let hold = one.lease.as_ref().filter(|hold| hold.is_takeover())?;
        let previous = hold.previous.as_ref()?;
        let theirs =
            previous.fencing_token == lease.fencing_token && previous.holder == stopped.arn;
        (one.key == stopped.key && theirs).then_some((&one.name, hold.acquired))
    });
    match next {
        None => Some(format!("nobody took over from {}", stopped.name)),
        Some((name, at)) if at < lease.expires + MARGIN_MS => Some(format!(
            "{name} took over {} ms too early",
            lease.expires + MARGIN_MS - at
        )),
        Some(_) => None,
    }
}

/// If a process died before its response, the repeated request got the same grant.
fn replay(record: &Record) -> Option<String> {
    let killed = record.with_part(Part::Killed)?;
    let Some(death) = killed.killed.first() else {
        return Some(format!("no process of {} was killed", killed.name));
    };
    let same = killed.lease.as_ref().is_some_and(|hold| {
        hold.grant == "replayed"
            && hold.request_id == death.request_id
            && (death.from..=death.at).contains(&hold.acquired)
    });
    (!same).then(|| {
        format!(
            "{} did not get the lease back that was granted before the kill",
            killed.name
        )
    })
}

/// It lost its place before the next waiter was granted the lease, and it never held the lease.
fn place(record: &Record) -> Option<String> {
    let mut queue = record.executions.iter().filter(|one| one.key == QUEUE_KEY);
    let waiter = queue.find(|one| one.part == Part::StoppedWaiting)?;
    let name = &waiter.name;
    let next = queue.find_map(|one| one.entered).unwrap_or(u64::MAX);
    match (waiter.stopped, waiter.unqueued) {
        (None, _) => Some(format!("{name} was never stopped")),
        (_, None) => Some(format!("{name} kept its place")),
        (_, Some(at)) if at > next => {
            Some(format!("{name} kept its place until its turn had come"))
        }
        _ if waiter.lease.is_some() => Some(format!("{name} had a turn")),
        _ => None,
    }
}

/// Nobody was granted the lease before the grace had passed, and somebody was before the lease would have expired by itself.
fn grace(record: &Record) -> Option<String> {
    let waiter = record.with_part(Part::StoppedHolding)?;
    let (Some(stopped), Some(lease)) = (waiter.stopped, &waiter.lease) else {
        return Some(format!(
            "{} was never stopped while it held the lease",
            waiter.name
        ));
    };
    let later = record.executions.iter().filter(|one| {
        let token = one.lease.as_ref().map(|hold| hold.fencing_token);
        one.key == waiter.key && token > Some(lease.fencing_token)
    });
    let next = later
        .filter_map(|one| Some((one.entered?, &one.name)))
        .min();
    match next {
        None => Some(format!("nobody had a turn after {}", waiter.name)),
        Some((at, name)) if at < stopped + GRACE_SECONDS * 1000 => {
            Some(format!("{name} came in before the grace was over"))
        }
        Some((at, name)) if at >= lease.from + QUEUE_TTL_SECONDS * 1000 => {
            Some(format!("{name} had to wait until the lease ran out"))
        }
        Some(_) => None,
    }
}

fn left_over(left: &Left) -> Vec<String> {
    let mut violations = Vec::new();
    if left.key["state"] != "free" {
        violations.push(format!("the key is {}", left.key["state"]));
    }
    if left.key["waiting"] != 0 {
        violations.push(format!("{} wait", left.key["waiting"]));
    }
    if left.items > 1 {
        violations.push(format!("{} items in addition to the row", left.items - 1));
    }
    violations
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cast::{KEYS, contenders, waiters};
    use super::super::record::{Death, Hold, Previous};
    use super::*;

    fn hold(token: u64, grant: &str, from: u64) -> Hold {
        Hold {
            fencing_token: token,
            grant: grant.to_owned(),
            request_id: "r".to_owned(),
            previous: None,
            acquired: from,
            from,
            expires: from + 5_000,
            safe_until: from + 4_000,
            extends: Vec::new(),
            released: None,
        }
    }

    fn one(record: &mut Record, part: Part) -> &mut Execution {
        let mut all = record.executions.iter_mut();
        all.find(|one| one.part == part).unwrap()
    }

    /// A correct run.
    fn kept() -> (Record, Left) {
        let mut record = Record::default();
        for role in contenders(8, 1).iter().chain(&waiters()) {
            record.start(role, &role.name);
        }
        for one in &mut record.executions {
            one.expected_status.clone_into(&mut one.status);
        }
        one(&mut record, Part::Stopped).lease = Some(hold(2, "new", 0));
        let heirs = record.executions.iter_mut();
        let heir = heirs.filter(|one| one.key == KEYS[0]).last().unwrap();
        let mut taken = hold(4, "takeover", 5_000 + MARGIN_MS);
        taken.previous = Some(Previous {
            holder: "stopped".to_owned(),
            fencing_token: 2,
            ended: "expired".to_owned(),
        });
        heir.lease = Some(taken);
        let killed = one(&mut record, Part::Killed);
        killed.lease = Some(hold(2, "replayed", 50));
        killed.killed.push(Death {
            from: 40,
            at: 50,
            request_id: "r".to_owned(),
        });
        let holding = one(&mut record, Part::StoppedHolding);
        (holding.lease, holding.stopped) = (Some(hold(2, "served", 1_000)), Some(2_000));
        let waiting = one(&mut record, Part::StoppedWaiting);
        (waiting.stopped, waiting.unqueued) = (Some(1_000), Some(1_100));
        let last = record.executions.last_mut().unwrap();
        (last.lease, last.entered) = (Some(hold(4, "served", 5_000)), Some(5_000));
        let left = Left {
            given_back: 0,
            key: json!({"state": "free", "waiting": 0}),
            items: 1,
            counts: super::super::counts::Queue::default(),
        };
        (record, left)
    }

    #[test]
    fn each_broken_promise_of_the_story_is_reported_and_no_other() {
        type Change = fn(&mut Record, &mut Left);
        let cases: [(&str, Change); 15] = [
            ("", |_, _| {}),
            ("the resource saw one holder at a time", |r, _| {
                r.overlaps = 1;
            }),
            ("executions ended as expected", |r, _| {
                "FAILED".clone_into(&mut r.executions[0].status);
            }),
            ("every invocation was seen", |r, _| r.missed = 1),
            ("taken over after its ttl and margin", |r, _| {
                one(r, Part::Stopped).lease.as_mut().unwrap().expires += 1;
            }),
            ("taken over after its ttl and margin", |r, _| {
                one(r, Part::Stopped).lease.as_mut().unwrap().fencing_token = 3;
            }),
            ("replayed after the kill", |r, _| {
                "new".clone_into(&mut one(r, Part::Killed).lease.as_mut().unwrap().grant);
            }),
            ("replayed after the kill", |r, _| {
                one(r, Part::Killed).killed.clear();
            }),
            ("a stopped waiter gave up its place", |r, _| {
                one(r, Part::StoppedWaiting).unqueued = None;
            }),
            ("a stopped waiter gave up its place", |r, _| {
                one(r, Part::StoppedWaiting).unqueued = Some(5_001);
            }),
            ("a stopped holder kept", |r, _| {
                one(r, Part::StoppedHolding).stopped = Some(2_001);
            }),
            ("a stopped holder kept", |r, _| {
                r.executions.last_mut().unwrap().entered = Some(31_000);
            }),
            ("the key is free, and nothing", |_, l| l.items = 2),
            ("the key is free, and nothing", |_, l| {
                l.key["waiting"] = json!(1);
            }),
            ("the key is free, and nothing", |_, l| {
                l.key["state"] = json!("held");
            }),
        ];
        for (name, change) in cases {
            let (mut record, mut left) = kept();
            change(&mut record, &mut left);
            let checks = judge(&record, &left);
            let broken: Vec<_> = checks
                .iter()
                .filter(|one| !one.violations.is_empty())
                .collect();
            assert_eq!(
                broken.len(),
                usize::from(!name.is_empty()),
                "{name}: {broken:?}"
            );
            assert!(
                broken.iter().all(|one| one.name.starts_with(name)),
                "{name}: {broken:?}"
            );
        }
    }
}
