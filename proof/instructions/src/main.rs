//! `leasehold-instructions`: counts instructions, and holds them to the budget.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use leasehold_instructions::{
    Error, Found, Options,
    budget::{Budget, Build, grouped},
    functions, measure, valgrind,
};
use serde_json::json;

/// Counts the instructions of the library's operations and of the functions, and holds them to proof/instructions/budget.json.
#[derive(Debug, Parser)]
#[command(name = "leasehold-instructions", version, after_help = EXIT_CODES)]
struct Arguments {
    /// How the binaries below target/ were built.
    #[arg(long = "as", value_enum, default_value = "shipped")]
    build: Build,
    /// Fewer calls, and only what every workflow calls.
    #[arg(long)]
    quick: bool,
    /// Counts this binary alone, as the acquire function, and tells it as JSON.
    #[arg(long, value_name = "FILE")]
    one: Option<PathBuf>,
}

const EXIT_CODES: &str = "Exit codes: 0 everything within its budget, 1 could not count, 2 wrong arguments, 3 something is over its budget.";

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(&Arguments::parse())).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            let causes =
                std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
            let told = causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"));
            let _ = writeln!(std::io::stderr(), "leasehold-instructions: {told}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<bool, Error> {
    if let Some(binary) = &arguments.one {
        return Box::pin(one(binary)).await;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = package.ancestors().nth(2).unwrap_or(package).join("target");
    let budget = Budget::read(&package.join("budget.json"))?;
    let options = if arguments.quick {
        Options::quick(&target)
    } else {
        Options::new(&target)
    };
    let found = measure(&options).await?;
    if std::env::consts::ARCH != BUDGETED {
        let _ = writeln!(std::io::stdout(), "{}{}", told(&found), unbounded(&found));
        return Ok(true);
    }
    let verdict = budget.judge(arguments.build, &found.counts());
    let _ = writeln!(std::io::stdout(), "{}{}", told(&found), verdict.told);
    Ok(verdict.kept)
}

/// The instruction set that the budget speaks of.
const BUDGETED: &str = "x86_64";

/// The counts where no bounds are known.
fn unbounded(found: &Found) -> String {
    let mut told = format!(
        "The budget is for {BUDGETED}; this is {}.\n",
        std::env::consts::ARCH
    );
    for count in found.counts() {
        let _ = writeln!(told, "{:<46} {:>13.0}", count.name, count.figure);
    }
    told
}

/// What `make levers` asks for.
async fn one(binary: &Path) -> Result<bool, Error> {
    valgrind::find().await?;
    let acquire = functions::ALL[0];
    let told = json!({
        "invoked": Box::pin(functions::invoked(acquire, binary, INVOCATIONS)).await?,
        "cold": functions::cold(acquire, binary).await?,
    });
    let _ = writeln!(std::io::stdout(), "{told}");
    Ok(true)
}

const INVOCATIONS: usize = 20;

fn told(found: &Found) -> String {
    let mut told = String::new();
    for operation in &found.operations {
        let above = operation.above() * 100.0;
        let name = operation.name;
        let _ = writeln!(told, "{name}: {above:.1} % above the SDK's own request");
    }
    let cold = grouped(found.cold.instructions);
    let authorities = found.cold.authorities;
    told + &format!(
        "acquire, from the start of its process to its first answer over TLS, {authorities} authorities trusted: {cold}\n\n"
    )
}
