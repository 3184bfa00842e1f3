//! `CloudFormation`'s intrinsic functions, evaluated against this machine: one account, one Region, and logical
//! ids as physical names.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::lambda::{ACCOUNT, REGION};

/// The stack's name, where a template asks for it: the same as in samconfig.toml, so that names of a deployment
/// are found here too.
const STACK: &str = "leasehold";

/// What names in the template stand for.
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) parameters: BTreeMap<String, Value>,
    pub(super) conditions: Map<String, Value>,
    pub(super) mappings: Value,
    /// Logical id → type.
    pub(super) resources: BTreeMap<String, String>,
    /// Logical id of a table → its name.
    pub(super) tables: BTreeMap<String, String>,
    /// Logical id of a state machine → its name, if it has one of its own.
    pub(super) machines: BTreeMap<String, String>,
    /// Logical id of an alarm → its name, if it has one of its own.
    pub(super) alarms: BTreeMap<String, String>,
    /// Logical id of a log group → its name, if it has one of its own.
    pub(super) log_groups: BTreeMap<String, String>,
}

impl Resolver {
    /// The value with every intrinsic function replaced by what it stands for here; `None` is `AWS::NoValue`.
    pub(super) fn resolve(&self, value: &Value) -> Result<Option<Value>, String> {
        match value {
            Value::Array(items) => {
                let resolved: Result<Vec<_>, _> =
                    items.iter().map(|item| self.resolve(item)).collect();
                Ok(Some(Value::Array(
                    resolved?.into_iter().flatten().collect(),
                )))
            }
            Value::Object(entries) => {
                if let Some((name, argument)) = entries.iter().next()
                    && entries.len() == 1
                    && (name == "Ref" || name == "Condition" || name.starts_with("Fn::"))
                {
                    return self.call(name, argument);
                }
                let mut resolved = Map::new();
                for (name, entry) in entries {
                    if let Some(entry) = self.resolve(entry)? {
                        resolved.insert(name.clone(), entry);
                    }
                }
                Ok(Some(Value::Object(resolved)))
            }
            plain => Ok(Some(plain.clone())),
        }
    }

    /// The value as text, as an environment variable or a substitution needs it.
    pub(super) fn text(&self, value: &Value) -> Result<Option<String>, String> {
        Ok(match self.resolve(value)? {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(plain @ (Value::Number(_) | Value::Bool(_))) => Some(plain.to_string()),
            Some(other) => return Err(format!("{other} stands where a text is needed")),
        })
    }

    /// Whether a resource with this `Condition` exists.
    pub(super) fn condition(&self, name: &str) -> Result<bool, String> {
        let condition = self
            .conditions
            .get(name)
            .ok_or_else(|| format!("no condition is called {name}"))?;
        self.truth(condition)
    }

    /// The name of a state machine.
    pub(super) fn machine(&self, id: &str) -> String {
        self.machines
            .get(id)
            .cloned()
            .unwrap_or_else(|| id.to_owned())
    }

    #[expect(clippy::unused_self, reason = "beside the others that make names")]
    pub(super) fn function_arn(&self, id: &str) -> String {
        format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{id}")
    }

    fn log_group(&self, id: &str) -> String {
        let named = self.log_groups.get(id);
        named.map_or(id, String::as_str).to_owned()
    }

    fn call(&self, name: &str, argument: &Value) -> Result<Option<Value>, String> {
        let text = |text: String| Ok(Some(Value::String(text)));
        match (name, argument) {
            ("Ref", Value::String(target)) => self.reference(target),
            ("Fn::GetAtt", Value::Array(path)) => match path.as_slice() {
                [Value::String(resource), Value::String(attribute)] => {
                    text(self.attribute(resource, attribute)?)
                }
                _ => Err(format!(
                    "GetAtt {argument} is not a resource and an attribute"
                )),
            },
            ("Fn::Sub", Value::String(pattern)) => text(self.substitute(pattern, &Map::new())?),
            ("Fn::Sub", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(pattern), Value::Object(names)] => {
                    text(self.substitute(pattern, names)?)
                }
                _ => Err(format!("Sub {argument} is not a pattern and its names")),
            },
            ("Fn::If", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(condition), yes, no] => {
                    self.resolve(if self.condition(condition)? { yes } else { no })
                }
                _ => Err(format!("If {argument} is not a condition and two values")),
            },
            ("Fn::Join", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(separator), list] => text(self.list(list)?.join(separator)),
                _ => Err(format!("Join {argument} is not a separator and a list")),
            },
            ("Fn::Select", Value::Array(parts)) => match parts.as_slice() {
                [index, list] => {
                    let index = self
                        .text(index)?
                        .and_then(|index| index.parse::<usize>().ok());
                    let found =
                        index.and_then(|index| self.list(list).ok()?.into_iter().nth(index));
                    found
                        .map(|found| Some(Value::String(found)))
                        .ok_or_else(|| format!("Select {argument}: no such item"))
                }
                _ => Err(format!("Select {argument} is not an index and a list")),
            },
            ("Fn::FindInMap", Value::Array(parts)) => {
                let mut found = &self.mappings;
                for part in parts {
                    let key = self.text(part)?.unwrap_or_default();
                    found = found
                        .get(&key)
                        .ok_or_else(|| format!("FindInMap {argument}: no {key}"))?;
                }
                self.resolve(found)
            }
            ("Condition" | "Fn::Equals" | "Fn::Not" | "Fn::And" | "Fn::Or", _) => {
                let condition =
                    Value::Object(Map::from_iter([(name.to_owned(), argument.clone())]));
                Ok(Some(Value::Bool(self.truth(&condition)?)))
            }
            _ => Err(format!("{name} {argument} is not understood locally")),
        }
    }

    fn truth(&self, condition: &Value) -> Result<bool, String> {
        let unknown = || format!("{condition} is not a condition");
        let (name, argument) = condition
            .as_object()
            .and_then(|entries| entries.iter().next())
            .ok_or_else(unknown)?;
        match (name.as_str(), argument) {
            ("Condition", Value::String(name)) => self.condition(name),
            ("Fn::Equals", Value::Array(sides)) if sides.len() == 2 => {
                Ok(self.text(&sides[0])? == self.text(&sides[1])?)
            }
            ("Fn::Not", Value::Array(one)) if one.len() == 1 => Ok(!self.truth(&one[0])?),
            ("Fn::And", Value::Array(all)) => all
                .iter()
                .try_fold(true, |so_far, one| Ok(self.truth(one)? && so_far)),
            ("Fn::Or", Value::Array(any)) => any
                .iter()
                .try_fold(false, |so_far, one| Ok(self.truth(one)? || so_far)),
            _ => Err(unknown()),
        }
    }

    fn reference(&self, target: &str) -> Result<Option<Value>, String> {
        let text = match target {
            "AWS::NoValue" => return Ok(None),
            "AWS::AccountId" => ACCOUNT.to_owned(),
            "AWS::Partition" => "aws".to_owned(),
            "AWS::Region" => REGION.to_owned(),
            "AWS::StackName" => STACK.to_owned(),
            "AWS::URLSuffix" => "amazonaws.com".to_owned(),
            _ => {
                if let Some(parameter) = self.parameters.get(target) {
                    return Ok(Some(parameter.clone()));
                }
                // SAM makes a version and an alias of a function, which are the function here.
                if let Some((function, "Alias" | "Version")) = target.split_once('.') {
                    return Ok(Some(Value::String(self.attribute(function, "Arn")?)));
                }
                match self.resources.get(target).map(String::as_str) {
                    Some("AWS::Serverless::StateMachine" | "AWS::StepFunctions::StateMachine") => {
                        self.attribute(target, "Arn")?
                    }
                    Some("AWS::DynamoDB::Table") => {
                        self.tables.get(target).cloned().unwrap_or_default()
                    }
                    Some("AWS::Logs::LogGroup") => self.log_group(target),
                    Some(_) => target.to_owned(),
                    None => return Err(format!("Ref {target}: no such parameter or resource")),
                }
            }
        };
        Ok(Some(Value::String(text)))
    }

    fn attribute(&self, resource: &str, attribute: &str) -> Result<String, String> {
        let kind = self
            .resources
            .get(resource)
            .ok_or_else(|| format!("GetAtt {resource}.{attribute}: no such resource"))?;
        Ok(match (kind.as_str(), attribute) {
            ("AWS::Serverless::Function" | "AWS::Lambda::Function", "Arn") => {
                self.function_arn(resource)
            }
            ("AWS::Serverless::StateMachine" | "AWS::StepFunctions::StateMachine", "Arn") => {
                let name = self.machine(resource);
                format!("arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{name}")
            }
            ("AWS::Serverless::StateMachine" | "AWS::StepFunctions::StateMachine", "Name") => {
                self.machine(resource)
            }
            ("AWS::DynamoDB::Table", "Arn") => {
                let table = self.tables.get(resource).map_or(resource, String::as_str);
                format!("arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}")
            }
            // It has no moment of its own: whoever follows it starts at its end.
            ("AWS::DynamoDB::Table", "StreamArn") => {
                format!("{}/stream/local", self.attribute(resource, "Arn")?)
            }
            ("AWS::SQS::Queue", "Arn") => format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{resource}"),
            ("AWS::SQS::Queue", "QueueName") => resource.to_owned(),
            ("AWS::CloudWatch::Alarm", "Arn") => {
                let name = self.alarms.get(resource).map_or(resource, String::as_str);
                format!("arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}")
            }
            ("AWS::Events::Rule", "Arn") => {
                format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/{resource}")
            }
            // Its streams, and not itself.
            ("AWS::Logs::LogGroup", "Arn") => {
                let name = self.log_group(resource);
                format!("arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*")
            }
            ("AWS::IAM::Role", "Arn") => format!("arn:aws:iam::{ACCOUNT}:role/{resource}"),
            _ => {
                return Err(format!(
                    "GetAtt {resource}.{attribute} is not known locally"
                ));
            }
        })
    }

    fn substitute(&self, pattern: &str, names: &Map<String, Value>) -> Result<String, String> {
        let mut result = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("${") {
            result.push_str(before);
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| format!("Sub {pattern:?}: a brace is missing"))?;
            if let Some(literal) = name.strip_prefix('!') {
                result.extend(["${", literal, "}"]);
            } else if let Some(value) = names.get(name) {
                result.push_str(&self.text(value)?.unwrap_or_default());
            } else if let (None, Some((resource, attribute))) =
                (self.parameters.get(name), name.split_once('.'))
            {
                result.push_str(&self.attribute(resource, attribute)?);
            } else {
                let value = self.reference(name)?.unwrap_or_default();
                result.push_str(&self.text(&value)?.unwrap_or_default());
            }
            rest = after;
        }
        Ok(result + rest)
    }

    fn list(&self, value: &Value) -> Result<Vec<String>, String> {
        let Some(Value::Array(items)) = self.resolve(value)? else {
            return Err(format!("{value} is not a list"));
        };
        Ok(items
            .iter()
            .map(|item| self.text(item))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
    }
}
