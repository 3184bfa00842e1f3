//! The wrapper's end of the pipe to the guard, and what the wrapper itself can do to the command's group.

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

/// This program once more.
pub(crate) fn ourselves() -> Command {
    // Also if its file was replaced meanwhile, as by an update.
    #[cfg(target_os = "linux")]
    let program = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe().unwrap_or_else(|_| "leasehold".into());
    let mut command = Command::new(program);
    command.arg0("leasehold");
    command
}

/// A guard at its post, and the group that it leads.
pub(crate) struct Post {
    pub(crate) group: Pid,
    pub(crate) orders: Orders,
    pub(crate) answers: Answers,
    guard: Child,
    has_terminal: bool,
}

/// Where the guard is told.
pub(crate) struct Orders(ChildStdin);

/// Where the guard answers; it ends when the guard does.
pub(crate) struct Answers(Lines<BufReader<ChildStdout>>);

impl Orders {
    /// Tells the guard how long the command may run from now on.
    pub(crate) async fn limit(&mut self, limit: Limit) {
        // If the guard is gone, its answers have ended, and that is acted on.
        let _ = self.0.write_all(format!("{limit}\n").as_bytes()).await;
    }
}

impl Answers {
    /// Comes back when the guard is gone.
    pub(crate) async fn end(&mut self) {
        while let Ok(Some(_)) = self.0.next_line().await {}
    }

    async fn is(&mut self, wanted: &str) -> bool {
        matches!(self.0.next_line().await, Ok(Some(answer)) if answer == wanted)
    }
}

impl Post {
    /// Starts a guard, and waits until it is at its post.
    pub(crate) async fn take(limit: Limit) -> io::Result<Self> {
        let mut command = ourselves();
        command
            .arg("__guard")
            .env_clear()
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut guard = command.spawn()?;
        let gone = || io::Error::other("the guard is gone");
        let id = guard.id().and_then(|id| i32::try_from(id).ok());
        let mut post = Self {
            group: id.and_then(Pid::from_raw).ok_or_else(gone)?,
            orders: Orders(guard.stdin.take().ok_or_else(gone)?),
            answers: Answers(BufReader::new(guard.stdout.take().ok_or_else(gone)?).lines()),
            guard,
            has_terminal: false,
        };
        post.orders.limit(limit).await;
        tokio::select! {
            is_ready = post.answers.is(READY) => if is_ready { Ok(post) } else { Err(gone()) },
            () = limit.kill.comes() => Err(gone()),
        }
    }

    /// Makes the command's group the terminal's, if it is ours: the command may ask its user something, and Ctrl-C is for it.
    pub(crate) fn hand_terminal_over(&mut self) {
        let input = std::io::stdin();
        if rustix::termios::tcgetpgrp(input.as_fd()) == Ok(getpgrp()) {
            self.has_terminal = rustix::termios::tcsetpgrp(input.as_fd(), self.group).is_ok();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Nobody is left, or nobody has ever been there: both are well.
        let _ = kill_process_group(self.group, signal);
    }

    /// Takes the terminal back and kills whatever is left of the group; whether nothing is.
    pub(crate) async fn leave(mut self) -> io::Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(2);
        if self.has_terminal {
            let order = format!("{BACK} {}\n", getpgrp().as_raw_pid());
            let _ = self.orders.0.write_all(order.as_bytes()).await;
            tokio::select! {
                _ = self.answers.is(BACK) => {}
                () = SystemClock.sleep(PATIENCE) => {}
            }
        }
        self.signal(Signal::KILL);
        self.guard.wait().await?;
        let end = SystemClock.now().plus(PATIENCE);
        loop {
            // Orphans of the group are ours, see `adopt_orphans`.
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            // Refused is not gone: it may have become somebody else's.
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

/// Has the kernel give this process whoever of its descendants loses its parent, so that it can see them gone.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn adopt_orphans() {}
