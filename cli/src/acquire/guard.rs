//! The guard: a process beside the wrapper, at the head of the command's process group, that outlives the wrapper by as
//! long as it takes to kill the group.
//!
//! It reads from the wrapper how long the command may run, and kills the whole group, itself with it, when that time has
//! come or the wrapper is gone: when the pipe between them ends. Being the group's leader it keeps the group's number from
//! being given to anybody else. It knows no secret, asks nobody, and does nothing else.

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
use crate::output::complain;

/// What the guard answers once it is at its post.
pub(crate) const READY: &str = "ready";
/// What the guard is told when its group gives the terminal back, and what it answers when that is done.
pub(crate) const BACK: &str = "terminal";

/// Signals that are meant for the command when they reach its whole group.
const NOT_OURS: [SignalKind; 7] = [
    SignalKind::alarm(),
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::quit(),
    SignalKind::terminate(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// Is at its post until it kills its group.
pub(crate) async fn run() -> Result<Code, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::UNREACHABLE, format!("guard: {error}"));
    for kind in NOT_OURS {
        // Whatever the handler hears is let pass: what counts is that the signal does not end the guard.
        drop(signal(kind).map_err(failed)?);
    }
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw())).map_err(failed)?;
    let orders = std::io::stdin().as_fd().try_clone_to_owned();
    let orders = orders.and_then(pipe::Receiver::from_owned_fd);
    let mut orders = BufReader::new(orders.map_err(failed)?).lines();
    let mut watch = Watch::default();
    loop {
        let next = watch.next();
        tokio::select! {
            biased;
            () = next.comes(), if watch.is_set() => watch.come(),
            order = orders.next_line() => match order {
                Ok(Some(order)) => obey(&order, &mut watch),
                Ok(None) | Err(_) => kill("the one that had the lease is gone"),
            },
            // A command that stands still holds its lease all the same.
            Some(()) = stop.recv() => drop(kill_current_process_group(Signal::CONT)),
        }
    }
}

fn obey(order: &str, watch: &mut Watch) {
    match order.strip_prefix(BACK) {
        Some(to) => {
            give_back(to.trim());
            answer(BACK);
        }
        None => match order.parse() {
            Ok(limit) => {
                if watch.set(limit) {
                    answer(READY);
                }
            }
            Err(problem) => kill(problem),
        },
    }
}

/// What is to happen when.
#[derive(Default)]
struct Watch {
    limit: Option<Limit>,
    warned: bool,
}

impl Watch {
    const fn is_set(&self) -> bool {
        self.limit.is_some()
    }

    /// Whether it is the first.
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

    fn come(&mut self) {
        let killed = |limit: Limit| limit.kill.left(Instants::now()) == Duration::ZERO;
        if self.limit.is_none_or(killed) {
            kill("the lease is over");
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

/// Makes another group the terminal's, which only a process of the one that has it may do unasked.
fn give_back(to: &str) {
    let to = to.parse().ok().and_then(Pid::from_raw);
    if let (Some(to), Ok(terminal)) = (to, std::fs::File::open("/dev/tty")) {
        let _ = rustix::termios::tcsetpgrp(terminal, to);
    }
}

fn kill(why: &str) -> ! {
    complain(&format!("{why}: the command is killed"));
    let _ = kill_current_process_group(Signal::KILL);
    // Not reached: nobody outlives that signal.
    std::process::exit(i32::from(Code::LOST.0))
}
