//! The settings of an operator: the table's name, the durations of the rules, the floor of the tokens.

use std::time::Duration;

use crate::{error::Error, executions::Executions, start::StartRules, values::Counter};

/// The durations of the rules, and the floor of the tokens. The defaults are those of the environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How long after its deadline a lease may be taken over by the clock. Safe while no clock is wrong by more than half
    /// of it.
    pub clock_margin: Duration,
    /// How long before the deadline a holder must stop touching the resource.
    pub guard: Duration,
    /// How long a free row is kept before DynamoDB may delete it.
    pub retention: Duration,
    /// Every new token is larger: for a table that was restored from a backup, which sets tokens back. At most
    /// [`Counter::HIGHEST_FLOOR`].
    pub token_floor: Counter,
    /// Nothing is granted, taken over, revived or granted to the next waiter, as if every key were frozen.
    pub stopped: bool,
    /// How many requests a queue takes.
    pub queue_cap: u16,
    /// How long after the end of an execution its Lambda functions may still be at work. Reap shortens leases to this
    /// time.
    pub reap_grace: Duration,
    /// How long after its grant sweep asks about the execution that has a lease, if no event says that it ended. Later
    /// looks come after as long as the lease has lasted, at most an hour.
    pub look: Duration,
    /// An execution that was started under a lease, and is redriven after it has lost it, is only counted. Otherwise it gets the key
    /// again, or is stopped.
    pub redrives_are_counted_only: bool,
    /// How long after a grant a sweep leaves it to the process that wrote it, which is about to notify the holder: two that do so at
    /// once would leave neither knowing that its call was the only one. A sweep that does nothing breaks no promise, so
    /// zero is safe too.
    pub first_call: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clock_margin: Duration::from_secs(2),
            guard: Duration::from_secs(1),
            retention: Duration::from_secs(7 * DAY),
            token_floor: Counter::MIN,
            stopped: false,
            queue_cap: 128,
            reap_grace: Duration::from_secs(900),
            look: Duration::from_secs(300),
            redrives_are_counted_only: false,
            first_call: Duration::from_secs(1),
        }
    }
}

const DAY: u64 = 86_400;

/// What the environment of a process says of its leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `LEASE_TABLE`.
    pub table: String,
    /// `LEASE_CLOCK_MARGIN_MS`, `LEASE_GUARD_MS`, `LEASE_RETENTION_DAYS`, `LEASE_TOKEN_FLOOR`, `LEASE_GRANTS`,
    /// `LEASE_QUEUE_CAP`, `LEASE_REAP_GRACE_SECONDS`, `LEASE_LOOK_SECONDS`, `LEASE_REDRIVES`.
    pub settings: Settings,
    /// `LEASE_RULES`: whether these settings are the table's rules (`own`), as in the functions of the table's stack.
    /// Otherwise (`table`) the process reads the table's rules: [`crate::Leases::with_table_rules`].
    pub owns_rules: bool,
    /// `LEASE_EXECUTIONS`.
    pub executions: Executions,
    /// `LEASE_STARTS`.
    pub starts: StartRules,
}

impl Environment {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`Error::Misconfigured`] naming the variable that is missing or does not parse. No bad value is silently
    /// replaced by a default.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only module of this crate that reads the ambient environment"
    )]
    pub fn read() -> Result<Self, Error> {
        Self::from(|name| match std::env::var(name) {
            Ok(value) => Some(value),
            Err(std::env::VarError::NotPresent) => None,
            // Not Unicode: refused like any other value that does not parse.
            Err(std::env::VarError::NotUnicode(_)) => Some(String::new()),
        })
    }

    /// Reads variables from `lookup`.
    ///
    /// # Errors
    /// As [`Environment::read`].
    pub fn from(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let table = lookup("LEASE_TABLE").unwrap_or_default();
        // DynamoDB accepts a name or an ARN.
        if table.is_empty() || table.len() > 1024 {
            return Err(Error::misconfigured(
                "LEASE_TABLE",
                "must be the name of the lease table",
            ));
        }
        let default = Settings::default();
        let millis = |name, default: Duration| {
            number(&lookup, name, DAY * 1000, "milliseconds")
                .map(|n| n.map_or(default, Duration::from_millis))
        };
        let most = Counter::HIGHEST_FLOOR.get();
        let floor = number(&lookup, "LEASE_TOKEN_FLOOR", most, "milliseconds")?;
        let days = number(&lookup, "LEASE_RETENTION_DAYS", 3650, "days")?;
        let seconds = |name, default: Duration| {
            number(&lookup, name, DAY, "seconds").map(|n| n.map_or(default, Duration::from_secs))
        };
        let cap = number(&lookup, "LEASE_QUEUE_CAP", 1000, "waiters")?;
        Ok(Self {
            table,
            owns_rules: either(&lookup, "LEASE_RULES", ["table", "own"])?,
            executions: executions(&lookup)?,
            starts: starts(&lookup)?,
            settings: Settings {
                clock_margin: millis("LEASE_CLOCK_MARGIN_MS", default.clock_margin)?,
                guard: millis("LEASE_GUARD_MS", default.guard)?,
                retention: days.map_or(default.retention, |n| Duration::from_secs(n * DAY)),
                // 0 means no floor.
                token_floor: floor.and_then(Counter::new).unwrap_or(default.token_floor),
                stopped: either(&lookup, "LEASE_GRANTS", ["open", "stopped"])?,
                queue_cap: cap
                    .and_then(|n| u16::try_from(n).ok())
                    .unwrap_or(default.queue_cap),
                reap_grace: seconds("LEASE_REAP_GRACE_SECONDS", default.reap_grace)?,
                look: look(&lookup)?.unwrap_or(default.look),
                redrives_are_counted_only: either(&lookup, "LEASE_REDRIVES", ["guard", "alarm"])?,
                first_call: default.first_call,
            },
        })
    }
}

fn number(
    lookup: impl Fn(&str) -> Option<String>,
    name: &str,
    most: u64,
    unit: &str,
) -> Result<Option<u64>, Error> {
    let Some(text) = lookup(name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(n) if n <= most => Ok(Some(n)),
        _ => Err(Error::misconfigured(
            name,
            &format!("must be a whole number of {unit} from 0 to {most}"),
        )),
    }
}

/// Whether the variable has the second of two words. The first is the default.
fn either(
    lookup: impl Fn(&str) -> Option<String>,
    name: &str,
    [usual, other]: [&str; 2],
) -> Result<bool, Error> {
    match lookup(name) {
        None => Ok(false),
        Some(word) if word == usual => Ok(false),
        Some(word) if word == other => Ok(true),
        Some(_) => Err(Error::misconfigured(
            name,
            &format!("must be {usual} or {other}"),
        )),
    }
}

/// Which executions may have a lease that lasts as long as they run; any if it is not set.
fn executions(lookup: impl Fn(&str) -> Option<String>) -> Result<Executions, Error> {
    const NAME: &str = "LEASE_EXECUTIONS";
    lookup(NAME).map_or_else(
        || Ok(Executions::default()),
        |list| {
            Executions::of(&list)
                .map_err(|problem| Error::misconfigured(NAME, &problem.to_string()))
        },
    )
}

/// Which state machines may be started, and through which keys; none if it is not set.
fn starts(lookup: impl Fn(&str) -> Option<String>) -> Result<StartRules, Error> {
    const NAME: &str = "LEASE_STARTS";
    let list = lookup(NAME).unwrap_or_default();
    StartRules::of(&list).map_err(|problem| Error::misconfigured(NAME, &problem.to_string()))
}

fn look(lookup: impl Fn(&str) -> Option<String>) -> Result<Option<Duration>, Error> {
    const NAME: &str = "LEASE_LOOK_SECONDS";
    match number(lookup, NAME, 3600, "seconds")? {
        Some(0) => Err(Error::misconfigured(
            NAME,
            "must be a whole number of seconds from 1 to 3600",
        )),
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Environment, String> {
        let lookup = |name: &str| {
            let pair = pairs.iter().find(|(n, _)| *n == name)?;
            Some(pair.1.to_owned())
        };
        Environment::from(lookup).map_err(|e| e.to_string())
    }

    #[test]
    fn only_the_table_is_required() {
        let read = read(&[("LEASE_TABLE", "leases")]).expect("valid");
        assert_eq!(read.table.as_str(), "leases");
        assert_eq!(read.settings, Settings::default());
    }

    #[test]
    fn bad_setting_is_named_without_fallback() {
        assert!(read(&[]).is_err_and(|e| e.contains("LEASE_TABLE")));
        for name in [
            "LEASE_CLOCK_MARGIN_MS",
            "LEASE_GUARD_MS",
            "LEASE_RETENTION_DAYS",
            "LEASE_TOKEN_FLOOR",
            "LEASE_QUEUE_CAP",
            "LEASE_REAP_GRACE_SECONDS",
            "LEASE_LOOK_SECONDS",
            "LEASE_RULES",
            "LEASE_GRANTS",
            "LEASE_REDRIVES",
        ] {
            for value in ["", "abc", "-1", "1.5", "99999999999999999999"] {
                let read = read(&[("LEASE_TABLE", "t"), (name, value)]);
                assert!(read.is_err_and(|e| e.contains(name)), "{name}={value}");
            }
        }
        for seconds in ["0", "3601"] {
            let read = read(&[("LEASE_TABLE", "t"), ("LEASE_LOOK_SECONDS", seconds)]);
            assert!(read.is_err_and(|e| e.contains("LEASE_LOOK_SECONDS")));
        }
    }
}
