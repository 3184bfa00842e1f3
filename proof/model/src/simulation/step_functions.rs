//! Those who run the simulated workflows; each call to them is two steps, too.

use std::time::Duration;

use super::shared::{
    Broken, Delayed, DeliveryFault, End, Environment, Shared, TaskResult, no_answer, too_busy,
};
use super::starts::{CALLERS, Judge, SIGNATURE};
use leasehold::{
    Begun, Call, Delivery, Error, Execution, ExecutionName, Failure, GrantOf, Holder, Outcome,
    Receipt, Redrives, StateMachineArn, TaskToken, Timestamp, WaiterOf, Workflows,
};

pub struct FaultyStepFunctions {
    pub shared: Shared,
    /// What it tells of executions is so many milliseconds old.
    pub stale: u64,
}

impl FaultyStepFunctions {
    async fn call(&self, token: &TaskToken, result: TaskResult) -> Result<Delivery, Error> {
        let signed = self.shared.get().now;
        match self.shared.step("call".to_owned()).await {
            // Signed too long ago, it is refused.
            _ if self.shared.get().now > signed + SIGNATURE => return Err(no_answer()),
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
            Some(DeliveryFault::Twice | DeliveryFault::Again) => return Err(too_busy()),
        }
        let delivery = self.shared.answer(token, result);
        match self.shared.step("hear of call".to_owned()).await {
            None => Ok(delivery),
            // Never sent again by itself, as `Workflows` asks for.
            Some(_) => Err(no_answer()),
        }
    }
}

impl FaultyStepFunctions {
    /// A call that is good for some minutes from now on: it may take effect long after its caller has given up on it.
    async fn signed<T>(
        &self,
        name: &str,
        effect: impl Fn(&mut Environment) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let signed = self.shared.get().now;
        let fault = self.shared.step(name.to_owned()).await;
        let answer = self.takes_effect(name, signed, fault, effect)?;
        match self.shared.step(format!("hear of {name}")).await {
            None => Ok(answer),
            Some(_) => Err(no_answer()),
        }
    }

    fn takes_effect<T>(
        &self,
        name: &str,
        signed: u64,
        fault: Option<DeliveryFault>,
        effect: impl Fn(&mut Environment) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mut shared = self.shared.get();
        if let Some(fault) = fault {
            shared.note(|| format!("{name}: {fault:?}"));
        }
        let is_good = shared.now <= signed + SIGNATURE;
        match fault {
            None | Some(DeliveryFault::Again) if is_good => {
                shared.note(|| name.to_owned());
                effect(&mut shared)
            }
            Some(DeliveryFault::Late) if is_good => {
                let late = move |shared: &Shared| drop(effect(&mut shared.get()));
                let late = Delayed::Signed(Box::new(late));
                shared.delayed.push((signed, late));
                Err(no_answer())
            }
            Some(DeliveryFault::Twice) => Err(too_busy()),
            _ => Err(no_answer()),
        }
    }
}

impl FaultyStepFunctions {
    /// An execution is stopped; because it was redriven, if so by a function that set out then.
    async fn stop(&self, execution: &Holder, redriven: Option<u64>) -> Result<bool, Error> {
        let (execution, stale) = (execution.clone(), self.stale);
        let stopped = move |shared: &mut Environment| {
            shared.may("StopExecution", execution.as_str())?;
            let age = shared.age(stale);
            let standing = shared.status(execution.as_str(), age);
            if standing.is_some() {
                if let Some(set_out) = redriven {
                    shared.judge(|judge| judge.is_stopped(&execution, set_out));
                }
                let proven = shared.by_chance();
                shared.end(&execution, End::Stopped, proven);
            }
            Ok(standing.is_some())
        };
        self.signed("StopExecution", stopped).await
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

    fn waits<'a>(&'a self, (_, token): WaiterOf<'a>, _: Duration) -> Call<'a, bool> {
        Box::pin(async move {
            let about = "ask whether it waits".to_owned();
            if self.shared.step(about).await.is_some() {
                return Err(no_answer());
            }
            let mut shared = self.shared.get();
            let waits = shared.tokens.contains_key(token.expose());
            shared.note(|| format!("  {} waits: {waits}", token.expose()));
            Ok(waits)
        })
    }

    fn describe_execution<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async move {
            if self.shared.step("look".to_owned()).await.is_some() {
                return Err(no_answer());
            }
            let mut shared = self.shared.get();
            shared.may("DescribeExecution", execution.as_str())?;
            let age = shared.age(self.stale);
            let standing = shared.status(execution.as_str(), age);
            shared.note(|| format!("  {execution}: {standing:?}"));
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
                Some(Execution::Running)
                    if broken(Broken::CallerSeemsOver) && execution.as_str().contains(CALLERS) =>
                {
                    Execution::Ended {
                        stopped_at: Timestamp::from_millis(shared.now),
                        redrivable: false,
                        all_answered: true,
                    }
                }
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
            let age = shared.age(self.stale);
            let receipt = shared.receipt(holder.as_str(), lease, age);
            shared.saw(&format!("{receipt:?}"));
            shared.note(|| format!("  its history: {receipt:?}"));
            Ok(receipt)
        })
    }

    fn start_execution<'a>(
        &'a self,
        (machine, name): (&'a StateMachineArn, &'a ExecutionName),
        input: String,
        _: Duration,
    ) -> Call<'a, Begun> {
        let execution = machine.execution(name);
        Box::pin(async move {
            let began = move |shared: &mut Environment| shared.begin(&execution, &input);
            self.signed("StartExecution", began).await
        })
    }

    fn stop_execution<'a>(
        &'a self,
        execution: &'a Holder,
        _: String,
        _: Duration,
    ) -> Call<'a, bool> {
        Box::pin(self.stop(execution, None))
    }

    fn redrives<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Option<Redrives>> {
        Box::pin(async move {
            if self.shared.get().starts.is_none() {
                return Ok(Some(Redrives::NEVER));
            }
            let about = "ask for redrives".to_owned();
            if self.shared.step(about).await.is_some() {
                return Err(no_answer());
            }
            let mut shared = self.shared.get();
            shared.may("DescribeExecution", execution.as_str())?;
            let age = shared.age(self.stale);
            let redrives = shared.redrives_of(execution, age);
            shared.note(|| format!("  {execution}: {redrives:?}"));
            Ok(redrives)
        })
    }

    fn stop_redriven<'a>(
        &'a self,
        execution: &'a Holder,
        _: String,
        _: Duration,
    ) -> Call<'a, bool> {
        Box::pin(async move {
            if self.shared.get().broken == Some(Broken::StopsNothing) {
                return Ok(true);
            }
            let mut set_out = 0;
            self.shared.get().judge(|judge| {
                judge.is_to_be_stopped(execution);
                set_out = judge.set_out;
            });
            self.stop(execution, Some(set_out)).await
        })
    }

    fn stop_called<'a>(&'a self, execution: &'a Holder, _: String, _: Duration) -> Call<'a, bool> {
        Box::pin(async move {
            self.shared.get().saw("stopped with its caller");
            let stops = |judge: &mut Judge| judge.stops_with_caller(execution);
            self.shared.get().judge(stops);
            if self.shared.get().broken == Some(Broken::CalledRunsOn) {
                return Ok(true);
            }
            self.stop(execution, None).await
        })
    }

    fn outcome<'a>(&'a self, execution: &'a Holder, _: Duration) -> Call<'a, Outcome> {
        Box::pin(async move {
            if self
                .shared
                .step("ask for result".to_owned())
                .await
                .is_some()
            {
                return Err(no_answer());
            }
            let mut shared = self.shared.get();
            shared.may("DescribeExecution", execution.as_str())?;
            let age = shared.age(self.stale);
            let standing = shared.status(execution.as_str(), age);
            // What it came to may show later than that it has ended.
            let later = shared.age(self.stale);
            let is_late = shared.status(execution.as_str(), later) == Some(Execution::Running);
            let output = || Outcome::Ended(Some(Ok(format!("\"{execution}\""))));
            let outcome = match standing {
                None | Some(Execution::Unknown) => Outcome::Unknown,
                Some(Execution::Running) if shared.broken == Some(Broken::ResultGuessed) => {
                    output()
                }
                Some(Execution::Running) => Outcome::Runs,
                Some(Execution::Ended { .. }) if is_late => Outcome::Incomplete,
                Some(Execution::Ended {
                    redrivable: false, ..
                }) => output(),
                Some(Execution::Ended { .. }) => Outcome::Ended(Some(Err(Failure {
                    error: "Failed".to_owned(),
                    cause: String::new(),
                }))),
            };
            shared.note(|| format!("  {outcome:?}"));
            Ok(outcome)
        })
    }

    fn execution_input<'a>(
        &'a self,
        execution: &'a Holder,
        _: Duration,
    ) -> Call<'a, Option<String>> {
        Box::pin(async move {
            if self.shared.step("ask for input".to_owned()).await.is_some() {
                return Err(no_answer());
            }
            let mut shared = self.shared.get();
            shared.may("DescribeExecution", execution.as_str())?;
            let age = shared.age(self.stale);
            let known = shared.status(execution.as_str(), age).is_some()
                && shared.broken != Some(Broken::BeginsUnseen);
            let input = known.then(|| shared.input_of(execution)).flatten();
            shared.note(|| format!("  known: {}", input.is_some()));
            Ok(input)
        })
    }
}
