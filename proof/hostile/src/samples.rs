//! The sample events of the repository, with secrets that can be recognised.

use std::{fs, path::Path, sync::LazyLock};

use serde_json::Value;

use crate::{Function, marks, tree::Tree};

/// A valid event.
pub struct Sample {
    pub function: Function,
    pub event: Tree,
    /// What stands for it in JSON.
    pub value: Value,
}

/// All of them, in the order of their names.
pub fn all() -> &'static [Sample] {
    static ALL: LazyLock<Vec<Sample>> = LazyLock::new(read);
    &ALL
}

fn read() -> Vec<Sample> {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events");
    let files = fs::read_dir(events).expect("the repository has events");
    let mut files: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let verb = stem.split('-').next().unwrap_or_default();
            let function = Function::ALL.iter().find(|known| known.name() == verb);
            let text = fs::read_to_string(&path).expect("an event");
            let mut value: Value = serde_json::from_str(&text).expect("JSON");
            mark(&mut value);
            Sample {
                function: *function.expect("an event begins with its function's name"),
                event: Tree::from(&value),
                value,
            }
        })
        .collect()
}

fn mark(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(mark),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if marks::is_secret(name) => *text = marks::secret(text),
                    other => mark(other),
                }
            }
        }
        _ => {}
    }
}
