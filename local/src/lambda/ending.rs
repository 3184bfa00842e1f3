//! What becomes of a host: its sandboxes are killed, and what they wrote is searched for secrets.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::host::{Inner, LambdaHost};
use super::outcome::{Invocation, Outcome};
use super::sandbox::Order;
use crate::canary::Canary;

impl LambdaHost {
    /// Has functions log all they can from now on, lets a canary learn the secrets in their events and answers, and
    /// looks for every secret it knows in everything they wrote, when the host ends: one that is found is a panic.
    pub fn watch(&self, canary: &Arc<Canary>) {
        let _ = self.inner.canary.set(Arc::clone(canary));
    }
}

impl Drop for LambdaHost {
    fn drop(&mut self) {
        // Invocations that are under way share `inner`, so that it alone does not end the processes.
        self.inner.stopped.store(true, Ordering::Release);
        for sandbox in self.inner.sandboxes().values() {
            sandbox.order(Order::Kill);
        }
        let found = self.inner.leaks();
        // A test that fails already says why, and a second panic would not let it.
        if !std::thread::panicking() {
            assert!(found.is_empty(), "secrets in logs: {found:#?}");
        }
    }
}

impl Inner {
    /// The secrets of an invocation that has ended.
    pub(super) fn learn(&self, invocation: &Invocation) {
        let Some(canary) = self.canary.get() else {
            return;
        };
        canary.learn(invocation.payload.as_bytes());
        if let Outcome::Answer(text) | Outcome::FunctionError(text) = &invocation.outcome {
            canary.learn(text.as_bytes());
        }
    }

    /// For each function whose log has a secret in it the first one.
    fn leaks(&self) -> Vec<String> {
        let Some(canary) = self.canary.get() else {
            return Vec::new();
        };
        let functions = self
            .functions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let own = functions
            .iter()
            .filter(|(name, hosted)| **name == hosted.function.logical_id);
        let leaks = own.filter_map(|(name, hosted)| {
            let log = std::fs::read(self.log_file(&hosted.function)).unwrap_or_default();
            canary.finds(&log).map(|leak| format!("{name}, {leak}"))
        });
        leaks.collect()
    }
}
