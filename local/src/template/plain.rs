//! YAML with `CloudFormation`'s short tags, turned into JSON with their long forms.

use serde_json::{Map, Value, json};
use yaml_serde::Value as Yaml;

/// `!Ref x` becomes `{"Ref": "x"}`, `!GetAtt a.b` becomes `{"Fn::GetAtt": ["a", "b"]}`, and so on; everything
/// else stays what it is. Keys that are not text (there are none in a sound template) become text.
pub(super) fn json(yaml: Yaml) -> Value {
    match yaml {
        Yaml::Null => Value::Null,
        Yaml::Bool(bool) => Value::Bool(bool),
        Yaml::Number(number) => number
            .as_i64()
            .map(Value::from)
            .or_else(|| number.as_u64().map(Value::from))
            .or_else(|| number.as_f64().map(Value::from))
            .unwrap_or_default(),
        Yaml::String(text) => Value::String(text),
        Yaml::Sequence(items) => Value::Array(items.into_iter().map(json).collect()),
        Yaml::Mapping(entries) => Value::Object(
            entries
                .into_iter()
                .map(|(key, value)| (text(key), json(value)))
                .collect(),
        ),
        Yaml::Tagged(tagged) => {
            let tag = tagged.tag.to_string();
            let name = tag.trim_start_matches('!');
            let long = match name {
                "Ref" | "Condition" => name.to_owned(),
                _ => format!("Fn::{name}"),
            };
            let value = match (name, json(tagged.value)) {
                ("GetAtt", Value::String(path)) => {
                    let (resource, attribute) = path.split_once('.').unwrap_or((&path, ""));
                    json!([resource, attribute])
                }
                (_, value) => value,
            };
            Value::Object(Map::from_iter([(long, value)]))
        }
    }
}

fn text(key: Yaml) -> String {
    match json(key) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
