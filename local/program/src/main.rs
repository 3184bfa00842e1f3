//! `leasehold-local`: the command line of the local stack.

mod arguments;
mod console;
mod demo;
mod exec;
mod signals;
mod up;
mod user_code;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Leasehold on this machine: DynamoDB, Lambda and Step Functions, all local. Nothing remains when it ends.
#[derive(Debug, Parser)]
#[command(name = "leasehold-local", version, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the whole stack and run it until Ctrl-C.
    Up(up::Up),
    /// Run a command with the stack beside it, such as your tests.
    Exec(exec::Exec),
    /// Run executions that contend and queue for leases, and check the promises that such a run can show.
    Demo(demo::Demo),
}

const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 failed, 2 wrong arguments. The help of each command has more.
    RUST_LOG=debug logs more.";

/// The embedded DynamoDB warns about every failed condition. Here that is ordinary contention.
const QUIET: &str = "warn,dynoxide=error";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let ended = match arguments.command {
        Command::Up(up) => up::run(up).await.map(|()| ExitCode::SUCCESS),
        Command::Exec(exec) => exec::run(exec).await,
        Command::Demo(demo) => demo::run(demo).await,
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            eprintln!("leasehold-local: {}", in_full(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes, once each.
fn in_full(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
