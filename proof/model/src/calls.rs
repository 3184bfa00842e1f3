//! The library's own functions, as they are called in a world.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use dashmap::DashMap;
use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, AtLeast, AuditReason, Counter, Error,
    ExtendOptions, ForceReleaseOptions, IfHeld, KeepTime, Key, Keys, Lease, LeaseId, LeaseSet,
    Leases, Lifetime, LimitedTo, Operator, PassLease, Permits, Queue, Reason, ResultTo, Settings,
    Start, StartRules, Started, SweepBounds, Timestamp, Ttl, Wait, WaitTime,
};

use super::{
    library::{Call, CallNo, Handle, LeaseNo, Numbered, Outcome},
    names::{self, Input, Tick, Who},
    scope::{Held, Kind, Scope},
    seam::{Answer, Ask, Seam},
};

/// Who calls the library: with the handles that it has given.
pub struct Callers {
    scope: Scope,
    leases: Numbered<(LeaseId, Counter, u16)>,
    handles: DashMap<Handle, Lease>,
}

/// A call under way, up to what it asks next.
pub struct Running {
    future: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    seam: Seam,
    after: Duration,
}

impl Running {
    pub fn begin(
        callers: &Arc<Callers>,
        number: CallNo,
        (call, begun, has_floor): (Call, Tick, bool),
    ) -> (Self, Result<Ask, Outcome>) {
        let seam = Seam::new(format!("s{number}"), callers.scope.watches);
        // Of two calls of one execution the later one has the later time.
        let after = match call {
            Call::Acquire(_, _, token) | Call::Start(_, token, _) => {
                Duration::from_millis(token.into())
            }
            _ => Duration::from_millis(900),
        };
        let future = Box::pin(callers.clone().run(call, has_floor, seam.clone()));
        let mut running = Self {
            future,
            seam,
            after,
        };
        let next = running.goes_on(begun);
        (running, next)
    }

    /// What it asks next, or what it comes to.
    pub fn answered(&mut self, at: Tick, answer: Answer) -> Result<Ask, Outcome> {
        self.seam.get().answers.push(answer);
        self.goes_on(at)
    }

    fn goes_on(&mut self, at: Tick) -> Result<Ask, Outcome> {
        self.seam.get().now = Some(names::instant(at).plus(self.after));
        let (mut asked, mut still) = (usize::MAX, 0);
        while still < 3 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(outcome) = self.future.as_mut().poll(&mut context) {
                return Err(outcome);
            }
            let now = self.seam.get().asked.len();
            still = if now == asked { still + 1 } else { 0 };
            asked = now;
        }
        let log = self.seam.get();
        Ok(log.asked[log.answers.len()].clone())
    }
}

impl Callers {
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            leases: Numbered::new(),
            handles: DashMap::new(),
        }
    }

    /// By its token and its permit too: a call draws the same ids whatever it finds.
    pub fn lease_no(&self, id: &LeaseId, token: Counter, permit: u16) -> LeaseNo {
        LeaseNo::try_from(self.leases.of(&(id.clone(), token, permit))).expect("fewer than that")
    }

    pub fn is_lease(&self, lease: LeaseNo, id: &LeaseId) -> bool {
        self.leases.get(lease.into()).0 == *id
    }

    pub fn token_of(&self, lease: LeaseNo) -> u64 {
        self.leases.get(lease.into()).1.get()
    }

    pub fn has_handle(&self, lease: Handle) -> bool {
        self.handles.contains_key(&lease)
    }

    pub fn has(&self, lease: Lease) -> Handle {
        let number = self.lease_no(&lease.lease_id, lease.fencing_token, lease.permit);
        let handle = (number, lease.pool.as_ref().map(|_| number));
        self.handles.entry(handle).or_insert(lease);
        handle
    }

    fn handle(&self, lease: Handle) -> Lease {
        self.handles.get(&lease).expect("somebody was told").clone()
    }

    async fn run(self: Arc<Self>, call: Call, has_floor: bool, seam: Seam) -> Outcome {
        let mut settings = Settings::default();
        settings.clock_margin = length(self.scope.margin);
        settings.reap_grace = names::TICK;
        settings.look = names::TICK;
        settings.queue_cap = self.scope.most_wait;
        // Only more can happen than with it.
        settings.first_call = Duration::ZERO;
        if has_floor {
            settings.token_floor = names::floor();
        }
        let leases = Leases::new(seam.clone(), settings).with_clock(Arc::new(seam.clone()));
        let starts = StartRules::of(names::machine().as_str()).expect("valid");
        let queue = leases.clone().with_engine(Arc::new(seam.clone()));
        let queue = queue.with_starts(starts);
        match call {
            Call::Acquire(who, attempt, token) => self.acquire(&queue, who, attempt, token).await,
            Call::Release(_, lease, _) => or_failed(&queue.release(&self.handle(lease)).await),
            Call::Nests(who, n, as_its_own) => self.nests(&queue, who, n, as_its_own).await,
            Call::Prove(_, lease, _) => {
                let options = ExtendOptions::default();
                match queue.extend(&self.handle(lease), options).await {
                    Ok(_) => Outcome::Done,
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Sweep(_) => or_failed(&queue.sweep(SweepBounds::Schedule).await),
            Call::Reap(who, _) => or_failed(&queue.reap(&names::holder(who)).await),
            Call::Limit(_, key, none) => {
                let limit = none.then(|| LimitedTo::new(0).expect("valid"));
                or_failed(&queue.limit_to(&names::key(key), limit, &because()).await)
            }
            Call::Freeze(_, key, on) => {
                let key = names::key(key);
                or_failed(&if on {
                    queue.freeze(&key, &because()).await.map(drop)
                } else {
                    queue.unfreeze(&key, &because()).await.map(drop)
                })
            }
            Call::Evict(_, key) => {
                let which = ForceReleaseOptions {
                    permit: Some(0),
                    fencing_token: None,
                };
                or_failed(
                    &queue
                        .force_release(&names::key(key), which, &because())
                        .await,
                )
            }
            call @ (Call::Ask(..) | Call::Extend(..) | Call::Return(..)) => {
                self.of_program(&queue, &leases, call, &seam).await
            }
            Call::Start(who, n, input) => of_a_start(&queue.start(self.start(who, n, input)).await),
            Call::Repeat(who, _) => {
                let (key, execution) = (self.key_of(who), names::holder(who));
                of_a_start(&queue.repeat_start(&key, &execution).await)
            }
            Call::Dismiss(who, _) => {
                let (key, execution) = (self.key_of(who), names::holder(who));
                or_failed(&queue.dismiss_start(&key, &execution).await)
            }
            Call::Begin(who, _) => {
                let (key, execution) = (self.key_of(who), names::holder(who));
                or_failed(&queue.begin_start(&key, &execution).await)
            }
            Call::Redriven(who, _) => or_failed(&queue.redriven(&names::holder(who)).await),
        }
    }

    async fn of_program(
        &self,
        queue: &Queue<Seam>,
        leases: &Leases<Seam>,
        call: Call,
        seam: &Seam,
    ) -> Outcome {
        match call {
            Call::Ask(who, attempt, ..) if self.takes_two(who) => {
                let ttl = Ttl::new(length(self.scope.ttl)).expect("valid");
                let keys = Keys::new(vec![names::key(0), names::key(1)]).expect("two");
                let mut acquire = AcquireAll::new(keys, names::holder(who), ttl);
                acquire.request_id = names::request_id(attempt);
                match queue.acquire_all(acquire).await {
                    Ok(AcquiredAll::Granted(granted)) => self.until_all(seam, granted.leases),
                    Ok(AcquiredAll::Held(held)) => {
                        Outcome::Held(held.held.version.get(), held.held.fencing_token.get())
                    }
                    Err(Error::Consumed { .. }) => Outcome::Consumed,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Extend(who, both, _) if self.takes_two(who) => {
                match queue
                    .extend_all(&self.both(both), ExtendOptions::default())
                    .await
                {
                    Ok(extended) => self.until_all(seam, extended.leases),
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Return(who, both, _) if self.takes_two(who) => {
                match queue.release_all(&self.both(both)).await {
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    released => or_failed(&released),
                }
            }
            Call::Ask(who, attempt, _, observed) => {
                let ttl = Ttl::new(length(self.scope.ttl)).expect("valid");
                let acquire = Acquire::new(names::key(0), names::holder(who), ttl);
                let mut acquire = acquire.request_id(names::request_id(attempt));
                acquire.observed_version = observed.map(names::version);
                match leases.acquire(acquire).await {
                    Ok(Acquired::Granted(granted)) => self.until(seam, granted.lease),
                    Ok(Acquired::Held(held)) => {
                        Outcome::Held(held.held.version.get(), held.held.fencing_token.get())
                    }
                    Err(Error::Consumed { .. }) => Outcome::Consumed,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Extend(_, lease, _) => {
                let options = ExtendOptions::default();
                match leases.extend(&self.handle((lease.0, None)), options).await {
                    Ok(extended) => self.until(seam, extended.into_lease()),
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    Err(_) => Outcome::Failed,
                }
            }
            Call::Return(_, lease, _) => {
                match leases.release(&self.handle((lease.0, None))).await {
                    Err(Error::Lost { .. }) => Outcome::Lost,
                    released => or_failed(&released),
                }
            }
            _ => Outcome::Failed,
        }
    }

    async fn nests(&self, queue: &Queue<Seam>, who: Who, n: u8, as_its_own: bool) -> Outcome {
        let keep = KeepTime::default();
        let section = Acquire::new(
            self.key_of(who),
            names::holder(who),
            Lifetime::Execution { keep },
        );
        let section = section.request_id(names::request_id(n)).reentrant();
        match queue.acquire(section).await {
            Ok(Acquired::Granted(mut granted)) => {
                granted.lease.reentered &= !as_its_own;
                or_failed(&queue.release(&granted.lease).await)
            }
            _ => Outcome::Failed,
        }
    }

    async fn acquire(&self, queue: &Queue<Seam>, who: Who, attempt: u8, token: u8) -> Outcome {
        let keep = self.scope.keep[usize::from(who)];
        let keep = KeepTime::new(length(keep)).expect("short");
        let lifetime = match self.scope.kinds[usize::from(who)] {
            Kind::Queued => Ttl::new(length(self.scope.ttl)).expect("valid").into(),
            _ => Lifetime::Execution { keep },
        };
        let acquire = Acquire::new(self.key_of(who), names::holder(who), lifetime);
        let wait = Wait {
            task_token: names::token(who, token),
            wait: WaitTime::new(length(self.scope.wait)).expect("short"),
            latest: self.scope.latest,
        };
        let mut acquire = acquire.request_id(names::request_id(attempt));
        acquire.at_least = AtLeast::new(length(self.scope.at_least)).expect("short");
        acquire.permits = self.scope.permits.map(|n| Permits::new(n).expect("few"));
        acquire.pool = self.scope.pool.map(names::pool);
        match queue.acquire_queued(acquire, wait).await {
            Ok(_) => Outcome::Done,
            Err(Error::Consumed { .. }) => Outcome::Consumed,
            Err(_) => Outcome::Failed,
        }
    }

    pub fn key_of(&self, who: Who) -> Key {
        names::key(self.scope.keys[usize::from(who)])
    }

    fn start(&self, who: Who, n: u8, input: Input) -> Start {
        let scope = &self.scope;
        let mut start = Start::new(self.key_of(who), names::machine(), names::name(who));
        let wait = WaitTime::new(length(scope.wait)).expect("short");
        start.input = names::input(input);
        start.if_held = match scope.kinds[usize::from(who)] {
            Kind::Start(Held::Latest) => IfHeld::Latest(wait),
            Kind::Start(Held::Replace) => IfHeld::Replace(wait),
            Kind::Start(Held::Skip) => IfHeld::Skip,
            Kind::Start(Held::Fail) => IfHeld::Fail,
            _ => IfHeld::Wait(wait),
        };
        start.permits = scope.permits.map(|n| Permits::new(n).expect("few"));
        start.pool = scope.pool.map(names::pool);
        start.result_to = scope.results.then(|| ResultTo {
            task_token: names::result_token(who, n),
            caller: names::holder(names::CALLERS + who),
            stop_with_caller: scope.stops,
        });
        start.at_least = AtLeast::new(length(scope.at_least)).expect("short");
        let keep = length(scope.keep[usize::from(who)]);
        start.keep = KeepTime::new(keep).expect("short");
        if scope.passes {
            start.pass_lease = PassLease::Handle;
        }
        start
    }

    /// A lease with a deadline, and the tick in which nobody believes in it any more.
    fn until(&self, seam: &Seam, mut lease: Lease) -> Outcome {
        lease.lease_id = seam.get().known(&lease.lease_id);
        let until = tick(lease.safe_until());
        Outcome::Has(self.has(lease), until)
    }

    /// The same of two keys.
    fn until_all(&self, seam: &Seam, leases: Vec<Lease>) -> Outcome {
        let mut all = leases.into_iter().map(|lease| self.until(seam, lease));
        match (all.next(), all.next()) {
            (Some(Outcome::Has((first, _), until)), Some(Outcome::Has((second, _), other))) => {
                Outcome::Has((first, Some(second)), until.min(other))
            }
            _ => Outcome::Failed,
        }
    }

    fn both(&self, (first, second): Handle) -> LeaseSet {
        let all = [Some(first), second].into_iter().flatten();
        let all = all.map(|lease| self.handle((lease, None)));
        LeaseSet::new(all.collect()).expect("one or two")
    }

    fn takes_two(&self, who: Who) -> bool {
        let kind = self.scope.kinds.get(usize::from(who));
        // Who asks only whether it could have the keys asks for what the others do.
        *kind.unwrap_or(&self.scope.kinds[0]) == Kind::Set
    }
}

fn because() -> AuditReason {
    AuditReason {
        who: Operator::new("operator").expect("valid"),
        why: Reason::new("because").expect("valid"),
    }
}

fn or_failed<T>(done: &Result<T, Error>) -> Outcome {
    match done {
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::Failed,
    }
}

fn of_a_start(answer: &Result<Started, Error>) -> Outcome {
    match answer {
        Ok(Started::Started { .. }) => Outcome::Begun,
        Ok(Started::Queued { .. }) => Outcome::Queued,
        Ok(Started::Skipped { .. } | Started::Superseded { .. }) => Outcome::Settled,
        Err(Error::NotStarted { .. }) => Outcome::NotStarted,
        Err(Error::Invalid { .. }) => Outcome::AnotherInput,
        Err(_) => Outcome::Failed,
    }
}

fn length(ticks: Tick) -> Duration {
    names::TICK * u32::from(ticks.unsigned_abs())
}

/// The first tick that begins later.
pub fn tick(at: Timestamp) -> Tick {
    names::tick(at) + 1
}
