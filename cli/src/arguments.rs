//! The program's arguments.

use clap::{Parser, Subcommand};

use crate::acquire::{Acquire, launch::Launch};
use crate::check::Check;
use crate::console::ConsoleArgs;
use crate::doctor::Doctor;
use crate::handle::{ExtendArgs, ReleaseArgs};
use crate::history::History;
use crate::listing::{Holders, Ls, Show};
use crate::manual::{Completions, Man};
use crate::operate::{ForceRelease, FreezeArgs, LimitArgs, UnfreezeArgs};
use crate::redrive::Redrive;
use crate::start::{DismissStart, RepeatStart, Start};
use crate::table::Table;
use crate::watch::Watch;
use crate::weave::Weave;

const CODES: &str = "\
Exit codes:
  0    done
  1    the result is no: nothing found, nobody holds the key, you declined, or a check found something
  2    wrong arguments
  3    AWS cannot be reached, refuses, or is not set up: no credentials, no Region, no table, no permission
  75   somebody else holds the key, it is frozen, its queue is full, or the table throttles: try again later
  79   the lease is lost
  126, 127   the command cannot be run, or is not found
  otherwise the command's own exit code, or 128 + n if signal n ended it

The table is named by --table or LEASE_TABLE, as in the functions. Profile, Region, endpoint and credentials are found
as the AWS CLI finds them: options first, then AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB and the others, then
the files. Set LEASE_GUARD_MS and LEASE_CLOCK_MARGIN_MS to the values of the functions.";

/// Leases in DynamoDB, for operators: look at them, end and freeze them, run a command under one.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, after_help = CODES, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the leases that are held, or expired and not taken
    Ls(Ls),
    /// Show the state of a key
    Show(Show),
    /// Show each holder and its leases
    Holders(Holders),
    /// Show who had a key, since when, for how long, and how it ended, by the logs of the functions
    History(History),
    /// Watch leases change, line by line
    Watch(Watch),
    /// Show keys, queues and failed starts in a browser, and change them if allowed
    Console(ConsoleArgs),
    /// Get a lease and run a command under it; without a command, print the lease's handle
    Acquire(Acquire),
    /// Extend a lease by its handle
    Extend(ExtendArgs),
    /// Release a lease by its handle
    Release(ReleaseArgs),
    /// End a lease without its handle, whichever holder has it
    ForceRelease(ForceRelease),
    /// Start an execution as soon as it can have a key: now, or from the queue
    Start(Start),
    /// Repeat a start that has failed
    RepeatStart(RepeatStart),
    /// Delete a start that has failed, or that waits
    DismissStart(DismissStart),
    /// Take the leases of a failed execution back for it, and redrive it
    Redrive(Redrive),
    /// Stop new grants of a key
    Freeze(FreezeArgs),
    /// Allow new grants of a frozen key
    Unfreeze(UnfreezeArgs),
    /// Set how many may hold a key at once, whatever they ask for
    Limit(LimitArgs),
    /// Create a lease table, or check one
    Table(Table),
    /// Inspect and exercise a deployed stack, and report which promises hold there
    Doctor(Doctor),
    /// Check state machines before they run: find leases that can expire, leak or be used after their end
    Check(Check),
    /// Write acquire, extend, release and their catches into a plain state machine
    Weave(Weave),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page of a command, or write the pages of all
    Man(Man),
    #[command(hide = true, name = "__guard")]
    Guard,
    #[command(hide = true, name = "__launch")]
    Launch(Launch),
}
