//! What happened, read from the invocations that really took place. The proof of ownership, the `lease_id`, is
//! left behind here: nothing that is shown or written knows it.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold::Lease;
use leasehold_local::{Invocation, Outcome};
use serde::Deserialize;
use serde_json::Value;

/// One thing that happened, between two instants in milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fact {
    /// When it was asked for.
    pub(super) from: u64,
    /// When the answer was there.
    pub(super) at: u64,
    /// The ARN of the execution that it is about, or no text.
    pub(super) holder: String,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// An execution was started.
    Started,
    /// `StopExecution` was answered.
    Stopped,
    /// An execution was seen to have ended.
    Ended {
        status: String,
        error: Option<String>,
    },
    /// Acquire granted.
    Granted(Grant),
    /// Acquire told that somebody else holds it.
    Held {
        key: String,
        by: String,
    },
    /// The process was killed between request and answer.
    Killed {
        verb: String,
        request_id: String,
    },
    Extended {
        key: String,
        safe_until: u64,
    },
    /// Release answered, or failed as lost.
    Released {
        outcome: String,
    },
    /// A step ended, `refused` with its error name if it did not end well. Without `pass` it was not guarded.
    Stepped {
        pass: Option<Pass>,
        refused: Option<String>,
    },
    /// Sweep freed this many leases.
    Swept {
        freed: u64,
    },
    /// Any other error of a function.
    Failed {
        verb: String,
        error: String,
    },
}

/// What acquire answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grant {
    pub(super) key: String,
    pub(super) request_id: String,
    pub(super) fencing_token: u64,
    /// `new`, `replayed` or `takeover`.
    pub(super) kind: String,
    pub(super) acquired_at: u64,
    pub(super) expires_at: u64,
    pub(super) safe_until: u64,
    pub(super) previous: Option<Previous>,
}

/// The grant before, as acquire tells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Previous {
    pub(super) holder: String,
    pub(super) fencing_token: u64,
    pub(super) ended: String,
}

/// What a step was given to show to the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) key: String,
    pub(super) fencing_token: u64,
    pub(super) safe_until: u64,
}

#[derive(Deserialize)]
struct AcquireAnswer {
    lease: Lease,
    grant: String,
    previous: Option<Previous>,
}

impl Fact {
    /// What an invocation tells; nothing if nobody in the demo asked for it.
    pub(super) fn read(invocation: &Invocation) -> Option<Self> {
        let request: Value = serde_json::from_str(&invocation.payload).ok()?;
        let answer = match &invocation.outcome {
            Outcome::Answer(text) => Ok(serde_json::from_str(text).ok()?),
            Outcome::FunctionError(text) => Err(serde_json::from_str(text).ok()?),
            Outcome::Throttled => Err(serde_json::json!({"errorType": "Lambda.Throttled"})),
        };
        let (holder, what) = interpret(&invocation.verb, &request, answer)?;
        Some(Self {
            from: millis(invocation.started_at),
            at: millis(invocation.ended_at),
            holder,
            what,
        })
    }

    /// Something that happened just now.
    pub(super) fn now(holder: &str, what: What) -> Self {
        let at = now();
        Self {
            from: at,
            at,
            holder: holder.to_owned(),
            what,
        }
    }
}

/// Milliseconds since the epoch.
pub(super) fn now() -> u64 {
    millis(SystemTime::now())
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whom an invocation is about, and what it tells of it.
fn interpret(verb: &str, request: &Value, answer: Result<Value, Value>) -> Option<(String, What)> {
    let holder = match verb {
        "acquire" => text(&request["holder"]),
        _ => text(&request["lease"]["holder"]),
    };
    let what = match (verb, answer) {
        ("sweep", Ok(answer)) => What::Swept {
            freed: answer["freed"].as_u64()?,
        },
        ("step", answer) => What::Stepped {
            pass: pass(&request["lease"]),
            refused: answer.err().map(|error| text(&error["errorType"])),
        },
        ("acquire", Ok(answer)) => What::Granted(granted(request, answer)?),
        ("extend", Ok(answer)) => {
            let lease: Lease = serde_json::from_value(answer["lease"].clone()).ok()?;
            What::Extended {
                key: lease.key.to_string(),
                safe_until: lease.safe_until.as_millis(),
            }
        }
        ("release", Ok(answer)) => What::Released {
            outcome: text(&answer["outcome"]),
        },
        (_, Ok(_)) => return None,
        (_, Err(error)) => failed(verb, request, &error),
    };
    Some((holder, what))
}

fn failed(verb: &str, request: &Value, error: &Value) -> What {
    let name = text(&error["errorType"]);
    match (verb, name.as_str()) {
        ("acquire", "Lease.Held") => {
            let message = text(&error["errorMessage"]);
            let told: Value = serde_json::from_str(&message).unwrap_or_default();
            What::Held {
                key: text(&request["key"]),
                by: text(&told["holder"]),
            }
        }
        (_, "Runtime.ExitError") => What::Killed {
            verb: verb.to_owned(),
            request_id: text(&request["request_id"]),
        },
        ("release", "Lease.Lost") => What::Released {
            outcome: "lost".to_owned(),
        },
        _ => What::Failed {
            verb: verb.to_owned(),
            error: name,
        },
    }
}

fn granted(request: &Value, answer: Value) -> Option<Grant> {
    let answer: AcquireAnswer = serde_json::from_value(answer).ok()?;
    let lease = answer.lease;
    Some(Grant {
        key: lease.key.to_string(),
        request_id: text(&request["request_id"]),
        fencing_token: lease.fencing_token.get(),
        kind: answer.grant,
        acquired_at: lease.acquired_at.as_millis(),
        expires_at: lease.expires_at.as_millis(),
        safe_until: lease.safe_until.as_millis(),
        previous: answer.previous,
    })
}

fn pass(lease: &Value) -> Option<Pass> {
    let safe_until: leasehold::Timestamp =
        serde_json::from_value(lease["safe_until"].clone()).ok()?;
    Some(Pass {
        key: text(&lease["key"]),
        fencing_token: lease["fencing_token"].as_u64()?,
        safe_until: safe_until.as_millis(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease() -> Value {
        json!({
            "key": "orders/42", "holder": "me", "lease_id": "0123456789abcdef0123456789abcdef",
            "fencing_token": 7, "version": 9, "ttl_seconds": 4, "acquired_at": "2026-11-21T03:00:00.000Z",
            "expires_at": "2026-11-21T03:00:04.000Z", "safe_until": "2026-11-21T03:00:03.000Z",
            "permit": 0, "metadata": {},
        })
    }

    #[test]
    fn a_grant_is_read_with_what_came_before_it_and_without_the_secret() {
        let request = json!({"key": "orders/42", "holder": "me", "request_id": "r"});
        let previous = json!({"holder": "you", "fencing_token": 5, "ended": "expired"});
        let answer = json!({"outcome": "acquired", "lease": lease(), "grant": "takeover", "previous": previous});
        let (holder, what) = interpret("acquire", &request, Ok(answer)).unwrap();
        assert_eq!(holder, "me");
        assert!(!format!("{what:?}").contains("0123456789abcdef"));
        let What::Granted(grant) = what else {
            panic!("{what:?}")
        };
        assert_eq!((grant.fencing_token, grant.kind.as_str()), (7, "takeover"));
        assert_eq!(grant.safe_until - grant.acquired_at, 3_000);
        assert_eq!(grant.previous.unwrap().ended, "expired");
    }

    #[test]
    fn refusals_deaths_and_losses_are_told_apart() {
        let request = json!({"key": "orders/42", "holder": "me", "request_id": "r"});
        let error =
            |name: &str| json!({"errorType": name, "errorMessage": "{\"holder\": \"you\"}"});
        let told = |verb, name| interpret(verb, &request, Err(error(name))).unwrap().1;
        let held = What::Held {
            key: "orders/42".into(),
            by: "you".into(),
        };
        assert_eq!(told("acquire", "Lease.Held"), held);
        assert!(matches!(
            told("acquire", "Runtime.ExitError"),
            What::Killed { .. }
        ));
        assert!(matches!(
            told("acquire", "Lease.Unavailable"),
            What::Failed { .. }
        ));
        assert!(matches!(
            told("release", "Lease.Lost"),
            What::Released { .. }
        ));
        assert!(matches!(
            told("sweep", "Lease.Throttled"),
            What::Failed { .. }
        ));
    }
}
