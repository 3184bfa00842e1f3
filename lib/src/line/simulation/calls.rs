//! Those who run the simulated workflows; each call to them is two steps, too.

use std::time::Duration;

use super::ground::{Broken, Ground, Mishap, Stray, Told, no_answer, too_busy};
use crate::{
    error::Error,
    values::{Holder, TaskToken},
    workflows::{Call, Delivery, Execution, Workflows},
};

pub(super) struct Calls {
    pub(super) ground: Ground,
    /// What it tells of executions is so many milliseconds old.
    pub(super) stale: u64,
}

impl Calls {
    async fn call(&self, token: &TaskToken, told: Told) -> Result<Delivery, Error> {
        match self.ground.step("call".to_owned()).await {
            None => {}
            Some(Mishap::Late) => {
                let mut ground = self.ground.get();
                let now = ground.now;
                ground.note(|| format!("  to {}: late", token.expose()));
                let stray = Stray::Call(token.clone(), told);
                ground.strays.push((now, stray));
                return Err(no_answer());
            }
            Some(Mishap::Lost) => {
                self.ground
                    .get()
                    .note(|| format!("  to {}: lost", token.expose()));
                return Err(no_answer());
            }
            Some(Mishap::Twice) => return Err(too_busy()),
        }
        let delivery = self.ground.answer(token, told);
        match self.ground.step("hear of call".to_owned()).await {
            None => Ok(delivery),
            // Never sent again by itself, as `Workflows` asks for.
            Some(_) => Err(no_answer()),
        }
    }
}

impl Workflows for Calls {
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        Box::pin(self.call(token, Ok(output)))
    }

    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        _: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        Box::pin(self.call(token, Err(error.to_owned())))
    }

    fn look_up<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async move {
            if self.ground.step("look".to_owned()).await.is_some() {
                return Err(no_answer());
            }
            let ground = self.ground.get();
            let standing = ground.standing(execution.as_str(), self.stale);
            let broken = |as_this| ground.broken == Some(as_this);
            Ok(match standing {
                Some(Execution::Ended {
                    stopped_at,
                    redrivable,
                    all_answered,
                }) => Execution::Ended {
                    stopped_at,
                    redrivable: redrivable && !broken(Broken::ReapTrusts),
                    all_answered: all_answered || broken(Broken::ReapEnds),
                },
                running => running.unwrap_or(Execution::Unknown),
            })
        })
    }
}
