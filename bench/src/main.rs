//! `leasehold-bench`: what it costs to wait, from the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use leasehold_bench::Error;
use leasehold_bench::contestants::Name;
use leasehold_bench::course::Course;
use leasehold_bench::report::{Figures, LEGEND, Report, row, table};
use leasehold_bench::run::run;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

/// Measures what it costs to wait for a key that others hold: requests, waits, and who gets it next.
///
/// Every client asks again as soon as it has released. First more and more clients with short holds, one contestant
/// after the other; then the same number of clients with longer and longer holds, all contestants side by side.
#[derive(Debug, Parser)]
#[command(name = "leasehold-bench", version, after_help = EXIT_CODES)]
struct Arguments {
    /// Shorter windows, and fewer runs: under a minute instead of about four.
    #[arg(long)]
    quick: bool,
    /// How many clients want the key, a run each [default: 2,8,32,128; quickly 2,8,32].
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = clap::value_parser!(u32).range(1..=512))]
    waiters: Option<Vec<u32>>,
    /// Who takes part [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    only: Vec<Name>,
    /// How long the key is held while the number of clients rises, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    hold: u64,
    /// How long a client rests between releasing the key and asking again, in milliseconds. Without a rest, who polls
    /// mostly gets it back.
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    rest: u64,
    /// How long it is held with the number of clients fixed, in milliseconds [default: 200,1000,5000; quickly 200,1000].
    #[arg(long, value_delimiter = ',', value_name = "MS,…", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    long_holds: Option<Vec<u64>>,
    /// How many clients that is; 0 leaves this part out.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=512))]
    long_waiters: u32,
    /// Where the report and the picture go [default: target/bench].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXIT_CODES: &str =
    "Exit codes: 0 all promises kept, 1 could not run, 2 wrong arguments, 3 a promise was broken.
RUST_LOG=debug tells more.";

/// The embedded DynamoDB warns of every condition that is refused; here that is contention, the most ordinary thing.
const QUIET: &str = "warn,dynoxide=error";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    match bench(arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            let causes =
                std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
            let told = causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"));
            tell(&format!("leasehold-bench: {told}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs, tells, and answers whether all promises were kept.
async fn bench(arguments: Arguments) -> Result<bool, Error> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().unwrap_or(package);
    let names = match &arguments.only[..] {
        [] => Name::value_variants(),
        only => only,
    };
    for name in names {
        tell(&format!("{}: {}", name.told(), name.settings()));
    }
    let by_waiters = by_waiters(root, names, &arguments).await?;
    let by_hold = by_hold(root, names, &arguments).await?;

    let report = Report::of(by_waiters, by_hold);
    let mut parts = vec![String::new()];
    for runs in [&report.by_waiters, &report.by_hold] {
        if !runs.is_empty() {
            parts.extend([table(runs), String::new()]);
        }
    }
    let machine = &report.machine;
    parts.push(LEGEND.to_owned());
    parts.push(format!(
        "{} cores, {}; DynamoDB: {}",
        machine.cores, machine.system, machine.database
    ));
    for verdict in &report.verdicts {
        let kept = if verdict.kept { "kept  " } else { "BROKEN" };
        parts.push(format!("{kept} {}", verdict.promise));
    }
    let out = arguments.out.unwrap_or_else(|| root.join("target/bench"));
    for file in report.write(&out)? {
        let file = file.canonicalize().unwrap_or(file);
        parts.push(format!("wrote {}", file.display()));
    }
    let _ = writeln!(std::io::stdout(), "{}", parts.join("\n"));
    Ok(report.verdicts.iter().all(|verdict| verdict.kept))
}

/// One run after the other, so that nobody slows another down.
async fn by_waiters(
    root: &Path,
    names: &[Name],
    arguments: &Arguments,
) -> Result<Vec<Figures>, Error> {
    let usual: &[u32] = if arguments.quick {
        &[2, 8, 32]
    } else {
        &[2, 8, 32, 128]
    };
    let waiters = arguments.waiters.as_deref().unwrap_or(usual);
    let all = waiters.len() * names.len();
    let mut runs = Vec::with_capacity(all);
    for waiters in waiters {
        let waiters = usize::try_from(*waiters).unwrap_or(usize::MAX);
        let hold = Duration::from_millis(arguments.hold);
        let course = Course::of_rounds(waiters, hold, arguments.quick)
            .resting(Duration::from_millis(arguments.rest));
        for name in names {
            let length = course.warm_up + course.window;
            tell(&format!(
                "run {} of {all}: {}, {waiters} clients, {} ms, {:.1} s",
                runs.len() + 1,
                name.told(),
                arguments.hold,
                length.as_secs_f64()
            ));
            let figures = Figures::from(&run(root, *name, course).await?);
            tell(&row(&figures));
            runs.push(figures);
        }
    }
    Ok(runs)
}

/// All runs at once, each with a database of its own: what is counted here does not depend on who runs beside.
async fn by_hold(
    root: &Path,
    names: &[Name],
    arguments: &Arguments,
) -> Result<Vec<Figures>, Error> {
    let usual: &[u64] = if arguments.quick {
        &[200, 1000]
    } else {
        &[200, 1000, 5000]
    };
    let holds = arguments.long_holds.as_deref().unwrap_or(usual);
    let waiters = usize::try_from(arguments.long_waiters).unwrap_or(usize::MAX);
    if waiters == 0 {
        return Ok(Vec::new());
    }
    tell(&format!(
        "holds of {holds:?} ms with {waiters} clients, all contestants side by side"
    ));
    let mut running = JoinSet::new();
    for hold in holds {
        let course = Course::of_holds(waiters, Duration::from_millis(*hold), arguments.quick)
            .resting(Duration::from_millis(arguments.rest));
        for name in names {
            let (root, name) = (root.to_owned(), *name);
            running.spawn(async move { run(&root, name, course).await });
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
    runs.sort_by_key(|run| (run.hold_ms, run.contestant));
    Ok(runs)
}

/// Progress, for who watches. Not `eprintln!`, which panics when the terminal has gone.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
