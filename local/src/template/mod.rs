//! `template.yaml`, read for what this machine runs: the table, the functions, the state machines, and what happens
//! by itself.
//!
//! The template is the only definition of the stack; nothing here knows a function by heart.

mod events;
mod intrinsics;
mod machine;
mod plain;
mod roles;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::iam::Allowed;
pub(crate) use events::{QueueResource, QueueSource, RuleResource, StreamSource, Target};
use intrinsics::Resolver;
pub(crate) use machine::StateMachineResource;
pub(crate) use roles::Invitation;

/// What Lambda gives a function whose template says nothing.
const DEFAULT_TIMEOUT_SECONDS: f64 = 3.0;
const DEFAULT_MEMORY_MB: u64 = 128;

/// The stack as the template describes it, with every reference resolved to a local name or ARN.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) functions: Vec<FunctionResource>,
    pub(crate) state_machines: Vec<StateMachineResource>,
    /// The variables that every function has.
    pub(crate) environment: BTreeMap<String, String>,
    /// The names of the tables. What they look like is the library's business.
    pub(crate) tables: Vec<String>,
    /// Tables that are to be created as they are described here, by name: those of a stack that was created once.
    pub(crate) described: BTreeMap<String, Value>,
    pub(crate) rules: Vec<RuleResource>,
    pub(crate) queues: Vec<QueueResource>,
    /// Functions that follow a table's stream.
    pub(crate) streams: Vec<StreamSource>,
    /// Functions that take what comes into a queue.
    pub(crate) queue_sources: Vec<QueueSource>,
    /// What each role may do, by its name. A state machine that the template gives no role has one of its own.
    pub(crate) roles: BTreeMap<String, Vec<Allowed>>,
    /// Who is let in by the resources themselves.
    pub(crate) invitations: Vec<Invitation>,
}

/// A `AWS::Serverless::Function`.
#[derive(Debug)]
pub(crate) struct FunctionResource {
    pub(crate) logical_id: String,
    /// The last segment of its `CodeUri`, which is also the name of its binary.
    pub(crate) verb: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) timeout: Duration,
    pub(crate) memory_mb: u32,
    /// The period at which a schedule invokes it.
    pub(crate) every: Option<Duration>,
    /// The name of its role.
    pub(crate) role: Option<String>,
    /// The name of the log group that it writes to, if the template has it.
    pub(crate) log_group: Option<String>,
}

impl Template {
    /// Reads a template; `parameters` win over the defaults it names, and `offered` ones too, as far as the
    /// template has them. Resources whose `Condition` does not hold are left out.
    ///
    /// # Errors
    /// [`Error::Template`] naming the resource and what is wrong with it.
    pub(crate) fn read(
        file: &Path,
        parameters: &BTreeMap<String, String>,
        offered: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let wrong = |message: String| Error::Template {
            file: file.to_owned(),
            message,
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let yaml = yaml_serde::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let template = plain::json(yaml);
        let declared = &template["Parameters"];
        let mut given = parameters.clone();
        for (name, value) in offered {
            if declared.get(name).is_some() {
                given.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        let directory = file.parent().unwrap_or(Path::new("."));
        Self::understand(&template, directory, &given).map_err(wrong)
    }

    fn understand(
        template: &Value,
        directory: &Path,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let nothing = Map::new();
        let section = |name: &str| {
            template
                .get(name)
                .and_then(Value::as_object)
                .unwrap_or(&nothing)
        };
        let resources = section("Resources");
        let resolver = resolver(
            template,
            resources,
            parameters(section("Parameters"), given)?,
        )?;
        let tables = resolver.tables.values().cloned().collect();

        let globals = &template["Globals"]["Function"];
        let mut understood = Self {
            functions: Vec::new(),
            state_machines: Vec::new(),
            environment: texts(&resolver, &globals["Environment"]["Variables"])
                .map_err(|message| format!("Globals: {message}"))?,
            tables,
            described: BTreeMap::new(),
            rules: Vec::new(),
            queues: Vec::new(),
            streams: Vec::new(),
            queue_sources: Vec::new(),
            roles: BTreeMap::new(),
            invitations: Vec::new(),
        };
        for (id, resource) in resources {
            let named = |message: String| format!("{id}: {message}");
            if let Some(condition) = resource["Condition"].as_str()
                && !resolver.condition(condition).map_err(named)?
            {
                continue;
            }
            match type_of(resource) {
                "AWS::Serverless::Function" => {
                    let read = function(
                        &resolver,
                        id,
                        globals,
                        &resource["Properties"],
                        &understood.environment,
                    );
                    understood.functions.push(read.map_err(named)?);
                    let events = &resource["Properties"]["Events"];
                    let subscribed = events::of(&resolver, id, events).map_err(named)?;
                    understood.rules.extend(subscribed.rules);
                    understood.streams.extend(subscribed.streams);
                    understood.queue_sources.extend(subscribed.queues);
                }
                "AWS::DynamoDB::Table" if !template["Metadata"]["Created"].is_null() => {
                    let described = resource["Properties"].clone();
                    understood.described.insert(id.clone(), described);
                }
                "AWS::IAM::Role" => {
                    let read = roles::allowed(&resolver, &resource["Properties"]);
                    understood.roles.insert(id.clone(), read.map_err(named)?);
                }
                "AWS::Lambda::Permission" | "AWS::SQS::QueuePolicy" => {
                    let read = roles::invitations(&resolver, resource);
                    understood.invitations.extend(read.map_err(named)?);
                }
                "AWS::Events::Rule" => {
                    let read = events::rule(&resolver, id, &resource["Properties"]);
                    understood.rules.extend(read.map_err(named)?);
                }
                "AWS::SQS::Queue" => {
                    let read = events::queue(&resolver, id, &resource["Properties"]);
                    understood.queues.push(read.map_err(named)?);
                }
                "AWS::Serverless::StateMachine" => {
                    let properties = &resource["Properties"];
                    let read = machine::read(&resolver, id, properties, directory);
                    let machine = read.map_err(named)?;
                    if !properties["Policies"].is_null() {
                        let allowed = roles::allowed(&resolver, properties).map_err(named)?;
                        understood.roles.insert(machine.role.clone(), allowed);
                    }
                    understood.state_machines.push(machine);
                }
                _ => {}
            }
        }
        understood.check_ends()?;
        understood.schedule(&resolver, resources)?;
        Ok(understood)
    }

    /// Rules of the clock's that are resources of their own, as SAM makes them of a function's schedule.
    fn schedule(
        &mut self,
        resolver: &Resolver,
        resources: &Map<String, Value>,
    ) -> Result<(), String> {
        for rule in self.rules.iter().filter(|rule| rule.pattern.is_none()) {
            let id = rule.arn.rsplit('/').next().unwrap_or_default();
            let expression = &resources[id]["Properties"]["ScheduleExpression"];
            let every = schedule::period(resolver, id, expression)?;
            for function in &mut self.functions {
                let target = Target::Function(function.logical_id.clone());
                if rule.targets.contains(&target) {
                    function.every = every;
                }
            }
        }
        Ok(())
    }

    /// What is named as the end of a way has to exist: a message for nobody would be lost without a word.
    fn check_ends(&self) -> Result<(), String> {
        let targets = self.rules.iter().flat_map(|rule| &rule.targets);
        let functions = targets.clone().filter_map(|target| match target {
            Target::Function(id) => Some(id),
            Target::Queue(_) => None,
        });
        let redriven = self
            .queues
            .iter()
            .filter_map(|queue| queue.redrive.as_ref());
        let queues = targets
            .filter_map(|target| match target {
                Target::Queue(id) => Some(id),
                Target::Function(_) => None,
            })
            .chain(redriven.map(|(id, _)| id))
            .chain(self.rules.iter().flat_map(|rule| &rule.dead_letters))
            .chain(self.streams.iter().filter_map(|s| s.dead_letters.as_ref()))
            .chain(self.queue_sources.iter().map(|source| &source.queue));
        for id in functions {
            if !self
                .functions
                .iter()
                .any(|function| function.logical_id == *id)
            {
                return Err(format!("a rule leads to {id}, which is no function"));
            }
        }
        for id in queues {
            if !self.queues.iter().any(|queue| queue.logical_id == *id) {
                return Err(format!("messages go to {id}, which is no queue"));
            }
        }
        Ok(())
    }
}

fn type_of(resource: &Value) -> &str {
    resource["Type"].as_str().unwrap_or("")
}

/// Reads what names in the template stand for.
fn resolver(
    template: &Value,
    resources: &Map<String, Value>,
    parameters: BTreeMap<String, Value>,
) -> Result<Resolver, String> {
    let conditions = template.get("Conditions").and_then(Value::as_object);
    let mut resolver = Resolver {
        parameters,
        conditions: conditions.cloned().unwrap_or_default(),
        mappings: template.get("Mappings").cloned().unwrap_or_default(),
        resources: resources
            .iter()
            .map(|(id, resource)| (id.clone(), type_of(resource).to_owned()))
            .collect(),
        tables: BTreeMap::new(),
        machines: BTreeMap::new(),
        alarms: BTreeMap::new(),
        log_groups: BTreeMap::new(),
    };
    for (id, resource) in resources {
        let name = |property: &str| resolver.text(&resource["Properties"][property]);
        match type_of(resource) {
            "AWS::Serverless::StateMachine" => {
                let name = name("Name")?.map(|name| (id.clone(), name));
                resolver.machines.extend(name);
            }
            "AWS::CloudWatch::Alarm" => {
                let name = name("AlarmName")?.map(|name| (id.clone(), name));
                resolver.alarms.extend(name);
            }
            "AWS::Logs::LogGroup" => {
                let name = name("LogGroupName")?.map(|name| (id.clone(), name));
                resolver.log_groups.extend(name);
            }
            "AWS::DynamoDB::Table" => {
                let name = name("TableName")?.unwrap_or_else(|| id.clone());
                resolver.tables.insert(id.clone(), name);
            }
            _ => {}
        }
    }
    Ok(resolver)
}

fn parameters(
    declared: &Map<String, Value>,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Value>, String> {
    if let Some(unknown) = given.keys().find(|name| !declared.contains_key(*name)) {
        return Err(format!("there is no parameter {unknown}"));
    }
    let values = declared.iter().filter_map(|(name, declaration)| {
        let value = given.get(name).map(|text| Value::String(text.clone()));
        // One without a value is an error only where somebody refers to it.
        value
            .or_else(|| declaration.get("Default").cloned())
            .map(|value| (name.clone(), value))
    });
    Ok(values.collect())
}

fn function(
    resolver: &Resolver,
    id: &str,
    globals: &Value,
    properties: &Value,
    shared: &BTreeMap<String, String>,
) -> Result<FunctionResource, String> {
    let own = |name: &str| {
        properties
            .get(name)
            .or_else(|| globals.get(name))
            .unwrap_or(&Value::Null)
    };
    let code = resolver.text(own("CodeUri"))?.ok_or("has no CodeUri")?;
    let verb = code
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let number = |name: &str| -> Result<Option<f64>, String> {
        let Some(text) = resolver.text(own(name))? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|_| format!("{name} {text:?} is not a number"))
    };
    let seconds = number("Timeout")?.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    let memory = resolver
        .text(own("MemorySize"))?
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_MEMORY_MB);
    let mut environment = shared.clone();
    environment.extend(texts(resolver, &properties["Environment"]["Variables"])?);
    Ok(FunctionResource {
        logical_id: id.to_owned(),
        verb,
        environment,
        timeout: Duration::try_from_secs_f64(seconds)
            .map_err(|error| format!("Timeout {seconds}: {error}"))?,
        memory_mb: u32::try_from(memory)
            .map_err(|error| format!("MemorySize {memory}: {error}"))?,
        every: schedule::of(resolver, &properties["Events"])?,
        // A fixture may name a role that it does not have.
        role: resolver
            .text(own("Role"))
            .ok()
            .flatten()
            .map(|arn| roles::name_of(&arn)),
        log_group: resolver.text(&own("LoggingConfig")["LogGroup"])?,
    })
}

/// A map of names to texts, such as environment variables.
fn texts(resolver: &Resolver, map: &Value) -> Result<BTreeMap<String, String>, String> {
    let mut texts = BTreeMap::new();
    for (name, value) in map.as_object().into_iter().flatten() {
        if let Some(text) = resolver
            .text(value)
            .map_err(|message| format!("{name}: {message}"))?
        {
            texts.insert(name.clone(), text);
        }
    }
    Ok(texts)
}
