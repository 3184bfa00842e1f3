//! What happens by itself: rules, queues, and what functions are subscribed to.
//!
//! A property that would change what is delivered, and that is not understood here, is an error.

use std::time::Duration;

use serde_json::Value;

use super::intrinsics::Resolver;
use crate::events::Pattern;
use crate::lambda::{ACCOUNT, REGION};

/// A rule of the event bus.
#[derive(Clone, Debug)]
pub(crate) struct RuleResource {
    /// Empty for a rule that stands with its function, whose permission is SAM's to write.
    pub(crate) arn: String,
    /// None for one of the clock's, which leads to functions only.
    pub(crate) pattern: Option<Pattern>,
    pub(crate) targets: Vec<Target>,
    /// Queues for what reached no target.
    pub(crate) dead_letters: Vec<String>,
}

/// Where a rule leads, by logical id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Function(String),
    Queue(String),
}

/// A `AWS::SQS::Queue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueResource {
    pub(crate) logical_id: String,
    /// How long a message is kept back after it was sent.
    pub(crate) delay: Duration,
    /// How long it is kept back after it was received and not dealt with.
    pub(crate) visibility: Duration,
    /// The queue that takes what was received more often than this.
    pub(crate) redrive: Option<(String, u32)>,
}

/// A function that follows a table's stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamSource {
    /// Logical id.
    pub(crate) function: String,
    pub(crate) table: String,
    pub(crate) stream_arn: String,
    pub(crate) filters: Vec<Pattern>,
    pub(crate) batch_size: usize,
    /// Whether a batch that failed is halved.
    pub(crate) bisect: bool,
    /// `None`: for ever.
    pub(crate) retries: Option<u32>,
    pub(crate) record_age: Option<Duration>,
    pub(crate) lanes: usize,
    /// Whether the answer may name the records that failed.
    pub(crate) partial: bool,
    /// The queue for what was given up.
    pub(crate) dead_letters: Option<String>,
}

impl StreamSource {
    pub(crate) fn function_arn(&self) -> String {
        format!(
            "arn:aws:lambda:{REGION}:{ACCOUNT}:function:{}",
            self.function
        )
    }

    /// Whether a record passes the filters; without any, all do.
    pub(crate) fn wants(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(record))
    }

    /// The embedded database has one shard per table.
    pub(crate) fn shard_id(&self) -> String {
        dynoxide::streams::shard_id(&self.table)
    }
}

/// A function that takes what comes into a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueSource {
    /// Logical id.
    pub(crate) function: String,
    /// Logical id.
    pub(crate) queue: String,
    pub(crate) batch_size: usize,
    /// Whether the answer may name the messages that failed.
    pub(crate) partial: bool,
}

/// What the events of one function ask for, besides schedules.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    pub(super) rules: Vec<RuleResource>,
    pub(super) streams: Vec<StreamSource>,
    pub(super) queues: Vec<QueueSource>,
}

/// Reads the events of a function.
pub(super) fn of(
    resolver: &Resolver,
    function: &str,
    events: &Value,
) -> Result<Subscriptions, String> {
    let mut found = Subscriptions::default();
    for (name, event) in events.as_object().into_iter().flatten() {
        let named = |message: String| format!("{name}: {message}");
        let properties = Properties {
            resolver,
            values: &event["Properties"],
        };
        let kind = event["Type"].as_str().unwrap_or_default();
        match kind {
            "Schedule" | "ScheduleV2" => {}
            "EventBridgeRule" | "CloudWatchEvent" => {
                properties
                    .know(&["Pattern", "RetryPolicy", "DeadLetterConfig"])
                    .map_err(named)?;
                found.rules.push(RuleResource {
                    arn: String::new(),
                    pattern: Some(properties.pattern("Pattern").map_err(named)?),
                    targets: vec![Target::Function(function.to_owned())],
                    dead_letters: Vec::new(),
                });
            }
            "DynamoDB" => found
                .streams
                .push(stream(&properties, function).map_err(named)?),
            "SQS" => found
                .queues
                .push(queue_source(&properties, function).map_err(named)?),
            other => {
                return Err(named(format!(
                    "events of type {other} are not delivered locally"
                )));
            }
        }
    }
    Ok(found)
}

fn stream(properties: &Properties, function: &str) -> Result<StreamSource, String> {
    properties.know(&[
        "Stream",
        "StartingPosition",
        "BatchSize",
        "BisectBatchOnFunctionError",
        "DestinationConfig",
        "FilterCriteria",
        "FunctionResponseTypes",
        "MaximumBatchingWindowInSeconds",
        "MaximumRecordAgeInSeconds",
        "MaximumRetryAttempts",
        "ParallelizationFactor",
    ])?;
    let stream_arn = properties.text("Stream")?.ok_or("has no Stream")?;
    let table = stream_arn.split('/').nth(1);
    let table = table
        .ok_or_else(|| format!("{stream_arn} is not a stream"))?
        .to_owned();
    if properties.text("StartingPosition")?.as_deref() != Some("LATEST") {
        return Err("only LATEST is understood locally as StartingPosition".to_owned());
    }
    // Minus one stands for no limit, and is what nothing said means.
    let limit = |name: &str| -> Result<Option<u32>, String> {
        Ok(properties
            .number::<i64>(name)?
            .and_then(|n| u32::try_from(n).ok()))
    };
    let destination = properties.own("DestinationConfig")?;
    let dead_letters = match destination.pointer("/OnFailure/Destination") {
        Some(Value::String(arn)) => Some(queue_of(arn)?),
        _ => None,
    };
    Ok(StreamSource {
        function: function.to_owned(),
        table,
        stream_arn,
        filters: properties.filters()?,
        batch_size: properties.number("BatchSize")?.unwrap_or(100),
        bisect: properties.flag("BisectBatchOnFunctionError")?,
        retries: limit("MaximumRetryAttempts")?,
        record_age: limit("MaximumRecordAgeInSeconds")?.map(|s| Duration::from_secs(s.into())),
        lanes: properties.number("ParallelizationFactor")?.unwrap_or(1),
        partial: properties.partial()?,
        dead_letters,
    })
}

fn queue_source(properties: &Properties, function: &str) -> Result<QueueSource, String> {
    properties.know(&[
        "Queue",
        "BatchSize",
        "FunctionResponseTypes",
        "MaximumBatchingWindowInSeconds",
        "ScalingConfig",
    ])?;
    let queue = properties.text("Queue")?.ok_or("has no Queue")?;
    Ok(QueueSource {
        function: function.to_owned(),
        queue: queue_of(&queue)?,
        batch_size: properties.number("BatchSize")?.unwrap_or(10),
        partial: properties.partial()?,
    })
}

/// Reads a `AWS::Events::Rule`; `None` when it is switched off.
pub(super) fn rule(
    resolver: &Resolver,
    id: &str,
    values: &Value,
) -> Result<Option<RuleResource>, String> {
    let properties = Properties { resolver, values };
    if properties.text("State")?.as_deref() == Some("DISABLED") {
        return Ok(None);
    }
    let (mut targets, mut dead_letters) = (Vec::new(), Vec::new());
    for target in values["Targets"].as_array().into_iter().flatten() {
        let target = Properties {
            resolver,
            values: target,
        };
        target.know(&["Id", "Arn", "RetryPolicy", "DeadLetterConfig"])?;
        let arn = target.text("Arn")?.ok_or("has a target without Arn")?;
        targets.push(match arn.split(':').collect::<Vec<_>>().as_slice() {
            [_, _, "lambda", _, _, "function", id] => Target::Function((*id).to_owned()),
            _ => Target::Queue(queue_of(&arn)?),
        });
        if let Some(arn) = target.own("DeadLetterConfig")?["Arn"].as_str() {
            dead_letters.push(queue_of(arn)?);
        }
    }
    let pattern = match &values["EventPattern"] {
        Value::Null => None,
        _ => Some(properties.pattern("EventPattern")?),
    };
    Ok(Some(RuleResource {
        arn: format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/{id}"),
        pattern,
        targets,
        dead_letters,
    }))
}

/// Reads a `AWS::SQS::Queue`.
pub(super) fn queue(
    resolver: &Resolver,
    id: &str,
    values: &Value,
) -> Result<QueueResource, String> {
    let properties = Properties { resolver, values };
    let seconds = |name: &str, default: u64| {
        let given = properties.number(name);
        given.map(|given| Duration::from_secs(given.unwrap_or(default)))
    };
    let redrive = properties.own("RedrivePolicy")?;
    let redrive = match (&redrive["deadLetterTargetArn"], &redrive["maxReceiveCount"]) {
        (Value::Null, Value::Null) => None,
        (Value::String(arn), count) => {
            let count = count.as_u64().and_then(|count| u32::try_from(count).ok());
            Some((
                queue_of(arn)?,
                count.ok_or("RedrivePolicy has no maxReceiveCount")?,
            ))
        }
        _ => return Err("RedrivePolicy has no deadLetterTargetArn".to_owned()),
    };
    Ok(QueueResource {
        logical_id: id.to_owned(),
        delay: seconds("DelaySeconds", 0)?,
        visibility: seconds("VisibilityTimeout", 30)?,
        redrive,
    })
}

/// The logical id in a local ARN of a queue.
fn queue_of(arn: &str) -> Result<String, String> {
    match arn.split(':').collect::<Vec<_>>().as_slice() {
        [_, _, "sqs", _, _, id] => Ok((*id).to_owned()),
        _ => Err(format!("{arn} is not a queue")),
    }
}

/// The properties of one resource or event.
struct Properties<'a> {
    resolver: &'a Resolver,
    values: &'a Value,
}

impl Properties<'_> {
    /// Refuses everything else.
    fn know(&self, names: &[&str]) -> Result<(), String> {
        let mut given = self.values.as_object().into_iter().flatten();
        match given.find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) => Err(format!("{name} is not understood locally")),
            None => Ok(()),
        }
    }

    fn own(&self, name: &str) -> Result<Value, String> {
        Ok(self
            .resolver
            .resolve(&self.values[name])?
            .unwrap_or_default())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        self.resolver.text(&self.values[name])
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let text = self.text(name)?;
        let read = text.map(|text| {
            text.parse()
                .map_err(|_| format!("{name} {text:?} is not such a number"))
        });
        read.transpose()
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        Ok(self.text(name)?.as_deref() == Some("true"))
    }

    fn pattern(&self, name: &str) -> Result<Pattern, String> {
        Pattern::read(&self.own(name)?)
    }

    fn partial(&self) -> Result<bool, String> {
        let types = self.own("FunctionResponseTypes")?;
        let mut types = types.as_array().into_iter().flatten();
        Ok(types.any(|kind| kind == "ReportBatchItemFailures"))
    }

    /// Filters are patterns in JSON text.
    fn filters(&self) -> Result<Vec<Pattern>, String> {
        let criteria = self.own("FilterCriteria")?;
        let filters = criteria["Filters"].as_array().into_iter().flatten();
        let read = filters.map(|filter| {
            let text = filter["Pattern"]
                .as_str()
                .ok_or("a filter has no Pattern")?;
            let pattern = serde_json::from_str(text)
                .map_err(|error| format!("the filter {text} is not JSON: {error}"))?;
            Pattern::read(&pattern)
        });
        read.collect()
    }
}
