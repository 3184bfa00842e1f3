//! The permissions of a role, from its policies.

use std::collections::BTreeMap;

use serde_json::Value;

/// The attributes of a request besides its action and its resource, by condition key.
pub type Context = BTreeMap<String, Vec<String>>;

/// One allowed action on one resource, as written in the policy. Both may contain asterisks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowed {
    /// `dynamodb:UpdateItem`.
    pub action: String,
    /// An ARN.
    pub resource: String,
    /// All of these must hold too.
    pub conditions: Vec<Condition>,
}

/// A condition of a statement: the request's value for a key must match one of a list of values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    key: String,
    values: Vec<String>,
    /// Asterisks and question marks in the values are patterns.
    like: bool,
    /// Each of the request's values must match. It also holds if there are none.
    all: bool,
}

impl Condition {
    fn holds(&self, context: &Context) -> bool {
        let fits = |said: &String| {
            let mut values = self.values.iter();
            values.any(|value| value == said || self.like && matches(value, said))
        };
        match context.get(&self.key) {
            None => self.all,
            Some(said) if self.all => said.iter().all(fits),
            Some(said) => said.iter().any(fits),
        }
    }
}

impl Allowed {
    /// Whether it allows this action on this resource, if the request names one, in this context.
    #[must_use]
    pub fn covers(&self, action: &str, resource: Option<&str>, context: &Context) -> bool {
        matches(&self.action.to_lowercase(), &action.to_lowercase())
            && resource.is_none_or(|resource| matches(&self.resource, resource))
            && self.conditions.iter().all(|one| one.holds(context))
    }
}

/// Everything that the statements of a policy document allow, as single actions on single resources.
///
/// # Errors
/// The part of the document that is not supported: a denial, a condition that does not compare texts, and anything
/// but a list of actions on a list of resources.
pub(super) fn allowed(document: &Value) -> Result<Vec<Allowed>, String> {
    let mut all = Vec::new();
    for statement in list(&document["Statement"]) {
        if statement["Effect"] != "Allow" {
            return Err(format!("{statement} is not understood locally"));
        }
        let (actions, resources) = (texts(&statement["Action"])?, texts(&statement["Resource"])?);
        if actions.is_empty() || resources.is_empty() {
            return Err(format!("{statement} is not understood locally"));
        }
        let conditions = conditions(&statement["Condition"])?;
        for resource in &resources {
            all.extend(actions.iter().map(|action| Allowed {
                action: action.clone(),
                resource: resource.clone(),
                conditions: conditions.clone(),
            }));
        }
    }
    Ok(all)
}

fn conditions(said: &Value) -> Result<Vec<Condition>, String> {
    let mut all = Vec::new();
    for (operator, compared) in said.as_object().into_iter().flatten() {
        if operator == "Null" {
            for (key, absent) in compared.as_object().into_iter().flatten() {
                if absent != "false" {
                    return Err(format!("{said} is not understood locally"));
                }
                // Any value will do, but there must be one.
                all.push(Condition {
                    key: key.clone(),
                    values: vec!["*".to_owned()],
                    like: true,
                    all: false,
                });
            }
            continue;
        }
        let name = operator.strip_prefix("ForAllValues:");
        let like = match name.unwrap_or(operator) {
            "StringLike" => true,
            // true and false are texts here.
            "StringEquals" | "Bool" => false,
            _ => {
                return Err(format!(
                    "the condition {operator} is not understood locally"
                ));
            }
        };
        for (key, values) in compared.as_object().into_iter().flatten() {
            all.push(Condition {
                key: key.clone(),
                values: texts(values)?,
                like,
                all: name.is_some(),
            });
        }
    }
    Ok(all)
}

/// A text or a list of texts, as everywhere in `IAM`.
pub(super) fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    }
}

pub(super) fn texts(value: &Value) -> Result<Vec<String>, String> {
    let text = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| format!("{value} is no text"))
    };
    list(value).into_iter().map(text).collect()
}

/// Whether a text matches a pattern, in which `*` matches any text and `?` any character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let mut characters = pattern.chars();
    match characters.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = characters.as_str();
            text.char_indices()
                .map(|(at, _)| &text[at..])
                .chain([""])
                .any(|tail| matches(rest, tail))
        }
        Some(expected) => {
            let mut found = text.chars();
            found
                .next()
                .is_some_and(|found| expected == '?' || found == expected)
                && matches(characters.as_str(), found.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pattern_is_text_with_gaps() {
        for (pattern, text) in [
            ("a:table/T", "a:table/T"),
            ("a:table/T*", "a:table/T"),
            ("a:execution:stack-*:*", "a:execution:stack-one:x:y"),
            ("a?c", "abc"),
            ("*", ""),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a:table/T", "a:table/T/index/held"),
            ("a:table/T/index/held", "a:table/T"),
            ("a:stateMachine:stack-*", "a:stateMachine:stacks-one"),
            ("a?c", "ac"),
            ("A", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    fn context(key: &str, said: &[&str]) -> Context {
        let said = said.iter().map(|said| (*said).to_owned()).collect();
        Context::from([(key.to_owned(), said)])
    }

    #[test]
    fn statement_pairs_actions_with_resources() {
        let document = json!({"Statement": [
            {"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": ["a", "b*"]},
            {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*", "Condition": {"StringEquals": {"x": "y"}}},
        ]});
        let all = allowed(&document).unwrap();
        assert_eq!(all.len(), 5, "{all:?}");
        let (none, y) = (Context::new(), context("x", &["y"]));
        assert!(all[0].covers("dynamodb:getitem", Some("a"), &none));
        assert!(!all[0].covers("dynamodb:PutItem", Some("a"), &none));
        assert!(!all[0].covers("dynamodb:GetItem", Some("b"), &none));
        assert!(all[2].covers("dynamodb:GetItem", None, &none));
        assert!(all[4].covers("kms:Decrypt", Some("key"), &y));
        assert!(!all[4].covers("kms:Decrypt", Some("key"), &none));
    }

    #[test]
    fn for_all_values_holds_for_none() {
        let key = "dynamodb:LeadingKeys";
        let condition = json!({"ForAllValues:StringLike": {key: ["a/*", "b"]}});
        let [condition] = &conditions(&condition).unwrap()[..] else {
            panic!("one");
        };
        for (said, holds) in [
            (&["a/1", "b"][..], true),
            (&["a/1", "c"], false),
            (&["b/1"], false),
        ] {
            assert_eq!(condition.holds(&context(key, said)), holds, "{said:?}");
        }
        assert!(
            condition.holds(&Context::new()),
            "as a Scan, which has none"
        );
    }

    #[test]
    fn team_needs_leading_key() {
        let template = include_str!("../../../examples/teams/template.yaml");
        let parts: Vec<_> = template.split("ForAllValues:").skip(1).collect();
        assert!(!parts.is_empty());
        for part in parts {
            let said = part.lines().nth(2).unwrap_or_default().trim();
            assert_eq!(said, r#""Null": {"dynamodb:LeadingKeys": "false"}"#);
        }
        let key = "dynamodb:LeadingKeys";
        let condition = json!({"ForAllValues:StringLike": {key: ["a/*"]}, "Null": {key: "false"}});
        let all = conditions(&condition).unwrap();
        let holds = |context: &Context| all.iter().all(|one| one.holds(context));
        assert!(holds(&context(key, &["a/1"])));
        assert!(!holds(&context(key, &["b/1"])));
        assert!(!holds(&Context::new()), "as a Scan, which has none");
        assert!(!holds(&context(key, &[])));
        let absent = json!({"Null": {key: "true"}});
        assert!(conditions(&absent).is_err());
    }

    #[test]
    fn operators_policy_requires_second_factor() {
        let policy = include_str!("../../../examples/operators/policy.json");
        let all = allowed(&serde_json::from_str(policy).unwrap()).unwrap();
        let may = |action: &str, resource: &str, context: &Context| {
            let mut all = all.iter();
            all.any(|one| one.covers(action, Some(resource), context))
        };
        let table = "arn:aws:dynamodb:us-east-1:123456789012:table/leasehold-LeaseTable-1ABC";
        let function =
            "arn:aws:lambda:us-east-1:123456789012:function:leasehold-OperateFunction-1ABC";
        let mfa = "aws:MultiFactorAuthPresent";
        for (action, resource) in [
            ("lambda:InvokeFunction", function),
            ("dynamodb:UpdateItem", table),
        ] {
            assert!(may(action, resource, &context(mfa, &["true"])), "{action}");
            // Requests with long-lived keys do not have this key.
            for context in [Context::new(), context(mfa, &["false"])] {
                assert!(!may(action, resource, &context), "{action} {context:?}");
            }
        }
    }

    /// A name that begins with the stack's name and a hyphen may be another stack's.
    #[test]
    fn operators_policy_reaches_one_stack() {
        let policy = include_str!("../../../examples/operators/policy.json");
        let all = allowed(&serde_json::from_str(policy).unwrap()).unwrap();
        let mfa = context("aws:MultiFactorAuthPresent", &["true"]);
        for (action, service, resource) in [
            (
                "cloudformation:DescribeStacks",
                "cloudformation",
                "stack/STACK/1a-2b",
            ),
            (
                "lambda:InvokeFunction",
                "lambda",
                "function:STACK-InspectFunction-1ABC",
            ),
            (
                "lambda:InvokeFunction",
                "lambda",
                "function:STACK-OperateFunction-1ABC",
            ),
            (
                "logs:FilterLogEvents",
                "logs",
                "log-group:/aws/lambda/STACK-acquire:*",
            ),
            (
                "states:DescribeExecution",
                "states",
                "execution:STACK-with-lease:one",
            ),
            (
                "states:DescribeExecution",
                "states",
                "execution:STACK_leasing_mine:one",
            ),
            (
                "states:ListExecutions",
                "states",
                "stateMachine:STACK-with-lease",
            ),
            (
                "states:StopExecution",
                "states",
                "execution:STACK-with-lease:one",
            ),
            (
                "dynamodb:UpdateItem",
                "dynamodb",
                "table/STACK-LeaseTable-1ABC",
            ),
        ] {
            let of = |stack: &str| {
                let resource = resource.replace("STACK", stack);
                let arn = format!("arn:aws:{service}:us-east-1:123456789012:{resource}");
                all.iter().any(|one| one.covers(action, Some(&arn), &mfa))
            };
            assert!(of("leasehold"), "{action} {resource}");
            assert!(!of("leasehold-prod"), "{action} {resource}");
        }
    }

    #[test]
    fn data_events_select_functions_and_table() {
        let selectors = include_str!("../../../examples/operators/cloudtrail-data-events.json");
        let selectors: Vec<Value> = serde_json::from_str(selectors).unwrap();
        let named = selectors.iter().map(|selector| {
            let [category, kind, arn] = list(&selector["FieldSelectors"])[..] else {
                panic!("{selector}");
            };
            assert_eq!(
                *category,
                json!({"Field": "eventCategory", "Equals": ["Data"]})
            );
            assert_eq!(
                (&kind["Field"], &arn["Field"]),
                (&json!("resources.type"), &json!("resources.ARN"))
            );
            assert!(
                arn["StartsWith"][0]
                    .as_str()
                    .unwrap()
                    .contains("leasehold-")
            );
            kind["Equals"][0].as_str().unwrap()
        });
        let named: Vec<_> = named.collect();
        assert_eq!(named, ["AWS::Lambda::Function", "AWS::DynamoDB::Table"]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for statement in [
            json!({"Effect": "Deny", "Action": "a:B", "Resource": "*"}),
            json!({"Effect": "Allow", "NotAction": "a:B", "Resource": "*"}),
            json!({"Effect": "Allow", "Action": "a:B", "NotResource": "*"}),
            json!({"Effect": "Allow", "Action": [{"Ref": "x"}], "Resource": "*"}),
            json!({"Effect": "Allow", "Action": "a:B", "Resource": "*", "Condition": {"DateLessThan": {"aws:CurrentTime": "x"}}}),
        ] {
            assert!(allowed(&json!({"Statement": statement})).is_err());
        }
    }
}
