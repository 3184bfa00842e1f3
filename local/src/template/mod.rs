//! Reads the parts of a stack's template that this machine runs. It is plain `CloudFormation`, SAM's translation of template.yaml.
//!
//! First every function in all resources and outputs is replaced by its result, so that a dangling reference is an error anywhere.
//! The result is plain JSON, and is read by type. A property that would change deliveries, but is not supported here, is an
//! error.

mod intrinsics;
mod parameters;
mod pattern;
mod policy;
mod properties;
mod transformer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::arn;
use crate::error::Error;
use intrinsics::Resolver;
pub(crate) use intrinsics::STACK;
pub(crate) use pattern::Pattern;
pub use policy::{Allowed, Condition, Context};
pub(crate) use transformer::Transformer;

/// The stack as its template describes it, with every reference resolved to a local name or ARN.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) functions: Vec<FunctionResource>,
    pub(crate) state_machines: Vec<StateMachineResource>,
    /// The tables' properties, by name.
    pub(crate) tables: BTreeMap<String, Value>,
    pub(crate) rules: Vec<RuleResource>,
    pub(crate) queues: Vec<QueueResource>,
    /// Functions that receive a queue's messages.
    pub(crate) queue_sources: Vec<QueueSource>,
    /// The permissions of each role, by its name.
    pub(crate) roles: BTreeMap<String, Vec<Allowed>>,
    /// The permissions in the functions' and queues' own policies.
    pub(crate) permissions: Vec<Permission>,
    /// The permissions of shared policies, by ARN, and the policies that each role names.
    shared: BTreeMap<String, Vec<Allowed>>,
    named: Vec<(String, Vec<String>)>,
    /// The variables that every function has with the same value.
    pub(crate) environment: BTreeMap<String, String>,
    /// Every resource, as `CloudFormation` lists them.
    pub(crate) listed: Vec<ListedResource>,
}

/// A resource as `CloudFormation` lists it.
#[derive(Clone, Debug)]
pub(crate) struct ListedResource {
    /// The name of its stack, which may be a nested one.
    pub(crate) stack: String,
    pub(crate) logical_id: String,
    pub(crate) kind: String,
    /// The value of `Ref` in the service: a name, or the ARN of a state machine or stack.
    pub(crate) physical_id: String,
}

/// The type of a nested stack.
const STACK_KIND: &str = "AWS::CloudFormation::Stack";

/// A translated template as written.
fn translation(file: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| {
        format!("is not a translated template (tools/translate.py makes one): {error}")
    })
}

/// A `AWS::Lambda::Function`.
#[derive(Clone, Debug)]
pub(crate) struct FunctionResource {
    /// It is also its name.
    pub(crate) logical_id: String,
    /// The last segment of its code's key, and the name of its binary.
    pub(crate) verb: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) timeout: Duration,
    /// What an invocation has here, if that is less.
    pub(crate) here: Option<Duration>,
    pub(crate) memory_mb: u32,
    /// The name of its role.
    pub(crate) role: Option<String>,
    /// The name of its log group, if the template has it.
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
    /// None for a schedule.
    pub(crate) pattern: Option<Pattern>,
    /// The period of a schedule.
    pub(crate) every: Option<Duration>,
    /// Each with its transformation of the event.
    pub(crate) targets: Vec<(Target, Option<Transformer>)>,
    /// Queues for events that reached no target.
    pub(crate) dead_letters: Vec<String>,
}

/// The target of a rule, by logical id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Function(String),
    Queue(String),
}

/// A `AWS::SQS::Queue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueResource {
    pub(crate) logical_id: String,
    /// The delay of a message after it was sent.
    pub(crate) delay: Duration,
    /// The delay of a message after it was received and not deleted.
    pub(crate) visibility: Duration,
    /// The dead-letter queue, and how often a message may be received before it goes there.
    pub(crate) redrive: Option<(String, u32)>,
}

/// A function that receives a queue's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueSource {
    /// The id of the mapping.
    pub(crate) id: String,
    /// Logical id.
    pub(crate) function: String,
    /// Logical id.
    pub(crate) queue: String,
    pub(crate) batch_size: usize,
    /// Whether the response may name the failed messages.
    pub(crate) partial: bool,
}

/// A permission in a resource's own policy, for a service that acts for another resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permission {
    pub(crate) principal: String,
    /// The ARN of the resource that it acts for.
    pub(crate) source: String,
    pub(crate) allowed: Allowed,
}

impl Template {
    /// Reads the template of the stack with this name. `parameters` take precedence over the template's defaults, and so do
    /// `offered` ones if the template has them. Resources whose `Condition` is false are omitted. `root` is the directory of its
    /// code and definitions. Its `local/` has the translations of nested templates, whose resources are read as the template's
    /// own.
    ///
    /// # Errors
    /// [`Error::Template`] with the resource and the fault.
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
        let template = translation(file).map_err(wrong)?;
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
        let mut read = Self::default();
        read.add(template, root, stack, stack, given)?;
        for (role, policies) in std::mem::take(&mut read.named) {
            for policy in policies {
                let allowed = read.shared.get(&policy);
                let allowed =
                    allowed.ok_or_else(|| format!("{role}: {policy} is not known locally"))?;
                read.roles
                    .entry(role.clone())
                    .or_default()
                    .extend_from_slice(allowed);
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

    /// Adds the resources of a template and of its nested templates. `listed_in` is their stack. Returns the template's outputs.
    fn add(
        &mut self,
        template: &Value,
        root: &Path,
        stack: &str,
        listed_in: &str,
        given: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut resolver = Resolver::new(template, stack, given)?;
        let mut outputs = BTreeMap::new();
        // Nested stacks come first, because others refer to their outputs.
        for (section, part, nested) in [
            ("Resources", "Properties", true),
            ("Resources", "Properties", false),
            ("Outputs", "Value", false),
        ] {
            for (id, described) in template[section].as_object().into_iter().flatten() {
                let named = |why: String| format!("{id}: {why}");
                let kind = described["Type"].as_str();
                let is_passed_over = match described["Condition"].as_str() {
                    Some(condition) => !resolver.condition(condition).map_err(named)?,
                    None => false,
                };
                if is_passed_over || nested != (kind == Some(STACK_KIND)) {
                    continue;
                }
                let plain = resolver.resolve(&described[part]).map_err(named)?;
                let plain = plain.unwrap_or_default();
                match kind {
                    Some(STACK_KIND) => {
                        let name = format!("{listed_in}-{id}");
                        self.list(listed_in, id, STACK_KIND, arn::stack(&name));
                        let outputs = self.nest(&plain, root, stack, &name).map_err(named)?;
                        resolver.nest(id, outputs);
                    }
                    Some(kind) => {
                        let name = resolver.name(id).map_err(named)?;
                        let physical_id = match kind {
                            "AWS::StepFunctions::StateMachine" => arn::state_machine(&name),
                            _ => name.clone(),
                        };
                        if self.listed.iter().any(|one| one.logical_id == *id) {
                            let twice = "a nested template has a resource of this name, too";
                            return Err(named(twice.to_owned()));
                        }
                        self.list(listed_in, id, kind, physical_id);
                        self.resource(kind, id, name, plain, root).map_err(named)?;
                    }
                    None => {
                        let value = intrinsics::text(&plain).map_err(named)?;
                        outputs.insert(id.clone(), value);
                    }
                }
            }
        }
        Ok(outputs)
    }

    fn list(&mut self, stack: &str, id: &str, kind: &str, physical_id: String) {
        self.listed.push(ListedResource {
            stack: stack.to_owned(),
            logical_id: id.to_owned(),
            kind: kind.to_owned(),
            physical_id,
        });
    }

    /// Adds a nested stack. The last part of its URL names the template.
    fn nest(
        &mut self,
        nested: &Value,
        root: &Path,
        stack: &str,
        name: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        let address = intrinsics::text(&nested["TemplateURL"])?;
        let file = Path::new(arn::name(&address)).with_extension("json");
        let file = root.join("local").join(file);
        let template = translation(&file).map_err(|why| format!("{}: {why}", file.display()))?;
        let given = intrinsics::texts(&nested["Parameters"])?;
        self.add(&template, root, stack, name, &given)
    }

    fn resource(
        &mut self,
        kind: &str,
        id: &str,
        name: String,
        properties: Value,
        root: &Path,
    ) -> Result<(), String> {
        match kind {
            "AWS::DynamoDB::Table" => {
                self.tables.insert(name, properties);
            }
            "AWS::Events::Rule" => self.rules.push(properties::rule(&name, &properties)?),
            "AWS::IAM::ManagedPolicy" => {
                let allowed = policy::allowed(&properties["PolicyDocument"])?;
                self.shared
                    .extend(arn::of(kind, &name).map(|arn| (arn, allowed)));
            }
            "AWS::IAM::Policy" => {
                let allowed = policy::allowed(&properties["PolicyDocument"])?;
                for role in policy::texts(&properties["Roles"])? {
                    self.named.push((role, vec![name.clone()]));
                }
                self.shared.insert(name, allowed);
            }
            "AWS::IAM::Role" => {
                let policies = policy::texts(&properties["ManagedPolicyArns"])?;
                self.named.push((name.clone(), policies));
                self.roles.insert(name, properties::allowed(&properties)?);
            }
            "AWS::Lambda::EventSourceMapping" => {
                properties::event_source(self, name, &properties)?;
            }
            "AWS::Lambda::Function" => self
                .functions
                .push(properties::function(&name, &properties)?),
            "AWS::Lambda::Permission" => {
                self.permissions.push(properties::permission(&properties)?);
            }
            "AWS::SQS::Queue" => self.queues.push(properties::queue(&name, &properties)?),
            "AWS::SQS::QueuePolicy" => {
                let (queue, permissions) = properties::queue_policy(&properties)?;
                let mut others = self.permissions.iter();
                if others.any(|other| other.allowed.resource == arn::queue(&queue)) {
                    return Err(format!(
                        "{queue} has a policy already, which this one replaces"
                    ));
                }
                self.permissions.extend(permissions);
            }
            "AWS::StepFunctions::StateMachine" => {
                self.state_machines
                    .push(properties::state_machine(id, name, &properties, root)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that all targets exist, because a message to a missing target would be lost silently.
    fn check_ends(&self) -> Result<(), String> {
        let mut queues: Vec<&String> = Vec::new();
        for rule in &self.rules {
            queues.extend(&rule.dead_letters);
            for (target, _) in &rule.targets {
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
        queues.extend(self.queue_sources.iter().map(|source| &source.queue));
        for id in queues {
            if !self.queues.iter().any(|queue| queue.logical_id == *id) {
                return Err(format!("messages go to {id}, which is no queue"));
            }
        }
        Ok(())
    }
}

impl StateMachineResource {
    pub(crate) fn arn(&self) -> String {
        arn::state_machine(&self.name)
    }

    /// The definition with its substitutions. It is read only on demand, so that tests of functions do not depend on
    /// state machines.
    ///
    /// # Errors
    /// [`Error::Template`] if the file cannot be read or needs a substitution that the template does not have.
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
        // A missing substitution would reach the service as a malformed ARN and fail much later.
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
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Template::of(template, &root, STACK, &given.collect())
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
    fn intrinsic_functions_become_local_names() {
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
    fn documented_numbers_fit_and_more_is_refused() {
        // The ARNs of the longest Region are 11 characters longer than those of this one.
        let machine = |nth: usize| {
            let name = format!("{nth:a>91}");
            format!("arn:aws:states:us-east-1:123456789012:stateMachine:{name}")
        };
        let durable = |nth: usize| {
            let name = format!("{nth:a>75}");
            format!("arn:aws:lambda:us-east-1:123456789012:function:{name}")
        };
        let pair = |nth: usize| format!("{nth:k>21}={}", machine(nth));
        let with = |parameter: &str, count: usize, of: &dyn Fn(usize) -> String| {
            let list = (0..count).map(of).collect::<Vec<_>>().join(",");
            let samples = (
                "StepFunctionArn",
                "arn:aws:lambda:us-east-1:123456789012:function:f",
            );
            let read = read(&own(), &[(parameter, &list), samples]);
            read.err()
        };
        assert_eq!(with("LeasingStateMachine", 7, &machine), None);
        assert_eq!(with("StartedStateMachine", 7, &machine), None);
        assert_eq!(with("DurableFunction", 13, &durable), None);
        assert_eq!(with("StartKeys", 18, &pair), None);
        for (parameter, count, of, why) in [
            (
                "LeasingStateMachine",
                9,
                &machine as &dyn Fn(usize) -> String,
                "2048",
            ),
            ("DurableFunction", 16, &durable, "2048"),
            ("StartKeys", 30, &pair, "Lambda takes 4096"),
        ] {
            let error = with(parameter, count, of).unwrap();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn template_error_names_its_resource() {
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
        let policy = |queues: &[&str], resources: &[&str]| {
            let resources: Vec<_> = resources.iter().map(|name| arn::queue(name)).collect();
            let statement = json!({"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
                "Resource": resources, "Condition": {"ArnEquals": {"aws:SourceArn": "rule"}}});
            let properties =
                json!({"Queues": queues, "PolicyDocument": {"Statement": [statement]}});
            resource(json!({"Type": "AWS::SQS::QueuePolicy", "Properties": properties}))
        };
        let mut twice = policy(&["Q"], &["Q"]);
        twice["Resources"]["S"] = twice["Resources"]["R"].clone();
        for (template, said) in [
            (policy(&["Q", "P"], &["Q"]), "R: a policy of several queues"),
            (
                policy(&["Q"], &["Q", "P"]),
                "R: a statement of the policy of Q",
            ),
            (policy(&["Q"], &["P"]), "R: a statement of the policy of Q"),
            (twice, "S: Q has a policy already"),
            (
                rule(json!({"a": ["b".repeat(2039)]}), arn::function("Take")),
                "R: the pattern has 2049 characters",
            ),
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
                variable(json!({"Fn::Base64": "a"})),
                "Fn::Base64 \"a\" is not understood",
            ),
            (
                variable(json!({"Fn::Select": [0, []]})),
                "Select [0,[]] is beyond its list",
            ),
            (
                variable(json!({"Fn::FindInMap": ["M", "a", "b"]})),
                "FindInMap [\"M\",\"a\",\"b\"] finds nothing",
            ),
            (
                variable(json!(["list"])),
                "Take: A: [\"list\"] is not a text, but a text is needed",
            ),
            (
                resource(json!({"Type": "AWS::Lambda::Function"})),
                "R: /Code/S3Key: null is not a text",
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
    fn automatic_triggers_are_read_with_targets() {
        let template = read(&own(), &[("SweepSchedule", "rate(2 hours)")]).unwrap();
        let function = |id: &str| Target::Function(id.to_owned());
        let [ends, redriven, clock] = &template.rules[..] else {
            panic!("{:?}", template.rules);
        };
        let queue = |id: &str| Target::Queue(id.to_owned());
        let to = |rule: &RuleResource| -> Vec<Target> {
            rule.targets.iter().map(|(to, _)| to.clone()).collect()
        };
        assert_eq!(to(ends), [queue("ReapQueue")]);
        assert_eq!(to(redriven), [queue("ReapQueue")]);
        assert_eq!(to(clock), [function("SweepFunction")]);
        assert_eq!(
            (ends.every, clock.every),
            (None, Some(Duration::from_hours(2)))
        );

        let reap = QueueResource {
            logical_id: "ReapQueue".to_owned(),
            delay: Duration::ZERO,
            visibility: Duration::from_mins(1),
            redrive: Some(("ReapDeadLetterQueue".to_owned(), 15)),
        };
        assert!(template.queues.contains(&reap), "{:?}", template.queues);
        let sources = template.queue_sources.iter();
        let ends: Vec<_> = sources
            .map(|source| {
                (
                    &*source.function,
                    &*source.queue,
                    source.batch_size,
                    source.partial,
                )
            })
            .collect();
        let expected = ["ReapQueue"];
        assert_eq!(
            ends,
            expected.map(|queue| ("ReapFunction", queue, 10, true))
        );
    }

    #[test]
    fn nested_template_is_stacks_own() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("local")).unwrap();
        let file = root.path().join("local/more.json");
        let more = json!({
            "Parameters": {"Prefix": {"Type": "String"}, "Policy": {"Type": "String"}},
            "Resources": {
                "Look": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {
                    "StateMachineName": {"Fn::Sub": "${Prefix}-look"},
                    "DefinitionS3Location": {"Key": "look.json"},
                    "RoleArn": {"Fn::GetAtt": ["LookRole", "Arn"]},
                }},
                "LookRole": {"Type": "AWS::IAM::Role", "Properties": {"ManagedPolicyArns": [{"Ref": "Policy"}]}},
            },
            "Outputs": {"LookArn": {"Value": {"Ref": "Look"}}},
        });
        std::fs::write(file, more.to_string()).unwrap();
        let statement =
            json!({"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "queue"});
        let template = json!({
            "Parameters": {"Name": {"Type": "String", "Default": ""}, "Has": {"Type": "String", "Default": "yes"}},
            "Conditions": {
                "Named": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Name"}, ""]}]},
                "Nests": {"Fn::Or": [{"Condition": "Named"}, {"Fn::Equals": [{"Ref": "Has"}, "yes"]}]},
            },
            "Resources": {
                "Asks": {"Type": "AWS::SNS::Topic", "Properties": {"Of": {"Fn::GetAtt": ["More", "Outputs.LookArn"]}}},
                "More": {"Type": "AWS::CloudFormation::Stack", "Condition": "Nests", "Properties": {
                    "TemplateURL": "https://bucket.s3.amazonaws.com/more.yaml",
                    "Parameters": {
                        "Policy": {"Ref": "Sends"},
                        "Prefix": {"Fn::Sub": ["${P}-x", {"P": {"Fn::If": ["Named", {"Ref": "Name"}, {"Ref": "AWS::StackName"}]}}]},
                    },
                }},
                "Sends": {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"PolicyDocument": {"Statement": [statement]}}},
            },
        });
        let of = |template: &Value, given: &[(&str, &str)]| {
            let given = given
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            Template::of(template, root.path(), STACK, &given.collect())
        };
        for (given, name) in [
            (&[][..], "leasehold-x-look"),
            (&[("Name", "mine")], "mine-x-look"),
        ] {
            let read = of(&template, given).unwrap();
            assert_eq!(read.state_machines[0].name, name);
            assert_eq!(read.roles["LookRole"][0].action, "sqs:SendMessage");
            assert_eq!(read.listed.len(), 5);
        }
        let absent = of(&template, &[("Has", "no")]).unwrap_err();
        assert!(absent.contains("GetAtt More.Outputs.LookArn"), "{absent}");

        let parameters = "/Resources/More/Properties/Parameters";
        let foreign = "arn:aws:iam::aws:policy/ReadOnly";
        let twice = json!({"LookRole": {"Type": "AWS::SNS::Topic"}, "More": template["Resources"]["More"], "Sends": template["Resources"]["Sends"]});
        for (place, value, said) in [
            (
                parameters,
                json!({"Prefix": "a", "Policy": foreign}),
                "ReadOnly is not known locally",
            ),
            (
                parameters,
                json!({"Prefix": "a"}),
                "the parameter Policy has no value",
            ),
            (
                parameters,
                json!({"Prefix": "a", "Policy": "b", "Else": "c"}),
                "there is no parameter Else",
            ),
            (
                "/Resources/More/Properties/TemplateURL",
                json!("https://bucket/none.yaml"),
                "local/none.json: No such file",
            ),
            ("/Resources", twice, "LookRole: a nested template has"),
        ] {
            let mut changed = template.clone();
            *changed.pointer_mut(place).unwrap() = value;
            let refused = of(&changed, &[]).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table, and what each row is asked")]
    fn names_and_list_define_stacks_machines() {
        let machine = |name: &str| arn::state_machine(name);
        let event = |name: &str| {
            let execution = machine(name).replace("stateMachine", "execution") + ":one";
            let detail = json!({"status": "FAILED", "stateMachineArn": machine(name), "executionArn": execution});
            json!({"source": "aws.states", "detail-type": "Step Functions Execution Status Change", "detail": detail})
        };
        let list = format!("{},{}", machine("one"), machine("two-*"));
        let started = machine("three");
        let function = arn::function("four");
        let given = [
            ("DurableFunction", function.as_str()),
            ("LeasingStateMachine", &list),
            ("StartedStateMachine", &started),
        ];
        let all = [("LeasingStateMachine", "*")];
        let [here, listed, everybody] =
            [&[][..], &given, &all].map(|given| read(&own(), given).unwrap());
        // Whether the functions may look them up and answer them.
        for (template, leasing, looks) in [
            (&here, "leasehold_leasing_a", true),
            (&here, "leasehold-2_leasing_a", false),
            (&here, "one", false),
            (&listed, "leasehold_leasing_a", true),
            (&listed, "leasehold-2_leasing_a", false),
            (&listed, "one", true),
            (&listed, "two-2", true),
            (&listed, "one-2", false),
            (&everybody, "leasehold_leasing_a", true),
            (&everybody, "leasehold-2_leasing_a", true),
            (&everybody, "one", true),
        ] {
            let roles = Roles::new(template.roles.clone());
            let may = |role: &str, action: &str, arn: &str| roles.may(role, action, arn);
            let execution = |name: &str| machine(name).replace("stateMachine", "execution") + ":a";
            let mut ends = template
                .rules
                .iter()
                .filter_map(|rule| rule.pattern.as_ref());
            for (what, does) in [
                (
                    "answers",
                    may("AcquireRole", "states:SendTaskSuccess", &machine(leasing)),
                ),
                (
                    "reaps",
                    may("ReapRole", "states:DescribeExecution", &execution(leasing)),
                ),
                ("hears", ends.any(|ends| ends.matches(&event(leasing)))),
            ] {
                assert_eq!(does, looks, "{what} {leasing}");
            }
        }
        for (template, started, starts) in [
            (&here, "leasehold_started_a", true),
            (&here, "leasehold-2_started_a", false),
            (&here, "three", false),
            (&listed, "leasehold_started_a", true),
            (&listed, "leasehold-2_started_a", false),
            (&listed, "three", true),
            (&listed, "three-2", false),
            (&everybody, "three", false),
        ] {
            let roles = Roles::new(template.roles.clone());
            let may = roles.may("StartRole", "states:StartExecution", &machine(started));
            assert_eq!(may, starts, "{started}");
        }
        // What start may start is looked up as well, and its successes are heard.
        for (template, started) in [
            (&here, "leasehold_started_a"),
            (&listed, "leasehold_started_a"),
            (&listed, "three"),
        ] {
            let roles = Roles::new(template.roles.clone());
            let execution = machine(started).replace("stateMachine", "execution") + ":a";
            assert!(roles.may("ReapRole", "states:DescribeExecution", &execution));
            assert!(roles.may("StartRole", "states:StopExecution", &execution));
            let patterns = template
                .rules
                .iter()
                .filter_map(|rule| rule.pattern.as_ref());
            let patterns: Vec<_> = patterns.collect();
            for (machine, status, is_heard) in [
                (started, "FAILED", true),
                (started, "SUCCEEDED", true),
                ("leasehold-with-lease", "FAILED", true),
                ("leasehold-with-lease", "SUCCEEDED", true),
            ] {
                let mut event = event(machine);
                event["detail"]["status"] = status.into();
                let heard = patterns.iter().any(|pattern| pattern.matches(&event));
                assert_eq!(heard, is_heard, "{machine} {status}");
            }
        }
        // One durable function in the list, and the others by their names.
        for (template, name, may) in [
            (&here, "leasehold_leasing_a", false),
            (&listed, "leasehold_leasing_a", true),
            (&listed, "four", true),
            (&listed, "five", false),
        ] {
            let execution = arn::function(name) + ":1/durable-execution/a/b";
            let roles = Roles::new(template.roles.clone());
            let looks = roles.may("ReapRole", "lambda:GetDurableExecution", &execution);
            assert_eq!(looks, may, "{name}");
        }
        // The child of a Distributed Map of a machine that is listed by its whole name.
        let roles = Roles::new(listed.roles.clone());
        let child = machine("one/items");
        for (role, action, arn) in [
            ("AcquireRole", "states:SendTaskSuccess", child.clone()),
            ("SweepRole", "states:SendTaskSuccess", child.clone()),
            ("SweepRole", "states:SendTaskFailure", child.clone()),
            (
                "SweepRole",
                "states:DescribeExecution",
                child.replace("stateMachine", "execution") + ":a",
            ),
        ] {
            assert!(roles.may(role, action, &arn), "{role} {action}");
        }
    }

    /// As many as the parameter's description says. A rule with a wildcard for each would be refused at eleven.
    #[test]
    fn a_list_fills_its_rule() {
        for (count, length, fits) in [(10, 40, true), (15, 10, true), (17, 40, false)] {
            let name = |number| format!("m{number:0>length$}", length = length - 1);
            let list: Vec<_> = (0..count)
                .map(|number| arn::state_machine(&name(number)))
                .collect();
            let read = read(&own(), &[("LeasingStateMachine", &list.join(","))]);
            assert_eq!(read.is_ok(), fits, "{count} of {length}: {:?}", read.err());
        }
    }

    #[test]
    fn a_definition_needs_all_its_substitutions() {
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
                .contains(&arn::function("StartFunction"))
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
