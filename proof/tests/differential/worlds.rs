//! One table, and those who work with it through the library.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc, time::Duration};

use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, AuditReason, Clock as _, Counter, Error, Evict,
    ExtendOptions, Extended, Forced, Freeze, Inspected, Key, Keys, Lease, Leases, ManualClock,
    ObservedVersion, Operator, Permits, Queue, Queued, Raised, Reaped, Reason, Released, RequestId,
    Settings, SweepBounds, Swept, TaskToken, Ttl, Unfreeze, WaitTime,
    conformance::{Bench, FakeStepFunctions},
    row::{Row, Stored},
    store::{Address, Store as _},
};

use super::{
    operations::{HOLDERS, MUTEXES, Operation, REQUESTS, Seen, stands},
    strange::{ATTRIBUTES, is_writable, strange},
    values::{digest, holder, seconds},
};

const LIMIT: Duration = Duration::from_secs(1);

/// What an operation brought.
#[derive(Debug)]
pub enum Answer {
    Acquired(Acquired),
    Set(AcquiredAll),
    Queued(#[expect(dead_code, reason = "shown")] Queued),
    Extended(Extended),
    Released(Released),
    Swept(Swept),
    HandedOver(#[expect(dead_code, reason = "shown")] bool),
    Reaped(#[expect(dead_code, reason = "shown")] Reaped),
    Frozen(#[expect(dead_code, reason = "shown")] Freeze),
    Unfrozen(#[expect(dead_code, reason = "shown")] Unfreeze),
    Forced(#[expect(dead_code, reason = "shown")] Forced),
    Raised(#[expect(dead_code, reason = "shown")] Raised),
    Inspected(#[expect(dead_code, reason = "shown")] Inspected),
    /// It was no call, or one for which there was nothing to give.
    Nothing,
}

pub struct World<B: Bench> {
    pub bench: B,
    pub clock: Arc<ManualClock>,
    pub leases: Leases<B::Store>,
    calls: Arc<FakeStepFunctions>,
    /// Every handle that anybody was ever given, in order.
    pub handles: Vec<Lease>,
    /// Who was ever in line, for what.
    waiters: BTreeSet<(u8, u8, u8)>,
    touched: BTreeSet<u8>,
}

impl<B: Bench> World<B> {
    pub fn new(bench: B) -> Self {
        let clock = Arc::new(ManualClock::at(seconds(0)));
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = Leases::new(bench.store(), Settings::default())
            .with_clock(clock.clone())
            .with_workflows(calls.clone());
        Self {
            bench,
            clock,
            leases,
            calls,
            handles: Vec::new(),
            waiters: BTreeSet::new(),
            touched: BTreeSet::new(),
        }
    }

    /// Does it, and says all there is to say of the answer and of everything that stands in the table then. Proofs,
    /// which differ from world to world, are told by the handle that has them.
    pub async fn take(&mut self, operation: &Operation) -> (Result<Answer, Error>, String) {
        self.touched.extend(operation.keys());
        let answer = self.make(operation).await;
        let mut said = match &answer {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{} {error}", error.name()),
        };
        if let Ok(answer) = &answer {
            self.keep(answer);
        }
        let mut told = self.calls.take_answers();
        told.sort_by(|a, b| a.token.cmp(&b.token));
        for told in told {
            let lease = told.result.is_ok().then(|| told.output()["lease"].clone());
            if let Some(lease) = lease {
                let lease: Lease = serde_json::from_value(lease).unwrap();
                write!(said, "\n{} is told of {lease:?}", told.token).unwrap();
                self.handles.push(lease);
            } else {
                write!(said, "\n{} is told {:?}", told.token, told.result).unwrap();
            }
        }
        self.describe(&mut said).await;
        (answer, said)
    }

    fn keep(&mut self, answer: &Answer) {
        match answer {
            Answer::Acquired(Acquired::Granted(granted)) => {
                self.handles.push(granted.lease.clone());
            }
            Answer::Set(AcquiredAll::Granted(granted)) => {
                self.handles.extend(granted.leases.iter().cloned());
            }
            Answer::Extended(Extended::Extended { lease } | Extended::Revived { lease, .. }) => {
                self.handles.push(lease.clone());
            }
            _ => {}
        }
    }

    async fn describe(&self, said: &mut String) {
        for &key in &self.touched {
            for (permit, stored) in self
                .leases
                .store()
                .read_key(&self::key(key), LIMIT)
                .await
                .unwrap()
            {
                match stored {
                    Stored::Row(row) => {
                        let whose = self.whose(&row);
                        let row = named(row);
                        write!(said, "\n{key}/{permit} {row:?} of {whose:?}").unwrap();
                    }
                    other => write!(said, "\n{key}/{permit} {other:?}").unwrap(),
                }
            }
        }
        for &(key, who, request) in &self.waiters {
            let (pk, digest) = (self::key(key), digest(who, request));
            let waiter = self.leases.store().waiter(&pk, &digest, LIMIT).await;
            if let Some(waiter) = waiter.unwrap() {
                let token = waiter.task_token.expose();
                write!(said, "\n{key} waits {waiter:?} {token}").unwrap();
            }
        }
    }

    /// The latest handle that proves what the row carries.
    pub fn whose(&self, row: &Row) -> Option<usize> {
        let proof = row.holding().map(|held| &held.lease_id);
        let proof = proof.or(row.reserved().map(|kept| &kept.lease_id))?;
        self.handles
            .iter()
            .rposition(|lease| lease.lease_id == *proof)
    }

    pub async fn stands(&self, key: u8) -> Stored {
        let address = address(key);
        self.leases.store().read(&address, LIMIT).await.unwrap()
    }

    fn handle(&self, back: u8) -> Option<&Lease> {
        self.handles.iter().rev().nth(back.into())
    }

    async fn observed(&self, key: u8, seen: Option<Seen>) -> Option<ObservedVersion> {
        Some(match seen? {
            Seen::None => ObservedVersion::NONE,
            Seen::Last => self
                .handle(0)
                .map_or(ObservedVersion::NONE, |lease| lease.version.into()),
            Seen::Standing => match self.stands(key).await {
                Stored::Row(row) => row.version.into(),
                _ => ObservedVersion::NONE,
            },
        })
    }

    async fn make(&mut self, operation: &Operation) -> Result<Answer, Error> {
        let leases = &self.leases;
        Ok(match *operation {
            Operation::Acquire {
                who,
                request,
                key,
                ttl,
                observed,
                reentrant,
            } => {
                let mut acquire = self::acquire(key, who, request, ttl);
                acquire.observed_version = self.observed(key, observed).await;
                acquire.reentrant = reentrant;
                Answer::Acquired(leases.acquire(acquire).await?)
            }
            Operation::Permit {
                who,
                request,
                permits,
                ttl,
            } => {
                let acquire = self::acquire(MUTEXES, who, request, ttl);
                let permits = Permits::new(permits).unwrap();
                Answer::Acquired(leases.acquire(acquire.permits(permits)).await?)
            }
            Operation::Set {
                who,
                request,
                ttl,
                reentrant,
            } => {
                let keys = Keys::new((0..MUTEXES).map(key).collect()).unwrap();
                let mut acquire =
                    AcquireAll::new(keys, holder(who), self::ttl(ttl)).request_id(id(request));
                acquire.reentrant = reentrant;
                Answer::Set(leases.acquire_all(acquire).await?)
            }
            Operation::InLine {
                who,
                request,
                key,
                wait,
                gone,
            } => {
                self.waiters.insert((key, who, request));
                let token = format!("token of {who}/{request}/{key}");
                self.calls.renew_token(&token);
                if gone {
                    self.calls.expire_token(&token);
                }
                let queue = Queue {
                    task_token: TaskToken::new(token).unwrap(),
                    wait: WaitTime::new(Duration::from_secs(wait.into())).unwrap(),
                };
                let acquire = self::acquire(key, who, request, 5);
                Answer::Queued(leases.acquire_in_line(acquire, queue).await?)
            }
            Operation::Extend {
                handle,
                ttl,
                require_unexpired,
            } => {
                let Some(lease) = self.handle(handle) else {
                    return Ok(Answer::Nothing);
                };
                let ttl = ttl.map(self::ttl);
                let options = ExtendOptions {
                    ttl,
                    require_unexpired,
                };
                Answer::Extended(leases.extend(lease, options).await?)
            }
            Operation::Release { handle, strict } => match self.handle(handle) {
                None => Answer::Nothing,
                Some(lease) if strict => Answer::Released(leases.release_strictly(lease).await?),
                Some(lease) => Answer::Released(leases.release(lease).await?),
            },
            Operation::Sweep => Answer::Swept(leases.sweep(SweepBounds::Schedule).await?),
            Operation::HandOver { key } => {
                Answer::HandedOver(leases.hand_over(&self::key(key)).await?)
            }
            Operation::Reap { who, how } => {
                let who = holder(who);
                let now = self.clock.now();
                self.calls.set_execution(who.as_str(), stands(how, now));
                Answer::Reaped(leases.reap(&who).await?)
            }
            Operation::Inspect { key } => Answer::Inspected(leases.inspect(&self::key(key)).await?),
            Operation::Freeze { .. }
            | Operation::Unfreeze { .. }
            | Operation::ForceRelease { .. }
            | Operation::RaiseFloor { .. } => return self.operate(operation).await,
            _ => {
                self.beside(operation).await;
                Answer::Nothing
            }
        })
    }

    async fn operate(&self, operation: &Operation) -> Result<Answer, Error> {
        let leases = &self.leases;
        Ok(match *operation {
            Operation::Freeze { key } => {
                Answer::Frozen(leases.freeze(&self::key(key), &because()).await?)
            }
            Operation::Unfreeze { key } => {
                Answer::Unfrozen(leases.unfreeze(&self::key(key), &because()).await?)
            }
            Operation::ForceRelease { key } => {
                let (key, because) = (self::key(key), because());
                let forced = leases.force_release(&key, Evict::default(), &because).await;
                Answer::Forced(forced?)
            }
            Operation::RaiseFloor { key, above } => {
                let token = match self.stands(key).await {
                    Stored::Row(row) => row.fencing_token.get(),
                    _ => self.clock.now().as_millis(),
                };
                let floor = Counter::new(token.saturating_add_signed(above.into()).max(1)).unwrap();
                Answer::Raised(
                    leases
                        .raise_floor(&self::key(key), Some(floor), &because())
                        .await?,
                )
            }
            _ => unreachable!("no operator's"),
        })
    }

    /// What is no call of the library's.
    async fn beside(&self, operation: &Operation) {
        match *operation {
            Operation::Pass { seconds } => self.clock.advance(Duration::from_secs(seconds.into())),
            Operation::JumpBack { seconds } => {
                let back = Duration::from_secs(seconds.into());
                self.clock.set(self.clock.now().minus(back));
            }
            Operation::Delete { key } => self.bench.delete(&address(key)).await,
            Operation::Tamper {
                key,
                attribute,
                value,
            } => {
                let (name, value) = (ATTRIBUTES[usize::from(attribute)], strange(value));
                if let Stored::Row(row) = self.stands(key).await
                    && is_writable(name, value.as_ref())
                {
                    let mut item = row.to_item();
                    match value {
                        Some(value) => drop(item.insert(name.to_owned(), value)),
                        None => drop(item.remove(name)),
                    }
                    self.bench.put(&address(key), item).await;
                }
            }
            _ => unreachable!("a call"),
        }
    }
}

pub fn key(n: u8) -> Key {
    Key::new(format!("key {n}")).unwrap()
}

fn address(key: u8) -> Address {
    Address {
        key: self::key(key),
        permit: 0,
    }
}

fn ttl(seconds: u8) -> Ttl {
    Ttl::new(Duration::from_secs(seconds.into())).unwrap()
}

fn id(request: u8) -> RequestId {
    RequestId::new(format!("r{request}")).unwrap()
}

fn acquire(key: u8, who: u8, request: u8, ttl: u8) -> Acquire {
    Acquire::new(self::key(key), holder(who), self::ttl(ttl)).request_id(id(request))
}

fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("o").unwrap(),
        why: Reason::new("why").unwrap(),
    }
}

/// The same row, with one name for all requests that were nobody's: what operators grant has a random one.
fn named(mut row: Row) -> Row {
    let known: Vec<_> = (0..HOLDERS)
        .flat_map(|who| (0..REQUESTS).map(move |request| digest(who, request)))
        .collect();
    let requests = row.past_requests.iter_mut().flatten();
    for request in requests.chain([&mut row.request]) {
        if !known.contains(request) {
            *request = digest(HOLDERS, REQUESTS);
        }
    }
    row
}
