//! `sam local invoke`: a function in a container, as SAM runs it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use leasehold_local::scenes::{Scene, Stage};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::engine::Engine;
use crate::error::{Error, io};
use crate::image::Image;
use crate::program::{command, run};

const TO_INVOKE: Duration = Duration::from_mins(2);
/// Now and then the function's program is quicker than the emulator in its container, and fails to reach it.
const TOO_QUICK: &str = "Init failed";

/// What the rules count by the way, and no answer says. Functions as they are built for Lambda leave out what is logged below
/// INFO, and these must not be part of that.
const COUNTED: [&str; 4] = ["ClockDifference", "HeldTime", "QueueDepth", "WaitTime"];

/// SAM, with an engine to run containers and an image to make them of.
pub(crate) struct Container {
    pub(crate) sam: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) architecture: &'static str,
    pub(crate) engine: Engine,
    pub(crate) image: Image,
    /// Which of [`COUNTED`] stood in a function's log.
    pub(crate) seen: Mutex<BTreeSet<&'static str>>,
}

impl Container {
    /// What is counted and was in no log, in words.
    pub(crate) fn not_counted(&self) -> Option<String> {
        let seen = self.seen.lock().expect("no panic while it is held");
        let missing: Vec<_> = COUNTED
            .iter()
            .filter(|name| !seen.contains(*name))
            .collect();
        (!missing.is_empty())
            .then(|| format!("metrics\nno function in a container has counted {missing:?}"))
    }

    /// A command of `sam local`, for functions that find this machine's stack.
    pub(crate) fn local(&self, arguments: &[&str]) -> Command {
        let mut sam = command(&self.sam);
        sam.arg("local")
            .args(arguments)
            .args([
                "--parameter-overrides",
                &format!("Architecture={}", self.architecture),
            ])
            .arg("--skip-pull-image")
            .current_dir(&self.root)
            .env("SAM_CLI_TELEMETRY", "0")
            // Any will do, and none of the user's is needed.
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env_remove("AWS_PROFILE")
            .env_remove("AWS_SESSION_TOKEN");
        if let Some(instead) = &self.image.instead {
            sam.args(["--invoke-image", instead]);
        }
        self.engine.serve(&mut sam);
        sam
    }

    /// Sends the event of a scene to its function in a container, and answers its text.
    pub(crate) async fn invoke(&self, scene: &Scene, stage: &mut Stage) -> Result<String, Error> {
        if let Some(bridge) = self.engine.bridge {
            stage.listen_also(bridge).await?;
        }
        let directory = tempfile::tempdir().map_err(io("create a temporary directory"))?;
        let variables = directory.path().join("env.json");
        let id = stage.logical_id();
        let environment = json!({&id: stage.environment(&self.engine.host())});
        std::fs::write(&variables, environment.to_string()).map_err(io("write env.json"))?;
        let variables = variables.display().to_string();
        let event = format!("events/{}.json", scene.event);
        let mut retried = false;
        loop {
            let mut sam = self.local(&["invoke", &id, "-n", &variables, "-e", &event]);
            // It ends well whatever the function answers.
            let ended = run(&mut sam, TO_INVOKE).await?;
            let is_early = ended.stdout.contains(TOO_QUICK) || ended.stderr.contains(TOO_QUICK);
            if is_early && !retried {
                println!(
                    "  {:<24} \"{TOO_QUICK}\" in the container: once more",
                    scene.event
                );
                retried = true;
                continue;
            }
            let counted = COUNTED.iter().filter(|name| ended.stderr.contains(**name));
            self.seen
                .lock()
                .expect("no panic while it is held")
                .extend(counted);
            let answer = ended.stdout.trim_end_matches('\n').to_owned();
            if serde_json::from_str::<Value>(&answer).is_ok() {
                return Ok(answer);
            }
            return Err(Error::Program {
                program: format!("sam local invoke {id} -e {event}"),
                told: format!("{answer}\n{}", ended.stderr),
            });
        }
    }
}
