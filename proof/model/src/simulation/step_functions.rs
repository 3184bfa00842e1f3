//! Those who run the simulated workflows; each call to them is two steps, too.

use std::time::Duration;

use super::shared::{
    Broken, Delayed, DeliveryFault, End, Environment, Shared, TaskResult, no_answer, too_busy,
};
use super::starts::{CALLERS, Judge, SIGNATURE};
use leasehold::{
    Answer, Call, Delivery, Engine, Error, Execution, Failure, Holder, Outcome, Question, StopFor,
    TaskToken, Timestamp,
};

pub struct FaultyStepFunctions {
    pub shared: Shared,
    /// What it tells of executions is so many milliseconds old.
    pub stale: u64,
}

impl FaultyStepFunctions {
    async fn call(&self, token: &TaskToken, result: TaskResult) -> Result<Delivery, Error> {
        let signed = self.shared.get().now;
        match self.shared.step().await {
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
        match self.shared.step().await {
            None => Ok(delivery),
            // Never sent again by itself, as `Engine` asks for.
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
        let fault = self.shared.step().await;
        let answer = self.takes_effect(name, signed, fault, effect)?;
        match self.shared.step().await {
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

impl FaultyStepFunctions {
    /// Why it is stopped tells what the judge hears.
    async fn stopped(&self, execution: &Holder, why: StopFor) -> Result<bool, Error> {
        let skips = |as_this| self.shared.get().broken == Some(as_this);
        let mut redriven = None;
        match why {
            StopFor::Another => {}
            StopFor::Redrive if skips(Broken::StopsNothing) => return Ok(true),
            StopFor::Redrive => self.shared.get().judge(|judge| {
                judge.is_to_be_stopped(execution);
                redriven = Some(judge.set_out);
            }),
            StopFor::Caller => {
                self.shared.get().saw("stopped with its caller");
                let stops = |judge: &mut Judge| judge.stops_with_caller(execution);
                self.shared.get().judge(stops);
                if skips(Broken::CalledRunsOn) {
                    return Ok(true);
                }
            }
        }
        self.stop(execution, redriven).await
    }

    /// What changes nothing: it is one step, and may not be answered.
    async fn looks(&self, question: Question) -> Result<Answer, Error> {
        match &question {
            Question::Waits(..)
            | Question::Describe(_)
            | Question::Received(..)
            | Question::Outcome(_)
            | Question::Input(_) => {}
            Question::Redrives(_) if self.shared.get().starts.is_some() => {}
            other => return other.unknown(),
        }
        if self.shared.step().await.is_some() {
            return Err(no_answer());
        }
        let mut shared = self.shared.get();
        if let Question::Describe(execution)
        | Question::Redrives(execution)
        | Question::Outcome(execution)
        | Question::Input(execution) = &question
        {
            shared.may("DescribeExecution", execution.as_str())?;
        }
        Ok(match question {
            Question::Waits(_, token) => {
                let waits = shared.tokens.contains_key(token.expose());
                shared.note(|| format!("  {} waits: {waits}", token.expose()));
                waits.into()
            }
            Question::Describe(execution) => self.described(&mut shared, &execution).into(),
            Question::Received(holder, lease, _) => {
                let age = shared.age(self.stale);
                let receipt = shared.receipt(holder.as_str(), &lease, age);
                shared.saw(&format!("{receipt:?}"));
                shared.note(|| format!("  its history: {receipt:?}"));
                receipt.into()
            }
            Question::Redrives(execution) => {
                let age = shared.age(self.stale);
                let redrives = shared.redrives_of(&execution, age);
                shared.note(|| format!("  {execution}: {redrives:?}"));
                redrives.into()
            }
            Question::Outcome(execution) => {
                let outcome = self.outcome(&mut shared, &execution);
                shared.note(|| format!("  {outcome:?}"));
                outcome.into()
            }
            Question::Input(execution) => {
                let age = shared.age(self.stale);
                let known = shared.status(execution.as_str(), age).is_some()
                    && shared.broken != Some(Broken::BeginsUnseen);
                let input = known.then(|| shared.input_of(&execution)).flatten();
                shared.note(|| format!("  known: {}", input.is_some()));
                input.into()
            }
            other => return other.unknown(),
        })
    }

    fn described(&self, shared: &mut Environment, execution: &Holder) -> Execution {
        let age = shared.age(self.stale);
        let standing = shared.status(execution.as_str(), age);
        shared.note(|| format!("  {execution}: {standing:?}"));
        let broken = |as_this| shared.broken == Some(as_this);
        match standing {
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
        }
    }

    fn outcome(&self, shared: &mut Environment, execution: &Holder) -> Outcome {
        let age = shared.age(self.stale);
        let standing = shared.status(execution.as_str(), age);
        // What it came to may show later than that it has ended.
        let later = shared.age(self.stale);
        let is_late = shared.status(execution.as_str(), later) == Some(Execution::Running);
        let output = || Outcome::Ended(Some(Ok(format!("\"{execution}\""))));
        match standing {
            None | Some(Execution::Unknown) => Outcome::Unknown,
            Some(Execution::Running) if shared.broken == Some(Broken::ResultGuessed) => output(),
            Some(Execution::Running) => Outcome::Runs,
            Some(Execution::Ended { .. }) if is_late => Outcome::Incomplete,
            Some(Execution::Ended {
                redrivable: false, ..
            }) => output(),
            Some(Execution::Ended { .. }) => Outcome::Ended(Some(Err(Failure {
                error: "Failed".to_owned(),
                cause: String::new(),
            }))),
        }
    }
}

impl Engine for FaultyStepFunctions {
    fn ask(&self, question: Question, _: Duration) -> Call<'_, Answer> {
        Box::pin(async move {
            match question {
                Question::Succeed(_, token, output) => {
                    self.call(&token, Ok(output)).await.map(Answer::from)
                }
                Question::Fail(_, token, failure) => self
                    .call(&token, Err(failure.error))
                    .await
                    .map(Answer::from),
                Question::Start(machine, name, input) => {
                    let execution = machine.execution(&name);
                    let began = move |shared: &mut Environment| shared.begin(&execution, &input);
                    let began = self.signed("StartExecution", began).await;
                    began.map(Answer::from)
                }
                Question::Stop(execution, _, why) => {
                    self.stopped(&execution, why).await.map(Answer::from)
                }
                question => self.looks(question).await,
            }
        })
    }
}
