//! Functions at work: one future each, which goes a step whenever it is let.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    oracle::SKEW,
    schedule::one_in,
    shared::{DeliveryFault, Skewed},
    step_functions::FaultyStepFunctions,
    store::FaultyStore,
    workflow::{AcquireKind, Workflow},
    world::{LIFE, Simulation},
};
use leasehold::{
    Acquire, AcquireAll, Acquired, AcquiredAll, AuditReason, Error, ExtendOptions, ExtendedAll,
    ForceReleaseOptions, Key, Keys, LeaseSet, Leases, Lifetime, Operator, Permits, Queue, Queued,
    Reason, ReleasedAll, SweepBounds, TaskToken, Timestamp, Wait,
    row::{Row, Stored, Term},
};

pub struct Task {
    pub name: String,
    pub purpose: TaskKind,
    pub since: u64,
    /// Which keys its calls were for that met mishaps.
    met: Vec<Option<Key>>,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

/// What a workflow's function is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Ask,
    Extend,
    Release,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TaskKind {
    /// For this workflow, by its n-th call.
    For(usize, What, u32),
    HandOver,
    Reap(usize),
    /// With what was due when it set out, by key, and from when on it may begin nothing more.
    Sweep(Vec<(Key, Stored)>, u64),
    Operate,
}

pub enum Answer {
    Queued(Result<Queued, Error>),
    Acquired(Result<Acquired, Error>),
    AcquiredAll(Result<AcquiredAll, Error>),
    Extended(Result<ExtendedAll, Error>),
    Released(Result<ReleasedAll, Error>),
    Done(Result<(), Error>),
    /// It did not end.
    Died,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Freeze,
    Unfreeze,
    Evict,
    RaiseFloor,
}

impl Simulation {
    /// How far somebody's clock is ahead: often as far as one can be, either way.
    pub fn ahead(&mut self) -> i64 {
        if !self.clocks_differ {
            return 0;
        }
        let most = i64::try_from(SKEW).expect("small") - 1;
        let between = i64::try_from(self.rng.u64(0..=2 * SKEW - 2)).expect("small") - most;
        [-most, most, between][self.rng.usize(..3)]
    }

    fn leases(&mut self) -> Leases<FaultyStore> {
        let ahead = self.ahead();
        Leases::new(self.table(), self.settings)
            .with_clock(Arc::new(Skewed(self.shared.clone(), ahead)))
    }

    /// One that is mute calls nobody.
    fn queue(&mut self, mute: bool) -> Queue<FaultyStore> {
        let leases = self.leases();
        let stale = if mute {
            0
        } else {
            self.rng.u64(0..=self.stale)
        };
        let shared = self.shared.clone();
        leases.with_engine(Arc::new(FaultyStepFunctions { shared, stale }))
    }

    fn spawn(
        &mut self,
        name: String,
        purpose: TaskKind,
        future: impl Future<Output = Answer> + 'static,
    ) {
        let since = self.shared.get().now;
        self.tasks.push(Task {
            name,
            purpose,
            since,
            met: Vec::new(),
            future: Box::pin(future),
        });
    }

    pub fn start(&mut self, who: usize, what: What) {
        let workflow = &self.workflows[who];
        let mute = workflow.mute && what != What::Ask;
        let name = format!("{} {what:?}", workflow.name);
        let purpose = TaskKind::For(who, what, workflow.calls);
        let wants = workflow.wants.clone();
        let (holder, request_id) = (workflow.holder.clone(), workflow.request_id.clone());
        let lifetime = match workflow.wants {
            AcquireKind::Queued(_) => Lifetime::Execution {
                keep: workflow.keep,
            },
            _ => workflow.ttl.into(),
        };
        let (wait, held) = (queue_of(workflow), LeaseSet::new(workflow.leases.clone()));
        let queue = self.queue(mute);
        let ask = move |key| Acquire::new(key, holder, lifetime).request_id(request_id);
        self.spawn(name, purpose, async move {
            match (what, wants) {
                (What::Ask, AcquireKind::Queued(key)) => {
                    Answer::Queued(queue.acquire_queued(ask(key), wait).await)
                }
                (What::Ask, AcquireKind::AtOnce(key)) => {
                    Answer::Acquired(queue.acquire(ask(key)).await)
                }
                (What::Ask, AcquireKind::Permit(key, of)) => {
                    let permits = Permits::new(of).expect("valid");
                    Answer::Acquired(queue.acquire(ask(key).permits(permits)).await)
                }
                (What::Ask, AcquireKind::All(keys)) => {
                    let one = ask(keys[0].clone());
                    let keys = Keys::new(keys).expect("valid");
                    let mut all = AcquireAll::new(keys, one.holder, one.lifetime);
                    all.request_id = one.request_id;
                    Answer::AcquiredAll(queue.acquire_all(all).await)
                }
                (What::Extend, _) => {
                    let (held, options) = (held.expect("leases"), ExtendOptions::default());
                    Answer::Extended(if mute {
                        Leases::extend_all(&queue, &held, options).await
                    } else {
                        queue.extend_all(&held, options).await
                    })
                }
                (What::Release, _) => {
                    let held = held.expect("leases");
                    Answer::Released(if mute {
                        Leases::release_all(&queue, &held).await
                    } else {
                        queue.release_all(&held).await
                    })
                }
            }
        });
    }

    pub fn sweep(&mut self) {
        let mut queue = self.queue(false);
        // One with a deadline stays for what is due.
        let mut until = u64::MAX;
        if one_in(&mut self.rng, 2) {
            queue = queue.for_call(queue.now().plus(Duration::from_millis(LIFE)));
            until = self.shared.get().now + LIFE - 1_000;
        }
        let due = self.due();
        self.spawn("sweep".into(), TaskKind::Sweep(due, until), async move {
            Answer::Done(queue.sweep(SweepBounds::Schedule).await.map(drop))
        });
    }

    pub fn hand_over(&mut self, key: Key) {
        let queue = self.queue(false);
        self.spawn("hand over".into(), TaskKind::HandOver, async move {
            Answer::Done(queue.hand_over(&key).await.map(drop))
        });
    }

    pub fn reap(&mut self, who: usize) {
        let queue = self.queue(false);
        let holder = self.workflows[who].holder.clone();
        let name = format!("reap {}", self.workflows[who].name);
        self.spawn(name, TaskKind::Reap(who), async move {
            Answer::Done(queue.reap(&holder).await.map(drop))
        });
    }

    pub fn operate(&mut self, key: Key, command: Command) {
        let leases = self.leases();
        self.spawn(format!("{command:?}"), TaskKind::Operate, async move {
            let because = AuditReason {
                who: Operator::new("operator").expect("valid"),
                why: Reason::new("because").expect("valid"),
            };
            Answer::Done(match command {
                Command::Freeze => leases.freeze(&key, &because).await.map(drop),
                Command::Unfreeze => leases.unfreeze(&key, &because).await.map(drop),
                Command::Evict => {
                    let which = ForceReleaseOptions {
                        permit: Some(0),
                        fencing_token: None,
                    };
                    leases.force_release(&key, which, &because).await.map(drop)
                }
                Command::RaiseFloor => match leases.raise_floor(&key, None, &because).await {
                    // Somebody has it, or is about to.
                    Ok(_) | Err(Error::Held(_) | Error::Unavailable { .. }) => Ok(()),
                    Err(error) => Err(error),
                },
            })
        });
    }

    /// A function takes one step, and a fault may occur there.
    pub fn step(&mut self, place: usize, fault: Option<DeliveryFault>) {
        let task = &mut self.tasks[place];
        {
            let mut shared = self.shared.get();
            shared.actor.clone_from(&task.name);
            shared.turn = true;
            shared.sleeps_until = None;
            shared.fault = fault;
        }
        let polled = task
            .future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        {
            let mut shared = self.shared.get();
            shared.fault = None;
            task.met.append(&mut shared.met);
        }
        // The notified workflow continues first: its function's own answer comes later.
        let results = std::mem::take(&mut self.shared.get().results);
        for (who, result) in results {
            self.task_ended(who, result);
        }
        if let Poll::Ready(answer) = polled {
            let task = self.tasks.remove(place);
            if let TaskKind::Sweep(due, until) = &task.purpose
                && self.shared.get().now < *until
            {
                self.left_lying(due, &task.met);
            }
            self.done(task.purpose, answer);
        }
    }

    /// A function dies where it is.
    pub fn kill(&mut self, place: usize) {
        let task = self.tasks.remove(place);
        let mut shared = self.shared.get();
        shared.actor.clone_from(&task.name);
        shared.note(|| "dies".into());
        drop(shared);
        self.done(task.purpose, Answer::Died);
    }

    /// What sweep must now handle by any clock: expired leases, and free rows that somebody waits for.
    fn due(&self) -> Vec<(Key, Stored)> {
        let now = self.shared.get().now;
        let past = |at: Timestamp, margin| at.plus(margin).as_millis() + SKEW <= now;
        let margin = self.settings.clock_margin;
        let over = |row: &Row| match row.holding() {
            Some(held) if matches!(held.term, Term::Execution { .. }) => false,
            Some(held) => past(held.expires_at(), margin),
            None => row.head().is_some(),
        };
        let index = self.index();
        let due = |(key, stored): &(Key, Stored)| match stored {
            Stored::Row(row) => row.frozen.is_none() && over(row) && index.contains(key),
            _ => false,
        };
        let rows = self.keys.iter().map(|key| (key.clone(), self.row(key)));
        rows.filter(due).collect()
    }

    /// A sweep that had time handles everything that is due, except where it met a fault: none of it is as it was.
    fn left_lying(&mut self, due: &[(Key, Stored)], met: &[Option<Key>]) {
        for (key, stood) in due {
            let hindered = met.contains(&None) || met.contains(&Some(key.clone()));
            if !hindered && self.row(key) == *stood {
                let problem = format!("sweep has left {key} as it was");
                self.shared.get().wrong(problem);
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "its answer is used up")]
    fn done(&mut self, purpose: TaskKind, answer: Answer) {
        let ill = !matches!(answer, Answer::Done(Ok(())));
        if let Answer::Done(Err(error)) = &answer {
            self.passing(error);
        }
        match purpose {
            TaskKind::For(who, what, attempt) => self.on_response(who, what, attempt, answer),
            // What failed is sent again.
            TaskKind::Reap(who) if ill => self.ends.push(who),
            _ => {}
        }
    }
}

fn queue_of(workflow: &Workflow) -> Wait {
    let token = workflow.token.clone().unwrap_or_else(|| "none".into());
    Wait {
        task_token: TaskToken::new(token).expect("valid"),
        wait: workflow.wait,
        latest: false,
    }
}
