//! `leasehold-local demo`: what `make demo` runs, in two acts. Executions of the real state machines contend for two
//! keys; one is stopped, a process of another is killed. Then others wait in line for one key; one is stopped while it
//! waits, one while it holds. Each act is judged by what was recorded of it.

mod facts;
mod lines;
mod measures;
mod panel;
mod picture;
mod plan;
mod queue;
mod record;
mod report;
mod resource;
mod stage;
mod summary;
mod timeline;
mod verdict;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use leasehold_local::{Counts, Error, Options, Signals, Stack, metrics, report_interrupted};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use facts::Fact;
use measures::{Counted, Figures};
use plan::Part;
use record::Record;
use report::Report;
use stage::Stage;
use view::View;

/// Instead of the template's 2000: safe, because everybody here reads the same clock.
const MARGIN_MS: u64 = 500;
/// Unless another number is asked for.
const EXECUTIONS: u16 = 12;
const SWEEP_EVERY: Duration = Duration::from_secs(2);
/// How often the view is drawn anew.
const FRAME: Duration = Duration::from_millis(100);
/// How long the stopped execution's work, which nobody can stop, may go on after all else has ended.
const LATE_WORK_LIMIT: Duration = Duration::from_secs(15);
/// What a shell expects of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "Examples:
  leasehold-local demo
  leasehold-local demo --executions 20 --seed 7
  leasehold-local demo --plain --out /tmp/demo | tee demo.log

The seed fixes lengths and starting times of the first act's work. Who asks when is left to the state machines' own jitter,
so that no two runs are the same.

Exit codes: 0 all promises kept, 1 one was not or the demo could not run, 2 wrong arguments, 130 Ctrl-C.";

/// Lets executions contend for two leases, and others wait in line for one; stops some, kills a process of another,
/// and judges what happened.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// How many executions contend in the first act, 8 to 24
    #[arg(long, value_name = "NUMBER", default_value_t = EXECUTIONS, value_parser = clap::value_parser!(u16).range(8..=24))]
    executions: u16,
    /// Seed of the lengths and starting times of the work [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// One line per event, even in a terminal
    #[arg(long)]
    plain: bool,
    /// Where report.json, metrics.json, timeline.svg, line.svg and logs go [default: target/demo]
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
    // What an earlier run has left must not be taken for this one's.
    report::remove(&out);
    let seed = demo.seed.unwrap_or_else(|| facts::now() % 10_000);
    view::show(&introduction(demo.executions, seed));
    eprintln!("starting DynamoDB, the functions and the state machine engine …");
    // Dropped half way, the parts that have started go too.
    let stack = tokio::select! {
        started = Stack::start(stage::options(&out)) => started?,
        () = signals.wait() => {
            report_interrupted();
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let ended = tokio::select! {
        ended = play(&stack, &demo, seed, &out) => Some(ended),
        () = signals.wait() => None,
    };
    stack.stop().await;
    ended.unwrap_or_else(|| {
        report_interrupted();
        Ok(ExitCode::from(INTERRUPTED))
    })
}

/// What will be shown, and how to see it again.
fn introduction(executions: u16, seed: u64) -> String {
    let program = std::env::args().next();
    let program = program.as_deref().unwrap_or("leasehold-local");
    let number = match executions {
        EXECUTIONS => String::new(),
        other => format!(" --executions {other}"),
    };
    format!(
        "1. {executions} executions of the real state machines contend for {} keys.
One is stopped in mid-section; of another, the process that acquires is killed before its answer.
2. Others wait in line for one key. One is stopped while it waits, one while it holds.
The clock margin is lowered to {MARGIN_MS} ms, so that a take-over need not be waited for.
seed {seed}; again: {program} demo{number} --seed {seed}

",
        plan::KEYS.len()
    )
}

async fn play(
    stack: &Stack,
    demo: &Demo,
    seed: u64,
    out: &std::path::Path,
) -> Result<ExitCode, Error> {
    let cast = plan::cast(demo.executions, seed);
    let (told, mut heard) = mpsc::unbounded_channel();
    let mut invocations = stack.functions().invocations();
    let stage = Stage::set(stack, told).await?;

    let mut record = Record::new(facts::now());
    for role in &cast {
        record.announce(role, stage.arn(role));
    }
    let mut view = View::open(demo.plain);
    let mut frames = tokio::time::interval(FRAME);
    let mut directing = std::pin::pin!(stage.direct(&cast));
    let mut uncontended: Option<Counts> = None;
    let mut late = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    loop {
        let fact = tokio::select! {
            // What was heard comes before the end that may follow from it.
            biased;
            Some(fact) = heard.recv() => fact,
            heard = invocations.recv() => match heard {
                Ok(invocation) => match Fact::read(&invocation) {
                    Some(fact) => fact,
                    None => continue,
                },
                Err(RecvError::Lagged(missed)) => {
                    record.missed += missed;
                    continue;
                }
                Err(RecvError::Closed) => break,
            },
            counts = &mut directing, if uncontended.is_none() => {
                uncontended = Some(counts?);
                late.as_mut().reset(tokio::time::Instant::now() + LATE_WORK_LIMIT);
                continue;
            }
            _ = frames.tick() => {
                view.draw(&record);
                if uncontended.is_some() && has_ended(&record) {
                    break;
                }
                continue;
            }
            () = &mut late => break,
        };
        record.add(&fact);
        view.tell(&record, &fact);
    }
    view.close(&record);

    let counted = Counted {
        uncontended: uncontended.unwrap_or_default(),
        overall: stack.proxy().counts(),
        lease_table: stack
            .tables()
            .first()
            .copied()
            .unwrap_or_default()
            .to_owned(),
        resource_table: resource::table(stack)?,
    };
    let audit = resource::audit(stack, &plan::KEYS).await?;
    let figures = Figures::of(&record, &audit, &counted);
    let checks = verdict::judge(&record, &audit, MARGIN_MS);
    summary::print(&summary::rows(&record, &figures), &checks);

    let (sfn, machine) = stage.client(queue::MACHINE);
    let act = queue::play(stack, sfn, machine, record.began).await?;
    summary::print(&act.rows(), &act.checks);

    let report = Report::new(seed, &record, &figures, &checks, &act);
    let timeline = timeline::draw(&record, verdict::passed(&checks));
    let began = SystemTime::UNIX_EPOCH + Duration::from_millis(record.began);
    let metrics = metrics::written(stack.functions(), began)?;
    let files = report::write(out, &report, &timeline, &act.draw(), &metrics)?;
    summary::print_end(&files, record.seconds(facts::now()));
    Ok(if report.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether the last word of everybody has been heard, that of the work included which outlives its execution.
fn has_ended(record: &Record) -> bool {
    record
        .with_part(Part::Stopped)
        .is_none_or(|stopped| stopped.steps > 0)
}
