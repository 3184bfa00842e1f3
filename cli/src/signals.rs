//! Signals to the wrapper. While it waits for the lease, they end the wait; while its command runs, they are passed on.

use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::{Code, Failure};

/// The signals that people and supervisors send to end a program, in the kernel's order.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

pub(crate) struct Signals(Vec<(Signal, tokio::signal::unix::Signal)>);

impl Signals {
    /// From here on these signals do not end the wrapper by themselves. A signal that is ignored, as under `nohup` and a shell's
    /// `&`, stays ignored by the wrapper and by the command.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let heard = ENDING
            .into_iter()
            .filter(|one| ignored & (1 << (one.as_raw() - 1)) == 0)
            .map(|one| Ok((one, signal(SignalKind::from_raw(one.as_raw()))?)));
        let heard = heard.collect::<Result<_, std::io::Error>>();
        heard.map(Self).map_err(|error| {
            let problem = format!("cannot listen for signals: {error}");
            Failure::new(Code::UNREACHABLE, problem)
        })
    }

    /// The next signal. Dropping the future loses no signal.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (one, heard) in &mut self.0 {
                if let Poll::Ready(Some(())) = heard.poll_recv(context) {
                    return Poll::Ready(*one);
                }
            }
            Poll::Pending
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
