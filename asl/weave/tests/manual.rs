//! What the manual shows is what there is.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

#[test]
fn what_the_manual_shows_of_a_file_is_in_it() {
    let manual = std::fs::read_to_string(root().join("docs/WEAVE.md")).unwrap();
    let mut shown = 0;
    for (at, _) in manual.match_indices("](corpus/") {
        let rest = &manual[at + "](../".len()..];
        let (file, rest) = rest.split_once(')').unwrap();
        let block = rest.split("```yaml\n").nth(1).unwrap();
        let block = block.split("```").next().unwrap();
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(block), "{file}:\n{block}");
        shown += 1;
    }
    assert_eq!(shown, 3);
}

#[test]
fn what_the_readme_shows_is_the_first_of_the_corpus() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let spec = "asl/weave/corpus/01-two-steps.weave.yaml";
    let (before, _) = readme
        .split_once(&format!("-- weave --dry-run {spec}"))
        .unwrap();
    let block = before
        .rsplit("```yaml\n")
        .next()
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let text = std::fs::read_to_string(root().join(spec)).unwrap();
    assert!(
        block.starts_with("machine: ") && text.ends_with(block),
        "{block}"
    );
}

#[test]
fn the_manual_names_every_field() {
    let manual = std::fs::read_to_string(root().join("docs/WEAVE.md")).unwrap();
    let spec = leasehold_weave::Source::new("s", "machine: m\nsections: [{nothing: 1}]\n");
    let said = leasehold_weave::Spec::read(&spec).unwrap_err().message;
    let (_, fields) = said.split_once("expected ").unwrap();
    for field in fields.split(", ").filter(|field| *field != "wait_seconds") {
        assert!(manual.contains(&format!("\n| `{field}` | ")), "{field}");
    }
}
