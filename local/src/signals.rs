//! Signals that end the program in order, so that nothing remains.

use std::io::Write;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::{Error, io};

/// The signals that end the program in order.
#[derive(Debug)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// From here on a signal does not end the program by itself.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no room for a handler.
    pub fn listen() -> Result<Self, Error> {
        let listen = |kind| signal(kind).map_err(io("listen for signals"));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal. Dropping the future loses no signal.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Prints that a signal has ended the command and nothing of it runs any more.
pub fn report_interrupted() {
    // Not `eprintln!`, which panics if the terminal is gone.
    let _ = writeln!(std::io::stderr(), "interrupted; everything is stopped");
}
