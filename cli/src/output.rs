//! What the program says: answers to standard output, everything else to standard error, and nothing that could move
//! the cursor of whoever reads it.

use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, Write as _};

use serde::Serialize;

use crate::ending::{Code, Trouble};

/// One line of the answer.
pub(crate) fn say(text: &str) -> Result<(), Trouble> {
    write(&format!("{text}\n"))
}

/// A part of the answer.
pub(crate) fn write(text: &str) -> Result<(), Trouble> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Trouble::new(Code::NO_READER, error),
        _ => Trouble::new(
            Code::NO,
            format!("the answer could not be written: {error}"),
        ),
    })
}

/// An answer for programs, with its fields in the contract's order.
pub(crate) fn json(answer: &impl Serialize) -> Result<String, Trouble> {
    serde_json::to_string(answer).map_err(unwritten)
}

/// The same over several lines.
pub(crate) fn json_in_lines(answer: &impl Serialize) -> Result<String, Trouble> {
    serde_json::to_string_pretty(answer).map_err(unwritten)
}

fn unwritten(error: impl Display) -> Trouble {
    Trouble::new(
        Code::NO,
        format!("the answer could not be written: {error}"),
    )
}

/// One line beside the answer. Whoever hears it may have gone; the work goes on all the same.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "leasehold: {line}");
}

/// Text that others chose, such as a holder's name, as it may be shown on a terminal: without anything that moves the
/// cursor or turns the direction of what follows.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}') {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_chose_cannot_move_the_cursor() {
        assert_eq!(plain("worker 7, Größe ✓"), "worker 7, Größe ✓");
        assert_eq!(plain("a\u{1b}[2Jb\r\n"), "a\\u{1b}[2Jb\\u{d}\\u{a}");
        assert_eq!(plain("a\u{202e}b\u{9b}"), "a\\u{202e}b\\u{9b}");
    }
}
