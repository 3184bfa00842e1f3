//! The command by itself.

use clap::Parser;
use leasehold_weave::{EXAMPLES, Options, run};
use std::process::ExitCode;

/// Writes leases into a plain state machine: acquire, extend, release, and the catches between them.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    run(&Arguments::parse().options)
}
