//! `leasehold-local demo`, run by `make demo`, has two acts. In the first, executions of the real state machines contend for two
//! keys; one is stopped, and a process of another is killed. In the second, executions queue for one key; one is stopped while it
//! waits, one while it holds. The invocations and the protected resource give one [history](leasehold_local::history), which its
//! judge checks.

mod cast;
mod checks;
mod contention;
mod director;
mod picture;
mod queue;
mod record;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use leasehold_local::{Error, Options, Signals, Stack, report_interrupted};

use director::Director;

/// Instead of the template's 2000. It is safe, because all processes here read the same clock.
const MARGIN_MS: u64 = 500;
/// Instead of the template's 900. It is longer than the one step that can be running when its execution is stopped.
const GRACE_SECONDS: u64 = 3;
const SWEEP_EVERY: Duration = Duration::from_secs(2);
/// The default number of executions.
const EXECUTIONS: u16 = 12;
/// The exit code that a shell expects after Ctrl-C.
const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "Examples:
  leasehold-local demo
  leasehold-local demo --executions 20 --seed 7
  leasehold-local demo --out /tmp/demo | tee demo.log

The seed fixes the lengths and starting times of the first act's work. The state machines' own jitter is random, so no two
runs are the same.

Exit codes: 0 all promises kept, 1 a promise was broken or the demo could not run, 2 wrong arguments, 130 Ctrl-C.";

/// Lets executions contend for two leases, and others queue for one; stops some, kills a process of another, and checks
/// that every promise was kept.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// How many executions contend in the first act, 8 to 24
    #[arg(long, value_name = "NUMBER", default_value_t = EXECUTIONS, value_parser = clap::value_parser!(u16).range(8..=24))]
    executions: u16,
    /// Seed of the lengths and starting times of the work [default: a new one for each run]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Directory for report.json, timeline.svg, line.svg and logs [default: target/demo]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Runs the demo to its verdict, or to Ctrl-C.
pub(crate) async fn run(demo: Demo) -> Result<ExitCode, Error> {
    let mut signals = Signals::listen()?;
    let out = demo
        .out
        .clone()
        .unwrap_or_else(|| Options::default().root.join("target/demo"));
    // Files of an earlier run must not be mistaken for this one's.
    report::remove(&out);
    let seed = demo.seed.unwrap_or_else(|| record::now() % 10_000);
    show(&introduction(demo.executions, seed));
    eprintln!("starting DynamoDB, the functions and the state machine engine …");
    // Dropping the future ends the parts that have started.
    let stack = tokio::select! {
        started = Stack::start(director::options(&out)) => started?,
        () = signals.wait() => {
            report_interrupted();
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let ended = tokio::select! {
        ended = play(&stack, demo.executions, seed, &out) => Some(ended),
        () = signals.wait() => None,
    };
    stack.stop().await;
    ended.unwrap_or_else(|| {
        report_interrupted();
        Ok(ExitCode::from(INTERRUPTED))
    })
}

/// The introduction: what the run shows, and the command that repeats it.
fn introduction(executions: u16, seed: u64) -> String {
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("leasehold-local");
    let number = match executions {
        EXECUTIONS => String::new(),
        other => format!(" --executions {other}"),
    };
    format!(
        "1. {executions} executions of the real state machines contend for {} keys.
One is stopped in the middle of its section. The acquire process of another is killed before its response.
2. {} queue for one key. One is stopped while it waits, one while it holds.
The clock margin is lowered to {MARGIN_MS} ms, so that a takeover comes soon.
seed {seed}; to repeat: {program} demo{number} --seed {seed}
",
        cast::KEYS.len(),
        cast::WAITERS,
    )
}

async fn play(stack: &Stack, executions: u16, seed: u64, out: &Path) -> Result<ExitCode, Error> {
    let director = Director::new(stack).await?;
    contention::play(&director, &cast::contenders(executions, seed)).await?;
    let queue = queue::play(&director).await?;
    let record = director.finish().await?;
    let checks = checks::judge(&record, &queue);
    let report = report::Report::new(seed, &record, &checks, &queue);
    show(&report.text());
    let passed = report.passed;
    let files = report::write(out, &record, &report)?;
    show(&files);
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a text and a line break.
fn show(text: &str) {
    use std::io::Write as _;
    // A closed pipe, as in `demo | head`, is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{text}");
}
