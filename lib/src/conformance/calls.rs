//! Those who wait, as far as a test needs them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{Call, Delivery, Error, Execution, Holder, TaskToken, Workflows};

/// Workflows that write down who was called back with what, and otherwise do as they are told. As with
/// Step Functions, a token is answered once.
#[derive(Debug, Default)]
pub struct Calls(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    told: Vec<Told>,
    /// Tokens with which nobody waits any more.
    over: HashSet<String>,
    losses: HashMap<String, (Loss, u32)>,
    executions: HashMap<String, Execution>,
    forbidden: HashSet<String>,
}

/// Somebody was called back.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// With which token.
    pub token: String,
    /// What it was told: the output, or the name of an error and its cause.
    pub what: Result<String, (String, String)>,
}

impl Told {
    /// The output, as JSON.
    ///
    /// # Panics
    /// If it was told an error.
    #[must_use]
    pub fn output(&self) -> serde_json::Value {
        let output = self.what.as_ref().expect("an output");
        serde_json::from_str(output).expect("JSON")
    }
}

/// What can happen to a call on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It does not arrive.
    Call,
    /// It arrives, and the answer does not.
    Answer,
}

impl Calls {
    /// Nobody waits with this token any more.
    pub fn hang_up(&self, token: &str) {
        self.book().over.insert(token.to_owned());
    }

    /// Somebody waits with this token again.
    pub fn forget(&self, token: &str) {
        self.book().over.remove(token);
    }

    /// Nobody may call this token back.
    pub fn forbid(&self, token: &str) {
        self.book().forbidden.insert(token.to_owned());
    }

    /// The next so many calls to this token come to nothing.
    pub fn lose(&self, token: &str, loss: Loss, times: u32) {
        self.book().losses.insert(token.to_owned(), (loss, times));
    }

    /// From now on this execution stands so; before, nobody knows it.
    pub fn stands(&self, execution: &str, so: Execution) {
        self.book().executions.insert(execution.to_owned(), so);
    }

    /// Everybody who was called back since this was last asked, in order.
    pub fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.book().told)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(
        &self,
        token: &TaskToken,
        what: Result<String, (String, String)>,
    ) -> Call<'_, Delivery> {
        let mut book = self.book();
        let token = token.expose().to_owned();
        let loss = match book.losses.get_mut(&token) {
            Some((loss, left)) if *left > 0 => {
                *left -= 1;
                Some(*loss)
            }
            _ => None,
        };
        let no_answer = Err(Error::Unavailable {
            problem: "the call was lost".to_owned(),
            source: None,
        });
        let denied = Err(Error::Denied {
            action: "states:SendTaskSuccess",
            resource: "a task token".to_owned(),
            source: crate::Cause::said("AccessDeniedException"),
        });
        let answer = if loss == Some(Loss::Call) {
            no_answer
        } else if loss.is_none() && book.forbidden.contains(&token) {
            denied
        } else if book.over.insert(token.clone()) {
            book.told.push(Told { token, what });
            if loss.is_some() {
                no_answer
            } else {
                Ok(Delivery::Delivered)
            }
        } else {
            Ok(Delivery::Refused)
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Workflows for Calls {
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        _limit: Duration,
    ) -> Call<'a, Delivery> {
        self.call(token, Ok(output))
    }

    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        cause: String,
        _limit: Duration,
    ) -> Call<'a, Delivery> {
        self.call(token, Err((error.to_owned(), cause)))
    }

    fn look_up<'a>(&'a self, execution: &'a Holder, _limit: Duration) -> Call<'a, Execution> {
        let stands = self.book().executions.get(execution.as_str()).copied();
        Box::pin(std::future::ready(Ok(stands.unwrap_or(Execution::Unknown))))
    }
}
