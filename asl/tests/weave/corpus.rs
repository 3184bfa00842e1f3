//! Every machine of the corpus with its specification: the committed result is what the weaver writes, and it passes the checker.

use crate::text;
use leasehold_asl::weave::{Spec, weave};
use leasehold_asl::{Options, Source, check};
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/weave")
}

fn read(name: &str) -> Source {
    Source::new(name, std::fs::read_to_string(corpus().join(name)).unwrap())
}

fn specs() -> Vec<Spec> {
    let files = std::fs::read_dir(corpus()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.contains(".weave.")).collect();
    names.sort();
    assert!(names.len() >= 10);
    names
        .iter()
        .map(|name| Spec::read(&read(name)).unwrap())
        .collect()
}

fn woven(machine: &Source, spec: &Spec) -> String {
    weave(machine, spec, &Options::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// To accept a change: `UPDATE_WOVEN=1 cargo test -p leasehold-asl`.
#[test]
#[expect(clippy::disallowed_methods, reason = "no setting of a program's")]
fn committed_machines_are_as_woven() {
    for spec in specs() {
        if std::env::var_os("UPDATE_WOVEN").is_some() {
            let path = corpus().join(spec.output.as_ref().unwrap());
            std::fs::write(path, woven(&read(&spec.machine), &spec)).unwrap();
        }
        let there = read(spec.output.as_ref().unwrap());
        assert!(
            woven(&read(&spec.machine), &spec) == there.text,
            "{}: cargo run --bin leasehold -- weave {}",
            there.name,
            spec.source.name
        );
    }
}

#[test]
fn weaving_twice_changes_no_byte() {
    for spec in specs() {
        let there = read(spec.output.as_ref().unwrap());
        assert!(woven(&there, &spec) == there.text, "{}", there.name);
    }
}

#[test]
fn the_checker_has_nothing_to_say() {
    for spec in specs() {
        let there = read(spec.output.as_ref().unwrap());
        let checked = check(&there.read().unwrap(), &Options::default());
        assert_eq!(checked.findings, [], "{}", there.name);
        assert_eq!(checked.acquires, spec.sections.len(), "{}", there.name);
    }
}

/// A line without the parts that weaving may change: the target, and the time limit.
fn unled(line: &str) -> Option<&str> {
    let changed = ["Next", "End", "StartAt", "Default", "TimeoutSeconds"];
    (!changed.iter().any(|field| line.contains(field))).then_some(line)
}

#[test]
fn other_lines_stay_as_they_were() {
    for spec in specs() {
        let plain = read(&spec.machine);
        let there = read(spec.output.as_ref().unwrap());
        let mut lines = there.text.lines();
        for line in plain.text.lines().filter_map(unled) {
            let kept = lines.any(|other| other == line);
            // A comma may be added, because another field follows.
            assert!(kept || plain.text.ends_with(line), "{}: {line}", there.name);
        }
    }
}

#[test]
fn yaml_comments_keep_their_place() {
    let there = read("03-in-yaml.woven.asl.yaml").text;
    for kept in [
        "# One step, in YAML: comments, order and quotes stay as they are.\nComment: A ledger is closed\n",
        "  # The step that must not run twice at once.\n  Close:\n    Type: Task   # a Lambda function\n",
        "      # Somebody has closed it before us.\n      - ErrorEquals: [Ledger.Closed]\n",
        "    Next: CloseReleaseThenReport  # to whom it may concern\n",
        "\n  # From here on others may come in.\n  Report:\n",
        "  'Already closed': {Type: Succeed}\n",
    ] {
        assert!(there.contains(kept), "{kept}");
    }
}

#[test]
fn the_manual_names_every_field() {
    let manual = text("docs/guides/weave.md");
    let spec = Source::new("s", "machine: m\nsections: [{nothing: 1}]\n");
    let said = Spec::read(&spec).unwrap_err().fault.message;
    let (_, fields) = said.split_once("expected ").unwrap();
    for field in fields.split(", ").filter(|field| *field != "wait_seconds") {
        assert!(manual.contains(&format!("\n| `{field}` | ")), "{field}");
    }
}
