//! Faults that other programs have to find, as `make template` and `make asl` start them: all copies of a kind by one
//! process, since these start slowly.

use super::{
    Count,
    Seed::{self, Change, Lose},
    seeded,
};
use crate::tree::Tree;
use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const TEMPLATE: &str = "template.yaml";
const SECTION: &str = "statemachines/critical-section.asl.json";
const WRAPPER: &str = "statemachines/with-lease.asl.json";

/// Where the copies go.
const COPIES: &str = "target/lint-bites";

/// A program, what it reads, and the faults it has to find, each with a part of what it says then.
struct Check {
    name: &'static str,
    program: fn(&Programs) -> Command,
    reads: fn(path: &str, seed: Option<&Seed>) -> bool,
    faults: &'static [(Seed, &'static str)],
}

struct Programs<'a> {
    python: &'a str,
    node: &'a str,
}

const CHECKS: &[Check] = &[
    Check {
        name: "written",
        program: |programs| python(programs, "written"),
        reads: is_of_the_template,
        faults: WRITTEN,
    },
    Check {
        name: "translated",
        program: |programs| python(programs, "translated"),
        reads: is_of_the_template,
        faults: TRANSLATED,
    },
    Check {
        name: "asl-validator",
        program: |programs| {
            let mut command = Command::new(programs.node);
            command.arg("tools/asl/check.js");
            command
        },
        // One machine is enough for each, and the document.
        reads: |path, seed| match seed {
            Some(Change(changed, ..)) => path == "README.md" || path == *changed,
            Some(Lose(_)) => path == "README.md",
            _ => path == "README.md" || path.starts_with("statemachines/"),
        },
        faults: VALIDATED,
    },
];

/// As it is written: `sam validate --lint`.
const WRITTEN: &[(Seed, &str)] = &[
    (
        Change(TEMPLATE, "\nResources:\n", "\nResources: [\n"),
        "Failed to parse template",
    ),
    (
        Change(
            TEMPLATE,
            "CodeUri: functions/acquire",
            "CodeURI: functions/acquire",
        ),
        "E3002",
    ),
    (
        Change(
            TEMPLATE,
            "!GetAtt LeaseTable.Arn",
            "!GetAtt LeaseTable.Aarn",
        ),
        "E1010",
    ),
    (Change(TEMPLATE, "KeyType: RANGE", "KeyType: SORT"), "E3018"),
    (
        Change(TEMPLATE, "Type: AWS::SQS::Queue", "Type: AWS::SQS::Line"),
        "E3006",
    ),
    (
        Change(TEMPLATE, "VisibilityTimeout: 180", "VisibilityTime: 180"),
        "E3002",
    ),
    (
        Change(
            TEMPLATE,
            "Condition: HasAccountsTable",
            "Condition: HasTable",
        ),
        "E",
    ),
    (
        Change(TEMPLATE, "AllowedValues: [arm64", "AllowedVals: [arm64"),
        "E2001",
    ),
    (Lose(TEMPLATE), "not found"),
];

/// As it is translated: cfn-lint, with the state machines put in. What stands in Globals shows only here.
const TRANSLATED: &[(Seed, &str)] = &[
    (Change(TEMPLATE, "!Ref QueueCap", "!Ref QueueCape"), "E1020"),
    (Change(TEMPLATE, "!Ref QueueCap", "128"), "W2001"),
    (
        Change(
            TEMPLATE,
            "Runtime: provided.al2023",
            "Runtime: provided.al2024",
        ),
        "E3030",
    ),
    (
        Change(TEMPLATE, "    Timeout: 10\n", "    Timeout: 1000\n"),
        "E3717",
    ),
    (
        Change(TEMPLATE, "MemorySize: 256", "MemorySize: 64"),
        "E3034",
    ),
    (
        Change(TEMPLATE, "SystemLogLevel: WARN", "SystemLogLevel: WARNING"),
        "E3030",
    ),
    (
        Change(
            TEMPLATE,
            "StartingPosition: LATEST",
            "StartingPosition: LATER",
        ),
        "E3031",
    ),
    (
        Change(
            TEMPLATE,
            "ParallelizationFactor: 4",
            "ParallelizationFactor: 40",
        ),
        "E3034",
    ),
    (
        Change(
            TEMPLATE,
            "Default: rate(1 minute)",
            "Default: rate(1 minutes)",
        ),
        "W1030",
    ),
    (
        Change(
            TEMPLATE,
            "statemachines/transfer.asl",
            "statemachines/transfers.asl",
        ),
        "No such file",
    ),
    (
        Change(SECTION, "\"Type\": \"Succeed\"", "\"Type\": \"Suceed\""),
        "E3601",
    ),
    (Change(SECTION, "\"End\": true", "\"Ends\": true"), "E3601"),
    (
        Change(SECTION, "\"MaxAttempts\": 60", "\"MaxAttempts\": \"many\""),
        "E3601",
    ),
    (
        Change(
            SECTION,
            "\"StartAt\": \"Acquire\"",
            "\"StartAt\": \"Aquire\"",
        ),
        "E3601",
    ),
    (
        Change(
            SECTION,
            "\"Output\": \"{% $states.input %}\"",
            "\"OutputPath\": \"$\"",
        ),
        "E3601",
    ),
    // The number that stands in for JSONata is only for JSONata.
    (
        Change(
            SECTION,
            "\"TimeoutSeconds\": 15",
            "\"TimeoutSeconds\": \"soon\"",
        ),
        "E3601",
    ),
];

/// The definitions: asl-validator.
const VALIDATED: &[(Seed, &str)] = &[
    (Change(SECTION, "{", "["), "not JSON"),
    (
        Change(SECTION, "\"Next\": \"Second\"", "\"Next\": \"Third\""),
        "target: Third",
    ),
    (
        Change(SECTION, "\"Next\": \"Second\"", "\"Next\": \"First\""),
        "State Second is not reachable",
    ),
    (
        Change(
            SECTION,
            "\"StartAt\": \"Acquire\"",
            "\"StartAt\": \"Aquire\"",
        ),
        "target: Aquire",
    ),
    (
        Change(SECTION, "\"Type\": \"Succeed\"", "\"Type\": \"Suceed\""),
        "/States/Done/Type",
    ),
    (
        Change(
            SECTION,
            "\"End\": true",
            "\"Next\": \"Done\", \"End\": true",
        ),
        "TERMINAL_STATE_WITH_NEXT",
    ),
    (
        Change(SECTION, "\"MaxAttempts\": 60", "\"MaxAttempts\": \"60\""),
        "/Retry/0/MaxAttempts",
    ),
    (
        Change(
            SECTION,
            "\"lease\": \"{% $lease %}\"",
            "\"lease\": \"{% $lease( %}\"",
        ),
        "/Payload/lease",
    ),
    (
        Change(
            SECTION,
            "\"Output\": \"{% $states.input %}\"",
            "\"ResultPath\": \"$.x\"",
        ),
        "/States/Acquire",
    ),
    (
        Change(SECTION, "arn:aws:states:::lambda:invoke", "lambda:invoke"),
        "/States/Acquire/Resource",
    ),
    (
        Change(
            SECTION,
            "\"TimeoutSeconds\": 15",
            "\"TimeoutSeconds\": \"15\"",
        ),
        "/States/Acquire",
    ),
    (
        Change(WRAPPER, "\"Next\": \"Unproven\"", "\"Next\": \"Failed\""),
        "BRANCH_OUTBOUND",
    ),
    (
        Change(
            "README.md",
            "\"Next\": \"MayStillRun\"",
            "\"Next\": \"MayRun\"",
        ),
        "target: MayRun",
    ),
    (
        Change(
            "README.md",
            "\"StartAt\": \"Acquire\"",
            "\"StartsAt\": \"Acquire\"",
        ),
        "shows no state machine",
    ),
    (Lose("statemachines/"), "no state machine is here"),
];

fn python(programs: &Programs, only: &str) -> Command {
    let mut command = Command::new(programs.python);
    command.args(["tools/lint.py", "--only", only]);
    command
}

fn is_of_the_template(path: &str, _: Option<&Seed>) -> bool {
    path == TEMPLATE || path.starts_with("statemachines/")
}

/// Seeds all of them and lets the programs look.
pub fn run(tree: &Tree, python: &str, node: &str) -> Result<Count, String> {
    let programs = Programs { python, node };
    let trouble = |error: io::Error| format!("{COPIES}: {error}");
    let mut started = Vec::new();
    for check in CHECKS {
        started.push((check, start(tree, check, &programs).map_err(trouble)?));
    }
    let mut count = Count::default();
    for (check, child) in started {
        let output = child.wait_with_output().map_err(trouble)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let before = count.seeded;
        judge(tree, check, &said, &mut count)?;
        println!("{}: {} seeded faults", check.name, count.seeded - before);
    }
    Ok(count)
}

/// A copy for each fault, and one without any; then the program, on all of them.
fn start(tree: &Tree, check: &Check, programs: &Programs) -> io::Result<Child> {
    let mut command = (check.program)(programs);
    let all = Path::new(COPIES).join(check.name);
    if all.exists() {
        std::fs::remove_dir_all(&all)?;
    }
    write(tree, check, None, &place(check, None))?;
    command.arg(place(check, None));
    for (nth, (seed, _)) in check.faults.iter().enumerate() {
        if let Some(copy) = seeded(tree, seed) {
            write(&copy, check, Some(seed), &place(check, Some(nth)))?;
            command.arg(place(check, Some(nth)));
        }
    }
    let words = std::fs::File::create(all.join("stderr"))?;
    command.stdout(Stdio::piped()).stderr(words).spawn()
}

fn place(check: &Check, fault: Option<usize>) -> PathBuf {
    let name = fault.map_or_else(|| "none".to_owned(), |nth| format!("{nth:02}"));
    Path::new(COPIES).join(check.name).join(name)
}

fn write(tree: &Tree, check: &Check, seed: Option<&Seed>, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for (path, text) in tree
        .files("", "")
        .filter(|(path, _)| (check.reads)(path, seed))
    {
        let file = to.join(path);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}

/// What the program said of each copy. If it has something to say of the one without a fault, it proves nothing.
fn judge(tree: &Tree, check: &Check, said: &str, count: &mut Count) -> Result<(), String> {
    let of = |fault| {
        let start = format!("{}", place(check, fault).display());
        let mine = move |line: &&str| {
            let rest = line.strip_prefix(start.as_str());
            rest.is_some_and(|rest| rest.starts_with(['/', ':']))
        };
        said.lines().filter(mine).collect::<Vec<_>>()
    };
    if let Some(complaint) = of(None).first() {
        return Err(format!("{}: without any fault: {complaint}", check.name));
    }
    for (nth, (seed, wanted)) in check.faults.iter().enumerate() {
        let said = of(Some(nth));
        let outcome = if seeded(tree, seed).is_none() {
            Err("it cannot be seeded any more".to_owned())
        } else if said.iter().any(|line| line.contains(wanted)) {
            Ok(())
        } else {
            Err(format!("it is said {said:?}, nothing with {wanted:?}"))
        };
        count.add(check.name, seed, outcome);
    }
    Ok(())
}
