//! The operators' command line: looks at leases, ends and freezes them, and runs a command under one.
//!
//! [`command`] is the whole of what it takes; help, completions, man pages and `docs/CLI.md` are made from it. [`run`] is
//! the program. Everything goes through the crate `leasehold`: there is no expression on the table in here.

mod acquire;
mod arguments;
mod connect;
mod ending;
mod instants;
mod lengths;
mod output;
mod surroundings;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Verb};
use ending::Code;

/// The command line, as clap has it.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the process's arguments say.
#[must_use]
pub fn run() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Acquire(acquire) => on_one_thread(acquire.run()),
        Verb::Guard => on_one_thread(acquire::guard::run()),
        Verb::Launch(launch) => launch.run(),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(trouble) => trouble.tell(),
    }
}

/// The kernel ties a command's life to the thread that started it: there is one.
fn on_one_thread(
    work: impl Future<Output = Result<Code, ending::Trouble>>,
) -> Result<Code, ending::Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            ending::Trouble::new(Code::UNREACHABLE, format!("cannot start: {error}"))
        })?;
    let outcome = runtime.block_on(work);
    // A name that is being looked up is not waited for.
    runtime.shutdown_background();
    outcome
}
