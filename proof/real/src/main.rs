//! `leasehold-real`: many processes of the functions at work on one table, with faults of every kind, for `REAL_SECONDS`. Ends with 0
//! if all that is promised held, with 1 if not, with 2 if it could not run.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_real::{MARGIN, Run};

fn main() -> ExitCode {
    let (Ok(seed), Ok(seconds), Ok(first)) =
        (from("REAL_SEED"), from("REAL_SECONDS"), from("REAL_ROUND"))
    else {
        eprintln!("REAL_SEED, REAL_SECONDS and REAL_ROUND are whole numbers from 0 on");
        return ExitCode::from(2);
    };
    let run = Run {
        seed: seed.unwrap_or_else(any),
        length: Duration::from_secs(seconds.unwrap_or(60)),
        first: first.unwrap_or(0),
        margin: MARGIN,
    };
    println!("seed {}, {} s", run.seed, run.length.as_secs());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // What panics has said why.
    match std::panic::catch_unwind(|| runtime.block_on(run.until(|_| false))) {
        Ok(total) if total.violations.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(_) => {
            eprintln!("it could not run");
            ExitCode::from(2)
        }
    }
}

/// A number in the environment; empty is as good as not there.
fn from(name: &str) -> Result<Option<u64>, std::num::ParseIntError> {
    let text = std::env::var(name).unwrap_or_default();
    let text = Some(text).filter(|text| !text.is_empty());
    text.map(|text| text.parse()).transpose()
}

fn any() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::from(since.unwrap_or_default().subsec_nanos())
}
