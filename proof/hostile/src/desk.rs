//! Those who run the workflows, as a hostile case meets them: whoever is called back may be there or not, and
//! whoever is asked may not answer.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold::{Call, Delivery, Error, Execution, Holder, TaskToken, Timestamp, Workflows};

/// Answers by turns, from a turn that the case picks, and keeps what errors it was told of.
#[derive(Debug, Default)]
pub struct Desk {
    turn: AtomicU64,
    causes: Mutex<Vec<String>>,
}

impl Desk {
    /// A desk whose first answer is that of `turn`.
    #[must_use]
    pub fn at(turn: u64) -> Arc<Self> {
        let turn = AtomicU64::new(turn % 97);
        Arc::new(Self {
            turn,
            ..Self::default()
        })
    }

    /// What those who waited were told when it was an error: no secret may be in it.
    pub fn causes(&self) -> Vec<String> {
        std::mem::take(&mut self.causes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    fn delivery(&self) -> Result<Delivery, Error> {
        match self.turn() % 5 {
            0 => Ok(Delivery::Refused),
            1 => Err(silent()),
            _ => Ok(Delivery::Delivered),
        }
    }
}

fn silent() -> Error {
    Error::Unavailable {
        problem: "the desk does not answer".to_owned(),
        source: None,
    }
}

impl Workflows for Desk {
    fn succeed<'a>(&'a self, _: &'a TaskToken, _: String, _: Duration) -> Call<'a, Delivery> {
        Box::pin(async { self.delivery() })
    }

    fn fail<'a>(
        &'a self,
        _: &'a TaskToken,
        error: &'a str,
        cause: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        causes.push(format!("{error}: {cause}"));
        Box::pin(async { self.delivery() })
    }

    fn look_up<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async {
            Ok(match self.turn() % 6 {
                0 => Execution::Running,
                1 => Execution::Unknown,
                2 => return Err(silent()),
                answered => Execution::Ended {
                    stopped_at: Timestamp::from_millis(0),
                    redrivable: true,
                    all_answered: answered == 3,
                },
            })
        })
    }
}
