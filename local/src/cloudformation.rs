//! `CloudFormation`, to create a translated template's resources by and to be told what came of them: moto's, in the engine's
//! process, with an account of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::engine::{self, Engine};
use crate::error::{Error, io};
use crate::process::Program;
use crate::stack::NOWHERE;

/// The running service. Dropping it kills its process.
#[derive(Debug)]
pub struct CloudFormation {
    root: PathBuf,
    python: PathBuf,
    engine: Engine,
}

impl CloudFormation {
    /// Starts it; what it says goes to `<logs>/engine.log`.
    ///
    /// # Errors
    /// [`Error::Python`], [`Error::Engine`], or [`Error::Io`] for ports and files.
    pub async fn start(root: &Path, logs: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(logs).map_err(io(format!("create {}", logs.display())))?;
        let wiring = engine::Wiring {
            lambda: NOWHERE.to_owned(),
            dynamodb: String::new(),
            sfn: String::new(),
            status_events: String::new(),
            cloudformation: true,
        };
        Ok(Self {
            root: root.to_owned(),
            python: engine::python(root).await?,
            engine: Engine::start(root, logs, 0, &wiring).await?,
        })
    }

    /// Creates the stack of a translated template in an empty account. Answers the file that says what is there then, in the
    /// form of a template: `created.json` in `out`.
    ///
    /// # Errors
    /// [`Error::Call`] with what `CloudFormation` has against the template.
    pub async fn create(
        &self,
        template: &Path,
        parameters: &BTreeMap<String, String>,
        out: &Path,
    ) -> Result<PathBuf, Error> {
        std::fs::create_dir_all(out).map_err(io(format!("create {}", out.display())))?;
        let script = self.root.join("local/asl/deploy.py");
        let mut arguments = vec![script.into(), self.engine.url().into()];
        arguments.extend([template.into(), self.root.clone().into(), out.into()]);
        let given = parameters.iter();
        arguments.extend(given.map(|(name, value)| format!("{name}={value}").into()));
        let log = out.join("created.log");
        let program = Program {
            path: &self.python,
            arguments,
            environment: std::env::vars().collect(),
            output: File::create(&log).map_err(io(format!("create {}", log.display())))?,
        };
        let mut child = program.spawn().map_err(io("start deploy.py"))?;
        let status = child.wait().await.map_err(io("run deploy.py"))?;
        if status.success() {
            return Ok(out.join("created.json"));
        }
        let told = std::fs::read_to_string(&log).unwrap_or_default();
        Err(Error::Call {
            what: "CloudFormation".to_owned(),
            message: told.trim().to_owned(),
        })
    }

    /// Ends the process and waits until it is gone.
    pub async fn stop(self) {
        self.engine.stop().await;
    }
}
