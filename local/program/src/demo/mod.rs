//! `leasehold-local demo`, run by `make demo`: a [story] of one key on a real stack, what was [seen](record) of it, two
//! [pictures](picture), and a [report] of whether every promise held.

mod picture;
mod record;
mod report;
mod setting;
mod story;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use leasehold_local::{Error, Stack, installation};

use crate::signals::{listen_for_ends, report_interrupted};

/// The exit code that a shell expects after Ctrl-C.
const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "Examples:
  leasehold-local demo
  leasehold-local demo --out /tmp/demo | tee demo.log

Exit codes: 0 these promises held, 1 a promise was broken or the demo could not run, 2 wrong arguments, 130 Ctrl-C.";

/// Lets a process and eight workflows want one key, kills some of them, and checks the promises that such a run can show.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Directory for report.json, timeline.svg, tokens.svg and logs [default: target/demo in a clone, ~/.cache/leasehold-local/demo otherwise]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// Runs the demo to its verdict, or to Ctrl-C.
pub(crate) async fn run(demo: Demo) -> Result<ExitCode, Error> {
    let mut signals = listen_for_ends()?;
    let out = demo.out.unwrap_or_else(directory);
    // Files of an earlier run must not be mistaken for this one's.
    report::remove(&out);
    show(story::INTRODUCTION);
    eprintln!("starting DynamoDB, the functions and the state machine engine …");
    // Dropping the future ends the parts that have started.
    let stack = tokio::select! {
        started = Stack::start(story::options(&out)) => started?,
        _ = signals.next() => {
            report_interrupted();
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let ended = tokio::select! {
        ended = play(&stack, &out) => Some(ended),
        _ = signals.next() => None,
    };
    stack.stop().await;
    ended.unwrap_or_else(|| {
        report_interrupted();
        Ok(ExitCode::from(INTERRUPTED))
    })
}

async fn play(stack: &Stack, out: &Path) -> Result<ExitCode, Error> {
    let record = story::play(stack).await?;
    let report = report::Report::of(&record);
    show(&report.text());
    show(&report::write(out, &record, &report)?);
    Ok(if report.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn directory() -> PathBuf {
    if installation::is_packaged() {
        installation::run_directory().join("demo")
    } else {
        installation::home().join("target/demo")
    }
}

/// Prints a text and a line break.
fn show(text: &str) {
    use std::io::Write as _;
    // A closed pipe, as in `demo | head`, is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{text}");
}
