//! `sam local start-lambda`: functions in containers that stay, behind Lambda's API, called by the SDK as a program calls them.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use leasehold_local::{Options, Stack};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Child;

use crate::caller;
use crate::container::Container;
use crate::emulator::until_listening;
use crate::error::{Error, io};

const TO_START: Duration = Duration::from_mins(1);
const TO_STOP: Duration = Duration::from_secs(20);

/// How many calls are made.
pub(crate) const CALLS: usize = 5;

/// A lease from its grant to its end, and what is not as expected of it.
pub(crate) async fn walk(container: &Container) -> Result<Vec<String>, Error> {
    let mut stack = Stack::start(Options::default()).await?;
    if let Some(bridge) = container.engine.bridge {
        stack.listen_also(bridge).await?;
    }
    let directory = tempfile::tempdir().map_err(io("create a temporary directory"))?;
    let variables = directory.path().join("env.json");
    let environments = serde_json::to_string(&stack.environments(&container.engine.host()));
    std::fs::write(&variables, environments.unwrap_or_default()).map_err(io("write env.json"))?;
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let address = listener.and_then(|listener| listener.local_addr());
    let address = address.map_err(io("find a free port"))?;
    let port = address.port().to_string();
    let mut sam = container
        .local(&["start-lambda", "--host", "127.0.0.1", "--port", &port])
        .args(["--warm-containers", "LAZY", "--no-watch", "-n"])
        .arg(&variables)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(io("start sam local start-lambda"))?;
    let walked = calls(address).await;
    end(&mut sam).await;
    stack.stop().await;
    walked
}

async fn calls(address: SocketAddr) -> Result<Vec<String>, Error> {
    let listening = tokio::time::timeout(TO_START, until_listening(address)).await;
    listening.map_err(|_| Error::Program {
        program: "sam local start-lambda".to_owned(),
        told: "does not listen".to_owned(),
    })?;
    let client = caller::client(address);
    let mut wrong = Vec::new();
    let mut expect = |what: &str, answer: &caller::Answer, is_error: bool, right: bool| {
        println!("  start-lambda: {what}");
        if answer.is_error != is_error || !right {
            wrong.push(format!("{what}: {}", answer.text));
        }
    };
    let request =
        json!({"key": "orders/42", "holder": "sam", "request_id": "1", "ttl_seconds": 300});
    let answer = caller::invoke(&client, "AcquireFunction", &request.to_string()).await?;
    let acquired = parsed(&answer);
    expect("acquire", &answer, false, acquired["grant"] == "new");
    let handle = json!({"lease": acquired["lease"]}).to_string();
    let answer = caller::invoke(&client, "ExtendFunction", &handle).await?;
    let extended = parsed(&answer);
    let same = extended["lease"]["fencing_token"] == acquired["lease"]["fencing_token"];
    expect(
        "extend",
        &answer,
        false,
        same && extended["outcome"] == "extended",
    );
    let strict = json!({"lease": acquired["lease"], "strict": true}).to_string();
    for outcome in ["released", "already_released"] {
        let answer = caller::invoke(&client, "ReleaseFunction", &strict).await?;
        let right = parsed(&answer) == json!({"outcome": outcome, "expired": false});
        expect(&format!("release, {outcome}"), &answer, false, right);
    }
    // An error is an error to the SDK as well.
    let answer = caller::invoke(&client, "ExtendFunction", &handle).await?;
    let lost = parsed(&answer)["errorType"] == "Lease.Lost";
    expect("extend what was released", &answer, true, lost);
    Ok(wrong)
}

fn parsed(answer: &caller::Answer) -> Value {
    serde_json::from_str(&answer.text).unwrap_or_default()
}

/// As a Ctrl-C does, so that it takes its containers away.
async fn end(sam: &mut Child) {
    let group = sam
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let Some(group) = group else { return };
    let _ = kill_process_group(group, Signal::INT);
    if tokio::time::timeout(TO_STOP, sam.wait()).await.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = sam.wait().await;
    }
}
