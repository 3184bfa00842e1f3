//! The relevant properties of each type of resource, with every function replaced by its result.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::intrinsics::{text, texts};
use super::pattern::Pattern;
use super::policy::{self, Allowed};
use super::transformer::Transformer;
use super::{
    FunctionResource, Permission, QueueResource, QueueSource, RuleResource, StateMachineResource,
    StreamSource, Target,
};
use crate::arn;

/// A `AWS::Lambda::EventSourceMapping`.
pub(super) enum EventSource {
    Queue(QueueSource),
    Stream(StreamSource),
}

fn typed<T: DeserializeOwned>(properties: Value) -> Result<T, String> {
    serde_json::from_value(properties).map_err(|error| error.to_string())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Function {
    code: Uploaded,
    #[serde(default = "default_timeout")]
    timeout: u64,
    #[serde(default = "default_memory")]
    memory_size: u32,
    #[serde(default)]
    environment: Environment,
    role: Option<String>,
    #[serde(default)]
    logging_config: LoggingConfig,
}

/// Lambda's defaults for a function.
fn default_timeout() -> u64 {
    3
}

fn default_memory() -> u32 {
    128
}

/// The uploaded location of code or a definition. Its key is the path in the repository.
#[derive(Deserialize)]
struct Uploaded {
    #[serde(alias = "S3Key", alias = "Key")]
    key: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Environment {
    variables: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct LoggingConfig {
    log_group: Option<String>,
}

pub(super) fn function(id: &str, properties: Value) -> Result<FunctionResource, String> {
    let function: Function = typed(properties)?;
    Ok(FunctionResource {
        logical_id: id.to_owned(),
        verb: arn::name(&function.code.key).to_owned(),
        environment: texts(&function.environment.variables)?,
        timeout: Duration::from_secs(function.timeout),
        memory_mb: function.memory_size,
        role: function.role.map(|role| arn::name(&role).to_owned()),
        log_group: function.logging_config.log_group,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StateMachine {
    #[serde(rename = "DefinitionS3Location")]
    location: Uploaded,
    role_arn: String,
    #[serde(default)]
    definition_substitutions: Map<String, Value>,
}

pub(super) fn state_machine(
    id: &str,
    name: String,
    properties: Value,
    root: &Path,
) -> Result<StateMachineResource, String> {
    let machine: StateMachine = typed(properties)?;
    Ok(StateMachineResource {
        logical_id: id.to_owned(),
        name,
        role: arn::name(&machine.role_arn).to_owned(),
        file: root.join(machine.location.key),
        substitutions: texts(&machine.definition_substitutions)?,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct EventSourceMapping {
    event_source_arn: String,
    function_name: String,
    starting_position: Option<String>,
    // Here only one batch of a queue is delivered at a time, which satisfies every limit.
    #[serde(rename = "ScalingConfig")]
    _scaling_config: Option<Value>,
    batch_size: Option<usize>,
    #[serde(default)]
    bisect_batch_on_function_error: bool,
    #[serde(default)]
    destination_config: DestinationConfig,
    #[serde(default)]
    filter_criteria: FilterCriteria,
    #[serde(default)]
    function_response_types: Vec<String>,
    maximum_record_age_in_seconds: Option<i64>,
    maximum_retry_attempts: Option<i64>,
    parallelization_factor: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DestinationConfig {
    on_failure: OnFailure,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct OnFailure {
    destination: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct FilterCriteria {
    filters: Vec<Filter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filter {
    pattern: String,
}

pub(super) fn event_source(properties: Value) -> Result<EventSource, String> {
    let mapping: EventSourceMapping = typed(properties)?;
    let function = arn::name(&mapping.function_name).to_owned();
    let partial = mapping
        .function_response_types
        .iter()
        .any(|kind| kind == "ReportBatchItemFailures");
    let source = mapping.event_source_arn;
    if let Some(queue) = queue_in(&source) {
        return Ok(EventSource::Queue(QueueSource {
            function,
            queue,
            batch_size: mapping.batch_size.unwrap_or(10),
            partial,
        }));
    }
    let table = source.split('/').nth(1);
    let table = table.ok_or_else(|| format!("{source} is neither a queue nor a stream"))?;
    if mapping.starting_position.as_deref() != Some("LATEST") {
        return Err("only LATEST is understood locally as StartingPosition".to_owned());
    }
    let filters = mapping.filter_criteria.filters.iter().map(|filter| {
        let pattern = serde_json::from_str(&filter.pattern)
            .map_err(|error| format!("the filter {} is not JSON: {error}", filter.pattern))?;
        Pattern::read(&pattern)
    });
    let dead_letters = mapping.destination_config.on_failure.destination;
    // Minus one means no limit, and is the default.
    let limit = |given: Option<i64>| given.and_then(|given| u32::try_from(given).ok());
    Ok(EventSource::Stream(StreamSource {
        function,
        table: table.to_owned(),
        filters: filters.collect::<Result<_, _>>()?,
        batch_size: mapping.batch_size.unwrap_or(100),
        bisect: mapping.bisect_batch_on_function_error,
        retries: limit(mapping.maximum_retry_attempts),
        record_age: limit(mapping.maximum_record_age_in_seconds)
            .map(|seconds| Duration::from_secs(seconds.into())),
        lanes: mapping.parallelization_factor.unwrap_or(1),
        partial,
        dead_letters: dead_letters.as_deref().map(a_queue).transpose()?,
        stream_arn: source,
    }))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Rule {
    #[serde(rename = "Description")]
    _description: Option<String>,
    event_pattern: Option<Value>,
    schedule_expression: Option<String>,
    #[serde(default)]
    targets: Vec<RuleTarget>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct RuleTarget {
    arn: String,
    #[serde(rename = "Id")]
    _id: String,
    // A failed target is not retried here.
    #[serde(rename = "RetryPolicy")]
    _retry_policy: Option<Value>,
    dead_letter_config: Option<DeadLetterConfig>,
    input_transformer: Option<InputTransformer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct InputTransformer {
    #[serde(default)]
    input_paths_map: BTreeMap<String, String>,
    input_template: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeadLetterConfig {
    arn: String,
}

pub(super) fn rule(id: &str, properties: Value) -> Result<RuleResource, String> {
    let rule: Rule = typed(properties)?;
    let (mut targets, mut dead_letters) = (Vec::new(), Vec::new());
    for target in rule.targets {
        let to = match queue_in(&target.arn) {
            Some(queue) => Target::Queue(queue),
            None => Target::Function(arn::name(&target.arn).to_owned()),
        };
        let input = target
            .input_transformer
            .map(|given| Transformer::read(&given.input_paths_map, &given.input_template));
        targets.push((to, input.transpose()?));
        if let Some(config) = target.dead_letter_config {
            dead_letters.push(a_queue(&config.arn)?);
        }
    }
    Ok(RuleResource {
        arn: arn::rule(id),
        pattern: rule.event_pattern.map(pattern).transpose()?,
        every: match rule.schedule_expression {
            Some(expression) => period(id, &expression)?,
            None => None,
        },
        targets,
        dead_letters,
    })
}

/// A pattern may also be given as a text.
fn pattern(said: Value) -> Result<Pattern, String> {
    match said {
        Value::String(text) => {
            let pattern = serde_json::from_str(&text)
                .map_err(|error| format!("the pattern {text} is not JSON: {error}"))?;
            Pattern::read(&pattern)
        }
        pattern => Pattern::read(&pattern),
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Queue {
    #[serde(default)]
    delay_seconds: u64,
    visibility_timeout: Option<u64>,
    redrive_policy: Option<RedrivePolicy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicy {
    dead_letter_target_arn: String,
    max_receive_count: u32,
}

pub(super) fn queue(id: &str, properties: Value) -> Result<QueueResource, String> {
    let queue: Queue = typed(properties)?;
    let redrive = queue.redrive_policy.map(|policy| {
        let queue = a_queue(&policy.dead_letter_target_arn)?;
        Ok::<_, String>((queue, policy.max_receive_count))
    });
    Ok(QueueResource {
        logical_id: id.to_owned(),
        delay: Duration::from_secs(queue.delay_seconds),
        visibility: Duration::from_secs(queue.visibility_timeout.unwrap_or(30)),
        redrive: redrive.transpose()?,
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

pub(super) fn permission(properties: Value) -> Result<Permission, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase", deny_unknown_fields)]
    struct Properties {
        action: String,
        function_name: String,
        principal: String,
        source_arn: String,
    }
    let permission: Properties = typed(properties)?;
    Ok(Permission {
        principal: permission.principal,
        source: permission.source_arn,
        allowed: Allowed {
            action: permission.action,
            resource: arn::function(arn::name(&permission.function_name)),
            conditions: Vec::new(),
        },
    })
}

pub(super) fn queue_policy(properties: &Value) -> Result<Vec<Permission>, String> {
    let mut all = Vec::new();
    for statement in policy::list(&properties["PolicyDocument"]["Statement"]) {
        let source = text(&statement["Condition"]["ArnEquals"]["aws:SourceArn"])?;
        let mut unconditional = statement.clone();
        unconditional["Condition"] = Value::Null;
        let allowed = policy::allowed(&serde_json::json!({"Statement": unconditional}))?;
        for principal in policy::texts(&statement["Principal"]["Service"])? {
            all.extend(allowed.iter().map(|allowed| Permission {
                principal: principal.clone(),
                source: source.clone(),
                allowed: allowed.clone(),
            }));
        }
    }
    Ok(all)
}
