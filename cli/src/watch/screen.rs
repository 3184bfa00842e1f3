//! The terminal during `watch`: an alternate screen, and keys without Enter. Dropping it restores the terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Switches to the alternate screen and hides the cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
/// Moves to the first cell; erases the rest of a line, or of the page.
const HOME: &str = "\u{1b}[H";
const REST_OF_LINE: &str = "\u{1b}[K";
const REST_OF_PAGE: &str = "\u{1b}[J";

pub(super) enum Key {
    Quit,
    Resized,
}

pub(super) struct Screen {
    keys: Option<Keys>,
    resized: Signal,
}

/// Keys as they are pressed.
struct Keys {
    input: tokio::io::Stdin,
    before: Termios,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let screen = Self {
            keys: Keys::open()?,
            resized: signal(SignalKind::window_change())?,
        };
        put(ENTER)?;
        Ok(screen)
    }

    /// Draws as many lines as fit, and the last one below them.
    pub(super) fn draw(lines: &[String], foot: &str) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout().as_fd());
        let (rows, columns) = size.map_or((0, 0), |size| (size.ws_row, size.ws_col));
        // Some terminals do not report their size.
        let or = |known: u16, usual| if known == 0 { usual } else { known.into() };
        let room = or(rows, 24_usize).max(4) - 2;
        let columns = or(columns, 100_usize);
        let mut page = HOME.to_owned();
        let mut add = |line: &str, end: &str| {
            page.extend(line.chars().take(columns));
            page += REST_OF_LINE;
            page += end;
        };
        let is_cut = lines.len() > room;
        let shown = if is_cut { room - 1 } else { lines.len() };
        for line in &lines[..shown] {
            add(line, "\r\n");
        }
        if is_cut {
            add(&format!("… {} more", lines.len() - shown), "\r\n");
        }
        add("", "\r\n");
        add(foot, "");
        put(&(page + REST_OF_PAGE))
    }

    /// Returns when the user quits.
    pub(super) async fn quits(&mut self) {
        while !matches!(self.pressed().await, Key::Quit) {}
    }

    pub(super) async fn pressed(&mut self) -> Key {
        let quit = async {
            match &mut self.keys {
                Some(keys) => keys.quit().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = quit => Key::Quit,
            _ = self.resized.recv() => Key::Resized,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = put(LEAVE);
    }
}

impl Keys {
    fn open() -> io::Result<Option<Self>> {
        let input = io::stdin();
        if !input.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(input.as_fd())?;
        let mut plain = before.clone();
        // Ctrl-C remains a signal.
        plain.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO);
        plain.special_codes[SpecialCodeIndex::VMIN] = 1;
        plain.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(input.as_fd(), OptionalActions::Now, &plain)?;
        let input = tokio::io::stdin();
        Ok(Some(Self { input, before }))
    }

    /// Returns when q is pressed, or when the input ends.
    async fn quit(&mut self) {
        loop {
            match self.input.read_u8().await {
                Ok(b'q' | b'Q') | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
