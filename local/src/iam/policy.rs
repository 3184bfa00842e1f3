//! What a role may do, as its policies say it.

use serde_json::Value;

use super::Asked;

/// One action on one resource that a role is allowed, as the policy spells them: either may have asterisks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowed {
    /// `dynamodb:UpdateItem`.
    pub action: String,
    /// An ARN.
    pub resource: String,
}

impl Allowed {
    /// Whether it allows what was asked for.
    #[must_use]
    pub fn allows(&self, asked: &Asked) -> bool {
        self.covers(&asked.action, asked.resource.as_deref())
    }

    pub(super) fn covers(&self, action: &str, resource: Option<&str>) -> bool {
        matches(&self.action.to_lowercase(), &action.to_lowercase())
            && resource.is_none_or(|resource| matches(&self.resource, resource))
    }
}

/// Everything that the statements of a policy document allow, taken apart.
///
/// A statement that applies on a condition allows nothing here, since nobody here can tell whether it holds.
///
/// # Errors
/// What is in the document that is not understood: a denial, and everything but a list of actions on a list of resources.
pub(crate) fn allowed(document: &Value) -> Result<Vec<Allowed>, String> {
    let mut all = Vec::new();
    for statement in list(&document["Statement"]) {
        if statement["Effect"] != "Allow" {
            return Err(format!("{statement} is not understood locally"));
        }
        let (actions, resources) = (texts(&statement["Action"])?, texts(&statement["Resource"])?);
        if actions.is_empty() || resources.is_empty() {
            return Err(format!("{statement} is not understood locally"));
        }
        if !statement["Condition"].is_null() {
            continue;
        }
        for resource in &resources {
            all.extend(actions.iter().map(|action| Allowed {
                action: action.clone(),
                resource: resource.clone(),
            }));
        }
    }
    Ok(all)
}

/// One or several, as `IAM` has them everywhere.
pub(crate) fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    }
}

pub(crate) fn texts(value: &Value) -> Result<Vec<String>, String> {
    let text = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| format!("{value} is no text"))
    };
    list(value).into_iter().map(text).collect()
}

/// Whether a text is what a pattern says, in which `*` stands for any text and `?` for any character.
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
    fn a_pattern_is_a_text_with_gaps() {
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

    #[test]
    fn a_statement_allows_each_of_its_actions_on_each_of_its_resources() {
        let document = json!({"Statement": [
            {"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": ["a", "b*"]},
            {"Effect": "Allow", "Action": "kms:Decrypt", "Resource": "*", "Condition": {"StringEquals": {"x": "y"}}},
        ]});
        let all = allowed(&document).unwrap();
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all[0].covers("dynamodb:getitem", Some("a")));
        assert!(!all[0].covers("dynamodb:PutItem", Some("a")));
        assert!(!all[0].covers("dynamodb:GetItem", Some("b")));
        assert!(all[2].covers("dynamodb:GetItem", None));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for statement in [
            json!({"Effect": "Deny", "Action": "a:B", "Resource": "*"}),
            json!({"Effect": "Allow", "NotAction": "a:B", "Resource": "*"}),
            json!({"Effect": "Allow", "Action": "a:B", "NotResource": "*"}),
            json!({"Effect": "Allow", "Action": [{"Ref": "x"}], "Resource": "*"}),
        ] {
            assert!(allowed(&json!({"Statement": statement})).is_err());
        }
    }
}
