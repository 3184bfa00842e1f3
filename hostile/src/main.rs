//! Runs hostile cases, as many as it is told to: `make hostile`.

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Parser;
use leasehold_hostile::{
    census::{self, Census},
    corpus, events, keys, rows,
};

/// Hostile events and items by the million, from a seed.
#[derive(Parser)]
struct Arguments {
    /// How many events.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// How many items.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// How many pairs of names.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Where all chance comes from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Shows the case of this number, and runs it alone.
    #[arg(long)]
    case: Option<u64>,
    /// Writes what a fuzzer starts from into this directory, and runs nothing.
    #[arg(long)]
    corpus: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed;
    if let Some(number) = arguments.case {
        return show(seed, number);
    }
    if let Some(directory) = arguments.corpus {
        if let Err(error) = corpus::write(&directory) {
            eprintln!("{}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    let judge = |number| {
        let case = events::case(seed, number);
        let end = events::judge(case.function, &case.event)?;
        Ok(format!("{} {end}", case.function))
    };
    let found = timed("events", || census::take(0..arguments.events, judge));
    let rows = timed("rows", || {
        census::take(0..arguments.rows, |number| {
            rows::judge(&rows::case(seed, number))
        })
    });
    let names = timed("names", || {
        census::take(0..arguments.keys, |number| {
            keys::judge(&keys::case(seed, number))
        })
    });
    let faults = found.faults.len() + rows.faults.len() + names.faults.len();
    println!(
        "hostile: {} events, {} rows, {} names, {faults} faults, seed {seed}",
        found.judged(),
        rows.judged(),
        names.judged()
    );
    if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[expect(clippy::disallowed_methods, reason = "how long it took is for people")]
fn timed(what: &str, work: impl FnOnce() -> Census) -> Census {
    let began = Instant::now();
    let census = work();
    let took = began.elapsed().as_secs_f64();
    println!("{what}: {took:.1} s");
    for (end, times) in &census.ends {
        println!("  {times:>8} {end}");
    }
    for (case, fault) in &census.faults {
        let fault: String = fault.chars().take(2000).collect();
        println!("  case {case}: {fault}");
    }
    census
}

fn show(seed: u64, number: u64) -> ExitCode {
    let case = events::case(seed, number);
    println!(
        "{}: {}",
        case.function,
        String::from_utf8_lossy(&case.event)
    );
    match events::judge(case.function, &case.event) {
        Ok(end) => {
            println!("{end}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            println!("{fault}");
            ExitCode::FAILURE
        }
    }
}
