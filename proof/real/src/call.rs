//! One call of a function, and the leases in its answer.

use leasehold::Timestamp;
use leasehold_local::Outcome;
use serde_json::{Value, json};

use crate::plan::Step;
use crate::promises::{At, What};
use crate::round::Round;
use crate::watch::sleep_ms;
use crate::world::function;

/// The errors that say what happened; of others nobody knows.
const KNOWN: &[&str] = &[
    "Lease.Consumed",
    "Lease.Corrupt",
    "Lease.Held",
    "Lease.Invalid",
    "Lease.Lost",
    "Lease.NotStarted",
    "Lease.QueueFull",
];
const UNKNOWN: &[&str] = &[
    "Lease.Throttled",
    "Lease.Unavailable",
    "Runtime.ExitError",
    "Sandbox.Timedout",
];

/// A call as it was answered.
pub struct Reply {
    /// When it was sent.
    pub begin: At,
    /// When it was answered, or its process was gone.
    pub end: At,
    pub answer: Answer,
}

#[derive(Debug)]
pub enum Answer {
    /// The function's answer.
    Well(Value),
    /// The error's name, and its message.
    Error(String, Value),
    /// It may have happened or not.
    Unknown,
}

/// A lease as its holder has it.
#[derive(Clone)]
pub struct Handle {
    /// As the answer has it.
    pub raw: Value,
    pub key: String,
    pub permit: u64,
    pub token: u64,
    /// When its holder stops, and when it expires, in milliseconds by the function's clock; none if it lasts as long as its execution.
    pub deadline: Option<(i64, i64)>,
}

/// What an extend came to.
pub enum Extended {
    Yes(Handle),
    Lost,
    Unknown,
}

impl Round {
    /// Calls a function, without the fields that are null. The fault of the step meets a request that contains `text`.
    pub async fn call(
        &self,
        who: &str,
        verb: &str,
        step: Step,
        payload: &Value,
        text: &str,
    ) -> Reply {
        sleep_ms(step.after).await;
        if let Some(fault) = step.fault {
            self.world.proxy.inject_matching(fault, "*", text, 1);
        }
        let mut payload = payload.clone();
        if let Some(fields) = payload.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let name = function(verb, step.fleet);
        let begin = self.now();
        let invoked = self.world.host.invoke(&name, &payload.to_string()).await;
        let end = self.now();
        self.called();
        let answer = match invoked.map(|invocation| invocation.outcome) {
            Ok(Outcome::Answer(text)) => Answer::Well(json(&text)),
            Ok(Outcome::FunctionError(text)) => self.error(who, verb, &json(&text)),
            Ok(Outcome::Throttled) | Err(_) => panic!("{name} cannot be called"),
        };
        Reply { begin, end, answer }
    }

    fn error(&self, who: &str, verb: &str, error: &Value) -> Answer {
        let name = error["errorType"].as_str().unwrap_or_default();
        let message = error["errorMessage"].as_str().unwrap_or_default();
        self.read(verb, message.to_owned());
        if KNOWN.contains(&name) {
            return Answer::Error(name.to_owned(), json(message));
        }
        if !UNKNOWN.contains(&name) {
            self.unexpected(who, format!("{verb}: {name}: {message}"));
        }
        Answer::Unknown
    }

    /// The lease in an answer to this holder.
    pub fn handle(&self, who: &str, lease: &Value) -> Option<Handle> {
        let handle = read(lease).filter(|_| lease["holder"] == who);
        if handle.is_none() {
            self.unexpected(who, format!("with a lease that is not its own: {lease}"));
        }
        let id = lease["lease_id"].as_str().unwrap_or_default();
        self.see(self.now(), "", id, What::Secret);
        handle
    }

    /// Asks for more time, or proves the lease; for as long as before if no ttl is given.
    pub async fn extend(
        &self,
        who: &str,
        handle: &Handle,
        step: Step,
        ttl: Option<u64>,
    ) -> Extended {
        let mut payload = json!({"lease": handle.raw});
        if let Some(ttl) = ttl {
            payload["ttl_seconds"] = seconds(ttl);
        }
        let secret = handle.secret();
        let reply = self.call(who, "extend", step, &payload, secret).await;
        match reply.answer {
            Answer::Well(answer) => {
                let longer = self.handle(who, &answer["lease"]);
                longer.map_or(Extended::Unknown, Extended::Yes)
            }
            Answer::Error(name, _) if name == "Lease.Lost" => {
                let token = handle.token;
                self.see(reply.end, &handle.place(), who, What::Lost { token });
                Extended::Lost
            }
            answer => self.unknown(who, "extend", &answer, Extended::Unknown),
        }
    }

    /// Releases the lease; whether it is certainly over.
    pub async fn release(&self, who: &str, handle: &Handle, step: Step) -> bool {
        let payload = json!({"lease": handle.raw});
        let secret = handle.secret();
        let reply = self.call(who, "release", step, &payload, secret).await;
        match reply.answer {
            Answer::Well(answer) if answer["outcome"] != "kept" => true,
            answer => self.unknown(who, "release", &answer, false),
        }
    }

    /// For a call without an answer: nobody knows what it did. Any other answer here is one that nobody should get.
    pub fn unknown<T>(&self, who: &str, verb: &str, answer: &Answer, then: T) -> T {
        if !matches!(answer, Answer::Unknown) {
            self.unexpected(who, format!("{verb}: {answer:?}"));
        }
        then
    }
}

impl Handle {
    /// What it is a lease of.
    pub fn place(&self) -> String {
        place(&self.key, self.permit)
    }

    fn secret(&self) -> &str {
        self.raw["lease_id"].as_str().unwrap_or_default()
    }
}

/// One permit of a key, or the key if it has no other.
pub fn place(key: &str, permit: u64) -> String {
    match permit {
        0 => key.to_owned(),
        permit => format!("{key} permit {permit}"),
    }
}

/// A key with several permits as a whole.
pub fn all_of(key: &str) -> String {
    format!("all of {key}")
}

fn read(lease: &Value) -> Option<Handle> {
    let instant = |field: &str| {
        let at: Timestamp = lease[field].as_str()?.parse().ok()?;
        i64::try_from(at.as_millis()).ok()
    };
    let deadline = instant("safe_until").zip(instant("expires_at"));
    let lasts = lease["lifetime"] == "execution" && lease["expires_at"].is_null();
    let handle = Handle {
        key: lease["key"].as_str()?.to_owned(),
        permit: lease["permit"].as_u64()?,
        token: lease["fencing_token"].as_u64()?,
        deadline,
        raw: lease.clone(),
    };
    (lasts == deadline.is_none()).then_some(handle)
}

/// What a function, or an input, says.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// A length of milliseconds as JSON has it.
pub fn seconds(millis: u64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let seconds = millis as f64 / 1000.0;
    json!(seconds)
}
