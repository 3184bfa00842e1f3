//! Three clocks: this machine's, DynamoDB's from the dates of its responses, and each function's from the instants that it
//! returns. The last two are measured by this machine's clock. Its own error cancels out in their difference.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use aws_smithy_types::date_time::Format;
use leasehold::{Clock as _, SystemClock, Timestamp};

use crate::durations::render;

/// By how many milliseconds another clock is ahead of this machine's: the least and the most possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    least: i64,
    most: i64,
}

impl ClockOffset {
    /// This machine's own clock.
    pub(super) const HERE: Self = Self { least: 0, most: 0 };

    /// A clock that showed an instant from `first` to `last` at some moment between request and response.
    pub(super) fn of(
        asked: Timestamp,
        answered: Timestamp,
        first: Timestamp,
        last: Timestamp,
    ) -> Self {
        let millis = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        Self {
            least: millis(first) - millis(answered),
            most: millis(last) - millis(asked),
        }
    }

    /// The range that both allow. If they contradict each other, the later one, because a clock may have been set.
    fn and(self, later: Self) -> Self {
        let both = Self {
            least: self.least.max(later.least),
            most: self.most.min(later.most),
        };
        if both.least <= both.most { both } else { later }
    }

    /// By how much this clock is ahead of another.
    pub(super) fn than(self, other: Self) -> Self {
        Self {
            least: self.least - other.most,
            most: self.most - other.least,
        }
    }

    /// The least possible difference.
    pub(super) fn apart(self) -> Duration {
        let apart = self.least.max(-self.most).max(0);
        Duration::from_millis(apart.unsigned_abs())
    }

    /// The fault, if the clocks differ by more than half of the margin.
    pub(super) fn fault(self, whose: &str, margin: Duration) -> Option<String> {
        let apart = self.apart();
        let way = if self.least > 0 { "ahead of" } else { "behind" };
        (!apart.is_zero() && apart * 2 > margin).then(|| {
            format!(
                "{whose} clock is at least {} {way} DynamoDB's; the limit is half of the margin, {}",
                render(apart),
                render(margin / 2)
            )
        })
    }
}

/// Narrows what is known of a clock by one more reading.
pub(super) fn narrow(known: &mut Option<ClockOffset>, reading: ClockOffset) {
    *known = Some(known.map_or(reading, |known| known.and(reading)));
}

/// Reads DynamoDB's clock from each of its responses.
#[derive(Clone, Debug, Default)]
pub(super) struct Dates(Arc<Mutex<Option<ClockOffset>>>);

impl Dates {
    /// By how much DynamoDB's clock is ahead, if a response had a date.
    pub(super) fn ahead(&self) -> Option<ClockOffset> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a request was sent.
#[derive(Debug)]
struct Sent(Timestamp);

impl Storable for Sent {
    type Storer = StoreReplace<Self>;
}

#[dyn_dispatch_hint]
impl Intercept for Dates {
    fn name(&self) -> &'static str {
        "Dates"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(Sent(SystemClock.now()));
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let (Some(&Sent(sent)), Some(date)) = (bag.load::<Sent>(), date.and_then(instant)) {
            // A date has whole seconds.
            let last = date.plus(Duration::from_millis(999));
            let reading = ClockOffset::of(sent, SystemClock.now(), date, last);
            narrow(
                &mut self.0.lock().unwrap_or_else(PoisonError::into_inner),
                reading,
            );
        }
        Ok(())
    }
}

fn instant(date: &str) -> Option<Timestamp> {
    let date = DateTime::from_str(date, Format::HttpDate).ok()?;
    let seconds = u64::try_from(date.secs()).ok()?;
    Some(Timestamp::from_millis(seconds.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: Duration = Duration::from_secs(2);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_795_230_000_000_u64.saturating_add_signed(millis))
    }

    fn date(asked: i64, answered: i64, second: i64) -> ClockOffset {
        ClockOffset::of(at(asked), at(answered), at(second), at(second + 999))
    }

    #[test]
    fn only_proven_clock_differences_count() {
        assert_eq!(date(0, 5, 0).apart(), Duration::ZERO);
        assert_eq!(date(990, 2_400, 1_000).apart(), Duration::ZERO);
        assert_eq!(
            date(61_000, 61_010, 0).apart(),
            Duration::from_millis(60_001)
        );
        assert_eq!(date(-60_010, -60_000, 0).apart(), Duration::from_secs(60));
        // Two dates narrow what one second hides.
        let mut known = None;
        narrow(&mut known, date(900, 905, 0));
        narrow(&mut known, date(1_010, 1_015, 1_000));
        assert_eq!(
            known,
            Some(ClockOffset {
                least: -15,
                most: 99
            })
        );
        // A clock that was set contradicts itself: it counts as it is now.
        narrow(&mut known, date(0, 5, 60_000));
        assert_eq!(
            known.map(ClockOffset::apart),
            Some(Duration::from_millis(59_995))
        );
    }

    #[test]
    fn dynamodb_judges_clocks_of_functions() {
        // This machine is a minute behind both.
        let dynamodb = date(-60_010, -60_000, 0);
        let function = ClockOffset::of(at(-60_010), at(-60_000), at(4), at(4));
        let fault = ClockOffset::HERE
            .than(dynamodb)
            .fault("this machine's", MARGIN);
        assert_eq!(
            fault.as_deref(),
            Some(
                "this machine's clock is at least 1 min behind DynamoDB's; the limit is half of the margin, 1 s"
            )
        );
        assert_eq!(function.than(dynamodb).fault("its", MARGIN), None);
        // The function is a minute ahead of both.
        let dynamodb = date(0, 10, 0);
        let function = ClockOffset::of(at(0), at(10), at(60_004), at(60_004));
        let fault = function.than(dynamodb).fault("acquire's", MARGIN);
        assert_eq!(
            fault.as_deref(),
            Some(
                "acquire's clock is at least 58 s ahead of DynamoDB's; the limit is half of the margin, 1 s"
            )
        );
        assert_eq!(
            ClockOffset::HERE
                .than(dynamodb)
                .fault("this machine's", MARGIN),
            None
        );
    }
}
