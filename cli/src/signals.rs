//! Signals to the wrapper. While it waits for the lease, they end the wait; while its command runs, they are passed on.

pub(crate) use leasehold_net::Signals;
use rustix::process::Signal;

use crate::exit::{Code, Failure};

/// The signals that people and supervisors send to end a program, in the kernel's order.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// From here on these signals do not end the wrapper by themselves. One that is ignored stays ignored by the wrapper and by the command.
pub(crate) fn listen() -> Result<Signals, Failure> {
    Signals::listen(&ENDING).map_err(|error| {
        let problem = format!("cannot listen for signals: {error}");
        Failure::new(Code::UNREACHABLE, problem)
    })
}
