//! What was seen of those who want the key: of executions their histories, as Step Functions has them, of the process what it
//! did itself, and what the protected resource has recorded. Nothing here keeps a `lease_id`.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sfn::types::{HistoryEvent, HistoryEventType};
use leasehold_local::{Error, Stack};
use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::setting::{GRACE_SECONDS, KEY, PROCESS, STOPPED_WAITING, STOPPED_WORKING};
use super::show;

/// The table of the resource that the leases protect.
const RESOURCES: &str = "ResourceTable";
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long anything may take. What comes later is a broken promise.
const PATIENCE: Duration = Duration::from_secs(60);

/// The whole run. The process comes first, then the executions in the order of their start.
pub(super) struct Record<'a> {
    stack: &'a Stack,
    sfn: aws_sdk_sfn::Client,
    /// When the run began, in milliseconds since the epoch, as all instants are.
    pub(super) began: u64,
    pub(super) all: Vec<Seen>,
    late_write: Arc<OnceLock<(u64, String)>>,
    /// What the resource accepted, in its order: when, by which token, and whether somebody entered.
    pub(super) writes: Vec<(u64, u64, bool)>,
    /// How often somebody entered the resource while another was inside.
    pub(super) overlaps: u64,
    /// What inspect says of the key at the end.
    pub(super) left: Value,
}

/// What was seen of one who wants the key.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) name: String,
    /// The holder's name; of an execution its ARN.
    pub(super) holder: String,
    pub(super) asked: Option<u64>,
    /// When the function process that asked for it was killed.
    pub(super) killed: Option<u64>,
    pub(super) queued: Option<u64>,
    pub(super) holds: Option<u64>,
    pub(super) token: Option<u64>,
    pub(super) works: Option<u64>,
    pub(super) stopped: Option<u64>,
    /// When the execution had ended; of the process, when its lease was over.
    pub(super) ended: Option<u64>,
    pub(super) status: String,
    /// When the resource refused a write, and by which error name.
    pub(super) refused: Option<(u64, String)>,
    /// How many events of its history have been read, and in which state it is.
    #[serde(skip)]
    read: (usize, String),
}

impl Seen {
    /// How an execution has to end.
    pub(super) fn expected(number: usize) -> &'static str {
        match number {
            STOPPED_WORKING | STOPPED_WAITING => "ABORTED",
            _ => "SUCCEEDED",
        }
    }

    /// Until when something of it may be at work. If it was stopped, or a function of it was killed, there is a grace.
    pub(super) fn until(&self) -> Option<u64> {
        let has_grace = self.stopped.is_some() || self.killed.is_some();
        let grace = if has_grace { GRACE_SECONDS * 1000 } else { 0 };
        self.ended.map(|at| at + grace)
    }

    /// Until when it believes that it holds the key, if it does. What was stopped may be at work for a grace.
    pub(super) fn believes(&self) -> Option<u64> {
        match self.stopped {
            Some(_) => self.until(),
            None => self.ended,
        }
    }

    /// Takes in an event. Returns what to tell of it.
    fn see(&mut self, event: &HistoryEvent) -> Option<String> {
        use HistoryEventType as Type;
        let at = u64::try_from(event.timestamp().to_millis().unwrap_or(0)).unwrap_or(0);
        if let Some(entered) = event.state_entered_event_details() {
            entered.name().clone_into(&mut self.read.1);
        }
        let asks = self.read.1 == "Acquire";
        match event.r#type() {
            Type::TaskScheduled if asks => {
                let again = self.asked.is_some();
                self.asked.get_or_insert(at);
                again.then(|| "asks again".to_owned())
            }
            Type::TaskScheduled => {
                self.works = Some(at);
                None
            }
            Type::TaskFailed if asks => {
                self.killed = Some(at);
                let error = event.task_failed_event_details().and_then(|it| it.error());
                let error = error.unwrap_or_default();
                Some(format!(
                    "asks; the function is KILLED before its response ({error})"
                ))
            }
            Type::TaskSubmitted if asks => {
                self.queued = Some(at);
                Some("waits in the queue".to_owned())
            }
            Type::TaskSucceeded if asks => {
                let output = event.task_succeeded_event_details();
                let output = output.and_then(|it| it.output()).unwrap_or_default();
                let output: Value = serde_json::from_str(output).unwrap_or_default();
                self.holds = Some(at);
                self.token = output["lease"]["fencing_token"].as_u64();
                let token = self.token.unwrap_or(0);
                Some(format!("HAS THE KEY, token {token}, and works"))
            }
            Type::ExecutionAborted if self.holds.is_none() => {
                Some(self.end(at, "ABORTED", "is STOPPED while it waits, and passed over"))
            }
            Type::ExecutionAborted => {
                Some(self.end(at, "ABORTED", "is STOPPED while it works; a grace begins"))
            }
            Type::ExecutionSucceeded => Some(self.end(
                at,
                "SUCCEEDED",
                match self.killed {
                    Some(_) => "has ended; a grace begins for what was killed",
                    None => "has ended, and so has its lease",
                },
            )),
            Type::ExecutionFailed => Some(self.end(at, "FAILED", "has FAILED")),
            Type::ExecutionTimedOut => Some(self.end(at, "TIMED_OUT", "has TIMED OUT")),
            _ => None,
        }
    }

    fn end(&mut self, at: u64, status: &str, tell: &str) -> String {
        self.ended = Some(at);
        if status == "ABORTED" {
            self.stopped = Some(at);
        }
        status.clone_into(&mut self.status);
        tell.to_owned()
    }
}

impl<'a> Record<'a> {
    /// A run that begins now.
    pub(super) fn begin(stack: &'a Stack) -> Self {
        Self {
            stack,
            sfn: stack.sfn(),
            began: now(),
            all: Vec::new(),
            late_write: Arc::default(),
            writes: Vec::new(),
            overlaps: 0,
            left: Value::Null,
        }
    }

    /// Prints a line of the story.
    pub(super) fn tell(&self, name: &str, at: u64, what: &str) {
        show(&format!("{:6.2} s  {name:<12} {what}", self.seconds(at)));
    }

    /// Since the run began.
    #[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
    pub(super) fn seconds(&self, at: u64) -> f64 {
        at.saturating_sub(self.began) as f64 / 1000.0
    }

    /// The process has its lease.
    pub(super) fn process_holds(&mut self, lease: &Value) {
        let at = now();
        let token = lease["fencing_token"].as_u64();
        self.all.push(Seen {
            name: PROCESS.to_owned(),
            holder: PROCESS.to_owned(),
            asked: Some(self.began),
            holds: Some(at),
            token,
            ended: Some(millis(&lease["expires_at"])),
            ..Seen::default()
        });
        let what = format!("HAS THE KEY, token {}, by a ttl", token.unwrap_or(0));
        self.tell(PROCESS, at, &what);
    }

    /// The process has extended its lease.
    pub(super) fn process_extends(&mut self, lease: &Value) {
        self.all[0].ended = Some(millis(&lease["expires_at"]));
    }

    /// Where to write when the process's late write was refused, and how.
    pub(super) fn late_write(&self) -> Arc<OnceLock<(u64, String)>> {
        Arc::clone(&self.late_write)
    }

    /// Starts the execution with this number.
    pub(super) async fn start(
        &mut self,
        number: usize,
        machine: &str,
        input: &Value,
    ) -> Result<(), Error> {
        let name = format!("execution-{number}");
        let start = self.sfn.start_execution().state_machine_arn(machine);
        let started = start.name(&name).input(input.to_string()).send().await?;
        self.all.push(Seen {
            name,
            holder: started.execution_arn,
            ..Seen::default()
        });
        Ok(())
    }

    /// Stops an execution, as a person would.
    pub(super) async fn stop(&mut self, number: usize) -> Result<(), Error> {
        let stop = self
            .sfn
            .stop_execution()
            .execution_arn(&self.all[number].holder);
        stop.cause("the demo stops it").send().await?;
        self.look().await
    }

    /// Waits until this is seen of an execution, and prints whatever is seen meanwhile.
    pub(super) async fn until(
        &mut self,
        number: usize,
        what: &str,
        seen: impl Fn(&Seen) -> bool,
    ) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            self.look().await?;
            if seen(&self.all[number]) {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                let name = format!("{}: {what}", self.all[number].name);
                return Err(Error::call(
                    name,
                    format_args!("not within {PATIENCE:?}; see the logs"),
                ));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Reads what is new, and prints it in the order in which it happened.
    async fn look(&mut self) -> Result<(), Error> {
        let mut news = Vec::new();
        for one in self
            .all
            .iter_mut()
            .skip(1)
            .filter(|one| one.ended.is_none())
        {
            let history = self.sfn.get_execution_history().execution_arn(&one.holder);
            let events = history.into_paginator().items().send();
            let events: Vec<_> = events.collect::<Result<_, _>>().await?;
            for event in &events[one.read.0..] {
                let at = event.timestamp().to_millis().unwrap_or(0);
                let at = u64::try_from(at).unwrap_or(0);
                news.extend(one.see(event).map(|what| (at, one.name.clone(), what)));
            }
            one.read.0 = events.len();
        }
        let process = &mut self.all[0];
        if let Some((at, error)) = self.late_write.get().filter(|_| process.refused.is_none()) {
            process.refused = Some((*at, error.clone()));
            let what = format!("goes on; its late write is REFUSED by the resource: {error}");
            news.push((*at, PROCESS.to_owned(), what));
        }
        news.sort();
        for (at, name, what) in news {
            self.tell(&name, at, &what);
        }
        Ok(())
    }

    /// Reads the resource's own record, and what is left of the queue.
    pub(super) async fn finish(&mut self) -> Result<(), Error> {
        self.look().await?;
        let query = self.stack.dynamodb().query().table_name(RESOURCES);
        let query = query
            .consistent_read(true)
            .key_condition_expression("pk = :key");
        let query = query.expression_attribute_values(":key", AttributeValue::S(KEY.to_owned()));
        let items = query.into_paginator().items().send();
        // In the order of `sk`, which for accepted writes is the order of acceptance.
        for item in items.collect::<Result<Vec<_>, _>>().await? {
            match item.get("op").and_then(|op| op.as_s().ok()) {
                Some(op) => {
                    let (at, token) = (number(&item, "at"), number(&item, "token"));
                    self.writes.push((at, token, op == "enter"));
                }
                None => self.overlaps += number(&item, "overlaps"),
            }
        }
        let (began, inspect) = (Instant::now(), json!({"key": KEY}));
        while began.elapsed() < PATIENCE {
            self.left = self.stack.functions().call("inspect", &inspect).await?;
            if self.left["state"] == "free" && self.left["waiting"] == 0 {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// Milliseconds since the epoch.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// The instant of a lease's field.
fn millis(field: &Value) -> u64 {
    let at = OffsetDateTime::parse(field.as_str().unwrap_or_default(), &Rfc3339);
    let at = at.map_or(0, |at| at.unix_timestamp_nanos() / 1_000_000);
    u64::try_from(at).unwrap_or(0)
}

fn number(item: &HashMap<String, AttributeValue>, name: &str) -> u64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|n| n.parse().ok()).unwrap_or_default()
}
