//! The act's figures as a person reads them.

use super::{Act, GRACE_SECONDS};

impl Act {
    /// The figures as a person reads them: a name and its value, line by line.
    pub(in super::super) fn rows(&self) -> Vec<(&'static str, String)> {
        let (figures, requests) = (&self.figures, &self.figures.requests);
        let after = figures.idle_after_stopped_seconds;
        let after = after.map_or_else(String::new, |seconds| {
            format!("; behind the stopped holder {seconds:.1} s")
        });
        vec![
            (
                "line",
                format!(
                    "{} in line, {} hand-overs; waits: mean {:.1} s, longest {:.1} s",
                    figures.waiters,
                    figures.hand_overs,
                    figures.mean_wait_seconds,
                    figures.longest_wait_seconds
                ),
            ),
            (
                "idle between",
                format!(
                    "mean {:.2} s, longest {:.2} s{after}",
                    figures.mean_idle_seconds, figures.longest_idle_seconds
                ),
            ),
            (
                "",
                "from going out to coming in: release, wake-up, confirmation, the next one's step"
                    .to_owned(),
            ),
            (
                "DynamoDB",
                format!(
                    "{:.1} requests per hand-over: join {:.1}, free {:.1}, read whom to wake {:.1}",
                    requests.per_hand_over, requests.join, requests.hand_over, requests.read
                ),
            ),
            (
                "",
                format!(
                    "apart: {} extends (each holder's first confirms), {} of sweep, {} of reap, {} of grant",
                    requests.extends, requests.sweep, requests.reap, requests.grant
                ),
            ),
            (
                "settings",
                format!(
                    "ReapGraceSeconds {GRACE_SECONDS} instead of 900, so that it need not be waited for"
                ),
            ),
        ]
    }
}
