//! One who sees every write of every row, and knows what must not happen.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::address_of;
use super::{
    shared::kind_of,
    world::{LIFE, STALE},
};
use leasehold::{
    Ended, Lease, LeaseId, RequestDigest, Timestamp,
    row::{Row, State, Stored, Term},
    store::Address,
    transition::Change,
    transition::Head,
    waiter::TokenItem,
};

/// How far any clock is from the true time, at most.
pub const SKEW: u64 = 1000;

#[derive(Default)]
pub struct Oracle {
    now: u64,
    queues: BTreeMap<Address, KeyQueue>,
    pub names: HashMap<RequestDigest, String>,
    /// Requests whose workflows are over.
    pub ended: HashSet<RequestDigest>,
    /// Requests that were sent away, or whose workflows were redriven, and when: who looked before may
    /// still act on it.
    returning: HashMap<RequestDigest, u64>,
    /// Requests that were passed over, or whose place in the queue was lost with its row.
    displaced: HashSet<RequestDigest>,
    /// Requests whose lease has ended.
    spent: HashSet<RequestDigest>,
    /// What has been seen, for the record.
    pub seen: Vec<&'static str>,
    /// Leases that an answer has shown to somebody.
    heard: HashSet<LeaseId>,
    /// Leases that are over.
    over: HashSet<LeaseId>,
    /// Leases that were taken from their holders, who may go on for a while.
    evicted: HashSet<LeaseId>,
    /// Functions at work on what is leased.
    workers: Vec<Worker>,
    /// From when on every token that is given out is above which floor.
    floor: Option<(u64, u64)>,
    /// The first thing that went wrong.
    pub wrong: Option<String>,
}

/// A function that works on what is leased.
pub struct Worker {
    pub who: usize,
    pub name: String,
    pub beliefs: Vec<Belief>,
}

/// A lease that it was given, and until when it works, by the true time, going by its own clock.
pub struct Belief {
    pub lease: Lease,
    pub until: u64,
}

impl Worker {
    fn is_at_work(&self, now: u64) -> bool {
        self.beliefs.iter().any(|belief| belief.until > now)
    }
}

#[derive(Default)]
struct KeyQueue {
    /// The waiters, and until when they wait.
    waiting: Vec<(RequestDigest, Timestamp)>,
    /// When somebody waited last, if nobody does.
    awaited: u64,
    /// Every token that was granted, and to whom.
    tokens: BTreeMap<u64, RequestDigest>,
    last: u64,
}

type Check = Result<(), String>;

impl Oracle {
    pub fn heard(&mut self, lease_id: LeaseId) {
        self.heard.insert(lease_id);
    }

    /// Whether nobody may go on with it any more: by some clock it has expired, and somebody is in
    /// queue, or was a moment ago.
    pub fn is_over(&self, lease: &Lease, expires_at: Timestamp, now: u64) -> bool {
        let awaited = |queue: &KeyQueue| !queue.waiting.is_empty() || queue.awaited + LIFE >= now;
        let queue = self.queues.get(&address_of(lease));
        let expired = expires_at.as_millis() <= now + SKEW;
        let void = |(_, floor)| lease.fencing_token.get() <= floor;
        self.over.contains(&lease.lease_id)
            || expired && queue.is_some_and(awaited)
            || self.floor.is_some_and(void)
    }

    pub fn was_spent(&self, request: &RequestDigest) -> bool {
        self.spent.contains(request)
    }

    pub fn was_displaced(&self, request: &RequestDigest) -> bool {
        self.displaced.contains(request)
    }

    /// From then on, every token that is given out is above `floor`.
    pub fn floor(&mut self, from: u64, floor: u64) {
        self.floor = Some((from, floor));
    }

    /// A function starts to work: then no other is to work on the same.
    pub fn starts(&mut self, worker: Worker, now: u64) -> Check {
        self.workers.retain(|worker| worker.is_at_work(now));
        for Belief { lease, .. } in &worker.beliefs {
            let of_old = |belief: &Belief| {
                let theirs = &belief.lease;
                let same = theirs.key == lease.key && theirs.permit == lease.permit;
                let evicted = [theirs, lease].map(|l| self.evicted.contains(&l.lease_id));
                same && belief.until > now && evicted == [false; 2]
            };
            let rival = |w: &&Worker| w.who != worker.who && w.beliefs.iter().any(of_old);
            if let Some(rival) = self.workers.iter().find(rival) {
                return Err(format!(
                    "{} and {} work on one lease",
                    rival.name, worker.name
                ));
            }
        }
        self.workers.push(worker);
        Ok(())
    }

    /// Whether a function of this workflow is at work.
    pub fn is_at_work(&self, who: usize, now: u64) -> bool {
        let at_work = |worker: &Worker| worker.who == who && worker.is_at_work(now);
        self.workers.iter().any(at_work)
    }

    /// The functions of this workflow have done their work.
    pub fn stop(&mut self, who: usize) {
        self.workers.retain(|worker| worker.who != who);
    }

    /// Everybody has stopped, and the table is what it was before.
    pub fn restored(&mut self, rows: Vec<(Address, Row, Vec<TokenItem>)>) {
        self.workers.clear();
        self.heard.clear();
        self.displaced.extend(self.names.keys().cloned());
        for queue in self.queues.values_mut() {
            queue.waiting.clear();
        }
        for (address, row, waiters) in rows {
            let held = row.holding().map(|held| &held.lease_id);
            self.over.retain(|over| Some(over) != held);
            let waiters = waiters.into_iter();
            let places = waiters.map(|waiter| (waiter.request.digest, waiter.deadline));
            self.queue(&address).waiting = places.collect();
        }
    }

    pub fn redriven(&mut self, request: &RequestDigest, now: u64) {
        self.ended.remove(request);
        self.returning.insert(request.clone(), now);
    }

    /// Whether it is over, or was for one who looked a while ago. A place in the queue is given up by its
    /// name, so that one who has come back to the very place may lose it again.
    fn may_seem_over(&self, request: &RequestDigest) -> bool {
        let at = self.returning.get(request);
        self.ended.contains(request) || at.is_some_and(|at| at + LIFE + STALE >= self.now)
    }

    fn name(&self, request: &RequestDigest) -> &str {
        self.names.get(request).map_or("nobody", String::as_str)
    }

    /// Somebody deleted the row by hand, and the queue with it.
    pub fn deleted(&mut self, address: &Address, row: &Row) {
        let queue = self.queues.entry(address.clone()).or_default();
        let waiting = queue.waiting.drain(..).map(|(request, _)| request);
        self.displaced.extend(waiting);
        let held = row.holding().map(|held| held.lease_id.clone());
        self.over.extend(held.clone());
        self.evicted.extend(held);
        self.displaced.insert(row.request.clone());
    }

    /// A write that took effect.
    pub fn saw(
        &mut self,
        at: &Address,
        change: &Change,
        waiter: Option<&TokenItem>,
        before: &Stored,
        after: &Stored,
        now: u64,
    ) -> Check {
        self.now = now;
        let Stored::Row(after) = after else {
            return Err("a row is gone".into());
        };
        let before = match before {
            Stored::Row(row) => Some(row),
            _ => None,
        };
        match (change, waiter) {
            (Change::Join(_), Some(waiter)) => {
                if !before.is_some_and(|row| row.holding().is_some() || row.head().is_some()) {
                    return Err("waits for a key that nobody has".into());
                }
                let place = (waiter.request.digest.clone(), waiter.deadline);
                self.displaced.remove(&waiter.request.digest);
                self.queue(at).waiting.push(place);
            }
            (Change::Leave(leave), _) => self.left(at, &leave.request)?,
            (Change::ReplaceIfUnchanged(swap), _) if after.holding().is_none() => {
                match &swap.head {
                    Head::Leaves(head) => self.left(at, head)?,
                    Head::Any | Head::Nobody => self.granted(at, change, before, after)?,
                }
            }
            _ => {
                self.granted(at, change, before, after)?;
            }
        }
        self.line_is(at, after)
    }

    fn queue(&mut self, at: &Address) -> &mut KeyQueue {
        self.queues.entry(at.clone()).or_default()
    }

    fn line_is(&mut self, at: &Address, row: &Row) -> Check {
        let queue = self.queue(at);
        let should = queue.waiting.iter().map(|(request, _)| request);
        if should.eq(row.waiting()) {
            Ok(())
        } else {
            Err("the queue is not what it should be".into())
        }
    }

    fn left(&mut self, at: &Address, request: &RequestDigest) -> Check {
        let now = self.now;
        let queue = self.queue(at);
        let place = queue.waiting.iter().position(|(r, _)| r == request);
        let Some(place) = place else {
            return Err("somebody left who was not there".into());
        };
        let (request, deadline) = queue.waiting.remove(place);
        queue.awaited = now;
        if self.may_seem_over(&request) || deadline <= self.latest() {
            self.returning.insert(request.clone(), now);
            self.displaced.insert(request);
            Ok(())
        } else {
            Err(format!("{} had to leave in time", self.name(&request)))
        }
    }

    /// What a change does to a grant.
    fn granted(
        &mut self,
        at: &Address,
        change: &Change,
        before: Option<&Row>,
        after: &Row,
    ) -> Check {
        let was = before.filter(|row| row.holding().is_some());
        let is = after.holding();
        let lease = |row: &Row| row.holding().map(|held| held.lease_id.clone());
        if was.and_then(lease) == lease(after) {
            if let Change::ReplaceIfUnchanged(swap) = change
                && let Some(told) = is.and_then(|held| held.notification)
                && swap.head == Head::Any
            {
                let noted = told.refused_at.is_some();
                self.seen.push(if noted {
                    "a refusal noted"
                } else {
                    "told again"
                });
            }
            return Ok(());
        }
        if let Some(was) = was {
            self.ends(change, was, after)?;
            if let Change::ReplaceIfUnchanged(_) = change
                && was.operator != after.operator
            {
                self.evicted.extend(lease(was));
                self.spend(at, after.fencing_token.get(), &after.request)?;
            }
        }
        if is.is_none() {
            return Ok(());
        }
        let token = after.fencing_token.get();
        self.rises(at, token)?;
        let now = self.now;
        let queue = self.queue(at);
        let first = queue.waiting.first().map(|(request, _)| request);
        match change {
            Change::ReplaceIfUnchanged(_) if first == Some(&after.request) => {
                queue.waiting.remove(0);
                queue.awaited = now;
                self.seen.push("granted from the queue");
            }
            Change::ReplaceIfUnchanged(swap) if swap.head != Head::Nobody => {
                return Err("granted to one who is not first".into());
            }
            _ if first.is_some() || before.is_some_and(|row| row.head().is_some()) => {
                return Err("barged in".into());
            }
            _ => {}
        }
        self.gives(at, token, &after.request)
    }

    /// Nobody loses a lease before its time, nor while a function works on it, but by an operator.
    fn ends(&mut self, change: &Change, row: &Row, after: &Row) -> Check {
        let Some(was) = row.holding() else {
            return Ok(());
        };
        self.over.insert(was.lease_id.clone());
        let lasts = matches!(was.term, Term::Execution { .. });
        let by_time = match change {
            Change::ReplaceIfUnchanged(_) if row.operator != after.operator => {
                self.spent.insert(row.request.clone());
                return Ok(());
            }
            // Asked for by one that may wait, or granted to the next as its time had passed.
            Change::ReplaceIfUnchanged(swap) if swap.row.holding().is_some() && !lasts => {
                let previous = after.previous.as_ref();
                previous.is_none_or(|previous| previous.ended == Ended::Expired)
            }
            Change::ReplaceIfUnchanged(swap) if swap.row.holding().is_some() => {
                self.seen.push("ended and granted to the next");
                self.seems_over(row)?;
                false
            }
            Change::ReplaceIfUnchanged(_) => {
                self.seen.push("taken back");
                self.displaced.insert(row.request.clone());
                if self.heard.contains(&was.lease_id) && !self.may_seem_over(&row.request) {
                    let name = self.name(&row.request);
                    return Err(format!("{name} was told, and its lease taken back"));
                }
                false
            }
            Change::EndIfUnchanged(_) if lasts => {
                self.seems_over(row)?;
                false
            }
            Change::EndIfUnchanged(end) => end.ended == Ended::Expired,
            Change::Grant(_) => true,
            Change::Release(_) => false,
            _ => return Err(format!("a grant is gone after {}", kind_of(change))),
        };
        if by_time && was.expires_at() > self.latest() {
            return Err("a grant was ended before its time".into());
        }
        let beliefs =
            |belief: &Belief| belief.lease.lease_id == was.lease_id && belief.until > self.now;
        let works = |worker: &&Worker| worker.beliefs.iter().any(beliefs);
        match self.workers.iter().find(works) {
            Some(Worker { name, .. }) => Err(format!(
                "{name} works on what {} has ended",
                kind_of(change)
            )),
            None => Ok(()),
        }
    }

    /// The lease of an execution ends, which may seem over.
    fn seems_over(&mut self, row: &Row) -> Check {
        self.spent.insert(row.request.clone());
        if self.may_seem_over(&row.request) {
            return Ok(());
        }
        let name = self.name(&row.request);
        Err(format!("{name} runs, and its lease has ended"))
    }

    /// A token is granted.
    fn gives(&mut self, at: &Address, token: u64, to: &RequestDigest) -> Check {
        self.is_above_the_floor(token)?;
        self.spend(at, token, to)
    }

    fn is_above_the_floor(&self, token: u64) -> Check {
        match self.floor {
            Some((from, floor)) if from <= self.now && token <= floor => {
                Err(format!("token {token} is not above the floor {floor}"))
            }
            _ => Ok(()),
        }
    }

    fn spend(&mut self, at: &Address, token: u64, on: &RequestDigest) -> Check {
        match self.queue(at).tokens.insert(token, on.clone()) {
            None => Ok(()),
            Some(_) => Err(format!("token {token} is given out twice")),
        }
    }

    fn rises(&mut self, at: &Address, token: u64) -> Check {
        let last = std::mem::replace(&mut self.queue(at).last, token);
        if token > last {
            Ok(())
        } else {
            Err(format!("token {token} comes after {last}"))
        }
    }

    /// What the clock that is most ahead shows.
    fn latest(&self) -> Timestamp {
        Timestamp::from_millis(self.now + SKEW)
    }

    /// A row in a few words.
    pub fn row(&self, stored: &Stored) -> String {
        let Stored::Row(row) = stored else {
            return "no row".into();
        };
        let state = match &row.state {
            State::Held(_) => format!("held by {}", self.name(&row.request)),
            State::Free { .. } => "free".to_owned(),
        };
        let queue: Vec<_> = row.waiting().iter().map(|r| self.name(r)).collect();
        let frozen = if row.frozen.is_some() { ", frozen" } else { "" };
        let token = row.fencing_token.get() % 1_000_000;
        format!("{token} {state}{frozen}, queue {queue:?}")
    }
}
