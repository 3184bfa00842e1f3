//! The record of the run: every invocation, assigned to its execution and printed as a line of text. The record does not
//! keep the `lease_id`, so nothing printed or written contains it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold::Timestamp;
use leasehold_local::Invocation;
use leasehold_local::history::{EventKind, History};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cast::{PlannedExecution, Scenario};
use super::{GRACE_SECONDS, show};

/// The whole run. Instants are in milliseconds since `began`.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// When the run began, in milliseconds since the epoch.
    pub(super) began: u64,
    pub(super) executions: Vec<Execution>,
    /// The acts of holders and waiters.
    pub(super) history: History,
    /// When the work with a key and a token has promised to be out, according to the step's input.
    pub(super) promised: BTreeMap<(String, u64), u64>,
    /// Leases that sweep freed.
    pub(super) swept: u64,
    /// Errors of functions that the demo does not provoke. The machines' Retry handles them, so they are reported but are no
    /// violation.
    pub(super) failures: Vec<String>,
    /// Invocations that were missed. Without them the judgement may be too good.
    pub(super) missed: u64,
    /// How often a holder entered the resource while another was inside.
    pub(super) overlaps: u64,
}

/// An execution, and its history with a lease.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Execution {
    pub(super) name: String,
    pub(super) arn: String,
    pub(super) key: &'static str,
    pub(super) machine: &'static str,
    pub(super) part: Scenario,
    pub(super) expected_status: &'static str,
    pub(super) status: String,
    pub(super) error: Option<String>,
    /// When it first requested the lease.
    pub(super) asked: Option<u64>,
    /// When it was refused because somebody else holds it.
    pub(super) refusals: Vec<u64>,
    /// When a response said that it is in the queue. There are several if it was asked again.
    pub(super) queued: Vec<u64>,
    pub(super) lease: Option<Hold>,
    /// When processes were killed between request and response.
    pub(super) killed: Vec<u64>,
    /// When it first entered the resource, and when it last left.
    pub(super) entered: Option<u64>,
    pub(super) left: Option<u64>,
    /// How often it entered the resource.
    pub(super) entries: usize,
    /// When the resource refused a write.
    pub(super) refused_writes: Vec<u64>,
    /// When it was stopped.
    pub(super) stopped: Option<u64>,
    /// When reap removed it from the queue, after an event of its end.
    pub(super) unqueued: Option<u64>,
    pub(super) ended: Option<u64>,
}

/// A lease as its holder saw it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Hold {
    pub(super) fencing_token: u64,
    /// The first response's `new`, `replayed` or `takeover`. `served` for a waiter of the queue.
    pub(super) grant: String,
    pub(super) previous: Option<Previous>,
    /// The start of the lease.
    pub(super) acquired: u64,
    /// When the holder received the response.
    pub(super) from: u64,
    /// The deadline of the grant.
    pub(super) expires: u64,
    /// Until when the holder may work, after all confirmed extends.
    pub(super) safe_until: u64,
    pub(super) extends: Vec<u64>,
    /// When the release was requested, and its outcome.
    pub(super) released: Option<(u64, String)>,
}

/// The previous grant, from the acquire's response.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Previous {
    pub(super) holder: String,
    pub(super) fencing_token: u64,
    pub(super) ended: String,
}

/// The fields that are read from a lease.
#[derive(Deserialize)]
struct Lease {
    key: String,
    holder: String,
    fencing_token: u64,
    acquired_at: Timestamp,
    /// None if it lasts while its holder, an execution, runs.
    expires_at: Option<Timestamp>,
    safe_until: Option<Timestamp>,
}

impl Hold {
    /// When the holder stopped using it: at the request for the release, or at `safe_until`.
    pub(super) fn until(&self) -> u64 {
        let released = self.released.as_ref();
        released.map_or(self.safe_until, |(asked, _)| self.safe_until.min(*asked))
    }

    /// Whether the previous holder did not release.
    pub(super) fn is_takeover(&self) -> bool {
        let previous = self.previous.as_ref();
        previous.is_some_and(|previous| previous.ended == "expired")
    }
}

impl Execution {
    /// How long it waited from its first request to its lease.
    pub(super) fn waited(&self) -> Option<u64> {
        Some(self.lease.as_ref()?.from.saturating_sub(self.asked?))
    }
}

impl Record {
    /// A run that begins now.
    pub(super) fn begin() -> Self {
        Self {
            began: now(),
            ..Self::default()
        }
    }

    /// Converts an instant of the machine's clock to milliseconds since the run began.
    pub(super) const fn at(&self, epoch_ms: u64) -> u64 {
        epoch_ms.saturating_sub(self.began)
    }

    /// Adds an execution before it starts, so that none of its invocations comes too early.
    pub(super) fn start(&mut self, role: &PlannedExecution, arn: &str) {
        self.executions.push(Execution {
            name: role.name.clone(),
            arn: arn.to_owned(),
            key: role.key,
            machine: role.machine(),
            part: role.part,
            expected_status: role.expected_status(),
            status: "RUNNING".to_owned(),
            ..Execution::default()
        });
        self.tell(self.at(now()), arn, "starts");
    }

    /// Records that an execution was stopped.
    pub(super) fn stop(&mut self, arn: &str, at: u64) {
        let at = self.at(at);
        let mut event = "STOPPED while it holds; its step works on";
        if let Some(execution) = self.execution_mut(arn) {
            execution.stopped = Some(at);
            if execution.lease.is_none() {
                event = "STOPPED while it waits";
            }
        }
        self.tell(at, arn, event);
    }

    /// Records that an execution has ended.
    pub(super) fn end(&mut self, arn: &str, status: &str, error: Option<&str>) {
        let at = self.at(now());
        if let Some(execution) = self.execution_mut(arn) {
            execution.ended = Some(at);
            if let Some(hold) = &mut execution.lease {
                // One without a deadline lasted while it ran.
                if hold.safe_until == u64::MAX {
                    (hold.expires, hold.safe_until) = (at, at);
                }
            }
            status.clone_into(&mut execution.status);
            execution.error = error.map(str::to_owned);
        }
        let error = error.map_or_else(String::new, |error| format!(" with {error}"));
        self.tell(at, arn, &format!("ended {status}{error}"));
    }

    pub(super) fn execution(&self, arn: &str) -> Option<&Execution> {
        self.executions.iter().find(|one| one.arn == arn)
    }

    pub(super) fn execution_mut(&mut self, arn: &str) -> Option<&mut Execution> {
        self.executions.iter_mut().find(|one| one.arn == arn)
    }

    /// The first execution with this part.
    pub(super) fn with_part(&self, part: Scenario) -> Option<&Execution> {
        self.executions.iter().find(|one| one.part == part)
    }

    /// An execution's short name. Any other holder stays as it is.
    pub(super) fn name<'a>(&'a self, arn: &'a str) -> &'a str {
        self.execution(arn).map_or(arn, |one| one.name.as_str())
    }

    /// Prints a line about an execution.
    fn tell(&self, at: u64, arn: &str, event: &str) {
        let key = self.execution(arn).map_or("", |one| one.key);
        let name = self.name(arn);
        show(&format!(
            "{:6.2} s  {key:<15} {name:<11} {event}",
            seconds(at)
        ));
    }

    /// Records an invocation.
    pub(super) fn observe(&mut self, invocation: &Invocation) {
        let Ok(request) = serde_json::from_str::<Value>(&invocation.payload) else {
            return;
        };
        let from = self.at(millis(invocation.started_at));
        let at = self.at(millis(invocation.ended_at));
        let verb = invocation.verb.as_str();
        match invocation.outcome.json() {
            Ok(answer) => self.answered(verb, &request, &answer, from, at),
            Err(error) => self.failed(verb, &request, &error, from, at),
        }
    }

    fn answered(&mut self, verb: &str, request: &Value, answer: &Value, from: u64, at: u64) {
        match verb {
            "acquire" if answer["outcome"] == "queued" => {
                let holder = text(&request["holder"]);
                let key = text(&request["key"]);
                self.history.record(at, key, holder, EventKind::Queued);
                self.asks(holder, from);
                if let Some(execution) = self.execution_mut(holder) {
                    execution.queued.push(at);
                }
                self.tell(at, holder, "is in the queue");
            }
            "acquire" => self.granted(answer, from, at),
            "extend" => self.extended(answer, at),
            "release" => {
                let outcome = text(&answer["outcome"]);
                self.released(lease_of(request), outcome, from, at);
            }
            "step" => self.stepped(request),
            "sweep" => {
                let freed = answer["freed"].as_u64().unwrap_or(0);
                self.swept += freed;
                if freed > 0 {
                    self.tell(at, "", &format!("sweep frees {freed}"));
                }
            }
            "reap" => self.reaped(request, at),
            _ => {}
        }
    }

    /// A batch of messages about executions that have ended: those that wait leave the queue.
    fn reaped(&mut self, request: &Value, at: u64) {
        let messages = request["Records"].as_array().into_iter().flatten();
        for message in messages {
            let event: Value = serde_json::from_str(text(&message["body"])).unwrap_or_default();
            let arn = text(&event["detail"]["executionArn"]);
            let Some(execution) = self.execution_mut(arn) else {
                continue;
            };
            let waits = !execution.queued.is_empty() && execution.lease.is_none();
            if !waits || execution.unqueued.is_some() {
                continue;
            }
            execution.unqueued = Some(at);
            let key = execution.key;
            self.history.record(at, key, arn, EventKind::GaveUp);
            self.tell(at, arn, "leaves the queue");
        }
    }

    fn granted(&mut self, answer: &Value, from: u64, at: u64) {
        let Ok(lease) = Lease::deserialize(lease_of(answer)) else {
            return;
        };
        let kind = text(&answer["grant"]);
        let previous = Previous::deserialize(&answer["previous"]).ok();
        let how = match kind {
            "takeover" => "TAKES OVER",
            "replayed" => "is granted by REPLAY",
            _ => "is granted",
        };
        let after = previous.as_ref().map_or_else(String::new, |previous| {
            let name = self.name(&previous.holder);
            format!(", after {name} ({})", previous.ended)
        });
        let event = format!("{how}, token {}{after}", lease.fencing_token);
        let asked_at = self.asks(&lease.holder, from);
        self.holds(&lease, kind, previous, asked_at, at);
        self.tell(at, &lease.holder, &event);
    }

    /// The instant of the first request: now, unless there was one before.
    fn asks(&mut self, holder: &str, from: u64) -> u64 {
        let execution = self.execution_mut(holder);
        execution.map_or(from, |one| *one.asked.get_or_insert(from))
    }

    /// Records the response by which a holder got its lease. One that it already has is recorded once.
    fn holds(
        &mut self,
        lease: &Lease,
        grant: &str,
        previous: Option<Previous>,
        asked_at: u64,
        at: u64,
    ) {
        let until = |at: Option<Timestamp>| at.map_or(u64::MAX, |at| self.at(at.as_millis()));
        let safe_until = until(lease.safe_until);
        let hold = Hold {
            fencing_token: lease.fencing_token,
            grant: grant.to_owned(),
            previous,
            acquired: self.at(lease.acquired_at.as_millis()),
            from: at,
            expires: until(lease.expires_at),
            safe_until,
            extends: Vec::new(),
            released: None,
        };
        if let Some(execution) = self.execution_mut(&lease.holder) {
            execution.lease.get_or_insert(hold);
        }
        let granted = EventKind::Granted {
            token: lease.fencing_token,
            asked_at,
            safe_until,
        };
        self.history.record(at, &lease.key, &lease.holder, granted);
    }

    /// The lease of a waiter, which its task token received: seen in the table, or in what its execution does with it.
    pub(super) fn served(&mut self, lease: &Value, at: u64) {
        let Ok(lease) = Lease::deserialize(lease) else {
            return;
        };
        let from = self.at(lease.acquired_at.as_millis());
        let Some(execution) = self.execution(&lease.holder) else {
            return;
        };
        if execution.queued.is_empty() || execution.lease.is_some() {
            return;
        }
        let asked_at = execution.asked.unwrap_or(at);
        let token = lease.fencing_token;
        self.holds(&lease, "served", None, asked_at, from);
        self.tell(from, &lease.holder, &format!("has its turn, token {token}"));
    }

    fn extended(&mut self, answer: &Value, at: u64) {
        let Ok(lease) = Lease::deserialize(lease_of(answer)) else {
            return;
        };
        let token = lease.fencing_token;
        let until = |at: Timestamp| self.at(at.as_millis());
        let safe_until = lease.safe_until.map_or(u64::MAX, until);
        let Some(execution) = self.execution_mut(&lease.holder) else {
            return;
        };
        let Some(hold) = &mut execution.lease else {
            return;
        };
        hold.extends.push(at);
        hold.safe_until = hold.safe_until.max(safe_until);
        let extended = EventKind::Extended { token, safe_until };
        self.history.record(at, &lease.key, &lease.holder, extended);
        self.tell(at, &lease.holder, "extends");
    }

    fn released(&mut self, lease: &Value, outcome: &str, from: u64, at: u64) {
        let (key, holder) = (text(&lease["key"]), text(&lease["holder"]));
        let Some(token) = lease["fencing_token"].as_u64() else {
            return;
        };
        self.served(lease, from);
        let ended = EventKind::Ended { token };
        self.history.record(from, key, holder, ended);
        let execution = self.execution_mut(holder);
        if let Some(hold) = execution.and_then(|one| one.lease.as_mut()) {
            // A repeated release adds nothing.
            hold.released
                .get_or_insert_with(|| (from, outcome.to_owned()));
        }
        self.tell(at, holder, &format!("release: {outcome}"));
    }

    /// Records the promise in a step's input: until when its work may be inside.
    fn stepped(&mut self, request: &Value) {
        let lease = lease_of(request);
        let safe_until = Timestamp::deserialize(&lease["safe_until"]);
        if let (Some(token), Ok(safe_until)) = (lease["fencing_token"].as_u64(), safe_until) {
            let until = self.at(safe_until.as_millis());
            let pass = (text(&lease["key"]).to_owned(), token);
            let promised = self.promised.entry(pass).or_default();
            *promised = until.max(*promised);
        }
    }

    fn failed(&mut self, verb: &str, request: &Value, error: &Value, from: u64, at: u64) {
        let holder = match verb {
            "acquire" => text(&request["holder"]),
            _ => text(&lease_of(request)["holder"]),
        };
        if verb == "acquire" {
            self.asks(holder, from);
        }
        let name = text(&error["errorType"]);
        match (verb, name) {
            ("acquire", "Lease.Held") => {
                if let Some(execution) = self.execution_mut(holder) {
                    execution.refusals.push(at);
                }
                let message: Value =
                    serde_json::from_str(text(&error["errorMessage"])).unwrap_or_default();
                let by = self.name(text(&message["holder"])).to_owned();
                self.tell(at, holder, &format!("waits for {by}"));
            }
            (_, "Runtime.ExitError") => {
                if let Some(execution) = self.execution_mut(holder) {
                    execution.killed.push(at);
                }
                self.tell(at, holder, &format!("{verb} KILLED before its response"));
            }
            ("release", "Lease.Lost") => self.released(lease_of(request), "lost", from, at),
            ("step", "Step.StaleToken" | "Step.Overlap") => {
                self.stepped(request);
                let lease = lease_of(request);
                let refused = EventKind::Wrote {
                    token: lease["fencing_token"].as_u64().unwrap_or(0),
                    accepted: false,
                };
                self.history
                    .record(at, text(&lease["key"]), holder, refused);
                if let Some(execution) = self.execution_mut(holder) {
                    execution.refused_writes.push(at);
                }
                let event = format!("late write REFUSED by the resource: {name}");
                self.tell(at, holder, &event);
            }
            _ => {
                let who = self.name(holder);
                self.failures.push(format!("{verb} for {who}: {name}"));
                self.tell(at, holder, &format!("{verb} FAILED: {name}"));
            }
        }
    }

    /// Records a write that the resource accepted, in the order of acceptance.
    pub(super) fn accepted(&mut self, key: &str, holder: &str, token: u64, enters: bool, at: u64) {
        let at = self.at(at);
        let promised = self.promised.get(&(key.to_owned(), token));
        let what = if enters {
            // Without the step's input its end is unknown.
            let until = promised.copied().unwrap_or(u64::MAX);
            EventKind::Entered { token, until }
        } else {
            EventKind::Left { token }
        };
        self.history.record(at, key, holder, what);
        if let Some(execution) = self.execution_mut(holder) {
            execution.entries += usize::from(enters);
            execution.entered.get_or_insert(at);
            execution.left = if enters { execution.left } else { Some(at) };
        }
    }

    /// Shortens the leases of stopped executions to their grace, as reap does.
    pub(super) fn cut(&mut self) {
        for one in &self.executions {
            if let (Scenario::StoppedHolding, Some(hold), Some(at)) =
                (one.part, &one.lease, one.stopped)
            {
                let token = hold.fencing_token;
                let until = at + GRACE_SECONDS * 1000;
                let ended = EventKind::Ended { token };
                self.history.record(until, one.key, &one.arn, ended);
            }
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

/// Milliseconds as seconds.
#[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// The lease of an event or a response, alone or in a list of one.
fn lease_of(said: &Value) -> &Value {
    match &said["leases"][0] {
        Value::Null => &said["lease"],
        lease => lease,
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
