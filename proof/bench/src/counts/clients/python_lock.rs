//! `python_dynamodb_lock`, in a Python process that does as it is told.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Act, Lock, Setting, Who, told};
use crate::python::{HOME, prepare};
use crate::site::Site;

pub(super) const SETTINGS: &str = "0.9.1 in a process of its own: a lease is as long as a scene tells, asked for every sixth of it, as by \
     default; an extend is what its background thread does once, done when it is told; it gives up after four leases \
     and 10 s; release_lock(best_effort=False)";

/// How long the process may take to import, to create its table and its client, and to do as it is told.
const LIMIT: Duration = Duration::from_mins(2);
/// A heartbeat so rare that none comes in between.
const NEVER: Duration = Duration::from_hours(1);

/// A process. Killed when it is dropped, in the middle of whatever it does.
pub struct PythonLock {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// What it answers to an order.
#[derive(Deserialize)]
struct Answer {
    error: Option<String>,
}

impl PythonLock {
    /// A process whose client asks at `url`; one of them has to `create` the table.
    pub async fn at(url: &str, setting: &Setting, create: bool) -> Result<Self, String> {
        let python = prepare(&setting.root).await.map_err(|error| told(&error))?;
        let started = command(&python, url, setting, create).spawn();
        let mut child = started.map_err(|error| told(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process has no input or output".to_owned());
        };
        let mut player = Self {
            _child: child,
            input,
            output: BufReader::new(output).lines(),
        };
        match player.line().await? {
            line if line == "ready" => Ok(player),
            line => Err(format!("not understood: {line}")),
        }
    }

    async fn line(&mut self) -> Result<String, String> {
        match tokio::time::timeout(LIMIT, self.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(_) => Err("the process has ended".to_owned()),
            Err(_) => Err(format!("the process was silent for {LIMIT:?}")),
        }
    }

    async fn order(&mut self, act: &str, key: &str) -> Result<(), String> {
        let order = format!("{}\n", json!({ "do": act, "key": key }));
        let written = self.input.write_all(order.as_bytes()).await;
        written.map_err(|error| told(&error))?;
        let line = self.line().await?;
        let answer: Answer = serde_json::from_str(&line).map_err(|error| told(&error))?;
        answer.error.map_or(Ok(()), Err)
    }
}

fn command(python: &Path, url: &str, setting: &Setting, create: bool) -> Command {
    let seconds = |length: Duration| length.as_secs_f64().to_string();
    let mut command = Command::new(python);
    command
        .arg(setting.root.join(HOME).join("scenes.py"))
        .args(["--endpoint", url])
        .args(["--lease", &seconds(setting.lease)])
        .args(["--heartbeat", &seconds(NEVER)])
        .args(["--period", &seconds(setting.lease / 6)])
        .env_clear()
        .env("LANG", "C.UTF-8")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        // It ends when its input does, so that it does not outlive us whatever happens.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if create {
        command.arg("--create");
    }
    command
}

impl Lock for PythonLock {
    const WHO: Who = Who::PythonDynamodbLock;
    type Held = String;

    async fn enter(site: &Site, setting: &Setting) -> Result<Self, String> {
        Self::at(&site.url(), setting, true).await
    }

    async fn acquire(&mut self, key: &str) -> Result<String, String> {
        self.order(Act::Acquire.told(), key).await?;
        Ok(key.to_owned())
    }

    async fn extend(&mut self, held: &mut String) -> Result<(), String> {
        self.order(Act::Extend.told(), held).await
    }

    async fn release(&mut self, held: String) -> Result<(), String> {
        self.order(Act::Release.told(), &held).await
    }
}
