//! How far this machine's clock is from the service's, according to the `Date` header of its responses.

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        interceptors::{
            Intercept,
            context::{
                BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
            },
            dyn_dispatch_hint,
        },
        runtime_components::RuntimeComponents,
    },
};
use aws_smithy_types::{
    DateTime,
    config_bag::{ConfigBag, Storable, StoreReplace},
    date_time::Format,
};

use crate::{
    clock::{Clock as _, SystemClock, Timestamp},
    metrics::{self, Metric},
};

/// Compares the clocks at each attempt, and reports the difference.
#[derive(Debug)]
pub(super) struct CompareClocks;

/// When an attempt was sent.
#[derive(Debug)]
struct Sent(Timestamp);

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

#[dyn_dispatch_hint]
impl Intercept for CompareClocks {
    fn name(&self) -> &'static str {
        "CompareClocks"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        cfg.interceptor_state().store_put(Sent(SystemClock.now()));
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let (Some(&Sent(sent)), Some(date)) = (cfg.load::<Sent>(), date.and_then(instant)) {
            let apart = difference(sent, SystemClock.now(), date);
            metrics::record(Metric::ClockDifference, apart);
        }
        Ok(())
    }
}

fn instant(date: &str) -> Option<Timestamp> {
    let date = DateTime::from_str(date, Format::HttpDate).ok()?;
    let seconds = u64::try_from(date.secs()).ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1000)?))
}

/// The smallest possible difference in milliseconds. A date has whole seconds, and may have been written at any
/// moment between the request and the response. 0 if the clocks may agree.
fn difference(asked: Timestamp, answered: Timestamp, date: Timestamp) -> u64 {
    let (asked, answered) = (asked.as_millis(), answered.as_millis());
    let (first, last) = (date.as_millis(), date.as_millis().saturating_add(999));
    let ahead = asked.saturating_sub(last);
    let behind = first.saturating_sub(answered);
    ahead.max(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proven_clock_difference_counts() {
        let by = |asked, answered| {
            let at =
                |ms: i64| Timestamp::from_millis(1_795_230_000_000_u64.saturating_add_signed(ms));
            difference(at(asked), at(answered), at(0))
        };
        // Hidden by the whole second.
        assert_eq!(by(0, 5), 0);
        assert_eq!(by(990, 999), 0);
        assert_eq!(by(-400, 3), 0);
        assert_eq!(by(999, 1_600), 0);
        // Ours is ahead.
        assert_eq!(by(1_000, 1_005), 1);
        assert_eq!(by(3_999, 4_010), 3_000);
        // Ours is behind.
        assert_eq!(by(-20, -1), 1);
        assert_eq!(by(-2_010, -2_000), 2_000);
    }

    #[test]
    fn http_date_is_read() {
        let read = instant("Sat, 21 Nov 2026 03:00:00 GMT");
        assert_eq!(read, Some(Timestamp::from_millis(1_795_230_000_000)));
        for nonsense in ["", "yesterday", "2026-11-21T03:00:00Z"] {
            assert_eq!(instant(nonsense), None, "{nonsense}");
        }
    }
}
