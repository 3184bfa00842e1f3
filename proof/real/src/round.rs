//! One round: everybody follows the plan; then the faults end, everybody comes to an end, and what was observed is held to what is
//! promised.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use crate::actors::{self, Stranger, execution, holder};
use crate::call::{Handle, all_of};
use crate::faults;
use crate::promises::{At, Event, What, broken};
use crate::run::Totals;
use crate::watch::Watch;
use crate::world::World;

/// The first sweep ends every wait whose time is over; the others allow for what goes wrong with it.
const SWEEPS: u64 = 20;
/// How long after its end nobody may wait for anything: a history of Step Functions may be half a minute late, and again for the next
/// in the queue.
const PATIENCE: At = 90_000_000;

/// A round, as all who take part in it share it.
pub struct Round {
    pub world: Arc<World>,
    pub seed: u64,
    pub number: u64,
    pub watch: Watch,
    /// When nobody begins anything new any more.
    until: At,
    /// Sweeps that came to their ends after that.
    sweeps: AtomicU64,
    events: Mutex<Vec<Event>>,
    totals: Mutex<Totals>,
}

impl Round {
    pub fn new(world: Arc<World>, seed: u64, number: u64, length: Duration) -> Self {
        let watch = Watch::start();
        Self {
            world,
            seed,
            number,
            until: watch.now() + At::try_from(length.as_micros()).unwrap_or(At::MAX),
            watch,
            sweeps: AtomicU64::new(0),
            events: Mutex::default(),
            totals: Mutex::default(),
        }
    }

    pub fn now(&self) -> At {
        self.watch.now()
    }

    /// Writes down what was observed.
    pub fn see(&self, at: At, place: &str, who: &str, what: What) {
        let (place, who) = (place.to_owned(), who.to_owned());
        locked(&self.events).push(Event {
            at,
            place,
            who,
            what,
        });
    }

    /// Who has this lease may work from here on, as one of so many.
    pub fn enters(&self, at: At, who: &str, lease: &Handle, room: usize, until: Option<At>) {
        let token = lease.token;
        let places = [(lease.place(), 1), (all_of(&lease.key), room)];
        for (place, room) in places.into_iter().take(room) {
            self.see(at, &place, who, What::Entered { token, room, until });
        }
    }

    /// Who has this lease need not be at work any more.
    pub fn leaves(&self, at: At, who: &str, lease: &Handle) {
        let token = lease.token;
        for place in [lease.place(), all_of(&lease.key)] {
            self.see(at, &place, who, What::Left { token });
        }
    }

    /// Writes down an answer that nobody should get.
    pub fn unexpected(&self, who: &str, what: String) {
        self.see(self.now(), "", who, What::Unexpected(what));
    }

    /// Writes down what people read.
    pub fn read(&self, whose: &str, text: String) {
        self.see(self.now(), whose, "", What::Read(text));
    }

    /// When this start was first asked for.
    pub fn asked(&self, who: &str) -> At {
        let events = locked(&self.events);
        let mut own = events.iter().filter(|event| event.who == who);
        let asked = own.find(|event| matches!(event.what, What::Asked(_)));
        asked.map_or(0, |event| event.at)
    }

    /// Counts a call of a function.
    pub fn called(&self) {
        locked(&self.totals).operations += 1;
    }

    /// Counts a fault.
    pub fn fault(&self, kind: String) {
        let mut totals = locked(&self.totals);
        totals.count(kind);
        totals.faults += 1;
    }

    /// A sweep came to its end.
    pub fn is_swept(&self) {
        if self.is_over() {
            self.sweeps.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether nothing new should begin.
    pub fn is_over(&self) -> bool {
        self.now() >= self.until
    }

    /// Whether who waits now waits for ever.
    pub fn patience_is_over(&self) -> bool {
        let is_swept = self.sweeps.load(Ordering::Acquire) >= SWEEPS;
        is_swept && self.now() > self.until + PATIENCE
    }

    /// Plays it, and adds to the result of those before.
    pub async fn play(self: Arc<Self>, total: &mut Totals) {
        std::mem::swap(&mut *locked(&self.totals), total);
        let strangers = Stranger::put(&self).await;
        let stop = Arc::new(AtomicBool::new(false));
        let sweeping = tokio::spawn(actors::sweeper::sweep(Arc::clone(&self), Arc::clone(&stop)));
        let disturbing = tokio::spawn(faults::inject(Arc::clone(&self)));
        actors::all(&self).join_all().await;
        disturbing.await.unwrap();
        let keys = actors::keys(self.number);
        let tries = keys.iter().map(|key| holder::try_for(&self, key));
        join_all(tries).await;
        for stranger in &strangers {
            stranger.see(&self).await;
        }
        stop.store(true, Ordering::Release);
        sweeping.await.unwrap();
        execution::see_runs(&self);
        for (key, _) in &keys {
            for (token, number) in self.world.resource.writes(key).await {
                self.see(self.now(), key, "", What::Wrote { token, number });
            }
        }
        for (name, text) in self.world.take_logs() {
            self.read(&name, text);
        }
        self.world.step_functions.forget();
        std::mem::swap(&mut *locked(&self.totals), total);
        let events = std::mem::take(&mut *locked(&self.events));
        total.see(&events);
        total.find(broken(&events), &events);
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds the lock.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
