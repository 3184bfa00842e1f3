//! `EventBridge` schedules, as far as a laptop runs them.

use std::time::Duration;

use serde_json::Value;

use super::intrinsics::Resolver;

/// The period of the first schedule among a function's events.
pub(super) fn of(resolver: &Resolver, events: &Value) -> Result<Option<Duration>, String> {
    for (name, event) in events.as_object().into_iter().flatten() {
        let properties = &event["Properties"];
        let expression = match event["Type"].as_str() {
            Some("Schedule") => &properties["Schedule"],
            Some("ScheduleV2") => &properties["ScheduleExpression"],
            _ => continue,
        };
        if let Some(period) = period(resolver, name, expression)? {
            return Ok(Some(period));
        }
    }
    Ok(None)
}

/// The period of a schedule. A cron expression is told of and not run.
pub(super) fn period(
    resolver: &Resolver,
    name: &str,
    expression: &Value,
) -> Result<Option<Duration>, String> {
    let Some(expression) = resolver.text(expression)? else {
        return Ok(None);
    };
    if expression.starts_with("cron(") {
        tracing::warn!(
            event = name,
            expression,
            "cron expressions are not run locally"
        );
        return Ok(None);
    }
    let period = rate(&expression);
    period
        .map(Some)
        .ok_or_else(|| format!("{name}: {expression:?} is not rate(…)"))
}

/// `rate(5 minutes)`.
fn rate(expression: &str) -> Option<Duration> {
    let (count, unit) = expression
        .strip_prefix("rate(")?
        .strip_suffix(')')?
        .split_once(' ')?;
    let seconds = match unit.trim_end_matches('s') {
        "minute" => 60,
        "hour" => 60 * 60,
        "day" => 24 * 60 * 60,
        _ => return None,
    };
    let count: u64 = count.parse().ok().filter(|count| *count > 0)?;
    Some(Duration::from_secs(count.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_period() {
        assert_eq!(rate("rate(1 minute)"), Some(Duration::from_mins(1)));
        assert_eq!(rate("rate(2 hours)"), Some(Duration::from_hours(2)));
        for wrong in [
            "rate(0 minutes)",
            "rate(1 fortnight)",
            "rate(minute)",
            "1 minute",
        ] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }
}
