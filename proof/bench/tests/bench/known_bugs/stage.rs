//! One stage for all entries about state machines.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold_bench::workflows::stage::Stage;
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, RwLock};

use super::ours::in_time;

/// The stack outlives the tests that share it, so its tasks need a runtime that does, too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static STAGE: OnceCell<Stage> = OnceCell::const_new();
/// A test that changes the fault of all requests must run alone.
static CHANGING: RwLock<()> = RwLock::const_new(());

async fn stage() -> &'static Stage {
    STAGE
        .get_or_init(async || Stage::open().await.unwrap())
        .await
}

/// Runs a test on the shared stage.
pub fn with_stage<F: Future<Output = ()>>(test: impl FnOnce(&'static Stage) -> F) {
    RUNTIME.block_on(async {
        let _shared = CHANGING.read().await;
        in_time(test(stage().await)).await;
    });
}

/// Runs a test on the shared stage, and no other one meanwhile.
pub fn alone_with_stage<F: Future<Output = ()>>(test: impl FnOnce(&'static Stage) -> F) {
    RUNTIME.block_on(async {
        let _alone = CHANGING.write().await;
        in_time(test(stage().await)).await;
    });
}

/// A key that no other test has.
pub fn fresh_key() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("orders/{}", LAST.fetch_add(1, Ordering::Relaxed))
}
