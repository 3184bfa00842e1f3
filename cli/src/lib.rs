//! The operators' command line: it inspects leases, ends and freezes them, and runs a command under one.
//!
//! [`command`] describes all commands and options; help, completions and man pages are generated from it.
//! [`run`] is the program. All access to leases goes through the crate `leasehold`: no DynamoDB expression is written here.

mod acquire;
mod arguments;
mod check;
mod clock_warning;
mod columns;
mod connect;
mod console;
mod doctor;
mod durations;
mod ended_executions;
mod environment;
mod exit;
mod failed_starts;
mod handle;
mod history;
mod instants;
mod key_lists;
mod key_text;
mod lease_text;
mod listing;
mod manual;
mod named;
mod next;
mod operate;
mod output;
mod pages;
mod redrive;
mod safeguards;
#[cfg(test)]
mod samples;
mod signals;
mod start;
mod step_functions;
mod table;
mod text_file;
mod watch;
mod weave;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use leasehold_asl::plain;
use tokio::runtime::Builder;

use arguments::{Arguments, Verb};
use exit::{Code, Failure};

/// The command line as a clap command.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the process's arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    let outcome = match arguments.verb {
        Verb::Ls(ls) => on_one_thread(ls.run()),
        Verb::Show(show) => on_one_thread(show.run()),
        Verb::Holders(holders) => on_one_thread(holders.run()),
        Verb::History(history) => on_one_thread(history.run()),
        Verb::Watch(watch) => on_one_thread(watch.run()),
        Verb::Console(console) => on_one_thread(console.run()),
        Verb::Acquire(acquire) => on_one_thread(acquire.run()),
        Verb::Extend(extend) => on_one_thread(extend.run()),
        Verb::Release(release) => on_one_thread(release.run()),
        Verb::ForceRelease(force) => on_one_thread(force.run()),
        Verb::Start(start) => on_one_thread(start.run()),
        Verb::RepeatStart(repeat) => on_one_thread(repeat.run()),
        Verb::DismissStart(dismiss) => on_one_thread(dismiss.run()),
        Verb::Redrive(redrive) => on_one_thread(redrive.run()),
        Verb::Freeze(freeze) => on_one_thread(freeze.run()),
        Verb::Unfreeze(unfreeze) => on_one_thread(unfreeze.run()),
        Verb::Limit(limit) => on_one_thread(limit.run()),
        Verb::Table(table) => on_one_thread(table.run()),
        Verb::Doctor(doctor) => on_one_thread(doctor.run()),
        Verb::Check(check) => check.run(),
        Verb::Weave(weave) => return weave.run(),
        Verb::Completions(completions) => completions.run(&command()),
        Verb::Man(man) => man.run(&command()),
        Verb::Guard => on_one_thread(acquire::guard::run()),
        Verb::Launch(launch) => launch.run(),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(failure) => report(&failure),
    }
}

/// Prints a failure and its remedy, and returns the exit code.
fn report(failure: &Failure) -> ExitCode {
    if failure.code != Code::BROKEN_PIPE {
        output::print_error(failure.what());
        if let Some(remedy) = failure.remedy() {
            output::print_error(&format!("  {remedy}"));
        }
    }
    failure.code.into()
}

/// Prints help, or what is wrong with the arguments. Arguments may come from anywhere, so they are made safe to print.
fn refuse(error: &clap::Error) -> ExitCode {
    let message = error.to_string();
    let lines: Vec<_> = message.split('\n').map(plain).collect();
    if lines.join("\n") == message {
        let _ = error.print();
    } else {
        eprint!("{}", lines.join("\n"));
    }
    u8::try_from(error.exit_code())
        .map_or(Code::USAGE, Code)
        .into()
}

/// One thread only, because the kernel kills the command when the thread that started it ends.
fn on_one_thread(work: impl Future<Output = Result<Code, Failure>>) -> Result<Code, Failure> {
    let failed = |error| Failure::new(Code::UNREACHABLE, format!("cannot start: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let outcome = runtime.block_on(work);
    // Do not wait for a DNS lookup that is still running.
    runtime.shutdown_background();
    outcome
}
