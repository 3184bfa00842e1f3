//! Who and what is in the story.

pub(super) const KEY: &str = "orders/42";
pub(super) const PROCESS: &str = "process";
pub(super) const STOPPED_WORKING: usize = 3;
pub(super) const STOPPED_WAITING: usize = 5;
/// Instead of the template's 2000. It is safe, because all processes here read the same clock.
pub(super) const MARGIN_MS: u64 = 500;
/// Instead of the template's 900. It is longer than the one step that can be running when its execution is stopped.
pub(super) const GRACE_SECONDS: u64 = 3;
