//! `leasehold weave` on files: its output, the files that it leaves unchanged, and its exit codes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::{LEASEHOLD, Ran, Words};

const PLAIN: &str = r#"{
  "StartAt": "Count",
  "States": {
    "Count": {
      "Type": "Task",
      "Resource": "arn:aws:states:::lambda:invoke",
      "TimeoutSeconds": 30,
      "Parameters": { "FunctionName": "count" },
      "End": true
    }
  }
}
"#;
const SPEC: &str = "machine: count.asl.json\noutput: guarded.asl.json\nsections:\n  - {states: [Count], key: $.shelf, ttl_seconds: 200}\n";

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.file("count.asl.json"), PLAIN).unwrap();
        std::fs::write(place.file("count.weave.yaml"), SPEC).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn run(&self, arguments: impl Words) -> Ran {
        let mut command = Command::new(LEASEHOLD);
        command
            .arg("weave")
            .args(arguments.words())
            .arg(self.file("count.weave.yaml"))
            .output()
            .unwrap()
            .into()
    }
}

#[test]
fn writes_only_beside_specification() {
    let place = Place::new();
    let output = place.run("");
    assert_eq!((output.code, &*output.out), (Some(0), ""));
    assert!(place.read("guarded.asl.json").contains("CountAcquire"));
    assert_eq!(place.read("count.asl.json"), PLAIN);
    assert_eq!(
        place.names(),
        ["count.asl.json", "count.weave.yaml", "guarded.asl.json"]
    );
    assert!(
        output.err.ends_with("guarded.asl.json: written\n"),
        "{}",
        output.err
    );
    // A second time over its own output, and over its own output of another specification.
    let again = place.run("").ended(0);
    assert!(
        again.err.ends_with("guarded.asl.json: is up to date\n"),
        "{}",
        again.err
    );
    let other = SPEC.replace("200", "300");
    std::fs::write(place.file("count.weave.yaml"), other).unwrap();
    place.run("").ended(0);
    assert!(
        place
            .read("guarded.asl.json")
            .contains("\"ttl_seconds\": 300")
    );
}

#[test]
fn overwrites_only_its_own_files() {
    let place = Place::new();
    for theirs in [PLAIN, "not a machine at all"] {
        std::fs::write(place.file("guarded.asl.json"), theirs).unwrap();
        let output = place.run("").ended(2);
        output.err_has("guarded.asl.json: exists already, and was not woven");
        assert_eq!(place.read("guarded.asl.json"), theirs);
        place.run("--force").ended(0);
        assert!(place.read("guarded.asl.json").contains("CountAcquire"));
    }
}

#[test]
fn output_can_replace_the_machine() {
    let place = Place::new();
    std::fs::write(
        place.file("count.weave.yaml"),
        SPEC.replace("guarded", "count"),
    )
    .unwrap();
    place.run("").ended(2);
    assert_eq!(place.read("count.asl.json"), PLAIN);
    place.run("--force").ended(0);
    let once = place.read("count.asl.json");
    place.run("").ended(0);
    assert_eq!(place.read("count.asl.json"), once);
}

#[test]
fn dry_run_prints_working_patch() {
    let place = Place::new();
    let output = place.run("--dry-run").ended(0);
    assert_eq!(place.names(), ["count.asl.json", "count.weave.yaml"]);
    let patch = output.out;
    assert!(
        patch.contains("\n-  \"StartAt\": \"Count\",\n+  \"StartAt\": \"CountAcquire\",\n"),
        "{patch}"
    );
    // With the patch program, if it is installed.
    std::fs::write(place.file("patch"), &patch).unwrap();
    std::fs::copy(place.file("count.asl.json"), place.file("patched")).unwrap();
    let patched = Command::new("patch")
        .arg("--silent")
        .arg(place.file("patched"))
        .arg(place.file("patch"))
        .status();
    place.run("");
    if patched.is_ok_and(|status| status.success()) {
        assert_eq!(place.read("patched"), place.read("guarded.asl.json"));
    }
}

#[test]
fn check_compares_output_with_result() {
    let place = Place::new();
    let output = place.run("--check").ended(1);
    output.err_has("guarded.asl.json: does not exist");
    place.run("");
    place.run("--check").ended(0);
    let edited = place
        .read("guarded.asl.json")
        .replace("\"TimeoutSeconds\": 30", "\"TimeoutSeconds\": 31");
    std::fs::write(place.file("guarded.asl.json"), &edited).unwrap();
    let output = place.run("--check --dry-run").ended(1);
    output.out_begins("--- ");
    assert_eq!(place.read("guarded.asl.json"), edited);
}

#[test]
fn output_without_file_is_printed() {
    let place = Place::new();
    for (spec, arguments) in [
        (SPEC.replace("output: guarded.asl.json\n", ""), &[][..]),
        (SPEC.to_owned(), &["--output", "-"]),
    ] {
        std::fs::write(place.file("count.weave.yaml"), spec).unwrap();
        let output = place.run(arguments).ended(0);
        output.out_has("CountAcquire");
        assert_eq!(place.names(), ["count.asl.json", "count.weave.yaml"]);
    }
}

#[test]
fn refusal_names_place_writes_nothing() {
    let place = Place::new();
    std::fs::write(
        place.file("count.weave.yaml"),
        SPEC.replace("[Count]", "[Cuont]"),
    )
    .unwrap();
    let output = place.run("").ended(2);
    output.err_has("count.weave.yaml:4:15: there is no state \"Cuont\"");
    std::fs::remove_file(place.file("count.asl.json")).unwrap();
    let output = place.run("").ended(2);
    output.err_has("count.asl.json: ");
    assert_eq!(place.names(), ["count.weave.yaml"]);
}

#[cfg(unix)]
#[test]
fn what_is_there_keeps_its_rights() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let guarded = place.file("guarded.asl.json");
    place.run("");
    assert_eq!(mode(&guarded), 0o644);
    // Unchanged output is not written again.
    let file = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&guarded).unwrap());
    let before = file();
    place.run("");
    assert_eq!(file(), before);
    std::fs::set_permissions(&guarded, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(place.file("count.weave.yaml"), SPEC.replace("200", "300")).unwrap();
    place.run("");
    assert_eq!(mode(&guarded), 0o600);
}

#[test]
fn weave_stays_within_specification_directory() {
    let place = Place::new();
    let other = tempfile::tempdir().unwrap();
    let elsewhere = |name: &str| other.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(elsewhere("count.asl.json"), PLAIN).unwrap();
    std::os::unix::fs::symlink(other.path(), place.file("link")).unwrap();
    let climbing = format!(
        "../{}/guarded.asl.json",
        other.path().file_name().unwrap().to_str().unwrap()
    );
    for (machine, output) in [
        ("count.asl.json", elsewhere("guarded.asl.json").as_str()),
        ("count.asl.json", climbing.as_str()),
        ("count.asl.json", "link/guarded.asl.json"),
        (elsewhere("count.asl.json").as_str(), "guarded.asl.json"),
        ("link/count.asl.json", "guarded.asl.json"),
    ] {
        let spec = SPEC
            .replace("guarded.asl.json", output)
            .replace("machine: count.asl.json", &format!("machine: {machine}"));
        std::fs::write(place.file("count.weave.yaml"), spec).unwrap();
        let refused = place.run("");
        assert_eq!(refused.code, Some(2), "{machine} {output}: {}", refused.err);
        let printed = refused.err;
        assert!(printed.contains("count.weave.yaml: "), "{printed}");
        assert!(printed.contains("use --within DIRECTORY"), "{printed}");
        assert!(!other.path().join("guarded.asl.json").exists(), "{output}");
        assert!(!place.names().contains(&"guarded.asl.json".to_owned()));
        // Named by --output, or allowed by --within.
        let both = place
            .0
            .path()
            .parent()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let allowed = place.run(&["--within", &both, "--dry-run"]);
        assert_eq!(allowed.code, Some(0), "{machine} {output}: {}", allowed.err);
        if machine == "count.asl.json" {
            let said_so = place.run(&["--output", &elsewhere("said"), "--force"]);
            assert_eq!(said_so.code, Some(0), "{output}: {}", said_so.err);
        }
    }
}
