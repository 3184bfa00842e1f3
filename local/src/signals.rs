//! Signals that end the program in order, so that nothing remains.

use std::{io::Write, task::Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, io};

/// The signals that end the program in order.
#[derive(Debug)]
pub struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    /// From here on a signal does not end the program by itself. A signal that is ignored, as under `nohup` and a shell's `&`,
    /// stays ignored.
    ///
    /// # Errors
    /// [`Error::Io`] when the system has no room for a handler.
    pub fn listen() -> Result<Self, Error> {
        let ignored = ignored();
        let ending = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let heard = ending
            .into_iter()
            .filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0)
            .map(|kind| Ok((kind, signal(kind).map_err(io("listen for signals"))?)));
        heard.collect::<Result<_, _>>().map(Self)
    }

    /// Waits for a signal. Dropping the future loses no signal.
    pub async fn wait(&mut self) -> SignalKind {
        std::future::poll_fn(|context| {
            let mut heard = self.0.iter_mut();
            let came =
                heard.find_map(|(kind, one)| one.poll_recv(context).is_ready().then_some(*kind));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The signals that this process ignores, as a set of bits. If the kernel does not say, the set is empty.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or_default()
}

/// Prints that a signal has ended the command and nothing of it runs any more.
pub fn report_interrupted() {
    // Not `eprintln!`, which panics if the terminal is gone.
    let _ = writeln!(std::io::stderr(), "interrupted; everything is stopped");
}
