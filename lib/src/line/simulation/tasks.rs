//! Functions at work: one future each, which goes a step whenever it is let.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    calls::Calls,
    ground::{Mishap, Skewed},
    steps::Steps,
    witness::SKEW,
    workflow::{Wants, Workflow},
    world::World,
};
use crate::{
    Acquire, AcquireAll, AuditReason, Evict, ExtendOptions, Keys, Operator, Permits, Queue, Reason,
    SweepBounds, TaskToken,
    clock::Timestamp,
    error::Error,
    leases::Leases,
    line::Queued,
    outcomes,
    row::{Row, Stored},
    sets::{AcquiredAll, ExtendedAll, LeaseSet, ReleasedAll},
    values::{Counter, Key},
};

pub(super) struct Task {
    pub(super) name: String,
    pub(super) purpose: Purpose,
    pub(super) since: u64,
    pub(super) about: String,
    /// Which keys its calls were for that met mishaps.
    met: Vec<Option<Key>>,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

/// What a workflow's function is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Ask,
    Extend,
    Release,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Purpose {
    /// For this workflow, by its n-th call.
    For(usize, What, u32),
    HandOver(Key),
    Reap(usize),
    /// With what was due when it set out, by key.
    Sweep(Vec<(Key, Stored)>),
    Operate,
}

pub(super) enum Answer {
    Queued(Result<Queued, Error>),
    Acquired(Result<outcomes::Acquired, Error>),
    AcquiredAll(Result<AcquiredAll, Error>),
    Extended(Result<ExtendedAll, Error>),
    Released(Result<ReleasedAll, Error>),
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
    RaiseFloor,
}

impl World {
    /// How far somebody's clock is ahead: often as far as one can be, either way.
    pub(super) fn ahead(&mut self) -> i64 {
        if !self.clocks_differ {
            return 0;
        }
        let most = i64::try_from(SKEW).expect("small") - 1;
        let between = i64::try_from(self.dice.among(0, 2 * SKEW - 2)).expect("small") - most;
        [-most, most, between][self.dice.place(3)]
    }

    fn leases(&mut self, mute: bool) -> Leases<Steps> {
        let ahead = self.ahead();
        let leases = Leases::new(self.steps(), self.settings)
            .with_clock(Arc::new(Skewed(self.ground.clone(), ahead)));
        if mute {
            return leases;
        }
        let stale = self.dice.among(0, self.stale);
        let ground = self.ground.clone();
        leases.with_workflows(Arc::new(Calls { ground, stale }))
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
            met: Vec::new(),
            future: Box::pin(future),
        });
    }

    pub(super) fn start(&mut self, who: usize, what: What) {
        let workflow = &self.workflows[who];
        let mute = workflow.mute && what != What::Ask;
        let name = format!("{} {what:?}", workflow.name);
        let purpose = Purpose::For(who, what, workflow.calls);
        let wants = workflow.wants.clone();
        let (holder, ttl, request_id) = (
            workflow.holder.clone(),
            workflow.ttl,
            workflow.request_id.clone(),
        );
        let (queue, held) = (queue_of(workflow), LeaseSet::new(workflow.leases.clone()));
        let leases = self.leases(mute);
        let ask = move |key| Acquire::new(key, holder, ttl).request_id(request_id);
        self.spawn(name, purpose, async move {
            match (what, wants) {
                (What::Ask, Wants::InLine(key)) => {
                    Answer::Queued(leases.acquire_in_line(ask(key), queue).await)
                }
                (What::Ask, Wants::AtOnce(key)) => Answer::Acquired(leases.acquire(ask(key)).await),
                (What::Ask, Wants::Permit(key, of)) => {
                    let permits = Permits::new(of).expect("valid");
                    Answer::Acquired(leases.acquire(ask(key).permits(permits)).await)
                }
                (What::Ask, Wants::All(keys)) => {
                    let one = ask(keys[0].clone());
                    let keys = Keys::new(keys).expect("valid");
                    let all = AcquireAll::new(keys, one.holder, one.ttl);
                    let all = AcquireAll {
                        request_id: one.request_id,
                        ..all
                    };
                    Answer::AcquiredAll(leases.acquire_all(all).await)
                }
                (What::Extend, _) => Answer::Extended(
                    leases
                        .extend_all(&held.expect("leases"), ExtendOptions::default())
                        .await,
                ),
                (What::Release, _) => {
                    Answer::Released(leases.release_all(&held.expect("leases")).await)
                }
            }
        });
    }

    pub(super) fn sweep(&mut self) {
        let leases = self.leases(false);
        let due = self.due();
        self.spawn("sweep".into(), Purpose::Sweep(due), async move {
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

    pub(super) fn reap(&mut self, who: usize) {
        let leases = self.leases(false);
        let holder = self.workflows[who].holder.clone();
        let name = format!("reap {}", self.workflows[who].name);
        self.spawn(name, Purpose::Reap(who), async move {
            Answer::Done(leases.reap(&holder).await.map(drop))
        });
    }

    pub(super) fn operate(&mut self, key: Key, order: Order) {
        let leases = self.leases(true);
        self.spawn(format!("{order:?}"), Purpose::Operate, async move {
            let because = AuditReason {
                who: Operator::new("operator").expect("valid"),
                why: Reason::new("because").expect("valid"),
            };
            Answer::Done(match order {
                Order::Freeze => leases.freeze(&key, &because).await.map(drop),
                Order::Unfreeze => leases.unfreeze(&key, &because).await.map(drop),
                Order::Evict => {
                    let which = Evict {
                        permit: Some(0),
                        fencing_token: None,
                    };
                    leases.force_release(&key, which, &because).await.map(drop)
                }
                Order::RaiseFloor => match leases.raise_floor(&key, None, &because).await {
                    // Somebody has it, or is about to.
                    Ok(_) | Err(Error::Held(_) | Error::Unavailable { .. }) => Ok(()),
                    Err(error) => Err(error),
                },
            })
        });
    }

    /// A function goes one step, and something may befall it there.
    pub(super) fn step(&mut self, place: usize, mishap: Option<Mishap>) {
        let task = &mut self.tasks[place];
        {
            let mut ground = self.ground.get();
            ground.actor.clone_from(&task.name);
            ground.turn = true;
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
            task.met.append(&mut ground.met);
        }
        // What was called back goes on first: its function's own answer comes after.
        let told = std::mem::take(&mut self.ground.get().told);
        for (who, told) in told {
            self.told(who, told);
        }
        if let Poll::Ready(answer) = polled {
            let task = self.tasks.remove(place);
            if let Purpose::Sweep(due) = &task.purpose {
                self.left_lying(due, &task.met);
            }
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

    /// What sweep is to see to now at the latest, whatever clock it goes by: leases that are over, lines
    /// of which nobody was told, and those who were told and do not come.
    fn due(&self) -> Vec<(Key, Stored)> {
        let now = self.ground.get().now;
        let past = |at: Timestamp, margin| at.plus(margin).as_millis() + SKEW <= now;
        let margin = self.settings.clock_margin;
        let over = |row: &Row| match (row.holding(), row.reserved()) {
            (Some(held), _) => past(held.expires_at, margin),
            (None, Some(kept)) if kept.tries == Counter::MIN => past(kept.until, Duration::ZERO),
            (None, Some(kept)) => past(kept.until, margin),
            (None, None) => row.head().is_some(),
        };
        let index = self.index();
        let due = |(key, stored): &(Key, Stored)| match stored {
            Stored::Row(row) => row.frozen.is_none() && over(row) && index.contains(key),
            _ => false,
        };
        let rows = self.keys.iter().map(|key| (key.clone(), self.row(key)));
        rows.filter(due).collect()
    }

    /// A sweep sees to all that is due, but where it met a mishap: none of it is as it was.
    fn left_lying(&mut self, due: &[(Key, Stored)], met: &[Option<Key>]) {
        for (key, stood) in due {
            let hindered = met.contains(&None) || met.contains(&Some(key.clone()));
            if !hindered && self.row(key) == *stood {
                let problem = format!("sweep has left {key} as it was");
                self.ground.get().wrong(problem);
            }
        }
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
            Purpose::Reap(who) if ill => self.ends.push(who),
            _ => {}
        }
    }
}

fn queue_of(workflow: &Workflow) -> Queue {
    let token = workflow.token.clone().unwrap_or_else(|| "none".into());
    Queue {
        task_token: TaskToken::new(token).expect("valid"),
        wait: workflow.wait,
    }
}
