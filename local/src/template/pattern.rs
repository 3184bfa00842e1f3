//! Event patterns of rules and event source mappings: the part of the language that the templates here use.
//! Anything else in a pattern is refused when it is read, because ignoring it would deliver other events than AWS.

use serde_json::{Map, Value};

/// A pattern that has been read.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Node);

#[derive(Clone, Debug)]
enum Node {
    /// All of these members match.
    Inner(Vec<(String, Node)>),
    /// One of these matches the value.
    Leaf(Vec<Test>),
}

#[derive(Clone, Debug)]
enum Test {
    Is(Value),
    Exists(bool),
    Wildcard(String),
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The part that is no pattern, or is not supported here, and its place.
    pub(crate) fn read(pattern: &Value) -> Result<Self, String> {
        let members = pattern
            .as_object()
            .ok_or_else(|| format!("the pattern {pattern} is not an object"))?;
        inner(members, "").map(Self)
    }

    /// Whether the event matches the pattern.
    pub(crate) fn matches(&self, event: &Value) -> bool {
        self.0.matches(Some(event))
    }
}

fn inner(members: &Map<String, Value>, place: &str) -> Result<Node, String> {
    if members.is_empty() {
        return Err(format!("the pattern says nothing about {place:?}"));
    }
    let mut nodes = Vec::new();
    for (name, member) in members {
        let place = format!("{place}.{name}");
        if name.starts_with('$') {
            return Err(format!("{place}: {name} is not understood locally"));
        }
        let node = match member {
            Value::Object(members) => inner(members, &place)?,
            Value::Array(tests) if !tests.is_empty() => {
                let tests = tests.iter().map(|test| read_test(test, &place));
                Node::Leaf(tests.collect::<Result<_, _>>()?)
            }
            other => return Err(format!("{place}: {other} is neither an object nor a list")),
        };
        nodes.push((name.clone(), node));
    }
    Ok(Node::Inner(nodes))
}

fn read_test(said: &Value, place: &str) -> Result<Test, String> {
    let unknown = || format!("{place}: {said} is not understood locally");
    let Value::Object(operator) = said else {
        return match said {
            Value::Array(_) => Err(unknown()),
            plain => Ok(Test::Is(plain.clone())),
        };
    };
    let mut operators = operator.iter();
    let (Some((name, argument)), None) = (operators.next(), operators.next()) else {
        return Err(unknown());
    };
    Ok(match (name.as_str(), argument) {
        ("exists", Value::Bool(wanted)) => Test::Exists(*wanted),
        ("wildcard", Value::String(text)) if !text.contains('\\') && !text.contains("**") => {
            Test::Wildcard(text.clone())
        }
        _ => return Err(unknown()),
    })
}

impl Node {
    fn matches(&self, value: Option<&Value>) -> bool {
        match self {
            Self::Inner(members) => members
                .iter()
                .all(|(name, node)| node.matches(value.and_then(|value| value.get(name)))),
            Self::Leaf(tests) => tests.iter().any(|test| test.holds(value)),
        }
    }
}

impl Test {
    fn holds(&self, value: Option<&Value>) -> bool {
        // Only a leaf exists in this sense, not an object.
        let leaf = value.filter(|value| !value.is_object());
        match (self, leaf) {
            (Self::Exists(wanted), found) => *wanted == found.is_some(),
            (_, None) => false,
            // One element of a list is enough.
            (_, Some(Value::Array(items))) => items.iter().any(|item| self.holds(Some(item))),
            (Self::Is(wanted), Some(found)) => wanted == found,
            (Self::Wildcard(pattern), Some(found)) => {
                found.as_str().is_some_and(|text| wildcard(pattern, text))
            }
        }
    }
}

/// An asterisk matches any text, even the empty one.
fn wildcard(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(pattern: &Value, event: &Value) -> bool {
        Pattern::read(pattern).unwrap().matches(event)
    }

    #[test]
    fn every_member_has_to_match_and_one_of_its_tests_is_enough() {
        let pattern =
            json!({"source": ["aws.states"], "detail": {"status": ["FAILED", "ABORTED"]}});
        let event =
            |source, status| json!({"source": source, "detail": {"status": status, "more": 1}});
        assert!(matches(&pattern, &event("aws.states", "FAILED")));
        assert!(matches(&pattern, &event("aws.states", "ABORTED")));
        assert!(!matches(&pattern, &event("aws.states", "RUNNING")));
        assert!(!matches(&pattern, &event("aws.events", "FAILED")));
        assert!(!matches(&pattern, &json!({"source": "aws.states"})));
    }

    #[test]
    fn what_exists_is_a_leaf() {
        let there = json!({"dynamodb": {"NewImage": {"heir": {"B": [{"exists": true}]}}}});
        let image = |image: Value| json!({"dynamodb": {"NewImage": image}});
        assert!(matches(&there, &image(json!({"heir": {"B": "YQ=="}}))));
        assert!(!matches(&there, &image(json!({"heir": {"N": "1"}}))));
        assert!(!matches(&there, &image(json!({"holder": {"S": "a"}}))));
        assert!(!matches(&there, &json!({"dynamodb": {"Keys": {}}})));
        let parent = json!({"a": [{"exists": true}]});
        assert!(!matches(&parent, &json!({"a": {"b": 1}})));
        assert!(matches(&parent, &json!({"a": null})));
        let absent = json!({"a": {"b": [{"exists": false}]}});
        assert!(matches(&absent, &json!({"a": {"c": 1}})));
        assert!(!matches(&absent, &json!({"a": {"b": 1}})));
    }

    #[test]
    fn an_asterisk_matches_any_text() {
        for (wildcard, right, wrong) in [
            ("a*c", "abbc", "abcd"),
            ("a*b*c", "a-b-c", "a-c-b"),
            ("abc", "abc", "abcd"),
            ("ab*ba", "abba", "aba"),
        ] {
            let pattern = json!({"a": [{"wildcard": wildcard}]});
            assert!(matches(&pattern, &json!({"a": right})), "{pattern} {right}");
            assert!(
                !matches(&pattern, &json!({"a": wrong})),
                "{pattern} {wrong}"
            );
            assert!(!matches(&pattern, &json!({})));
        }
        assert!(matches(&json!({"a": [1, "b"]}), &json!({"a": ["x", "b"]})));
    }

    #[test]
    fn what_is_not_understood_is_refused_and_not_ignored() {
        for pattern in [
            json!({"a": [{"numeric": [">", 1]}]}),
            json!({"a": [{"prefix": "b"}]}),
            json!({"a": [{"exists": true, "wildcard": "b"}]}),
            json!({"a": [{"wildcard": "a\\*"}]}),
            json!({"$or": [{"a": ["b"]}]}),
            json!({"a": "b"}),
            json!({"a": []}),
            json!({"a": {}}),
            json!({}),
            json!("a"),
        ] {
            assert!(Pattern::read(&pattern).is_err(), "{pattern}");
        }
    }
}
