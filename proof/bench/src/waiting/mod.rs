//! What it costs to wait for a key that is held.
//!
//! Several clients want one key, each again as soon as it has released it, and hold it for a while. [`contestants`]
//! are the ways to wait; each is [run](mod@run) on a database of its own behind a counting proxy, for a warm-up and
//! a window ([`course`]). What the clients live through is written down ([`diary`]) and afterwards measured
//! ([`measure`](mod@measure)): requests per cycle, utilisation, waits, and to whom the key went. [`figures`] are what
//! comes of it, [`promises`] says what they are held to.

pub mod contestants;
pub mod course;
pub mod crew;
pub mod diary;
pub mod figures;
pub mod measure;
pub mod promises;
pub mod run;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::task::JoinSet;

use crate::parts::{Found, Ground};
use crate::{Error, tell};
use contestants::Name;
use course::Course;
use figures::{Figures, LEGEND, row, table};
use run::run;

/// How the waiting is run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What it costs to wait")]
pub struct Options {
    /// How many clients want the key, a run each [default: 2,8,32,128; quickly 2,8,32].
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub waiters: Option<Vec<u32>>,
    /// Who takes part [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub only: Vec<Name>,
    /// How long the key is held while the number of clients rises, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub hold: u64,
    /// How long a client rests between releasing the key and asking again, in milliseconds. Without a rest, who polls
    /// mostly gets it back.
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub rest: u64,
    /// How long it is held with the number of clients fixed, in milliseconds [default: 200,1000,5000; quickly 200,1000].
    #[arg(long, value_delimiter = ',', value_name = "MS,…", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub long_holds: Option<Vec<u64>>,
    /// How many clients that is; 0 leaves this part out.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=512))]
    pub long_waiters: u32,
    /// What is added to the way of each request, as a stand-in for a network, in milliseconds, with eight clients
    /// [default: 1,5,20; quickly 5].
    #[arg(long, value_delimiter = ',', value_name = "MS,…", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub latency: Option<Vec<u64>>,
}

/// How many clients want the key from afar.
const WAITERS_FROM_AFAR: usize = 8;

/// First more and more clients with short holds, one contestant after the other; then the same number of clients with
/// longer and longer holds, and from farther and farther away, all contestants side by side.
pub(crate) async fn measure(ground: &Ground, options: &Options) -> Result<Found, Error> {
    let names = match &options.only[..] {
        [] => Name::value_variants(),
        only => only,
    };
    for name in names {
        tell(&format!("{}: {}", name.told(), name.settings()));
    }
    let by_waiters = by_waiters(ground, names, options).await?;
    let by_hold = by_hold(ground, names, options).await?;
    let by_latency = by_latency(ground, names, options).await?;

    let mut told = Vec::new();
    for runs in [&by_waiters, &by_hold, &by_latency] {
        if !runs.is_empty() {
            told.extend([table(runs), String::new()]);
        }
    }
    told.push(LEGEND.to_owned());
    let settings: BTreeMap<_, _> = names
        .iter()
        .map(|name| (name.told(), name.settings()))
        .collect();
    Ok(Found {
        title: "What it costs to wait for a key",
        told: told.join("\n"),
        measures: promises::measures(&by_waiters, &[&by_hold[..], &by_latency].concat()),
        pictures: vec![figures::draw(&by_waiters, &by_hold, &by_latency)],
        raw: json!({
            "settings": settings,
            "by_waiters": by_waiters,
            "by_hold": by_hold,
            "by_latency": by_latency,
        }),
    })
}

/// One run after the other, so that nobody slows another down.
async fn by_waiters(
    ground: &Ground,
    names: &[Name],
    options: &Options,
) -> Result<Vec<Figures>, Error> {
    let usual: &[u32] = if ground.quick {
        &[2, 8, 32]
    } else {
        &[2, 8, 32, 128]
    };
    let waiters = options.waiters.as_deref().unwrap_or(usual);
    let all = waiters.len() * names.len();
    let mut runs = Vec::with_capacity(all);
    for waiters in waiters {
        let waiters = usize::try_from(*waiters).unwrap_or(usize::MAX);
        let hold = Duration::from_millis(options.hold);
        let course = Course::of_rounds(waiters, hold, ground.quick)
            .resting(Duration::from_millis(options.rest));
        for name in names {
            let length = course.warm_up + course.window;
            tell(&format!(
                "run {} of {all}: {}, {waiters} clients, {} ms, {:.1} s",
                runs.len() + 1,
                name.told(),
                options.hold,
                length.as_secs_f64()
            ));
            let figures = Figures::from(&run(&ground.root, *name, course).await?);
            tell(&row(&figures));
            runs.push(figures);
        }
    }
    Ok(runs)
}

/// All holds at once: what is counted there does not depend on who runs beside.
async fn by_hold(
    ground: &Ground,
    names: &[Name],
    options: &Options,
) -> Result<Vec<Figures>, Error> {
    let usual: &[u64] = if ground.quick {
        &[200, 1000]
    } else {
        &[200, 1000, 5000]
    };
    let holds = options.long_holds.as_deref().unwrap_or(usual);
    let waiters = usize::try_from(options.long_waiters).unwrap_or(usize::MAX);
    if waiters == 0 {
        return Ok(Vec::new());
    }
    tell(&format!(
        "holds of {holds:?} ms with {waiters} clients, all contestants side by side"
    ));
    let courses: Vec<Course> = holds
        .iter()
        .map(|hold| {
            Course::of_holds(waiters, Duration::from_millis(*hold), ground.quick)
                .resting(Duration::from_millis(options.rest))
        })
        .collect();
    let mut runs = side_by_side(ground, names, &courses).await?;
    runs.sort_by_key(|run| (run.hold_ms, run.contestant));
    Ok(runs)
}

/// One latency after the other: times matter here.
async fn by_latency(
    ground: &Ground,
    names: &[Name],
    options: &Options,
) -> Result<Vec<Figures>, Error> {
    let usual: &[u64] = if ground.quick { &[5] } else { &[1, 5, 20] };
    let mut runs = Vec::new();
    for latency in options.latency.as_deref().unwrap_or(usual) {
        tell(&format!(
            "{latency} ms away, {WAITERS_FROM_AFAR} clients, all contestants side by side"
        ));
        let hold = Duration::from_millis(options.hold);
        let course = Course::of_rounds(WAITERS_FROM_AFAR, hold, ground.quick)
            .resting(Duration::from_millis(options.rest))
            .from_afar(Duration::from_millis(*latency));
        runs.extend(side_by_side(ground, names, &[course]).await?);
    }
    runs.sort_by_key(|run| (run.latency_ms, run.contestant));
    Ok(runs)
}

/// All contestants over all courses at once, each with a database of its own.
async fn side_by_side(
    ground: &Ground,
    names: &[Name],
    courses: &[Course],
) -> Result<Vec<Figures>, Error> {
    let mut running = JoinSet::new();
    for course in courses {
        for name in names {
            let (root, name, course) = (ground.root.clone(), *name, *course);
            running.spawn(async move { run(Path::new(&root), name, course).await });
        }
    }
    let mut runs = Vec::new();
    while let Some(ended) = running.join_next().await {
        // A run does not panic, and nobody aborts it.
        let ended = ended.map_err(|error| Error::Io {
            what: "finish a run".to_owned(),
            source: std::io::Error::other(error),
        })?;
        let figures = Figures::from(&ended?);
        tell(&row(&figures));
        runs.push(figures);
    }
    Ok(runs)
}
