//! What the workflows on GitHub may do, and whose code they run.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Files, Rule, SeededEdit};

pub(crate) const RULES: &[(&str, Rule, &[SeededEdit])] = &[
    (
        "actions are pinned to commits",
        pinned,
        &[(
            RELEASE,
            "attest-build-provenance@a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32",
            "attest-build-provenance@v4",
        )],
    ),
    (
        "a job that builds may not write, one that writes, signs or publishes runs actions and clients alone",
        permitted,
        &[
            (
                RELEASE,
                "    permissions:\n      contents: read\n    steps:\n      # No cache",
                "    permissions:\n      contents: write\n    steps:\n      # No cache",
            ),
            (RELEASE, "permissions: {}", "permissions: write-all"),
            (
                RELEASE,
                "      - run: gh release",
                "      - run: make && gh release",
            ),
            (RELEASE, "actions/download-artifact@", "actions/checkout@"),
            (RELEASE, " --no-verify", ""),
            (RELEASE, " --ignore-scripts", ""),
        ],
    ),
    (
        "a release is made of a commit of main, before anything of it runs",
        of_main,
        &[
            (
                RELEASE,
                "git merge-base --is-ancestor HEAD origin/main",
                "true",
            ),
            (RELEASE, "fetch-depth: 0", "fetch-depth: 1"),
            (RELEASE, "needs: [dist, macos]", "needs: [macos]"),
        ],
    ),
];

const RELEASE: &str = ".github/workflows/release.yml";

/// What packs the sources, and compiles nothing: only beside it are there sources.
const PACKS: &str = "cargo publish --locked --no-verify ";

/// What a job may run that may write or has an identity. None of these runs anything of the repository.
const CLIENTS: [&str; 3] = ["gh ", "npm publish --ignore-scripts ", PACKS];

/// The jobs of a workflow, by name.
fn jobs(text: &str) -> Vec<(String, Value)> {
    let workflow: Value = yaml_serde::from_str(text).unwrap();
    let jobs = workflow["jobs"].as_object().unwrap();
    jobs.iter()
        .map(|(name, job)| (name.clone(), job.clone()))
        .collect()
}

fn steps(job: &Value) -> impl Iterator<Item = &Value> {
    job["steps"].as_array().into_iter().flatten()
}

fn pinned(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in files.all(".github/workflows/", ".yml") {
        for line in text.lines() {
            let Some((_, action)) = line.split_once("uses: ") else {
                continue;
            };
            // The release beside it is for a person, and for the tool that offers updates.
            let commit = action
                .split_once('@')
                .and_then(|(_, at)| at.split_once(" # v"));
            let is_commit = commit.is_some_and(|(commit, _)| {
                commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            if !is_commit {
                wrong.push(format!("{path}: {action}"));
            }
        }
    }
    wrong
}

fn permitted(files: &Files) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in files.all(".github/workflows/", ".yml") {
        let workflow: Value = yaml_serde::from_str(text).unwrap();
        let granted = |at: &Value| -> BTreeSet<String> {
            let Some(each) = at.as_object() else {
                // `write-all` and the like.
                return at.as_str().into_iter().map(str::to_owned).collect();
            };
            let more = each
                .iter()
                .filter(|(_, level)| *level != "read" && *level != "none");
            more.map(|(name, _)| name.clone()).collect()
        };
        if workflow["permissions"].is_null() || !granted(&workflow["permissions"]).is_empty() {
            wrong.push(format!(
                "{path}: the default of its jobs is more than reading"
            ));
        }
        for (name, job) in jobs(text) {
            if granted(&job["permissions"]).is_empty() {
                continue;
            }
            let text_of =
                |step: &Value, what: &str| step[what].as_str().unwrap_or_default().to_owned();
            let packs = steps(&job).any(|step| text_of(step, "run").starts_with(PACKS));
            for step in steps(&job) {
                let (runs, uses) = (text_of(step, "run"), text_of(step, "uses"));
                let is_client = CLIENTS.iter().any(|client| runs.starts_with(client));
                let is_one =
                    runs.is_empty() || is_client && !runs.contains(['&', ';', '|', '\n', '`']);
                if !is_one || uses.starts_with("actions/checkout") && !packs {
                    wrong.push(format!("{path}: {name} writes, and runs {runs}{uses}"));
                }
            }
        }
    }
    wrong
}

fn of_main(files: &Files) -> Vec<String> {
    let jobs = jobs(files.text(RELEASE));
    let checks = |job: &Value| {
        let mut steps = steps(job);
        let checkout = steps.next().unwrap_or(&Value::Null);
        let first = steps.next().unwrap_or(&Value::Null);
        checkout["with"]["fetch-depth"] == 0
            && first["run"] == "git merge-base --is-ancestor HEAD origin/main"
    };
    let wrong = jobs.iter().filter(|(_, job)| {
        let needs = match &job["needs"] {
            Value::Array(needs) => needs.clone(),
            Value::Null => Vec::new(),
            one => vec![one.clone()],
        };
        // `needs` is of jobs that have succeeded.
        let waits = jobs
            .iter()
            .any(|(name, other)| needs.contains(&Value::from(name.as_str())) && checks(other));
        !checks(job) && !waits
    });
    wrong
        .map(|(name, _)| format!("{RELEASE}: {name} does not depend on the commit being of main"))
        .collect()
}
