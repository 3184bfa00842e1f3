//! Rules about files as such: events, names, lengths, and what the documents promise.

use crate::tree::{Report, Tree, words};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &[
    "common", "helper", "helpers", "misc", "shared", "util", "utils",
];

pub fn events(tree: &Tree, report: &mut Report) {
    if tree.files("events/", ".json").next().is_none() {
        report.error("events/: no event to look at");
    }
    for (path, content) in tree.files("events/", ".json") {
        if let Err(error) = serde_json::from_str::<serde_json::Value>(content) {
            report.error(format!("{path}: {error}"));
        }
        let name = path.trim_start_matches("events/");
        let stem = format!("\"{}\"", name.trim_end_matches(".json"));
        // By its whole name, or, where a source speaks of events, by its name without the ending.
        let mentions = |source: &str| {
            source.contains(name) || (source.contains("event") && source.contains(&stem))
        };
        let named = [".rs", ".py"].iter().any(|end| {
            tree.files("", end)
                .any(|(path, source)| !path.starts_with("proof/tidy/") && mentions(source))
        });
        if !named {
            report.error(format!("{path}: no test and no program names it"));
        }
    }
}

pub fn make_targets(tree: &Tree, report: &mut Report) {
    let makefile = tree.get("Makefile").unwrap_or_default();
    let exists = |target: &str| {
        makefile
            .lines()
            .any(|line| line.starts_with(&format!("{target}:")))
    };
    let mut commands = 0;
    for (path, content) in tree.files("", ".md") {
        // Only what is set as code: `make test`, or a line of a block that starts with it.
        let lines = content
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with("make "));
        let spans = content
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|span| span.starts_with("make "));
        for command in lines.chain(spans) {
            commands += 1;
            let target = words(command, "make ").concat().replace("make ", "");
            if !target.is_empty() && !exists(&target) {
                report.error(format!("{path}: `make {target}` is not in the Makefile"));
            }
        }
    }
    if commands == 0 {
        report.error("no document names a make target");
    }
}

pub fn names(tree: &Tree, report: &mut Report) {
    if tree.files("", "").next().is_none() {
        report.error("no file to look at");
    }
    for (path, _) in tree.files("", "") {
        if path
            .split('/')
            .any(|part| EMPTY_NAMES.contains(&part.split('.').next().unwrap_or(part)))
        {
            report.error(format!("{path}: say what is inside"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    #[test]
    fn an_event_has_to_parse_and_to_be_used() {
        let used = (
            "functions/acquire/src/main.rs",
            "include_str!(\"../../../events/acquire.json\")",
        );
        assert!(errors(events, &[("events/acquire.json", "{}"), used]).is_empty());
        assert_eq!(
            errors(events, &[("events/acquire.json", "{"), used]).len(),
            1
        );
        assert_eq!(
            errors(events, &[("events/extend.json", "{}"), used]),
            ["events/extend.json: no test and no program names it"]
        );
    }

    #[test]
    fn a_document_names_only_targets_that_exist() {
        let makefile = ("Makefile", "test: build\n\tcargo test\n");
        assert!(
            errors(
                make_targets,
                &[
                    makefile,
                    ("README.md", "Run `make test`. These make up a lock.\n")
                ]
            )
            .is_empty()
        );
        assert_eq!(
            errors(
                make_targets,
                &[
                    makefile,
                    ("README.md", "```\nmake demo\n```\nor `make cargo`")
                ]
            ),
            [
                "README.md: `make demo` is not in the Makefile",
                "README.md: `make cargo` is not in the Makefile"
            ]
        );
    }

    #[test]
    fn a_name_has_to_say_something() {
        assert!(
            errors(
                names,
                &[("lib/src/values.rs", ""), ("lib/src/commonplace.rs", "")]
            )
            .is_empty()
        );
        assert_eq!(
            errors(
                names,
                &[("lib/src/utils.rs", ""), ("lib/common/values.rs", "")]
            )
            .len(),
            2
        );
    }
}
