//! A command under a lease, from its start until nothing of it is left.

use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::{Ended, Error, Inspected, Lease, ReleaseOutcome};
use rustix::process::{Signal, getpid};
use tokio::process::Child;

use super::guard_pipe::{Post, adopt_orphans, ourselves};
use super::limit::Limit;
use super::renew::{Fate, Kept};
use crate::connect::Reached;
use crate::exit::{Code, Failure, in_full};
use crate::instants::Instants;
use crate::output::complain;
use crate::signals::Signals;

/// How often a release is asked for whose outcome stays unknown.
const RELEASES: usize = 3;

/// What to run, and how.
pub(crate) struct Work<'a> {
    pub(crate) command: &'a [OsString],
    /// How long it may take to end when it is told to.
    pub(crate) grace: Duration,
}

impl Work<'_> {
    /// Runs the command under `lease`, which was asked for after `before`, and releases the lease when nothing of the
    /// command is left. The answer is the command's own code, if the lease was good to the end.
    pub(crate) async fn run(
        &self,
        reached: &Reached,
        lease: Lease,
        before: Instants,
        signals: &mut Signals,
    ) -> Result<Code, Failure> {
        let mut kept = Kept {
            grace: self.grace,
            lease,
        };
        let limit = Cell::new(Limit::of(&kept.lease, before, self.grace));
        adopt_orphans();
        let (mut post, mut child) = match self.start(&kept.lease, limit.get()).await {
            Ok(started) => started,
            Err(error) => {
                release(reached, &kept.lease).await;
                let what = format!("the command could not be started: {error}");
                return Err(Failure::new(Code::NOT_RUNNABLE, what));
            }
        };
        let ended = attend(reached, &mut kept, &mut post, &mut child, &limit, signals).await;
        let (status, fate) = ended.map_err(|error| broken(&error))?;
        let is_empty = post.leave().await.map_err(|error| broken(&error))?;
        match fate {
            Some(fate) => {
                if !matches!(fate, Fate::Lost(_)) && is_empty {
                    release(reached, &kept.lease).await;
                }
                Err(doomed(&kept.lease, &fate))
            }
            None if !is_empty => {
                complain(&format!(
                    "something of the command cannot be killed: the lease is not released, and ends at {}",
                    kept.lease.expires_at
                ));
                Ok(code_of(status))
            }
            None if release(reached, &kept.lease).await => Ok(code_of(status)),
            None => Err(doomed(&kept.lease, &Fate::Over)),
        }
    }

    async fn start(&self, lease: &Lease, limit: Limit) -> io::Result<(Post, Child)> {
        let mut post = Post::take(limit).await?;
        post.hand_terminal_over();
        let mut command = ourselves();
        command
            .arg("__launch")
            .arg("--parent")
            .arg(getpid().as_raw_pid().to_string())
            .arg("--")
            .args(self.command)
            // Everything about the lease but its secret.
            .env("LEASEHOLD_KEY", lease.key.as_str())
            .env("LEASEHOLD_HOLDER", variable(lease.holder.as_str()))
            .env("LEASEHOLD_FENCING_TOKEN", lease.fencing_token.to_string())
            .env("LEASEHOLD_PERMIT", lease.permit.to_string())
            .env("LEASEHOLD_SAFE_UNTIL", lease.safe_until.to_string())
            .process_group(post.group.as_raw_pid());
        match command.spawn() {
            Ok(child) => Ok((post, child)),
            Err(error) => {
                let _ = post.leave().await;
                Err(error)
            }
        }
    }
}

/// No variable can have a NUL in it.
fn variable(text: &str) -> String {
    text.replace('\0', "")
}

/// Until the command has ended: extends, passes signals on, and sees to it that it ends if the lease does.
async fn attend(
    reached: &Reached,
    kept: &mut Kept,
    post: &mut Post,
    child: &mut Child,
    limit: &Cell<Limit>,
    signals: &mut Signals,
) -> io::Result<(ExitStatus, Option<Fate>)> {
    let mut fate = None;
    let mut killed = false;
    {
        let group = post.group;
        let mut keeping = std::pin::pin!(kept.keep(reached, &mut post.orders, limit));
        loop {
            tokio::select! {
                biased;
                status = child.wait() => {
                    // Killed by the guard, if this process did not get to run in time.
                    let late = limit.get().kill.left(Instants::now()).is_zero();
                    let late = late.then_some(Fate::Over);
                    return Ok((status?, fate.or(late)));
                }
                signal = signals.next() => drop(rustix::process::kill_process_group(group, signal)),
                () = post.answers.end(), if fate.is_none() => {
                    fate = Some(Fate::Unguarded);
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
    if matches!(fate, Some(Fate::Lost(_) | Fate::Late(_))) {
        if let Some(fate) = &fate {
            complain(&format!("{}: the command is told to end", why(fate)));
        }
        limit.set(limit.get().hurried(Instants::now()));
        post.orders.limit(limit.get()).await;
    }
    loop {
        let now = matches!(fate, None | Some(Fate::Unguarded));
        if now && !killed {
            killed = kill(post, child);
        }
        tokio::select! {
            biased;
            status = child.wait() => return Ok((status?, fate.or(Some(Fate::Over)))),
            signal = signals.next() => post.signal(signal),
            // The guard does this too; each is there for when the other is not.
            () = limit.get().kill.comes(), if !killed => killed = kill(post, child),
        }
    }
}

/// The whole group, and the command itself wherever it is by now.
fn kill(post: &Post, child: &mut Child) -> bool {
    post.signal(Signal::KILL);
    let _ = child.start_kill();
    true
}

/// Comes back when the limit has passed that stands by then.
async fn passed(limit: &Cell<Limit>) {
    loop {
        let known = limit.get();
        known.kill.comes().await;
        if limit.get() == known {
            return;
        }
    }
}

/// Ends the lease; whether it was still this one's when it did. If nobody can tell, the command's end is what counts, and
/// the lease runs out by itself.
async fn release(reached: &Reached, lease: &Lease) -> bool {
    for tries in 1.. {
        match reached.leases.release(lease).await {
            Ok(released) => {
                return match released.outcome {
                    ReleaseOutcome::Released => true,
                    ReleaseOutcome::AlreadyReleased => was_released(reached, lease).await,
                    ReleaseOutcome::Lost => false,
                };
            }
            Err(Error::Unavailable { .. } | Error::Throttled { .. }) if tries < RELEASES => {}
            Err(error) => {
                let (key, end, why) = (&lease.key, lease.expires_at, in_full(&error));
                complain(&format!(
                    "{key} could not be released, and comes free at {end}: {why}"
                ));
                return true;
            }
        }
    }
    true
}

/// Whether a lease that had been released before was so by this program, whose first answer may have been lost, and not by
/// an operator or by sweep.
async fn was_released(reached: &Reached, lease: &Lease) -> bool {
    let Ok(Inspected::Found { first, permits }) = reached.leases.inspect(&lease.key).await else {
        return true;
    };
    let mut seen = permits.into_iter().chain([first]);
    let previous = seen
        .find(|seen| seen.lease.permit == lease.permit)
        .and_then(|seen| seen.previous)
        .filter(|previous| previous.fencing_token == lease.fencing_token);
    previous.is_none_or(|previous| previous.ended == Ended::Released)
}

fn why(fate: &Fate) -> String {
    match fate {
        Fate::Lost(error) => in_full(error),
        Fate::Late(why) => format!("the lease could not be extended in time: {why}"),
        Fate::Over => "the lease was over before the command had ended".to_owned(),
        Fate::Unguarded => "the command's guard was killed".to_owned(),
    }
}

fn doomed(lease: &Lease, fate: &Fate) -> Failure {
    let what = format!("{}: {}; the command has ended", lease.key, why(fate));
    let failure = Failure::new(Code::LOST, what);
    failure.cure("what it did may be half done, and somebody else may have the key: look before you run it again")
}

fn code_of(status: ExitStatus) -> Code {
    match (status.code(), status.signal()) {
        (Some(code), _) => Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Code::of_signal(signal),
        (None, None) => Code::NO,
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::new(Code::LOST, format!("the command got out of sight: {error}"))
}
