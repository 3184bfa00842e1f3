//! What is logged at level TRACE.

use std::{cell::RefCell, io, sync::Once};

use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

thread_local! {
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: Once = Once::new();

/// Does `work`, and returns what this thread logged meanwhile, as a function logs it.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, String) {
    INSTALLED.call_once(|| {
        let lines = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(LevelFilter::TRACE)
            .with_writer(Capture)
            .finish();
        // Another subscriber would keep the lines to itself, and every case would look clean.
        tracing::subscriber::set_global_default(lines).expect("no other subscriber");
    });
    LINES.with_borrow_mut(Vec::clear);
    let done = work();
    let lines = LINES.with_borrow_mut(std::mem::take);
    (done, String::from_utf8_lossy(&lines).into_owned())
}

struct Capture;

impl<'a> MakeWriter<'a> for Capture {
    type Writer = Captured;

    fn make_writer(&'a self) -> Captured {
        Captured
    }
}

struct Captured;

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
