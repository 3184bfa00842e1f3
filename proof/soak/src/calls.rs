//! One call of a function: the request, the answer, and the entry in the history.

use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::Timestamp;
use leasehold_local::{Fault, Outcome};
use serde_json::{Value, json};

use crate::context::Context;
use crate::fixture::{ahead, function};
use crate::history::{Before, Ended, ExtraEffect, Kind, Micros, Millis, Name, Place, Response};
use crate::plan::Step;
use crate::watch::sleep_ms;

/// The deadline of an execution lease.
const NEVER: Millis = Millis::MAX / 4;

/// A call that took longer than this may have given up an attempt that still arrives.
const AN_ATTEMPT: Micros = 480_000;

/// The caller, and the section that it calls for.
pub struct Caller<'a> {
    /// The round.
    pub context: &'a Context,
    /// The client, or operator.
    pub holder: String,
    /// What marks all of the section's requests to acquire.
    pub mark: String,
    /// Whether a fault was on its way to any call of the section.
    hurt: AtomicBool,
    /// Whether it was one by which a request arrives late.
    late: AtomicBool,
}

/// A call as it was answered.
#[derive(Debug)]
pub struct Reply {
    /// When it was sent.
    pub begin: Micros,
    /// When it was answered, or its process was gone.
    pub end: Micros,
    /// Between which instants the function read its clock, by that clock.
    pub clock: (Millis, Millis),
    /// The answer.
    pub answer: Answer,
    /// Its possible further effect.
    pub besides: ExtraEffect,
    /// Who, and where in the plan.
    pub by: String,
}

/// The answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The function's answer.
    Well(Value),
    /// The error's name, and its message.
    Error(String, Value),
    /// It may have happened or not.
    Unknown,
}

/// A lease as a client has it.
#[derive(Clone, Debug)]
pub struct Handle {
    /// The lease as the answer has it.
    pub raw: Value,
    /// The row.
    pub place: Place,
    /// Its proof.
    pub secret: String,
    /// The number of its proof.
    pub lease: Name,
    /// Its token.
    pub token: u64,
    /// The row's version.
    pub version: u64,
    /// By the function's clock.
    pub acquired_at: Millis,
    /// The deadline; that of an execution lease never comes.
    pub expires_at: Millis,
    /// When its holder stops.
    pub safe_until: Millis,
}

impl Handle {
    /// Whether a clock ends it, and not the end of its holder, an execution.
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.expires_at != NEVER
    }
}

impl<'a> Caller<'a> {
    /// A caller that has called nobody yet.
    #[must_use]
    pub fn new(context: &'a Context, holder: String, mark: String) -> Self {
        Self {
            context,
            holder,
            mark,
            hurt: AtomicBool::new(false),
            late: AtomicBool::new(false),
        }
    }

    /// Calls a function. The fault of the step meets a request that contains `text`.
    pub async fn call(&self, verb: &str, step: Step, payload: &Value, text: &str) -> Reply {
        sleep_ms(step.after).await;
        let context = self.context;
        if let Some(fault) = step.fault {
            self.hurt.store(true, Ordering::Release);
            let lasting = matches!(fault, Fault::LateRequest | Fault::Hang | Fault::HangAnswer);
            self.late.fetch_or(lasting, Ordering::AcqRel);
            context.fixture.proxy.inject_matching(fault, "*", text, 1);
            context.note_disturbance(format!("{}{verb}: {fault:?}", self.mark));
        }
        let name = function(verb, step.fleet);
        let begin = context.watch.now();
        let invoked = context
            .fixture
            .host
            .invoke(&name, &payload.to_string())
            .await;
        let end = context.watch.now();
        let answer = match invoked.map(|invocation| invocation.outcome) {
            Ok(Outcome::Answer(text)) => {
                Answer::Well(serde_json::from_str(&text).unwrap_or_default())
            }
            Ok(Outcome::FunctionError(text)) => self.error(&text),
            Ok(Outcome::Throttled) | Err(_) => {
                self.unexpected(&format!("{name} could not be reply"));
                Answer::Unknown
            }
        };
        let mut history = context.history();
        history.calls += 1;
        history.answered += u64::from(!matches!(answer, Answer::Unknown));
        drop(history);
        Reply {
            begin,
            end,
            clock: context.watch.read_between(begin, end, ahead(step.fleet)),
            besides: self.besides(&answer, end - begin),
            answer,
            by: format!(
                "{}{verb} by {}, fleet {}",
                self.mark, self.holder, step.fleet
            ),
        }
    }

    fn besides(&self, answer: &Answer, took: Micros) -> ExtraEffect {
        let unknown = matches!(answer, Answer::Unknown);
        let repeated = matches!(answer, Answer::Well(answer)
            if answer["grant"] == "replayed" || answer["outcome"] == "already_released");
        if unknown || took > AN_ATTEMPT || self.late.load(Ordering::Acquire) {
            ExtraEffect::Later
        } else if repeated || self.hurt.load(Ordering::Acquire) {
            ExtraEffect::Within
        } else {
            ExtraEffect::Nothing
        }
    }

    fn error(&self, text: &str) -> Answer {
        let error: Value = serde_json::from_str(text).unwrap_or_default();
        let name = error["errorType"].as_str().unwrap_or_default();
        let message = error["errorMessage"].as_str().unwrap_or_default();
        match name {
            "Lease.Unavailable" | "Lease.Throttled" => {
                self.context.history().messages.push(message.to_owned());
                Answer::Unknown
            }
            "Runtime.ExitError" | "Sandbox.Timedout" => Answer::Unknown,
            "Lease.Held" | "Lease.Consumed" | "Lease.Lost" | "Lease.Expired" | "Lease.Corrupt"
            | "Lease.QueueFull" | "Lease.NotStarted" => {
                self.context.history().messages.push(message.to_owned());
                let message = serde_json::from_str(message).unwrap_or_default();
                Answer::Error(name.to_owned(), message)
            }
            _ => {
                self.unexpected(&format!("{name}: {message}"));
                Answer::Unknown
            }
        }
    }

    /// Writes down an answer that nobody should get.
    pub fn unexpected(&self, what: &str) {
        let what = format!("{}{what}", self.mark);
        self.context.history().unexpected.push(what);
    }

    /// The lease in an answer.
    pub fn handle(&self, lease: &Value) -> Option<Handle> {
        let handle = handle(lease, &self.context.names);
        match &handle {
            Some(handle) => {
                if lease["holder"] != self.holder.as_str() {
                    self.unexpected(&format!("a lease of {}'s", lease["holder"]));
                }
                let secret = handle.secret.clone();
                self.context.history().secrets.insert(secret);
            }
            None => self.unexpected(&format!("a lease that is none: {lease}")),
        }
        handle
    }

    /// What acquire answered about one key.
    pub fn granted(&self, grant: &str, handle: &Handle, previous: &Value) -> Response {
        let names = &self.context.names;
        let before = || {
            Some(Before {
                holder: names.of(previous["holder"].as_str()?),
                token: previous["fencing_token"].as_u64()?,
                ended: match previous["ended"].as_str()? {
                    "released" => Ended::Released,
                    "expired" => Ended::Expired,
                    _ => Ended::Forced,
                },
            })
        };
        Response::Granted {
            kind: match grant {
                "new" => Kind::New,
                "replayed" => Kind::Replayed,
                _ => Kind::Takeover,
            },
            token: handle.token,
            lease: handle.lease,
            version: handle.version,
            acquired_at: handle.acquired_at,
            expires_at: handle.expires_at,
            previous: before(),
        }
    }

    /// What the answer says of somebody else's lease.
    pub fn held(&self, held: &Value) -> Response {
        let read = || {
            Some(Response::Held {
                holder: self.context.names.of(held["holder"].as_str()?),
                token: held["fencing_token"].as_u64()?,
                version: held["version"].as_u64()?,
                expires_at: deadline(held, "expires_at")?,
            })
        };
        read().unwrap_or_else(|| {
            self.unexpected(&format!("a holder who is none: {held}"));
            Response::Unknown
        })
    }
}

fn handle(lease: &Value, names: &crate::history::Names) -> Option<Handle> {
    let secret = lease["lease_id"].as_str()?.to_owned();
    Some(Handle {
        place: Place {
            key: lease["key"].as_str()?.to_owned(),
            permit: lease["permit"].as_u64()?.try_into().ok()?,
        },
        lease: names.of(&secret),
        secret,
        token: lease["fencing_token"].as_u64()?,
        version: lease["version"].as_u64()?,
        acquired_at: instant(&lease["acquired_at"])?,
        expires_at: deadline(lease, "expires_at")?,
        safe_until: deadline(lease, "safe_until")?,
        raw: lease.clone(),
    })
}

/// An instant of a lease that only a lease with a deadline has.
fn deadline(lease: &Value, field: &str) -> Option<Millis> {
    if lease["lifetime"] == "execution" {
        return lease[field].is_null().then_some(NEVER);
    }
    instant(&lease[field])
}

fn instant(text: &Value) -> Option<Millis> {
    let at: Timestamp = text.as_str()?.parse().ok()?;
    at.as_millis().try_into().ok()
}

/// A length of milliseconds as JSON has it.
#[must_use]
pub fn seconds(millis: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let seconds = millis as f64 / 1000.0;
    json!(seconds)
}
