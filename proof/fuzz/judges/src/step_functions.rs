//! Step Functions as a hostile case meets it: tasks may wait or not, and calls may not be answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Call, Delivery, Error, Execution, GrantOf, Holder, Receipt, Timestamp, WaiterOf, Workflows,
};

/// Answers by turns, from a turn that the case picks, and keeps the causes of failed tasks.
#[derive(Default)]
pub struct UnreliableStepFunctions {
    turn: AtomicU64,
    causes: Mutex<Vec<String>>,
}

impl UnreliableStepFunctions {
    /// One whose first answer is that of `turn`.
    pub fn from_turn(turn: u64) -> Arc<Self> {
        let turn = AtomicU64::new(turn % 97);
        Arc::new(Self {
            turn,
            ..Self::default()
        })
    }

    /// The causes of failed tasks, which people read: no secret may be in them.
    pub fn take_causes(&self) -> Vec<String> {
        std::mem::take(&mut self.causes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn delivery(&self) -> Result<Delivery, Error> {
        match self.turn.fetch_add(1, Ordering::Relaxed) % 5 {
            0 => Ok(Delivery::Refused),
            1 => Err(no_answer()),
            _ => Ok(Delivery::Delivered),
        }
    }
}

fn no_answer() -> Error {
    Error::Unavailable {
        problem: "Step Functions does not answer".to_owned(),
        source: None,
    }
}

impl Workflows for UnreliableStepFunctions {
    fn succeed<'a>(&'a self, _: WaiterOf<'a>, _: String, _: Duration) -> Call<'a, Delivery> {
        Box::pin(async { self.delivery() })
    }

    fn fail<'a>(
        &'a self,
        _: WaiterOf<'a>,
        error: &'a str,
        cause: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        causes.push(format!("{error}: {cause}"));
        Box::pin(async { self.delivery() })
    }

    fn describe_execution<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async {
            Ok(match self.turn.fetch_add(1, Ordering::Relaxed) % 6 {
                0 => Execution::Running,
                1 => Execution::Unknown,
                2 => return Err(no_answer()),
                answered => Execution::Ended {
                    stopped_at: Timestamp::from_millis(0),
                    redrivable: true,
                    all_answered: answered == 3,
                },
            })
        })
    }

    fn received<'a>(&'a self, _: GrantOf<'a>, _: Duration) -> Call<'a, Receipt> {
        Box::pin(async {
            Ok(match self.turn.fetch_add(1, Ordering::Relaxed) % 4 {
                0 => Receipt::Shown,
                1 => Receipt::Unreadable,
                missing => Receipt::Missing {
                    waits: missing == 2,
                },
            })
        })
    }
}
