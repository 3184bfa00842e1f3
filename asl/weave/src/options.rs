//! What the command takes.

use clap::Args;
use std::path::PathBuf;

/// Examples of the command, for its help.
pub const EXAMPLES: &str = "\
Examples:
  leasehold weave order.weave.yaml              write the guarded machine to where the specification says
  leasehold weave --dry-run order.weave.yaml    show what would be changed in the machine
  leasehold weave --check order.weave.yaml      for CI: exit code 1 unless the guarded machine is up to date
  leasehold weave --output - order.weave.yaml   print it

A specification:
  machine: order.asl.json
  output: order-guarded.asl.json
  sections:
    - name: Order
      states: [Charge, Book]
      key: \"{% 'orders/' & $states.input.order %}\"
      ttl_seconds: 300

docs/WEAVE.md has all of its fields.

Exit codes: 0 done, 1 something would change (with --check), 2 refused, 3 a fault of the program.";

/// What to weave, and what to do with it.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The specification: YAML or JSON
    #[arg(value_name = "SPEC")]
    pub spec: PathBuf,
    /// Where the guarded machine goes, instead of what the specification says; - prints it
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The machine and the output that a specification names have to be within this directory [default: the specification's own]
    #[arg(long, value_name = "DIRECTORY")]
    pub within: Option<PathBuf>,
    /// Show the difference between the machine and the guarded one, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write nothing; exit code 1 if the output is not what would be written
    #[arg(long)]
    pub check: bool,
    /// Overwrite a file that was not written by this program
    #[arg(long)]
    pub force: bool,
    /// `LEASE_CLOCK_MARGIN_MS` of the functions: taken off every lease
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub margin_ms: u64,
    /// `LEASE_GUARD_MS` of the functions: taken off every lease
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub guard_ms: u64,
}
