//! Requests that run concurrently, within a bound.

use std::future::Future;

use futures_util::{StreamExt as _, stream};

/// Requests at once: a hundred one after the other would outlast the shorter leases.
pub(crate) const AT_ONCE: usize = 10;

/// The answers in the order of the requests. Not of an iterator: its closure would keep the future
/// of the whole from being sent to another thread.
pub(crate) async fn some_at_a_time<F: Future>(most: usize, requests: Vec<F>) -> Vec<F::Output> {
    stream::iter(requests).buffered(most.max(1)).collect().await
}
