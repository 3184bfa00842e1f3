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
    /// Shows the event, the items and the names of this number, and runs them alone.
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
    println!(
        "seed {seed}: {} events, {} items, {} pairs of names, each told of when it is through",
        arguments.events, arguments.rows, arguments.keys
    );
    let judge = |number| {
        let case = events::case(seed, number);
        let end = events::judge(case.function, &case.event)?;
        Ok(format!("{} {end}", case.function))
    };
    let found = timed("events", || census::take(0..arguments.events, judge));
    let rows = timed("items", || {
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
        "hostile: {} events, {} items, {} pairs of names, {faults} faults, seed {seed}",
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
    println!("{what}: {took:.1} s; how often each end was seen:");
    for (end, times) in &census.ends {
        println!("  {times:>8} {end}");
    }
    for (case, fault) in &census.faults {
        let fault: String = fault.chars().take(2000).collect();
        println!("  FAULT in case {case} (--case {case} shows it): {fault}");
    }
    census
}

fn show(seed: u64, number: u64) -> ExitCode {
    let (event, row, names) = (
        events::case(seed, number),
        rows::case(seed, number),
        keys::case(seed, number),
    );
    let text = String::from_utf8_lossy(&event.event);
    println!("event: {}: {text}", event.function);
    let all = [
        ended(&events::judge(event.function, &event.event)),
        {
            println!("items: {row:#?}");
            ended(&rows::judge(&row))
        },
        {
            println!("names: {names:#?}");
            ended(&keys::judge(&names))
        },
    ];
    if all == [true; 3] {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tells how a case ended, and whether it may end so.
fn ended(end: &Result<String, String>) -> bool {
    match end {
        Ok(end) => println!("  {end}"),
        Err(fault) => println!("  FAULT: {fault}"),
    }
    end.is_ok()
}
