//! Rewriting of requests before they reach the database.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

type Function = dyn Fn(&str, &[u8]) -> Option<Vec<u8>> + Send + Sync;

/// Rewrites a request's body, by its operation. `None` leaves it as it is.
#[derive(Clone)]
pub(super) struct Rewriting(Arc<Function>);

impl Rewriting {
    pub(super) fn new(
        function: impl Fn(&str, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(function))
    }

    pub(super) fn of(&self, operation: &str, body: &[u8]) -> Option<Bytes> {
        (self.0)(operation, body).map(Bytes::from)
    }
}

impl fmt::Debug for Rewriting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rewriting")
    }
}
