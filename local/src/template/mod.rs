//! A stack's template, read for what this machine runs: plain `CloudFormation`, as SAM translates template.yaml to it.
//!
//! First every function in it is replaced by its result, in all resources and outputs, so that a reference to nothing is an
//! error wherever it is. What is left is plain JSON, and is read by type. A property that would change what is delivered, and
//! that is not understood here, is an error.

mod intrinsics;
mod properties;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::arn;
use crate::error::Error;
use crate::events::Pattern;
use crate::iam::Allowed;
use intrinsics::Resolver;
pub(crate) use intrinsics::STACK;
use properties::EventSource;

/// The stack as its template describes it, with every reference resolved to a local name or ARN.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) functions: Vec<FunctionResource>,
    pub(crate) state_machines: Vec<StateMachineResource>,
    /// The tables' properties, by name.
    pub(crate) tables: BTreeMap<String, Value>,
    pub(crate) rules: Vec<RuleResource>,
    pub(crate) queues: Vec<QueueResource>,
    /// Functions that follow a table's stream.
    pub(crate) streams: Vec<StreamSource>,
    /// Functions that take what comes into a queue.
    pub(crate) queue_sources: Vec<QueueSource>,
    /// What each role may do, by its name.
    pub(crate) roles: BTreeMap<String, Vec<Allowed>>,
    /// What functions and queues allow others by their own policies.
    pub(crate) permissions: Vec<Permission>,
    /// The variables that every function has, with the same value.
    pub(crate) environment: BTreeMap<String, String>,
    /// How many resources there are of each type.
    pub(crate) kinds: BTreeMap<String, usize>,
}

/// A `AWS::Lambda::Function`.
#[derive(Clone, Debug)]
pub(crate) struct FunctionResource {
    /// Its name, too.
    pub(crate) logical_id: String,
    /// The last segment of its code's key, which is also the name of its binary.
    pub(crate) verb: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) timeout: Duration,
    pub(crate) memory_mb: u32,
    /// The name of its role.
    pub(crate) role: Option<String>,
    /// The name of the log group that it writes to, if the template has it.
    pub(crate) log_group: Option<String>,
}

/// A `AWS::StepFunctions::StateMachine`.
#[derive(Debug)]
pub(crate) struct StateMachineResource {
    pub(crate) logical_id: String,
    pub(crate) name: String,
    /// The name of its role.
    pub(crate) role: String,
    file: PathBuf,
    substitutions: BTreeMap<String, String>,
}

/// A `AWS::Events::Rule`.
#[derive(Clone, Debug)]
pub(crate) struct RuleResource {
    pub(crate) arn: String,
    /// None for a rule of the clock's.
    pub(crate) pattern: Option<Pattern>,
    /// The period of a rule of the clock's.
    pub(crate) every: Option<Duration>,
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
    /// `None`: without limit.
    pub(crate) retries: Option<u32>,
    pub(crate) record_age: Option<Duration>,
    /// How many batches of one shard are under way at once.
    pub(crate) lanes: usize,
    /// Whether the answer may name the records that failed.
    pub(crate) partial: bool,
    /// The queue for what was given up.
    pub(crate) dead_letters: Option<String>,
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

/// What a resource's own policy lets a service do in the name of another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    pub(crate) principal: String,
    /// The ARN of the resource that it acts for.
    pub(crate) source: String,
    pub(crate) allowed: Allowed,
}

impl Template {
    /// Reads the template of the stack of this name; `parameters` win over the defaults it names, and `offered` ones too, as
    /// far as the template has them. Resources whose `Condition` does not hold are left out. `root` is where its code and definitions are.
    ///
    /// # Errors
    /// [`Error::Template`] naming the resource and what is wrong with it.
    pub(crate) fn read(
        file: &Path,
        root: &Path,
        stack: &str,
        parameters: &BTreeMap<String, String>,
        offered: &BTreeMap<String, String>,
    ) -> Result<Self, Error> {
        let wrong = |message: String| Error::Template {
            file: file.to_owned(),
            message,
        };
        let json = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let template: Value = serde_json::from_str(&json).map_err(|error| {
            wrong(format!(
                "is no translated template (tools/translate.py makes one): {error}"
            ))
        })?;
        let mut given = parameters.clone();
        for (name, value) in offered {
            if template["Parameters"].get(name).is_some() {
                given.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Self::of(&template, root, stack, &given).map_err(wrong)
    }

    fn of(
        template: &Value,
        root: &Path,
        stack: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let resolver = Resolver::new(template, stack, given)?;
        let mut read = Self::default();
        for section in ["Resources", "Outputs"] {
            for (id, described) in template[section].as_object().into_iter().flatten() {
                let named = |why: String| format!("{id}: {why}");
                if let Some(condition) = described["Condition"].as_str()
                    && !resolver.condition(condition).map_err(named)?
                {
                    continue;
                }
                let part = if section == "Outputs" {
                    "Value"
                } else {
                    "Properties"
                };
                let plain = resolver.resolve(&described[part]).map_err(named)?;
                if let Some(kind) = described["Type"].as_str() {
                    let name = resolver.name(id).map_err(named)?;
                    let properties = plain.filter(|plain| !plain.is_null());
                    let properties = properties.unwrap_or_else(|| Value::Object(Map::new()));
                    read.resource(kind, id, &name, properties, root)
                        .map_err(named)?;
                }
            }
        }
        read.check_ends()?;
        if let Some((first, others)) = read.functions.split_first() {
            let mut shared = first.environment.clone();
            shared.retain(|name, value| {
                let mut others = others.iter();
                others.all(|other| other.environment.get(name) == Some(value))
            });
            read.environment = shared;
        }
        Ok(read)
    }

    fn resource(
        &mut self,
        kind: &str,
        id: &str,
        name: &str,
        properties: Value,
        root: &Path,
    ) -> Result<(), String> {
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        match kind {
            "AWS::DynamoDB::Table" => {
                self.tables.insert(name.to_owned(), properties);
            }
            "AWS::Events::Rule" => self.rules.push(properties::rule(name, properties)?),
            "AWS::IAM::Role" => {
                self.roles
                    .insert(name.to_owned(), properties::allowed(&properties)?);
            }
            "AWS::Lambda::EventSourceMapping" => match properties::event_source(properties)? {
                EventSource::Queue(source) => self.queue_sources.push(source),
                EventSource::Stream(source) => self.streams.push(source),
            },
            "AWS::Lambda::Function" => self.functions.push(properties::function(name, properties)?),
            "AWS::Lambda::Permission" => self.permissions.push(properties::permission(properties)?),
            "AWS::SQS::Queue" => self.queues.push(properties::queue(name, properties)?),
            "AWS::SQS::QueuePolicy" => self
                .permissions
                .extend(properties::queue_policy(&properties)?),
            "AWS::StepFunctions::StateMachine" => {
                self.state_machines.push(properties::state_machine(
                    id,
                    name.to_owned(),
                    properties,
                    root,
                )?);
            }
            _ => {}
        }
        Ok(())
    }

    /// What is named as the end of a way has to exist: a message for nobody would be lost without a word.
    fn check_ends(&self) -> Result<(), String> {
        let mut queues: Vec<&String> = Vec::new();
        for rule in &self.rules {
            queues.extend(&rule.dead_letters);
            for target in &rule.targets {
                match target {
                    Target::Queue(id) => queues.push(id),
                    Target::Function(id) if self.functions.iter().any(|f| f.logical_id == *id) => {}
                    Target::Function(id) => {
                        return Err(format!("a rule leads to {id}, which is no function"));
                    }
                }
            }
        }
        queues.extend(
            self.queues
                .iter()
                .filter_map(|q| Some(&q.redrive.as_ref()?.0)),
        );
        queues.extend(self.streams.iter().filter_map(|s| s.dead_letters.as_ref()));
        queues.extend(self.queue_sources.iter().map(|source| &source.queue));
        for id in queues {
            if !self.queues.iter().any(|queue| queue.logical_id == *id) {
                return Err(format!("messages go to {id}, which is no queue"));
            }
        }
        Ok(())
    }
}

impl StreamSource {
    /// Whether a record passes the filters; without any, all do.
    pub(crate) fn wants(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(record))
    }

    /// The embedded database has one shard per table.
    pub(crate) fn shard_id(&self) -> String {
        dynoxide::streams::shard_id(&self.table)
    }
}

impl StateMachineResource {
    pub(crate) fn arn(&self) -> String {
        arn::state_machine(&self.name)
    }

    /// The definition with its substitutions made. Read only when it is wanted: who tests functions does not depend on
    /// state machines.
    ///
    /// # Errors
    /// [`Error::Template`] when the file cannot be read or wants a substitution that the template does not have.
    pub(crate) fn definition(&self) -> Result<String, Error> {
        let wrong = |message: String| Error::Template {
            file: self.file.clone(),
            message,
        };
        let mut definition =
            std::fs::read_to_string(&self.file).map_err(|error| wrong(error.to_string()))?;
        for (name, value) in &self.substitutions {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        // A forgotten substitution would reach the service as a strange ARN and fail much later.
        if let Some((_, rest)) = definition.split_once("${") {
            let name = rest.split('}').next().unwrap_or(rest);
            let id = &self.logical_id;
            return Err(wrong(format!(
                "wants ${{{name}}}, which DefinitionSubstitutions of {id} does not have"
            )));
        }
        Ok(definition)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::iam::Roles;

    fn read(template: &Value, parameters: &[(&str, &str)]) -> Result<Template, String> {
        let given = parameters
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Template::of(template, Path::new("root"), STACK, &given.collect())
    }

    fn own() -> Value {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("template.json");
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    fn function_with(variables: &Value) -> Value {
        json!({
            "Parameters": {"Margin": {"Type": "Number", "Default": 2000}, "Step": {"Type": "String", "Default": ""}},
            "Conditions": {"HasStep": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Step"}, ""]}]}},
            "Resources": {
                "Rows": {"Type": "AWS::DynamoDB::Table"},
                "Take": {"Type": "AWS::Lambda::Function", "Properties": {
                    "Code": {"S3Key": "functions/take"}, "Environment": {"Variables": variables},
                }},
                "Maybe": {"Type": "AWS::SQS::Queue", "Condition": "HasStep"},
            },
        })
    }

    #[test]
    fn functions_of_the_template_language_stand_for_local_names() {
        let no_value = json!({"Ref": "AWS::NoValue"});
        let template = function_with(&json!({
            "INDEX": {"Fn::Sub": "${Rows.Arn}/index/${AWS::Region} ${!Kept}"},
            "LONG": {"Fn::GetAtt": ["Take", "Arn"]},
            "MARGIN": {"Ref": "Margin"},
            "STEP": {"Fn::If": ["HasStep", {"Ref": "Step"}, no_value]},
            "TABLE": {"Ref": "Rows"},
        }));
        let variables = |parameters: &[(&str, &str)]| {
            let template = read(&template, parameters).unwrap();
            let queues = template.queues.len();
            (json!(template.functions[0].environment), queues)
        };
        let mut expected = json!({
            "INDEX": "arn:aws:dynamodb:us-east-1:123456789012:table/Rows/index/us-east-1 ${Kept}",
            "LONG": "arn:aws:lambda:us-east-1:123456789012:function:Take",
            "MARGIN": "2000",
            "TABLE": "Rows",
        });
        assert_eq!(variables(&[]), (expected.clone(), 0));
        expected["MARGIN"] = json!("5");
        expected["STEP"] = json!("arn:step");
        let given = [("Margin", "5"), ("Step", "arn:step")];
        assert_eq!(variables(&given), (expected, 1));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_resource() {
        let variable = |value: Value| function_with(&json!({"A": value}));
        let resource = |properties: Value| {
            let mut template = function_with(&json!({}));
            template["Resources"]["R"] = properties;
            template
        };
        let mapping = |key: &str, value: Value| {
            let mut properties =
                json!({"EventSourceArn": arn::queue("Q"), "FunctionName": {"Ref": "Take"}});
            properties[key] = value;
            resource(json!({"Type": "AWS::Lambda::EventSourceMapping", "Properties": properties}))
        };
        let rule = |pattern: Value, target: String| {
            let targets = json!([{"Id": "t", "Arn": target}]);
            let properties = json!({"EventPattern": pattern, "Targets": targets});
            resource(json!({"Type": "AWS::Events::Rule", "Properties": properties}))
        };
        let pattern = json!({"a": ["b"]});
        for (template, said) in [
            (
                variable(json!({"Ref": "X"})),
                "Take: Ref X: no such parameter or resource",
            ),
            (
                variable(json!({"Fn::GetAtt": ["X", "Arn"]})),
                "Take: GetAtt X.Arn: no such resource",
            ),
            (
                variable(json!({"Fn::GetAtt": ["Rows", "X"]})),
                "no such attribute",
            ),
            (
                variable(json!({"Fn::Select": [0, []]})),
                "Fn::Select [0,[]] is not understood",
            ),
            (
                variable(json!(["list"])),
                "Take: A: [\"list\"] stands where a text is needed",
            ),
            (
                resource(json!({"Type": "AWS::Lambda::Function"})),
                "R: missing field `Code`",
            ),
            (
                mapping("FilterCriteria2", json!({})),
                "unknown field `FilterCriteria2`",
            ),
            (
                mapping("BatchSize", json!(1)),
                "messages go to Q, which is no queue",
            ),
            (
                rule(json!({"a": [{"cidr": "::"}]}), arn::function("Take")),
                "R: .a: ",
            ),
            (
                rule(pattern.clone(), arn::function("X")),
                "a rule leads to X, which is no function",
            ),
            (
                rule(pattern, arn::queue("X")),
                "messages go to X, which is no queue",
            ),
        ] {
            let refused = read(&template, &[]).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
        let unknown = read(&own(), &[("Nobody", "1")]).unwrap_err();
        assert_eq!(unknown, "there is no parameter Nobody");
    }

    #[test]
    fn what_happens_by_itself_is_read_with_its_ends() {
        let template = read(&own(), &[("SweepSchedule", "rate(2 hours)")]).unwrap();
        let function = |id: &str| Target::Function(id.to_owned());
        let [ends, clock] = &template.rules[..] else {
            panic!("{:?}", template.rules);
        };
        let later = Target::Queue("ReapLaterQueue".to_owned());
        assert_eq!(ends.targets, [function("ReapFunction"), later]);
        assert_eq!(clock.targets, [function("SweepFunction")]);
        assert_eq!(
            (ends.every, clock.every),
            (None, Some(Duration::from_hours(2)))
        );

        let later = QueueResource {
            logical_id: "ReapLaterQueue".to_owned(),
            delay: Duration::from_mins(1),
            visibility: Duration::from_mins(3),
            redrive: Some(("ReapDeadLetterQueue".to_owned(), 5)),
        };
        assert!(template.queues.contains(&later), "{:?}", template.queues);
        let [source] = &template.queue_sources[..] else {
            panic!("{:?}", template.queue_sources);
        };
        assert_eq!(
            (&*source.function, &*source.queue),
            ("ReapFunction", "ReapLaterQueue")
        );
        assert_eq!((source.batch_size, source.partial), (10, true));
        let [stream] = &template.streams[..] else {
            panic!("{:?}", template.streams);
        };
        assert_eq!(
            (&*stream.function, &*stream.table),
            ("GrantFunction", "LeaseTable")
        );
        assert_eq!(
            (stream.batch_size, stream.lanes, stream.filters.len()),
            (10, 4, 1)
        );
        assert_eq!(
            (stream.bisect, stream.partial, stream.retries),
            (true, true, Some(5))
        );
        assert_eq!(stream.record_age, Some(Duration::from_hours(1)));
        assert_eq!(stream.dead_letters.as_deref(), Some("GrantDeadLetterQueue"));
    }

    #[test]
    fn machines_are_those_of_this_stack_by_name_or_those_of_a_list() {
        let machine = |name: &str| arn::state_machine(name);
        let event = |name: &str| {
            let detail = json!({"status": "FAILED", "stateMachineArn": machine(name)});
            json!({"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": detail})
        };
        let list = format!("{},{}", machine("one"), machine("two-*"));
        let given = [
            ("WrappedStateMachine", list.as_str()),
            ("LeasingStateMachine", &list),
        ];
        let [here, listed] = [&[][..], &given].map(|given| read(&own(), given).unwrap());
        for (template, [wrapped, leasing], wanted) in [
            (&here, ["leasehold_wrapped_a", "leasehold_leasing_a"], true),
            (
                &here,
                ["leasehold-2_wrapped_a", "leasehold-2_leasing_a"],
                false,
            ),
            (&here, ["one", "one"], false),
            (
                &listed,
                ["leasehold_wrapped_a", "leasehold_leasing_a"],
                false,
            ),
            (&listed, ["one", "one"], true),
            (&listed, ["two-2", "two-2"], true),
            (&listed, ["one-2", "one-2"], false),
        ] {
            let roles = Roles::new(template.roles.clone());
            let may = |role: &str, action: &str, arn: &str| roles.may(role, action, arn);
            let execution = |name: &str| machine(name).replace("stateMachine", "execution") + ":a";
            let wrapper = "WithLeaseStateMachineRole";
            let ends = template.rules[0].pattern.as_ref().unwrap();
            for (what, does) in [
                (
                    "starts",
                    may(wrapper, "states:StartExecution", &machine(wrapped)),
                ),
                (
                    "stops",
                    may(wrapper, "states:StopExecution", &execution(wrapped)),
                ),
                (
                    "answers",
                    may("AcquireRole", "states:SendTaskSuccess", &machine(leasing)),
                ),
                (
                    "reaps",
                    may("ReapRole", "states:DescribeExecution", &execution(leasing)),
                ),
                ("hears", ends.matches(&event(leasing))),
            ] {
                assert_eq!(does, wanted, "{what} {wrapped} {leasing}");
            }
        }
    }

    #[test]
    fn a_definition_has_its_substitutions_made_and_needs_them_all() {
        let mut template = own();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let definition = |template: &Value| {
            let template = Template::of(template, &root, STACK, &BTreeMap::new()).unwrap();
            assert_eq!(template.state_machines[0].name, "leasehold-with-lease");
            template.state_machines[0].definition()
        };
        assert!(
            definition(&template)
                .unwrap()
                .contains(&arn::function("AcquireFunction"))
        );
        let machine = &mut template["Resources"]["WithLeaseStateMachine"]["Properties"];
        machine["DefinitionSubstitutions"] = json!({});
        let refused = definition(&template).unwrap_err().to_string();
        assert!(
            refused.contains("with-lease.asl.json: wants ${"),
            "{refused}"
        );
    }

    #[test]
    fn a_rate_is_a_period() {
        assert_eq!(
            properties::rate("rate(1 minute)"),
            Some(Duration::from_mins(1))
        );
        for wrong in [
            "rate(0 minutes)",
            "rate(1 fortnight)",
            "rate(minute)",
            "1 minute",
        ] {
            assert_eq!(properties::rate(wrong), None, "{wrong}");
        }
    }
}
