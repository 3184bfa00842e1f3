//! The relevant properties of each type of resource, with every function replaced by its result.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::intrinsics::{text, texts};
use super::pattern::Pattern;
use super::policy::{self, Allowed};
use super::transformer::Transformer;
use super::{
    FunctionResource, Permission, QueueResource, QueueSource, RuleResource, StateMachineResource,
    Target, Template,
};
use crate::arn;

/// The text at a JSON pointer.
fn at(properties: &Value, pointer: &str) -> Result<String, String> {
    let found = properties.pointer(pointer).unwrap_or(&Value::Null);
    text(found).map_err(|why| format!("{pointer}: {why}"))
}

/// The name in the ARN or the key at a JSON pointer.
fn name_at(properties: &Value, pointer: &str) -> Result<String, String> {
    Ok(arn::name(&at(properties, pointer)?).to_owned())
}

/// A number, or the service's default if there is none.
fn number(value: &Value, default: u32) -> Result<u32, String> {
    let found = match value {
        Value::Null => return Ok(default),
        given => given.as_u64().and_then(|number| u32::try_from(number).ok()),
    };
    found.ok_or_else(|| format!("{value} is not a number, but a number is needed"))
}

fn seconds(value: &Value, default: u32) -> Result<Duration, String> {
    Ok(Duration::from_secs(number(value, default)?.into()))
}

/// Refuses all other properties, which might change what is delivered.
fn only(properties: &Value, known: &[&str]) -> Result<(), String> {
    let names = properties.as_object().into_iter().flatten();
    let mut names = names.map(|(name, _)| name.as_str());
    match names.find(|name| !known.contains(name)) {
        Some(name) => Err(format!("unknown field `{name}`")),
        None => Ok(()),
    }
}

/// The most bytes in the names and values of a function's environment variables.
const ENVIRONMENT_LIMIT: usize = 4096;

pub(super) fn function(id: &str, properties: &Value) -> Result<FunctionResource, String> {
    let role = properties["Role"].as_str();
    let log_group = properties["LoggingConfig"]["LogGroup"].as_str();
    let environment = texts(&properties["Environment"]["Variables"])?;
    let variables = environment.iter();
    let size: usize = variables
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if size > ENVIRONMENT_LIMIT {
        return Err(format!(
            "its environment variables have {size} bytes, and Lambda takes {ENVIRONMENT_LIMIT}"
        ));
    }
    Ok(FunctionResource {
        logical_id: id.to_owned(),
        verb: name_at(properties, "/Code/S3Key")?,
        environment,
        timeout: seconds(&properties["Timeout"], 3)?,
        here: None,
        memory_mb: number(&properties["MemorySize"], 128)?,
        role: role.map(|role| arn::name(role).to_owned()),
        log_group: log_group.map(str::to_owned),
    })
}

pub(super) fn state_machine(
    id: &str,
    name: String,
    properties: &Value,
    root: &Path,
) -> Result<StateMachineResource, String> {
    let location = &properties["DefinitionS3Location"];
    Ok(StateMachineResource {
        logical_id: id.to_owned(),
        name,
        role: name_at(properties, "/RoleArn")?,
        file: root.join(at(location, "/Key")?),
        substitutions: texts(&properties["DefinitionSubstitutions"])?,
    })
}

/// Adds a `AWS::Lambda::EventSourceMapping`.
pub(super) fn event_source(
    template: &mut Template,
    id: String,
    properties: &Value,
) -> Result<(), String> {
    let known = [
        "BatchSize",
        "EventSourceArn",
        "FunctionName",
        "FunctionResponseTypes",
        // Here only one batch of a queue is delivered at a time, which satisfies every limit.
        "ScalingConfig",
    ];
    only(properties, &known)?;
    let function = name_at(properties, "/FunctionName")?;
    let responses = policy::texts(&properties["FunctionResponseTypes"])?;
    let partial = responses.contains(&"ReportBatchItemFailures".to_owned());
    let source = at(properties, "/EventSourceArn")?;
    let queue = queue_in(&source).ok_or_else(|| format!("{source} is no queue"))?;
    template.queue_sources.push(QueueSource {
        id,
        function,
        queue,
        batch_size: number(&properties["BatchSize"], 10)? as usize,
        partial,
    });
    Ok(())
}

pub(super) fn rule(id: &str, properties: &Value) -> Result<RuleResource, String> {
    let known = [
        "Description",
        "EventPattern",
        "ScheduleExpression",
        "Targets",
    ];
    only(properties, &known)?;
    let (mut targets, mut dead_letters) = (Vec::new(), Vec::new());
    for target in policy::list(&properties["Targets"]) {
        // A failed target is not retried here.
        let known = [
            "Arn",
            "DeadLetterConfig",
            "Id",
            "InputTransformer",
            "RetryPolicy",
        ];
        only(target, &known)?;
        let address = at(target, "/Arn")?;
        let to = match queue_in(&address) {
            Some(queue) => Target::Queue(queue),
            None => Target::Function(arn::name(&address).to_owned()),
        };
        let input = &target["InputTransformer"];
        let transformer = if input.is_null() {
            None
        } else {
            only(input, &["InputPathsMap", "InputTemplate"])?;
            let paths = texts(&input["InputPathsMap"])?;
            Some(Transformer::read(&paths, &at(input, "/InputTemplate")?)?)
        };
        targets.push((to, transformer));
        if let Some(queue) = target["DeadLetterConfig"]["Arn"].as_str() {
            dead_letters.push(a_queue(queue)?);
        }
    }
    Ok(RuleResource {
        arn: arn::rule(id),
        pattern: match &properties["EventPattern"] {
            Value::Null => None,
            said => Some(pattern(said)?),
        },
        every: match properties["ScheduleExpression"].as_str() {
            Some(expression) => period(id, expression)?,
            None => None,
        },
        targets,
        dead_letters,
    })
}

/// The longest pattern, in characters.
const PATTERN_LIMIT: usize = 2048;

/// A pattern may also be given as a text.
fn pattern(said: &Value) -> Result<Pattern, String> {
    let length = said.as_str().map_or_else(
        || said.to_string().chars().count(),
        |text| text.chars().count(),
    );
    if length > PATTERN_LIMIT {
        return Err(format!(
            "the pattern has {length} characters, of {PATTERN_LIMIT} that a rule may have"
        ));
    }
    match said {
        Value::String(text) => {
            let pattern = serde_json::from_str(text)
                .map_err(|error| format!("the pattern {text} is not JSON: {error}"))?;
            Pattern::read(&pattern)
        }
        pattern => Pattern::read(pattern),
    }
}

/// The period of a schedule. A cron expression is logged and not run.
fn period(rule: &str, expression: &str) -> Result<Option<Duration>, String> {
    if expression.starts_with("cron(") {
        tracing::warn!(rule, expression, "cron expressions are not run locally");
        return Ok(None);
    }
    let period = rate(expression).ok_or_else(|| format!("{expression:?} is not rate(…)"));
    period.map(Some)
}

/// `rate(5 minutes)`.
pub(super) fn rate(expression: &str) -> Option<Duration> {
    let (count, unit) = expression
        .strip_prefix("rate(")?
        .strip_suffix(')')?
        .split_once(' ')?;
    let seconds = match unit.trim_end_matches('s') {
        "minute" => 60,
        "hour" => 60 * 60,
        "day" => 24 * 60 * 60,
        _ => return None,
    };
    let count: u64 = count.parse().ok().filter(|count| *count > 0)?;
    Some(Duration::from_secs(count.checked_mul(seconds)?))
}

pub(super) fn queue(id: &str, properties: &Value) -> Result<QueueResource, String> {
    let redrive = &properties["RedrivePolicy"];
    Ok(QueueResource {
        logical_id: id.to_owned(),
        delay: seconds(&properties["DelaySeconds"], 0)?,
        visibility: seconds(&properties["VisibilityTimeout"], 30)?,
        redrive: match redrive["deadLetterTargetArn"].as_str() {
            Some(queue) => Some((a_queue(queue)?, number(&redrive["maxReceiveCount"], 10)?)),
            None => None,
        },
    })
}

/// The logical id in a local ARN of a queue.
fn queue_in(text: &str) -> Option<String> {
    let id = arn::name(text);
    (text == arn::queue(id)).then(|| id.to_owned())
}

fn a_queue(arn: &str) -> Result<String, String> {
    queue_in(arn).ok_or_else(|| format!("{arn} is not a queue"))
}

/// The permissions in a role's own policies.
pub(super) fn allowed(role: &Value) -> Result<Vec<Allowed>, String> {
    let policies = policy::list(&role["Policies"]).into_iter();
    let documents = policies.map(|policy| policy::allowed(&policy["PolicyDocument"]));
    Ok(documents.collect::<Result<Vec<_>, _>>()?.concat())
}

pub(super) fn permission(properties: &Value) -> Result<Permission, String> {
    let known = ["Action", "FunctionName", "Principal", "SourceArn"];
    only(properties, &known)?;
    Ok(Permission {
        principal: at(properties, "/Principal")?,
        source: at(properties, "/SourceArn")?,
        allowed: Allowed {
            action: at(properties, "/Action")?,
            resource: arn::function(&name_at(properties, "/FunctionName")?),
            conditions: Vec::new(),
        },
    })
}

/// The queue of a policy, and what the policy allows. As in the service, a statement has one resource, which is the queue.
pub(super) fn queue_policy(properties: &Value) -> Result<(String, Vec<Permission>), String> {
    let [queue] = &policy::texts(&properties["Queues"])?[..] else {
        return Err("a policy of several queues: each needs its own".to_owned());
    };
    let mut all = Vec::new();
    for statement in policy::list(&properties["PolicyDocument"]["Statement"]) {
        if policy::texts(&statement["Resource"])? != [arn::queue(queue)] {
            return Err(format!(
                "a statement of the policy of {queue} has another resource, or several"
            ));
        }
        let sources = policy::texts(&statement["Condition"]["ArnEquals"]["aws:SourceArn"])?;
        let mut unconditional = statement.clone();
        unconditional["Condition"] = Value::Null;
        let allowed = policy::allowed(&serde_json::json!({"Statement": unconditional}))?;
        for principal in policy::texts(&statement["Principal"]["Service"])? {
            for source in &sources {
                all.extend(allowed.iter().map(|allowed| Permission {
                    principal: principal.clone(),
                    source: source.clone(),
                    allowed: allowed.clone(),
                }));
            }
        }
    }
    if all.is_empty() {
        return Err(format!("the policy of {queue} allows nothing to a rule"));
    }
    Ok((queue.clone(), all))
}
