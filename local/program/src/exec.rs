//! `leasehold-local exec`: a command with the stack beside it, such as the tests of somebody's project.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use leasehold_local::{Error, Stack, installation, process};
use leasehold_net::Signals;
use rustix::process::{Signal, getpgrp};
use tokio::process::Child;

use crate::arguments::Arguments;
use crate::signals::{listen_for_ends, report_interrupted};

const EXAMPLES: &str = "Examples:
  leasehold-local exec -- pytest
  leasehold-local exec --sweep-every 5 -- npx vitest run
  leasehold-local exec --function Charge='python -m awslambdaric app.handler' --machine order=order.asl.json -- pytest

The command begins when everything is ready. A --function that cannot start, or that ends, is reported with the end of what it
printed; the command begins all the same. Its environment has the endpoints, the Region and the credentials for every SDK.

Exit codes: the command's own, 128 and the number of the signal that ended it, 127 if there is no such command; 1 if the
stack failed to start or failed later, 2 wrong arguments. A command beside a stack that fails gets SIGTERM, and ten seconds;
if this program is killed, SIGTERM.";

/// How long a command may take to end after the stack has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Start the stack, run a command beside it, and end the stack with it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Exec {
    #[command(flatten)]
    what: Arguments,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command beside the stack. Returns the command's exit code. A signal that asks this process to end is passed on, and the
/// stack ends after the command.
///
/// # Errors
/// The cause, if the stack could not start or a part of it failed. The command is asked to end then, and killed if it does not.
pub(crate) async fn run(exec: Exec) -> Result<ExitCode, Error> {
    let mut signals = listen_for_ends()?;
    let run_directory = exec.what.run_directory();
    let (mut stack, _) = tokio::select! {
        started = exec.what.start(run_directory) => started?,
        signal = signals.next() => {
            report_interrupted();
            return Ok(code(128 + signal.as_raw()));
        }
    };
    let result = beside(&mut stack, &mut signals, &exec.command).await;
    stack.stop().await;
    result
}

async fn beside(
    stack: &mut Stack,
    signals: &mut Signals,
    words: &[OsString],
) -> Result<ExitCode, Error> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(ExitCode::FAILURE);
    };
    let what = format!("run {}", program.display());
    if !is_there(program) {
        eprintln!("leasehold-local: could not {what}: there is no such command");
        return Ok(ExitCode::from(127));
    }
    // So that it can itself end what it has started.
    let mut command = process::command_ending_with_us(program, "TERM");
    command
        .args(arguments)
        .envs(stack.variables())
        .kill_on_drop(true);
    for name in installation::VARIABLES.iter().chain(&installation::HIDING) {
        command.env_remove(name);
    }
    let mut child = process::spawn(command).map_err(Error::io(what.clone()))?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(exit_code(status.map_err(Error::io(what))?)),
            signal = signals.next() => pass_on(&child, signal),
            error = stack.failed() => {
                // Killed at once, it would leave behind what it has started.
                process::signal(&child, Signal::TERM);
                let _ = tokio::time::timeout(PATIENCE, child.wait()).await;
                return Err(error);
            }
        }
    }
}

/// Whether a shell would find the program: by its path, or in one of the directories of `PATH`.
fn is_there(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().nth(1).is_some() {
        return path.exists();
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories).any(|directory| directory.join(path).is_file())
}

/// Passes a signal on, but for Ctrl-C of a terminal, which sends it to every process of its group itself.
fn pass_on(child: &Child, signal: Signal) {
    if signal != Signal::INT || !is_in_the_foreground() {
        process::signal(child, signal);
    }
}

/// Whether this process's group is the one to which its terminal sends Ctrl-C.
fn is_in_the_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == getpgrp())
}

fn exit_code(status: ExitStatus) -> ExitCode {
    code(
        status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal))
            .unwrap_or(1),
    )
}

fn code(number: i32) -> ExitCode {
    ExitCode::from(u8::try_from(number).unwrap_or(1))
}
