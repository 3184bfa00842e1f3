//! The state machine engine: a Python process that serves the Step Functions API. This module starts and supervises it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Child;
use tokio::time::Instant;

use crate::arn::REGION;
use crate::error::{Error, io};
use crate::guard::session_token;
use crate::installation;
use crate::process::{self, Program};
use crate::venv::{self, PythonEnvironment};
use crate::wiring::Wiring;

/// How long the engine may take to answer. The limit is generous: imports take two seconds on an idle machine.
const START_LIMIT: Duration = Duration::from_secs(90);
/// The polling period until it answers.
const ASK_EVERY: Duration = Duration::from_millis(25);
/// The beginning of the line with the engine's port.
const ANNOUNCEMENT: &str = "Step Functions on ";

/// The running engine. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Engine {
    url: String,
    address: SocketAddr,
    child: Child,
}

impl Engine {
    /// Starts `local/asl/engine.py` and waits until it answers. Port 0 takes a free one. Its output goes to
    /// `<logs>/engine.log`.
    pub(crate) async fn start(
        root: &Path,
        logs: &Path,
        port: u16,
        wiring: &Wiring,
    ) -> Result<Self, Error> {
        let home = root.join("local/asl");
        let (python, python_path) = match installation::python() {
            Some(packaged) => packaged,
            None => (python(root).await?, String::new()),
        };
        let log = logs.join("engine.log");
        let arguments: Vec<OsString> = vec![
            home.join("engine.py").into(),
            "-p".into(),
            port.to_string().into(),
            "--exit-with-parent".into(),
        ];
        let child = Program {
            path: &python,
            arguments,
            environment: variables(wiring, &python_path),
            output: File::create(&log).map_err(io(format!("create {}", log.display())))?,
        }
        .spawn()
        .map_err(io(format!("start {}", python.display())))?;
        let mut engine = Self {
            url: String::new(),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            child,
        };
        engine.url = engine.announced(&log).await?;
        let address = engine
            .url
            .strip_prefix("http://")
            .and_then(|a| a.parse().ok());
        engine.address =
            address.ok_or_else(|| Error::Engine(format!("{} is not an address", engine.url)))?;
        Ok(engine)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the process ends by itself, which normally does not happen.
    pub(crate) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Kills the process and waits until it has ended. Executions exist only in its memory, so there is nothing to save.
    pub(crate) async fn stop(mut self) {
        process::kill(&mut self.child);
        let _ = self.child.wait().await;
    }

    /// Waits until the engine has printed its address, where it listens already.
    async fn announced(&mut self, log: &Path) -> Result<String, Error> {
        let start = Instant::now();
        loop {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let mut lines = said.lines();
            if let Some(url) = lines.find_map(|line| line.strip_prefix(ANNOUNCEMENT)) {
                return Ok(url.trim().to_owned());
            }
            let why = match self.child.try_wait() {
                Ok(Some(status)) => format!("ended at once ({status})"),
                _ if start.elapsed() > START_LIMIT => {
                    format!("did not answer within {START_LIMIT:?}")
                }
                _ => {
                    tokio::time::sleep(ASK_EVERY).await;
                    continue;
                }
            };
            return Err(Error::Engine(format!("{why}:\n{}", said.trim())));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        process::kill(&mut self.child);
    }
}

/// The Python environment of the engine and its helpers.
pub(crate) async fn python(root: &Path) -> Result<PathBuf, Error> {
    let environment = PythonEnvironment {
        name: "asl-venv",
        requirements: &root.join("local/asl/requirements.txt"),
        purpose: "the state machine engine",
        without: "install python3 and python3-venv, or use `up --no-engine`",
    };
    venv::prepare(root, &environment).await
}

fn variables(wiring: &Wiring, python_path: &str) -> BTreeMap<String, String> {
    [
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_SESSION_TOKEN", session_token()),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_REGION", REGION),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_ENDPOINT_URL_LAMBDA", &wiring.lambda),
        ("AWS_ENDPOINT_URL_SFN", &wiring.sfn),
        ("AWS_ENDPOINT_URL_DYNAMODB", &wiring.dynamodb),
        (
            "SFN_STATUS_EVENTS_URL",
            &format!("{}/events", wiring.events),
        ),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("PYTHONPATH", python_path),
        ("PYTHONUNBUFFERED", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}
