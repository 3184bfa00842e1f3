//! What the program takes.

use clap::{Parser, Subcommand};

use crate::acquire::{Acquire, launch::Launch};
use crate::check::Check;
use crate::doctor::Doctor;
use crate::handle::{ExtendIt, ReleaseIt};
use crate::listing::{Holders, Ls, Show};
#[cfg(feature = "local")]
use crate::local::Local;
use crate::manual::{Completions, Man};
use crate::operate::{ForceRelease, FreezeIt, UnfreezeIt};
use crate::table::Table;
use crate::watch::Watch;
use crate::weave::Weave;

const CODES: &str = "\
Exit codes:
  0    done
  1    the answer is no: nothing there, nobody holds it, declined, or a check found something
  2    wrong arguments
  3    AWS cannot be reached, refuses, or is not set up: no credentials, no Region, no table, no permission
  75   somebody else holds it, it is frozen, or the table refuses for capacity: try again later
  79   the lease is lost
  126, 127   the command cannot be run, or is not there
  otherwise the command's own, and 128 + n if signal n ended it

Where the table is: --table or LEASE_TABLE, as the functions have it. Profile, Region, endpoint and credentials are found
as the AWS CLI finds them: options first, then AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB and the others, then
the files. LEASE_GUARD_MS and LEASE_CLOCK_MARGIN_MS have to be what the functions have.";

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
    /// Show what stands under a key
    Show(Show),
    /// Show who holds what
    Holders(Holders),
    /// Watch leases change, on a terminal or line by line
    Watch(Watch),
    /// Get a lease and run a command under it; without a command, print the lease's handle
    Acquire(Acquire),
    /// Extend a lease by its handle
    Extend(ExtendIt),
    /// Release a lease by its handle
    Release(ReleaseIt),
    /// End a grant, whoever holds it
    ForceRelease(ForceRelease),
    /// Keep a key from being granted
    Freeze(FreezeIt),
    /// Let a frozen key be granted again
    Unfreeze(UnfreezeIt),
    /// Create a lease table, or look whether one is
    Table(Table),
    /// Look at a deployed stack, use it, and report what holds there
    Doctor(Doctor),
    /// Find leases that can lapse, leak or be used after their end, in state machines that have not run yet
    Check(Check),
    /// Write acquire, extend, release and their catches into a plain state machine
    Weave(Weave),
    /// Start the whole stack on this machine: DynamoDB, functions, state machines
    #[cfg(feature = "local")]
    Local(Local),
    /// Print completions for a shell
    Completions(Completions),
    /// Print the manual page, or write the pages of all commands
    Man(Man),
    #[command(hide = true, name = "__guard")]
    Guard,
    #[command(hide = true, name = "__launch")]
    Launch(Launch),
    #[command(hide = true, name = "__manual")]
    Manual,
}
