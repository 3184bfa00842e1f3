use super::*;
use crate::workflows::history::{History, State};
use crate::workflows::prices::Bill;
use crate::workflows::spent::Spent;

fn scene(name: &str, who: &'static str, states: &[(&str, u64)]) -> Scene {
    let states = states.iter().map(|(name, entered)| {
        let state = State {
            entered: *entered,
            retried: 0,
            events: 5 * entered,
        };
        ((*name).to_owned(), state)
    });
    let history = History {
        states: states.collect(),
        events: 0,
    };
    let spent = Spent {
        sections: 1,
        history,
        ..Spent::default()
    };
    Scene::new(name, who, spent)
}

fn named<'a>(measures: &'a [Measure], name: &str) -> &'a Measure {
    measures
        .iter()
        .find(|measure| measure.name == name)
        .unwrap()
}

#[test]
fn a_third_state_for_the_lease_misses_the_target() {
    let states = [("Acquire", 1), ("First", 1), ("Extend", 1), ("Release", 1)];
    let kept = sections(&[scene("critical-section", OURS, &states)]);
    assert_eq!(named(&kept, PER_SECTION).met, Some(true));
    assert_eq!(named(&kept, "state transitions per extend").met, Some(true));
    let more = [&states[..], &[("Look again", 1)]].concat();
    let missed = sections(&[scene("critical-section", OURS, &more)]);
    assert_eq!(named(&missed, PER_SECTION).met, Some(false));
    let twice = [("Acquire", 1), ("Extend", 1), ("Prove", 1), ("Release", 1)];
    let missed = sections(&[scene("critical-section", OURS, &twice)]);
    assert_eq!(
        named(&missed, "state transitions per extend").met,
        Some(false)
    );
    // What was not seen is not met.
    assert_eq!(named(&sections(&[]), PER_SECTION).met, Some(false));
}

#[test]
fn ten_minutes_are_so_many_rounds_of_the_others() {
    let in_line = [("Acquire", 1), ("Confirm", 1), ("Release", 1)];
    let ours = scene("queued-section, after a wait", OURS, &in_line);
    let wait = Wait {
        who: SAMPLE_LOOP,
        rounds: 2,
        transitions: 4.0,
        events: 14.0,
        round_seconds: 3.0,
    };
    let found = waits(&[ours], &[wait]);
    let paid = named(&found, PER_WAIT);
    assert_eq!(paid.met, Some(true));
    assert!((paid.peers[SAMPLE_LOOP] - 800.0).abs() < 1e-9);
    assert!((found[1].peers[SAMPLE_LOOP] - 2800.0).abs() < 1e-9);
    // 25,000 events are 1786 rounds of 3 s.
    assert!(found[1].note.as_ref().unwrap().contains("1.5 h"));
}

#[test]
fn a_fourth_state_in_a_crowd_misses_the_target_and_others_stand_beside() {
    let crowd = |who, states: &[(&str, u64)]| Crowd {
        many: 8,
        scene: scene("8 at once", who, states),
    };
    let in_line = [
        ("Acquire", 1),
        ("Confirm", 1),
        ("Extend", 1),
        ("Release", 1),
    ];
    let looped = [("Take", 1), ("Pause", 4), ("GiveBack", 1)];
    let kept = crowds(&[crowd(OURS, &in_line), crowd(LOOP, &looped)]);
    let name = format!("{PER_CONTENDED}, 8 executions at once");
    assert_eq!(named(&kept, &name).met, Some(true));
    assert!((named(&kept, &name).peers[LOOP] - 6.0).abs() < 1e-9);
    let more = [&in_line[..], &[("TurnMissed", 1)]].concat();
    assert_eq!(
        named(&crowds(&[crowd(OURS, &more)]), &name).met,
        Some(false)
    );
}

#[test]
fn a_crash_is_told_in_lengths_of_the_lease_and_what_never_begins_is_not() {
    let crash = |help, leases: Option<f64>| Crash {
        who: OURS,
        help,
        seconds: leases.map(|leases| 5.0 * leases),
        leases,
        spent: Spent::default(),
        transitions: 1,
    };
    let found = crashes(&[crash(Help::Sweep, Some(1.08)), crash(Help::Clock, None)]);
    let [lost] = &found[..] else {
        panic!("{found:?}");
    };
    assert!((lost.ours - 1.08).abs() < 1e-9);
    assert!(
        lost.note
            .as_ref()
            .unwrap()
            .starts_with("5.4 s with a lease of 5 s")
    );
}

#[test]
fn a_hot_key_bears_what_the_largest_crowd_takes() {
    let row = |mode: &str, who, write_units| Row {
        mode: mode.to_owned(),
        who,
        bill: Bill {
            write_units,
            ..Bill::default()
        },
        million: 0.0,
    };
    let ledger = [
        row("in a workflow, nobody in the way", LOOP, 2.0),
        row("in a workflow, 2 at once", OURS, 8.0),
        row("in a workflow, 8 at once", OURS, 10.0),
    ];
    assert_eq!(hot_units(&ledger), (8.0, 10.0, 2.0));
    let found = hot_key(&ledger);
    let most = named(&found, "most sections of one key while 8 wait");
    assert!((most.ours - 100.0).abs() < 1e-9);
    // Eight who ask every 3 s leave 997 units for sections of two.
    assert!((most.peers[LOOP] - 498.0).abs() < 1e-9);
}
