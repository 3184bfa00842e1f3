//! Reads everything that the library logs while its tests run, at every level, and panics if a lease id is logged.
//!
//! It knows the lease ids of its own thread, and each test has a thread. Task tokens are chosen by the tests here,
//! and are too short to be recognised among other words.

use std::{
    cell::RefCell,
    collections::HashSet,
    fmt::{Debug, Write as _},
    sync::Once,
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

thread_local! {
    static SECRETS: RefCell<HashSet<String>> = RefCell::default();
}

pub(crate) fn learn(secret: &str) {
    SECRETS.with_borrow_mut(|secrets| secrets.insert(secret.to_owned()));
}

pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        tracing::subscriber::set_global_default(Ears).expect("nobody else listens");
    });
}

struct Ears;

impl Subscriber for Ears {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut said = Said::default();
        attributes.record(&mut said);
        said.check();
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut said = Said::default();
        values.record(&mut said);
        said.check();
    }

    fn event(&self, event: &Event<'_>) {
        let mut said = Said::default();
        event.record(&mut said);
        said.check();
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Said {
    fn check(&self) {
        let words = self.0.split(|c: char| !c.is_ascii_alphanumeric());
        SECRETS.with_borrow(|secrets| {
            for word in words {
                assert!(!secrets.contains(word), "a secret is logged: {}", self.0);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::LeaseId;

    #[test]
    #[should_panic(expected = "a secret is logged")]
    fn a_secret_that_is_logged_is_heard() {
        super::listen();
        let id = LeaseId::random();
        tracing::trace!(?id, "as it should be");
        tracing::trace!("granted with {}", id.expose());
    }
}
