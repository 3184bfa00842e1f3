//! One fixture for all entries about state machines.

use leasehold_bench::workflows::fixture::WorkflowFixture;
use leasehold_proof::fixture::Shared;
use tokio::sync::RwLock;

use super::ours::in_time;

static FIXTURE: Shared<WorkflowFixture> = Shared::new();
/// A test that changes the fault of all requests must run alone.
static CHANGING: RwLock<()> = RwLock::const_new(());

/// Runs a test on the shared fixture.
pub fn with_fixture<F: Future<Output = ()>>(test: impl FnOnce(&'static WorkflowFixture) -> F) {
    FIXTURE.run(WorkflowFixture::open, async |fixture| {
        let _shared = CHANGING.read().await;
        in_time(test(fixture)).await;
    });
}

/// Runs a test on the shared fixture, and no other one meanwhile.
pub fn alone_with_fixture<F: Future<Output = ()>>(
    test: impl FnOnce(&'static WorkflowFixture) -> F,
) {
    FIXTURE.run(WorkflowFixture::open, async |fixture| {
        let _alone = CHANGING.write().await;
        in_time(test(fixture)).await;
    });
}

/// A key that no other test has.
pub fn fresh_key() -> String {
    leasehold_proof::fixture::unique("orders")
}
