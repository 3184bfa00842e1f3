//! `leasehold-local up`: what `make local` runs.

mod containers;
mod files;
mod lock;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Options, Ports, Schedules, Signals, Stack, report_interrupted};
use clap::Args;

const EXAMPLES: &str = "Examples:
  leasehold-local up
  leasehold-local up --sweep-every 5 --dynamodb-port 8000 --lambda-port 3001 --sfn-port 8083
  leasehold-local up --no-engine --parameter ClockMarginMs=0

In another terminal:
  . target/local/env.sh
  aws dynamodb scan --table-name LeaseTable
  aws stepfunctions list-state-machines
  curl -d '{\"key\": \"orders/42\", \"holder\": \"me\", \"ttl_seconds\": 60}' \\
      $AWS_ENDPOINT_URL_LAMBDA/2015-03-31/functions/AcquireFunction/invocations
  curl -d @events/reap-aborted.json http://127.0.0.1:PORT/events    puts an event on the bus
  curl http://127.0.0.1:PORT/queues    shows what waits in queues, dead letters too

Exit codes: 0 ended by Ctrl-C or another signal, 1 could not start or broke, 2 wrong arguments.";

/// Starts DynamoDB, the functions and the state machines of template.yaml on 127.0.0.1, and stays until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// Port for DynamoDB [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    dynamodb_port: u16,
    /// Port for Lambda [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    lambda_port: u16,
    /// Port for Step Functions [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    sfn_port: u16,
    /// Port for the event bus and the queues [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    events_port: u16,
    /// Leave Step Functions out: no Python is needed then
    #[arg(long)]
    no_engine: bool,
    /// Where containers reach this machine; what functions call listens there too [default: 172.17.0.1, Docker's, if it is there]
    #[arg(long, value_name = "ADDRESS")]
    container_address: Option<IpAddr>,
    /// Run scheduled functions every so many seconds instead of as the template says
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    sweep_every: Option<u64>,
    /// Run no scheduled functions
    #[arg(long, conflicts_with = "sweep_every")]
    no_sweep: bool,
    /// A value for a parameter of the template; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    parameter: Vec<(String, String)>,
    /// The template to run instead of the repository's, as tools/translate.py translates it
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Where logs, env.sh and env.json go [default: target/local]
    #[arg(long, value_name = "DIRECTORY")]
    run_directory: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("this is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Up {
    fn options(self) -> Options {
        let defaults = Options::default();
        let run_directory = self
            .run_directory
            .unwrap_or_else(|| defaults.root.join("target/local"));
        Options {
            template: self.template,
            parameters: self.parameter.into_iter().collect(),
            run_directory: Some(run_directory),
            engine: !self.no_engine,
            schedules: match (self.no_sweep, self.sweep_every) {
                (true, _) => Schedules::Never,
                (false, Some(seconds)) => Schedules::Every(Duration::from_secs(seconds)),
                (false, None) => Schedules::FromTemplate,
            },
            ports: Ports {
                dynamodb: self.dynamodb_port,
                lambda: self.lambda_port,
                sfn: self.sfn_port,
                events: self.events_port,
            },
            canary: false,
            ..defaults
        }
    }
}

/// Runs the stack until a signal ends it, which is success, or a part of it breaks.
///
/// # Errors
/// Whatever kept it from starting, or broke it.
pub async fn run(up: Up) -> Result<(), Error> {
    let mut ended = Signals::listen()?;
    let container_address = up.container_address;
    let options = up.options();
    let has_engine = options.engine;
    // Held until the end: a second stack here would take the files over, and lose them when this one ends.
    let _lock = options
        .run_directory
        .as_deref()
        .map(lock::take)
        .transpose()?;
    let starting = async {
        let stack = Stack::start(options).await.map_err(advised)?;
        let machines = if has_engine {
            stack.deploy().await?
        } else {
            BTreeMap::new()
        };
        Ok::<_, Error>((stack, machines))
    };
    // Dropped half way, the parts that have started go too.
    let (mut stack, machines) = tokio::select! {
        started = starting => started?,
        () = ended.wait() => {
            report_interrupted();
            return Ok(());
        }
    };
    let containers = containers::Containers::reach(&mut stack, container_address).await?;
    let files = files::Files::write(&stack, &containers.host)?;
    // A reader that went away, as in `up | head`, is no reason to stop.
    let welcome = welcome(&stack, &machines, &files, &containers);
    let _ = writeln!(std::io::stdout(), "{welcome}");
    let result = tokio::select! {
        () = ended.wait() => Ok(()),
        error = stack.failed() => Err(error),
    };
    // They name ports that nobody serves any more.
    files.remove();
    stack.stop().await;
    if result.is_ok() {
        report_interrupted();
    }
    result
}

/// What to do about a port that somebody else has.
fn advised(error: Error) -> Error {
    const ADVICE: &str = "choose another port, or leave the option out";
    match error {
        Error::Io { what, source } if source.kind() == ErrorKind::AddrInUse => Error::Io {
            what,
            source: std::io::Error::new(source.kind(), format!("{source}; {ADVICE}")),
        },
        // The engine binds its port itself.
        Error::Engine(told) if told.contains("Address already in use") => {
            Error::Engine(format!("{told}\n{ADVICE}"))
        }
        other => other,
    }
}

fn welcome(
    stack: &Stack,
    machines: &BTreeMap<String, String>,
    files: &files::Files,
    containers: &containers::Containers,
) -> String {
    let functions: Vec<_> = stack
        .functions()
        .functions()
        .into_iter()
        .map(|function| function.logical_id)
        .collect();
    let machines = if machines.is_empty() {
        "not started".to_owned()
    } else {
        // An ARN ends in the name, which is what one has to know to write it.
        let names = machines.values().filter_map(|arn| arn.rsplit(':').next());
        format!(
            "{}   {}",
            stack.sfn_url(),
            names.collect::<Vec<_>>().join(" ")
        )
    };
    format!(
        "Leasehold is up; Ctrl-C ends it.

  DynamoDB        {dynamodb}   {tables}
  Lambda          {lambda}   {functions}
  Step Functions  {machines}
  events, queues  {events}/events   {events}/queues
  logs            {logs}

In another terminal, for the AWS CLI and every SDK (. {script} does the same):

{exports}
{containers}",
        dynamodb = stack.dynamodb_url(),
        tables = stack.tables().join(" "),
        lambda = stack.lambda_url(),
        functions = functions.join(" "),
        events = stack.events_url(),
        logs = stack.run_directory().join("logs").display(),
        script = files.script.display(),
        exports = files::exports(stack),
        containers = containers.told(&files.json),
    )
}
