//! `CloudFormation`'s intrinsic functions and pseudo parameters, evaluated for this machine: one account and one Region. If the
//! template gives no name, the logical id is the physical name, prefixed by the stack's name if that is not the usual one. An
//! unknown function is an error.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::parameters;
use crate::arn::{self, ACCOUNT, REGION};

/// The usual stack's name, the same as in samconfig.toml.
pub(crate) const STACK: &str = "leasehold";

/// The properties that give resources their names.
const NAMED_BY: [(&str, &str); 4] = [
    ("AWS::CloudWatch::Alarm", "AlarmName"),
    ("AWS::DynamoDB::Table", "TableName"),
    ("AWS::Logs::LogGroup", "LogGroupName"),
    ("AWS::StepFunctions::StateMachine", "StateMachineName"),
];

/// The values of the names in a template.
pub(super) struct Resolver<'a> {
    template: &'a Value,
    stack: &'a str,
    parameters: BTreeMap<&'a str, Value>,
    /// The outputs of nested stacks, by logical id and `Outputs.` with the output's name.
    outputs: BTreeMap<(String, String), String>,
}

impl<'a> Resolver<'a> {
    /// Uses the parameters' defaults if `given` has no value.
    pub(super) fn new(
        template: &'a Value,
        stack: &'a str,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let parameters = parameters::values(&template["Parameters"], given)?;
        Ok(Self {
            template,
            stack,
            parameters,
            outputs: BTreeMap::new(),
        })
    }

    /// Adds the outputs of a nested stack.
    pub(super) fn nest(&mut self, id: &str, outputs: BTreeMap<String, String>) {
        let outputs = outputs.into_iter();
        self.outputs.extend(
            outputs.map(|(name, value)| ((id.to_owned(), format!("Outputs.{name}")), value)),
        );
    }

    /// The value with every function replaced by its result. `None` is `AWS::NoValue`.
    pub(super) fn resolve(&self, value: &Value) -> Result<Option<Value>, String> {
        match value {
            Value::Array(items) => {
                let items = items
                    .iter()
                    .filter_map(|item| self.resolve(item).transpose());
                Ok(Some(Value::Array(items.collect::<Result<_, _>>()?)))
            }
            Value::Object(entries) => {
                let mut only = entries.iter();
                if let (Some((name, argument)), None) = (only.next(), only.next())
                    && (name == "Ref" || name.starts_with("Fn::"))
                {
                    return self.call(name, argument);
                }
                let entries = entries.iter().filter_map(|(name, entry)| {
                    let entry = self.resolve(entry).transpose()?;
                    Some(entry.map(|entry| (name.clone(), entry)))
                });
                Ok(Some(Value::Object(entries.collect::<Result<_, _>>()?)))
            }
            plain => Ok(Some(plain.clone())),
        }
    }

    /// Whether the condition with this name is true.
    pub(super) fn condition(&self, name: &str) -> Result<bool, String> {
        let condition = self.template["Conditions"].get(name);
        self.holds(condition.ok_or_else(|| format!("no condition is called {name}"))?)
    }

    /// The physical name of a resource.
    pub(super) fn name(&self, id: &str) -> Result<String, String> {
        let resource = &self.template["Resources"][id];
        let named_by = NAMED_BY.iter().find(|(kind, _)| resource["Type"] == *kind);
        match named_by.map(|(_, property)| &resource["Properties"][property]) {
            None | Some(Value::Null) if self.stack == STACK => Ok(id.to_owned()),
            None | Some(Value::Null) => Ok(format!("{}-{id}", self.stack)),
            Some(name) => self.text(name),
        }
    }

    fn call(&self, name: &str, argument: &Value) -> Result<Option<Value>, String> {
        let text = |text: Result<String, String>| text.map(|text| Some(Value::String(text)));
        match (name, argument) {
            ("Ref", Value::String(target)) => self.reference(target),
            ("Fn::GetAtt", Value::Array(path)) => match path.as_slice() {
                [Value::String(id), Value::String(attribute)] => {
                    text(self.attribute(id, attribute))
                }
                _ => Err(format!(
                    "GetAtt {argument} is not a resource and an attribute"
                )),
            },
            ("Fn::Sub", Value::String(pattern)) => text(self.substitute(pattern, &Map::new())),
            ("Fn::Sub", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(pattern), Value::Object(own)] => text(self.substitute(pattern, own)),
                _ => Err(format!("Sub {argument} is not a text and a map")),
            },
            ("Fn::Join", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(delimiter), list] => {
                    text(self.list(list).map(|list| list.join(delimiter)))
                }
                _ => Err(format!("Join {argument} is not a delimiter and a list")),
            },
            ("Fn::Split", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(delimiter), whole] => {
                    let whole = self.text(whole)?;
                    Ok(Some(whole.split(delimiter.as_str()).collect()))
                }
                _ => Err(format!("Split {argument} is not a delimiter and a text")),
            },
            ("Fn::Select", Value::Array(parts)) => match parts.as_slice() {
                [Value::Number(index), list] => {
                    let at = index.as_u64().and_then(|at| usize::try_from(at).ok());
                    let list = self.list(list)?;
                    let chosen = at.and_then(|at| list.get(at).cloned());
                    text(chosen.ok_or_else(|| format!("Select {argument} is beyond its list")))
                }
                _ => Err(format!("Select {argument} is not a number and a list")),
            },
            ("Fn::FindInMap", Value::Array(parts)) => match parts.as_slice() {
                [map, key, name] => {
                    let of_map = &self.template["Mappings"][self.text(map)?];
                    let found = &of_map[self.text(key)?][self.text(name)?];
                    (!found.is_null())
                        .then(|| Some(found.clone()))
                        .ok_or_else(|| format!("FindInMap {argument} finds nothing"))
                }
                _ => Err(format!("FindInMap {argument} is not a map and two keys")),
            },
            ("Fn::If", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(condition), yes, no] => {
                    self.resolve(if self.condition(condition)? { yes } else { no })
                }
                _ => Err(format!("If {argument} is not a condition and two values")),
            },
            _ => Err(format!("{name} {argument} is not understood locally")),
        }
    }

    fn holds(&self, condition: &Value) -> Result<bool, String> {
        let unknown = || format!("{condition} is not understood locally as a condition");
        let entries = condition.as_object().ok_or_else(unknown)?;
        let (name, argument) = entries.iter().next().ok_or_else(unknown)?;
        match (name.as_str(), argument.as_array().map(Vec::as_slice)) {
            ("Fn::Equals", Some([left, right])) => Ok(self.text(left)? == self.text(right)?),
            ("Fn::Not", Some([one])) => Ok(!self.holds(one)?),
            ("Fn::Or", Some(all)) => all
                .iter()
                .try_fold(false, |so_far, one| Ok(self.holds(one)? || so_far)),
            ("Condition", None) => self.condition(argument.as_str().ok_or_else(unknown)?),
            _ => Err(unknown()),
        }
    }

    fn reference(&self, target: &str) -> Result<Option<Value>, String> {
        let text = match target {
            "AWS::NoValue" => return Ok(None),
            "AWS::AccountId" => ACCOUNT.to_owned(),
            "AWS::Partition" => "aws".to_owned(),
            "AWS::Region" => REGION.to_owned(),
            "AWS::StackName" => self.stack.to_owned(),
            "AWS::URLSuffix" => "amazonaws.com".to_owned(),
            _ => match (self.parameters.get(target), self.kind(target)) {
                (Some(Value::Null), _) => {
                    return Err(format!("the parameter {target} has no value"));
                }
                (Some(value), _) => return Ok(Some(value.clone())),
                (None, Some("AWS::IAM::ManagedPolicy" | "AWS::StepFunctions::StateMachine")) => {
                    self.attribute(target, "Arn")?
                }
                (None, Some(_)) => self.name(target)?,
                (None, None) => {
                    return Err(format!("Ref {target}: no such parameter or resource"));
                }
            },
        };
        Ok(Some(Value::String(text)))
    }

    fn attribute(&self, id: &str, attribute: &str) -> Result<String, String> {
        let wrong = |why: &str| format!("GetAtt {id}.{attribute}: {why}");
        let kind = self.kind(id).ok_or_else(|| wrong("no such resource"))?;
        if let Some(value) = self.outputs.get(&(id.to_owned(), attribute.to_owned())) {
            return Ok(value.clone());
        }
        let name = self.name(id)?;
        let found = match (kind, attribute) {
            (_, "Arn") => arn::of(kind, &name),
            ("AWS::SQS::Queue", "QueueName") | ("AWS::StepFunctions::StateMachine", "Name") => {
                Some(name)
            }
            _ => None,
        };
        found.ok_or_else(|| wrong("no such attribute is known locally"))
    }

    /// The names of `own` take precedence over all others.
    fn substitute(&self, pattern: &str, own: &Map<String, Value>) -> Result<String, String> {
        let mut result = String::new();
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| format!("Sub {pattern:?}: a brace is missing"))?;
            result.push_str(before);
            let value = match (name.strip_prefix('!'), name.split_once('.')) {
                _ if own.contains_key(name) => self.text(&own[name])?,
                (Some(literal), _) => format!("${{{literal}}}"),
                (None, Some((id, attribute))) => self.attribute(id, attribute)?,
                (None, None) => text(&self.reference(name)?.unwrap_or_default())?,
            };
            result.push_str(&value);
            rest = after;
        }
        Ok(result + rest)
    }

    fn text(&self, value: &Value) -> Result<String, String> {
        text(&self.resolve(value)?.unwrap_or_default())
    }

    fn list(&self, value: &Value) -> Result<Vec<String>, String> {
        match self.resolve(value)? {
            Some(Value::Array(items)) => items.iter().map(text).collect(),
            _ => Err(format!("{value} is not a list, but a list is needed")),
        }
    }

    fn kind(&self, id: &str) -> Option<&'a str> {
        self.template["Resources"].get(id)?["Type"].as_str()
    }
}

/// A plain value as a text, for environment variables and names.
pub(super) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        other => Err(format!("{other} is not a text, but a text is needed")),
    }
}

/// A map of names to plain values, as texts. Empty if there is none.
pub(super) fn texts(map: &Value) -> Result<BTreeMap<String, String>, String> {
    let entries = map.as_object().into_iter().flatten().map(|(name, value)| {
        let text = text(value).map_err(|why| format!("{name}: {why}"))?;
        Ok((name.clone(), text))
    });
    entries.collect()
}
