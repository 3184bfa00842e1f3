//! One fixture for all entries about state machines.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_bench::workflows::fixture::WorkflowFixture;
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, RwLock};

use super::ours::in_time;

/// The stack outlives the tests that share it, so its tasks need a runtime that does, too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static FIXTURE: OnceCell<WorkflowFixture> = OnceCell::const_new();
/// A test that changes the fault of all requests must run alone.
static CHANGING: RwLock<()> = RwLock::const_new(());

async fn fixture() -> &'static WorkflowFixture {
    FIXTURE
        .get_or_init(async || WorkflowFixture::open().await.unwrap())
        .await
}

/// Runs a test on the shared fixture.
pub fn with_fixture<F: Future<Output = ()>>(test: impl FnOnce(&'static WorkflowFixture) -> F) {
    RUNTIME.block_on(async {
        let _shared = CHANGING.read().await;
        in_time(test(fixture().await)).await;
    });
}

/// Runs a test on the shared fixture, and no other one meanwhile.
pub fn alone_with_fixture<F: Future<Output = ()>>(
    test: impl FnOnce(&'static WorkflowFixture) -> F,
) {
    RUNTIME.block_on(async {
        let _alone = CHANGING.write().await;
        in_time(test(fixture().await)).await;
    });
}

/// A key that no other test has.
pub fn fresh_key() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("orders/{}", LAST.fetch_add(1, Ordering::Relaxed))
}
