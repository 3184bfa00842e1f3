//! What a caller may choose about the stack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, io};
use crate::template::STACK;

/// Changes to a function's environment: a text sets a variable, `None` removes one.
pub type EnvironmentChanges = BTreeMap<String, Option<String>>;

/// How to start a [`Stack`](crate::Stack). The default is what a test wants: everything in the template, no
/// state machine engine, streams and rules at work, no schedules, a canary, free ports, a run directory that goes with the stack.
#[derive(Clone)]
pub struct Options {
    /// The repository: where `local/asl/` and `target/` are.
    pub root: PathBuf,
    /// The stack's name.
    pub stack_name: String,
    /// The template as translated to plain `CloudFormation`; `None` is `local/template.json`, which is the repository's
    /// `template.yaml`. Keys of code and definitions in it are paths in the repository.
    pub template: Option<PathBuf>,
    /// Values for the template's parameters, instead of their defaults.
    pub parameters: BTreeMap<String, String>,
    /// Where the function binaries are. `None`: `LEASEHOLD_BIN_DIR`, or else beside the running program.
    pub binaries: Option<PathBuf>,
    /// Where logs go. `None`: a temporary directory that goes with the stack.
    pub run_directory: Option<PathBuf>,
    /// Whether to start the state machine engine: about two seconds, and on first use a Python environment.
    pub engine: bool,
    /// What becomes of the template's schedules.
    pub schedules: Schedules,
    /// Whether streams are followed, and queues emptied, by the functions that the template subscribes to them.
    /// Rules always work; what a delivery meets is [`Stack::deliveries`](crate::Stack::deliveries)' say.
    pub follow: bool,
    /// How long queues keep messages back, after they were sent and after they failed, instead of what the template
    /// says.
    pub queue_delay: Option<Duration>,
    /// Changes to environments, by logical id or verb; `"*"` is every function.
    pub environment: BTreeMap<String, EnvironmentChanges>,
    /// Whether functions log all they can and a [`Canary`](crate::Canary) looks for secrets in it when the stack ends,
    /// which then panics.
    pub canary: bool,
    /// Ports for DynamoDB, Lambda, Step Functions and events; 0 takes a free one.
    pub ports: Ports,
}

/// What becomes of the template's schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedules {
    /// Nothing runs by itself.
    #[default]
    Never,
    /// As the template says.
    FromTemplate,
    /// Every scheduled function at this period.
    Every(Duration),
}

/// Ports on 127.0.0.1; 0 takes a free one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports {
    /// The proxy in front of DynamoDB.
    pub dynamodb: u16,
    /// The Lambda host.
    pub lambda: u16,
    /// The state machine engine.
    pub sfn: u16,
    /// The event bus.
    pub events: u16,
}

impl Default for Options {
    fn default() -> Self {
        // This crate is a directory of the repository, and runs on the machine that built it.
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap_or(Path::new("."));
        Self {
            root: root.to_owned(),
            stack_name: STACK.to_owned(),
            template: None,
            parameters: BTreeMap::new(),
            binaries: None,
            run_directory: None,
            engine: false,
            schedules: Schedules::Never,
            follow: true,
            queue_delay: None,
            environment: BTreeMap::new(),
            canary: true,
            ports: Ports::default(),
        }
    }
}

impl Options {
    /// The template to read.
    pub(super) fn template(&self) -> PathBuf {
        self.template
            .clone()
            .unwrap_or_else(|| self.root.join("local/template.json"))
    }

    /// The directory of the function binaries.
    pub(super) fn binaries(&self) -> Result<PathBuf, Error> {
        if let Some(chosen) = &self.binaries {
            return Ok(chosen.clone());
        }
        if let Some(chosen) = std::env::var_os("LEASEHOLD_BIN_DIR") {
            return Ok(chosen.into());
        }
        let own = std::env::current_exe().map_err(io("find the running program"))?;
        let directory = own.parent().unwrap_or(Path::new("."));
        // Tests and examples are built one level below the binaries.
        let below = ["deps", "examples"]
            .iter()
            .any(|name| directory.ends_with(name));
        Ok(if below {
            directory.parent().unwrap_or(directory)
        } else {
            directory
        }
        .to_owned())
    }

    /// The environment of a function after the changes that concern it, the general ones first.
    pub(super) fn change(
        &self,
        environment: &mut BTreeMap<String, String>,
        logical_id: &str,
        verb: &str,
    ) {
        for name in ["*", verb, logical_id] {
            for (variable, value) in self.environment.get(name).into_iter().flatten() {
                match value {
                    Some(value) => environment.insert(variable.clone(), value.clone()),
                    None => environment.remove(variable),
                };
            }
        }
    }
}
