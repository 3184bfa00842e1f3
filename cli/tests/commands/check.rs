//! `leasehold check` as its users run it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use leasehold::{ErrorKind, Retriable};
use leasehold_asl::Rule;

use crate::fixture::{LEASEHOLD, Ran, Words};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../asl/corpus/");

fn run(arguments: impl Words) -> Ran {
    let mut command = Command::new(LEASEHOLD);
    command
        .arg("check")
        .current_dir(CORPUS)
        .args(arguments.words())
        .output()
        .unwrap()
        .into()
}

#[test]
fn findings_show_line_path_and_cure() {
    let output = run(&["faulty/01-catch-without-release.asl.json"]);
    let said = output.out;
    let lines: Vec<&str> = said.lines().collect();
    let place = lines[0]
        .strip_prefix("faulty/01-catch-without-release.asl.json:")
        .unwrap();
    assert!(
        place.contains(":5: no-release: Failed: the execution ends here"),
        "{said}"
    );
    assert!(lines[1].ends_with("|     \"Failed\": {"), "{said}");
    assert!(lines[2].ends_with("|     ^^^^^^^^"), "{said}");
    assert!(
        lines[3].ends_with("= path: Acquire → Work → (Catch States.ALL) Failed"),
        "{said}"
    );
    assert!(lines[4].contains("= cure: "), "{said}");
    assert_eq!(
        lines[6],
        "check: 1 finding in 1 state machine, 5 states, 1 acquire"
    );
    assert!(!said.contains('\x1b'), "no colour but on a terminal");
}

#[test]
fn exit_code_shows_findings_and_unreadable() {
    run(&["sound/01-smallest.asl.json"]).ended(0);
    run(&["sound/32-start-and-wait.asl.json"]).ended(0);
    run(&[
        "sound/01-smallest.asl.json",
        "faulty/05-limit-over-ttl.asl.json",
    ])
    .ended(1);
    let unreadable = run(&["faulty/05-limit-over-ttl.asl.json", "nowhere.json"]).ended(2);
    unreadable.out_has("1 file not read");
    // This file is JSON, but no definition.
    let other = run(&["faulty/expected.json"]).ended(2);
    other.out_has("nothing was checked");
    other.out_has("faulty/expected.json:1:1: expected a state machine (StartAt, States) or a template (Resources)");
}

#[test]
fn machine_without_calls_has_no_fault_and_a_line_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("other.asl.json");
    let task = r#"{"StartAt": "A", "States": {"A": {"Type": "Task", "Resource": "arn:aws:lambda:eu-west-1:1:function:lock", "End": true}}}"#;
    std::fs::write(&file, task).unwrap();
    let file = file.to_str().unwrap();
    for format in ["human", "json", "sarif"] {
        let ran = run(&["--format", format, file]).ended(0);
        assert!(
            ran.err.contains("no lease was checked") && ran.err.contains("--acquire NAME"),
            "{ran:?}"
        );
    }
    // One file with a lease is enough, as for all the machines of a template.
    let both = run(&[file, "sound/01-smallest.asl.json"]);
    assert_eq!((both.code, both.err.as_str()), (Some(0), ""));
}

#[test]
fn options_rename_functions_and_skip_rules() {
    let file = "faulty/33-shorter-after-extend.asl.yaml";
    run(&["--allow", "outlasts", file]).ended(0);
    run(&["--margin-ms", "0", "--guard-ms", "0", file]).ended(1);
    // If the extend counts as the acquire, it begins a section of its own, which cannot be separated from the one before.
    let named = run(&["--format", "json", "--acquire", "my-stack-extend", file]);
    let printed = named.json();
    assert_eq!(printed["machines"][0]["acquires"], 2);
}

#[test]
fn json_lists_findings_with_place() {
    let output = run(&["--format", "json", "faulty/05-limit-over-ttl.asl.json"]);
    let printed = output.json();
    let finding = &printed["machines"][0]["findings"][0];
    assert_eq!(
        (&finding["rule"], &finding["state"]),
        (&"outlasts".into(), &"Work".into())
    );
    assert_eq!(
        (&finding["path"][0]["state"], &finding["column"]),
        (&"Acquire".into(), &5.into())
    );
    let text = std::fs::read_to_string(Path::new(CORPUS).join("faulty/05-limit-over-ttl.asl.json"))
        .unwrap();
    let line = usize::try_from(finding["line"].as_u64().unwrap()).unwrap();
    assert_eq!(text.lines().nth(line - 1).unwrap(), "    \"Work\": {");
}

/// The requirements of SARIF 2.1.0's schema on the parts that are used.
#[test]
fn code_scanning_gets_sarif() {
    let output = run(&[
        "--format",
        "sarif",
        "faulty/05-limit-over-ttl.asl.json",
        "faulty/24-released-while-running.asl.json",
        "nowhere.json",
    ]);
    let printed = output.json();
    assert_eq!(printed["version"], "2.1.0");
    let run = &printed["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "leasehold-check");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), Rule::ALL.len());
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(result["message"]["text"].is_string());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(
            place["artifactLocation"]["uri"]
                .as_str()
                .unwrap()
                .starts_with("faulty/")
        );
        assert!(place["region"]["startLine"].as_u64().unwrap() > 1);
        assert!(place["region"]["endColumn"].as_u64() > place["region"]["startColumn"].as_u64());
    }
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
}

#[test]
fn every_rule_is_explained() {
    for rule in Rule::ALL {
        let printed = run(&["--explain", rule.id()]).out;
        assert!(printed.starts_with(rule.id()), "{printed}");
    }
}

#[test]
fn checker_knows_error_names() {
    let mut known = leasehold_asl::KNOWN_ERRORS.to_vec();
    // An error of critical-section, for example, after a step's timeout.
    known.retain(|name| *name != "Lease.StepTimeout");
    let mut names = leasehold::Error::NAMES.to_vec();
    known.sort_unstable();
    names.sort_unstable();
    assert_eq!(known, names);
    // Beside those of Lambda and Step Functions.
    let same = |checkers: &[&str], librarys: fn(&ErrorKind) -> bool| {
        let of_leases = |name: &&&str| name.starts_with("Lease.");
        let checkers: BTreeSet<_> = checkers.iter().filter(of_leases).copied().collect();
        let librarys = ErrorKind::ALL.into_iter().filter(librarys);
        assert_eq!(checkers, librarys.map(|kind| kind.name).collect());
    };
    same(&leasehold_asl::RETRYABLE_ERRORS, |kind| {
        kind.retry == Retriable::OutcomeUnknown
    });
    same(&leasehold_asl::ERRORS_OF_UNKNOWN_OUTCOME, |kind| {
        kind.retry == Retriable::OutcomeUnknown
    });
    same(&leasehold_asl::ERRORS_OF_LOST_LEASES, |kind| {
        ["Lease.Lost", "Lease.Expired"].contains(&kind.name)
    });
}

#[test]
fn check_stays_within_template_directory() {
    let place = tempfile::tempdir().unwrap();
    let own = place.path().join("own");
    std::fs::create_dir(&own).unwrap();
    let secret = "{\"secret\": 1,\n\"States\": {}}";
    std::fs::write(place.path().join("secret"), secret).unwrap();
    std::os::unix::fs::symlink("../secret", own.join("link")).unwrap();
    let absolute = place.path().join("secret").to_str().unwrap().to_owned();
    let template = own.join("template.yaml").to_str().unwrap().to_owned();
    for uri in [absolute.as_str(), "../secret", "link", "../own/../secret"] {
        let text = format!(
            "Resources:\n  M:\n    Type: AWS::Serverless::StateMachine\n    Properties:\n      DefinitionUri: {uri}\n"
        );
        std::fs::write(&template, text).unwrap();
        let around = place.path().to_str().unwrap();
        let refused = run(&[&template]);
        assert_eq!(refused.code, Some(2), "{uri}: {refused:?}");
        let printed = refused.out + &refused.err;
        assert!(printed.contains("template.yaml:5:22: "), "{uri}: {printed}");
        assert!(
            printed.contains("use --within DIRECTORY"),
            "{uri}: {printed}"
        );
        assert!(!printed.contains("\"secret\""), "{uri}: {printed}");
        // It is no valid definition, but it is read.
        let allowed = run(&["--within", around, &template]);
        assert_eq!(allowed.code, Some(1), "{uri}: {allowed:?}");
    }
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");
    let nested = format!("{examples}/nested/template.yaml");
    run(&[&nested]).ended(2);
    run(&["--within", examples, &nested]).ended(0);
}
