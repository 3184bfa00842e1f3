//! The functions' logs of a local stack: a file for each function, one line of JSON for each event.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use leasehold::Timestamp;

use super::{Lines, ROWS, grants};
use crate::exit::{Code, Failure};

/// The lines since then that tell of grants of `key`, as many as an account's query returns.
pub(super) fn lines(directory: &Path, key: &str, since: Timestamp) -> Result<Lines, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        let failure = Failure::new(Code::UNREACHABLE, format!("{}: {error}", path.display()));
        failure.advice("--logs names the directory of logs that `leasehold-local up` prints")
    };
    let entries = std::fs::read_dir(directory).map_err(|error| failed(directory, error))?;
    let mut read = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, error))?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let file = File::open(&path).map_err(|error| failed(&path, error))?;
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(|error| failed(&path, error))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some(at) = grants::tells(&line, key).filter(|at| *at >= since) {
                read.push((at, line));
            }
        }
    }
    read.sort();
    let too_many = read.len().saturating_sub(ROWS);
    let lines = read.split_off(too_many).into_iter();
    Ok(Lines {
        lines: lines.map(|(_, line)| line).collect(),
        is_cut: too_many > 0,
    })
}
