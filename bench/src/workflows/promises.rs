//! What is promised of a workflow's states, as measures.

use super::scenes::{LOOP, POLLING, SAMPLE, SAMPLE_LOOP, Scene, Wait};
use crate::measures::Measure;
use crate::{ratio, rounded};

/// The wait that all are compared by.
const TEN_MINUTES: f64 = 600.0;
/// How many events the history of an execution holds.
const EVENTS_HELD: f64 = 25_000.0;
/// How the shipped machines ask again for a held key: first after 1 s, each time after half as much again, up to 10 s,
/// and of each of these lengths a random part.
const POLLING_MEAN_AT_LAST: f64 = 5.0;

/// One scene of this name.
fn named<'a>(scenes: &'a [Scene], name: &str) -> Option<&'a Scene> {
    scenes.iter().find(|scene| scene.name == name)
}

/// What the lease itself takes: to have it and to give it back.
pub(super) fn sections(scenes: &[Scene]) -> Vec<Measure> {
    let of = |name: &str, what: &dyn Fn(&Scene) -> u64| {
        named(scenes, name).map_or(f64::NAN, |scene| ratio(what(scene), scene.executions))
    };
    let transitions = |name| of(name, &|scene| scene.purposes.lease.transitions);
    let events = |name| of(name, &|scene| scene.purposes.lease.events);
    let extends = |name| {
        named(scenes, name).map_or(f64::NAN, |scene| {
            ratio(scene.purposes.extend.transitions, scene.extends)
        })
    };
    let by_name =
        "by the names of states: Acquire and Release; the caller's own steps are left out";
    let sample =
        "AWS's sample has one Parallel around the taking and one around the work, and a Succeed";
    let waited = of("queued-section, after a wait", &|scene| {
        scene.purposes.waiting.transitions
    });
    let semaphore = named(scenes, "semaphore, 5 items");
    let item = semaphore.map_or(f64::NAN, |scene| ratio(scene.purposes.lease.transitions, 5));
    vec![
        Measure::new(
            "state transitions per critical section, for the lease",
            "transitions",
            transitions("critical-section"),
        )
        .peer(SAMPLE, transitions(SAMPLE))
        .peer(SAMPLE_LOOP, transitions(SAMPLE_LOOP))
        .peer(LOOP, transitions(LOOP))
        .at_most(2.0)
        .note(format!("{by_name}. {sample}; the loop has no token, no proof and no extend")),
        Measure::new(
            "state transitions per extend",
            "transitions",
            extends("critical-section"),
        )
        .at_most(1.0)
        .note("no peer can extend"),
        Measure::new(
            "state transitions per wait in line, of any length",
            "transitions",
            waited,
        )
        .at_most(1.0)
        .note("Confirm: Acquire itself waits, and is counted with the section; it is there without a wait, too"),
        Measure::new(
            "state transitions per permit of a semaphore, for the lease",
            "transitions",
            item,
        )
        .peer(SAMPLE, transitions(SAMPLE))
        .at_most(2.0)
        .note("the Map around the items has three more, however many items there are"),
        Measure::new(
            "state transitions for two keys at once, for the lease",
            "transitions",
            transitions("transfer"),
        )
        .at_most(2.0),
        Measure::new(
            "state transitions per section of a wrapped workflow, for the lease",
            "transitions",
            named(scenes, "with-lease").map_or(f64::NAN, |scene| {
                ratio(scene.purposes.transitions(), scene.executions)
            }),
        )
        .note("it knows nothing of leases; the Parallel around it and what reads its answer are counted"),
        Measure::new(
            "state transitions per takeover by observation, besides the section's",
            "transitions",
            of("observe, a takeover", &|scene| scene.purposes.waiting.transitions),
        )
        .note("Watch and TakeOver, whatever the length of the lease"),
        Measure::new(
            "history events per critical section, for the lease",
            "events",
            events("critical-section"),
        )
        .peer(SAMPLE, events(SAMPLE))
        .peer(SAMPLE_LOOP, events(SAMPLE_LOOP))
        .peer(LOOP, events(LOOP)),
    ]
}

/// What ten minutes of waiting take.
pub(super) fn waits(scenes: &[Scene], waits: &[Wait]) -> Vec<Measure> {
    let ours = named(scenes, "queued-section, after a wait");
    let (transitions, events) = ours.map_or((f64::NAN, f64::NAN), |scene| {
        let waiting = scene.purposes.waiting;
        let each = |all| ratio(all, scene.executions);
        (each(waiting.transitions), each(waiting.events))
    });
    let polls = TEN_MINUTES / POLLING_MEAN_AT_LAST;
    let mut paid = Measure::new(
        "state transitions per 10 minutes of waiting",
        "transitions",
        transitions,
    )
    .peer(POLLING, rounded(polls))
    .at_most(1.0)
    .note(
        "rounds as counted here, times ten minutes by the length of a round as published: the sample's Retry and its pause \
         of 3 s take 66 s; its loop without that Retry, and the polling loop, 3 s. Ours, polling: every 5 s at the mean, and \
         given up after 60 times",
    );
    let mut told = Measure::new("history events per 10 minutes of waiting", "events", events)
        .note("an execution's history holds 25,000");
    let mut longest: Option<(f64, &str)> = None;
    for wait in waits {
        let seconds = wait.round_seconds;
        let rounds = TEN_MINUTES / seconds;
        paid = paid.peer(wait.who, rounded(rounds * wait.transitions));
        told = told.peer(wait.who, rounded(rounds * wait.events));
        let hours = EVENTS_HELD / wait.events * seconds / 3600.0;
        if longest.is_none_or(|(least, _)| hours < least) {
            longest = Some((hours, wait.who));
        }
    }
    if let Some((hours, who)) = longest {
        told.note = Some(format!(
            "an execution's history holds 25,000: {who} can wait for {hours:.1} h at most"
        ));
    }
    vec![paid, told]
}
