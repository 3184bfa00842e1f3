//! What the judge makes of the pool that the keys share.

use super::judge::Judge;
use leasehold::{
    Key,
    row::{Entries, Entry, Row},
    store::Address,
};

/// In which order the keys are served by the pool: each in its turn, and as often as it has permits.
#[derive(Default)]
pub struct InTurn(Vec<Owed>);

/// Who waited in the pool when this key was served, and how often the key was served since.
struct Owed {
    key: Key,
    waiting: Vec<Entry>,
    since: usize,
}

impl InTurn {
    /// The queue of the pool is this now.
    pub fn wait(&mut self, queue: &[Entry]) {
        for owed in &mut self.0 {
            owed.waiting.retain(|one| queue.contains(one));
        }
        self.0.retain(|owed| !owed.waiting.is_empty());
    }

    /// A key is served. False if somebody waits, and nothing holds that one back, who waited when it was served so many times ago.
    fn serves(&mut self, key: &Key, permits: usize, queue: &[Entry]) -> bool {
        let mut is_fair = true;
        for owed in self.0.iter_mut().filter(|owed| owed.key == *key) {
            owed.since += 1;
            let waits = owed.waiting.iter().any(|one| queue.contains(one));
            is_fair &= owed.since < permits || !waits;
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

/// The grant of a key that needs a pool.
pub struct Pooled {
    token: u64,
    entered: bool,
    /// Of an execution that runs by a redrive, and comes before all who wait.
    is_of_a_redrive: bool,
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

    /// Somebody has a key and waits in the pool, and no operator holds it back.
    fn somebody_waits_in_pool(&self) -> bool {
        let keys = self.keys.values().filter(|key| key.limit != Some(0));
        let mut pooled = keys.flat_map(|key| key.pooled.values());
        pooled.any(|pooled| !pooled.entered)
    }

    /// Its grant, as long as that lasts.
    fn pooled(&self, entry: &Entry) -> Option<&Pooled> {
        let pooled = self.keys.get(&entry.key)?.pooled.get(&entry.permit)?;
        (pooled.token == entry.fencing_token.get()).then_some(pooled)
    }

    fn lasts(&self, entry: &Entry) -> bool {
        self.pooled(entry).is_some()
    }

    /// Whether this row of a key is inside, and says so.
    fn is_inside(&self, key: &Key, permit: u16) -> bool {
        let pooled = self.keys.get(key).and_then(|key| key.pooled.get(&permit));
        let is_its = |entry: &&Entry| entry.key == *key && entry.permit == permit;
        let entry = self.entries.inside.values().find(is_its);
        pooled.is_some_and(|pooled| pooled.entered) && entry.is_some_and(|one| self.lasts(one))
    }

    /// Whether it is inside with its key, or needs no pool.
    pub fn has_permit(&self, who: usize) -> bool {
        let record = &self.starts[who];
        let key = &record.start.key;
        let held = self.keys.get(key).into_iter().flat_map(|key| &key.held);
        let mut its = held.filter(|(_, (of, _))| *of == record.request);
        record.start.pool.is_none() || its.any(|(permit, _)| self.is_inside(key, *permit))
    }

    /// The row of the pool, or of a key whose grant needs it, was changed.
    pub fn pool_changed(&mut self, at: &Address, before: Option<&Row>, after: &Row, now: u64) {
        if self.is_pool(&at.key) {
            self.entries_changed(at, before, after.entries.as_deref().cloned());
        } else {
            self.grant_changed(at, after, now);
        }
        self.refresh(now);
    }

    fn entries_changed(&mut self, at: &Address, before: Option<&Row>, after: Option<Entries>) {
        let is = after.unwrap_or_default();
        let was = std::mem::replace(&mut self.entries, is.clone());
        self.in_turn.wait(&is.waiting);
        for entry in was.inside.values() {
            if !is.inside.values().any(|one| one == entry) && self.lasts(entry) {
                self.is_wrong(format!("S15: {} is taken out of {}", entry.key, at.key));
            }
        }
        for entry in is.inside.values() {
            let comes_first = |pooled: &Pooled| pooled.is_of_a_redrive;
            if was.inside.values().any(|one| one == entry)
                || self.pooled(entry).is_some_and(comes_first)
            {
                continue;
            }
            let is_closed = |row: &Row| row.is_limited_to_none() || row.frozen.is_some();
            if was.waiting.contains(entry) && before.is_some_and(is_closed) {
                self.is_wrong(format!("{} enters {}, which is closed", entry.key, at.key));
            }
            self.seen.push("served by the pool");
            if !is.waiting.is_empty() {
                self.seen.push("served while others wait in the pool");
            }
            let is_held_back = |one: &Entry| {
                self.keys
                    .get(&one.key)
                    .is_some_and(|key| key.limit == Some(0))
            };
            let waiting = is
                .waiting
                .iter()
                .filter(|one| !is_held_back(one) && self.lasts(one));
            let waiting: Vec<_> = waiting.cloned().collect();
            if !self.in_turn.serves(&entry.key, self.permits, &waiting) {
                self.is_wrong(format!("L8: {} is served before its turn", entry.key));
            }
        }
    }

    fn grant_changed(&mut self, at: &Address, after: &Row, now: u64) {
        let pool = after.holding().and_then(|held| held.pool.as_ref());
        let is = pool.map(|pool| Pooled {
            token: after.fencing_token.get(),
            entered: pool.entered,
            is_of_a_redrive: after.is_of_a_redrive(),
        });
        let pooled = &mut self.keys.entry(at.key.clone()).or_default().pooled;
        let was_inside = pooled.get(&at.permit).is_some_and(|was| {
            let same = was.token == after.fencing_token.get();
            was.entered && same
        });
        let enters = is.as_ref().is_some_and(|is| is.entered) && !was_inside;
        match is {
            Some(is) => drop(pooled.insert(at.permit, is)),
            None => drop(pooled.remove(&at.permit)),
        }
        if !enters {
            return;
        }
        if !self.is_inside(&at.key, at.permit) {
            self.is_wrong(format!("S15: {} is noted as one in the pool", at.key));
        }
        let request = leasehold::RequestDigest::of_start(&after.granted_to);
        if let Some(who) = self.of(&request)
            && self.starts[who].was_redriven_by(after).is_some()
        {
            self.is_granted_again(who, after, now);
            self.seen.push("redriven, and in the pool again");
            let name = self.starts[who].name().to_owned();
            self.is_full(&name);
        }
    }

    /// Who has the pool now, for what the judge asks of any key.
    fn refresh(&mut self, now: u64) {
        let Some(pool) = self.pool.as_ref().map(|pool| pool.key.clone()) else {
            return;
        };
        let inside = self.entries.inside.iter();
        let inside = inside.filter(|(_, entry)| self.lasts(entry));
        let held = inside.filter_map(|(place, entry)| {
            let held = self.keys.get(&entry.key)?.held.get(&entry.permit)?;
            Some((*place, held.clone()))
        });
        let held = held.collect();
        let waits = self.entries.waiting.iter().any(|entry| self.lasts(entry));
        let (permits, stopped) = (self.permits_of(&pool), self.open_since.is_none());
        let key = self.keys.entry(pool).or_default();
        key.held = held;
        let room = key.limit.unwrap_or(permits).min(permits) > key.held.len();
        let free = room && !waits && !stopped;
        key.free_since = free.then(|| key.free_since.unwrap_or(now));
    }

    /// How many run that need the pool.
    fn in_pool(&self) -> usize {
        let started = self.starts.iter();
        let started =
            started.filter(|record| record.start.pool.is_some() && record.needs_the_key());
        let told = self.waiting.iter();
        let told = told.filter(|waiting| waiting.has.is_some() && waiting.is_pooled);
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

    /// An execution that needs the pool has begun.
    pub fn begins_in_pool(&mut self, who: usize) {
        if self.starts[who].start.pool.is_none() {
            return;
        }
        let name = self.starts[who].name().to_owned();
        if !self.has_permit(who) {
            self.is_wrong(format!("S15: {name} begins, and is not in the pool"));
        }
        self.is_full(&name);
    }

    /// An execution that waits learns of its lease, which may be one with a pool.
    pub fn told_in_pool(&mut self, who: usize) {
        let waiting = &self.waiting[who];
        let (name, key) = (waiting.name.clone(), waiting.key.clone());
        let Some(lease) = waiting.has.clone().filter(|_| waiting.is_pooled) else {
            return;
        };
        let held = self.keys.get(&key).into_iter().flat_map(|key| &key.held);
        let mut its = held.filter(|(_, (_, held))| *held == lease);
        if !its.any(|(permit, _)| self.is_inside(&key, *permit)) {
            self.is_wrong(format!("S15: {name} is told, and is not in the pool"));
        }
        self.is_full(&name);
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
