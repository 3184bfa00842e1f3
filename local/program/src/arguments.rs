//! The arguments that say which stack to start, and the start.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use leasehold_local::{Error, Options, Ports, Schedules, Stack};

use crate::user_code::{self, UserCode};

/// What `up` and `exec` start.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Port for DynamoDB [default: a free one]
    #[arg(long, value_name = "PORT")]
    dynamodb_port: Option<u16>,
    /// Port for Lambda [default: a free one]
    #[arg(long, value_name = "PORT")]
    lambda_port: Option<u16>,
    /// Port for Step Functions [default: a free one]
    #[arg(long, value_name = "PORT")]
    sfn_port: Option<u16>,
    /// Port for the event bus and the queues [default: a free one]
    #[arg(long, value_name = "PORT")]
    events_port: Option<u16>,
    /// Omit Step Functions, and with it the need for Python
    #[arg(long)]
    no_engine: bool,
    /// Run scheduled functions at this period in seconds, instead of the template's
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    sweep_every: Option<u64>,
    /// Run no scheduled functions
    #[arg(long, conflicts_with = "sweep_every")]
    no_sweep: bool,
    /// A value for a parameter of the template; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = user_code::pair)]
    parameter: Vec<(String, String)>,
    #[command(flatten)]
    user_code: UserCode,
    /// Where AWS's local runner of durable functions listens: what they ask of Lambda goes there, and their executions may have leases
    #[arg(long, value_name = "URL")]
    durable_runner: Option<String>,
    /// The template to run instead of Leasehold's own: in JSON, as `make translate` writes it in a clone
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Directory for logs, which `up` also gives env.sh and env.json [default of up: target/local in a clone,
    /// ~/.cache/leasehold-local otherwise; of exec: a temporary one]
    #[arg(long, value_name = "DIRECTORY")]
    run_directory: Option<PathBuf>,
}

impl Arguments {
    /// The directory, if one was given.
    pub(crate) fn run_directory(&self) -> Option<PathBuf> {
        self.run_directory.clone()
    }

    /// Starts the stack with everything in it. Returns it, and the ARNs of its machines.
    pub(crate) async fn start(
        self,
        run_directory: Option<PathBuf>,
    ) -> Result<(Stack, BTreeMap<String, String>), Error> {
        let user_code = self.user_code.clone();
        let options = self.options(run_directory);
        let has_engine = options.engine;
        let stack = Stack::start(options).await.map_err(advised)?;
        let mut machines = user_code.add_to(&stack).await?;
        if has_engine {
            machines.extend(stack.deploy().await?);
        }
        Ok((stack, machines))
    }

    fn options(self, run_directory: Option<PathBuf>) -> Options {
        Options {
            template: self.template,
            parameters: self.parameter.into_iter().collect(),
            run_directory,
            durable_runner: self.durable_runner,
            engine: !self.no_engine,
            schedules: match (self.no_sweep, self.sweep_every) {
                (true, _) => Schedules::Never,
                (false, Some(seconds)) => Schedules::Every(Duration::from_secs(seconds)),
                (false, None) => Schedules::FromTemplate,
            },
            ports: Ports {
                dynamodb: self.dynamodb_port.unwrap_or(0),
                lambda: self.lambda_port.unwrap_or(0),
                sfn: self.sfn_port.unwrap_or(0),
                events: self.events_port.unwrap_or(0),
            },
            ..Options::default()
        }
    }
}

/// Adds advice to an error about a port in use.
fn advised(error: Error) -> Error {
    const ADVICE: &str = "choose another port, or omit the option";
    match error {
        Error::Io { what, source } if source.kind() == ErrorKind::AddrInUse => Error::Io {
            what,
            source: std::io::Error::new(source.kind(), format!("{source}; {ADVICE}")),
        },
        // The engine binds its port itself.
        Error::Engine(message) if message.contains("Address already in use") => {
            Error::Engine(format!("{message}\n{ADVICE}"))
        }
        other => other,
    }
}
