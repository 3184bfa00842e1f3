//! One who sees every write, every beginning and end of an execution, and every answer, and knows what must not happen.

use std::{collections::BTreeMap, collections::HashMap};

use super::{
    super::shared::SKEW,
    pool::{InTurn, Pooled},
    redriven::Redriven,
    results::Asking,
};
use leasehold::{
    Ended, Error, Holder, IfHeld, Key, LeaseId, Pool, RequestDigest, Start, StartItem, StartStatus,
    Started, Timestamp,
    row::{Entries, Row, State, Stored},
    store::{Address, Settlement},
    transition::Change,
};

/// For so long whoever has written a grant may go on with it.
const CALLS_WITHIN: u64 = 60_000;

/// All that is known of a start.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Record {
    pub start: Start,
    pub request: RequestDigest,
    /// Whether its machine is the one that comes and goes.
    pub fickle: bool,
    /// When it was first asked for.
    asked_at: u64,
    /// Since when a caller knows that it is accepted.
    accepted_at: Option<u64>,
    /// What its item says, if there is one.
    pub status: Option<StartStatus>,
    /// When the item was stored last, and until when the start waits.
    put_at: u64,
    /// How often it was stored.
    pub puts: u64,
    deadline: Timestamp,
    has_failed: bool,
    /// And its task knows, so that it is not listed.
    is_dismissed: bool,
    /// It was granted the key since its item was stored.
    had_turn: bool,
    /// Its place was lost with a row that was deleted by hand.
    displaced: bool,
    /// An operator has set out to dismiss it, or to end its grant.
    pub dismissing: bool,
    pub cancelling: bool,
    run: Option<Run>,
    /// Who waits for its result.
    pub asking: Asking,
}

/// The execution that a start has become.
#[derive(Clone, Copy)]
pub struct Run {
    /// When it ended, whether its history proved that nothing of it is at work, and whether it succeeded.
    pub ended: Option<(u64, bool, bool)>,
    /// It may overlap others: an operator ended its grant, it gave the key back, or it was redriven without its lease.
    pub is_free: bool,
    pub redriven: Redriven,
}

/// An execution that waits with a task token.
pub struct Waiting {
    pub name: String,
    pub key: Key,
    /// What it was told of, while it believes to have it.
    pub has: Option<LeaseId>,
    /// Whether it needs the pool.
    pub is_pooled: bool,
}

#[derive(Default)]
pub struct KeyRecord {
    pub queue: Vec<RequestDigest>,
    /// By the start of whose execution, if it was started.
    pub held: BTreeMap<u16, (RequestDigest, LeaseId)>,
    /// Its grants that need the pool.
    pub pooled: BTreeMap<u16, Pooled>,
    /// How many may be granted it, by its row.
    pub limit: Option<usize>,
    /// Since when anybody could be granted it, if so.
    pub free_since: Option<u64>,
    opens_at: u64,
    /// When its first row was made.
    made_at: u64,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Judge {
    /// How many may run at once for a key.
    pub permits: usize,
    /// What they share.
    pub pool: Option<Pool>,
    /// Who is in it, by its row.
    pub entries: Entries,
    /// In which order the keys are served by the pool.
    pub in_turn: InTurn,
    /// How often somebody waited in the pool although it had room, look after look.
    pub in_vain: u8,
    /// For how long something of an execution may be at work after its end.
    pub grace: u64,
    /// How long after its end the key is not granted by any clock.
    pub margin: u64,
    pub starts: Vec<Record>,
    by_request: HashMap<RequestDigest, usize>,
    pub waiting: Vec<Waiting>,
    pub keys: BTreeMap<Key, KeyRecord>,
    /// Leases that operators have ended.
    pub forced: Vec<LeaseId>,
    /// Since when grants are not stopped.
    pub open_since: Option<u64>,
    /// The machine that comes and goes was gone at some time.
    pub troubled: bool,
    /// No more faults.
    pub calm: bool,
    pub calm_since: u64,
    /// When the function set out that takes a step.
    pub set_out: u64,
    /// Redrives are counted only.
    pub counted: bool,
    pub clocks_differ: bool,
    /// How many that ran beside others were stopped, or counted only, since somebody was asked.
    pub decided: u64,
    /// What went wrong, in order.
    pub wrong: Vec<String>,
    pub seen: Vec<&'static str>,
}

impl Record {
    pub fn name(&self) -> &str {
        self.start.name.as_str()
    }

    pub fn runs(&self) -> bool {
        self.run.is_some_and(|run| run.ended.is_none())
    }

    /// Whether it asks for this key, or for this pool.
    pub fn needs(&self, key: &Key) -> bool {
        self.start.key == *key
            || self
                .start
                .pool
                .as_ref()
                .is_some_and(|pool| pool.key == *key)
    }

    /// It runs, and has to have the key.
    pub fn needs_the_key(&self) -> bool {
        self.run
            .is_some_and(|run| run.ended.is_none() && !run.is_free)
    }

    fn becomes(&mut self, settlement: &Settlement) {
        self.status = match settlement {
            Settlement::Begun { .. } => Some(StartStatus::Begun),
            Settlement::Skipped { .. } => Some(StartStatus::Skipped),
            Settlement::Superseded { by, .. } => Some(StartStatus::Superseded(by.clone())),
            Settlement::Failed(reason) => {
                self.has_failed = true;
                (self.is_dismissed, self.asking.was_refused) = (false, false);
                self.accepted_at = None;
                Some(StartStatus::Failed(reason.clone()))
            }
            Settlement::Dismissed { .. } => {
                self.is_dismissed = true;
                return;
            }
        };
    }

    pub const fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    pub const fn run_mut(&mut self) -> Option<&mut Run> {
        self.run.as_mut()
    }

    pub fn has_run(&self) -> bool {
        self.run.is_some()
    }

    pub fn says(&self) -> &'static str {
        self.status.as_ref().map_or("gone", StartStatus::word)
    }

    pub fn waits(&self) -> bool {
        self.status == Some(StartStatus::Waiting)
    }

    /// It does not wait: if the key is free, it begins.
    fn does_not_wait(&self) -> bool {
        match self.start.if_held {
            IfHeld::Fail | IfHeld::Skip => true,
            IfHeld::Wait(wait) | IfHeld::Latest(wait) | IfHeld::Replace(wait) => {
                wait.as_duration().is_zero()
            }
        }
    }

    const fn sends_others_away(&self) -> bool {
        matches!(self.start.if_held, IfHeld::Latest(_) | IfHeld::Replace(_))
    }
}

impl Judge {
    pub fn new(permits: usize, grace: u64, margin: u64) -> Self {
        Self {
            permits,
            grace,
            margin,
            open_since: Some(0),
            ..Self::default()
        }
    }

    pub fn is_wrong(&mut self, what: String) {
        if !self.wrong.contains(&what) {
            self.wrong.push(what);
        }
    }

    fn key(&mut self, key: &Key) -> &mut KeyRecord {
        if !self.keys.contains_key(key) {
            self.keys.insert(key.clone(), KeyRecord::default());
        }
        self.keys.get_mut(key).expect("just inserted")
    }

    pub fn of(&self, request: &RequestDigest) -> Option<usize> {
        self.by_request.get(request).copied()
    }

    pub fn enters(&mut self, start: Start, (fickle, asking): (bool, Asking), now: u64) {
        let request = RequestDigest::of_start(&start.execution());
        self.by_request.insert(request.clone(), self.starts.len());
        self.starts.push(Record {
            start,
            request,
            fickle,
            asked_at: now,
            accepted_at: None,
            status: None,
            put_at: 0,
            puts: 0,
            deadline: Timestamp::from_millis(0),
            has_failed: false,
            is_dismissed: false,
            had_turn: false,
            displaced: false,
            dismissing: false,
            cancelling: false,
            run: None,
            asking,
        });
    }

    /// A row was changed.
    pub fn row(
        &mut self,
        at: &Address,
        change: &Change,
        before: &Stored,
        after: &Stored,
        now: u64,
    ) {
        let Stored::Row(after) = after else {
            return self.is_wrong(format!("the row of {} is gone", at.key));
        };
        let before = match before {
            Stored::Row(row) => Some(row),
            _ => None,
        };
        if before.is_none() && at.permit == 0 {
            self.key(&at.key).made_at = now;
        }
        self.queue_changed(at, before, after);
        let lease = |row: &Row| row.holding().map(|held| held.lease_id.clone());
        let (had, has) = (before.and_then(lease), lease(after));
        if had != has {
            if let (Some(before), Some(had)) = (before, had) {
                self.key(&at.key).held.remove(&at.permit);
                self.is_lost(change, before, after, &had, now);
            }
            if let Some(has) = has {
                self.is_granted(at, before, after, &has, now);
            }
        }
        let opens_at = after.opens_at.map_or(0, Timestamp::as_millis);
        let permits = self.permits_of(&at.key);
        let stopped = self.open_since.is_none();
        let key = self.key(&at.key);
        key.opens_at = key.opens_at.max(opens_at);
        if at.permit == 0 {
            let open = after.may_be_granted() && after.head().is_none();
            let limit = after.limit.as_ref().map(|limit| limit.permits.into());
            key.limit = if after.frozen.is_some() {
                Some(0)
            } else {
                limit
            };
            let room = limit.unwrap_or(permits).min(permits) > key.held.len();
            let free = open && room && !stopped;
            key.free_since = free.then(|| key.free_since.unwrap_or(now));
        } else {
            // Only the first row says the rest.
            key.free_since = None;
        }
        self.pool_changed(at, before, after, now);
    }

    fn queue_changed(&mut self, at: &Address, before: Option<&Row>, after: &Row) {
        if at.permit > 0 {
            return;
        }
        let before = before.map(Row::waiting).unwrap_or_default();
        let after = after.waiting();
        self.key(&at.key).queue = after.to_vec();
        let joined = after.split_last().is_some_and(|(_, rest)| rest == before);
        let left = (0..before.len()).any(|gone| {
            let rest = before.iter().enumerate().filter(|(n, _)| *n != gone);
            rest.map(|(_, request)| request).eq(after)
        });
        if before != after && !joined && !left {
            self.is_wrong(format!("the queue of {} is in another order", at.key));
        }
    }

    /// A grant has ended, or was passed on.
    fn is_lost(&mut self, change: &Change, before: &Row, after: &Row, had: &LeaseId, now: u64) {
        let by_force = matches!(change, Change::ReplaceIfUnchanged(_))
            && (before.operator != after.operator || is_forced(after));
        if by_force {
            self.forced.push(had.clone());
        } else if after.holding().is_some() {
            self.seen.push("ended and granted to the next");
        }
        for waiting in &mut self.waiting {
            if waiting.has.as_ref() == Some(had) {
                waiting.has = None;
                if !by_force {
                    let name = waiting.name.clone();
                    return self.is_wrong(format!("S8: {name} believes in its lease, which ended"));
                }
            }
        }
        let Some(who) = self.of(&RequestDigest::of_start(&before.granted_to)) else {
            return;
        };
        // Overlapping copies of one request may take two permits.
        if self.has_key(who) {
            return;
        }
        let (grace, record) = (self.grace, &mut self.starts[who]);
        let Some(run) = &mut record.run else {
            return;
        };
        if run.ended.is_none() {
            run.redriven.lost(by_force, (self.set_out, now));
        }
        if by_force {
            run.is_free = true;
        }
        if run.is_free {
            return;
        }
        let (name, keep) = (record.name().to_owned(), record.start.keep.as_millis());
        match record.run.and_then(|run| run.ended) {
            None => {
                if let Some(run) = &mut record.run {
                    run.is_free = true;
                }
                self.is_wrong(format!("S8: {name} runs, and its lease was ended"));
            }
            Some((at, proven, _)) if !proven && now + SKEW < at + grace => {
                self.is_wrong(format!(
                    "S8: a task of {name} may be at work, and its lease was ended"
                ));
            }
            Some((at, _, false)) if keep > 0 && now + SKEW < at + keep => {
                self.is_wrong(format!("the lease of {name} was not kept for a redrive"));
            }
            Some(_) => {}
        }
    }

    fn is_granted(
        &mut self,
        at: &Address,
        before: Option<&Row>,
        after: &Row,
        lease: &LeaseId,
        now: u64,
    ) {
        let request = RequestDigest::of_start(&after.granted_to);
        let record = self.of(&request);
        let permits = self.permits_of(&at.key);
        let key = self.key(&at.key);
        key.held.insert(at.permit, (request, lease.clone()));
        let too_many = key.held.len() > permits;
        if too_many {
            self.is_wrong(format!("S8: too many have {}", at.key));
        }
        if let Some(before) = before {
            if before.frozen.is_some() {
                self.is_wrong(format!("{} was granted while it was frozen", at.key));
            }
            if before
                .opens_at
                .is_some_and(|at| now + SKEW < at.as_millis())
            {
                self.is_wrong(format!("{} was granted again too soon", at.key));
            }
        }
        let Some(who) = record else {
            return;
        };
        if self.starts[who].request != after.request {
            // With a pool it has nothing again before it is inside.
            let pool = after.holding().and_then(|held| held.pool.as_ref());
            if pool.is_none_or(|pool| pool.entered) {
                self.is_granted_again(who, after, now);
            }
            return;
        }
        self.starts[who].had_turn = true;
        let asked_at = self.starts[who].asked_at;
        let overtaken = self.starts.iter().find(|other| {
            other.start.key == at.key
                && other
                    .accepted_at
                    .is_some_and(|accepted| accepted < asked_at)
                && other.waits()
                && !other.had_turn
                && !other.displaced
        });
        if let Some(other) = overtaken {
            let (name, other) = (self.starts[who].name(), other.name());
            self.is_wrong(format!("order: {name} has overtaken {other}"));
        }
    }

    /// An item was stored, or a failed one is to be repeated.
    pub fn put(&mut self, item: &StartItem, now: u64) {
        let Some(who) = self.of(&item.digest()) else {
            return;
        };
        let has_key = self.has_key(who);
        let record = &mut self.starts[who];
        if record.has_failed || record.displaced {
            // It takes its place anew.
            record.accepted_at = None;
            record.asked_at = now;
        }
        record.status = Some(item.status.clone());
        record.put_at = now;
        record.puts += 1;
        record.deadline = item.deadline;
        // It may have been granted the key by the same write.
        record.had_turn = has_key;
        record.displaced = false;
        self.is_whole(who, item);
    }

    /// The item has the request as it was asked for.
    fn is_whole(&mut self, who: usize, item: &StartItem) {
        let start = &self.starts[who].start;
        let same = item.input == start.input
            && item.state_machine == start.state_machine
            && item.name == start.name
            && item.pass_lease == start.pass_lease
            && item.request.keep() == start.keep
            && item.request.permits == start.permits
            && item.request.pool == start.pool
            && item.request.at_least == start.at_least
            && item.request.metadata == start.metadata;
        if !same {
            let name = start.name.clone();
            self.is_wrong(format!("the request of {name} has changed"));
        }
    }

    /// A start was settled.
    pub fn settled(&mut self, item: &StartItem, settlement: &Settlement, now: u64) {
        let Some(who) = self.of(&item.digest()) else {
            return;
        };
        let has_key = self.has_key(who);
        let mut free_since = self.free_since(&item.key);
        if let Some(pool) = &item.request.pool {
            let in_pool = self.free_since(&pool.key);
            free_since = free_since.zip(in_pool).map(|(key, pool)| key.max(pool));
        }
        let record = &self.starts[who];
        let name = record.name().to_owned();
        let word = match settlement {
            Settlement::Begun { .. } => "begun",
            Settlement::Skipped { .. } => "skipped",
            Settlement::Superseded { .. } => "superseded",
            Settlement::Failed(_) => "failed",
            Settlement::Dismissed { .. } => "dismissed",
        };
        let mut wrong = Vec::new();
        if word == "begun" {
            if record.run.is_none() {
                wrong.push(format!("{name} is written down as begun, and never was"));
            }
        } else {
            // What nobody may ask about ends after the grace, as what the service does not know.
            let was_unasked = word == "failed" && record.fickle && self.troubled;
            if record.run.is_some() && !was_unasked {
                wrong.push(format!("{name} has run, and is {word}"));
            }
            if has_key && word != "dismissed" {
                wrong.push(format!("{name} has the key, and is {word} alone"));
            }
        }
        let accepted = record.accepted_at.is_some();
        match settlement {
            Settlement::Begun { .. } => {}
            Settlement::Skipped { .. } => {
                let asked_for = record.start.if_held == IfHeld::Skip && !accepted;
                if !asked_for && !record.dismissing {
                    wrong.push(format!("{name} was accepted, and is skipped"));
                }
            }
            Settlement::Superseded { by, .. } => {
                if !self.may_send_others_away(by) {
                    wrong.push(format!("{name} was superseded by {by}"));
                }
            }
            Settlement::Failed(reason) => {
                let over = now + SKEW >= record.deadline.as_millis();
                let refused = record.fickle && self.troubled
                    || record.cancelling
                    || reason.contains("an operator ended it");
                // A repetition that is refused has failed again.
                if !(over || refused || record.has_failed || record.puts > 1) {
                    wrong.push(format!("{name} has failed without a cause"));
                }
                let put_at = record.put_at;
                let free = free_since.is_some_and(|since| since <= put_at);
                // One that stood still between its grant and its pool is found by the next sweep, when its time is over.
                let granted_at = item.asked_at.as_millis();
                let stood_still =
                    record.start.pool.is_some() && now + SKEW > granted_at + CALLS_WITHIN;
                if free && !refused && !stood_still && record.does_not_wait() {
                    wrong.push(format!("{name} has failed on a free key"));
                }
            }
            Settlement::Dismissed { .. } => {
                if !record.asking.was_refused && !record.dismissing {
                    wrong.push(format!(
                        "lost: {name} has failed, its task does not know, and nobody dismissed it"
                    ));
                }
            }
        }
        self.starts[who].becomes(settlement);
        for problem in wrong {
            self.is_wrong(problem);
        }
    }

    fn may_send_others_away(&self, by: &Holder) -> bool {
        let by = self.of(&RequestDigest::of_start(by));
        by.is_some_and(|by| self.starts[by].sends_others_away())
    }

    pub fn has_key(&self, who: usize) -> bool {
        let record = &self.starts[who];
        let held = self.keys.get(&record.start.key).map(|key| &key.held);
        held.is_some_and(|held| held.values().any(|(request, _)| *request == record.request))
    }

    /// Since when anybody could have been granted the key, if so.
    pub fn free_since(&self, key: &Key) -> Option<u64> {
        let open_since = self.open_since?;
        let Some(key) = self.keys.get(key) else {
            return Some(open_since);
        };
        let opened = if key.opens_at > 0 {
            key.opens_at + self.margin + SKEW
        } else {
            0
        };
        Some(key.free_since?.max(opened).max(open_since))
    }

    /// Grants are stopped, or are not any more.
    pub fn stop(&mut self, stopped: bool, now: u64) {
        self.open_since = (!stopped).then_some(now);
    }

    /// An execution has begun.
    pub fn begins(&mut self, execution: &Holder) {
        let Some(who) = self.of(&RequestDigest::of_start(execution)) else {
            return;
        };
        let has_key = self.has_key(who);
        let permits = self.permits;
        let record = &mut self.starts[who];
        record.run = Some(Run {
            ended: None,
            is_free: false,
            redriven: Redriven::default(),
        });
        let (name, says) = (record.name().to_owned(), record.says());
        let key = record.start.key.clone();
        let may_begin = matches!(
            record.status,
            Some(StartStatus::Waiting | StartStatus::Begun)
        );
        if !may_begin {
            self.is_wrong(format!("{name} begins, and its item is {says}"));
        }
        let starts = self.starts.iter();
        let running = starts.filter(|record| record.start.key == key && record.needs_the_key());
        let holding = self.waiting.iter();
        let holding = holding.filter(|waiting| waiting.key == key && waiting.has.is_some());
        if running.count() + holding.count() > permits {
            self.is_wrong(format!("S8: {name} begins while others run"));
        }
        if !has_key {
            self.is_wrong(format!("S8: {name} begins without the key"));
        }
        self.begins_in_pool(who);
    }

    pub fn ends(&mut self, execution: &Holder, proven: bool, success: bool, now: u64) {
        if let Some(who) = self.of(&RequestDigest::of_start(execution))
            && let Some(run) = &mut self.starts[who].run
        {
            run.ended = Some((now, proven, success));
            run.redriven.is_over(now);
            let asking = &mut self.starts[who].asking;
            asking.has_failed |= !success;
            asking.must_stop = None;
        }
    }

    /// It gives the key back while it runs.
    pub fn gives_back(&mut self, who: usize) {
        if let Some(run) = &mut self.starts[who].run {
            run.is_free = true;
            run.redriven.gives_back();
        }
    }

    /// An execution that waits learns of its lease.
    pub fn told(&mut self, who: usize, lease: &LeaseId) {
        let waiting = &mut self.waiting[who];
        waiting.has = Some(lease.clone());
        let (name, key) = (waiting.name.clone(), waiting.key.clone());
        let held = self.keys.get(&key).map(|key| &key.held);
        if self.forced.contains(lease) {
            self.waiting[who].has = None;
        } else if !held.is_some_and(|held| held.values().any(|(_, held)| held == lease)) {
            self.is_wrong(format!("S8: {name} is told of a lease that has ended"));
        }
        self.told_in_pool(who);
    }

    /// A row was deleted, which nobody held.
    pub fn deleted(&mut self, key: &Key, permit: u16) {
        if permit > 0 {
            return;
        }
        if self.is_pool(key) {
            self.entries = Entries::default();
        }
        let lost = std::mem::take(&mut self.key(key).queue);
        for record in &mut self.starts {
            record.displaced |= lost.contains(&record.request);
        }
    }

    pub fn is_running(&self, who: usize) -> bool {
        self.starts[who].runs()
    }

    /// When it ended, and whether it may be redriven.
    pub fn ended(&self, who: usize) -> Option<(u64, bool)> {
        let (at, _, success) = self.starts[who].run?.ended?;
        Some((at, !success))
    }

    /// Whether its item says what became of it.
    pub fn is_settled(&self, who: usize) -> bool {
        let status = &self.starts[who].status;
        status
            .as_ref()
            .is_some_and(|status| *status != StartStatus::Waiting)
    }

    pub fn has_failed(&self, who: usize) -> bool {
        matches!(self.starts[who].status, Some(StartStatus::Failed(_)))
    }

    /// Whether a request waits in the queue of a key.
    pub fn has_place(&self, key: &Key, request: &RequestDigest) -> bool {
        let key = self.keys.get(key);
        key.is_some_and(|key| key.queue.contains(request))
    }

    /// A call for a start was answered; it may have had its place all the time.
    pub fn answered(
        &mut self,
        who: usize,
        answer: &Result<Started, Error>,
        (had_place, is_stale): (bool, bool),
        now: u64,
    ) {
        let record = &mut self.starts[who];
        let name = record.name().to_owned();
        let says = record.says();
        let wrong = match answer {
            Ok(Started::Started { .. }) => {
                record.accepted_at.get_or_insert(now);
                record
                    .run
                    .is_none()
                    .then(|| format!("lost: {name} is answered started, and has not begun"))
            }
            Ok(Started::Queued { .. }) => match record.status {
                // The call was suspended, and what it was told of is gone.
                _ if is_stale => None,
                None => Some(format!("lost: {name} is answered queued, and has no item")),
                Some(StartStatus::Waiting | StartStatus::Begun) => {
                    record.accepted_at.get_or_insert(now);
                    None
                }
                Some(_) => None,
            },
            // Dismissed at the moment at which it was granted a permit: it has begun all the same.
            Ok(Started::Skipped { .. }) if record.dismissing => None,
            Ok(Started::Skipped { .. }) => (says != "skipped")
                .then(|| format!("{name} is answered skipped, and its item is {says}")),
            Ok(Started::Superseded { .. }) => (says != "superseded")
                .then(|| format!("{name} is answered superseded, and its item is {says}")),
            Err(Error::Frozen { .. } | Error::QueueFull { .. } | Error::Held(_)) if had_place => {
                Some(format!(
                    "{name} has its place, and is refused: {}",
                    error_of(answer)
                ))
            }
            Err(
                Error::NotStarted { .. }
                | Error::Frozen { .. }
                | Error::QueueFull { .. }
                | Error::Held(_),
            ) => None,
            // Whether one that has lost its place has begun, the service shows later.
            Err(Error::Unavailable { .. }) if record.displaced => None,
            // By clocks that differ its token is older than that of a call before.
            Err(Error::Unavailable { .. }) if record.asking.wants && self.clocks_differ => None,
            Err(Error::Unavailable { .. } | Error::Throttled { .. }) if !self.calm => None,
            // What has the key has not begun, and could not be stopped.
            Err(Error::Unavailable { .. })
                if matches!(record.start.if_held, IfHeld::Replace(_)) =>
            {
                None
            }
            // A repetition of what was dismissed meanwhile.
            Err(Error::Invalid { .. }) if record.dismissing || record.status.is_none() => None,
            Err(Error::Invalid { .. } | Error::Denied { .. }) if record.fickle && self.troubled => {
                None
            }
            Err(_) => Some(format!("{name} is answered: {}", error_of(answer))),
        };
        if let Some(problem) = wrong {
            self.is_wrong(problem);
        }
    }

    /// Everything has come to rest: what is left, and what became of all starts.
    pub fn at_the_end(&mut self) {
        for who in 0..self.starts.len() {
            let record = &self.starts[who];
            let (name, says) = (record.name().to_owned(), record.says());
            if record.waits() {
                self.is_wrong(format!("stuck: {name} still waits"));
            } else if record.status.is_none() && record.accepted_at.is_some() {
                self.is_wrong(format!("lost: {name} was accepted, and is gone"));
            } else if record.status == Some(StartStatus::Begun) && record.run.is_none() {
                self.is_wrong(format!("lost: {name} is {says}, and never ran"));
            }
        }
        let mut wrong = Vec::new();
        for (name, key) in &self.keys {
            let of = |request| {
                let who = self.of(request);
                who.map_or("an execution", |who| self.starts[who].name())
            };
            for (request, _) in key.held.values() {
                wrong.push(format!("stuck: {name} is held by {}", of(request)));
            }
            for request in &key.queue {
                wrong.push(format!("stuck: {} has a place in {name}", of(request)));
            }
        }
        for problem in wrong {
            self.is_wrong(problem);
        }
    }

    /// A start that has failed is there, with its request.
    pub fn is_kept(&mut self, item: &StartItem) {
        if let Some(who) = self.of(&item.digest()) {
            self.is_whole(who, item);
        }
    }

    /// These are listed as failed: all that have failed and of which no task knows, and no others.
    pub fn are_kept(&mut self, listed: &[StartItem]) {
        let listed: Vec<_> = listed.iter().map(StartItem::digest).collect();
        let mut wrong = Vec::new();
        for record in &self.starts {
            let failed = matches!(record.status, Some(StartStatus::Failed(_)));
            let is_listed = listed.contains(&RequestDigest::of_start(&record.start.execution()));
            if is_listed != (failed && !record.is_dismissed) {
                let name = record.name();
                wrong.push(format!(
                    "lost: {name}: {}, listed: {is_listed}",
                    record.says()
                ));
            }
        }
        for problem in wrong {
            self.is_wrong(problem);
        }
    }

    /// Whether nobody waits or has anything.
    pub fn rests(&self) -> bool {
        let mut keys = self.keys.values();
        keys.all(|key| key.held.is_empty() && key.queue.is_empty())
            && !self
                .starts
                .iter()
                .any(|record| record.waits() || record.runs())
    }
}

/// Whether an operator ended its last grant.
fn is_forced(row: &Row) -> bool {
    matches!(
        row.state,
        State::Free {
            ended: Ended::Forced,
            ..
        }
    )
}

fn error_of(answer: &Result<Started, Error>) -> &'static str {
    answer.as_ref().err().map_or("", Error::name)
}
