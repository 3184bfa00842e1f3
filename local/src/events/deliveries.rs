//! A test's control of deliveries: it may lose them, repeat them, or change them as a network or a service could.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Where a delivery comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Batches of records from a table's stream.
    Stream,
    /// Events, before the rules see them. Each is a batch of one.
    Bus,
    /// Batches of messages from a queue. A message is the sent text as JSON.
    Queue,
}

/// Turns a batch into the batches that are delivered instead. None loses it, two repeat it.
type DeliveryHook = Box<dyn FnMut(Vec<Value>) -> Vec<Vec<Value>> + Send>;

/// A test's control of the deliveries. Clones share it.
#[derive(Clone, Default)]
pub struct Deliveries(Arc<Mutex<BTreeMap<Source, DeliveryHook>>>);

impl Deliveries {
    /// Loses the next `times` deliveries, and delivers those after them. `u32::MAX` loses practically all.
    pub fn lose(&self, source: Source, times: u32) {
        let mut left = times;
        self.transform(source, move |batch| {
            if left == 0 {
                return vec![batch];
            }
            left -= 1;
            Vec::new()
        });
    }

    /// From now on delivers the batches that `hook` returns for each batch.
    pub fn transform(
        &self,
        source: Source,
        hook: impl FnMut(Vec<Value>) -> Vec<Vec<Value>> + Send + 'static,
    ) {
        self.plans().insert(source, Box::new(hook));
    }

    /// Delivers everything once, as before.
    pub fn restore(&self, source: Source) {
        self.plans().remove(&source);
    }

    /// The batches that are delivered instead of this one.
    pub(super) fn planned_batches(&self, source: Source, batch: Vec<Value>) -> Vec<Vec<Value>> {
        match self.plans().get_mut(&source) {
            Some(hook) => hook(batch),
            None => vec![batch],
        }
    }

    fn plans(&self) -> MutexGuard<'_, BTreeMap<Source, DeliveryHook>> {
        // A hook that panics fails its test. The next hook replaces it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.plans().keys()).finish()
    }
}
