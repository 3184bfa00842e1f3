//! Warns when this machine's clock is wrong, because every deadline depends on it. The library compares the clock with the
//! `Date` of DynamoDB's responses, and reports the difference as one of its metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::metrics::TARGET;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::durations::render;
use crate::output::print_error;

/// Subscribes to the clock difference, and warns once if it comes near the limit that `margin` sets.
pub(crate) fn listen(margin: Duration) {
    // If a subscriber is already set, it stays.
    let _ = tracing::subscriber::set_global_default(Listener {
        margin,
        warned: AtomicBool::new(false),
    });
}

/// Receives nothing but metrics. The SDK's events of lower levels contain whole requests.
struct Listener {
    margin: Duration,
    warned: AtomicBool,
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == TARGET
    }

    fn event(&self, event: &Event<'_>) {
        let mut heard = Heard::default();
        event.record(&mut heard);
        if heard.is_clock
            && let Some(warning) = warning(Duration::from_millis(heard.value), self.margin)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            print_error(&warning);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Heard {
    is_clock: bool,
    value: u64,
}

impl Visit for Heard {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_clock |= field.name() == "metric" && value == "ClockDifference";
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "value" {
            self.value = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Each clock may be wrong by half the margin. The warning comes at half of that, before the clock does harm.
fn warning(apart: Duration, margin: Duration) -> Option<String> {
    (!apart.is_zero() && apart * 4 >= margin).then(|| {
        format!(
            "this machine's clock is at least {} from DynamoDB's; no clock may be wrong by more than {}, half \
             of LEASE_CLOCK_MARGIN_MS",
            render(apart),
            render(margin / 2)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warns_before_clock_does_harm() {
        let warned = |apart, margin| {
            warning(Duration::from_millis(apart), Duration::from_millis(margin)).is_some()
        };
        assert!(!warned(0, 2000) && !warned(499, 2000) && !warned(0, 0));
        assert!(warned(500, 2000) && warned(5000, 2000) && warned(1, 0));
    }
}
