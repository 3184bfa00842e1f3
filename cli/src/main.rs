//! `leasehold`, for operators.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_cli::run()
}
