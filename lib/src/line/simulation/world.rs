//! The world: its tables, functions and workflows, its time, and how it comes to rest.

use std::time::Duration;

use super::{
    dice::Dice,
    ground::{Broken, EndOf, Ground, START, Stray},
    steps::Steps,
    tasks::{Order, Purpose, Task, What},
    workflow::{State, Workflow},
};
use crate::{
    line::first_of,
    row::Stored,
    settings::Settings,
    store::{Memory, Part, Store as _},
    values::{Holder, Key, RequestDigest, RequestId, Ttl, WaitTime},
};

pub(super) struct World {
    pub(super) ground: Ground,
    pub(super) memory: Memory,
    pub(super) dice: Dice,
    pub(super) settings: Settings,
    pub(super) clocks_differ: bool,
    /// Nothing goes wrong any more.
    pub(super) calm: bool,
    pub(super) keys: Vec<Key>,
    pub(super) workflows: Vec<Workflow>,
    pub(super) tasks: Vec<Task>,
    /// Status events under way.
    pub(super) ends: Vec<(usize, EndOf)>,
}

/// No function lives longer, nor anything that it has sent: less than anybody has to confirm.
const LIFE: u64 = 10_000;

/// What a new workflow is like.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) key: usize,
    pub(super) ttl: u64,
    pub(super) wait: u64,
    pub(super) in_line: bool,
    pub(super) mute: bool,
    pub(super) ahead: i64,
}

impl World {
    pub(super) fn new(seed: u64, keys: usize, broken: Option<Broken>) -> Self {
        let ground = Ground::default();
        ground.get().now = START;
        ground.get().broken = broken;
        let named = |n| Key::new(format!("key {n}")).expect("valid");
        Self {
            ground,
            memory: Memory::new(),
            dice: Dice::new(seed),
            settings: Settings {
                reap_grace: Duration::from_secs(8),
                ..Settings::default()
            },
            clocks_differ: false,
            calm: false,
            keys: (0..keys).map(named).collect(),
            workflows: Vec::new(),
            tasks: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// One more workflow, about to ask.
    pub(super) fn enter(&mut self, plan: Plan) -> usize {
        let name = format!("w{}", self.workflows.len());
        let holder = Holder::new(format!("execution {name}")).expect("valid");
        let request_id = RequestId::new("ask").expect("valid");
        let request = RequestDigest::of(&holder, &request_id);
        let mut ground = self.ground.get();
        ground.running.insert(holder.as_str().to_owned());
        ground.witness.names.insert(request.clone(), name.clone());
        self.workflows.push(Workflow {
            name,
            key: self.keys[plan.key].clone(),
            holder,
            request_id,
            request,
            ttl: Ttl::new(Duration::from_millis(plan.ttl)).expect("valid"),
            wait: WaitTime::new(Duration::from_millis(plan.wait)).expect("valid"),
            in_line: plan.in_line,
            mute: plan.mute,
            ahead: plan.ahead,
            attempts: 0,
            token: None,
            state: State::Asking,
            lease: None,
            busy: false,
            believes_until: 0,
            served: false,
            came_at: ground.now,
        });
        drop(ground);
        self.workflows.len() - 1
    }

    /// Time passes. What has been under way for too long is over.
    pub(super) fn jump(&mut self, millis: u64) {
        let now = {
            let mut ground = self.ground.get();
            ground.now += millis;
            ground.now
        };
        while let Some(place) = self.tasks.iter().position(|t| t.since + LIFE < now) {
            self.kill(place);
        }
        let fresh = |(at, _): &(u64, Stray)| *at + LIFE >= now;
        self.ground.get().strays.retain(fresh);
    }

    /// Something arrives whose sender has given up on it.
    pub(super) fn arrive(&mut self, place: usize) {
        let stray = {
            let mut ground = self.ground.get();
            ground.actor = "late".to_owned();
            ground.strays.remove(place).1
        };
        match stray {
            Stray::Write(op) => at_once(self.steps().arrive(&op)),
            Stray::Call(token, told) => {
                let _ = self.ground.answer(&token, told);
            }
        }
        let told = std::mem::take(&mut self.ground.get().told);
        for (who, told) in told {
            self.told(who, told);
        }
    }

    fn steps(&self) -> Steps {
        Steps {
            memory: self.memory.clone(),
            ground: self.ground.clone(),
        }
    }

    pub(super) fn row(&self, key: &Key) -> Stored {
        at_once(self.memory.read(&first_of(key), Duration::MAX)).expect("memory does not fail")
    }

    pub(super) fn wrong(&self) -> Option<String> {
        self.ground.get().witness.wrong.clone()
    }

    /// Everybody at work comes to an end, one after the other.
    pub(super) fn finish(&mut self) {
        while !self.tasks.is_empty() && self.wrong().is_none() {
            self.step(0, None);
        }
    }

    /// Whatever goes wrong has an end: everybody does what is left to do, and sweep comes by.
    pub(super) fn settle(&mut self) {
        self.calm = true;
        while !self.ground.get().strays.is_empty() {
            self.arrive(0);
        }
        for key in self.keys.clone() {
            self.operate(key, Order::Unfreeze);
        }
        for _ in 0..ROUNDS {
            self.finish();
            if self.wrong().is_some() || (self.is_over() && self.unrest().is_none()) {
                return;
            }
            for who in 0..self.workflows.len() {
                self.go_on(who);
            }
            self.finish();
            self.jump(LIFE);
            self.sweep();
        }
        let waits = self.workflows.iter().find(|w| w.state != State::Over);
        let problem = match (waits, self.unrest()) {
            (Some(w), _) => format!("{} never came to an end: {:?}", w.name, w.state),
            (None, unrest) => unrest.unwrap_or_default(),
        };
        self.ground.get().wrong(problem);
    }

    /// What a workflow does that nothing goes wrong with.
    pub(super) fn go_on(&mut self, who: usize) {
        let workflow = &self.workflows[who];
        let what = match workflow.state {
            _ if workflow.busy => return,
            State::Asking => What::Ask,
            State::Woken => What::Extend,
            State::Holding | State::Releasing => What::Release,
            State::Waiting | State::Over => return,
        };
        self.act(who, what);
    }

    pub(super) fn is_over(&self) -> bool {
        self.workflows.iter().all(|w| w.state == State::Over)
    }

    /// What is left behind, if anything.
    fn unrest(&self) -> Option<String> {
        for key in &self.keys {
            if let Stored::Row(row) = self.row(key)
                && (row.holding().is_some() || row.is_spoken_for())
            {
                return Some(format!("{key} is not free for anybody"));
            }
        }
        let part = Part { part: 0, of: 1 };
        let page = at_once(self.memory.held(part, None, 100, Duration::MAX));
        let left = page.expect("memory does not fail").entries.len();
        (left > 0).then(|| format!("{left} items are left of those who waited"))
    }

    pub(super) fn is_at_work(&self, purpose: &Purpose) -> bool {
        self.tasks.iter().any(|task| task.purpose == *purpose)
    }
}

/// The longest wait, and the longest lease after it, in lives of a function; and some.
const ROUNDS: u64 = 60;

/// What a future comes to that waits for nothing.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    use futures_util::FutureExt as _;
    future.now_or_never().expect("nothing to wait for")
}
