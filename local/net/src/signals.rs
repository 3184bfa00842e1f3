//! Signals that end a program in order.

use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Signals that do not end the program by themselves.
#[derive(Debug)]
pub struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

impl Signals {
    /// Listens for these signals from here on. One that is ignored, as under `nohup` and a shell's `&`, stays ignored.
    ///
    /// # Errors
    /// When the system has no room for a handler.
    pub fn listen(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let heard = signals
            .iter()
            .filter(|one| ignored & (1 << (one.as_raw() - 1)) == 0)
            .map(|one| Ok((*one, signal(SignalKind::from_raw(one.as_raw()))?)));
        heard.collect::<Result<_, _>>().map(Self)
    }

    /// The next signal. Dropping the future loses no signal.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let mut heard = self.0.iter_mut();
            let came = heard
                .find_map(|(signal, one)| one.poll_recv(context).is_ready().then_some(*signal));
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
