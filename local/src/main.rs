//! `leasehold-local`: the stack for a laptop, from the command line.

mod signals;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Leasehold on this machine: DynamoDB, Lambda and Step Functions, all local, nothing left behind.
#[derive(Debug, Parser)]
#[command(name = "leasehold-local", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the whole stack and keep it until Ctrl-C.
    Up(up::Up),
}

const EXIT_CODES: &str =
    "Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 could not start or broke, 2 wrong arguments.
RUST_LOG=debug tells more.";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let ended = match arguments.command {
        Command::Up(up) => up::run(up).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leasehold-local: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, once each.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
