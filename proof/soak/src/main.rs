//! `leasehold-soak`: many processes of the functions at work on one table, with faults of every kind, for as long as
//! you like. Ends with 0 if all that is promised held, with 1 if not, with 2 if it could not run.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use leasehold_soak::row::MARGIN;
use leasehold_soak::run::Soak;

/// Runs the functions as many processes on one lease table, with faults of every kind, and checks what they tell
/// against what is promised.
///
/// The same seed draws the same plan: who asks for what when, and which fault meets which call. How the processes
/// interleave is up to the machine and differs from run to run.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Draws the plan; a random one by default. Also `SOAK_SEED`.
    #[arg(long)]
    seed: Option<u64>,
    /// How long, roughly: rounds of 30 s and the time around each, at least one of 3 s; 60 by default. Also
    /// `SOAK_SECONDS`.
    #[arg(long)]
    seconds: Option<u64>,
    /// How many clients.
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// The first round, to replay a later one of another run.
    #[arg(long, default_value_t = 0)]
    round: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (seed, seconds) = match (from("SOAK_SEED"), from("SOAK_SECONDS")) {
        (Ok(seed), Ok(seconds)) => (seed, seconds),
        (Err(name), _) | (_, Err(name)) => {
            eprintln!("{name} is not a whole number from 0 on");
            return ExitCode::from(2);
        }
    };
    let seed = arguments.seed.or(seed).unwrap_or_else(any);
    let length = Duration::from_secs(arguments.seconds.or(seconds).unwrap_or(60));
    println!(
        "seed {seed}, {} clients, {} s",
        arguments.clients,
        length.as_secs()
    );
    let soak = Soak {
        seed,
        length,
        first: arguments.round,
        clients: arguments.clients,
        margin: MARGIN,
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // What panics has said why.
    match std::panic::catch_unwind(|| runtime.block_on(soak.run())) {
        Ok(total) if total.violations.is_empty() && total.undecided == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(_) => {
            eprintln!("the soak could not run");
            ExitCode::from(2)
        }
    }
}

/// A number in the environment; empty is as good as not there.
fn from(name: &'static str) -> Result<Option<u64>, &'static str> {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| name)
}

fn any() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::from(since.unwrap_or_default().subsec_nanos())
}
