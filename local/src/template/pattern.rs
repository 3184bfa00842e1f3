//! Event patterns of rules and event source mappings: the part of the language that the templates here use.
//! Anything else in a pattern is refused when it is read, because ignoring it would deliver other events than AWS.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::policy;

/// A pattern that is understood in all its parts.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Value);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The part that is no pattern, is not supported here, or would be refused by the service, and its place.
    pub(crate) fn read(pattern: &Value) -> Result<Self, String> {
        check(pattern, "")?;
        let mut wildcards = BTreeMap::new();
        collect(pattern, "", &mut wildcards);
        if let Some(place) = wildcards
            .iter()
            .find_map(|(place, wildcards)| is_complex(wildcards).then_some(place))
        {
            return Err(format!(
                "{place}: Rule is too complex - try using fewer wildcard characters"
            ));
        }
        Ok(Self(pattern.clone()))
    }

    /// Whether the event matches the pattern.
    pub(crate) fn matches(&self, event: &Value) -> bool {
        matches(&self.0, Some(event))
    }
}

/// Of several patterns one has to match.
const OR: &str = "$or";

/// How many wildcards one text may have under way at the same instant. The service's own matcher counts them so; a rule of nine
/// was taken, and one of twelve refused.
const COMPLEXITY: usize = 10;

/// The wildcards of each member, whichever of several patterns they are in.
fn collect<'a>(pattern: &'a Value, place: &str, found: &mut BTreeMap<String, Vec<&'a str>>) {
    for (name, member) in pattern.as_object().into_iter().flatten() {
        let inside = format!("{place}.{name}");
        match member {
            Value::Array(patterns) if name == OR => {
                for one in patterns {
                    collect(one, place, found);
                }
            }
            Value::Array(tests) => {
                let wildcards = tests.iter().filter_map(|test| test["wildcard"].as_str());
                found.entry(inside).or_default().extend(wildcards);
            }
            member => collect(member, &inside, found),
        }
    }
}

/// Whether some text is, after some of its characters, at more than [`COMPLEXITY`] places of these wildcards.
fn is_complex(wildcards: &[&str]) -> bool {
    let wildcards: Vec<Vec<char>> = wildcards.iter().map(|one| one.chars().collect()).collect();
    // At an asterisk, a text is before and behind it at once.
    let settled = |mut places: BTreeSet<(usize, usize)>| {
        for (one, at) in places.clone() {
            if wildcards[one].get(at) == Some(&'*') {
                places.insert((one, at + 1));
            }
        }
        places
    };
    let characters: BTreeSet<char> = wildcards.iter().flatten().copied().collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![settled((0..wildcards.len()).map(|one| (one, 0)).collect())];
    while let Some(places) = open.pop() {
        if places.len() > COMPLEXITY {
            return true;
        }
        for next in &characters {
            let moved = places.iter().filter_map(|(one, at)| {
                let here = wildcards[*one].get(*at)?;
                match here {
                    '*' => Some((*one, *at)),
                    here => (here == next).then_some((*one, at + 1)),
                }
            });
            let moved = settled(moved.collect());
            if !moved.is_empty() && seen.insert(moved.clone()) {
                open.push(moved);
            }
        }
    }
    false
}

fn check(pattern: &Value, place: &str) -> Result<(), String> {
    let members = pattern.as_object().filter(|members| !members.is_empty());
    let members =
        members.ok_or_else(|| format!("{place}: {pattern} is not an object with members"))?;
    for (name, member) in members {
        let place = format!("{place}.{name}");
        match member {
            Value::Array(patterns) if name == OR && patterns.len() > 1 => {
                patterns
                    .iter()
                    .try_for_each(|pattern| check(pattern, &place))?;
            }
            _ if name.starts_with('$') => {
                return Err(format!("{place}: {name} is not understood locally"));
            }
            Value::Array(tests) if !tests.is_empty() => {
                if let Some(test) = tests.iter().find(|test| !is_known(test)) {
                    return Err(format!("{place}: {test} is not understood locally"));
                }
            }
            member => check(member, &place)?,
        }
    }
    Ok(())
}

fn is_known(test: &Value) -> bool {
    match test {
        Value::Array(_) => false,
        Value::Object(operator) => match operator.iter().next() {
            Some((name, Value::Bool(_))) => operator.len() == 1 && name == "exists",
            Some((name, Value::Array(bound))) => {
                let above = |bound: &[Value]| bound[0] == ">" && bound[1].is_number();
                operator.len() == 1 && name == "numeric" && bound.len() == 2 && above(bound)
            }
            // An asterisk matches any text, even the empty one. A question mark has no meaning here.
            Some((name, Value::String(wanted))) if operator.len() == 1 => {
                let plain = !wanted.contains(['\\', '?']) && !wanted.contains("**");
                name == "prefix" || name == "wildcard" && plain
            }
            _ => false,
        },
        _ => true,
    }
}

/// All members have to match, and of the tests of one member one.
fn matches(pattern: &Value, value: Option<&Value>) -> bool {
    match pattern {
        Value::Object(members) => members.iter().all(|(name, member)| match member {
            Value::Array(patterns) if name == OR => patterns.iter().any(|one| matches(one, value)),
            member => matches(member, value.and_then(|value| value.get(name))),
        }),
        Value::Array(tests) => tests.iter().any(|test| holds(test, value)),
        _ => false,
    }
}

fn holds(test: &Value, value: Option<&Value>) -> bool {
    // Only a leaf exists in this sense, not an object.
    let leaf = value.filter(|value| !value.is_object());
    if let Some(wanted) = test["exists"].as_bool() {
        return wanted == leaf.is_some();
    }
    if let Some(bound) = test["numeric"][1].as_f64() {
        return leaf
            .and_then(Value::as_f64)
            .is_some_and(|found| found > bound);
    }
    match leaf {
        None => false,
        // One element of a list is enough.
        Some(Value::Array(items)) => items.iter().any(|item| holds(test, Some(item))),
        Some(Value::String(found)) if test.is_object() => {
            let begins = test["prefix"].as_str();
            let matched = test["wildcard"].as_str();
            begins.is_some_and(|begin| found.starts_with(begin))
                || matched.is_some_and(|pattern| policy::matches(pattern, found))
        }
        Some(found) => test == found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(pattern: &Value, event: &Value) -> bool {
        Pattern::read(pattern).unwrap().matches(event)
    }

    #[test]
    fn all_members_match_by_any_test() {
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
    fn of_several_patterns_one_is_enough() {
        let pattern = json!({"a": {"b": ["x"], "$or": [{"c": ["y"], "d": ["z"]}, {"c": ["w"]}]}});
        for (b, c, d, wanted) in [
            ("x", "y", "z", true),
            ("x", "w", "v", true),
            ("x", "y", "v", false),
            ("v", "w", "z", false),
        ] {
            let event = json!({"a": {"b": b, "c": c, "d": d}});
            assert_eq!(matches(&pattern, &event), wanted, "{event}");
        }
    }

    #[test]
    fn a_number_is_above_a_bound() {
        let pattern = json!({"a": [{"numeric": [">", 0]}]});
        for (value, fits) in [
            (json!(1), true),
            (json!(0), false),
            (json!(null), false),
            (json!("1"), false),
        ] {
            assert_eq!(matches(&pattern, &json!({"a": value})), fits, "{value}");
        }
    }

    #[test]
    fn what_exists_is_a_leaf() {
        let there = json!({"dynamodb": {"NewImage": {"seal": {"B": [{"exists": true}]}}}});
        let image = |image: Value| json!({"dynamodb": {"NewImage": image}});
        assert!(matches(&there, &image(json!({"seal": {"B": "YQ=="}}))));
        assert!(!matches(&there, &image(json!({"seal": {"N": "1"}}))));
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
    fn a_prefix_is_a_beginning() {
        let pattern = json!({"a": [{"prefix": "one:"}, "two"]});
        for (text, wanted) in [
            ("one:", true),
            ("one:a", true),
            ("one", false),
            ("two", true),
        ] {
            assert_eq!(matches(&pattern, &json!({"a": text})), wanted, "{text}");
        }
        assert!(!matches(&pattern, &json!({"a": 1})));
    }

    #[test]
    fn a_complex_pattern_is_refused() {
        let named = |count: usize| -> Vec<Value> {
            let names = (0..count).map(|name| json!({"wildcard": format!("arn:name{name}*")}));
            names.collect()
        };
        let in_two = |count: usize| {
            let (one, two) = (named(count), named(2));
            json!({"detail": {"$or": [{"s": ["x"], "arn": one}, {"arn": two, "s": ["y"]}]}})
        };
        for (pattern, is_taken) in [
            (json!({"arn": named(10)}), true),
            (json!({"arn": named(11)}), false),
            (in_two(8), true),
            (in_two(9), false),
            (json!({"arn": named(9), "other": named(9)}), true),
            (
                json!({"arn": [{"wildcard": "a*a*a*a*a*b"}, {"wildcard": "*a*a*a*a*a*c"}]}),
                false,
            ),
            (json!({"arn": vec![json!({"prefix": "arn"}); 50]}), true),
        ] {
            assert_eq!(Pattern::read(&pattern).is_ok(), is_taken, "{pattern}");
        }
    }

    #[test]
    fn unknown_pattern_is_refused_not_ignored() {
        for pattern in [
            json!({"a": [{"numeric": ["<", 1]}]}),
            json!({"a": [{"prefix": {"equals-ignore-case": "b"}}]}),
            json!({"a": [{"exists": true, "wildcard": "b"}]}),
            json!({"a": [{"wildcard": "a\\*"}]}),
            json!({"a": [{"wildcard": "a?"}]}),
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
