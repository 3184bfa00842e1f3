//! What a request to wait in line is made of.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de};

use super::{BadValue, numbers::Number, sized};

/// What Step Functions gives a task that waits for a callback: whoever has it can end the task. A
/// secret: never shown by `Debug`, no `Display`, and not serialized.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct TaskToken(String);

impl TaskToken {
    /// Checks `text`: 1 to 2048 bytes.
    ///
    /// # Errors
    /// [`BadValue`], saying what is wrong.
    pub fn new(text: impl Into<String>) -> Result<Self, BadValue> {
        sized(text.into(), 2048).map(Self)
    }

    /// The secret itself, for the service that is to be called back.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl TryFrom<String> for TaskToken {
    type Error = BadValue;
    fn try_from(text: String) -> Result<Self, BadValue> {
        Self::new(text)
    }
}

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TaskToken(redacted)")
    }
}

/// How long a waiter stays in line: at most 365 days, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitTime(Duration);

impl WaitTime {
    /// The longest wait: as long as an execution may live.
    pub const LONGEST: Duration = Duration::from_hours(365 * 24);

    const RANGE: &str = "a number of seconds from 0 to 31536000";

    /// Checks `length`.
    ///
    /// # Errors
    /// [`BadValue`] above [`WaitTime::LONGEST`].
    pub fn new(length: Duration) -> Result<Self, BadValue> {
        if length > Self::LONGEST {
            return Err(Self::out_of_range());
        }
        Ok(Self(length))
    }

    /// The length.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        self.0
    }

    fn out_of_range() -> BadValue {
        BadValue(format!("expected {}", Self::RANGE))
    }
}

impl<'de> Deserialize<'de> for WaitTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = deserializer.deserialize_any(Number(Self::RANGE))?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| Self::out_of_range())
            .and_then(Self::new)
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_year_at_most_and_a_token_is_not_shown() {
        assert_eq!(WaitTime::LONGEST.as_secs(), 31_536_000);
        let token = TaskToken::stored("secret");
        assert_eq!(format!("{token:?}"), "TaskToken(redacted)");
    }

    #[test]
    fn a_wait_time_says_once_what_it_expects() {
        for bad in ["-1", "31536000.001", "1e300", "\"5\"", "null"] {
            let told = serde_json::from_str::<WaitTime>(bad).expect_err(bad);
            let told = told.to_string();
            assert!(told.contains(WaitTime::RANGE), "{bad}: {told}");
            assert_eq!(told.matches("expected").count(), 1, "{bad}: {told}");
        }
    }
}
