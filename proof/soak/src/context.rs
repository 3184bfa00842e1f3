//! One round as all who take part in it share it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::RwLock;

use crate::fixture::Fixture;
use crate::history::History;
use crate::history::{ExtraEffect, Micros, Names, Op, Place};
use crate::keys::{Keys, PERMITS};
use crate::watch::Watch;

/// What every client, operator and fault of a round is given.
pub struct Context {
    /// The table and the functions.
    pub fixture: Arc<Fixture>,
    /// The clock that the history is written by.
    pub watch: Watch,
    /// The seed of the whole soak.
    pub seed: u64,
    /// Which round it is.
    pub round: u64,
    /// When nobody begins anything new any more.
    pub until: Micros,
    /// The keys of the round.
    pub keys: Keys,
    /// What names were seen.
    pub names: Names,
    /// Of keys whose rows are deleted: no call is made for a key during its deletion, since a row that is deleted under an
    /// acquire may be created again with an old token, which is documented and not promised.
    pub gone: Vec<RwLock<()>>,
    /// Sweeps that came to their end.
    pub swept: AtomicU64,
    history: Mutex<History>,
}

impl Context {
    /// A round that is about to begin.
    #[must_use]
    pub fn new(
        fixture: Arc<Fixture>,
        mut watch: Watch,
        seed: u64,
        round: u64,
        length: Micros,
    ) -> Self {
        watch.set();
        let keys = Keys::of(round);
        Self {
            fixture,
            watch,
            seed,
            round,
            until: watch.now() + length,
            gone: keys.gone.iter().map(|_| RwLock::new(())).collect(),
            keys,
            names: Names::default(),
            swept: AtomicU64::new(0),
            history: Mutex::default(),
        }
    }

    /// What is written down.
    pub fn history(&self) -> MutexGuard<'_, History> {
        // Nothing panics while it holds the lock.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down a call.
    pub fn record(&self, place: Place, op: Op) {
        self.history().ops.entry(place).or_default().push(op);
    }

    /// Writes down a call that may have freed any row, at any time until its requests have arrived.
    pub fn anywhere(&self, op: &Op) {
        let permits = self.keys.permits.iter();
        let permits = permits.flat_map(|key| (0..PERMITS).map(move |permit| (key, permit)));
        let besides = match op.besides {
            ExtraEffect::Nothing => ExtraEffect::Within,
            besides => besides,
        };
        for (key, permit) in self.keys.mutexes().map(|key| (key, 0)).chain(permits) {
            let place = Place {
                key: key.clone(),
                permit,
            };
            let op = Op {
                besides,
                ..op.clone()
            };
            self.record(place, op);
        }
    }

    /// Records a fault of the processes or the wire.
    pub fn note_disturbance(&self, what: String) {
        let at = self.watch.now();
        self.history().fault_log.push((at, what));
    }

    /// Records a fault of a function or of the whole wire.
    pub fn record_fault(&self, kind: &str, what: &str) {
        self.note_disturbance(format!("{kind}: {what}"));
        let mut history = self.history();
        *history.faults.entry(kind.to_owned()).or_default() += 1;
    }

    /// Whether nothing new should begin.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.watch.now() >= self.until
    }
}
