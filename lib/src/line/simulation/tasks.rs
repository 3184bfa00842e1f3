//! Functions at work: one future each, which goes a step whenever it is let.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    calls::Calls,
    ground::{EndOf, Mishap, Skewed},
    steps::Steps,
    witness::SKEW,
    workflow::Workflow,
    world::World,
};
use crate::{
    Acquire, Because, Evict, ExtendOptions, Operator, Queue, Reason, SweepBounds, TaskToken,
    error::Error, leases::Leases, line::Queued, outcomes, values::Key,
};

pub(super) struct Task {
    pub(super) name: String,
    pub(super) purpose: Purpose,
    pub(super) since: u64,
    pub(super) about: String,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

/// What a workflow's function is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Ask,
    Extend,
    Release,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For this workflow, in its n-th attempt.
    For(usize, What, u32),
    HandOver(Key),
    Reap(usize, EndOf),
    Sweep,
    Operate,
}

pub(super) enum Answer {
    Queued(Result<Queued, Error>),
    Acquired(Result<outcomes::Acquired, Error>),
    Extended(Result<outcomes::Extended, Error>),
    Released(Result<outcomes::Released, Error>),
    Done(Result<(), Error>),
    /// It came to no end.
    Died,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Freeze,
    Unfreeze,
    Evict,
}

impl World {
    fn leases(&mut self, mute: bool) -> Leases<Steps> {
        let ahead = if self.clocks_differ {
            i64::try_from(self.dice.among(0, 2 * SKEW - 2)).expect("small")
                - i64::try_from(SKEW).expect("small")
                + 1
        } else {
            0
        };
        let store = Steps {
            memory: self.memory.clone(),
            ground: self.ground.clone(),
        };
        let leases = Leases::new(store, self.settings)
            .with_clock(Arc::new(Skewed(self.ground.clone(), ahead)));
        if mute {
            leases
        } else {
            leases.with_workflows(Arc::new(Calls(self.ground.clone())))
        }
    }

    fn spawn(
        &mut self,
        name: String,
        purpose: Purpose,
        future: impl Future<Output = Answer> + 'static,
    ) {
        let since = self.ground.get().now;
        self.tasks.push(Task {
            name,
            purpose,
            since,
            about: String::new(),
            future: Box::pin(future),
        });
    }

    pub(super) fn start(&mut self, who: usize, what: What) {
        let workflow = &self.workflows[who];
        let (mute, in_line) = (workflow.mute, workflow.in_line);
        let name = format!("{} {what:?}", workflow.name);
        let purpose = Purpose::For(who, what, workflow.attempts);
        let (acquire, queue, lease) = (
            asked_by(workflow),
            queue_of(workflow),
            workflow.lease.clone(),
        );
        let leases = self.leases(mute && what != What::Ask);
        self.spawn(name, purpose, async move {
            match (what, lease) {
                (What::Ask, _) if in_line => {
                    Answer::Queued(leases.acquire_in_line(acquire, queue).await)
                }
                (What::Ask, _) => Answer::Acquired(leases.acquire(acquire).await),
                (What::Extend, Some(lease)) => {
                    Answer::Extended(leases.extend(&lease, ExtendOptions::default()).await)
                }
                (What::Release, Some(lease)) => Answer::Released(leases.release(&lease).await),
                (_, None) => Answer::Died,
            }
        });
    }

    pub(super) fn sweep(&mut self) {
        let leases = self.leases(false);
        self.spawn("sweep".into(), Purpose::Sweep, async move {
            Answer::Done(leases.sweep(SweepBounds::Schedule).await.map(drop))
        });
    }

    pub(super) fn hand_over(&mut self, key: Key) {
        let leases = self.leases(false);
        let purpose = Purpose::HandOver(key.clone());
        self.spawn("grant".into(), purpose, async move {
            Answer::Done(leases.hand_over(&key).await.map(drop))
        });
    }

    pub(super) fn reap(&mut self, who: usize, end: EndOf) {
        let leases = self.leases(false);
        let holder = self.workflows[who].holder.clone();
        let name = format!("reap {}", self.workflows[who].name);
        self.spawn(name, Purpose::Reap(who, end), async move {
            Answer::Done(leases.reap(&holder).await.map(drop))
        });
    }

    pub(super) fn operate(&mut self, key: Key, order: Order) {
        let leases = self.leases(true);
        self.spawn(format!("{order:?}"), Purpose::Operate, async move {
            let because = Because {
                who: Operator::new("operator").expect("valid"),
                why: Reason::new("because").expect("valid"),
            };
            Answer::Done(match order {
                Order::Freeze => leases.freeze(&key, &because).await.map(drop),
                Order::Unfreeze => leases.unfreeze(&key, &because).await.map(drop),
                Order::Evict => {
                    let which = Evict::default();
                    leases.force_release(&key, which, &because).await.map(drop)
                }
            })
        });
    }

    /// A function goes one step, and something may befall it there.
    pub(super) fn step(&mut self, place: usize, mishap: Option<Mishap>) {
        let task = &mut self.tasks[place];
        {
            let mut ground = self.ground.get();
            ground.actor.clone_from(&task.name);
            ground.mishap = mishap;
        }
        let polled = task
            .future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        {
            let mut ground = self.ground.get();
            ground.mishap = None;
            task.about.clone_from(&ground.about);
        }
        // What was called back goes on first: its function's own answer comes after.
        let told = std::mem::take(&mut self.ground.get().told);
        for (who, told) in told {
            self.told(who, told);
        }
        if let Poll::Ready(answer) = polled {
            let task = self.tasks.remove(place);
            self.done(task.purpose, answer);
        }
    }

    /// A function dies where it is.
    pub(super) fn kill(&mut self, place: usize) {
        let task = self.tasks.remove(place);
        let mut ground = self.ground.get();
        ground.actor.clone_from(&task.name);
        ground.note(|| "dies".into());
        drop(ground);
        self.done(task.purpose, Answer::Died);
    }

    fn done(&mut self, purpose: Purpose, answer: Answer) {
        let ill = !matches!(answer, Answer::Done(Ok(())));
        if let Answer::Done(Err(error)) = &answer {
            self.passing(error);
        }
        match purpose {
            Purpose::For(who, what, attempt) => self.hears(who, what, attempt, answer),
            // What failed is sent again.
            Purpose::HandOver(key) if ill => self.ground.get().records.push(key),
            Purpose::Reap(who, end) if ill => self.ends.push((who, end)),
            _ => {}
        }
    }
}

fn asked_by(workflow: &Workflow) -> Acquire {
    Acquire::new(workflow.key.clone(), workflow.holder.clone(), workflow.ttl)
        .request_id(workflow.request_id.clone())
}

fn queue_of(workflow: &Workflow) -> Queue {
    let token = workflow.token.clone().unwrap_or_else(|| "none".into());
    Queue {
        task_token: TaskToken::new(token).expect("valid"),
        wait: workflow.wait,
    }
}
