//! `leasehold-local up`: what `make local` runs.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use leasehold_local::{Error, Stack, installation};
use leasehold_net::quoted;
use rustix::process::{Signal, getpid, kill_process};

use crate::arguments::Arguments;
use crate::console::Console;
use crate::signals::{listen_for_ends, report_interrupted};

const EXAMPLES: &str = "Examples:
  leasehold-local up
  leasehold-local up --sweep-every 5 --dynamodb-port 8000 --lambda-port 3001 --sfn-port 8083
  leasehold-local up --no-engine --parameter ClockMarginMs=0

In another terminal:
  . RUN_DIRECTORY/env.sh      the path that it printed
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
pub(crate) struct Up {
    #[command(flatten)]
    what: Arguments,
    /// Let DynamoDB, Lambda and Step Functions listen at this address too, for functions in containers; without a value, at Docker's 172.17.0.1
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "172.17.0.1")]
    container_address: Option<IpAddr>,
    /// Port for the console [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    console_port: u16,
    /// Serve no console
    #[arg(long, conflicts_with = "console_port")]
    no_console: bool,
    /// End when standard input closes, as it does when the process at its other end dies
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

/// Runs the stack until a signal ends it, which is success, or until a part of it fails.
pub(crate) async fn run(up: Up) -> Result<(), Error> {
    let mut ended = listen_for_ends()?;
    if up.end_with_stdin {
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = kill_process(getpid(), Signal::TERM);
        });
    }
    let container_address = up.container_address;
    let run_directory = up
        .what
        .run_directory()
        .unwrap_or_else(installation::run_directory);
    // Dropping the future ends the parts that have started.
    let (mut stack, machines) = tokio::select! {
        started = up.what.start(Some(run_directory)) => started?,
        _ = ended.next() => {
            report_interrupted();
            return Ok(());
        }
    };
    let containers = Containers::reach(&mut stack, container_address).await?;
    let files = Files::write(&stack, &containers.host)?;
    // Programs that start the stack look at no page.
    let console = if up.no_console || up.end_with_stdin {
        Ok(None)
    } else {
        Console::serve(&stack, up.console_port).await
    };
    // A closed pipe, as in `up | head`, is no reason to stop.
    let line = match &console {
        Ok(None) => String::new(),
        Ok(Some(console)) => format!("\n  console         {}", console.address()),
        Err(why) => format!("\n  console         {why}"),
    };
    let welcome = welcome(&stack, &machines, &files, &containers, &line);
    let _ = writeln!(std::io::stdout(), "{welcome}");
    let result = tokio::select! {
        _ = ended.next() => Ok(()),
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

fn welcome(
    stack: &Stack,
    machines: &BTreeMap<String, String>,
    files: &Files,
    containers: &Containers,
    console: &str,
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
  logs            {logs}{console}

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

/// The address at which containers of `sam local invoke` find the stack. They have a loopback of their own.
#[derive(Debug)]
struct Containers {
    host: String,
    is_asked: bool,
}

impl Containers {
    /// Lets DynamoDB, Lambda and Step Functions listen at `address` too, if one is given. Otherwise they listen on loopback only.
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
        if installation::is_packaged() {
            return String::new();
        }
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
            written.map_err(Error::io(what))?;
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
/// program that uses the library finds the table. First what would hide them is unset.
fn exports(stack: &Stack) -> String {
    let variables = stack.variables();
    let lines = variables
        .iter()
        .map(|(name, value)| format!("export {name}={}", quoted(value)));
    let unset = format!("unset {}", installation::HIDING.join(" "));
    let lines: Vec<_> = std::iter::once(unset).chain(lines).collect();
    lines.join("\n") + "\n"
}
