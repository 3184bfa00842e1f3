//! No command prints text of others unescaped: from definitions, specifications, templates, names of files, arguments and
//! tables, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::fixture::{Fixture, LEASEHOLD, Ran};
use leasehold::{Acquire, Holder, Key, Metadata, Ttl};
use serde_json::{Value, json};

/// Control characters, line ends, direction marks, and characters without width or glyph.
fn unseen() -> Vec<char> {
    let numbers = (0..0x20)
        .chain(0x7f..0xa0)
        .chain([0xad, 0x61c, 0x180e, 0xfeff, 0xe0001, 0xe0041])
        .chain(0x200b..=0x200f)
        .chain(0x2028..=0x202e)
        .chain(0x2060..=0x206f);
    numbers.map(|n| char::from_u32(n).unwrap()).collect()
}

/// A text that begins commands of a build service, and contains all hostile characters.
fn everything() -> String {
    "::error::a\r\n::error::b ##[group]".to_owned() + &unseen().iter().collect::<String>()
}

/// The part of it that an argument of a program may contain.
fn argument() -> String {
    everything().replace('\0', "")
}

/// The part of it that a key may contain.
fn key() -> String {
    everything().chars().filter(|c| !c.is_control()).collect()
}

/// The part of it that the name of a file may contain, which is shorter.
fn name(end: &str) -> String {
    format!(
        "::error::a\r\n::error::b ##[x]\u{1b}[2J\u{7f}\u{9b}\u{ad}\u{61c}\u{200b}\u{202e}\u{2028}\u{2066}\u{e0041}{end}"
    )
}

#[track_caller]
fn assert_plain(said: &str, what: &str) {
    let unseen = unseen();
    let found = said.chars().find(|c| *c != '\n' && unseen.contains(c));
    assert_eq!(found, None, "{what}: {said:?}");
    let is_command = |line: &&str| line.trim_start().starts_with("::") || line.contains("##[");
    assert_eq!(said.lines().find(is_command), None, "{what}: {said:?}");
}

/// Asserts that part of the hostile text is printed, escaped by number.
#[track_caller]
fn assert_shown(ran: &Ran, what: &str) {
    assert_plain(&ran.out, what);
    assert_plain(&ran.err, what);
    let said = ran.out.clone() + &ran.err;
    // A picture has only the beginning of a name. Clap removes escape sequences and the text after them.
    let is_shown = ["u202e", "u003a:"].iter().any(|part| said.contains(part));
    assert!(is_shown, "{what} does not show it: {ran:?}");
}

fn run(place: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(LEASEHOLD);
    let command = command.args(arguments).current_dir(place);
    command.output().unwrap().into()
}

/// A machine with a fault for every message that prints one of the author's names.
fn machine(hostile: &str) -> Value {
    let of = |name: &str| format!("{hostile}{name}");
    let call = |function: &str, payload: Value, next: String| {
        json!({"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 15,
            "Arguments": {"FunctionName": function, "Payload": payload},
            "Assign": {"lease": "{% $states.result.Payload.lease %}"}, "Next": next})
    };
    let mut acquire = call(
        "acquire",
        json!({"key": "k", "holder": "h", "request_id": "r", "ttl_seconds": 10}),
        of("Work"),
    );
    acquire["Catch"] = json!([{"ErrorEquals": [format!("Lease.{hostile}")], "Next": of("Work")}]);
    json!({"QueryLanguage": "JSONata", "StartAt": of("Acquire"), "States": {
        of("Acquire"): acquire,
        of("Work"): {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 90, "Next": of("Which"),
            "Catch": [{"ErrorEquals": [of("Error")], "Next": of("Nowhere")}]},
        of("Which"): {"Type": "Choice", "Default": of("Release"),
            "Choices": [{"Condition": format!("{{% $states.input = '{hostile}' %}}"), "Next": of("Each")}]},
        of("Each"): {"Type": "Map", "Next": of("Release"),
            "ItemProcessor": {"StartAt": of("Item"), "States": {of("Item"): {"Type": hostile, "End": true}}}},
        of("Release"): call("release", json!({"lease": "{% $lease %}"}), of("Acquire")),
    }})
}

#[test]
fn in_a_definition() {
    let place = tempfile::tempdir().unwrap();
    let hostile = everything();
    let machine = machine(&hostile);
    let template = json!({"Resources": {&hostile: {"Type": "AWS::Serverless::StateMachine", "Properties": {"Definition": machine}}}});
    let elsewhere = json!({"Resources": {"M": {"Type": "AWS::Serverless::StateMachine",
        "Properties": {"DefinitionUri": argument()}}}});
    let twice = format!("{{{0}: 1, {0}: 2}}", Value::from(hostile.as_str()));
    for (file, text) in [
        ("machine.json", machine.to_string()),
        ("over-lines.json", format!("{machine:#}")),
        (
            "machine.yaml",
            format!("# YAML, of which JSON is a part.\n{machine}"),
        ),
        ("template.json", template.to_string()),
        ("elsewhere.json", elsewhere.to_string()),
        ("twice.json", twice.clone()),
        ("twice.yaml", format!("# YAML\n{twice}")),
        (&name(".json"), machine.to_string()),
    ] {
        std::fs::write(place.path().join(file), text).unwrap();
        for format in ["human", "json", "sarif"] {
            let ran = run(place.path(), &["check", "--format", format, file]);
            assert_shown(&ran, &format!("check --format {format} {file}"));
            if format != "human" {
                let printed = ran.json();
                let named = &printed["machines"][0]["findings"][0]["path"][0]["state"];
                assert!(named.is_null() || *named == format!("{hostile}Acquire"));
            }
        }
    }
    let nowhere = run(place.path(), &["check", &argument()]);
    assert_shown(&nowhere, "check of a file that is not there");
}

#[test]
fn in_a_specification() {
    let place = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| std::fs::write(place.path().join(file), text).unwrap();
    // The name of a state may be no longer.
    let hostile = name("");
    let sound = json!({"QueryLanguage": "JSONata", "StartAt": &hostile, "States": {&hostile:
        {"Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 30, "End": true}}});
    let specification = |machine: &str, output: &str, states: &str| {
        json!({"machine": machine, "output": output,
            "sections": [{"name": "Order", "states": [states], "key": "k", "ttl_seconds": 200}]})
    };
    let mut odd = specification("sound.json", "woven.json", &hostile);
    odd["sections"][0][&hostile] = 1.into();
    let file = name(".json");
    write("sound.json", &format!("{sound:#}"));
    write("faulty.json", &machine(&hostile).to_string());
    write("sound.yaml", &format!("# YAML\n{sound}"));
    for (spec, of, arguments) in [
        (
            "a",
            specification("sound.json", "woven.json", &hostile),
            &["--dry-run"][..],
        ),
        (
            "b",
            specification("sound.json", &file, &hostile),
            &["--check"],
        ),
        (
            "d",
            specification("faulty.json", "woven.json", &hostile),
            &[],
        ),
        ("e", specification(&argument(), "woven.json", &hostile), &[]),
        (
            "f",
            specification("sound.json", "woven.json", &argument()),
            &[],
        ),
        ("g", odd, &[]),
        (
            "h",
            specification("sound.yaml", "woven.yaml", &hostile),
            &["--dry-run"],
        ),
    ] {
        write(spec, &of.to_string());
        let ran = run(place.path(), &[&["weave"], arguments, &[spec]].concat());
        assert_shown(&ran, spec);
    }
    // A machine is printed byte by byte, or not at all.
    for spec in ["a", "h"] {
        let ran = run(place.path(), &["weave", "--output", "-", spec]);
        ran.is(2, "");
        ran.err_has("--output FILE");
        run(place.path(), &["weave", "--output", "woven", spec]).ended(0);
    }
    let written = std::fs::read_to_string(place.path().join("woven")).unwrap();
    assert!(written.contains('\u{202e}'));
}

/// A lease whose row has every attribute.
async fn filled() -> Fixture {
    let fixture = Fixture::start().await;
    let (key, holder) = (Key::new(key()).unwrap(), Holder::new(argument()).unwrap());
    let ttl = Ttl::new(Duration::from_secs(600)).unwrap();
    let mut request = Acquire::new(key, holder, ttl);
    request.metadata = Metadata::new(BTreeMap::from([(everything(), everything())])).unwrap();
    let granted = fixture.leases().acquire(request).await.unwrap().granted();
    assert!(granted.is_ok());
    fixture
}

#[tokio::test]
async fn in_a_table() {
    let fixture = filled().await;
    let (key, holder) = (key(), argument());
    let act = ["--who", "alice", "--why", &key];
    let all: &[&[&str]] = &[
        &["ls"],
        &["ls", "--json"],
        &["show", &key],
        &["show", &key, "--json"],
        &["holders"],
        &["holders", "--json"],
        &["holders", &holder],
        &["holders", &holder, "--json"],
        &["acquire", &key, "--no-wait", "--", "true"],
        &["acquire", &key, "--wait", "1s", "--", "true"],
        &["force-release", &key, act[0], act[1], act[2], act[3]],
        &["freeze", &key, "--yes", act[0], act[1], act[2], act[3]],
        &["acquire", &key, "--no-wait", "--", "true"],
        &["show", &key],
        &["unfreeze", &key, "--yes", act[0], act[1], act[2], act[3]],
        &[
            "force-release",
            &key,
            "--yes",
            act[0],
            act[1],
            act[2],
            act[3],
        ],
        &["show", &key],
        &["show", &format!("{key}, nowhere")],
        // Refused arguments.
        &["show", &holder],
        &["weave", &holder],
        &[&holder],
        &["extend", "--handle", &holder],
    ];
    for arguments in all {
        let ran = fixture.run(*arguments).await;
        assert_shown(&ran, &format!("{arguments:?}"));
    }
    let ran = fixture.run(&["ls", "--table", &holder]).await;
    assert_plain(&ran.err, "ls of another table");

    let acquire = ["acquire", &key, "--holder", &holder, "--metadata"];
    let of = format!("{holder}={holder}");
    let ran = fixture.run(&[&acquire[..], &[&of]].concat()).await;
    assert_shown(&ran, "acquire");
    let printed = ran.json();
    assert_eq!(printed["lease"]["holder"], holder);
    let file = fixture.home().join("handle.json");
    std::fs::write(&file, &ran.out).unwrap();
    let file = file.to_str().unwrap();
    for verb in ["extend", "release"] {
        assert_shown(&fixture.run(&[verb, "--handle", file]).await, verb);
    }
    let again = fixture.run(&["extend", "--handle", file]).await;
    assert_shown(&again, "extend of what was given back");
}

#[tokio::test]
async fn in_a_table_that_is_watched() {
    let fixture = filled().await;
    for arguments in [&["watch"][..], &["watch", "--json"]] {
        let mut watch = fixture.command(arguments).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let line = tokio::task::spawn_blocking(move || lines.next().unwrap().unwrap());
        let line = line.await.unwrap();
        assert_plain(&line, "watch");
        assert!(line.contains("\\u202e"), "{line}");
        watch.kill().unwrap();
        watch.wait().unwrap();
    }
}
