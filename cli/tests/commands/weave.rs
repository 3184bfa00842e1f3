//! `leasehold weave` is what the library weaves.

use std::process::Command;

#[test]
fn it_writes_what_the_corpus_has() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../weave/corpus");
    let weave = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command.current_dir(corpus).arg("weave").args(arguments);
        command.output().unwrap()
    };
    let checked = weave(&["--check", "01-two-steps.weave.yaml"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let printed = weave(&["--output", "-", "01-two-steps.weave.yaml"]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let machine = String::from_utf8(printed.stdout).unwrap();
    let machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    assert!(machine["States"].as_object().unwrap().len() > 2);
    let refused = weave(&["nowhere.yaml"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
