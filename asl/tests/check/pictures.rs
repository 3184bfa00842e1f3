//! The pictures of the documents and the definitions.

use crate::{root, text};
use serde_json::Value;

fn names(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            for (field, value) in fields {
                if field == "States" {
                    found.extend(value.as_object().unwrap().keys().cloned());
                }
                names(value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        _ => {}
    }
}

#[test]
fn each_machine_is_drawn_with_all_its_states() {
    let page = text("docs/reference/machines.md");
    for entry in std::fs::read_dir(root().join("templates/statemachines")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let line =
            format!("<!-- drawn from ../../templates/statemachines/{file} -->\n```mermaid\n");
        let (_, rest) = page
            .split_once(&line)
            .unwrap_or_else(|| panic!("no picture of {file}"));
        let (picture, _) = rest.split_once("```").unwrap();
        let machine = text(&format!("templates/statemachines/{file}"));
        let mut all = Vec::new();
        names(&serde_json::from_str(&machine).unwrap(), &mut all);
        for name in all {
            assert!(picture.contains(&name), "{file}: {name} is not drawn");
        }
    }
}
