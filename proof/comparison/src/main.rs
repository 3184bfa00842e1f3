//! `leasehold-bench`: what a lease costs, from the command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use leasehold_bench::instructions::Build;
use leasehold_bench::{Error, Options, Part, report, summary};
use leasehold_proof::root;
use tracing_subscriber::EnvFilter;

/// Measures what a lease costs, beside what one would use instead: in requests, units, transitions and instructions, which are the
/// same on every machine, and in ratios of times.
#[derive(Debug, Parser)]
#[command(name = "leasehold-bench", version, after_help = EXIT_CODES)]
struct Arguments {
    /// Less of everything, for a first look.
    #[arg(long)]
    quick: bool,
    /// What is measured [default: everything].
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    parts: Vec<Part>,
    /// How the binaries below target/instructions were built: each way has a budget.
    #[arg(
        long = "as",
        value_enum,
        default_value = "shipped",
        value_name = "BUILD"
    )]
    build: Build,
    /// Where report.json, report.md and the charts go [default: target/bench].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the tables into docs/contributing/benchmark.md too, and from it the short ones of README.md and
    /// docs/explain/performance.md, with the charts of that page.
    #[arg(long)]
    documents: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 all targets met, 1 could not run, 2 wrong arguments, 3 a target was missed, 75 this machine is too slow for it.";

/// The embedded DynamoDB warns of every condition that is refused; here that is contention, the most ordinary thing.
const QUIET: &str = "warn,dynoxide=error";

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // What panics has said why, and ends the program as any other failure does.
    match std::panic::catch_unwind(|| runtime.block_on(run(arguments))) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) => ExitCode::from(3),
        Ok(Err(error)) => {
            let _ = writeln!(std::io::stderr(), "leasehold-bench: {error}");
            match error {
                // Not for good: `make -C proof instructions` says so, and CI's last line.
                Error::TooSlow(_) => ExitCode::from(75),
                _ => ExitCode::FAILURE,
            }
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether all targets were met. What cannot be counted here is an error only for who has asked for it by name.
async fn run(arguments: Arguments) -> Result<bool, Error> {
    let options = Options {
        quick: arguments.quick,
        build: arguments.build,
    };
    let parts = match &arguments.parts[..] {
        [] => Part::value_variants(),
        parts => parts,
    };
    let mut all = Vec::new();
    for part in parts {
        let _ = writeln!(std::io::stderr(), "== {}", part.name());
        match part.measure(&options).await {
            Ok(found) => {
                let _ = writeln!(std::io::stdout(), "{}", report::table(&found.measures));
                all.push((*part, found));
            }
            Err(error) if arguments.parts.is_empty() => {
                let _ = writeln!(
                    std::io::stdout(),
                    "{}: NOT MEASURED: {error}\n",
                    part.name()
                );
            }
            Err(error) => return Err(error),
        }
    }
    let out = arguments.out.unwrap_or_else(|| root().join("target/bench"));
    report::write(&out, &all);
    let _ = writeln!(std::io::stdout(), "wrote {}", out.display());
    if arguments.documents {
        let document = root().join("docs/contributing/benchmark.md");
        report::write_into(&document, &root().join("docs/explain/performance"), &all);
        summary::write_into(root(), &document);
        let _ = writeln!(std::io::stdout(), "wrote {}", document.display());
    }
    let missed: Vec<_> = all
        .iter()
        .flat_map(|(_, found)| &found.measures)
        .filter(|measure| measure.met == Some(false))
        .collect();
    for measure in &missed {
        let target = measure.target.unwrap_or_default();
        let _ = writeln!(
            std::io::stderr(),
            "MISSED: {}: {} {}, at most {target}",
            measure.name,
            measure.ours,
            measure.unit
        );
    }
    Ok(missed.is_empty())
}
