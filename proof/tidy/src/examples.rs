//! Examples that show a difference: it is the one between the files, the whole of it.

use crate::tree::{Report, Tree};

const EXAMPLES: &str = "examples/";

pub fn differences(tree: &Tree, report: &mut Report) {
    let mut any = false;
    for (path, readme) in tree.files(EXAMPLES, "/README.md") {
        let directory = path.trim_end_matches("README.md");
        let shown: Vec<Shown> = readme
            .split("```diff\n")
            .skip(1)
            .filter_map(shown)
            .collect();
        any |= !shown.is_empty();
        for difference in &shown {
            let before = tree.get(&format!("{directory}{}", difference.before));
            let after = tree.get(&format!("{directory}{}", difference.after));
            let made = before.and_then(|before| difference.apply(before));
            if made.is_none() || made.as_deref() != after {
                report.error(format!(
                    "{path}: what it shows is not the difference between {} and {}",
                    difference.before, difference.after
                ));
            }
        }
        // Every other file of the two directories is the same in both.
        for (before, content) in tree.files(&format!("{directory}before/"), "") {
            let name = before.trim_start_matches(directory);
            let after = before.replacen("/before/", "/after/", 1);
            let is_shown = shown.iter().any(|difference| difference.before == name);
            if !is_shown && tree.get(&after) != Some(content) {
                report.error(format!("{path}: does not show how {name} differs"));
            }
        }
    }
    if !any {
        report.error("examples: no README.md shows a difference");
    }
}

/// A difference as a document shows it, with or without some lines around.
struct Shown<'a> {
    before: &'a str,
    after: &'a str,
    lines: Vec<&'a str>,
}

/// What stands after the opening of a block of the kind `diff`.
fn shown(text: &str) -> Option<Shown<'_>> {
    let mut lines = text.lines().take_while(|line| *line != "```");
    Some(Shown {
        before: lines.next()?.strip_prefix("--- ")?,
        after: lines.next()?.strip_prefix("+++ ")?,
        lines: lines.collect(),
    })
}

impl Shown<'_> {
    /// What comes of `before`; none if it is not as shown. The numbers of lines are not looked at: each part goes where it
    /// first fits, after the part before it.
    fn apply(&self, before: &str) -> Option<String> {
        let (mut made, mut rest): (Vec<&str>, Vec<&str>) = (Vec::new(), before.lines().collect());
        for part in self.lines.split(|line| line.starts_with("@@")) {
            let side = |sign: char| -> Vec<&str> {
                part.iter()
                    .filter_map(|line| line.strip_prefix(sign).or(line.strip_prefix(' ')))
                    .collect()
            };
            let (old, new) = (side('-'), side('+'));
            if old.is_empty() {
                continue;
            }
            let at = rest.windows(old.len()).position(|lines| lines == old)?;
            made.extend(rest.drain(..at));
            made.extend(new);
            rest.drain(..old.len());
        }
        made.extend(rest);
        Some(made.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::errors;

    const FILES: [&str; 5] = [
        "examples/adopting/README.md",
        "examples/adopting/before/template.yaml",
        "examples/adopting/after/template.yaml",
        "examples/adopting/before/take-payment.asl.json",
        "examples/adopting/after/take-payment.asl.json",
    ];

    /// The real example holds; changed in any of its files, it does not.
    #[test]
    fn a_difference_that_is_shown_is_the_difference() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let read = |path: &str| std::fs::read_to_string(format!("{root}{path}")).unwrap();
        let contents = FILES.map(read);
        let with = |changed: &str, from: &str, to: &str| {
            let files: Vec<(&str, String)> = (FILES.iter().zip(&contents))
                .map(|(path, content)| {
                    let content = if *path == changed {
                        assert!(content.contains(from), "{from} is not in {path}");
                        content.replacen(from, to, 1)
                    } else {
                        content.clone()
                    };
                    (*path, content)
                })
                .collect();
            let files: Vec<(&str, &str)> = (files.iter())
                .map(|(path, content)| (*path, content.as_str()))
                .collect();
            errors(differences, &files)
        };
        assert_eq!(with("", "", ""), [""; 0]);
        for (file, from, to) in [
            (FILES[0], "+          \"ttl_seconds\": 60,\n", ""),
            (
                FILES[0],
                "+          \"ttl_seconds\": 60,",
                "+          \"ttl_seconds\": 61,",
            ),
            (
                FILES[0],
                "-        \"StateMachineArn\"",
                "-        \"StateMachine\"",
            ),
            (
                FILES[0],
                "```diff\n--- before/template.yaml",
                "```yaml\n--- before/template.yaml",
            ),
            (FILES[1], "Description: >-", "Description: >"),
            (FILES[2], "payments-take", "payments-take-2"),
            (
                FILES[3],
                "\"TimeoutSeconds\": 900",
                "\"TimeoutSeconds\": 901",
            ),
            (FILES[4], "\"wait_seconds\": 600", "\"wait_seconds\": 601"),
        ] {
            assert_ne!(with(file, from, to), [""; 0], "{file}: {from} to {to}");
        }
        assert_eq!(errors(differences, &[]).len(), 1);
    }
}
