//! A client: section after section, each as it was drawn, until the round is over.

mod asking;
mod holding;
mod queue;

use crate::calls::Caller;
use crate::context::Context;
use crate::fixture::SKEW;
use crate::history::Millis;
use crate::keys::PERMITS;
use crate::plan::Section;
use crate::rng::seeded;

/// One who asks, holds, works, and is gone.
pub struct Client<'a> {
    /// The round.
    pub context: &'a Context,
    /// Which of all.
    pub number: u64,
    /// By how much its clock is ahead.
    pub clock_offset: Millis,
}

/// Which permits a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One, and nobody says so.
    Mutex,
    /// So many.
    Permits(u16),
    /// One, of each of several keys: all or none.
    Set,
}

impl Shape {
    fn permits(self) -> u16 {
        match self {
            Self::Mutex | Self::Set => 1,
            Self::Permits(permits) => permits,
        }
    }
}

/// The ARN of the execution of this name.
#[must_use]
pub fn execution_arn(name: &str) -> String {
    format!("arn:aws:states:us-east-1:123456789012:execution:soak:{name}")
}

impl<'a> Client<'a> {
    /// The client of this number.
    #[must_use]
    pub fn new(context: &'a Context, number: u64) -> Self {
        let rng = &mut seeded(context.seed, &[number]);
        // As wrong as the fleets, and no more.
        let off = rng.u64(0..=SKEW.unsigned_abs());
        let clock_offset = Millis::try_from(off).unwrap_or(0) - SKEW / 2;
        Self {
            context,
            number,
            clock_offset,
        }
    }

    /// Lives through the round.
    pub async fn run(&self) {
        let mut number = 0;
        while !self.context.is_over() {
            let context = self.context;
            let plan = Section::draw(context.seed, context.round, self.number, number);
            self.section(&plan).await;
            number += 1;
        }
    }

    async fn section(&self, plan: &Section) {
        let keys = &self.context.keys;
        let caller = self.caller(plan.number);
        match self.number % 8 {
            0..=3 => {
                let keys = if plan.hot { &keys.hot } else { &keys.plain };
                self.lease(&caller, plan, vec![plan.pick(keys)], Shape::Mutex)
                    .await;
            }
            4 => {
                let key = plan.pick(&keys.gone);
                let at = keys.gone.iter().position(|k| *k == key).unwrap_or(0);
                let _present = self.context.gone[at].read().await;
                self.lease(&caller, plan, vec![key], Shape::Mutex).await;
            }
            5 => {
                let key = plan.pick(&keys.permits);
                self.lease(&caller, plan, vec![key], Shape::Permits(PERMITS))
                    .await;
            }
            6 => {
                self.lease(&caller, plan, plan.pick_several(&keys.sets), Shape::Set)
                    .await;
            }
            _ => self.run_in_queue(&caller, plan).await,
        }
    }

    fn caller(&self, section: u64) -> Caller<'a> {
        let client = self.number;
        Caller::new(self.context, format!("client-{client}"), self.mark(section))
    }

    /// A section that is an execution of its own.
    fn execution(&self, section: u64) -> Caller<'a> {
        let (round, client) = (self.context.round, self.number);
        let holder = execution_arn(&format!("r{round}-c{client}-s{section}"));
        Caller::new(self.context, holder, self.mark(section))
    }

    fn mark(&self, section: u64) -> String {
        let (round, client) = (self.context.round, self.number);
        format!("r{round}-c{client}-s{section}. ")
    }
}
