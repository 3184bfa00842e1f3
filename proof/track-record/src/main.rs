//! Prints what the last run of the tests has found, entry by entry.

use std::io::{self, Write};
use std::process::ExitCode;

use leasehold_track_record::{ENTRIES, Finding};

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let mut missing = 0;
    for entry in ENTRIES {
        writeln!(out, "{} · {}", entry.name, entry.peer.told())?;
        writeln!(out, "  bug         {}", entry.bug)?;
        for link in entry.links {
            writeln!(out, "  {:<10}  {}", link.kind(), link.address())?;
        }
        if let Some(Finding { there, here }) = Finding::of(entry.name)? {
            writeln!(out, "  there       {there}\n  here        {here}\n")?;
        } else {
            missing += 1;
            writeln!(out, "  NOT RUN: its test has not passed\n")?;
        }
    }
    let shown = ENTRIES.len() - missing;
    writeln!(
        out,
        "track-record: {shown} of {} bugs shown there and absent here",
        ENTRIES.len()
    )?;
    Ok(if missing == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
