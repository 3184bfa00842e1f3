//! Child processes that never outlive this one.
//!
//! Three mechanisms ensure that. The owner of a child kills it. A dropped child is killed (`kill_on_drop`). And if
//! util-linux's `setpriv` is installed, the kernel kills the child when this process dies, even by SIGKILL. Without
//! `setpriv` (not on Linux) a Lambda binary still ends by itself, because its poll of the Runtime API fails.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{LazyLock, mpsc};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// A program to run: its absolute path, its exact environment, and one file for both outputs.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    pub(crate) path: &'a Path,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) output: File,
}

/// A request to the one thread that starts processes.
struct Start {
    command: Command,
    runtime: Handle,
    answer: mpsc::SyncSender<io::Result<Child>>,
}

/// The thread that starts all processes. The kernel's parent-death signal is tied to the *thread* that forked, and threads of
/// an async runtime come and go. So one thread, which lives as long as this process, does all the forking.
static STARTER: LazyLock<mpsc::Sender<Start>> = LazyLock::new(|| {
    let (sender, requests) = mpsc::channel::<Start>();
    std::thread::spawn(move || {
        for Start {
            mut command,
            runtime,
            answer,
        } in requests
        {
            let _entered = runtime.enter();
            // If the requester is gone, `kill_on_drop` kills the child.
            let _ = answer.send(command.spawn());
        }
    });
    sender
});

static SETPRIV: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let found = ["/usr/bin/setpriv", "/bin/setpriv"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists());
    found.filter(|_| cfg!(target_os = "linux"))
});

/// Makes a command whose process gets this signal, `KILL` or `TERM`, when this process dies, however it dies. It is to be started by [`spawn`].
#[must_use]
pub fn command_ending_with_us(program: &OsStr, signal: &str) -> Command {
    let Some(setpriv) = SETPRIV.as_deref() else {
        return Command::new(program);
    };
    // It replaces itself by the program, so the child's process id is the program's.
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// Starts a process on the thread that starts them all.
///
/// # Errors
/// When the system refuses, or there is no such program.
pub fn spawn(command: Command) -> io::Result<Child> {
    let (answer, started) = mpsc::sync_channel(1);
    let request = Start {
        command,
        runtime: Handle::current(),
        answer,
    };
    let gone = || io::Error::other("the thread that starts processes is gone");
    STARTER.send(request).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

impl Program<'_> {
    /// Starts the program in a process group of its own, so that a Ctrl-C in the terminal reaches this process
    /// only and the children are ended in order.
    pub(crate) fn spawn(self) -> io::Result<Child> {
        let mut command = command_ending_with_us(self.path.as_os_str(), "KILL");
        command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(self.output.try_clone()?)
            .stderr(self.output)
            .process_group(0)
            .kill_on_drop(true);
        spawn(command)
    }
}

/// Kills a child with everything that it started. A child that has been waited for is left alone, because its number may
/// belong to another process by now.
pub(crate) fn kill(child: &mut Child) {
    if let Some(pid) = pid(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.start_kill();
}

/// Sends a child a signal, such as those that stop and continue it.
pub fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = pid(child) {
        let _ = kill_process(pid, signal);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}
