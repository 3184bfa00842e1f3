//! Starts and stops executions, records every invocation meanwhile, and observes how the executions end.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::{Error, Options, Schedules, Stack};
use tokio::sync::broadcast::error::RecvError;

use super::cast::{KEYS, PlannedExecution, QUEUE_KEY, WRAPPED, wrapped_definition};
use super::record::{Execution, Record, now};
use super::{MARGIN_MS, SWEEP_EVERY};

/// The table of the resource that the leases protect.
const RESOURCES: &str = "ResourceTable";
/// The period at which the record, the engine and the table are polled.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long an expected event may take.
const HEAR_LIMIT: Duration = Duration::from_secs(20);
/// How long the stopped execution's work, which cannot be stopped, may go on after everything else has ended.
const LATE_WORK_LIMIT: Duration = Duration::from_secs(15);

/// The options of the demo's stack: a small margin, so that a takeover comes soon, and a frequent sweep.
pub(super) fn options(out: &Path) -> Options {
    Options {
        parameters: BTreeMap::from([("ClockMarginMs".to_owned(), MARGIN_MS.to_string())]),
        run_directory: Some(out.to_owned()),
        engine: true,
        schedules: Schedules::Every(SWEEP_EVERY),
        ..Options::default()
    }
}

/// The stack, its machines and the record of the run.
pub(super) struct Director<'a> {
    pub(super) stack: &'a Stack,
    sfn: aws_sdk_sfn::Client,
    /// ARNs of the state machines by name.
    machines: BTreeMap<String, String>,
    record: Arc<Mutex<Record>>,
}

impl<'a> Director<'a> {
    /// Deploys the template's machines and the one to be wrapped, and begins to record.
    pub(super) async fn new(stack: &'a Stack) -> Result<Self, Error> {
        let record = Arc::new(Mutex::new(Record::begin()));
        let heard = Arc::clone(&record);
        let mut invocations = stack.functions().invocations();
        tokio::spawn(async move {
            loop {
                let invocation = invocations.recv().await;
                let mut record = heard.lock().unwrap_or_else(PoisonError::into_inner);
                match invocation {
                    Ok(invocation) => record.observe(&invocation),
                    Err(RecvError::Lagged(missed)) => record.missed += missed,
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let mut machines = stack.deploy().await?;
        let sfn = stack.sfn();
        let step = stack.functions().function("step")?.arn();
        let created = sfn
            .create_state_machine()
            .name(WRAPPED)
            .definition(wrapped_definition(&step))
            .role_arn("arn:aws:iam::123456789012:role/demo")
            .send()
            .await?;
        machines.insert(WRAPPED.to_owned(), created.state_machine_arn);
        Ok(Self {
            stack,
            sfn,
            machines,
            record,
        })
    }

    /// The record so far.
    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn machine(&self, name: &str) -> &str {
        self.machines.get(name).map_or("", String::as_str)
    }

    /// Starts an execution, and returns its ARN.
    pub(super) async fn start(&self, role: &PlannedExecution) -> Result<String, Error> {
        let machine = self.machine(role.machine());
        let execution = machine.replacen(":stateMachine:", ":execution:", 1);
        let arn = format!("{execution}:{}", role.name);
        self.record().start(role, &arn);
        let input = role.input(self.machine(WRAPPED)).to_string();
        let start = self.sfn.start_execution().state_machine_arn(machine);
        start.name(&role.name).input(input).send().await?;
        Ok(arn)
    }

    /// Stops an execution.
    pub(super) async fn stop(&self, arn: &str) -> Result<(), Error> {
        let at = now();
        let stop = self.sfn.stop_execution().execution_arn(arn);
        stop.cause("the demo stops it").send().await?;
        self.record().stop(arn, at);
        Ok(())
    }

    /// Polls all running executions, and removes those that have ended.
    pub(super) async fn poll(&self, running: &mut Vec<String>) -> Result<(), Error> {
        let mut left = Vec::new();
        for arn in running.drain(..) {
            let asked = self.sfn.describe_execution().execution_arn(&arn);
            let described = asked.send().await?;
            match described.status().as_str() {
                "RUNNING" => left.push(arn),
                status => self.record().end(&arn, status, described.error()),
            }
        }
        *running = left;
        Ok(())
    }

    /// Waits until the record shows something of an execution.
    pub(super) async fn wait_for(
        &self,
        arn: &str,
        what: &str,
        shows: impl Fn(&Execution) -> bool,
    ) -> Result<(), Error> {
        let hear = async {
            while !self.record().execution(arn).is_some_and(&shows) {
                tokio::time::sleep(LOOK_EVERY / 2).await;
            }
        };
        let heard = tokio::time::timeout(HEAR_LIMIT, hear).await;
        heard.map_err(|_| {
            let why = format_args!("nothing came within {HEAR_LIMIT:?}; see the logs");
            Error::call(format_args!("wait until {what}"), why)
        })
    }

    /// The whole record, once the last late write has come, with the resource's own record.
    pub(super) async fn finish(&self) -> Result<Record, Error> {
        let late = |record: &Record| {
            let stopped = record.with_part(super::cast::Scenario::Stopped);
            stopped.is_none_or(|one| !one.refused_writes.is_empty())
        };
        let began = tokio::time::Instant::now();
        while !late(&self.record()) && began.elapsed() < LATE_WORK_LIMIT {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let mut items = Vec::new();
        for key in KEYS.into_iter().chain([QUEUE_KEY]) {
            items.extend(self.items(RESOURCES, key).await?);
        }
        let mut record = self.record().clone();
        for item in &items {
            // An accepted write has its number as `sk`. The guard row has none.
            if text(item, "sk").parse::<u64>().is_ok() {
                let (key, holder) = (text(item, "pk"), text(item, "holder"));
                let enters = text(item, "op") == "enter";
                record.accepted(
                    key,
                    holder,
                    number(item, "token"),
                    enters,
                    number(item, "at"),
                );
            } else {
                record.overlaps += number(item, "overlaps");
            }
        }
        record.cut();
        Ok(record)
    }

    /// All items of a key in the order of `sk`. For accepted writes that is the order of acceptance.
    pub(super) async fn items(&self, table: &str, key: &str) -> Result<Vec<Item>, Error> {
        let query = self.stack.dynamodb().query().table_name(table);
        let items = query
            .consistent_read(true)
            .key_condition_expression("pk = :key")
            .expression_attribute_values(":key", AttributeValue::S(key.to_owned()))
            .into_paginator()
            .items()
            .send();
        Ok(items.collect::<Result<_, _>>().await?)
    }
}

/// An item of a table.
pub(super) type Item = HashMap<String, AttributeValue>;

fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    let value = item.get(name).and_then(|value| value.as_s().ok());
    value.map_or("", String::as_str)
}

fn number(item: &Item, name: &str) -> u64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|n| n.parse().ok()).unwrap_or_default()
}
