//! Those who run the simulated workflows; each call to them is two steps, too.

use std::time::Duration;

use super::ground::{Ground, Mishap, Stray, Told, no_answer, too_busy};
use crate::{
    clock::Timestamp,
    error::Error,
    values::{Holder, TaskToken},
    workflows::{Call, Delivery, Execution, Workflows},
};

pub(super) struct Calls(pub(super) Ground);

impl Calls {
    async fn call(&self, token: &TaskToken, told: Told) -> Result<Delivery, Error> {
        match self.0.step("call".to_owned()).await {
            None => {}
            Some(Mishap::Late) => {
                let mut ground = self.0.get();
                let now = ground.now;
                ground.note(|| format!("  to {}: late", token.expose()));
                let stray = Stray::Call(token.clone(), told);
                ground.strays.push((now, stray));
                return Err(no_answer());
            }
            Some(Mishap::Lost) => {
                self.0
                    .get()
                    .note(|| format!("  to {}: lost", token.expose()));
                return Err(no_answer());
            }
            Some(Mishap::Twice) => return Err(too_busy()),
        }
        let delivery = self.0.answer(token, told);
        match self.0.step("hear of call".to_owned()).await {
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
            if self.0.step("look".to_owned()).await.is_some() {
                return Err(no_answer());
            }
            let ground = self.0.get();
            if ground.running.contains(execution.as_str()) {
                return Ok(Execution::Running);
            }
            let over = ground.over.get(execution.as_str());
            Ok(
                over.map_or(Execution::Unknown, |(at, all_answered)| Execution::Ended {
                    stopped_at: Timestamp::from_millis(*at),
                    redrivable: true,
                    all_answered: *all_answered,
                }),
            )
        })
    }
}
