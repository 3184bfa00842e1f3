//! Durations as people write and read them.

use std::time::Duration;

use leasehold::{AtLeast, Timestamp, Ttl};

/// Reads `90s`, `5m`, `1h30m`, `250ms`, or a bare number of seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a duration such as 90s, 5m, 1h30m or 250ms";
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(EXPECTED)?;
        let (number, after) = rest.split_at(digits);
        let number: u32 = number.parse().map_err(|_| EXPECTED)?;
        let letters = after.find(|c: char| c.is_ascii_digit());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_mins(1),
            "h" => Duration::from_hours(1),
            "d" => Duration::from_hours(24),
            _ => return Err(EXPECTED.to_owned()),
        };
        total += unit.checked_mul(number).ok_or(EXPECTED)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    Ok(total)
}

/// The length of a lease.
pub(crate) fn ttl(text: &str) -> Result<Ttl, String> {
    Ttl::new(parse(text)?).map_err(|error| error.to_string())
}

/// The length of a cooldown.
pub(crate) fn at_least(text: &str) -> Result<AtLeast, String> {
    AtLeast::new(parse(text)?).map_err(|error| error.to_string())
}

/// A duration in its two largest units: `3 min 5 s`, `2 h`, `0.4 s`.
pub(crate) fn render(length: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let seconds = length.as_secs();
    if seconds < 10 && length.subsec_millis() >= 50 {
        return format!("{:.1} s", length.as_secs_f64());
    }
    let Some(first) = UNITS.iter().position(|(unit, _)| seconds >= *unit) else {
        return "0 s".to_owned();
    };
    let (unit, name) = UNITS[first];
    let (many, rest) = (seconds / unit, seconds % unit);
    match UNITS.get(first + 1) {
        Some((next, second)) if rest >= *next => {
            format!("{many} {name} {} {second}", rest / next)
        }
        _ => format!("{many} {name}"),
    }
}

/// An instant relative to now.
pub(crate) fn when(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", render(at.since(now)))
    } else {
        format!("{} ago", render(now.since(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_back() {
        for (text, millis) in [
            ("90", 90_000),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("1d", 86_400_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5x", "1.5s", "-1s", "5 m", "m5", "99999999999s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn duration_shows_two_largest_units() {
        for (millis, text) in [
            (0, "0 s"),
            (49, "0 s"),
            (400, "0.4 s"),
            (9_950, "9.9 s"),
            (59_000, "59 s"),
            (185_000, "3 min 5 s"),
            (7_200_000, "2 h"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(render(Duration::from_millis(millis)), text);
        }
    }
}
