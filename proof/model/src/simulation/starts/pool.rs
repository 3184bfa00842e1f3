//! What the judge makes of the pool that the keys share.

use super::{
    super::oracle::SKEW,
    judge::{Judge, Record},
};
use leasehold::{
    Holder, Key, LeaseId, RequestDigest,
    row::{InPool, Row},
    store::Address,
};

/// In which order the keys are served by the pool: each in its turn, and as often as it has permits.
#[derive(Default)]
pub struct InTurn(Vec<Owed>);

/// Who waited in the pool when this key was served, and how often the key was served since.
struct Owed {
    key: Key,
    waiting: Vec<RequestDigest>,
    since: usize,
}

impl InTurn {
    /// The queue of the pool is this now.
    pub fn wait(&mut self, queue: &[RequestDigest]) {
        for owed in &mut self.0 {
            owed.waiting.retain(|one| queue.contains(one));
        }
        self.0.retain(|owed| !owed.waiting.is_empty());
    }

    /// A key is served. False if somebody waits who waited when it was served so many times ago.
    fn serves(&mut self, key: &Key, permits: usize, queue: &[RequestDigest]) -> bool {
        let mut is_fair = true;
        for owed in self.0.iter_mut().filter(|owed| owed.key == *key) {
            owed.since += 1;
            is_fair &= owed.since < permits;
        }
        if queue.is_empty() {
            return is_fair;
        }
        self.0.push(Owed {
            key: key.clone(),
            waiting: queue.to_vec(),
            since: 0,
        });
        is_fair
    }
}

impl Judge {
    pub fn is_pool(&self, key: &Key) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.key == *key)
    }

    /// How many may have it at once.
    pub fn permits_of(&self, key: &Key) -> usize {
        let pool = self.pool.as_ref().filter(|pool| pool.key == *key);
        pool.map_or(self.permits, |pool| pool.permits.get().into())
    }

    /// Somebody has a key and waits for a permit. A place whose grant has ended is nobody's, and is passed over by who walks the queue.
    pub fn somebody_waits_in_pool(&self) -> bool {
        let mut entered = self.keys.values().flat_map(|key| key.entered.values());
        entered.any(|pool| pool.permit.is_none())
    }

    fn is_permit(&self, lease: &LeaseId) -> bool {
        let pool = self.pool.as_ref().and_then(|pool| self.keys.get(&pool.key));
        pool.is_some_and(|pool| pool.held.values().any(|(_, held)| held == lease))
    }

    /// The permit that an execution has.
    pub fn permit_of(&self, execution: &Holder) -> Option<LeaseId> {
        let pool = self.keys.get(&self.pool.as_ref()?.key)?;
        let request = RequestDigest::of_start(execution);
        let mut held = pool.held.values();
        let (_, permit) = held.find(|(of, _)| *of == request)?;
        Some(permit.clone())
    }

    /// Whether it has the permit with which it began, or needs none.
    pub fn has_permit(&self, who: usize) -> bool {
        let Record { start, permit, .. } = &self.starts[who];
        start.pool.is_none() || permit.as_ref().is_some_and(|permit| self.is_permit(permit))
    }

    /// What the row of a key says of the pool.
    pub fn pool_changed(&mut self, at: &Address, before: Option<&Row>, after: &Row) {
        let of = |row: &Row| row.holding().and_then(|held| held.pool.as_deref().cloned());
        let (was, is) = (before.and_then(of), of(after));
        if was == is {
            return;
        }
        let is_served = is.as_ref().is_some_and(|is| is.permit.is_some());
        let entered = &mut self.keys.entry(at.key.clone()).or_default().entered;
        match is {
            Some(is) => drop(entered.insert(at.permit, is)),
            None => drop(entered.remove(&at.permit)),
        }
        let Some(pool) = self.pool.as_ref().filter(|_| is_served) else {
            return;
        };
        let queue = self.keys.get(&pool.key).map(|pool| pool.queue.clone());
        let queue = queue.unwrap_or_default();
        self.seen.push("served by the pool");
        if !queue.is_empty() {
            self.seen.push("served while others wait in the pool");
        }
        if !self.in_turn.serves(&at.key, self.permits, &queue) {
            self.is_wrong(format!("L8: {} is served before its turn", at.key));
        }
    }

    /// The permit that goes with this lease, by the row of its key.
    fn permit_with(
        &self,
        key: &Key,
        is_it: impl Fn(&(RequestDigest, LeaseId)) -> bool,
    ) -> Option<LeaseId> {
        let key = self.keys.get(key)?;
        let (at, _) = key.held.iter().find(|(_, held)| is_it(held))?;
        let InPool { permit, .. } = key.entered.get(at)?;
        Some(permit.as_ref()?.lease_id.clone())
    }

    /// How many run that need a permit.
    fn in_pool(&self) -> usize {
        let started = self.starts.iter().filter(|record| {
            record.start.pool.is_some() && record.needs_the_key() && !record.is_excused
        });
        let told = self.waiting.iter();
        let told = told.filter(|waiting| waiting.has.is_some() && waiting.permit.is_some());
        started.count() + told.count()
    }

    fn is_full(&mut self, name: &str) {
        let most = self
            .pool
            .as_ref()
            .map_or(0, |pool| pool.permits.get().into());
        if self.in_pool() > most {
            self.is_wrong(format!("S15: {name} is one too many in the pool"));
        }
    }

    /// An execution that needs a permit has begun.
    pub fn begins_in_pool(&mut self, who: usize) {
        let record = &self.starts[who];
        if record.start.pool.is_none() {
            return;
        }
        let (name, request) = (record.name().to_owned(), record.request.clone());
        let permit = self.permit_with(&record.start.key, |(held, _)| *held == request);
        let is_forced = permit.as_ref().is_some_and(|it| self.forced.contains(it));
        let is_there = permit.as_ref().is_some_and(|it| self.is_permit(it));
        let record = &mut self.starts[who];
        record.permit = permit.filter(|_| is_there);
        record.is_excused = is_forced;
        if !is_there && !is_forced {
            self.is_wrong(format!("S15: {name} begins without a permit"));
        }
        self.is_full(&name);
    }

    /// An execution that waits learns of its lease, which may be one with a permit.
    pub fn told_in_pool(&mut self, who: usize) {
        let waiting = &self.waiting[who];
        let (name, key) = (waiting.name.clone(), waiting.key.clone());
        let Some(lease) = waiting.has.clone().filter(|_| waiting.is_pooled) else {
            return;
        };
        let permit = self.permit_with(&key, |(_, held)| *held == lease);
        let is_forced = permit.as_ref().is_some_and(|it| self.forced.contains(it));
        let is_there = permit.as_ref().is_some_and(|it| self.is_permit(it));
        self.waiting[who].permit = permit.filter(|_| is_there);
        if !is_there && !is_forced {
            self.is_wrong(format!("S15: {name} is told without a permit"));
        }
        self.is_full(&name);
    }

    /// An execution that was redriven has a permit again.
    pub fn has_permit_again(&mut self, execution: &Holder, after: &Row, lease: &LeaseId) {
        let Some(who) = self.of(&RequestDigest::of_start(execution)) else {
            return;
        };
        if self.starts[who].was_redriven_by(after).is_none_or(|so| !so) {
            return;
        }
        let record = &mut self.starts[who];
        record.permit = Some(lease.clone());
        record.is_excused = false;
        let name = record.name().to_owned();
        self.seen.push("redriven, and has its permit again");
        self.is_full(&name);
    }

    /// A permit of the pool has ended.
    pub fn permit_is_lost(&mut self, by_force: bool, had: &LeaseId, now: u64) {
        for waiting in &mut self.waiting {
            if waiting.permit.as_ref() == Some(had) {
                waiting.permit = None;
                if waiting.has.is_some() && !by_force {
                    let name = waiting.name.clone();
                    self.is_wrong(format!("S15: {name} works, and its permit was ended"));
                    return;
                }
            }
        }
        let grace = self.grace;
        let has_it = |record: &&mut Record| record.permit.as_ref() == Some(had);
        let Some(record) = self.starts.iter_mut().find(has_it) else {
            return;
        };
        record.permit = None;
        record.is_excused |= by_force;
        let (name, keep) = (record.name().to_owned(), record.start.keep.as_millis());
        let Some(run) = record.run().filter(|run| !run.is_free && !by_force) else {
            return;
        };
        match run.ended {
            None => self.is_wrong(format!("S15: {name} runs, and its permit was ended")),
            Some((at, proven, _)) if !proven && now + SKEW < at + grace => {
                self.is_wrong(format!(
                    "S15: a task of {name} may be at work, and its permit was ended"
                ));
            }
            Some((at, _, false)) if keep > 0 && now + SKEW < at + keep => {
                self.is_wrong(format!("the permit of {name} was not kept for a redrive"));
            }
            Some(_) => {}
        }
    }

    /// Without faults whoever waits in the pool is served as soon as it has room, or one sweep later: two, because the first may
    /// read an old index.
    pub fn nobody_waits_in_vain(&mut self) {
        let Some(pool) = &self.pool else { return };
        let Some(key) = self.keys.get(&pool.key) else {
            return;
        };
        let most = usize::from(pool.permits.get());
        let room = key.limit.unwrap_or(most).min(most) > key.held.len();
        self.in_vain = if room && self.somebody_waits_in_pool() {
            self.in_vain.saturating_add(1)
        } else {
            0
        };
        if self.in_vain > 2 {
            self.is_wrong("L7: somebody waits in the pool, and it has room".to_owned());
        }
    }
}
