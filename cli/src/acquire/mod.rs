//! `leasehold acquire`: a lease, and a command that runs under it and no longer than it.
//!
//! Three processes ensure that. The *wrapper*, which the user starts, holds and extends the lease, and is the command's parent.
//! The *guard* leads the command's process group, and kills the group at the last confirmed deadline or when the wrapper is gone.
//! The *command* is killed by the kernel when the wrapper dies. So if any one of them dies or is stopped, the others end the
//! command. If two fail at once, or the whole machine pauses, only the fencing token protects the resource.

mod grant;
pub(crate) mod guard;
mod guard_pipe;
mod handle_file;
pub(crate) mod launch;
mod limit;
mod renew;
mod supervise;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use leasehold::{Acquired, AtLeast, BadValue, Holder, Key, Metadata, Permits, RequestId, Ttl};

use crate::connect::TableArgs;
use crate::exit::{Code, Failure};
use crate::instants::Instants;
use crate::output::{self, json_in_lines, print_error, print_lines};
use crate::signals;
use crate::{durations, environment};
use supervise::Work;

const EXAMPLES: &str = "\
Examples:
  leasehold acquire deploy/production -- ./deploy.sh
  leasehold acquire deploy/production --no-wait -- terraform apply
  leasehold acquire reindex --ttl 5m --wait 2h -- ./reindex.sh --all
  leasehold acquire partner-api --permits 5 -- ./call.sh        one of five
  leasehold acquire nightly --at-least 10m --no-wait -- ./nightly.sh    at most once in ten minutes
  leasehold acquire orders/42 --ttl 10m --handle-file handle.json     no command: write the handle, a secret
  leasehold release --handle handle.json

The command's environment has LEASEHOLD_KEY, LEASEHOLD_FENCING_TOKEN, LEASEHOLD_HOLDER, LEASEHOLD_PERMIT and
LEASEHOLD_SAFE_UNTIL (the value at the grant; every extend moves it). The resource should refuse a fencing token below
the largest that it has seen: only that is safe whatever happens to this machine.

The lease is extended whenever a third of it has passed. If it is lost or cannot be extended, the command's process group
receives SIGTERM, and SIGKILL after --grace, which is before the lease expires. The group also receives SIGKILL if this
program is killed. SIGHUP, SIGINT, SIGQUIT and SIGTERM are passed on to the command, except those that were ignored when
this program began, as SIGHUP under nohup: they stay ignored. When the command has ended, the rest of its process group is
killed, and the lease is released. A process that leaves the group (setsid) or becomes another user is out of reach, so put
sudo before leasehold. This machine's clock must not be wrong by more than half of LEASE_CLOCK_MARGIN_MS.

--wait retries at random moments. It does not join the queue, and waiters in the queue go first.

Exit codes: the command's own, 128 + n if signal n ended it, 75 not granted (or -E), 79 the lease was lost and the command
has been ended, 126 and 127 the command could not be run or found, 2 wrong arguments, 3 AWS cannot be reached or refuses.";

/// Get a lease and run a command under it; without a command, print the lease's handle
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Acquire {
    /// The key to lease
    #[arg(value_parser = |text: &str| Key::new(text))]
    key: Key,
    /// Length of the lease, such as 90s, 5m or 2h; it is extended while the command runs
    #[arg(long, value_name = "LENGTH", default_value = "60s", value_parser = durations::ttl)]
    ttl: Ttl,
    /// How long to retry while somebody else holds the key
    #[arg(long, value_name = "LENGTH", default_value = "10m", value_parser = durations::parse)]
    wait: Duration,
    /// Try once
    #[arg(long, short = 'n', conflicts_with = "wait")]
    no_wait: bool,
    /// The holder [default: user@host/process]
    #[arg(long, value_parser = |text: &str| Holder::new(text))]
    holder: Option<Holder>,
    /// How many may hold the key at once, the same number everywhere; if left out, one at a time with others that leave it out
    #[arg(long, value_name = "N", value_parser = permits)]
    permits: Option<Permits>,
    /// Cooldown: for how long after the grant the key is not granted again, even if it is released before [default: 0]
    #[arg(long, value_name = "LENGTH", value_parser = durations::at_least)]
    at_least: Option<AtLeast>,
    /// Metadata that is shown with the lease; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Idempotency key: the same holder and id get the same lease again [default: random]
    #[arg(long, value_name = "ID", value_parser = |text: &str| RequestId::new(text))]
    request_id: Option<RequestId>,
    /// Time for the command to end when the lease is lost, at most a quarter of the lease
    #[arg(long, value_name = "LENGTH", default_value = "10s", value_parser = durations::parse)]
    grace: Duration,
    /// Exit code if the lease is not granted, instead of 75
    #[arg(long, short = 'E', value_name = "CODE")]
    conflict_exit_code: Option<u8>,
    /// Print nothing about waiting
    #[arg(long, short)]
    quiet: bool,
    /// Write the handle to this file (mode 0600) instead of printing it
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    handle_file: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    table_args: TableArgs,
}

pub(crate) fn permits(text: &str) -> Result<Permits, String> {
    let number = text.parse().map_err(|_| "expected a whole number")?;
    Permits::new(number).map_err(|error| error.to_string())
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Acquire {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let request = self.request().map_err(Failure::usage)?;
        if let Some(path) = &self.handle_file {
            handle_file::may_write(path).map_err(Failure::usage)?;
        } else if self.command.is_empty() && output::is_closed() {
            let what = "standard output is closed, and the lease's handle would be lost";
            return Err(Failure::usage(what).advice("write it to a file with --handle-file"));
        }
        let table_client = self.table_args.connect().await?;
        let usable = self
            .ttl
            .as_duration()
            .saturating_sub(table_client.settings.guard);
        if !self.command.is_empty() && usable < Duration::from_secs(1) {
            let problem = "--ttl: to run a command, it must be at least a second longer than the guard (LEASE_GUARD_MS)";
            return Err(Failure::usage(problem));
        }
        let mut signals = signals::listen()?;
        let wait = if self.no_wait {
            Duration::ZERO
        } else {
            self.wait
        };
        let before = Instants::now();
        let granted = grant::get(&table_client, &request, wait, self.quiet, &mut signals).await;
        let granted = granted.map_err(|failure| match self.conflict_exit_code {
            Some(code) if failure.code == Code::HELD => failure.code(Code(code)),
            _ => failure,
        })?;
        if self.command.is_empty() {
            let is_printed = self.handle_file.is_none();
            if is_printed && !self.quiet && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
                print_error("keep this handle secret: it can extend and release the lease");
            }
            let lease = granted.lease.clone();
            let handle = json_in_lines(&Acquired::Granted(granted));
            let given = handle.and_then(|handle| match &self.handle_file {
                Some(path) => handle_file::write(path, &handle)
                    .map_err(|problem| Failure::new(Code::FAILURE, problem)),
                None => print_lines(&handle),
            });
            if given.is_err() {
                // Without its handle nobody could extend or release the lease.
                let _ = table_client.leases.release(&lease).await;
                print_error(&format!("so {} is released again", self.key));
            }
            return given.map(|()| Code::DONE);
        }
        let work = Work {
            command: &self.command,
            grace: self.grace,
        };
        work.run(&table_client, granted.lease, before, &mut signals)
            .await
    }

    fn request(&self) -> Result<leasehold::Acquire, BadValue> {
        let holder = match &self.holder {
            Some(holder) => holder.clone(),
            None => Holder::new(environment::holder())?,
        };
        let mut request = leasehold::Acquire::new(self.key.clone(), holder, self.ttl);
        request.request_id = self.request_id.clone().unwrap_or(request.request_id);
        request.permits = self.permits;
        request.at_least = self.at_least.unwrap_or_default();
        request.metadata =
            Metadata::new(self.metadata.iter().cloned().collect::<BTreeMap<_, _>>())?;
        Ok(request)
    }
}
