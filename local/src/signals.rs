//! Signals that end the program in good order, so that nothing is left behind.

use leasehold_local::Error;
use tokio::signal::unix::{SignalKind, signal};

/// What ends the program in good order.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    /// From here on a signal does not end the program by itself.
    pub(crate) fn listen() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|source| Error::Io {
                what: "listen for signals".to_owned(),
                source,
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal; dropping the wait loses none.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
