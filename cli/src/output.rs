//! The program's output: answers go to standard output, everything else to standard error. Text that others wrote passes through
//! [`plain`] first.

use std::fmt::Display;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use leasehold_asl::{plain, plain_lines};
use serde::Serialize;

use crate::exit::{Code, Failure};

/// Prints one line of the output.
pub(crate) fn print(line: &str) -> Result<(), Failure> {
    write(&format!("{}\n", plain(line)))
}

/// Prints several lines of the output, whose parts are already plain.
pub(crate) fn print_lines(lines: &str) -> Result<(), Failure> {
    write(&format!("{}\n", plain_lines(lines)))
}

/// Prints a text of this program in which all text of others is already plain.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Code::BROKEN_PIPE, error),
        _ => Failure::new(
            Code::FAILURE,
            format!("the output could not be written: {error}"),
        ),
    })
}

/// Whether standard output was closed when this program began: the standard library then opens the null device in its place, for
/// reading and writing, and every write succeeds. A caller who discards the output opens that for writing only.
pub(crate) fn is_closed() -> bool {
    let is_null =
        std::fs::read_link("/proc/self/fd/1").is_ok_and(|link| link == Path::new("/dev/null"));
    let flags = std::fs::read_to_string("/proc/self/fdinfo/1").unwrap_or_default();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
    // The last digit is the access mode: 2 is for both.
    is_null && flags.is_some_and(|flags| flags.trim().ends_with('2'))
}

/// An answer as JSON, with its fields in the contract's order.
pub(crate) fn json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer)
        .map(|text| plain(&text))
        .map_err(unwritten)
}

/// The same over several lines.
pub(crate) fn json_in_lines(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(answer)
        .map(|text| plain_lines(&text))
        .map_err(unwritten)
}

fn unwritten(error: impl Display) -> Failure {
    Failure::new(
        Code::FAILURE,
        format!("the output could not be written: {error}"),
    )
}

/// Prints one line to standard error. If it cannot be written, the work goes on.
pub(crate) fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr(), "leasehold: {}", plain(line));
}
