//! The wrapper's end of the pipe to the guard, and the wrapper's own control of the command's group.

use std::io;
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::time::Duration;

use leasehold::{Clock as _, SystemClock};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgrp, kill_process_group, test_kill_process_group, waitpgid,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::guard::{BACK, READY};
use super::limit::Limit;

/// A command that runs this program again.
pub(crate) fn self_command() -> Command {
    // This works even if an update has replaced the program's file.
    #[cfg(target_os = "linux")]
    let program = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe().unwrap_or_else(|_| "leasehold".into());
    let mut command = Command::new(program);
    command.arg0("leasehold");
    command
}

/// A running guard, and the group that it leads.
pub(crate) struct GuardProcess {
    pub(crate) group: Pid,
    pub(crate) commands: GuardCommands,
    pub(crate) replies: GuardReplies,
    guard: Child,
    has_terminal: bool,
}

/// The pipe to the guard.
pub(crate) struct GuardCommands(ChildStdin);

/// The pipe from the guard. It ends when the guard does.
pub(crate) struct GuardReplies(Lines<BufReader<ChildStdout>>);

impl GuardCommands {
    /// Sends the guard a new limit.
    pub(crate) async fn limit(&mut self, limit: Limit) {
        // If the guard is gone, the end of its answers shows it.
        let _ = self.0.write_all(format!("{limit}\n").as_bytes()).await;
    }
}

impl GuardReplies {
    /// Returns when the guard is gone.
    pub(crate) async fn end(&mut self) {
        while let Ok(Some(_)) = self.0.next_line().await {}
    }

    async fn is(&mut self, wanted: &str) -> bool {
        matches!(self.0.next_line().await, Ok(Some(answer)) if answer == wanted)
    }
}

impl GuardProcess {
    /// Starts a guard, and waits until it has the first limit.
    pub(crate) async fn start(limit: Limit) -> io::Result<Self> {
        let mut command = self_command();
        command
            .arg("__guard")
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut guard = command.spawn()?;
        let gone = || io::Error::other("the guard is gone");
        let id = guard.id().and_then(|id| i32::try_from(id).ok());
        let mut started = Self {
            group: id.and_then(Pid::from_raw).ok_or_else(gone)?,
            commands: GuardCommands(guard.stdin.take().ok_or_else(gone)?),
            replies: GuardReplies(BufReader::new(guard.stdout.take().ok_or_else(gone)?).lines()),
            guard,
            has_terminal: false,
        };
        started.commands.limit(limit).await;
        tokio::select! {
            is_ready = started.replies.is(READY) => if is_ready { Ok(started) } else { Err(gone()) },
            () = limit.kill.wait_until() => Err(gone()),
        }
    }

    /// Makes the command's group the terminal's foreground group, if this process is in the foreground. The command may then read
    /// from the terminal, and receives Ctrl-C.
    pub(crate) fn hand_terminal_over(&mut self) {
        let input = std::io::stdin();
        if rustix::termios::tcgetpgrp(input.as_fd()) == Ok(getpgrp()) {
            self.has_terminal = rustix::termios::tcsetpgrp(input.as_fd(), self.group).is_ok();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // An empty group is no error.
        let _ = kill_process_group(self.group, signal);
    }

    /// Takes the terminal back and kills the rest of the group. Returns whether the group is empty.
    pub(crate) async fn leave(mut self) -> io::Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(2);
        if self.has_terminal {
            let order = format!("{BACK} {}\n", getpgrp().as_raw_pid());
            let _ = self.commands.0.write_all(order.as_bytes()).await;
            tokio::select! {
                _ = self.replies.is(BACK) => {}
                () = SystemClock.sleep(PATIENCE) => {}
            }
        }
        self.signal(Signal::KILL);
        self.guard.wait().await?;
        let end = SystemClock.now().plus(PATIENCE);
        loop {
            // Orphans of the group are children of this process, see `adopt_orphans`.
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            // A refusal does not mean that the group is empty: a process of it may have become another user's.
            if test_kill_process_group(self.group) == Err(rustix::io::Errno::SRCH) {
                return Ok(true);
            }
            if SystemClock.now() > end {
                return Ok(false);
            }
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Makes this process the parent of orphaned descendants, so that it can wait for them.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn adopt_orphans() {}
