//! Programs that this one runs: with a time limit, both outputs kept, and gone when they are not waited for.

use std::ffi::OsStr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::Command;

use crate::error::{Error, io};

/// A program that has ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    program: String,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// This, if the program says that it went well.
    pub(crate) fn well(self) -> Result<Self, Error> {
        if self.status.success() {
            return Ok(self);
        }
        // The last lines say what it comes to.
        let lines: Vec<_> = self.stderr.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n");
        Err(Error::Program {
            told: format!("{}: {last}", self.status),
            program: self.program,
        })
    }
}

/// A command as it is to be run: without a terminal, and killed if it is not waited for.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a program to its end, or kills it after `limit`.
pub(crate) async fn run(command: &mut Command, limit: Duration) -> Result<Ended, Error> {
    let program = command.as_std().get_program();
    let program = program.to_string_lossy().into_owned();
    let ended = tokio::time::timeout(limit, command.output()).await;
    let Ok(output) = ended else {
        let told = format!("not done after {} s", limit.as_secs());
        return Err(Error::Program { program, told });
    };
    let output = output.map_err(io(format!("run {program}")))?;
    Ok(Ended {
        program,
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
