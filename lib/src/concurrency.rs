//! Concurrent requests, up to a limit.

use std::future::Future;

use futures_util::{StreamExt as _, stream};

/// Requests at once. A hundred sequential requests could take longer than a short lease.
pub(crate) const AT_ONCE: usize = 10;

/// The results in the order of the requests. It takes a `Vec`, not an iterator: with the closure of an iterator the
/// future could not be sent to another thread.
pub(crate) async fn some_at_a_time<F: Future>(most: usize, requests: Vec<F>) -> Vec<F::Output> {
    stream::iter(requests).buffered(most.max(1)).collect().await
}
