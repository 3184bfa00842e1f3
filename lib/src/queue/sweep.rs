//! Sweep: frees the leases of crashed holders, and of executions that are over. Sweep provides liveness, not safety.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    executions::listing_machine,
    leases::{Rows, own_row, pool_of},
    outcomes::{Ended, is_zero},
    pagination::Cursor,
    queue::{
        Queue,
        engine::{Execution, Question},
        execution_check::Looked,
        maintenance::{DueWaiter, Waiting},
        pool::RowsInPools,
        stay::{Agenda, Later},
    },
    retry::{AT_ONCE, some_at_a_time},
    row::{Row, Stored, Term},
    start::StateMachineArn,
    store::{Address, Entry, ItemAddress, Operations, Store},
    values::{Holder, Key, RequestDigest},
};

/// How far one sweep goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepBounds {
    /// Everything, or until the invocation's time is nearly over. A sweep continues where the last one stopped, or
    /// else starts in a part that the clock's milliseconds select, so that no part is always last.
    Schedule,
    /// At most so many held leases, from the cursor of an earlier response.
    Call {
        /// How many to examine.
        limit: u32,
        /// Where to continue; from the start if not given.
        cursor: Option<Cursor>,
    },
    /// One key, of which somebody knows that it is free or over: its leases, and who is the next to get it.
    Key(Key),
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = with_outcome_swept))]
#[serde(tag = "outcome", rename = "swept")]
pub struct Swept {
    /// Held leases and waiting requests that were examined; 1 of a sweep of one key.
    pub examined: u64,
    /// Leases that had expired and are free now.
    pub freed: u64,
    /// Waiters that were notified of their grant.
    pub granted: u64,
    /// Executions that Step Functions was asked about.
    pub looked: u64,
    /// Leases that ended because their execution has ended.
    pub ended: u64,
    /// Items that this library did not write, and did not change.
    pub skipped_corrupt: u64,
    /// Keys that were skipped, because the table throttled them or did not respond, and leases whose executions were not asked about,
    /// because Step Functions throttled that. The next sweep tries them again.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// Where to continue, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// Adds the tag of a struct, which the derived schema leaves out.
#[cfg(feature = "schema")]
fn with_outcome_swept(schema: &mut schemars::Schema) {
    let tag = serde_json::json!({"const": "swept", "type": "string"});
    let object = schema.ensure_object();
    if let Some(serde_json::Value::Object(fields)) = object.get_mut("properties") {
        fields.insert("outcome".to_owned(), tag);
    }
    if let Some(serde_json::Value::Array(required)) = object.get_mut("required") {
        required.insert(0, "outcome".into());
    }
}

impl ReadRows {
    fn wait_in_pool(&mut self, address: &Address, row: &Row) {
        let Some(pool) = pool_of(row).filter(|_| row.waits_in_pool() && !row.is_refused()) else {
            return;
        };
        let rows = self.pools.entry(pool).or_default();
        if rows.iter().all(|(known, _)| known != address) {
            rows.push((address.clone(), row.clone()));
        }
    }
}

/// Keys on one page of the index.
const PAGE: u32 = 250;

/// Of milliseconds: sweeps take turns by it, in whichever process they run.
const MINUTE: u64 = 60_000;

/// The result for one row, or for the waiters of one key.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    freed: u64,
    granted: u64,
    looked: u64,
    ended: u64,
    corrupt: u64,
    failed: u64,
    /// Rows that others have changed since they were read.
    changed: u64,
    /// There was no time for it.
    left: bool,
}

/// What sweep did with a row, or the row, if its execution has to be asked about first, or it waits in its pool; or all rows of a key for which
/// somebody waits, if nothing was due for any of them.
enum Read {
    Nothing,
    Seen(Seen),
    Rested(Key, Rows),
    Due(Address, Box<Row>),
    InPool(Address, Box<Row>),
}

/// The pools in which somebody waits, with those rows.
type Pools = BTreeMap<Key, Vec<(Address, Row)>>;

/// What came of reading some rows.
#[derive(Default)]
struct ReadRows {
    seen: Vec<Result<Seen, Error>>,
    due: BTreeMap<Holder, Due>,
    pools: Pools,
    /// The rows of keys, as they still are as far as this sweep knows.
    rested: BTreeMap<Key, Rows>,
}

/// What sweep reads: a row, or all rows of a key for which somebody waits, for the first time in this sweep or again.
enum ToRead {
    Row(Address),
    Contended(Key),
    Again(Key),
    /// Of one who is in a pool in which somebody waits.
    Inside(Address),
}

/// What sweep sees to on a page of the index.
pub(super) struct Page {
    /// What is due by then it sees to; what becomes due after that, while it does, it may miss.
    since: Timestamp,
    rows: Vec<Address>,
    waiting: Waiting,
    /// Whether it saw to these before: then it asks only about executions that are due for a look.
    again: bool,
    /// Executions whose leases have ended, and that may be redriven.
    ended: Vec<(Key, RequestDigest)>,
    /// Tasks that wait for the results of starts.
    results: Vec<(Key, RequestDigest)>,
    corrupt: u64,
}

impl Page {
    /// Nothing yet.
    const fn at(since: Timestamp) -> Self {
        Self {
            since,
            rows: Vec::new(),
            waiting: Waiting::new(),
            again: false,
            ended: Vec::new(),
            results: Vec::new(),
            corrupt: 0,
        }
    }

    /// Those who wait for these keys, which this sweep saw before, and for which something is due by now.
    pub(super) fn seen_before(waiting: Waiting, now: Timestamp) -> Self {
        Self {
            waiting,
            again: true,
            ..Self::at(now)
        }
    }
}

impl Swept {
    /// Whether there was time for it.
    const fn count(&mut self, seen: Seen) -> bool {
        self.freed += seen.freed;
        self.granted += seen.granted;
        self.looked += seen.looked;
        self.ended += seen.ended;
        self.skipped_corrupt += seen.corrupt;
        self.failed += seen.failed;
        !seen.left
    }

    fn count_looks(&mut self, kinds: [(u64, u64); 2]) {
        for (looked, failed) in kinds {
            self.looked += looked;
            self.failed += failed;
        }
    }
}

impl Seen {
    const LEFT: Self = Self {
        freed: 0,
        granted: 0,
        looked: 0,
        ended: 0,
        corrupt: 0,
        failed: 0,
        changed: 0,
        left: true,
    };
}

/// The execution leases of one holder that are due for a look.
type Due = Vec<(Address, Row)>;

/// Whom sweeps have asked Step Functions about. It allows so many questions a second, to all callers of the account together: once it
/// refuses one, a sweep asks no more, and the next one begins with those of whom nobody has asked for longest.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    /// By the sweeps of this process since all that were due were asked about: not every look writes the row.
    asked: Arc<Mutex<BTreeMap<Holder, Timestamp>>>,
    /// Whether it has refused one to this sweep.
    throttled: Arc<AtomicBool>,
}

impl Looks {
    /// How many executions it remembers at most.
    const MOST: usize = 10_000;

    fn of_one_sweep(&self) -> Self {
        Self {
            asked: Arc::clone(&self.asked),
            throttled: Arc::default(),
        }
    }

    pub(super) fn are_over(&self) -> bool {
        self.throttled.load(Ordering::Relaxed)
    }

    pub(super) fn note_failure(&self, error: &Error) {
        if matches!(error, Error::Throttled { action, .. } if action.starts_with("states:")) {
            self.throttled.store(true, Ordering::Relaxed);
        }
    }

    fn note(&self, holder: &Holder, at: Timestamp) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= Self::MOST {
            asked.clear();
        }
        asked.insert(holder.clone(), at);
    }

    /// The holders of these leases, of whom nobody has asked for longest first.
    fn in_turn(&self, due: BTreeMap<Holder, Due>) -> Vec<(Holder, Due)> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due: Vec<_> = due.into_iter().collect();
        due.sort_by_cached_key(|(holder, leases)| {
            let by_rows = leases.iter().filter_map(|(_, row)| last_look(row)).min();
            by_rows.max(asked.get(holder).copied())
        });
        due
    }

    /// A sweep is done.
    fn end_sweep(&self) {
        if !self.are_over() {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.clear();
        }
    }
}

/// Of so many executions of a machine, one list of those that run takes the place of that many looks. Step Functions gives out a
/// quarter as many lists a second as looks, and apart from them.
const WORTH_A_LIST: usize = 4;

/// Whether nothing has said yet that the execution of these leases has ended. Else a list that is late would begin the grace anew.
fn are_thought_to_run(leases: &[(Address, Row)]) -> bool {
    leases.iter().all(|(_, row)| {
        let term = row.holding().map(|held| held.term);
        matches!(
            term,
            Some(Term::Execution {
                look_again_at: None,
                ..
            })
        )
    })
}

/// When this lease's execution was asked about last, by the row.
fn last_look(row: &Row) -> Option<Timestamp> {
    let held = row.holding()?;
    match held.term {
        Term::Execution { looked_at, .. } => looked_at.or(Some(held.acquired_at)),
        Term::Ttl { .. } => None,
    }
}

impl<S: Store> Queue<S> {
    /// Frees the leases whose deadline passed more than the clock margin ago, and maintains the queues. It grants a free
    /// key to the first waiter and notifies it, and notifies again every holder that may not know of its grant. It also removes waiters
    /// whose waiting time has passed.
    ///
    /// It asks about the executions whose leases are due for a look, or are waited for, once for all of them on a page,
    /// after it has read them, and decides as [`Queue::reap`] does.
    ///
    /// Sweep reads the index of held leases, so its cost depends on their number and not on the table's size. It
    /// reads and frees several rows at a time, each on the condition that the row has not changed since it was read.
    /// It leaves expired leases of frozen keys. Two concurrent sweeps, or an interrupted one, do no harm. A key that the table
    /// throttles, or for which it does not respond, is counted and left to the next sweep.
    ///
    /// A scheduled sweep that runs out of time continues where it stopped, in the next call on these leases or on a
    /// clone of them. Once Step Functions throttles what it asks about executions, it asks no more: the next sweep does, beginning with those of
    /// whom nobody has asked for longest. One that has time left ([`Queue::for_call`]) stays for what is due within it for those who wait: a key that
    /// opens, a lease that expires, the end of a wait or of a grace, a look. It reads again then, and serves. Without
    /// a deadline nobody says for how long it may stay, and it ends at once.
    ///
    /// # Errors
    /// Those of reading the index; and [`Error::Denied`] by the table and [`Error::Misconfigured`], which concern the whole table.
    /// Leases that were freed before stay free.
    pub async fn sweep(&self, bounds: SweepBounds) -> Result<Swept, Error> {
        self.follow_rules().await?;
        let sweep = Self {
            looks: self.looks.of_one_sweep(),
            ..self.clone()
        };
        let swept = sweep.sweep_within(bounds).await;
        sweep.looks.end_sweep();
        swept
    }

    async fn sweep_within(&self, bounds: SweepBounds) -> Result<Swept, Error> {
        match bounds {
            SweepBounds::Call { limit, cursor } => {
                let from = cursor.unwrap_or_else(|| Cursor::start(0));
                let nothing = &mut Agenda::until(None);
                self.sweep_from(from, limit, nothing).await
            }
            SweepBounds::Schedule => self.on_schedule().sweep_and_stay().await,
            SweepBounds::Key(key) => {
                let mut swept = Swept {
                    examined: 1,
                    ..Swept::default()
                };
                let page = Page {
                    waiting: Waiting::from([(key, Vec::new())]),
                    ..Page::at(self.now())
                };
                let nothing = &mut Agenda::until(None);
                let inside = &mut RowsInPools::new();
                self.sweep_page(page, (&mut swept, nothing), inside).await?;
                Ok(swept)
            }
        }
    }

    async fn sweep_and_stay(&self) -> Result<Swept, Error> {
        let start = || Cursor::start(self.now().as_millis());
        let from = self.swept_to.get().unwrap_or_else(start);
        let mut agenda = Agenda::until(self.stays_until());
        let mut swept = self.sweep_from(from.clone(), u32::MAX, &mut agenda).await?;
        // If there was no progress, the next sweep starts elsewhere.
        let stopped_at = swept.cursor.clone().filter(|cursor| *cursor != from);
        self.swept_to.set(stopped_at);
        self.stay(agenda, &mut swept).await?;
        Ok(swept)
    }

    async fn sweep_from(
        &self,
        mut cursor: Cursor,
        mut left: u32,
        agenda: &mut Agenda,
    ) -> Result<Swept, Error> {
        let (mut swept, mut inside) = (Swept::default(), RowsInPools::new());
        loop {
            let (entries, next) = match self.page(cursor.clone(), left.min(PAGE)).await {
                Err(Error::Throttled { .. } | Error::Unavailable { .. }) if swept.examined > 0 => {
                    // Report what was done, and where to continue.
                    swept.cursor = Some(cursor);
                    return Ok(swept);
                }
                page => page?,
            };
            left = left.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            swept.examined += entries.len() as u64;
            let page = self.to_see_to(entries);
            let in_time = self
                .sweep_page(page, (&mut swept, agenda), &mut inside)
                .await?;
            match next {
                // Continue from the start of this page: the rows that were freed are no longer on it.
                _ if !in_time => {
                    swept.cursor = Some(cursor);
                    return Ok(swept);
                }
                None => return Ok(swept),
                Some(next) if left == 0 => {
                    swept.cursor = Some(next);
                    return Ok(swept);
                }
                Some(next) => cursor = next,
            }
        }
    }

    fn to_see_to(&self, mut entries: Vec<Entry>) -> Page {
        let now = self.now();
        // Not all of it may be done: what is due for longest comes first.
        entries.sort_by_key(|entry| entry.sweep_after);
        let mut page = Page::at(now);
        let is_due = |at: Option<Timestamp>| at.is_none_or(|at| at <= now);
        for entry in entries {
            match entry.address {
                Some(ItemAddress::Row(address)) if is_due(entry.sweep_after) => {
                    page.rows.push(address);
                }
                Some(ItemAddress::Redrivable(key, request)) if is_due(entry.sweep_after) => {
                    page.ended.push((key, request));
                }
                Some(ItemAddress::Result(key, request)) if is_due(entry.sweep_after) => {
                    page.results.push((key, request));
                }
                Some(
                    ItemAddress::Row(_)
                    | ItemAddress::Redrivable(..)
                    | ItemAddress::Result(..)
                    | ItemAddress::Called(..),
                ) => {}
                // It has failed, and waits for somebody to repeat it.
                Some(ItemAddress::Start(..)) if entry.sweep_after.is_none() => {}
                Some(ItemAddress::Waiter(key, request) | ItemAddress::Start(key, request)) => {
                    let of_key = page.waiting.entry(key).or_default();
                    of_key.push((request, entry.sweep_after));
                }
                Some(ItemAddress::Rules) | None => page.corrupt += 1,
            }
        }
        // Somebody waits for these keys: all their rows are looked at in every sweep.
        let waiting = &page.waiting;
        page.rows.retain(|row| !waiting.contains_key(&row.key));
        page
    }

    /// First the leases that have ended, then the queues: waiters are served by what was freed. False if there was no time for
    /// all of it. What there is to be done later for those who wait is noted on the agenda, and of those `inside` of the pools which rows this
    /// sweep has read.
    pub(super) async fn sweep_page(
        &self,
        page: Page,
        (swept, agenda): (&mut Swept, &mut Agenda),
        inside: &mut RowsInPools,
    ) -> Result<bool, Error> {
        swept.skipped_corrupt += page.corrupt;
        let (waiting, again, since) = (page.waiting, page.again, page.since);
        let contended = |key| {
            if again {
                ToRead::Again(key)
            } else {
                ToRead::Contended(key)
            }
        };
        let (rows, keys) = (page.rows.into_iter().map(ToRead::Row), waiting.keys());
        let keys = keys.filter(|key| key.pool_name().is_none());
        let mut read = ReadRows::default();
        let contended = rows.chain(keys.cloned().map(contended));
        Box::pin(self.read_all(contended.collect(), &mut read)).await;
        let named = waiting.keys().filter(|key| key.pool_name().is_some());
        for pool in named {
            read.pools.entry(pool.clone()).or_default();
        }
        // Where somebody waits in a pool, those who are inside are looked at in every sweep.
        let mut in_pools = Box::pin(self.inside_of(&read)).await;
        // Read and looked at on an earlier page, or just now, as a key for which somebody waits.
        in_pools.retain(|at| {
            let is_read = inside.contains_key(at) || waiting.contains_key(&at.key);
            again || !is_read
        });
        let in_pools = in_pools.into_iter().map(ToRead::Inside).collect();
        Box::pin(self.read_all(in_pools, &mut read)).await;
        let of_due = read.due.values().flatten();
        let of_due = of_due.filter(|(_, row)| pool_of(row).is_some());
        inside.extend(of_due.cloned());
        let ReadRows {
            seen: mut all,
            due,
            pools,
            mut rested,
        } = read;
        // They all share what Step Functions answers.
        let ended_first = !(self.now().as_millis() / MINUTE).is_multiple_of(2);
        let (of_ended, of_results) = (&page.ended, &page.results);
        if ended_first {
            swept.count_looks(self.check_all_ended(of_ended, of_results).await);
        }
        let due = self.looks.in_turn(due);
        let running = self.list_running(&due).await;
        let looks = due.iter();
        let looks = looks.map(|(holder, leases)| self.look(holder, leases, running.get(holder)));
        for ((_, leases), seen) in due
            .iter()
            .zip(some_at_a_time(AT_ONCE, looks.collect()).await)
        {
            // As they were read.
            let stay = matches!(
                seen,
                Ok(Seen {
                    ended: 0,
                    changed: 0,
                    failed: 0,
                    ..
                })
            );
            if !stay {
                inside.retain(|at, _| leases.iter().all(|(of, _)| of != at));
            }
            all.push(seen);
        }
        // All waiters of one key together, because their queue is one row.
        let width = AT_ONCE / waiting.len().clamp(1, AT_ONCE);
        let looks = waiting.iter().map(|(key, waiting)| {
            let read = rested.remove(key);
            self.look_after(key, (waiting, since), (read, width))
        });
        let looked = some_at_a_time(AT_ONCE, looks.collect()).await;
        for (key, (seen, later)) in waiting.keys().zip(looked) {
            all.push(seen);
            if let Some(later) = later {
                agenda.note(key, later);
            }
        }
        for (pool, rows) in pools {
            all.push(Box::pin(self.see_to_pool(&pool, rows, inside)).await);
        }
        if !ended_first {
            swept.count_looks(self.check_all_ended(of_ended, of_results).await);
        }
        let mut in_time = !self.is_nearly_over();
        for seen in all {
            in_time &= swept.count(seen?);
        }
        Ok(in_time)
    }

    /// Looks at those of them that are due whose leases have ended, and at those for whose results tasks wait, each first in every second
    /// such call.
    async fn check_all_ended(
        &self,
        ended: &[(Key, RequestDigest)],
        results: &[(Key, RequestDigest)],
    ) -> [(u64, u64); 2] {
        if (self.now().as_millis() / MINUTE / 2).is_multiple_of(2) {
            let ended = self.check_all_redrivable(ended).await;
            return [ended, Box::pin(self.check_all_results(results)).await];
        }
        let results = Box::pin(self.check_all_results(results)).await;
        [results, self.check_all_redrivable(ended).await]
    }

    async fn read_all(&self, rows: Vec<ToRead>, into: &mut ReadRows) {
        let reads = rows.into_iter().map(|due| self.free_or_due(due));
        let read = some_at_a_time(AT_ONCE, reads.collect()).await;
        for read in read.into_iter().flatten() {
            match read {
                Ok(Read::Nothing) => {}
                Ok(Read::Seen(seen)) => into.seen.push(Ok(seen)),
                Ok(Read::Due(address, row)) => {
                    into.wait_in_pool(&address, &row);
                    let of_holder = into.due.entry(row.granted_to.clone()).or_default();
                    if of_holder.iter().all(|(known, _)| *known != address) {
                        of_holder.push((address, *row));
                    }
                }
                Ok(Read::InPool(address, row)) => into.wait_in_pool(&address, &row),
                Ok(Read::Rested(key, rows)) => drop(into.rested.insert(key, rows)),
                Err(error) => into.seen.push(Err(error)),
            }
        }
    }

    /// The rows of those who are inside these pools.
    async fn inside_of(&self, read: &ReadRows) -> BTreeSet<Address> {
        let reads = read.pools.keys().map(|pool| self.read_queue_row(pool));
        let pools = some_at_a_time(AT_ONCE, reads.collect()).await;
        let mut inside = BTreeSet::new();
        // One that cannot be read fails when it is served.
        for row in pools.into_iter().flatten().flatten() {
            let entries = row.in_pool().inside.into_values();
            inside.extend(entries.map(|entry| entry.at()));
        }
        inside
    }

    /// Serves who waits in a pool. These rows wait, and may be in no place there.
    async fn see_to_pool(
        &self,
        pool: &Key,
        mut rows: Vec<(Address, Row)>,
        known: &RowsInPools,
    ) -> Result<Seen, Error> {
        if self.is_nearly_over() {
            return Ok(Seen::LEFT);
        }
        rows.sort_by_key(|(_, row)| row.holding().map(|held| held.acquired_at));
        // It has its key, so that no queue of a key shows it.
        if let Some((at, row)) = rows.first()
            && let Ok(Some(waiter)) = self.waiter(&at.key, &row.request).await
        {
            self.report_wait_since(Some(waiter.since()));
        }
        for (at, row) in &rows {
            if row.is_of_a_redrive() {
                // It runs: it enters at once, or is stopped.
                let redriven = (at.key.clone(), RequestDigest::of_start(&row.granted_to));
                self.check_all_redrivable(&[redriven]).await;
            }
        }
        let granted = self.maintain_pool(pool, rows, known).await;
        let granted = granted.map(|granted| Seen {
            granted,
            ..Seen::default()
        });
        one_bad_key_is_not_all(granted, pool)
    }

    async fn free_or_due(&self, due: ToRead) -> Vec<Result<Read, Error>> {
        if self.is_nearly_over() {
            return vec![Ok(Read::Seen(Seen::LEFT))];
        }
        let read = match &due {
            ToRead::Row(address) | ToRead::Inside(address) => self
                .store()
                .read_row(address, self.limit())
                .await
                .map(|row| {
                    let permit = address.permit;
                    vec![(permit, row)]
                }),
            ToRead::Contended(key) | ToRead::Again(key) => {
                self.store().read_key(key, self.limit()).await
            }
        };
        let (key, contended, is_all) = match due {
            ToRead::Row(address) => (address.key, false, false),
            ToRead::Again(key) => (key, false, true),
            ToRead::Contended(key) => (key, true, true),
            ToRead::Inside(address) => (address.key, true, false),
        };
        let rows = match read {
            Ok(rows) => rows,
            Err(error) => return vec![one_bad_key_is_not_all(Err(error), &key).map(Read::Seen)],
        };
        let mut all = Vec::new();
        let mut rested = is_all.then(|| Rows::all(rows.clone()));
        for (permit, stored) in rows {
            if self.is_nearly_over() {
                all.push(Ok(Read::Seen(Seen::LEFT)));
                return all;
            }
            let address = Address {
                key: key.clone(),
                permit,
            };
            let read = match self.free(address, stored, contended).await {
                Err(error) => one_bad_key_is_not_all(Err(error), &key).map(Read::Seen),
                read => read,
            };
            if !matches!(read, Ok(Read::Nothing | Read::InPool(..))) {
                rested = None;
            }
            all.push(read);
        }
        all.extend(rested.map(|rows| Ok(Read::Rested(key, rows))));
        all
    }

    /// Which of these run, and when that was asked, as far as lists of their machines' executions show it. Nothing ends by what a list lacks:
    /// of that the service is asked one by one.
    async fn list_running(&self, due: &[(Holder, Due)]) -> BTreeMap<Holder, Timestamp> {
        let mut of_machine = BTreeMap::<StateMachineArn, BTreeSet<&Holder>>::new();
        for (holder, leases) in due {
            if let Some(machine) = listing_machine(holder)
                && let Ok(machine) = StateMachineArn::new(machine)
                && are_thought_to_run(leases)
            {
                of_machine.entry(machine).or_default().insert(holder);
            }
        }
        of_machine.retain(|_, holders| holders.len() >= WORTH_A_LIST);
        let lists = of_machine.iter().map(|(machine, holders)| async move {
            if self.is_nearly_over() {
                return Vec::new();
            }
            let asked_at = self.now();
            match self
                .engine::<Vec<Holder>>(Question::Running(machine.clone()))
                .await
            {
                Ok(running) => {
                    let running = running.into_iter().filter(|one| holders.contains(one));
                    running.map(|one| (one, asked_at)).collect()
                }
                Err(error) => {
                    if matches!(error, Error::Throttled { .. }) {
                        error.count();
                    }
                    let (machine, problem) = (machine.as_str(), error.in_full());
                    tracing::warn!(
                        machine,
                        problem,
                        "its executions could not be listed: each is looked up"
                    );
                    Vec::new()
                }
            }
        });
        let lists = some_at_a_time(AT_ONCE, lists.collect()).await;
        lists.into_iter().flatten().collect()
    }

    /// Asks about the holder of these leases, unless a list that was asked for at this instant has shown that it runs, and ends or keeps each.
    async fn look(
        &self,
        holder: &Holder,
        leases: &[(Address, Row)],
        listed: Option<&Timestamp>,
    ) -> Result<Seen, Error> {
        if self.is_nearly_over() {
            return Ok(Seen::LEFT);
        }
        let mut all = Seen::default();
        let asked_at = listed.copied().unwrap_or_else(|| self.now());
        // One execution that may not be looked up keeps its leases, unless it never began, and does not stop the sweep.
        let said = match listed {
            Some(_) => Some(Execution::Running),
            None => self.ask_about(holder).await,
        };
        match said {
            Some(_) => all.looked = 1,
            None => all.failed = leases.len() as u64,
        }
        for (address, row) in leases {
            if self.is_nearly_over() {
                all.left = true;
                break;
            }
            let looked =
                self.decide(address, row, (said, asked_at))
                    .await
                    .map(|looked| match looked {
                        Looked::Ended { notified } => Seen {
                            ended: 1,
                            granted: u64::from(notified),
                            ..Seen::default()
                        },
                        Looked::Kept => Seen::default(),
                        Looked::Changed => Seen {
                            changed: 1,
                            ..Seen::default()
                        },
                    });
            if let Err(error) = &looked {
                self.looks.note_failure(error);
            }
            let seen = one_bad_key_is_not_all(looked, &address.key)?;
            if seen.ended > 0 && row.request.is_start() {
                // No event has said that it ended, or its task would have been answered.
                self.answer_if_over(&address.key, &row.request).await;
            }
            all.ended += seen.ended;
            all.granted += seen.granted;
            all.corrupt += seen.corrupt;
            all.failed += seen.failed;
            all.changed += seen.changed;
        }
        Ok(all)
    }

    /// What the service says of this execution; none if it does not, or has had enough of this sweep.
    async fn ask_about(&self, holder: &Holder) -> Option<Execution> {
        if self.looks.are_over() {
            return None;
        }
        let asked_at = self.now();
        let said = self.engine(Question::Describe(holder.clone()));
        match said.await {
            Ok(said) => {
                self.looks.note(holder, asked_at);
                Some(said)
            }
            Err(error) => {
                self.looks.note_failure(&error);
                error.count();
                let problem = error.in_full();
                tracing::error!(%holder, problem, "an execution could not be looked up, and keeps its leases");
                None
            }
        }
    }

    async fn look_after(
        &self,
        key: &Key,
        (waiting, since): (&[DueWaiter], Timestamp),
        (read, width): (Option<Rows>, usize),
    ) -> (Result<Seen, Error>, Option<Later>) {
        if self.is_nearly_over() {
            return (Ok(Seen::LEFT), None);
        }
        let until = waiting.iter().filter_map(|(_, due)| *due).max();
        // A waiter that is due at once waits nevertheless; the row is written once a day for it.
        let until = until.map(|until| until.max(end_of_tomorrow(self.now())));
        let (seen, later) = match self
            .maintain_queue(key, (waiting, since), read, (until, width))
            .await
        {
            Ok(maintained) => {
                let seen = Seen {
                    granted: maintained.notified,
                    left: self.is_nearly_over(),
                    ..Seen::default()
                };
                (Ok(seen), maintained.later)
            }
            Err(error) => (Err(error), None),
        };
        (one_bad_key_is_not_all(seen, key), later)
    }

    async fn free(&self, address: Address, stored: Stored, contended: bool) -> Result<Read, Error> {
        let nothing = || Ok(Read::Nothing);
        let Some(row) = own_row(&address.key, stored)? else {
            return nothing();
        };
        let Some(held) = row.holding() else {
            return nothing();
        };
        if matches!(held.term, Term::Execution { .. }) {
            // The index may lag behind.
            let waits_in_pool = row.waits_in_pool() && !row.is_refused();
            let is_over = held.sweep_after.is_none_or(|at| at <= self.now());
            let due = is_over || contended && !waits_in_pool;
            // Of a start that waits there nothing runs.
            let is_only_served = row.request.is_start() || !is_over;
            return if waits_in_pool && contended && is_only_served {
                Ok(Read::InPool(address, Box::new(row)))
            } else if due {
                Ok(Read::Due(address, Box::new(row)))
            } else {
                nothing()
            };
        }
        if row.frozen.is_some() || held.expires_at() > self.takeover_deadline() {
            return nothing();
        }
        // Of another permit the queue is in the first row: it is looked after below, if anybody waits.
        let granted = if address.permit == 0 {
            Box::pin(self.pass_on(&address, &row, Ended::Expired)).await?
        } else {
            let freed = self.end_as_read(&address, &row, Ended::Expired);
            freed.await?.map(|_| false)
        };
        let Some(granted) = granted else {
            // Others have changed the row: it is read again.
            return Ok(Read::Seen(Seen::default()));
        };
        Ok(Read::Seen(Seen {
            freed: 1,
            granted: u64::from(granted),
            ..Seen::default()
        }))
    }
}

/// A failure with one key is counted and logged, and does not stop the other keys.
fn one_bad_key_is_not_all(seen: Result<Seen, Error>, key: &Key) -> Result<Seen, Error> {
    match seen {
        Err(error @ Error::Corrupt { .. }) => {
            let reason = error.in_full();
            tracing::warn!(%key, reason, "sweep left an item alone");
            Ok(Seen {
                corrupt: 1,
                ..Seen::default()
            })
        }
        Err(error) if error.concerns_table() => Err(error),
        Err(error) => {
            error.count();
            let problem = error.in_full();
            tracing::error!(%key, problem, "sweep could not handle a key");
            Ok(Seen {
                failed: 1,
                ..Seen::default()
            })
        }
        seen => seen,
    }
}

fn end_of_tomorrow(now: Timestamp) -> Timestamp {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    Timestamp::from_millis((now.as_millis() / DAY + 2).saturating_mul(DAY))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        Acquire, KeepTime, Leases, Lifetime, Memory, Settings, TaskToken, Wait, WaitTime,
        clock::slow::Slow,
        queue::engine::{Redrives, Stands},
        store::wire::{Fate, Wire},
        test_support::FakeStepFunctions,
        test_support::{grant, make},
    };

    /// Sweeps in invocations of two seconds each, until one has swept everything; returns how many leases they freed.
    async fn in_invocations(leases: &Queue<Memory>) -> u64 {
        let (mut freed, mut cursor) = (0, None);
        for calls in 1..100 {
            let deadline = leases.now().plus(Duration::from_secs(2));
            let limit = 1000;
            let swept = leases
                .for_call(deadline)
                .sweep(SweepBounds::Call { limit, cursor })
                .await
                .expect("time that runs out is no error");
            assert!(leases.now() < deadline);
            (freed, cursor) = (freed + swept.freed, swept.cursor);
            if cursor.is_none() {
                assert!(calls > 1, "one call had not enough time");
                return freed;
            }
        }
        panic!("it gets nowhere");
    }

    #[tokio::test]
    async fn sweep_stopped_among_waiters_says_so() {
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(Arc::new(Slow::by(10)))
            .with_engine(calls.clone());
        let (key, hour) = (make::key("k"), Duration::from_hours(1));
        grant(&leases, make::request(key.clone(), "holder", hour)).await;
        for n in 0..30 {
            let queue = Wait {
                task_token: TaskToken::new(format!("t{n}")).expect("valid"),
                wait: WaitTime::new(Duration::from_secs(1)).expect("valid"),
                latest: false,
            };
            let waits = make::of_execution(key.clone(), n);
            let joined = leases.acquire_queued(waits, queue).await;
            joined.expect("queued");
        }
        leases.sleep(Duration::from_secs(60)).await;
        in_invocations(&leases).await;
        let answers = calls.take_answers();
        let away = answers.iter().filter(|answer| {
            let error = answer.result.as_ref().err();
            error.is_some_and(|(name, _)| name == "Lease.QueueTimeout")
        });
        assert_eq!((answers.len(), away.count()), (30, 30));
    }

    #[tokio::test]
    async fn timed_out_sweep_returns_cursor() {
        let clock = Arc::new(Slow::by(10));
        let leases = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock)
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let ttl = make::ttl(Duration::from_secs(2));
        for n in 0..50 {
            let key = make::key(format!("k{n}"));
            let holder = make::holder("h");
            grant(&leases, Acquire::new(key, holder, ttl)).await;
        }
        leases.sleep(Duration::from_secs(60)).await;
        assert_eq!(in_invocations(&leases).await, 50);
    }

    /// Items that are not ours stay in the index, and each takes time.
    #[tokio::test]
    async fn scheduled_sweep_continues_last_one() {
        let memory = Memory::new();
        for n in 0..600 {
            let item = [("holder".to_owned(), crate::row::s("a stranger"))];
            memory.put_at(&format!("a{n}"), "LEASE#0000", &item.into());
        }
        let leases = Leases::new(memory, Settings::default())
            .with_clock(Arc::new(Slow::by(10)))
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let ttl = make::ttl(Duration::from_secs(2));
        let key = make::key("z");
        let acquire = Acquire::new(key, make::holder("h"), ttl);
        grant(&leases, acquire).await;
        leases.sleep(Duration::from_secs(60)).await;
        let mut freed = 0;
        for run in 0..8 {
            let deadline = leases.now().plus(Duration::from_secs(12));
            let invocation = leases.for_call(deadline);
            let swept = invocation.sweep(SweepBounds::Schedule).await;
            let swept = swept.expect("swept");
            assert!(
                run > 0 || swept.cursor.is_some(),
                "one run has not enough time"
            );
            freed += swept.freed;
        }
        assert_eq!(freed, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn unwritable_key_stops_no_sweep() {
        let store = Wire::default();
        let clock = make::clock();
        let leases = Leases::new(store.clone(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let ttl = make::ttl(Duration::from_secs(2));
        for n in 0..5 {
            let key = make::key(format!("k{n}"));
            let acquire = Acquire::new(key, make::holder("h"), ttl);
            grant(&leases, acquire).await;
        }
        clock.advance(Duration::from_secs(60));
        store.script([Fate::Throttled, Fate::RequestLost]);
        let swept = leases.sweep(SweepBounds::Schedule).await.expect("swept");
        assert_eq!((swept.examined, swept.freed, swept.failed), (5, 3, 2));
        let swept = leases.sweep(SweepBounds::Schedule).await.expect("swept");
        assert_eq!((swept.examined, swept.freed, swept.failed), (2, 2, 0));
    }

    fn execution_of(machine: &str, name: &str) -> Holder {
        make::holder(format!(
            "arn:aws:states:eu-west-1:123456789012:execution:{machine}:{name}"
        ))
    }

    /// Somebody waits for each of 40 keys, so that each holder is looked at in every sweep.
    async fn contend_for_forty(queue: &Queue<Memory>, calls: &FakeStepFunctions) {
        for n in 0..40 {
            for name in ["holds", "waits"] {
                let wait = Wait {
                    task_token: TaskToken::new(format!("{name}-{n}")).expect("valid"),
                    wait: WaitTime::DAY,
                    latest: false,
                };
                // Each of a machine of its own.
                let execution = execution_of(&format!("machine-{n}"), name);
                calls.set_execution(execution.as_str(), Execution::Running);
                let keep = KeepTime::default();
                let lifetime = Lifetime::Execution { keep };
                let request = Acquire::new(make::key(format!("k{n}")), execution, lifetime);
                let asked = queue.acquire_queued(request, wait).await;
                asked.expect("an answer");
            }
        }
    }

    /// Step Functions answers ten questions between two sweeps.
    #[tokio::test]
    async fn throttled_looks_take_turns() {
        let calls = Arc::new(FakeStepFunctions::default());
        let clock = make::clock();
        let queue = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        contend_for_forty(&queue, &calls).await;
        let mut looked = Vec::new();
        for sweep in 1..=4 {
            clock.advance(Duration::from_mins(1));
            calls.throttle_after(10);
            let swept = queue.sweep(SweepBounds::Schedule).await.expect("swept");
            assert_eq!((swept.looked, swept.failed), (10, 30), "{sweep}");
            let (answered, refused) = calls.take_looked();
            // Those that were on their way with the first that was refused.
            assert!((1..=AT_ONCE).contains(&refused), "{refused}");
            looked.extend(answered);
        }
        looked.sort();
        looked.dedup();
        assert_eq!(looked.len(), 40);
    }

    /// However many keys are contended, also those are looked at whose leases have ended.
    #[tokio::test]
    async fn throttled_looks_are_for_all_kinds() {
        let calls = Arc::new(FakeStepFunctions::default());
        let clock = make::clock();
        let queue = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        let ended = make::execution("ended");
        grant(&queue, make::of_execution(make::key("k"), "ended")).await;
        let failed = Execution::Ended {
            stopped_at: queue.now(),
            redrivable: true,
            all_answered: true,
        };
        calls.set_execution(ended.as_str(), failed);
        let stands = Redrives {
            stands: Stands::Redrivable,
            count: 0,
            at: None,
        };
        calls.set_redrives(ended.as_str(), stands);
        clock.advance(Duration::from_mins(1));
        queue.reap(&ended).await.expect("reaped");
        contend_for_forty(&queue, &calls).await;
        clock.advance(Duration::from_mins(10));
        let _ = calls.take_looked();
        for _ in 0..2 {
            clock.advance(Duration::from_mins(1));
            calls.throttle_after(10);
            queue.sweep(SweepBounds::Schedule).await.expect("swept");
        }
        let (looked, _) = calls.take_looked();
        assert!(looked.iter().any(|one| one == ended.as_str()), "{looked:?}");
    }

    /// Somebody waits for keys of executions of one machine. What its list shows is not looked up; what the list lacks is, and so are those that
    /// seemed to be over, and children of a Distributed Map; and so are few.
    #[tokio::test]
    async fn listed_executions_are_not_looked_up() {
        let clock = make::clock();
        let calls = Arc::new(FakeStepFunctions::default());
        let queue = Leases::new(Memory::new(), Settings::default())
            .with_clock(clock.clone())
            .with_engine(calls.clone());
        let hold = async |machine: &str, name: &str, status| {
            let execution = execution_of(machine, name);
            calls.set_execution(execution.as_str(), status);
            let (keep, key) = (KeepTime::default(), make::key(format!("{machine}:{name}")));
            let lifetime = Lifetime::Execution { keep };
            grant(&queue, Acquire::new(key.clone(), execution, lifetime)).await;
            let wait = Wait {
                task_token: TaskToken::new(key.as_str()).expect("valid"),
                wait: WaitTime::DAY,
                latest: false,
            };
            let waits = make::of_execution(key, format!("{machine}{name}").replace('/', "-"));
            let asked = queue.acquire_queued(waits, wait).await;
            asked.expect("an answer");
        };
        for n in 0..10 {
            hold("many", &n.to_string(), Execution::Running).await;
            hold("each/map", &n.to_string(), Execution::Running).await;
        }
        let unsure = Execution::Ended {
            stopped_at: queue.now(),
            redrivable: false,
            all_answered: false,
        };
        hold("many", "over", unsure).await;
        for n in 0..3 {
            hold("few", &n.to_string(), Execution::Running).await;
        }
        let asked = async || {
            clock.advance(Duration::from_mins(1));
            let swept = queue.sweep(SweepBounds::Schedule).await.expect("swept");
            assert_eq!((swept.looked, swept.ended, swept.failed), (24, 0, 0));
            let (mut looked, _) = calls.take_looked();
            looked.retain(|execution| !execution.contains(":each/map:"));
            looked.sort();
            looked
        };
        let few = (0..3).map(|n| execution_of("few", &n.to_string()));
        let few = few.map(|execution| execution.as_str().to_owned());
        let over = execution_of("many", "over");
        let expected: Vec<_> = few.chain([over.as_str().to_owned()]).collect();
        assert_eq!(asked().await, expected);
        // A list that is late has no say in its grace.
        calls.list(over.as_str());
        assert_eq!(asked().await, expected);
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "tokio's virtual time")]
    async fn sweep_frees_ten_at_once() {
        let store = Wire::default();
        let clock = make::clock();
        let leases = Leases::new(store, Settings::default())
            .with_clock(clock.clone())
            .with_engine(Arc::new(FakeStepFunctions::default()));
        let ttl = make::ttl(Duration::from_secs(2));
        for n in 0..50 {
            let key = make::key(format!("k{n}"));
            let acquire = Acquire::new(key, make::holder("h"), ttl);
            grant(&leases, acquire).await;
        }
        clock.advance(Duration::from_secs(60));
        let start = tokio::time::Instant::now();
        let swept = leases.sweep(SweepBounds::Schedule).await.expect("swept");
        assert_eq!(swept.freed, 50);
        assert_eq!(start.elapsed(), 5 * crate::store::wire::ROUND_TRIP);
    }
}
