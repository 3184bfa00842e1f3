//! What is promised of a workflow's states, as measures.

use super::crash::{Crash, Help};
use super::crowd::Crowd;
use super::hot_key;
use super::ledger::Row;
use super::scenes::{LOOP, OURS, POLLING, SAMPLE, SAMPLE_LOOP, Scene, Wait};
use crate::measures::Measure;
use crate::{ratio, rounded};

/// The wait that all are compared by.
const TEN_MINUTES: f64 = 600.0;
/// How many events the history of an execution holds.
const EVENTS_HELD: f64 = 25_000.0;
/// How the shipped machines ask again for a held key: first after 1 s, each time after half as much again, up to 10 s,
/// and of each of these lengths a random part.
const POLLING_MEAN_AT_LAST: f64 = 5.0;

pub(super) const PER_SECTION: &str = "state transitions per critical section, for the lease";
pub(super) const PER_WAIT: &str = "state transitions per 10 minutes of waiting";
pub(super) const PER_CONTENDED: &str = "state transitions per contended section, for the lease";

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
            if scene.extends == 0 {
                return f64::NAN;
            }
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
            PER_SECTION,
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
        PER_WAIT,
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

/// What each section takes of many that want one key at once.
pub(super) fn crowds(crowds: &[Crowd]) -> Vec<Measure> {
    let mut measures = Vec::new();
    for own in crowds.iter().filter(|crowd| crowd.who() == OURS) {
        let many = own.many;
        let others = crowds.iter();
        let others: Vec<_> = others
            .filter(|crowd| crowd.many == many && crowd.who() != OURS)
            .collect();
        let measure = |name: &str, unit: &str, what: &dyn Fn(&Crowd) -> f64| {
            let name = format!("{name}, {many} executions at once");
            let measure = Measure::new(name, unit, rounded(what(own))).note(
                "its extend is left out of ours, as no peer has one; what reap and sweep send afterwards is apart",
            );
            let add =
                |measure: Measure, crowd: &&Crowd| measure.peer(crowd.who(), rounded(what(crowd)));
            others.iter().fold(measure, add)
        };
        // Two for the section and one for the wait, however many there are.
        let transitions = measure(PER_CONTENDED, "transitions", &Crowd::transitions);
        let transitions = transitions.at_most(3.0);
        let events = measure(
            "history events per contended section, for the lease",
            "events",
            &Crowd::events,
        );
        let requests = measure(
            "requests per contended section in a workflow",
            "requests",
            &Crowd::requests,
        );
        measures.extend([transitions, events, requests]);
    }
    measures
}

/// When the next one begins after a crash.
pub(super) fn crashes(crashes: &[Crash]) -> Vec<Measure> {
    let with = |help| crashes.iter().find(|crash| crash.help == help);
    let mut measures = Vec::new();
    for (help, name, note) in [
        (
            Help::Event,
            "after a stopped execution, the next in line begins: its event arrives",
            "reap cuts the lease to the grace, 2 s here, and sweep, every second here, ends it then. As deployed the grace is \
             900 s and sweep runs every minute: a lease of less than 15 minutes then simply runs out. The sample's machine frees \
             at once, while the stopped one's function may still work",
        ),
        (
            Help::Sweep,
            "after a stopped execution, the next in line begins: its event is lost",
            "the lease's rest, the margin, and up to a period of sweep, every second here; the sample's next one never begins",
        ),
        (
            Help::Clock,
            "after a stopped execution, one who polls begins: its event is lost",
            "the lease's rest, the margin, and what is left of a random pause of up to 10 s",
        ),
    ] {
        let Some(crash) = with(help) else {
            continue;
        };
        let (Some(seconds), Some(leases)) = (crash.seconds, crash.leases) else {
            continue;
        };
        let note = format!("{seconds:.1} s with a lease of 5 s; {note}");
        measures.push(Measure::new(name, "lengths of the lease", rounded(leases)).note(note));
    }
    if let (Some(ours), Some(sample)) = (with(Help::Event), with(Help::Cleanup)) {
        let measure = Measure::new(
            "state transitions of waiting and cleaning up after a stopped execution",
            "transitions",
            ratio(ours.transitions, 1),
        );
        measures.push(measure.peer(sample.who, ratio(sample.transitions, 1)).note(
            "the sample's machine that cleans up has two states in our words; as published it has four",
        ));
    }
    measures
}

/// How far a partition's write capacity goes, on paper.
pub(super) fn hot_key(ledger: &[Row]) -> Vec<Measure> {
    let (crowd, line, polled) = hot_units(ledger);
    let paces = hot_key::paces();
    let on_paper = "on paper: 1000 write units a second for a partition, units as counted here with what reap and sweep \
                    take; what an index takes is counted in, though it lies elsewhere. A longer line makes the row larger, and \
                    each write of it dearer. Round trips take longer than that";
    let name = format!("most sections of one key while {crowd} wait");
    let most = Measure::new(name, "per second", hot_key::in_line(line).floor());
    let most = paces.iter().fold(most, |measure, pace| {
        measure.peer(pace.who, pace.sections(crowd, polled).floor())
    });
    let mut measures = vec![most.note(format!(
        "{on_paper}. Who waits in line asks nothing; a peer's section is taken to have {polled} units"
    ))];
    let polling = paces.iter().find(|pace| pace.who == POLLING);
    let measure = Measure::new(
        "how many who poll starve a holder's own extend, with the shipped machines' Retry",
        "executions",
        polling.map_or(f64::NAN, hot_key::Pace::starve),
    );
    // Who only reads costs a holder no write.
    let others = paces
        .iter()
        .filter(|pace| pace.who != POLLING && pace.write_units > 0.0);
    let measure = others.fold(measure, |measure, pace| {
        measure.peer(pace.who, pace.starve())
    });
    measures.push(measure.note(
        "on paper: 1000 write units a second; python_dynamodb_lock only reads while it waits, and in line nobody asks",
    ));
    measures
}

/// The largest crowd, write units of a section in it in line, and those of a plain one, as they are in the ledger.
pub(super) fn hot_units(ledger: &[Row]) -> (f64, f64, f64) {
    let in_line = ledger.iter().rev();
    let mut in_line = in_line.filter(|row| row.who == OURS && row.mode.ends_with("at once"));
    let (crowd, line) = in_line.next().map_or((f64::NAN, f64::NAN), |row| {
        let mut words = row.mode.split_whitespace();
        let crowd = words.find_map(|word| word.parse().ok());
        (crowd.unwrap_or(f64::NAN), row.bill.write_units)
    });
    let mut plain = ledger.iter().filter(|row| row.who == LOOP);
    let polled = plain.next().map_or(f64::NAN, |row| row.bill.write_units);
    (crowd, line, polled)
}

#[cfg(test)]
mod tests;
