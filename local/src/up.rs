//! `leasehold-local up`: what `make local` runs.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::io;
use crate::guard::session_token;
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
  leasehold doctor --stack leasehold
  curl -H \"x-amz-security-token: $AWS_SESSION_TOKEN\" \\
      -d '{\"key\": \"orders/42\", \"holder\": \"me\", \"ttl_seconds\": 60}' \\
      $AWS_ENDPOINT_URL_LAMBDA/2015-03-31/functions/AcquireFunction/invocations
With the same header:
  curl -d @events/reap-aborted.json http://127.0.0.1:PORT/events    puts an event on the bus
  curl http://127.0.0.1:PORT/queues    shows the messages in queues, dead letters too

A signal that is ignored when it begins, as SIGHUP under nohup, does not end it.

Exit codes: 0 ended by Ctrl-C or another signal, 1 failed to start or failed later, 2 wrong arguments.";

/// Starts DynamoDB, the functions and the state machines of template.yaml on 127.0.0.1, and runs them until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
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
    /// Let DynamoDB and Step Functions listen at this address too, for functions in containers; without a value, at Docker's 172.17.0.1
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "172.17.0.1")]
    container_address: Option<IpAddr>,
    /// Run scheduled functions at this period in seconds, instead of the template's
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    sweep_every: Option<u64>,
    /// Run no scheduled functions
    #[arg(long, conflicts_with = "sweep_every")]
    no_sweep: bool,
    /// A value for a parameter of the template; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    parameter: Vec<(String, String)>,
    /// The template to run instead of the repository's, translated by tools/translate.py
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Directory for logs, env.sh and env.json [default: target/local]
    #[arg(long, value_name = "DIRECTORY")]
    run_directory: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
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
                dynamodb: self.dynamodb_port.unwrap_or(0),
                lambda: self.lambda_port.unwrap_or(0),
                sfn: self.sfn_port.unwrap_or(0),
                events: self.events_port.unwrap_or(0),
            },
            ..defaults
        }
    }
}

/// Runs the stack until a signal ends it, which is success, or until a part of it fails.
///
/// # Errors
/// The cause, if the stack could not start or a part of it failed.
pub async fn run(up: Up) -> Result<(), Error> {
    let mut ended = Signals::listen()?;
    let container_address = up.container_address;
    let options = up.options();
    let has_engine = options.engine;
    // Held until the end, because a second stack here would overwrite the files, and lose them when this one ends.
    let _lock = options.run_directory.as_deref().map(lock).transpose()?;
    let starting = async {
        let stack = Stack::start(options).await.map_err(advised)?;
        let machines = if has_engine {
            stack.deploy().await?
        } else {
            BTreeMap::new()
        };
        Ok::<_, Error>((stack, machines))
    };
    // Dropping the future ends the parts that have started.
    let (mut stack, machines) = tokio::select! {
        started = starting => started?,
        () = ended.wait() => {
            report_interrupted();
            return Ok(());
        }
    };
    let containers = Containers::reach(&mut stack, container_address).await?;
    let files = Files::write(&stack, &containers.host)?;
    // A closed pipe, as in `up | head`, is no reason to stop.
    let welcome = welcome(&stack, &machines, &files, &containers);
    let _ = writeln!(std::io::stdout(), "{welcome}");
    let result = tokio::select! {
        () = ended.wait() => Ok(()),
        error = stack.failed() => Err(error),
    };
    // The files name ports that are about to close.
    files.remove();
    stack.stop().await;
    if result.is_ok() {
        report_interrupted();
    }
    result
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

fn welcome(
    stack: &Stack,
    machines: &BTreeMap<String, String>,
    files: &Files,
    containers: &Containers,
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
        // The last part of an ARN is the machine's name.
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
        exports = exports(stack),
        containers = containers.advice(&files.json),
    )
}

/// Locks the run directory for this process. Closing the file releases the lock, also after a crash.
fn lock(run_directory: &Path) -> Result<File, Error> {
    let io = |what: &str| io(format!("{what} {}", run_directory.display()));
    std::fs::create_dir_all(run_directory).map_err(io("create"))?;
    // The file stays when the stack ends, because removing it could remove the next stack's lock.
    let file = File::create(run_directory.join("up.lock")).map_err(io("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = "another stack runs on this directory; stop it, or use --run-directory for a second one";
            let busy = std::io::Error::new(ErrorKind::ResourceBusy, message);
            Err(io("start in")(busy))
        }
        Err(TryLockError::Error(source)) => Err(io("lock")(source)),
    }
}

/// The address at which containers of `sam local invoke` find the stack. They have a loopback of their own.
#[derive(Debug)]
struct Containers {
    host: String,
    is_asked: bool,
}

impl Containers {
    /// Lets DynamoDB and Step Functions listen at `address` too, if one is given. Otherwise they listen on loopback only.
    async fn reach(stack: &mut Stack, address: Option<IpAddr>) -> Result<Self, Error> {
        if let Some(ip) = address {
            stack.listen_also(ip).await?;
        }
        Ok(Self {
            // Docker Desktop resolves this name to the machine's own loopback.
            host: address.map_or("host.docker.internal".to_owned(), |ip| ip.to_string()),
            is_asked: address.is_some(),
        })
    }

    /// The commands to type, for this machine's instruction set, which containers run without emulation.
    fn advice(&self, json: &Path) -> String {
        let architecture = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            other => other,
        };
        let json = quoted(&json.display().to_string());
        let doubt = if self.is_asked {
            String::new()
        } else {
            format!(
                "
{json} names host.docker.internal, which Docker Desktop provides. With Docker on Linux, start the stack with
--container-address, so that it listens at Docker's address too.
"
            )
        };
        format!(
            "In Lambda's container: make invoke EVENT=acquire. With SAM itself, after make build ARCH={architecture}, in a terminal that has read env.sh:

  sam local invoke AcquireFunction --parameter-overrides Architecture={architecture} --skip-pull-image \\
    -n {json} -e events/acquire.json
{doubt}"
        )
    }
}

/// The files by which other programs find the stack: `env.sh` for shells, `env.json` for `sam local invoke`.
#[derive(Debug)]
struct Files {
    script: PathBuf,
    json: PathBuf,
}

impl Files {
    fn write(stack: &Stack, host_for_containers: &str) -> Result<Self, Error> {
        let files = Self {
            script: stack.run_directory().join("env.sh"),
            json: stack.run_directory().join("env.json"),
        };
        // In a container, loopback is its own. That holds even with `--docker-network host`, which sam ignores.
        let environments = stack.environments(host_for_containers);
        let json = serde_json::to_string_pretty(&environments).unwrap_or_default() + "\n";
        // The script has the session token, and other users of this machine can reach the ports.
        for (file, text) in [(&files.script, exports(stack)), (&files.json, json)] {
            let what = format!("write {}", file.display());
            // One that is left over may be readable by others.
            let _ = std::fs::remove_file(file);
            let mut created = OpenOptions::new();
            let created = created.write(true).create_new(true).mode(0o600).open(file);
            let written = created.and_then(|mut created| created.write_all(text.as_bytes()));
            written.map_err(io(what))?;
        }
        Ok(files)
    }

    fn remove(&self) {
        for file in [&self.script, &self.json] {
            // It is no error if the file is gone already.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The exports that point the AWS CLI and every SDK at the stack, and the functions' own settings, so that a
/// program that uses the library finds the table.
fn exports(stack: &Stack) -> String {
    let mut variables = vec![
        (
            "AWS_ENDPOINT_URL_CLOUDFORMATION",
            stack.cloudformation_url(),
        ),
        ("AWS_ENDPOINT_URL_DYNAMODB", stack.dynamodb_url()),
        ("AWS_ENDPOINT_URL_LAMBDA", stack.lambda_url()),
        ("AWS_ENDPOINT_URL_SFN", stack.sfn_url().to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_DEFAULT_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "local".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "local".to_owned()),
        ("AWS_SESSION_TOKEN", session_token().to_owned()),
    ];
    variables.extend(
        stack
            .environment()
            .iter()
            .filter(|(name, _)| !name.starts_with("AWS_"))
            .map(|(name, value)| (name.as_str(), value.clone())),
    );
    let lines = variables
        .iter()
        .map(|(name, value)| format!("export {name}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// A value for a shell: in single quotes unless all its characters are safe.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_value_survives_the_shell() {
        assert_eq!(
            super::quoted("http://127.0.0.1:8000"),
            "http://127.0.0.1:8000"
        );
        assert_eq!(super::quoted(""), "''");
        assert_eq!(super::quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
