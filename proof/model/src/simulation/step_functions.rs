//! Those who run the simulated workflows; each call to them is two steps, too.

use std::time::Duration;

use super::shared::{Broken, Delayed, DeliveryFault, Shared, TaskResult, no_answer, too_busy};
use leasehold::{
    Call, Delivery, Error, Execution, GrantOf, Holder, Receipt, TaskToken, WaiterOf, Workflows,
};

pub struct FaultyStepFunctions {
    pub shared: Shared,
    /// What it tells of executions is so many milliseconds old.
    pub stale: u64,
}

impl FaultyStepFunctions {
    async fn call(&self, token: &TaskToken, result: TaskResult) -> Result<Delivery, Error> {
        match self.shared.step("call".to_owned()).await {
            None => {}
            Some(DeliveryFault::Late) => {
                let mut shared = self.shared.get();
                let now = shared.now;
                shared.note(|| format!("  to {}: late", token.expose()));
                let delayed = Delayed::Call(token.clone(), result);
                shared.delayed.push((now, delayed));
                return Err(no_answer());
            }
            Some(DeliveryFault::Lost) => {
                self.shared
                    .get()
                    .note(|| format!("  to {}: lost", token.expose()));
                return Err(no_answer());
            }
            Some(DeliveryFault::Twice) => return Err(too_busy()),
        }
        let delivery = self.shared.answer(token, result);
        match self.shared.step("hear of call".to_owned()).await {
            None => Ok(delivery),
            // Never sent again by itself, as `Workflows` asks for.
            Some(_) => Err(no_answer()),
        }
    }
}

impl Workflows for FaultyStepFunctions {
    fn succeed<'a>(
        &'a self,
        (_, token): WaiterOf<'a>,
        output: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        Box::pin(self.call(token, Ok(output)))
    }

    fn fail<'a>(
        &'a self,
        (_, token): WaiterOf<'a>,
        error: &'a str,
        _: String,
        _: Duration,
    ) -> Call<'a, Delivery> {
        Box::pin(self.call(token, Err(error.to_owned())))
    }

    fn describe_execution<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async move {
            if self.shared.step("look".to_owned()).await.is_some() {
                return Err(no_answer());
            }
            let shared = self.shared.get();
            let standing = shared.status(execution.as_str(), self.stale);
            let broken = |as_this| shared.broken == Some(as_this);
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

    fn received<'a>(&'a self, (holder, lease, _): GrantOf<'a>, _: Duration) -> Call<'a, Receipt> {
        Box::pin(async move {
            if self.shared.step("read history".to_owned()).await.is_some() {
                return Err(no_answer());
            }
            let mut shared = self.shared.get();
            let receipt = shared.receipt(holder.as_str(), lease, self.stale);
            shared.saw(&format!("{receipt:?}"));
            shared.note(|| format!("  its history: {receipt:?}"));
            Ok(receipt)
        })
    }
}
