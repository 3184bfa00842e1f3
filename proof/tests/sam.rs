//! Every function with every sample event in Lambda's container, by `sam local invoke`: it answers what the contract says, as
//! the same functions do as processes of this machine (tests of the contract). `make sam-test` starts it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::sync::Arc;

use leasehold_local::scenes::{self, Scene};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinSet;

/// This machine, as containers on Docker's default network see it; Docker Desktop has a name instead.
const BRIDGE: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));
const DESKTOP: &str = "host.docker.internal";

/// Metrics that no answer shows. Functions built for Lambda leave out what is logged below INFO; these have to be in.
const COUNTED: [&str; 4] = ["ClockDifference", "HeldTime", "QueueDepth", "WaitTime"];

/// Containers at work at a time, but for the first, with which SAM makes its image.
const AT_ONCE: usize = 4;

struct Invoked {
    event: String,
    wrong: Option<String>,
    counted: Vec<&'static str>,
}

#[tokio::test]
#[ignore = "needs SAM, Docker and functions built for Lambda: make sam-test"]
async fn every_function_answers_in_lambdas_container_what_the_contract_says() {
    let only = std::env::var("SAM_EVENTS").unwrap_or_default();
    let has_bridge = tokio::net::TcpListener::bind((BRIDGE, 0)).await.is_ok();
    let mut scenes = scenes::all().unwrap();
    scenes.retain(|scene| scene.event.contains(&only));
    assert!(!scenes.is_empty(), "no event's name contains {only:?}");
    let (mut running, mut done) = (JoinSet::new(), Vec::new());
    for (nth, scene) in scenes.into_iter().map(Arc::new).enumerate() {
        let room = if nth < 2 { 1 } else { AT_ONCE };
        while running.len() >= room {
            done.push(running.join_next().await.unwrap().unwrap());
        }
        running.spawn(async move { invoke(&scene, has_bridge).await });
    }
    done.extend(running.join_all().await);
    let wrong: Vec<String> = done
        .iter()
        .filter_map(|invoked| Some(format!("{}: {}", invoked.event, invoked.wrong.as_ref()?)))
        .collect();
    println!(
        "sam: {} invocations, {} as expected",
        done.len(),
        done.len() - wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let counted: BTreeSet<&str> = done
        .iter()
        .flat_map(|invoked| invoked.counted.clone())
        .collect();
    assert!(
        !only.is_empty() || counted.len() == COUNTED.len(),
        "counted in containers: {counted:?}"
    );
}

async fn invoke(scene: &Scene, has_bridge: bool) -> Invoked {
    let mut stage = scene.set().await.unwrap();
    let mut host = DESKTOP.to_owned();
    if has_bridge {
        stage.listen_also(BRIDGE).await.unwrap();
        host = BRIDGE.to_string();
    }
    let directory = tempfile::tempdir().unwrap();
    let environment = directory.path().join("env.json");
    let function = stage.logical_id();
    let variables = json!({ &function: stage.environment(&host) });
    std::fs::write(&environment, variables.to_string()).unwrap();
    let mut verdict = None;
    let mut log = String::new();
    // Now and then a function is quicker than the emulator in its container, and fails to reach it: once more then.
    for _ in 0..2 {
        let mut sam = Command::new(std::env::var_os("SAM").expect("SAM names the sam command"));
        sam.current_dir(leasehold_proof::root())
            .args(["local", "invoke", &function, "--skip-pull-image", "-n"])
            .arg(&environment)
            .arg("-e")
            .arg(format!("events/{}.json", scene.event))
            .arg("--parameter-overrides")
            .arg(format!(
                "Architecture={}",
                std::env::var("SAM_ARCH").unwrap()
            ))
            // Any will do, and none of the user's is needed.
            .envs([
                ("AWS_ACCESS_KEY_ID", "local"),
                ("AWS_SECRET_ACCESS_KEY", "local"),
            ])
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env_remove("AWS_PROFILE")
            .env_remove("AWS_SESSION_TOKEN")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Ok(image) = std::env::var("SAM_IMAGE") {
            sam.args(["--invoke-image", &image]);
        }
        let output = sam.output().await.unwrap();
        let answer = String::from_utf8_lossy(&output.stdout);
        log = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_json = serde_json::from_str::<Value>(answer.trim()).is_ok();
        verdict = if is_json {
            scene.judge(answer.trim(), &stage.step_functions_calls())
        } else {
            Some(format!("{answer}\n{log}"))
        };
        if !format!("{answer}{log}").contains("Init failed") {
            break;
        }
    }
    stage.stop().await;
    let word = if verdict.is_none() {
        "as expected"
    } else {
        "NOT as expected"
    };
    println!("  {:<24} {word}", scene.event);
    Invoked {
        event: scene.event.clone(),
        wrong: verdict,
        counted: COUNTED
            .into_iter()
            .filter(|name| log.contains(name))
            .collect(),
    }
}
