//! One error per fact. Each has a name that a workflow's Retry and Catch match.

use serde::{Serialize, ser::SerializeMap as _};

use crate::{
    metrics::{self, Metric},
    outcomes::{Contention, HeldUntil},
    row::{Act, Record, because},
    values::{Holder, Key, Metadata},
};

mod kind;

pub use kind::{ErrorKind, Retriable};

/// Why a call failed. [`Error::name`] is its name for workflows, [`Error::kind`] has what is the same for all of that name;
/// the message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds the key. In Rust, contention is [`crate::Acquired::Held`]; this error is its form in the
    /// Lambda functions. Retry with backoff and full jitter.
    #[error("{}", .0.held)]
    Held(Box<Contention>),

    /// This request had its lease before, and that lease has ended: a late duplicate. Stop.
    #[error("this request was granted {key} before, and that lease has ended")]
    Consumed {
        /// The key.
        key: Key,
    },

    /// The grant has ended: released, swept, taken over, or gone. Stop the work. Then repair or acquire again; never
    /// retry.
    #[error("the lease of {key} has ended: {how}")]
    Lost {
        /// The key.
        key: Key,
        /// How it ended, as far as the row shows, in words.
        how: String,
    },

    /// The deadline has passed, nobody took the lease over, and the caller required an unexpired one.
    #[error("the lease of {key} has expired, and the caller required an unexpired lease")]
    Expired {
        /// The key.
        key: Key,
    },

    /// The request waited in the queue for its whole waiting time. Give up.
    #[error("{key} was not free within the waiting time of this request{}", had(held_by.as_ref()))]
    QueueTimeout {
        /// The key.
        key: Key,
        /// Who had it then, as far as that was seen.
        held_by: Option<Holder>,
    },

    /// A later request with [`Wait::latest`](crate::Wait::latest), or a later start, took this one's place in the queue. It does
    /// the work: there is nothing to do.
    #[error("{by} came later and waits for {key} instead of this request")]
    Superseded {
        /// The key.
        key: Key,
        /// Who waits, or waited, instead.
        by: Holder,
    },

    /// The queue has reached its cap. Try again later.
    #[error("the queue for {key} is full: {waiting} requests wait (LEASE_QUEUE_CAP)")]
    QueueFull {
        /// The key.
        key: Key,
        /// How many requests are in the queue.
        waiting: usize,
    },

    /// The start has failed: Step Functions refuses it, or the key was not free in time. Its execution will not begin.
    /// Mend the cause, then repeat the start ([`crate::Queue::repeat_start`]).
    #[error("the start through {key} has failed: {reason}")]
    NotStarted {
        /// The key.
        key: Key,
        /// Why.
        reason: String,
    },

    /// An operator froze the key, set its limit to 0, or stopped the grants of the whole table. Wait for the operator.
    #[error("{}", frozen(key, record.as_deref(), *whole_table))]
    Frozen {
        /// The key.
        key: Key,
        /// Who froze it, and why.
        record: Option<Box<Record>>,
        /// Whether the grants of the whole table are stopped.
        whole_table: bool,
    },

    /// The request is malformed. Fix the definition.
    #[error("{message}")]
    Invalid {
        /// The field at fault, with dots between levels; none if the whole event is.
        field: Option<String>,
        /// What is wrong. It never repeats what was given.
        message: String,
    },

    /// Of several leases, some could not be extended or released. The name is that of the worst outcome; the message
    /// gives the outcome of each.
    #[error("{outcomes}")]
    Multiple {
        /// The worst outcome.
        #[source]
        worst: Box<Error>,
        /// Each key's outcome, in the order given.
        outcomes: String,
    },

    /// The stored item was not written by this library, or cannot be read. It was not changed, unless `reason` says
    /// so. An operator must look.
    #[error("the item of {key} was not written by leasehold: {reason}")]
    Corrupt {
        /// The key.
        key: Key,
        /// Why the item is not ours.
        reason: String,
    },

    /// IAM or the credentials refused. An operator must act.
    #[error("{action} on {resource} was refused: check the role's policy and credentials")]
    Denied {
        /// The IAM action.
        action: &'static str,
        /// The table by its name, or the other resource of the request.
        resource: String,
        /// The message of the service.
        source: Cause,
    },

    /// No such table, another key schema, or a bad environment. An operator must act.
    #[error("{problem}")]
    Misconfigured {
        /// What is wrong, and where.
        problem: String,
        /// The message of the service, if it was called.
        source: Option<Cause>,
    },

    /// The table throttled the request, after the library's own retries. If the response to one of those was lost, it may have been
    /// applied. Retry the same request with backoff.
    #[error("{action} on {resource} was throttled")]
    Throttled {
        /// The IAM action.
        action: &'static str,
        /// The table by its name, or the other resource of the request.
        resource: String,
        /// The message of the service.
        source: Cause,
    },

    /// The outcome is unknown: a timeout, a lost connection, a server error, a panic in this library. Retry the same
    /// request to learn the outcome.
    #[error("{}", unavailable(problem))]
    Unavailable {
        /// What failed.
        problem: String,
        /// The underlying error.
        source: Option<Cause>,
    },
}

/// The underlying error as one line of text. If a request to AWS failed, the `source` is the SDK's own error: an
/// `SdkError` with the error of the operation, for a downcast.
///
/// `Display` and `Debug` show only the text. The `Debug` of the SDK's error shows the service's response, which may
/// contain a lease id.
#[derive(thiserror::Error)]
#[error("{text}")]
pub struct Cause {
    text: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl std::fmt::Debug for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cause").field(&self.text).finish()
    }
}

impl Cause {
    /// The text of `error` and of its sources.
    #[must_use]
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::said(words(error))
    }

    /// One line of text.
    #[must_use]
    pub fn said(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            source: None,
        }
    }

    /// The same text, with `error` as the source. The `Display` of the error and of its sources must not show a
    /// secret.
    #[must_use]
    pub fn by(self, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Box::new(error)),
            ..self
        }
    }
}

/// The messages of an error and of its sources, each once.
fn words(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let said = error.to_string();
        if !line.ends_with(&said) {
            line = format!("{line}: {said}");
        }
        // A cause contains the whole text; the SDK's error below it would repeat it.
        below = error.source().filter(|_| !error.is::<Cause>());
    }
    line
}

impl Error {
    /// The name for workflows, which is the whole `errorType`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind().name
    }

    /// The error to match on: the error itself, or the worst one of [`Error::Multiple`].
    #[must_use]
    pub fn worst(&self) -> &Self {
        match self {
            Self::Multiple { worst, .. } => worst.worst(),
            error => error,
        }
    }

    /// The key of the error, if it concerns one key.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Held(contention) => Some(&contention.held.key),
            Self::Consumed { key }
            | Self::Lost { key, .. }
            | Self::Expired { key }
            | Self::QueueTimeout { key, .. }
            | Self::Superseded { key, .. }
            | Self::QueueFull { key, .. }
            | Self::NotStarted { key, .. }
            | Self::Frozen { key, .. }
            | Self::Corrupt { key, .. } => Some(key),
            Self::Multiple { worst, .. } => worst.key(),
            Self::Invalid { .. }
            | Self::Denied { .. }
            | Self::Misconfigured { .. }
            | Self::Throttled { .. }
            | Self::Unavailable { .. } => None,
        }
    }

    /// An [`Error::Invalid`] about `field`.
    #[must_use]
    pub fn invalid(field: &str, problem: impl std::fmt::Display) -> Self {
        Self::Invalid {
            field: Some(field.to_owned()),
            message: format!("{field}: {problem}"),
        }
    }

    /// An [`Error::Misconfigured`] about an environment variable.
    #[must_use]
    pub fn misconfigured(variable: &str, problem: &str) -> Self {
        Self::Misconfigured {
            problem: format!("environment variable {variable} {problem}"),
            source: None,
        }
    }

    /// The `errorMessage` of a function whose request names this key: one JSON object. It contains the key, whatever
    /// the error is.
    #[must_use]
    pub fn as_message(&self, key: Option<&Key>) -> String {
        let mut message = serde_json::to_value(self).unwrap_or_default();
        if let (Some(fields), Some(key)) = (message.as_object_mut(), key) {
            let (field, name) = named(key);
            fields.entry(field).or_insert_with(|| name.into());
        }
        message.to_string()
    }

    /// The cause of this error when it is sent to a task token. It is the same as that of a function that fails with
    /// this error.
    pub(crate) fn as_cause(&self, key: &Key) -> String {
        let message = self.as_message(Some(key));
        serde_json::json!({"errorType": self.name(), "errorMessage": message}).to_string()
    }

    /// Whether it concerns the whole table, and not one key, execution or state machine only: the table refused, or nothing is
    /// there that could.
    pub(crate) fn concerns_table(&self) -> bool {
        match self {
            Self::Denied { action, .. } => action.starts_with("dynamodb:"),
            Self::Misconfigured { .. } => true,
            _ => false,
        }
    }

    /// Reports this error, which no caller sees, as a [metric](crate::metrics).
    pub fn count(&self) {
        if let Some(metric) = self.metric() {
            metrics::record(metric, 1);
        }
    }

    /// The metric that counts it: that of its kind, but what throttled the call may be Step Functions or Lambda, which an operator cures otherwise than
    /// a table.
    #[must_use]
    pub fn metric(&self) -> Option<Metric> {
        match self.worst() {
            Self::Throttled { action, .. } if !action.starts_with("dynamodb:") => {
                Some(Metric::StepFunctionsThrottles)
            }
            error => error.kind().metric,
        }
    }

    /// The same error of a call that only reads, whose outcome is not unknown.
    #[must_use]
    pub fn of_a_read(self) -> Self {
        match self {
            Self::Unavailable { problem, source } => Self::Unavailable {
                problem: problem + OF_A_READ,
                source,
            },
            other => other,
        }
    }

    /// The error and its sources in one line.
    #[must_use]
    pub fn in_full(&self) -> String {
        words(self)
    }
}

/// The field that names it, and the name: of a pool its own.
fn named(key: &Key) -> (&'static str, &str) {
    match key.pool_name() {
        Some(name) => ("pool", name),
        None => ("key", key.as_str()),
    }
}

/// The `errorMessage` of a function: `message`, `key` or `pool`, `field` if there is one, and for Held everything that a waiter
/// needs.
impl Serialize for Error {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("message", &self.in_full())?;
        if let Some(key) = self.key() {
            let (field, name) = named(key);
            map.serialize_entry(field, name)?;
        }
        match self {
            Self::Invalid {
                field: Some(field), ..
            } => map.serialize_entry("field", field)?,
            Self::Held(contention) => {
                let held = &contention.held;
                map.serialize_entry("holder", &held.holder)?;
                map.serialize_entry("fencing_token", &held.fencing_token)?;
                map.serialize_entry("version", &held.version)?;
                match &held.until {
                    HeldUntil::Ttl { ttl, expires_at } => {
                        map.serialize_entry("ttl_seconds", ttl)?;
                        map.serialize_entry("expires_at", expires_at)?;
                    }
                    HeldUntil::Execution { lifetime } => {
                        map.serialize_entry("lifetime", lifetime)?;
                    }
                    HeldUntil::Closed { opens_at } => {
                        map.serialize_entry("opens_at", opens_at)?;
                    }
                }
                map.serialize_entry("metadata", &cut(&held.metadata))?;
                map.serialize_entry("waiting", &held.waiting)?;
                map.serialize_entry("permit", &held.permit)?;
                map.serialize_entry("by_you", &held.by_you)?;
                if let Some(retry) = &contention.retry {
                    map.serialize_entry("retry_at", &retry.retry_at)?;
                    map.serialize_entry("wait_seconds", &retry.wait_seconds)?;
                }
            }
            Self::Superseded { by, .. } => map.serialize_entry("by", by)?,
            _ => {}
        }
        map.end()
    }
}

/// What ends a problem in place of the advice to repeat the request, where nothing is unknown, or repeating does not help.
const OF_A_READ: &str = "; nothing was to be changed by it";
pub(crate) const TOKEN_USED: &str = "; its execution has to ask again, with a new token";

fn unavailable(problem: &str) -> String {
    if [OF_A_READ, TOKEN_USED]
        .iter()
        .any(|advice| problem.ends_with(advice))
    {
        return problem.to_owned();
    }
    format!("{problem}; the outcome is unknown: repeat the same request")
}

fn had(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": {holder} had it"))
}

fn frozen(key: &Key, record: Option<&Record>, whole_table: bool) -> String {
    if whole_table {
        return format!(
            "{key} is not granted now: an operator has stopped the grants of the whole table (parameter Grants)"
        );
    }
    let what = match record {
        Some(record) if record.act == Act::Limit => "is limited to 0 by an operator",
        _ => "is frozen by an operator",
    };
    format!("{key} {what}{}", because(record))
}

/// A Cause holds 32 768 characters, escapes included.
fn cut(metadata: &Metadata) -> Metadata {
    metadata.cut_to(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_possible_writes_ask_for_repetition() {
        let error = |problem: &str| Error::Unavailable {
            problem: problem.to_owned(),
            source: Some(Cause::said("timed out")),
        };
        assert_eq!(
            error("no response").in_full(),
            "no response; the outcome is unknown: repeat the same request: timed out"
        );
        assert_eq!(
            error("no response").of_a_read().in_full(),
            "no response; nothing was to be changed by it: timed out"
        );
        let used = error(&format!("used{TOKEN_USED}")).to_string();
        assert!(!used.contains("repeat"), "{used}");
    }

    #[test]
    fn a_message_says_everything_once() {
        let error = Error::Denied {
            action: "dynamodb:UpdateItem",
            resource: "table leases".into(),
            source: Cause::said("service error: not authorized")
                .by(std::io::Error::other("not authorized, by the service")),
        };
        assert_eq!(
            serde_json::to_value(&error).expect("json")["message"],
            "dynamodb:UpdateItem on table leases was refused: check the role's policy and \
             credentials: service error: not authorized"
        );
    }
}
