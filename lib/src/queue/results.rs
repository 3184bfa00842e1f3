//! A task that waits for the result of a start: it is answered with the output of the execution, or with its error.
//!
//! Its token has an item of its own beside that of the start, [`ResultItem`], and the item is the sign that the task may not have been
//! answered: the one that has answered it deletes it. It is in the index under the execution that the start becomes, so that reap finds it
//! when an event says that this has ended, and sweep without an event. The lease of the execution knows nothing of it, and ends
//! whether or not the token can be answered.
//!
//! A start that is to stop with its caller is in the index once more, under the caller: reap finds it there when an event says that this
//! has ended, and sweep asks about the caller from time to time. Before such a start begins, the one that begins it asks too.
//!
//! Another call of the same start stores its token in the place of the one that is there, if its task waits, and looks whether the execution
//! has ended meanwhile.
//! A start that fails is listed for an operator until its task was notified: then nobody else has to hear of it. Where no task waits, or waits any more,
//! it is counted. A call that is refused before its start is accepted is its own answer, and a start that is skipped answers the token itself.
//!
//! # If a process dies between two requests
//!
//! | after | and before | what is left | who does the rest |
//! |---|---|---|---|
//! | start has stored the start, its place and the token | its own answer | all of them | the task receives an error, and calls again with a new token |
//! | the token of a repeated call is stored | the look at the execution | the item | reap, or sweep |
//! | the execution has begun | that its item says so | a start that waits, the execution, the item | the next check: the execution of that name has the start's input |
//! | a start is settled without having begun | its token is answered | the item | sweep, as the start's item says how it was settled |
//! | the execution has ended | an event is handled | the item | reap when the event comes again, or sweep |
//! | the task is notified that its start has failed | the start's item says so | both | sweep: the token is refused, so that the start stays listed, and is counted |
//! | the token is answered | the item is deleted | the item | sweep: the token is refused, and the item goes |
//! | the execution that has to stop with its caller is stopped | the item is deleted | the item | reap, by the end of the execution: nobody waits with the token any more |

use std::time::Duration;

use serde_json::json;

use super::{Execution, Queue, begin::log_failed, engine::Outcome};
use crate::{
    clock::Timestamp,
    error::Error,
    leases::{LATEST_ANSWER, TRIES},
    outcomes::HeldLease,
    queue::engine::{Delivery, Failure, Question, StopFor},
    retry::{AT_ONCE, some_at_a_time},
    row::Row,
    start::{ANSWERS_FOR, Known, ResultItem, ResultTo, StartItem, StartStatus},
    store::{AwaitedResult, Operations, PutResult, Settlement, Store},
    values::{Holder, Key, RequestDigest},
};

/// The longest time between two looks at an execution whose result somebody waits for.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// The error that a task is answered with whose execution has a result that cannot be read.
const NO_OUTPUT: &str = "Lease.NoOutput";

/// What a look at a task that waits for a result came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// No task waits.
    NoTask,
    /// It was answered, or does not wait any more.
    Yes,
    /// What it waited for was stopped or dismissed with its caller.
    Stopped,
    /// It waits on.
    NotYet,
}

/// What a look does about the execution with which the started one is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller<'a> {
    /// Whether it has ended is asked: by sweep.
    LookedUp,
    /// This is what the service says of this execution: by reap.
    Is(&'a Holder, Execution),
    /// Others may not stop what it has started.
    LeftToSweep,
}

impl<S: Store> Queue<S> {
    /// What is stored of a task that waits for the result of a start.
    pub(crate) fn awaited(&self, item: &StartItem, to: ResultTo) -> AwaitedResult {
        let result = ResultItem {
            key: item.key.clone(),
            execution: item.execution(),
            task_token: to.task_token,
            stop_with: to.stop_with_caller.then_some(to.caller),
            asked_at: self.now(),
            missing_since: None,
        };
        with_look(result, self.now().plus(self.settings().look))
    }

    /// A call has found its start accepted before: its token takes the place of the one that is stored, if its task waits. The execution may have ended before
    /// the token was stored.
    pub(crate) async fn renew_result(&self, result: &AwaitedResult) -> Result<(), Error> {
        self.store_result(result.clone()).await?;
        self.answer_if_over(&result.item.key, &result.item.request())
            .await;
        Ok(())
    }

    async fn store_result(&self, mut result: AwaitedResult) -> Result<(), Error> {
        let (key, request) = (result.item.key.clone(), result.item.request());
        let found = self.store().result_item(&key, &request, self.limit());
        let mut found = found.await?;
        for _ in 0..TRIES {
            let stored = found.as_ref().map(|found| &found.task_token);
            if stored == Some(&result.item.task_token) {
                return Ok(());
            }
            self.takes_its_place(&mut result, found.as_ref()).await?;
            match self.store().put_result(&result, self.limit()).await? {
                PutResult::Done => return Ok(()),
                PutResult::Found(latest) => found = latest,
            }
        }
        Err(self.contention_error())
    }

    /// Somebody else has the key, and the start is not to wait: its task succeeds at once. Nothing is stored of the token, as a
    /// repeated call receives the same.
    pub(crate) async fn tell_skipped(
        &self,
        item: &ResultItem,
        held: Option<&HeldLease>,
    ) -> Result<(), Error> {
        let mut skipped = json!({"outcome": "skipped"});
        if let Some(held) = held {
            skipped["held"] = json!(held);
        }
        let output = json!({"leasehold": skipped}).to_string();
        let delivery = self.send(item, Ok(output)).await?;
        let (key, execution) = (&item.key, &item.execution);
        tracing::info!(%key, %execution, ?delivery, "a task was notified that its start is skipped");
        Ok(())
    }

    /// Ends the wait of the task.
    async fn send(
        &self,
        item: &ResultItem,
        answer: Result<String, Failure>,
    ) -> Result<Delivery, Error> {
        let (to, token) = (item.execution.clone(), item.task_token.clone());
        self.engine(match answer {
            Ok(output) => Question::Succeed(to, token, output),
            Err(failure) => Question::Fail(to, token, failure),
        })
        .await
    }

    /// The start that this call asks for had failed before. The call's own error does not reach a task that sent a message to a queue.
    pub(crate) async fn tell_refused(
        &self,
        item: &ResultItem,
        refused: &Error,
    ) -> Result<(), Error> {
        let failure = Failure {
            error: refused.name().to_owned(),
            cause: refused.as_cause(&item.key),
        };
        let delivery = self.send(item, Err(failure)).await?;
        let (key, execution) = (&item.key, &item.execution);
        tracing::info!(%key, %execution, ?delivery, "a task was notified that its start has failed");
        Ok(())
    }

    /// Answers the task that waits for a start, if one does and the start has ended. What fails is left to sweep, which looks at once.
    pub(crate) async fn answer_if_over(&self, key: &Key, request: &RequestDigest) {
        if let Err(error) = Box::pin(self.check_result(key, request, Caller::LeftToSweep)).await {
            left_to_sweep(key, &error);
        }
    }

    /// Looks at those that are due. One that fails is counted and logged, and does not stop the others. Returns how many were
    /// looked at, and how many failed.
    pub(crate) async fn check_all_results(&self, due: &[(Key, RequestDigest)]) -> (u64, u64) {
        let checks = due.iter().map(|(key, request)| async move {
            if self.is_nearly_over() {
                return true;
            }
            if self.looks.are_over() {
                return false;
            }
            match Box::pin(self.check_result(key, request, Caller::LookedUp)).await {
                Ok(_) => true,
                Err(error) => {
                    self.looks.note_failure(&error);
                    error.count();
                    let problem = error.in_full();
                    tracing::error!(%key, problem, "a task that waits for a result could not be answered");
                    false
                }
            }
        });
        let done = some_at_a_time(AT_ONCE, checks.collect()).await;
        let failed = done.iter().filter(|done| !**done).count();
        ((done.len() - failed) as u64, failed as u64)
    }

    /// Answers the task that waits for a start, if the start has ended.
    pub(crate) async fn check_result(
        &self,
        key: &Key,
        request: &RequestDigest,
        caller: Caller<'_>,
    ) -> Result<Answered, Error> {
        let item = self.store().result_item(key, request, self.limit()).await?;
        let Some(item) = item else {
            return Ok(Answered::NoTask);
        };
        let answered = Box::pin(self.look_for_result(&item, caller)).await;
        if answered.is_err() {
            // Nobody has to wait for the next look that is due.
            let at_once = with_look(item, self.now());
            let _ = self.store().look_at_result(&at_once, self.limit()).await;
        }
        answered
    }

    async fn look_for_result(
        &self,
        item: &ResultItem,
        caller: Caller<'_>,
    ) -> Result<Answered, Error> {
        let request = item.request();
        let start = self.store().start_item(&item.key, &request, self.limit());
        let start = start.await?;
        if let Some((start, refusal)) = start.as_ref().and_then(|it| Some((it, refusal_of(it)?))) {
            let refusal = Failure {
                error: refusal.name().to_owned(),
                cause: refusal.as_cause(&item.key),
            };
            let delivery = self.send_result(item, Err(refusal)).await?;
            if let StartStatus::Failed(reason) = &start.status {
                self.note_told(start, reason, delivery).await?;
            }
            return self.forget(item).await;
        }
        let said = self
            .engine(Question::Outcome(item.execution.clone()))
            .await?;
        // What a start that has begun began is its own, whatever may be read of it; of another start the input says so.
        let is_ours = match &start {
            Some(start) if start.status != StartStatus::Begun && said != Outcome::Unknown => {
                self.known(start).await? == Known::Ours
            }
            _ => true,
        };
        match said {
            Outcome::Incomplete if is_ours => self.look_at_once(item).await,
            Outcome::Ended(Some(result)) if is_ours => self.answer(item, result).await,
            Outcome::Ended(None) if is_ours => self.answer(item, Err(unread(item))).await,
            Outcome::Runs if is_ours => self.runs_on(item, caller).await,
            _ => match start {
                Some(start) if start.status == StartStatus::Waiting => {
                    self.waits_on(item, &start, caller).await
                }
                _ => self.is_missing(item).await,
            },
        }
    }

    /// The start has not begun: it waits for its key, unless it was to stop with its caller.
    async fn waits_on(
        &self,
        item: &ResultItem,
        start: &StartItem,
        caller: Caller<'_>,
    ) -> Result<Answered, Error> {
        if self.caller_has_ended(item, caller).await?
            && Box::pin(self.dismiss_start(&item.key, &start.execution())).await?
        {
            return Ok(Answered::Stopped);
        }
        self.look_later(item).await
    }

    /// The execution runs, unless it is to stop with its caller.
    async fn runs_on(&self, item: &ResultItem, caller: Caller<'_>) -> Result<Answered, Error> {
        if self.caller_has_ended(item, caller).await?
            && let Some(caller) = &item.stop_with
        {
            let (key, execution) = (&item.key, &item.execution);
            let cause = format!("{caller} waited for it, and has ended");
            let stop = Question::Stop(execution.clone(), cause, StopFor::Caller);
            if self.engine(stop).await? {
                tracing::info!(%key, %execution, %caller, "stopped with its caller");
                self.forget(item).await?;
                return Ok(Answered::Stopped);
            }
        }
        self.look_later(item).await
    }

    /// Whether the execution with which the started one is to stop has ended since it asked.
    async fn caller_has_ended(&self, item: &ResultItem, looks: Caller<'_>) -> Result<bool, Error> {
        let Some(caller) = &item.stop_with else {
            return Ok(false);
        };
        let said = match looks {
            Caller::LookedUp => self.engine(Question::Describe(caller.clone())).await?,
            Caller::Is(holder, said) if holder == caller => said,
            Caller::Is(..) | Caller::LeftToSweep => return Ok(false),
        };
        Ok(self.has_ended_since(item, said))
    }

    /// An end before it asked is of an earlier run, as long as the service may not show that it was redriven.
    fn has_ended_since(&self, item: &ResultItem, said: Execution) -> bool {
        let Execution::Ended { stopped_at, .. } = said else {
            return false;
        };
        stopped_at.plus(self.settings().clock_margin) >= item.asked_at
            || self.now() >= self.shows_after(item.asked_at)
    }

    /// Whether nobody needs a start that is about to begin: it is to stop with its caller, and that has ended. What cannot be said is
    /// left to reap and sweep, which stop it.
    pub(crate) async fn is_without_caller(&self, start: &StartItem) -> bool {
        let Some(caller) = &start.stop_with else {
            return false;
        };
        let said = self.engine(Question::Describe(caller.clone()));
        let (key, request, execution) = (&start.key, start.digest(), start.execution());
        let said = match said.await {
            Ok(said @ Execution::Ended { .. }) => said,
            Ok(_) => return false,
            Err(error) => {
                let problem = error.in_full();
                tracing::warn!(%key, %execution, %caller, problem, "whether its caller runs could not be asked");
                return false;
            }
        };
        // Another may have asked for it since.
        let result = self.store().result_item(key, &request, self.limit());
        let result = result.await.ok().flatten();
        result.is_some_and(|result| {
            result.stop_with.as_ref() == Some(caller) && self.has_ended_since(&result, said)
        })
    }

    /// The start has begun, and the service does not know its execution: not yet, or not any more.
    async fn is_missing(&self, item: &ResultItem) -> Result<Answered, Error> {
        let patience = self.settings().reap_grace.max(LATEST_ANSWER);
        let since = item.missing_since.unwrap_or_else(|| self.now());
        let until = since.plus(patience);
        if item.missing_since.is_some() && until <= self.now() {
            let gone = Failure {
                error: NO_OUTPUT.to_owned(),
                cause: format!("Step Functions does not know {}", item.execution),
            };
            return self.answer(item, Err(gone)).await;
        }
        let missing = ResultItem {
            missing_since: Some(since),
            ..item.clone()
        };
        let look = with_look(missing, until.min(self.next_look_at(item)));
        self.store().look_at_result(&look, self.limit()).await?;
        Ok(Answered::NotYet)
    }

    /// The service is about to show what the execution came to.
    async fn look_at_once(&self, item: &ResultItem) -> Result<Answered, Error> {
        let at_once = with_look(item.clone(), self.now());
        self.store().look_at_result(&at_once, self.limit()).await?;
        Ok(Answered::NotYet)
    }

    /// Twice as long after each look, as for a lease; but one that is to stop with its caller is looked at as often as at first.
    fn next_look_at(&self, item: &ResultItem) -> Timestamp {
        let (now, look) = (self.now(), self.settings().look);
        now.plus(match item.stop_with {
            Some(_) => look,
            None => now.since(item.asked_at).clamp(look, LONGEST_PAUSE),
        })
    }

    async fn look_later(&self, item: &ResultItem) -> Result<Answered, Error> {
        let seen = ResultItem {
            missing_since: None,
            ..item.clone()
        };
        let later = with_look(seen, self.next_look_at(item));
        self.store().look_at_result(&later, self.limit()).await?;
        Ok(Answered::NotYet)
    }

    /// The task that waited for a start knows that it has failed, or nobody waits any more: then an operator has to.
    async fn note_told(
        &self,
        start: &StartItem,
        reason: &str,
        delivery: Delivery,
    ) -> Result<(), Error> {
        if delivery == Delivery::Refused {
            log_failed(start, reason, None);
            return Ok(());
        }
        let purge_at = self.purge_start_at();
        // Otherwise it was repeated or dismissed since.
        let _ = self
            .settle(start, &Settlement::Dismissed { purge_at }, None)
            .await?;
        Ok(())
    }

    /// Answers the task, and then deletes its item.
    async fn answer(
        &self,
        item: &ResultItem,
        answer: Result<String, Failure>,
    ) -> Result<Answered, Error> {
        self.send_result(item, answer).await?;
        self.forget(item).await
    }

    async fn forget(&self, item: &ResultItem) -> Result<Answered, Error> {
        self.store().forget_result(item, self.limit()).await?;
        Ok(Answered::Yes)
    }

    async fn send_result(
        &self,
        item: &ResultItem,
        answer: Result<String, Failure>,
    ) -> Result<Delivery, Error> {
        let (key, execution) = (&item.key, &item.execution);
        let outcome = answer
            .as_ref()
            .map_or_else(|failure| failure.error.clone(), |_| "success".to_owned());
        let delivery = self.send(item, answer).await?;
        match delivery {
            Delivery::Delivered => tracing::info!(%key, %execution, outcome, "its result was sent"),
            Delivery::Refused => tracing::info!(%key, %execution, "nobody waits for its result"),
        }
        Ok(delivery)
    }
}

pub(crate) fn left_to_sweep(key: &Key, error: &Error) {
    error.count();
    let problem = error.in_full();
    tracing::warn!(%key, problem, "a task that waits for a result is left to sweep");
}

/// As long as it is looked at, it is not purged.
fn with_look(item: ResultItem, look_at: Timestamp) -> AwaitedResult {
    let purge_at = look_at.plus(ANSWERS_FOR).as_seconds_rounded_up();
    AwaitedResult {
        item,
        look_at,
        purge_at: purge_at.min(Row::NEVER),
        instead_of: None,
    }
}

/// Why a start never begins, by its item; none if it waits or has begun.
fn refusal_of(start: &StartItem) -> Option<Error> {
    let key = start.key.clone();
    Some(match &start.status {
        StartStatus::Waiting | StartStatus::Begun => return None,
        StartStatus::Failed(reason) => start.failure(reason),
        StartStatus::Superseded(by) => {
            let by = by.clone();
            Error::Superseded { key, by }
        }
        StartStatus::Skipped => Error::NotStarted {
            key,
            reason:
                "it was skipped: its key was held, an operator took it out of the queue, or its caller had ended"
                    .to_owned(),
        },
    })
}

fn unread(item: &ResultItem) -> Failure {
    Failure {
        error: NO_OUTPUT.to_owned(),
        cause: format!(
            "{} has ended, and its result may not be read: give the functions of the stack kms:Decrypt with the key of its state \
             machine, or let it store its result where you read it",
            item.execution
        ),
    }
}
