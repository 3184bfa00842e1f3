//! docs/reference/api.md tells of each function the fields that its schemas have, and no others.

use std::collections::BTreeSet;

use leasehold_proof::root;
use serde_json::Value;

use super::SCHEMAS;

/// Each function, and the heading under which the page has it.
const FUNCTIONS: [(&str, &str); 8] = [
    ("acquire", "acquire"),
    ("extend", "extend and release"),
    ("inspect", "inspect"),
    ("operate", "operate"),
    ("reap", "reap"),
    ("release", "extend and release"),
    ("start", "start"),
    ("sweep", "sweep"),
];

/// The fields of events of AWS, and of what its queues are answered.
const OF_AWS: [&str; 4] = ["Records", "batchItemFailures", "detail", "detail-type"];

type Names = BTreeSet<String>;

fn section(heading: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/reference/api.md")).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap_or((rest, ""));
    section.to_owned()
}

/// What stands between back-quotes.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the section's tables with this first heading, as cells.
fn rows<'a>(section: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let head = format!("| {heading} |");
    let tables = section.split("\n\n").filter(|part| part.starts_with(&head));
    let rows = tables.flat_map(|table| table.lines().skip(2));
    rows.map(|row| row.split('|').skip(1).map(str::trim).collect())
        .collect()
}

/// The names of the fields of an object in JSON, of which some have no value.
fn keys(json: &str) -> impl Iterator<Item = &str> {
    let quoted = json.split('"').enumerate().filter(|(n, _)| n % 2 == 1);
    let before = |n| json.split('"').nth(n - 1).unwrap().trim_end();
    let names = quoted.filter(move |(n, _)| !before(*n).ends_with(':'));
    names.map(|(_, name)| name)
}

/// What the schema is made of: itself, what it refers to, and its alternatives.
fn parts<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let place = schema["$ref"].as_str();
    let referred = place.and_then(|place| root.pointer(place.trim_start_matches('#')));
    let alternatives = ["oneOf", "anyOf"]
        .into_iter()
        .filter_map(|kind| schema[kind].as_array());
    let below = referred.into_iter().chain(alternatives.flatten());
    let below = below.chain(schema.get("else"));
    let below = below.flat_map(|part| parts(root, part));
    [schema].into_iter().chain(below).collect()
}

/// The fields, each with its schema.
fn fields(name: &str) -> Vec<(&String, &Value)> {
    let schema = &SCHEMAS[name];
    let parts = parts(schema, schema).into_iter();
    let fields = parts.filter_map(|part| part["properties"].as_object());
    fields.flatten().collect()
}

fn names(schema: &str) -> Names {
    let names = fields(schema).into_iter().map(|(name, _)| name.clone());
    names.filter(|name| !OF_AWS.contains(&&**name)).collect()
}

/// The texts that a field may be.
fn choices(schema: &str, field: &str) -> Names {
    let fields = fields(schema).into_iter();
    let values = fields.filter(|(name, _)| *name == field);
    let parts = values.flat_map(|(_, value)| parts(&SCHEMAS[schema], value));
    let one = parts.flat_map(|part| {
        part["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .chain(part.get("const"))
    });
    one.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn page_names_every_field_and_outcome() {
    for (function, heading) in FUNCTIONS {
        let section = section(heading);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let named = set(code(&section).flat_map(|code| code.split(|c| !is_name(c))));
        for schema in [format!("{function}.event"), format!("{function}.answer")] {
            let mut expected = names(&schema);
            expected.extend(choices(&schema, "outcome"));
            let missing: Vec<_> = expected.difference(&named).collect();
            assert!(
                missing.is_empty(),
                "{heading} tells nothing of {missing:?} in {schema}"
            );
        }
    }
}

#[test]
fn field_tables_match_schemas() {
    for (function, heading) in FUNCTIONS {
        let (event, answer) = (format!("{function}.event"), format!("{function}.answer"));
        let section = section(heading);
        let of_other = |field: &&Vec<&str>| {
            let (_, of) = field[0].split_once('(').unwrap_or_default();
            !of.is_empty() && !of.starts_with(function)
        };
        let table = rows(&section, "field");
        let table: Vec<_> = table.iter().filter(|field| !of_other(field)).collect();
        let first = |row: &[&'_ str]| code(row[0]).next().unwrap().to_owned();
        if !table.is_empty() {
            let told: Names = table.iter().map(|row| first(row)).collect();
            assert_eq!(told, names(&event), "{heading}");
        }
        for row in table {
            limits_are_told(&event, &first(row), row[1]);
        }
        let told: Names = rows(&section, "response")
            .iter()
            .map(|row| first(row))
            .collect();
        assert!(told.is_subset(&names(&answer)), "{heading}: {told:?}");
        for answered in code(&section).filter(|code| code.starts_with("{\"outcome\"")) {
            let told = set(keys(answered));
            assert!(told.is_subset(&names(&answer)), "{heading}: {answered}");
        }
        for row in rows(&section, "request") {
            let told = set(code(row[0]).flat_map(keys));
            assert!(told.is_subset(&names(&event)), "{heading}: {told:?}");
        }
    }
}

/// The bounds and the choices of a field, as its table has them.
fn limits_are_told(event: &str, field: &str, told: &str) {
    let of_field = fields(event).into_iter().filter(|(name, _)| *name == field);
    let parts: Vec<_> = of_field
        .flat_map(|(_, value)| parts(&SCHEMAS[event], value))
        .collect();
    let number = |text: &str| -> Option<f64> {
        text.trim_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .ok()
    };
    let range = told.split_whitespace().find_map(|word| {
        let (least, most) = word.split_once('–')?;
        Some((number(least)?, number(most)?))
    });
    let bounds = [
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
    ];
    if let Some((least, most)) = range {
        let is_told = |part: &&Value| {
            bounds.iter().any(|(from, to)| {
                (part[from].as_f64(), part[to].as_f64()) == (Some(least), Some(most))
            })
        };
        assert!(parts.iter().any(is_told), "{event} {field}: {told}");
    }
    let texts = set(code(told).filter_map(|code| code.strip_prefix('"')?.strip_suffix('"')));
    if !texts.is_empty() {
        assert_eq!(texts, choices(event, field), "{event} {field}");
    }
}

#[test]
fn each_operation_has_its_row() {
    let section = section("operate");
    let rows = rows(&section, "`operation`");
    let operations = set(rows.iter().flat_map(|row| code(row[0])));
    assert_eq!(operations, choices("operate.event", "operation"));
    let mut told = set(rows.iter().flat_map(|row| code(row[1])));
    told.extend(["operation", "key", "pool", "who", "why"].map(str::to_owned));
    assert_eq!(told, names("operate.event"));
    let outcomes = set(rows.iter().flat_map(|row| code(row[3])));
    let mut expected = names("operate.answer");
    expected.remove("outcome");
    expected.extend(choices("operate.answer", "outcome"));
    assert_eq!(outcomes, expected);
}
