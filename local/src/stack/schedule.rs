//! Schedules: functions that are invoked at a period.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, MissedTickBehavior};

use crate::arn::{ACCOUNT, REGION};
use crate::lambda::{Invoker, request_id};
use crate::task::OwnedTask;

/// Invokes a function at a period, first after one period, with the event `EventBridge` would send, until the
/// returned task is dropped. A run that outlasts the period delays the next one, so runs never overlap.
pub(super) fn start(invoker: Invoker, rule: String, period: Duration) -> OwnedTask {
    OwnedTask::spawn(async move {
        let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = OffsetDateTime::now_utc().truncate_to_second();
            let event = json!({
                "version": "0",
                "id": request_id(),
                "detail-type": "Scheduled Event",
                "source": "aws.events",
                "account": ACCOUNT,
                "time": now.format(&Rfc3339).unwrap_or_default(),
                "region": REGION,
                "resources": [rule],
                "detail": {},
            });
            if invoker.invoke(event.to_string()).await.is_none() {
                return;
            }
        }
    })
}
