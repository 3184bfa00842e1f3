//! Runs a command under a lease, from its start until its process group is empty.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::{Ended, Error, KeyDetails, Lease, ReleaseOutcome};
use rustix::process::{Signal, getpid};
use tokio::process::Child;

use super::guard_pipe::{GuardProcess, adopt_orphans, self_command};
use super::limit::Limit;
use super::renew::{HeldLease, LeaseEnd};
use crate::connect::TableClient;
use crate::exit::{Code, Failure, in_full};
use crate::instants::Instants;
use crate::next;
use crate::output::print_error;
use crate::signals::Signals;

/// How often a release is tried if its outcome is unknown.
const RELEASES: usize = 3;

/// The command and its grace.
pub(crate) struct Work<'a> {
    pub(crate) command: &'a [OsString],
    /// How long the command may take to end after SIGTERM.
    pub(crate) grace: Duration,
}

impl Work<'_> {
    /// Runs the command under `lease`, which was requested after `before`, and releases the lease once the process group is
    /// empty. Returns the command's own exit code if the lease lasted to the end.
    pub(crate) async fn run(
        &self,
        table_client: &TableClient,
        lease: Lease,
        before: Instants,
        signals: &mut Signals,
    ) -> Result<Code, Failure> {
        let mut kept = HeldLease {
            grace: self.grace,
            lease,
        };
        let limit = Cell::new(Limit::of(&kept.lease, before, self.grace));
        adopt_orphans();
        let (mut guard, mut child) = match self.start(&kept.lease, limit.get()).await {
            Ok(started) => started,
            Err(error) => {
                release(table_client, &kept.lease).await;
                let what = format!("the command could not be started: {error}");
                return Err(Failure::new(Code::NOT_RUNNABLE, what));
            }
        };
        let ended = attend(
            table_client,
            &mut kept,
            &mut guard,
            &mut child,
            &limit,
            signals,
        )
        .await;
        let (status, fate) = ended.map_err(|error| broken(&error))?;
        let is_empty = guard.leave().await.map_err(|error| broken(&error))?;
        match fate {
            Some(fate) => {
                if !matches!(fate, LeaseEnd::Lost(_)) && is_empty {
                    release(table_client, &kept.lease).await;
                }
                Err(doomed(&kept.lease, &fate))
            }
            None if !is_empty => {
                print_error(&format!(
                    "a process of the command cannot be killed, so the lease is not released; it ends at {}",
                    kept.lease.expires_at()
                ));
                Ok(code_of(status))
            }
            None if release(table_client, &kept.lease).await => Ok(code_of(status)),
            None => Err(doomed(&kept.lease, &LeaseEnd::Over)),
        }
    }

    async fn start(&self, lease: &Lease, limit: Limit) -> io::Result<(GuardProcess, Child)> {
        let mut guard = GuardProcess::start(limit).await?;
        guard.hand_terminal_over();
        let mut command = self_command();
        command
            .arg("__launch")
            .arg("--parent")
            .arg(getpid().as_raw_pid().to_string())
            .arg("--")
            .args(self.command)
            // Everything except the lease_id.
            .env("LEASEHOLD_KEY", lease.key.as_str())
            .env("LEASEHOLD_HOLDER", variable(lease.holder.as_str()))
            .env("LEASEHOLD_FENCING_TOKEN", lease.fencing_token.to_string())
            .env("LEASEHOLD_PERMIT", lease.permit.to_string())
            .env("LEASEHOLD_SAFE_UNTIL", lease.safe_until().to_string())
            .process_group(guard.group.as_raw_pid());
        match command.spawn() {
            Ok(child) => Ok((guard, child)),
            Err(error) => {
                let _ = guard.leave().await;
                Err(error)
            }
        }
    }
}

/// An environment variable cannot contain NUL.
fn variable(text: &str) -> String {
    text.replace('\0', "")
}

/// Until the command has ended: extends the lease, passes signals on, and ends the command if the lease ends.
async fn attend(
    table_client: &TableClient,
    kept: &mut HeldLease,
    guard: &mut GuardProcess,
    child: &mut Child,
    limit: &Cell<Limit>,
    signals: &mut Signals,
) -> io::Result<(ExitStatus, Option<LeaseEnd>)> {
    let mut fate = None;
    let mut killed = false;
    {
        let group = guard.group;
        let mut keeping =
            std::pin::pin!(kept.extend_until_lost(table_client, &mut guard.commands, limit));
        loop {
            tokio::select! {
                biased;
                status = child.wait() => {
                    return Ok((status?, fate.or(reached(limit.get()))));
                }
                signal = signals.next() => drop(rustix::process::kill_process_group(group, signal)),
                () = guard.replies.end(), if fate.is_none() => {
                    fate = Some(LeaseEnd::Unguarded);
                    break;
                }
                over = &mut keeping => {
                    fate = Some(over);
                    break;
                }
                () = passed(limit) => break,
            }
        }
    }
    if matches!(fate, Some(LeaseEnd::Lost(_) | LeaseEnd::Late(_))) {
        if let Some(fate) = &fate {
            print_error(&format!("{}: the command is asked to end", why(fate)));
        }
        limit.set(limit.get().ending_now(Instants::now()));
        guard.commands.limit(limit.get()).await;
    }
    loop {
        let now = matches!(fate, None | Some(LeaseEnd::Unguarded));
        if now && !killed {
            killed = kill(guard, child);
        }
        tokio::select! {
            biased;
            status = child.wait() => return Ok((status?, fate.or(Some(LeaseEnd::Over)))),
            signal = signals.next() => guard.signal(signal),
            // The guard does this too, in case one of the two fails.
            () = limit.get().kill.wait_until(), if !killed => killed = kill(guard, child),
        }
    }
}

/// How the lease ended of a command that has ended by now, if its limit had come: the guard may have asked it to end, or killed it,
/// before this process was scheduled.
fn reached(limit: Limit) -> Option<LeaseEnd> {
    let now = Instants::now();
    if limit.kill.left(now).is_zero() {
        Some(LeaseEnd::Over)
    } else if limit.warning().left(now).is_zero() {
        Some(LeaseEnd::Late("no extend succeeded in time".to_owned()))
    } else {
        None
    }
}

/// Kills the whole group, and the command itself in case it has left the group.
fn kill(guard: &GuardProcess, child: &mut Child) -> bool {
    guard.signal(Signal::KILL);
    let _ = child.start_kill();
    true
}

/// Returns when the present limit has passed. The limit may move while this waits.
async fn passed(limit: &Cell<Limit>) {
    loop {
        let known = limit.get();
        known.kill.wait_until().await;
        if limit.get() == known {
            return;
        }
    }
}

/// Releases the lease, and returns whether it was still held. If the outcome stays unknown, this returns true: the command has
/// ended, and the lease expires by itself.
async fn release(table_client: &TableClient, lease: &Lease) -> bool {
    for tries in 1.. {
        match table_client.leases.release(lease).await {
            Ok(released) => {
                if released.outcome != ReleaseOutcome::Lost {
                    next::serve(table_client, &lease.key).await;
                }
                return match released.outcome {
                    ReleaseOutcome::Released | ReleaseOutcome::Kept => true,
                    ReleaseOutcome::AlreadyReleased => was_released(table_client, lease).await,
                    ReleaseOutcome::Lost => false,
                };
            }
            Err(Error::Unavailable { .. } | Error::Throttled { .. }) if tries < RELEASES => {}
            Err(error) => {
                let (key, end, why) = (&lease.key, lease.expires_at(), in_full(&error));
                print_error(&format!(
                    "{key} could not be released, and becomes free at {end}: {why}"
                ));
                return true;
            }
        }
    }
    true
}

/// Whether an already released lease was released by this program, after a lost response, and not by an operator or by sweep.
async fn was_released(table_client: &TableClient, lease: &Lease) -> bool {
    let (leases, key) = (&table_client.leases, &lease.key);
    let Ok(view) = leases.key_view(key, KeyDetails::default()).await else {
        return true;
    };
    let mut permits = view.permits.into_iter();
    let previous = permits
        .find(|seen| seen.lease.permit == lease.permit)
        .and_then(|seen| seen.previous)
        .filter(|previous| previous.fencing_token == lease.fencing_token);
    previous.is_none_or(|previous| previous.ended == Ended::Released)
}

fn why(fate: &LeaseEnd) -> String {
    match fate {
        LeaseEnd::Lost(error) => in_full(error),
        LeaseEnd::Late(why) => format!("the lease could not be extended in time: {why}"),
        LeaseEnd::Over => "the lease ended before the command did".to_owned(),
        LeaseEnd::Unguarded => "the command's guard was killed".to_owned(),
    }
}

fn doomed(lease: &Lease, fate: &LeaseEnd) -> Failure {
    let what = format!("{}: {}; the command has been ended", lease.key, why(fate));
    let failure = Failure::new(Code::LOST, what);
    failure.advice("its work may be half done, and somebody else may hold the key: check before you run it again")
}

fn code_of(status: ExitStatus) -> Code {
    match (status.code(), status.signal()) {
        (Some(code), _) => Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Code::of_signal(signal),
        (None, None) => Code::FAILURE,
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::new(Code::LOST, format!("lost track of the command: {error}"))
}
