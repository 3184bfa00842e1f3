//! `make deny` where the database of advisories cannot be reached, with a stand-in for cargo-deny.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use leasehold_proof::root;

/// Whether `make deny` succeeds, its output, and what it leaves as unchecked.
fn deny(fetch: &str, advisories: &str) -> (bool, String, Option<String>) {
    let directory = tempfile::tempdir_in(root().join("target")).unwrap();
    let program = directory.path().join("cargo-deny");
    let script = format!("#!/bin/sh\ncase \"$*\" in *fetch*) exit {fetch};; esac\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let unchecked = directory.path().join("unchecked");
    // From the root, because the Makefile goes into other directories too.
    let program = program.strip_prefix(root()).unwrap();
    let ran = Command::new("make")
        .args(["--no-print-directory", "deny"])
        .arg(format!("DENY={}", program.display()))
        .arg(format!("UNCHECKED={}", unchecked.display()))
        .arg(format!("ADVISORIES={advisories}"))
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    (
        ran.status.success(),
        said,
        std::fs::read_to_string(unchecked).ok(),
    )
}

#[test]
fn unchecked_required_advisories_fail() {
    for (advisories, succeeds) in [("required", false), ("", true)] {
        let (succeeded, said, unchecked) = deny("1", advisories);
        assert_eq!(succeeded, succeeds, "{said}");
        assert!(said.contains("NOT CHECKED: advisories"), "{said}");
        assert!(unchecked.unwrap().starts_with("advisories"));
    }
    let (succeeded, said, unchecked) = deny("0", "required");
    assert!(succeeded && unchecked.is_none(), "{said}");
}

/// The daily run is the one that requires them.
#[test]
fn the_daily_run_requires_the_advisories() {
    let text = std::fs::read_to_string(root().join(".github/workflows/ci.yml")).unwrap();
    let workflow: serde_json::Value = yaml_serde::from_str(&text).unwrap();
    assert!(workflow["on"]["schedule"][0]["cron"].is_string());
    assert_eq!(workflow["env"]["ADVISORIES"], "required");
    let job = &workflow["jobs"]["advisories"];
    assert_eq!(job["if"], "github.event_name == 'schedule'");
    let steps = job["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["run"] == "make deny"));
}
