//! Pictures: their content, and that the documents' pictures match the present definitions.

use crate::{node, root, text};
use leasehold_asl::{Options, Source, draw, pictures};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

fn drawn(definition: &Value) -> String {
    draw(&node(definition), &Options::default())
}

/// A machine of one section, in which `states` replace its own.
fn section(states: &Value) -> Value {
    let call = |function: &str, payload: Value, next: &str| {
        json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 10,
            "Arguments": {"FunctionName": function, "Payload": payload},
            "Assign": {"lease": "{% $states.result.Payload.lease %}"}, "Next": next})
    };
    let handle = json!({"lease": "{% $lease %}"});
    let acquire = json!({"key": "k", "holder": "h", "request_id": "r", "ttl_seconds": 60});
    let mut all = json!({
        "Before": {"Type": "Pass", "Next": "Open"},
        "Open": call("acquire", acquire, "Work"),
        "Work": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 5, "Next": "On"},
        "On": call("extend", handle.clone(), "Look"),
        "Look": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:getItem", "TimeoutSeconds": 5, "Next": "Close"},
        "Close": call("release", handle, "After"),
        "After": {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 5, "End": true},
    });
    for (name, fields) in states.as_object().unwrap() {
        for (key, field) in fields.as_object().unwrap() {
            all[name][key] = field.clone();
        }
    }
    json!({"QueryLanguage": "JSONata", "StartAt": "Before", "States": all})
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Picture {
    definition: Option<Value>,
    section: Option<Value>,
    shows: Vec<String>,
    #[serde(default)]
    once: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
}

#[test]
fn each_picture_shows_its_lines() {
    let pictures: Vec<Picture> = yaml_serde::from_str(&text("asl/corpus/pictures.yaml")).unwrap();
    assert!(pictures.len() >= 5);
    for picture in pictures {
        let Picture {
            definition,
            section: states,
            shows,
            once,
            not,
        } = picture;
        let drawn = drawn(
            &definition
                .or(states.map(|states| section(&states)))
                .unwrap(),
        );
        for line in shows {
            let is_there = drawn.lines().any(|other| other.trim() == line);
            assert!(is_there, "no {line} in {drawn}");
        }
        for (parts, times) in [(once, 1), (not, 0)] {
            for part in parts {
                assert_eq!(drawn.matches(&part).count(), times, "{part} in {drawn}");
            }
        }
    }
}

#[test]
fn redrawing_changes_only_the_pictures() {
    let definition = json!({"StartAt": "A", "States": {"A": {"Type": "Succeed"}}});
    let open = |path: &Path| match path.to_str() {
        Some("docs/a.asl.json") => Ok(definition.to_string()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let redrawn = |text: &str| {
        let document = Source::new("docs/A.md", text);
        pictures(&document, &Options::default(), &open)
    };
    let line = "<!-- drawn from a.asl.json -->\n```mermaid\n";
    let with = |picture: &str| {
        format!("# A\n\n```mermaid\nkept\n```\n{line}{picture}```\nMore.\n```json\n{{}}\n```\n")
    };
    let new = redrawn(&with("old\n")).unwrap();
    assert_eq!(new, with(&drawn(&definition)));
    assert_eq!(redrawn(&new).unwrap(), new);

    let reported = |text: &str| redrawn(text).unwrap_err().to_string();
    assert_eq!(
        reported("x\n\n<!-- drawn from a.asl.json -->\nText\n"),
        "docs/A.md:3:1: expected a block of mermaid below this"
    );
    assert_eq!(
        reported(&(with("old\n") + "<!-- drawn from a.asl.json -->")),
        "docs/A.md:14:1: expected a block of mermaid below this"
    );
    assert_eq!(
        reported(line),
        "docs/A.md:1:1: expected the end of its block below this"
    );
    assert!(reported("<!-- drawn from b.json -->\n").contains("docs/A.md:1:1: docs/b.json: "));
    assert_eq!(
        reported("# A\n"),
        "docs/A.md:1:1: expected a line <!-- drawn from FILE -->"
    );
}

#[test]
fn documents_show_current_machines() {
    let root = root();
    let text = std::fs::read_to_string(root.join("docs/reference/machines.md")).unwrap();
    for entry in std::fs::read_dir(root.join("templates/statemachines")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let line = format!("<!-- drawn from ../../templates/statemachines/{name} -->\n");
        assert!(text.contains(&line), "no picture of {name}");
    }
    let document = Source::new(
        root.join("docs/reference/machines.md").to_str().unwrap(),
        text,
    );
    let open = |path: &Path| std::fs::read_to_string(path);
    let new = pictures(&document, &Options::default(), &open).unwrap();
    assert!(new == document.text, "a picture is old: make pictures");
}
