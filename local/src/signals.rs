//! Signals that end the program in order, so that nothing remains.

use std::io::Write;

use leasehold_net::Signals;
use rustix::process::Signal;

use crate::error::{Error, io};

/// Listens for the signals that end the program.
///
/// # Errors
/// [`Error::Io`] when the system has no room for a handler.
pub fn listen_for_ends() -> Result<Signals, Error> {
    let ending = Signals::listen(&[Signal::INT, Signal::TERM, Signal::HUP]);
    ending.map_err(io("listen for signals"))
}

/// Prints that a signal has ended the command and nothing of it runs any more.
pub fn report_interrupted() {
    // Not `eprintln!`, which panics if the terminal is gone.
    let _ = writeln!(std::io::stderr(), "interrupted; everything is stopped");
}
