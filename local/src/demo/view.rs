//! The live view: a panel in a terminal, lines elsewhere.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use super::facts::{self, Fact};
use super::lines;
use super::panel;
use super::record::Record;

/// How many of the last events stand below the panel.
const LAST_EVENTS: usize = 6;
/// A terminal that does not tell its size has this one.
const USUAL_SIZE: (u16, u16) = (80, 24);

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Between these two a terminal that knows them shows nothing half drawn; others ignore them.
const FRAME_BEGINS: &str = "\x1b[?2026h";
const FRAME_ENDS: &str = "\x1b[?2026l";
const CLEAR_BELOW: &str = "\x1b[J";

/// Where the events go.
pub(super) enum View {
    Lines,
    Panel(Panel),
}

/// A panel that is drawn over itself. Dropped, also by Ctrl-C, it gives the cursor back.
pub(super) struct Panel {
    drawn: usize,
    last: VecDeque<String>,
}

impl View {
    pub(super) fn open(plain: bool) -> Self {
        if plain || !std::io::stdout().is_terminal() {
            return Self::Lines;
        }
        show(HIDE_CURSOR);
        Self::Panel(Panel {
            drawn: 0,
            last: VecDeque::new(),
        })
    }

    /// An event has been recorded.
    pub(super) fn tell(&mut self, record: &Record, fact: &Fact) {
        let Some(line) = lines::line(record, fact) else {
            return;
        };
        match self {
            Self::Lines => show(&(line + "\n")),
            Self::Panel(panel) => {
                panel.last.push_back(line);
                if panel.last.len() > LAST_EVENTS {
                    panel.last.pop_front();
                }
            }
        }
    }

    /// Time has passed.
    pub(super) fn draw(&mut self, record: &Record) {
        if let Self::Panel(panel) = self {
            panel.draw(record);
        }
    }

    /// Draws the end, and leaves it on the screen.
    pub(super) fn close(mut self, record: &Record) {
        self.draw(record);
    }
}

impl Panel {
    fn draw(&mut self, record: &Record) {
        let (width, height) = size();
        let mut lines = panel::lines(record, facts::now(), usize::from(width));
        lines.push(String::new());
        let width = usize::from(width);
        let dimmed = |line: &String| format!("\x1b[2m{}\x1b[0m", panel::cut(line, width));
        lines.extend(self.last.iter().map(dimmed));
        // A panel that is higher than the screen would scroll, and could not be drawn over.
        lines.truncate(usize::from(height).saturating_sub(1));
        let mut frame = String::from(FRAME_BEGINS);
        if self.drawn > 0 {
            // Writing to a String cannot fail.
            let _ = write!(frame, "\x1b[{}A", self.drawn);
        }
        for line in &lines {
            let _ = writeln!(frame, "\r{line}\x1b[K");
        }
        frame += CLEAR_BELOW;
        frame += FRAME_ENDS;
        self.drawn = lines.len();
        show(&frame);
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        show(SHOW_CURSOR);
    }
}

fn size() -> (u16, u16) {
    let told = rustix::termios::tcgetwinsize(std::io::stdout());
    // Zero is how a terminal says that it does not know: a serial line, or one that nobody has set up.
    told.ok()
        .map(|size| (size.ws_col, size.ws_row))
        .filter(|(columns, rows)| *columns > 0 && *rows > 0)
        .unwrap_or(USUAL_SIZE)
}

pub(super) fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that went away, as in `demo | head`, is no reason to stop.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
