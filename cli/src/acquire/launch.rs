//! The last step before the command: a process that arranges to die with the wrapper, and then becomes the command.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;

use crate::exit::{Code, Failure};

#[derive(Args, Debug)]
pub(crate) struct Launch {
    /// The wrapper's process id.
    #[arg(long)]
    parent: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Launch {
    /// Becomes the command, or returns why it could not.
    pub(crate) fn run(self) -> Result<Code, Failure> {
        die_with_parent();
        // The wrapper may have died before that was arranged.
        let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_pid);
        if parent != Some(self.parent) {
            return Err(Failure::new(
                Code::LOST,
                "the process that held the lease is gone",
            ));
        }
        let [program, arguments @ ..] = self.command.as_slice() else {
            return Err(Failure::usage("no command"));
        };
        let error = Command::new(program).args(arguments).exec();
        let code = match error.kind() {
            ErrorKind::NotFound => Code::NOT_THERE,
            _ => Code::NOT_RUNNABLE,
        };
        Err(Failure::new(
            code,
            format!("{}: {error}", program.display()),
        ))
    }
}

/// Makes the kernel kill this process when its parent dies. This holds after exec too.
#[cfg(target_os = "linux")]
fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent() {}
