//! The guard: a second process that leads the command's process group and kills the group if the wrapper dies.
//!
//! The wrapper writes to it how long the command may run. The guard kills the whole group, itself included, when that limit
//! is reached, or when the pipe ends because the wrapper is gone. While the leader lives, the kernel does not reuse the group's
//! number. The guard receives no secret, and calls no service.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_current_process_group};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

use super::limit::Limit;
use crate::exit::{Code, Failure};
use crate::instants::Instants;
use crate::output::print_error;

/// What the guard writes once it has the first limit.
pub(crate) const READY: &str = "ready";
/// The order to give the terminal back, and the reply when that is done.
pub(crate) const BACK: &str = "terminal";

/// Signals that reach the whole group but are meant for the command.
const NOT_OURS: [SignalKind; 7] = [
    SignalKind::alarm(),
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::terminate(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// Runs until it kills its group.
pub(crate) async fn run() -> Result<Code, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::UNREACHABLE, format!("guard: {error}"));
    for kind in NOT_OURS {
        // The handler does nothing. It keeps the signal from ending the guard.
        drop(signal(kind).map_err(failed)?);
    }
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw())).map_err(failed)?;
    let orders = std::io::stdin().as_fd().try_clone_to_owned();
    let orders = orders.and_then(pipe::Receiver::from_owned_fd);
    let mut orders = BufReader::new(orders.map_err(failed)?).lines();
    let mut guarded = GuardedLimit::default();
    loop {
        let next = guarded.next();
        tokio::select! {
            biased;
            () = next.wait_until(), if guarded.is_set() => guarded.reach(),
            order = orders.next_line() => match order {
                Ok(Some(order)) => obey(&order, &mut guarded),
                Ok(None) | Err(_) => kill("the process that held the lease is gone"),
            },
            // A stopped command would keep its lease without working, so the group is continued.
            Some(()) = stop.recv() => drop(kill_current_process_group(Signal::CONT)),
        }
    }
}

fn obey(order: &str, guarded: &mut GuardedLimit) {
    match order.strip_prefix(BACK) {
        Some(to) => {
            give_terminal_back(to.trim());
            answer(BACK);
        }
        None => match order.parse() {
            Ok(limit) => {
                if guarded.set(limit) {
                    answer(READY);
                }
            }
            Err(problem) => kill(problem),
        },
    }
}

/// The limit, and whether the command has been asked to end.
#[derive(Default)]
struct GuardedLimit {
    limit: Option<Limit>,
    warned: bool,
}

impl GuardedLimit {
    const fn is_set(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns whether it is the first limit.
    fn set(&mut self, limit: Limit) -> bool {
        self.limit.replace(limit).is_none()
    }

    fn next(&self) -> Instants {
        let next = |limit: Limit| {
            if self.warned {
                limit.kill
            } else {
                limit.warning()
            }
        };
        self.limit.map_or_else(Instants::now, next)
    }

    fn reach(&mut self) {
        let killed = |limit: Limit| limit.kill.left(Instants::now()) == Duration::ZERO;
        if self.limit.is_none_or(killed) {
            kill("the lease has expired");
        }
        if !self.warned {
            let _ = kill_current_process_group(Signal::TERM);
        }
        self.warned = true;
    }
}

fn answer(text: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Makes another group the terminal's foreground group. Only a process of the present foreground group may do so freely.
fn give_terminal_back(to: &str) {
    let to = to.parse().ok().and_then(Pid::from_raw);
    if let (Some(to), Ok(terminal)) = (to, std::fs::File::open("/dev/tty")) {
        let _ = rustix::termios::tcsetpgrp(terminal, to);
    }
}

fn kill(why: &str) -> ! {
    print_error(&format!("{why}: the command is killed"));
    let _ = kill_current_process_group(Signal::KILL);
    // Not reached, because SIGKILL ends this process too.
    std::process::exit(i32::from(Code::LOST.0))
}
