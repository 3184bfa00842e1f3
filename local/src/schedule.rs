//! Schedules: functions that are invoked by the clock.

use std::time::Duration;

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::MissedTickBehavior;

use crate::error::Error;
use crate::lambda::{ACCOUNT, LambdaHost, REGION, request_id};
use crate::task::OwnedTask;

/// Invokes a function at a period, first after one period, with the event `EventBridge` would send, until the
/// returned task is dropped. A run that outlasts the period delays the next one instead of piling up.
pub(crate) fn start(
    host: &LambdaHost,
    function: &str,
    period: Duration,
) -> Result<OwnedTask, Error> {
    let function = host.function(function)?.logical_id;
    let invoker = host.invoker(&function);
    let rule = format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/local-{function}");
    Ok(OwnedTask::spawn(async move {
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = OffsetDateTime::now_utc()
                .replace_nanosecond(0)
                .unwrap_or_else(|_| OffsetDateTime::now_utc());
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
    }))
}
