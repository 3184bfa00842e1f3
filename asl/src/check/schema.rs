//! The requests of the functions by their generated JSON schemas, as far as a definition writes them out: what is computed may be anything.

use crate::expr::Language;
use crate::read::error_names::nearest;
use crate::read::node::{Node, Value as Written};
use crate::read::shape::{is_computed_whole, is_open};
use serde_json::Value;
use std::sync::LazyLock;

/// The request of a function.
#[derive(Debug)]
pub(crate) struct Schema {
    function: &'static str,
    root: Value,
}

impl Schema {
    fn of(function: &'static str, text: &str) -> Self {
        let root = serde_json::from_str(text).unwrap_or_default();
        Self { function, root }
    }
}

macro_rules! schemas {
    ($($name:ident $function:literal)*) => {$(
        pub(crate) static $name: LazyLock<Schema> = LazyLock::new(|| {
            Schema::of($function, include_str!(concat!("../../../docs/reference/schemas/", $function, ".event.json")))
        });
    )*};
}
schemas! { ACQUIRE "acquire" EXTEND "extend" RELEASE "release" }

/// What is wrong with a value, and where.
pub(crate) type Fault<'a> = (&'a Node, String);

impl Schema {
    /// Whether the function has such a field.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.root["properties"].get(field).is_some()
    }

    /// What the function refuses of a payload that is written out.
    pub(crate) fn faults<'a>(&self, payload: &'a Node, language: Language) -> Vec<Fault<'a>> {
        let mut walk = Walk {
            schema: self,
            language,
            found: Vec::new(),
        };
        walk.object(&self.root, payload, "");
        walk.found
    }
}

struct Walk<'s, 'a> {
    schema: &'s Schema,
    language: Language,
    found: Vec<Fault<'a>>,
}

impl<'a> Walk<'_, 'a> {
    fn say(&mut self, node: &'a Node, what: &str) {
        self.found.push((node, format!("{what}: Lease.Invalid")));
    }

    fn value(&mut self, schema: &Value, node: &'a Node, name: &str) {
        let schema = self.meant(schema);
        if is_open(node, self.language) {
            return;
        }
        let expected = expected(&schema);
        let fits = match (&node.value, schema["type"].as_str()) {
            (Written::Number(number), Some("integer")) => number.fract() == 0.0,
            (Written::Number(_), Some("number"))
            | (Written::Text(_), Some("string"))
            | (Written::Bool(_), Some("boolean"))
            | (Written::List(_), Some("array"))
            | (Written::Object(_), Some("object"))
            | (_, None) => true,
            _ => false,
        };
        let fits = fits && is_within(&schema, node);
        if !fits {
            let shown = node.shown();
            self.say(node, &format!("has {name} {shown}, and expects {expected}"));
            return;
        }
        match &node.value {
            Written::Object(_) => self.object(&schema, node, name),
            Written::List(items) => {
                for item in items {
                    self.value(&schema["items"], item, name);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, schema: &Value, node: &'a Node, within: &str) {
        let function = self.schema.function;
        let members = node.members();
        let is_whole = !members.iter().any(|member| is_computed_whole(&member.key));
        let place = |name: &str| match within {
            "" => name.to_owned(),
            _ => format!("{within}.{name}"),
        };
        for member in members {
            let name = member.name();
            if is_computed_whole(name) {
                continue;
            }
            let known = &schema["properties"];
            if let Some(schema) = known.get(name) {
                // What is false there goes with no other field, which is said with its reason.
                if member.key == name && *schema != Value::Bool(false) {
                    self.value(schema, &member.value, &place(name));
                }
            } else if schema["additionalProperties"] == Value::Bool(false) {
                let names = known.as_object().into_iter().flatten();
                let near = nearest(names.map(|(name, _)| name.as_str()), name, 3);
                let near = near.map_or_else(String::new, |near| format!("; {near}?"));
                let owner = if within.is_empty() { function } else { within };
                let what =
                    format!("has {name}, and {owner} has no such field: Lease.Invalid{near}");
                self.found.push((&member.value, what));
            } else if member.key == name && schema["additionalProperties"].is_object() {
                self.value(&schema["additionalProperties"], &member.value, &place(name));
            }
        }
        if is_whole {
            self.required(schema, node, within);
        }
    }

    fn required(&mut self, schema: &Value, node: &'a Node, within: &str) {
        let owner = match within {
            "" => self.schema.function,
            _ => within,
        };
        for name in names(&schema["required"]) {
            if node.field(name).is_none() {
                self.say(node, &format!("has no {name}, which {owner} needs"));
            }
        }
        let one_of = schema["oneOf"].as_array().into_iter().flatten();
        let one_of: Vec<&str> = one_of.flat_map(|one| names(&one["required"])).collect();
        let given = one_of.iter().filter(|name| node.field(name).is_some());
        if !one_of.is_empty() && given.count() == 0 {
            let what = format!("has no {}, which {owner} needs", one_of.join(" or "));
            self.say(node, &what);
        }
        let branch = match holds(&schema["if"], node) {
            Some(true) => &schema["then"],
            Some(false) => &schema["else"],
            None => &Value::Null,
        };
        for name in names(&branch["required"]) {
            if node.field(name).is_none() {
                self.say(node, &format!("has no {name}, which {owner} needs"));
            }
        }
    }

    /// The schema that a reference names.
    fn meant(&self, schema: &Value) -> Value {
        let reference = schema["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
        let meant = reference.and_then(|to| self.schema.root.pointer(to));
        meant.unwrap_or(schema).clone()
    }
}

/// Whether a condition of the schema holds; none if that is computed.
fn holds(schema: &Value, node: &Node) -> Option<bool> {
    let any = |of: &Value| {
        let mut open = false;
        for one in of.as_array().into_iter().flatten() {
            match holds(one, node) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => open = true,
            }
        }
        (!open).then_some(false)
    };
    if !schema.is_object() {
        return None;
    }
    if !names(&schema["required"]).all(|name| node.field(name).is_some()) {
        return Some(false);
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        let (Some(wanted), Some(field)) = (of["const"].as_str(), node.field(name)) else {
            continue;
        };
        if field.expr().is_some() {
            return None;
        }
        if field.text() != Some(wanted) {
            return Some(false);
        }
    }
    if schema["anyOf"].is_array() {
        return any(&schema["anyOf"]);
    }
    Some(true)
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The words of which it is one.
fn words(schema: &Value) -> Vec<&str> {
    let one_of = schema["oneOf"].as_array().into_iter().flatten();
    one_of.filter_map(|one| one["const"].as_str()).collect()
}

fn is_within(schema: &Value, node: &Node) -> bool {
    let at_least = |name: &str, size: f64| schema[name].as_f64().is_none_or(|least| size >= least);
    let at_most = |name: &str, size: f64| schema[name].as_f64().is_none_or(|most| size <= most);
    #[expect(
        clippy::cast_precision_loss,
        reason = "no text of a definition is that long"
    )]
    match &node.value {
        Written::Number(number) => at_least("minimum", *number) && at_most("maximum", *number),
        Written::Text(text) => {
            let words = words(schema);
            at_least("minLength", text.len() as f64)
                && at_most("maxLength", text.len() as f64)
                && (words.is_empty() || words.contains(&text.as_str()))
        }
        Written::List(items) => {
            at_least("minItems", items.len() as f64) && at_most("maxItems", items.len() as f64)
        }
        _ => true,
    }
}

/// What is expected, in words.
fn expected(schema: &Value) -> String {
    let words = words(schema);
    if !words.is_empty() {
        let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        return words.join(" or ");
    }
    let number = |name: &str| schema[name].as_u64();
    let within = match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        _ => String::new(),
    };
    match schema["type"].as_str() {
        Some("integer") => format!("a whole number{within}"),
        Some("number") => format!("a number{within}"),
        Some("string") => match number("maxLength") {
            Some(most) => format!("a text of at most {most} bytes, which is not empty"),
            None => "a text".to_owned(),
        },
        Some("boolean") => "true or false".to_owned(),
        Some("array") => "a list".to_owned(),
        _ => "an object".to_owned(),
    }
}
