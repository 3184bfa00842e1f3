//! What is logged, at the most talkative level there is.

use std::{cell::RefCell, io, sync::Once};

use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

thread_local! {
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

static KEPT: Once = Once::new();

/// Does `work` and tells what this thread logged meanwhile, as a function logs it.
pub fn of<T>(work: impl FnOnce() -> T) -> (T, String) {
    KEPT.call_once(|| {
        let lines = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(LevelFilter::TRACE)
            .with_writer(Pages)
            .finish();
        // Somebody else's subscriber would keep the lines to itself, and every case would look clean.
        tracing::subscriber::set_global_default(lines).expect("nobody else listens");
    });
    LINES.with_borrow_mut(Vec::clear);
    let done = work();
    let lines = LINES.with_borrow_mut(std::mem::take);
    (done, String::from_utf8_lossy(&lines).into_owned())
}

struct Pages;

impl<'a> MakeWriter<'a> for Pages {
    type Writer = Page;

    fn make_writer(&'a self) -> Page {
        Page
    }
}

struct Page;

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_logged_is_kept_for_whoever_asked() {
        let ((), lines) = super::of(|| tracing::trace!(said = "so", "heard"));
        assert!(
            lines.contains("\"said\":\"so\"") && lines.ends_with("}\n"),
            "{lines}"
        );
        assert_eq!(super::of(|| ()).1, "");
    }
}
