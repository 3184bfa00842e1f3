//! A violation that nobody finds is worse than none: each is made up here, and has to be seen.

use super::super::facts::{Fact, Grant, Pass, Previous, What};
use super::super::plan;
use super::*;

fn hold(holder: &str, fencing_token: u64, from: u64, released: Option<u64>) -> Hold {
    Hold {
        holder: holder.to_owned(),
        key: "k".to_owned(),
        fencing_token,
        kind: "new".to_owned(),
        request_id: "r".to_owned(),
        acquired_at: from,
        from,
        safe_until: from + 300,
        expires_at: from + 400,
        released: released.map(|at| (at, "released".to_owned())),
        extends: Vec::new(),
        previous: None,
    }
}

fn after(mut hold: Hold, fencing_token: u64, ended: &str) -> Hold {
    hold.previous = Some(Previous {
        holder: "a".to_owned(),
        fencing_token,
        ended: ended.to_owned(),
    });
    hold
}

fn overlaps(holds: &[Hold]) -> usize {
    overlapping_holds(holds, str::to_owned).len()
}

#[test]
fn leases_one_after_the_other_do_not_overlap() {
    // The second is granted as the first is released; the third after the second has run out.
    let holds = [
        hold("a", 1, 0, Some(100)),
        hold("b", 3, 100, None),
        hold("c", 5, 400, Some(500)),
    ];
    assert_eq!(overlaps(&holds), 0);
}

#[test]
fn a_lease_granted_beside_another_is_found_in_whatever_order_they_were_heard_of() {
    let (one, other) = (hold("a", 1, 0, Some(100)), hold("b", 3, 99, Some(200)));
    assert_eq!(overlaps(&[one.clone(), other.clone()]), 1);
    assert_eq!(overlaps(&[other, one]), 1);
    // Not released: until it had to stop, whoever the next one is.
    let all = [
        hold("a", 1, 0, None),
        hold("b", 3, 10, Some(20)),
        hold("c", 5, 299, None),
    ];
    assert_eq!(overlaps(&all), 2);
    // A release that came after the lease had run out does not lengthen it.
    assert_eq!(
        overlaps(&[hold("a", 1, 0, Some(900)), hold("b", 3, 300, None)]),
        0
    );
    let mut elsewhere = hold("b", 3, 10, None);
    elsewhere.key = "other".to_owned();
    assert_eq!(overlaps(&[hold("a", 1, 0, None), elsewhere]), 0);
}

#[test]
fn tokens_have_to_rise_and_to_name_the_one_before() {
    let first = hold("a", 5, 0, None);
    let good = after(hold("b", 7, 400, None), 5, "expired");
    assert!(token_order(&[first.clone(), good]).is_empty());
    let same = after(hold("b", 5, 400, None), 5, "expired");
    assert_eq!(token_order(&[first.clone(), same]).len(), 1);
    let older = after(hold("b", 3, 400, None), 5, "expired");
    assert_eq!(token_order(&[first.clone(), older]).len(), 1);
    let of_another = after(hold("b", 9, 400, None), 7, "expired");
    assert_eq!(token_order(&[first, of_another]).len(), 1);
}

fn write(number: u64, fencing_token: u64, enters: bool, at: u64) -> Write {
    Write {
        key: "k".to_owned(),
        number,
        fencing_token,
        holder: "a".to_owned(),
        enters,
        at,
    }
}

fn record_with_passes() -> Record {
    let mut record = Record::new(0);
    for (fencing_token, safe_until) in [(1, 100), (3, 300)] {
        record.passes.push(Pass {
            key: "k".to_owned(),
            fencing_token,
            safe_until,
        });
    }
    record
}

#[test]
fn an_entry_beside_another_is_found_in_the_resource_s_own_record() {
    let entries = |writes: &[Write]| overlapping_entries(writes, 0, &record_with_passes()).len();
    let (enter, leave) = (write(1, 1, true, 10), write(2, 1, false, 50));
    assert_eq!(entries(&[enter.clone(), leave, write(3, 3, true, 60)]), 0);
    // Not left, but past the instant at which it had to stop; and before it.
    assert_eq!(entries(&[enter.clone(), write(2, 3, true, 100)]), 0);
    assert_eq!(entries(&[enter.clone(), write(2, 3, true, 99)]), 1);
    // Of a token that no step has told of nobody knows when it stops.
    assert_eq!(entries(&[write(1, 2, true, 10), write(2, 3, true, 900)]), 1);
    assert_eq!(
        overlapping_entries(&[enter], 1, &record_with_passes()).len(),
        1
    );
}

#[test]
fn an_old_token_that_was_accepted_is_found() {
    let (old, new) = (write(1, 1, true, 10), write(2, 3, true, 200));
    assert!(stale_writes(&[old.clone(), new.clone()]).is_empty());
    assert_eq!(stale_writes(&[old, new, write(3, 1, false, 210)]).len(), 1);
}

/// A run in which nothing has happened but the start.
fn record() -> Record {
    let mut record = Record::new(0);
    for role in plan::cast(8, 1) {
        record.announce(&role, role.name.clone());
    }
    record
}

fn fact(record: &mut Record, holder: &str, from: u64, what: What) {
    record.add(&Fact {
        from,
        at: from + 10,
        holder: holder.to_owned(),
        what,
    });
}

fn grant(fencing_token: u64, kind: &str, acquired_at: u64, previous: Option<Previous>) -> What {
    What::Granted(Grant {
        key: plan::KEYS[0].to_owned(),
        request_id: "r".to_owned(),
        fencing_token,
        kind: kind.to_owned(),
        acquired_at,
        expires_at: acquired_at + 400,
        safe_until: acquired_at + 300,
        previous,
    })
}

#[test]
fn without_a_take_over_or_before_its_time_the_promise_is_broken() {
    let previous = || {
        Some(Previous {
            holder: "stopped".to_owned(),
            fencing_token: 1,
            ended: "expired".to_owned(),
        })
    };
    let taken_at = |at: u64| {
        let mut record = record();
        fact(&mut record, "stopped", 0, grant(1, "new", 0, None));
        fact(
            &mut record,
            "section-1",
            at,
            grant(3, "takeover", at, previous()),
        );
        takeover(&record, 50)
    };
    assert!(taken_at(450).is_empty());
    assert_eq!(taken_at(449).len(), 1);
    assert_eq!(
        takeover(&record(), 50),
        ["stopped was never granted its lease"]
    );
    let mut nobody = record();
    fact(&mut nobody, "stopped", 0, grant(1, "new", 0, None));
    assert_eq!(
        takeover(&nobody, 50),
        ["nobody took over orders/42 from stopped"]
    );
}

#[test]
fn after_a_kill_only_the_same_lease_will_do() {
    let killed = || {
        let mut record = record();
        let what = What::Killed {
            verb: "acquire".to_owned(),
            request_id: "r".to_owned(),
        };
        fact(&mut record, "killed", 100, what);
        record
    };
    let told = |kind: &str, acquired_at: u64| {
        let mut record = killed();
        fact(
            &mut record,
            "killed",
            200,
            grant(1, kind, acquired_at, None),
        );
        replay(&record)
    };
    assert!(told("replayed", 105).is_empty());
    assert_eq!(told("new", 105).len(), 1);
    assert_eq!(told("replayed", 150).len(), 1, "granted after the kill");
    assert_eq!(replay(&killed()).len(), 1, "never granted");
    assert_eq!(replay(&record()), ["no process of killed was killed"]);
}

#[test]
fn an_end_that_was_not_planned_is_told() {
    let mut record = record();
    assert_eq!(unexpected_ends(&record.executions).len(), 8);
    for execution in &mut record.executions {
        execution.expected_status.clone_into(&mut execution.status);
    }
    assert!(unexpected_ends(&record.executions).is_empty());
    "FAILED".clone_into(&mut record.executions[2].status);
    record.executions[2].error = Some("Lease.Lost".to_owned());
    assert_eq!(
        unexpected_ends(&record.executions),
        ["killed ended FAILED (Lease.Lost), not SUCCEEDED"]
    );
}

#[test]
fn what_was_not_seen_is_not_judged_silently() {
    assert!(missed(0).is_empty());
    assert_eq!(missed(3), ["3 invocations went by unseen"]);
}

#[test]
fn one_fabricated_overlap_fails_the_whole_judgement() {
    let broken = |record: &Record| {
        let checks = judge(record, &Audit::default(), 50);
        let broken = checks
            .into_iter()
            .filter(|check| !check.violations.is_empty());
        broken.map(|check| check.name).collect::<Vec<_>>()
    };
    let mut record = record();
    record.executions.retain(|one| one.part == Part::Section);
    for execution in &mut record.executions {
        execution.expected_status.clone_into(&mut execution.status);
    }
    record.holds = vec![
        hold("a", 1, 0, Some(100)),
        after(hold("b", 3, 100, None), 1, "released"),
    ];
    assert!(broken(&record).is_empty());
    record.holds[1].from = 99;
    assert_eq!(broken(&record), ["no overlap in the leases"]);
}
