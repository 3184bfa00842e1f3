//! What the published packages say of themselves.

use std::collections::BTreeSet;

use crate::{Files, Rule, SeededEdit};

const MANIFEST: &str = "lib/Cargo.toml";
const README: &str = "lib/README.md";

pub const RULES: &[(&str, Rule, &[SeededEdit])] = &[(
    "the page of the crate lists its features, and which of them are on by default",
    features,
    &[
        (
            MANIFEST,
            "\ntest-support = []",
            "\ntest-support = []\nmore = []",
        ),
        (MANIFEST, "default = [\"https-client\"]", "default = []"),
        (README, "| `schema` |", "| `schemas` |"),
    ],
)];

fn features(files: &Files) -> Vec<String> {
    let section = files.text(MANIFEST).split("\n[features]\n").nth(1);
    let section = section.and_then(|rest| rest.split("\n[").next());
    let lines = section.unwrap_or_default().lines();
    let stated: Vec<_> = lines.filter_map(|line| line.split_once(" = ")).collect();
    let is_default = |name: &str| {
        let mut default = stated.iter().filter(|(name, _)| *name == "default");
        default.any(|(_, list)| list.contains(&format!("\"{name}\"")))
    };
    let names = stated.iter().map(|(name, _)| *name);
    let expected: BTreeSet<String> = names
        .filter(|name| *name != "default")
        .map(|name| {
            format!(
                "`{name}`{}",
                if is_default(name) { " (default)" } else { "" }
            )
        })
        .collect();
    let rows = files.text(README).lines();
    let rows = rows.filter(|line| line.starts_with("| `"));
    let listed: BTreeSet<String> = rows
        .filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned()))
        .collect();
    let differ = expected.symmetric_difference(&listed);
    differ
        .map(|name| format!("{README}: {name} is not as in {MANIFEST}"))
        .collect()
}
