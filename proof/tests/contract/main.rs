//! The contract, to the letter: the exact JSON that leaves the real function binaries, for every sample event and every
//! error name, and what each invocation logs and counts. Most of it is data: `cases/`, and `local/scenes.yaml`, which has a
//! case for each file of `events/`.
#![allow(clippy::unwrap_used, missing_docs)]

mod failing;
mod fit;
mod golden;
mod history;
mod log;
mod malformed;
mod runner;
mod sam;
mod schemas;
mod secret_scanner;
mod triggered;

use std::collections::BTreeMap;

use leasehold_proof::{fixture::events, root};
use runner::{Player, Step};
use serde_json::{Value, json};

/// YAML, by way of a JSON value: what is one of several is written as an object with one field.
fn read<T: serde::de::DeserializeOwned>(file: &str) -> T {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let value: Value = yaml_serde::from_str(&text).expect(file);
    serde_json::from_value(value).expect(file)
}

async fn play(
    player: &mut Player,
    cases: impl IntoIterator<Item = (String, Vec<Step>)>,
) -> Vec<String> {
    let mut misfits = Vec::new();
    for (name, steps) in cases {
        if let Err(misfit) = player.play(&steps).await {
            misfits.push(format!("{name}, {misfit}"));
        }
    }
    misfits
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_keeps_contract() {
    let mut player = Player::start("2").await;
    let mut misfits = Vec::new();
    let subjects = [
        "acquiring",
        "durable",
        "execution-leases",
        "holding",
        "pools",
        "queueing",
        "watching",
    ];
    for subject in subjects {
        let cases = format!("proof/tests/contract/cases/{subject}.yaml");
        misfits.extend(play(&mut player, read::<BTreeMap<_, _>>(&cases)).await);
    }
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_events_get_listed_answers() {
    let scenes = scenes();
    let mut samples: Vec<_> = std::fs::read_dir(events())
        .unwrap()
        .map(|file| {
            file.unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        // Those are inputs of a state machine: proof/machines plays them.
        .filter(|name| !name.starts_with("with-lease"))
        .collect();
    samples.sort();
    assert_eq!(
        scenes.iter().map(|(event, _)| event).collect::<Vec<_>>(),
        samples.iter().collect::<Vec<_>>()
    );
    // The only setting that the list asks for.
    let mut player = Player::start("1").await;
    let misfits = play(&mut player, scenes).await;
    assert!(misfits.is_empty(), "{}", misfits.join("\n\n"));
}

/// The sample events' cases, in the order of their names.
fn scenes() -> Vec<(String, Vec<Step>)> {
    let list: BTreeMap<String, Value> = read("local/scenes.yaml");
    list.into_iter().map(case).collect()
}

/// An entry of the list as a case: what goes before the sample event, and the event.
fn case((event, mut entry): (String, Value)) -> (String, Vec<Step>) {
    let mut last = json!({"event": event});
    for field in ["answer", "error", "message"] {
        if let Some(value) = entry.get_mut(field) {
            last[field] = value.take();
        }
    }
    let operations = entry["tells"].as_array().cloned().unwrap_or_default();
    last["notifies"] = operations
        .iter()
        .map(|operation| json!({"operation": operation}))
        .collect();
    let mut steps = entry["before"].as_array().cloned().unwrap_or_default();
    steps.push(last);
    (event, serde_json::from_value(json!(steps)).unwrap())
}
