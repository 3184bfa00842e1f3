//! What a user's function has printed before it ended, for the user: the reason of its end is there and nowhere else.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// How much of the end is read, and shown.
const BYTES: u64 = 4096;
const LINES: usize = 20;

/// What a process prints, in a log file that has what others printed before.
#[derive(Clone, Debug)]
pub(super) struct Printed {
    file: PathBuf,
    from: u64,
}

impl Printed {
    /// What is printed to this file from now on.
    pub(super) fn to(file: &Path) -> Self {
        let from = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        Self {
            file: file.to_owned(),
            from,
        }
    }

    /// The last line that is not empty.
    pub(super) fn last_line(&self) -> Option<String> {
        let end = self.end();
        let line = end.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().chars().take(500).collect())
    }

    /// Tells the user that the function has ended or cannot start, with the end of what it printed.
    pub(super) fn tell(&self, function: &str, what: &str) {
        let end = self.end();
        let lines: Vec<_> = end.trim_end().lines().collect();
        let shown = &lines[lines.len().saturating_sub(LINES)..];
        let mut text = format!("leasehold-local: the function {function} {what}");
        text += if shown.is_empty() {
            "; it has printed nothing"
        } else {
            "; the end of what it printed:"
        };
        for line in shown {
            text += "\n  ";
            text += line;
        }
        // Not `eprintln!`, which panics if the terminal is gone.
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    fn end(&self) -> String {
        let read = || {
            let mut file = File::open(&self.file)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.from.max(length.saturating_sub(BYTES))))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
    }
}
