//! Signals that end the program in order, so that nothing remains.

use std::io::Write;

use leasehold_local::Error;
use leasehold_net::Signals;
use rustix::process::Signal;

/// Listens for the signals that end the program.
pub(crate) fn listen_for_ends() -> Result<Signals, Error> {
    let ending = Signals::listen(&[Signal::INT, Signal::TERM, Signal::HUP]);
    ending.map_err(Error::io("listen for signals"))
}

/// Prints that a signal has ended the command and nothing of it runs any more.
pub(crate) fn report_interrupted() {
    // Not `eprintln!`, which panics if the terminal is gone.
    let _ = writeln!(std::io::stderr(), "interrupted; everything is stopped");
}
