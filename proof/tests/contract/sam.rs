//! Every function with every sample event in Lambda's container, by `sam local invoke`: it answers what the contract says, as
//! the same functions do as processes of this machine. `make -C proof sam-test` starts it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::sync::Mutex;

use leasehold_local::session_token;
use leasehold_proof::fixture::{Answer, Fixture, error};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::runner::{Player, Step};

/// This machine, as containers on Docker's default network see it; Docker Desktop has a name instead.
const BRIDGE: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));
const DESKTOP: &str = "host.docker.internal";

/// Metrics that no answer shows. Functions built for Lambda leave out what is logged below INFO; these have to be in.
const COUNTED: [&str; 4] = ["ClockDifference", "HeldTime", "QueueDepth", "WaitTime"];

/// In the place of an event's name: the first event of each function. What a function answers to the others it answers as a process
/// of this machine too; the container shows that it starts, and reaches the database, as it is built for Lambda.
const EACH: &str = "each";

#[derive(Default)]
struct Verdicts {
    invocations: usize,
    wrong: Vec<String>,
    counted: BTreeSet<&'static str>,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs SAM, Docker and functions built for Lambda: make -C proof sam-test"]
async fn functions_keep_contract_in_container() {
    let only = std::env::var("SAM_EVENTS").unwrap_or_default();
    let mut scenes = crate::scenes();
    if only == EACH {
        let mut functions = BTreeSet::new();
        scenes.retain(|(event, _)| {
            functions.insert(event.split(['-', '.']).next().map(str::to_owned))
        });
    } else {
        scenes.retain(|(event, _)| event.contains(&only));
    }
    assert!(!scenes.is_empty(), "no event's name contains {only:?}");
    let verdicts = Mutex::default();
    // The first alone, because SAM makes its image with it; then four at a time, each with a stack of its own.
    let rest = Mutex::new(scenes.split_off(1).into_iter());
    work(&Mutex::new(scenes.into_iter()), &verdicts).await;
    tokio::join!(
        work(&rest, &verdicts),
        work(&rest, &verdicts),
        work(&rest, &verdicts),
        work(&rest, &verdicts),
    );
    let Verdicts {
        invocations,
        wrong,
        counted,
    } = verdicts.into_inner().unwrap();
    let right = invocations - wrong.len();
    println!("sam: {invocations} invocations, {right} as expected");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        !only.is_empty() || counted.len() == COUNTED.len(),
        "counted in containers: {counted:?}"
    );
}

/// Plays scenes on one stack until none is left.
async fn work(
    scenes: &Mutex<impl Iterator<Item = (String, Vec<Step>)>>,
    verdicts: &Mutex<Verdicts>,
) {
    let next = || scenes.lock().unwrap().next();
    let Some(mut scene) = next() else {
        return;
    };
    let mut player = Player::start("1").await;
    let mut host = DESKTOP.to_owned();
    if tokio::net::TcpListener::bind((BRIDGE, 0)).await.is_ok() {
        player.fixture.stack.listen_also(BRIDGE).await.unwrap();
        player.step_functions.listen_also(BRIDGE).await.unwrap();
        host = BRIDGE.to_string();
    }
    loop {
        let (event, steps) = &scene;
        let mut log = String::new();
        let invoke = async |fixture: &Fixture| invoke(fixture, event, &host, &mut log).await;
        let outcome = player.play_with(steps, invoke).await;
        let word = if outcome.is_ok() { "" } else { "NOT " };
        println!("  {event:<24} {word}as expected");
        {
            let mut verdicts = verdicts.lock().unwrap();
            verdicts.invocations += 1;
            let wrong = outcome.err().map(|misfit| format!("{event}: {misfit}"));
            verdicts.wrong.extend(wrong);
            let counted = COUNTED.into_iter().filter(|name| log.contains(name));
            verdicts.counted.extend(counted);
        }
        match next() {
            Some(next) => scene = next,
            None => break,
        }
    }
    player.fixture.stack.stop().await;
}

/// Sends a sample event to its function in a container, which reaches this machine as `host`.
async fn invoke(
    fixture: &Fixture,
    event: &str,
    host: &str,
    log: &mut String,
) -> Result<Answer, String> {
    let verb = event.split('-').next().unwrap();
    let function = fixture.stack.functions().function(verb).unwrap().logical_id;
    let environments = fixture.stack.environments(host);
    let directory = tempfile::tempdir().unwrap();
    let variables = directory.path().join("env.json");
    std::fs::write(
        &variables,
        json!({ &function: environments[&function] }).to_string(),
    )
    .unwrap();
    let mut answer = String::new();
    // Now and then a function is quicker than the emulator in its container, and fails to reach it: once more then.
    for _ in 0..2 {
        let mut sam = Command::new(std::env::var_os("SAM").expect("SAM names the sam command"));
        sam.current_dir(leasehold_proof::root())
            .args(["local", "invoke", &function, "--skip-pull-image", "-n"])
            .arg(&variables)
            .arg("-e")
            .arg(format!("events/{event}.json"))
            .arg("--parameter-overrides")
            .arg(format!(
                "Architecture={}",
                std::env::var("SAM_ARCH").unwrap()
            ))
            // SAM passes on its own, and none of the user's is needed.
            .envs([
                ("AWS_ACCESS_KEY_ID", "local"),
                ("AWS_SECRET_ACCESS_KEY", "local"),
                ("AWS_SESSION_TOKEN", session_token()),
            ])
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env_remove("AWS_PROFILE")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Ok(image) = std::env::var("SAM_IMAGE") {
            sam.args(["--invoke-image", &image]);
        }
        let output = sam.output().await.unwrap();
        answer = String::from_utf8_lossy(&output.stdout).into_owned();
        *log = String::from_utf8_lossy(&output.stderr).into_owned();
        if !format!("{answer}{log}").contains("Init failed") {
            break;
        }
    }
    match serde_json::from_str::<Value>(answer.trim()) {
        Ok(said) if said.get("errorType").is_some() => Ok(Err(error(said))),
        Ok(said) => Ok(Ok(said)),
        Err(_) => Err(format!("{answer}\n{log}")),
    }
}
