//! A violation that nobody finds is worse than none: each is made up here, and has to be seen.

use super::super::super::resource::Audit;
use super::super::line::Line;
use super::super::story::Story;
use super::*;

const GRACE_MS: u64 = 100;
/// Whose turn it is every so often.
const STEP_MS: u64 = 1_000;

/// Two writes each for who comes in twice, one after the other.
fn turn(writes: &mut Vec<Write>, holder: &str, from: u64, entries: u64) {
    for entry in 0..entries {
        for (enters, after) in [(true, 0), (false, 5)] {
            writes.push(Write {
                key: "k".to_owned(),
                number: writes.len() as u64 + 1,
                fencing_token: from,
                holder: holder.to_owned(),
                enters,
                at: from + 10 + entry * 10 + after,
            });
        }
    }
}

/// Five in line: the second is stopped holding, the fourth waiting.
fn kept() -> Evidence {
    let parts = [
        Part::Waits,
        Part::StoppedHolding,
        Part::Waits,
        Part::StoppedWaiting,
        Part::Waits,
    ];
    let mut audit = Audit::default();
    let mut waiters = Vec::new();
    let mut from = STEP_MS;
    for (index, part) in parts.into_iter().enumerate() {
        let arn = format!("arn:{}", index + 1);
        let (entries, status) = match part {
            Part::Waits => (2, "SUCCEEDED"),
            Part::StoppedHolding => (1, "ABORTED"),
            Part::StoppedWaiting => (0, "ABORTED"),
        };
        turn(&mut audit.writes, &arn, from, entries);
        let has = |it: bool, at: u64| it.then_some(at);
        let story = Story {
            asked: Some(index as u64),
            waits: 1,
            woken: has(entries > 0, from),
            confirmed: has(entries > 0, from + 5),
            released: has(entries == 2, from + 40),
            ended: Some(if entries == 0 { 500 } else { from + 50 }),
            status: status.to_owned(),
        };
        waiters.push(Waiter {
            name: format!("waiter-{}", index + 1),
            arn,
            part,
            stopped: has(entries < 2, from),
            story,
        });
        from += if entries == 0 { 0 } else { STEP_MS };
    }
    Evidence {
        began: 0,
        full: Line {
            order: waiters.iter().map(|waiter| waiter.arn.clone()).collect(),
            ..Line::default()
        },
        waiters,
        given_back: 10,
        place_gone: Some(600),
        at_last: (from, Line::default()),
        audit,
    }
}

/// The names of the promises that were broken.
fn broken(change: impl FnOnce(&mut Evidence)) -> Vec<&'static str> {
    let mut evidence = kept();
    change(&mut evidence);
    let checks = judge(&evidence, GRACE_MS).into_iter();
    let broken = checks.filter(|check| !check.violations.is_empty());
    broken.map(|check| check.name).collect()
}

#[test]
fn what_went_well_breaks_no_promise() {
    assert_eq!(broken(|_| {}), [""; 0]);
}

#[test]
fn a_line_that_stands_otherwise_than_they_came_is_told() {
    let swapped = broken(|evidence| evidence.full.order.swap(0, 2));
    assert_eq!(swapped, ["the line stands in the order of coming"]);
    let short = broken(|evidence| drop(evidence.full.order.pop()));
    assert_eq!(short, ["the line stands in the order of coming"]);
}

#[test]
fn a_later_one_that_overtakes_is_told() {
    let overtaken = broken(|evidence| {
        // The fifth and the third have each other's turns.
        for write in &mut evidence.audit.writes {
            match &*write.holder {
                "arn:3" => "arn:5".clone_into(&mut write.holder),
                "arn:5" => "arn:3".clone_into(&mut write.holder),
                _ => {}
            }
        }
    });
    assert!(
        overtaken.contains(&"first come, first served"),
        "{overtaken:?}"
    );
}

#[test]
fn a_second_one_inside_is_told() {
    let inside = "nobody was inside beside another";
    // The last goes in before the third goes out.
    let beside = broken(|evidence| evidence.audit.writes.swap(9, 10));
    assert!(beside.contains(&inside), "{beside:?}");
    assert_eq!(broken(|evidence| evidence.audit.overlaps = 1), [inside]);
}

#[test]
fn a_second_one_that_had_confirmed_is_told() {
    let held = "nobody held beside another";
    let beside = |at: u64| {
        broken(|evidence| {
            let first = &mut evidence.waiters[0].story;
            first.released = Some(at);
        })
    };
    assert!(beside(2 * STEP_MS + 5).is_empty());
    assert_eq!(beside(2 * STEP_MS + 6), [held]);
    let never = broken(|evidence| evidence.waiters[0].story.released = None);
    assert_eq!(never, [held]);
}

#[test]
fn an_old_token_that_was_accepted_is_told() {
    let old = broken(|evidence| {
        for write in &mut evidence.audit.writes {
            if write.holder == "arn:5" {
                write.fencing_token = 1;
            }
        }
    });
    assert_eq!(old, ["no write with an old token accepted"]);
}

#[test]
fn who_was_lost_is_told() {
    let lost = "nobody was lost";
    let failed = broken(|evidence| "FAILED".clone_into(&mut evidence.waiters[4].story.status));
    assert_eq!(failed, [lost]);
    let half = broken(|evidence| evidence.audit.writes.truncate(12 - 2));
    assert!(half.contains(&lost), "{half:?}");
    let running = broken(|evidence| evidence.waiters[3].story.status.clear());
    assert_eq!(running, [lost]);
}

#[test]
fn a_place_that_was_not_given_up_in_time_is_told() {
    let place = "who was stopped waiting gave up its place";
    let gone = |at| broken(|evidence| evidence.place_gone = at);
    // The fifth comes in at 4 010.
    assert!(gone(Some(4 * STEP_MS + 10)).is_empty());
    assert_eq!(gone(Some(4 * STEP_MS + 11)), [place]);
    assert_eq!(gone(None), [place]);
    let woken = broken(|evidence| evidence.waiters[3].story.woken = Some(700));
    assert_eq!(woken, [place]);
    let untouched = broken(|evidence| evidence.waiters[3].stopped = None);
    assert_eq!(untouched, [place]);
}

#[test]
fn a_grace_that_was_cut_short_or_never_began_is_told() {
    let grace = "who was stopped holding kept others out for its grace, not for its ttl";
    // The third comes in at 3 010.
    let ended = |at| broken(|evidence| evidence.waiters[1].story.ended = Some(at));
    assert!(ended(3 * STEP_MS + 10 - GRACE_MS - 5).is_empty());
    assert!(ended(3 * STEP_MS + 11 - GRACE_MS).contains(&grace));
    let late = broken(|evidence| {
        for write in &mut evidence.audit.writes[6..] {
            write.at += TTL_SECONDS * 1000;
        }
    });
    assert_eq!(late, [grace]);
    let nobody = broken(|evidence| evidence.audit.writes.truncate(6));
    assert!(nobody.contains(&grace), "{nobody:?}");
    let never = broken(|evidence| evidence.waiters[1].story.confirmed = None);
    assert_eq!(never, [grace]);
}

#[test]
fn whatever_is_left_of_the_line_is_told() {
    let left = "the key is free, and nothing is left of the line";
    let look = |change: fn(&mut Line)| broken(|evidence| change(&mut evidence.at_last.1));
    assert_eq!(look(|line| line.held = true), [left]);
    assert_eq!(look(|line| line.kept = true), [left]);
    assert_eq!(look(|line| line.order.push("arn:1".to_owned())), [left]);
    assert_eq!(look(|line| line.items.push("arn:1".to_owned())), [left]);
}
