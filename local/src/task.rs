//! Tasks that end with their owner.

use std::future::Future;

use tokio::task::JoinHandle;

/// A spawned task that is aborted when this value is dropped.
///
/// A bare `JoinHandle` detaches on drop, and a detached accept loop would keep its port and its state
/// for as long as the runtime lives.
#[derive(Debug)]
pub(crate) struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
