//! What ours is held to, beside the others. All of it is counted but the time that a lost answer costs.

use leasehold_local::Fault;

use super::clients::{Act, Who};
use super::played::{Played, Spent};
use super::{All, crash, line, lost, sections, several};
use crate::measures::Measure;
use crate::rounded;

/// Requests of an act that nobody disturbs.
const EACH: f64 = 1.0;
/// Requests until a client knows where it stands whose answer was lost.
const AFTER_A_LOSS: f64 = 2.0;
/// Milliseconds until then.
const TIME_AFTER_A_LOSS: f64 = 100.0;

const INDEX: &str =
    "ours: one for the row, one for the index of what is held, by which sweep and reap find it";
/// The most extends that are looked at.
const MANY_EXTENDS: u32 = 10;

/// A figure of a scene.
type Look<'a> = &'a dyn Fn(&Played) -> Option<f64>;

/// A figure that every scene has, and its unit.
type Cost = (&'static str, fn(&Played) -> f64);

/// What a scene costs.
const COSTS: [Cost; 2] = [
    ("requests", |played| number(played.all.requests)),
    ("write units", |played| played.all.writing()),
];

/// The measures of all scenes.
#[must_use]
pub fn measures(all: &All) -> Vec<Measure> {
    let mut measures = undisturbed(all);
    measures.extend(several_at_once(all));
    for act in Act::ALL {
        measures.extend(gone_wrong(all, act));
    }
    measures.extend(crashes(all));
    measures.extend(from_afar(all));
    measures
}

fn undisturbed(all: &All) -> Vec<Measure> {
    let (alone, extended) = (sections::name(0), sections::name(1));
    let mut measures = Vec::new();
    for act in Act::ALL {
        let scene = if act == Act::Extend {
            &extended
        } else {
            &alone
        };
        let requests = beside(
            all,
            scene,
            &format!("requests per uncontended {}", act.told()),
            "requests",
            &|played| Some(number(played.step(act.told())?.requests)),
        );
        measures.extend(requests.map(|measure| measure.at_most(EACH)));
        let units = beside(
            all,
            scene,
            &format!("write units per uncontended {}", act.told()),
            "write units",
            &|played| played.step(act.told()).map(Spent::writing),
        );
        measures.extend(units.map(|measure| match act {
            Act::Extend => measure,
            Act::Acquire | Act::Release => measure.note(INDEX),
        }));
    }
    measures.extend(beside(
        all,
        &alone,
        "read units per uncontended section",
        "read units",
        &|played| Some(played.all.read_units),
    ));
    measures.extend(beside(
        all,
        &alone,
        "bytes per uncontended section, both ways",
        "bytes",
        &|played| Some(number(played.all.bytes_up + played.all.bytes_down)),
    ));
    for (what, look) in COSTS {
        let name = format!("{what} per uncontended section with {MANY_EXTENDS} extends");
        let extended = sections::name(MANY_EXTENDS);
        let look = |played: &Played| Some(look(played));
        measures.extend(beside(all, &extended, &name, what, &look));
    }
    if let Some(played) = all.of(&alone, line::IN_LINE) {
        let requests = number(played.all.requests);
        measures.push(
            Measure::new("requests per uncontended section, in line", "requests", requests)
                .note("the transaction that would join is refused, since nobody holds the key: two requests to get in"),
        );
    }
    measures
}

fn several_at_once(all: &All) -> Vec<Measure> {
    let mut measures = Vec::new();
    for keys in [2, 10] {
        let scene = format!("{keys} keys at once");
        for (what, look) in COSTS {
            let name = format!("{what} per section of {keys} keys at once");
            let look = |played: &Played| Some(look(played));
            let measure = beside(all, &scene, &name, what, &look);
            measures.extend(measure.map(|measure| {
                measure.note("ours and direct calls: all or none, in a transaction; the others: one after the other")
            }));
        }
    }
    let permits = several::PERMITS;
    let scene = format!("semaphore of {permits}, all taken");
    let name = format!("requests per section under a semaphore of {permits}");
    let measure = beside(all, &scene, &name, "requests", &|played| {
        Some(rounded(
            number(played.all.requests) / f64::from(played.sections),
        ))
    });
    measures.extend(measure.map(|measure| {
        measure.note("direct calls: a counter, from which a crash takes a permit for ever; the others have none")
    }));
    let fenced = all.of("write, guarded by the fence", Who::Leasehold.told());
    let leased = all.of("write, guarded by the lease", Who::Leasehold.told());
    let plain = all.of("write, unguarded", Who::DirectCalls.told());
    for (name, ours) in [("the fence", fenced), ("the lease", leased)] {
        if let (Some(ours), Some(plain)) = (ours, plain) {
            let name = format!("write units of a write guarded by {name}");
            let measure = Measure::new(name, "write units", ours.all.writing());
            let measure = measure.peer(plain.client, plain.all.writing());
            measures.push(measure.note("direct calls: without a guard; the others have none"));
        }
    }
    measures
}

fn gone_wrong(all: &All, act: Act) -> Vec<Measure> {
    let (loss, act) = (lost::name(act, Fault::LoseAnswer), act);
    let told = act.told();
    let requests = beside(
        all,
        &loss,
        &format!("requests until an answer that was lost with its connection is settled, {told}"),
        "requests",
        &|played| Some(number(played.all.requests)),
    );
    let time = beside(
        all,
        &loss,
        &format!("time until an answer that was lost with its connection is settled, {told}"),
        "ms",
        &|played| Some(played.took_ms),
    );
    let note = |measure: Measure| match note_of(all, &loss) {
        Some(note) => measure.note(note),
        None => measure,
    };
    let throttled = lost::name(act, Fault::Throttle);
    let throttled = beside(
        all,
        &throttled,
        &format!("requests if throttled once, {told}"),
        "requests",
        &|played| Some(number(played.all.requests)),
    );
    [
        requests.map(|measure| note(measure.at_most(AFTER_A_LOSS))),
        time.map(|measure| note(measure.at_most(TIME_AFTER_A_LOSS))),
        throttled,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What each client knows after a loss, and ours at its slowest.
fn note_of(all: &All, scene: &str) -> Option<String> {
    let ours = all.of(scene, Who::Leasehold.told())?;
    let others = Who::ALL.iter().filter_map(|who| all.of(scene, who.told()));
    let knows: Vec<String> = others
        .map(|played| format!("{}: {}", played.client, played.told))
        .collect();
    Some(format!(
        "times are the middle of {} tries, ours at most {} ms; what they then know: {}",
        ours.tries,
        ours.longest_ms,
        knows.join("; ")
    ))
}

fn crashes(all: &All) -> Vec<Measure> {
    let waits = |name: &str, unit: &str, look: Look| {
        // As it is deployed, nobody can count on an event.
        let mut ways = [crash::SWEPT, crash::POLLED].into_iter();
        let ours = ways.find_map(|way| all.of(crash::NAME, way))?;
        let measure = Measure::new(name, unit, look(ours)?);
        let others = all.played.iter();
        let others =
            others.filter(|played| played.scene == crash::NAME && played.client != ours.client);
        Some(others.fold(measure, |measure, played| match look(played) {
            Some(value) => measure.peer(played.client, value),
            None => measure,
        }))
    };
    let note = "ours: in line, with a sweep every second; by the clock a lease is taken 2 s after its end, the margin between \
                clocks. Reaped: told at once that the execution has ended; what that event takes on its way is not measured, \
                and one that may have left a Lambda at work has 15 minutes of grace";
    [
        waits(
            "requests of the one who waits, after a crash of the holder",
            "requests",
            &|played| Some(number(played.all.requests)),
        ),
        waits(
            "wait after a crash of the holder",
            "lengths of its lease",
            &Played::in_leases,
        ),
    ]
    .into_iter()
    .flatten()
    .map(|measure| measure.note(note))
    .collect()
}

fn from_afar(all: &All) -> Vec<Measure> {
    let ours = all
        .far
        .iter()
        .filter(|far| far.client == Who::Leasehold.told());
    let measures = ours.filter_map(|far| {
        let name = format!("round trips of an uncontended section, {} ms away", far.latency_ms);
        let measure = Measure::new(name, "latencies", far.round_trips?);
        let others = all.far.iter();
        let others = others.filter(|other| {
            other.client != far.client && other.latency_ms == far.latency_ms
        });
        let measure = others.fold(measure, |measure, other| match other.round_trips {
            Some(trips) => measure.peer(other.client, trips),
            None => measure,
        });
        Some(measure.note("time of acquire and release, less that without latency, by what the way of one request was longer"))
    });
    measures.collect()
}

/// Ours, with the others who play the same scene.
fn beside(all: &All, scene: &str, name: &str, unit: &str, look: Look) -> Option<Measure> {
    let ours = all.of(scene, Who::Leasehold.told()).and_then(look)?;
    let measure = Measure::new(name, unit, ours);
    let others = Who::ALL.iter().filter(|who| **who != Who::Leasehold);
    let others = others.filter_map(|who| all.of(scene, who.told()));
    Some(others.fold(measure, |measure, played| match look(played) {
        Some(value) => measure.peer(played.client, value),
        None => measure,
    }))
}

fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
