//! `leasehold-bench`: what a lease costs, from the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use leasehold_bench::measures::Measure;
use leasehold_bench::parts::{Ground, Part};
use leasehold_bench::report::{self, Machine};
use leasehold_bench::{Error, document, scale, tell, waiting};
use tracing_subscriber::EnvFilter;

/// Measures what a lease costs, beside what a user would pick instead: in requests, bytes, units, transitions and
/// instructions, which are the same on every machine, and in ratios of times.
#[derive(Debug, Parser)]
#[command(name = "leasehold-bench", version, after_help = EXIT_CODES)]
struct Arguments {
    /// Less of everything, for a first look.
    #[arg(long)]
    quick: bool,
    /// What is found [default: everything].
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    parts: Vec<Part>,
    /// Where the report and the pictures go [default: target/bench].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A document that gets the figures too, where it has the marks for them, and the pictures beside it.
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    document: Option<PathBuf>,
    /// Be one of the processes of a load, by this plan.
    #[arg(long, hide = true, value_name = "JSON")]
    scale_worker: Option<String>,
    /// A price list like proof/bench/prices.json, for what things cost [default: that one].
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    waiting: waiting::Options,
}

const EXIT_CODES: &str =
    "Exit codes: 0 all targets met, 1 could not run, 2 wrong arguments, 3 a target was missed.
RUST_LOG=debug tells more.";

/// The embedded DynamoDB warns of every condition that is refused; here that is contention, the most ordinary thing.
const QUIET: &str = "warn,dynoxide=error";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(QUIET));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    if let Some(plan) = &arguments.scale_worker {
        return match scale::load::worker::run(plan).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tell(&format!("leasehold-bench: {error}"));
                ExitCode::FAILURE
            }
        };
    }
    match bench(arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            let causes =
                std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
            let told = causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"));
            tell(&format!("leasehold-bench: {told}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs, tells, and answers whether all targets were met.
async fn bench(arguments: Arguments) -> Result<bool, Error> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ground = Ground {
        root: package.ancestors().nth(2).unwrap_or(package).to_owned(),
        quick: arguments.quick,
        prices: arguments.prices,
    };
    let parts = match &arguments.parts[..] {
        [] => Part::value_variants(),
        parts => parts,
    };
    let mut found = Vec::new();
    for part in parts {
        tell(&format!("== {}", part.told()));
        found.push((*part, part.measure(&ground, &arguments.waiting).await?));
    }

    let machine = Machine::this();
    let mut told = vec![String::new()];
    for (_, part) in &found {
        told.extend([
            format!("== {}", part.title),
            part.told.clone(),
            String::new(),
        ]);
    }
    told.push(format!(
        "{} cores, {}; DynamoDB: {}",
        machine.cores, machine.system, machine.database
    ));
    told.push(report::verdicts(&found));
    let out = arguments
        .out
        .unwrap_or_else(|| ground.root.join("target/bench"));
    for file in report::write(&out, &machine, &found)? {
        let file = file.canonicalize().unwrap_or(file);
        told.push(format!("wrote {}", file.display()));
    }
    if let Some(document) = &arguments.document {
        document::write(document, &found)?;
        told.push(format!("wrote {}", document.display()));
    }
    let _ = writeln!(std::io::stdout(), "{}", told.join("\n"));
    if let Some((part, _)) = found.iter().find(|(_, part)| part.measures.is_empty())
        && arguments.parts.contains(part)
    {
        return Err(Error::NothingMeasured(part.told()));
    }
    let measures = found.iter().flat_map(|(_, part)| &part.measures);
    Ok(!measures.into_iter().any(Measure::missed))
}
