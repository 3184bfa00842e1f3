//! Step Functions as a hostile case meets it: tasks may wait or not, and calls may not be answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Answer, Call, Delivery, Engine, Error, Execution, Failure, Question, Receipt, Timestamp,
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

impl Engine for UnreliableStepFunctions {
    fn ask(&self, question: Question, _: Duration) -> Call<'_, Answer> {
        let turn = |of: u64| self.turn.fetch_add(1, Ordering::Relaxed) % of;
        let answer = match question {
            Question::Succeed(..) => self.delivery().map(Answer::from),
            Question::Fail(_, _, Failure { error, cause }) => {
                let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
                causes.push(format!("{error}: {cause}"));
                self.delivery().map(Answer::from)
            }
            Question::Describe(_) => match turn(6) {
                0 => Ok(Execution::Running.into()),
                1 => Ok(Execution::Unknown.into()),
                2 => Err(no_answer()),
                answered => Ok(Execution::Ended {
                    stopped_at: Timestamp::from_millis(0),
                    redrivable: true,
                    all_answered: answered == 3,
                }
                .into()),
            },
            Question::Received(..) => Ok(match turn(4) {
                0 => Receipt::Shown,
                1 => Receipt::Unreadable,
                missing => Receipt::Missing {
                    waits: missing == 2,
                },
            }
            .into()),
            other => other.unknown(),
        };
        Box::pin(std::future::ready(answer))
    }
}
