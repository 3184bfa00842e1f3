//! Events and answers of each version, in `proof/golden/VERSION/answers.json`: this version reads the events, and its
//! schemas fit the answers. `make -C proof golden` writes the file of this version. The clients read the answers too.

use std::fs;

use leasehold_proof::{
    fixture::{Answer, event},
    root,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{runner::Player, scenes, schemas};

#[derive(Serialize, Deserialize)]
struct Invocation {
    function: String,
    event: Value,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Outcome {
    Answer { answer: Value },
    Error { error: String, message: Value },
}

/// What the functions answer to the sample events.
async fn record() -> Vec<Invocation> {
    let mut player = Player::start("1").await;
    let mut all = Vec::new();
    for (name, steps) in scenes() {
        let function = name.split('-').next().unwrap().to_owned();
        let mut answered = None;
        let scene = player.play_with(&steps, async |fixture| {
            let answer = fixture.event(&name).await;
            answered = Some(answer.clone());
            Ok(answer)
        });
        scene.await.unwrap();
        all.push(Invocation {
            function,
            event: event(&name),
            outcome: match answered.unwrap() {
                Ok(answer) => Outcome::Answer { answer },
                Err((error, message)) => Outcome::Error { error, message },
            },
        });
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_every_version_are_read() {
    let golden = root().join("proof/golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let directory = golden.join(env!("CARGO_PKG_VERSION"));
        fs::create_dir_all(&directory).unwrap();
        let text = serde_json::to_string_pretty(&record().await).unwrap();
        fs::write(directory.join("answers.json"), text + "\n").unwrap();
    }
    let player = Player::start("1").await;
    let mut seen = 0;
    for version in fs::read_dir(golden).unwrap() {
        let file = version.unwrap().path().join("answers.json");
        let text = fs::read_to_string(&file).unwrap();
        let invocations: Vec<Invocation> = serde_json::from_str(&text).unwrap();
        for Invocation {
            function,
            event,
            outcome,
        } in invocations
        {
            let recorded: Answer = match outcome {
                Outcome::Answer { answer } => Ok(answer),
                Outcome::Error { error, message } => Err((error, message)),
            };
            schemas::check(&function, &recorded);
            let is_invalid =
                |answer: &Answer| matches!(answer, Err((name, _)) if name == "Lease.Invalid");
            let today = player.fixture.call(&function, &event).await;
            assert!(
                is_invalid(&recorded) || !is_invalid(&today),
                "accepted by an earlier version: {function} {event}: {today:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}
