//! The options of the stack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, io};
use crate::installation;
use crate::lambda::durable;
use crate::observer::Observer;
use crate::template::STACK;

/// Changes to a function's environment: a text sets a variable, `None` removes it.
pub type EnvironmentChanges = BTreeMap<String, Option<String>>;

/// How to start a [`Stack`](crate::Stack). The default suits tests: everything in the template, no
/// state machine engine, queues and rules on, no schedules, free ports, and a temporary run directory.
#[derive(Clone)]
pub struct Options {
    /// The repository, or its part in the package: where `local/` and `templates/statemachines/` are.
    pub root: PathBuf,
    /// The stack's name.
    pub stack_name: String,
    /// The template, translated to plain `CloudFormation`. `None` is `local/template.json`, the translation of the repository's
    /// `template.yaml`. Its keys of code and definitions are paths in the repository.
    pub template: Option<PathBuf>,
    /// Values for the template's parameters, instead of their defaults.
    pub parameters: BTreeMap<String, String>,
    /// The directory of the function binaries. `None`: `LEASEHOLD_BIN_DIR`, or else the directory of the running program.
    pub binaries: Option<PathBuf>,
    /// The directory for logs. `None`: a temporary directory that is deleted with the stack.
    pub run_directory: Option<PathBuf>,
    /// Whether to start the state machine engine. That takes about two seconds, and on first use creates a Python environment.
    pub engine: bool,
    /// How the template's schedules run.
    pub schedules: Schedules,
    /// Whether the functions that the template subscribes empty queues.
    /// Rules always work.
    pub follow: bool,
    /// The delay of messages in queues, after they were sent and after they failed, instead of the template's.
    pub queue_delay: Option<Duration>,
    /// Changes to environments, by logical id or verb; `"*"` is every function.
    pub environment: BTreeMap<String, EnvironmentChanges>,
    /// Who sees everything that passes, and reads the logs when the stack ends. With an observer, functions log everything.
    pub observer: Option<Arc<dyn Observer>>,
    /// The address of AWS's local runner of durable functions, to which what concerns their executions goes.
    pub durable_runner: Option<String>,
    /// Ports for DynamoDB, Lambda, Step Functions and events. 0 takes a free one.
    pub ports: Ports,
}

/// How the template's schedules run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedules {
    /// No function runs by schedule.
    #[default]
    Never,
    /// At the template's periods.
    FromTemplate,
    /// Every scheduled function at this period.
    Every(Duration),
}

/// Ports on 127.0.0.1. 0 takes a free one.
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
        Self {
            root: installation::home(),
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
            observer: None,
            durable_runner: None,
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

    /// Values for the template's parameters. The runner's executions may have leases.
    pub(super) fn parameters(&self) -> BTreeMap<String, String> {
        let mut parameters = self.parameters.clone();
        if self.durable_runner.is_some() {
            let listed = parameters.entry("DurableFunction".to_owned());
            listed.or_insert_with(durable::function);
        }
        parameters
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

    /// The environment of a function after its changes, the general ones first.
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
