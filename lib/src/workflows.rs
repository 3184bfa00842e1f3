//! Those who run the workflows: whom to call back when somebody's turn has come, and whom to ask
//! whether an execution is still at work.

use std::{future::Future, pin::Pin, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    values::{Holder, TaskToken},
};

#[cfg(feature = "workflows")]
mod history;
#[cfg(feature = "workflows")]
mod step_functions;

#[cfg(feature = "workflows")]
pub use step_functions::StepFunctions;

/// What a call to [`Workflows`] comes back as.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// What became of a call back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The one who waited goes on with it.
    Delivered,
    /// Nobody waits with this token: the task was ended before, or its time is over, or the token
    /// was never one.
    Refused,
}

/// The state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// It runs, or is about to again.
    Running,
    /// It has ended, well or badly.
    Ended {
        /// When.
        stopped_at: Timestamp,
        /// It may have been redriven since, which the answer need not show yet. What succeeded
        /// cannot be.
        redrivable: bool,
        /// Its history proves that nothing it started can still be at work: every task has
        /// answered. False whenever that is not certain.
        all_answered: bool,
    },
    /// Nobody knows it, or it is no execution.
    Unknown,
}

/// Those who run the workflows. Step Functions is one; a program whose waiters are threads or tasks
/// can be its own.
///
/// An error leaves open whether the call arrived: it is made again, sooner or later, so that it has
/// to be answered with [`Delivery::Refused`] the second time. Nor may an implementation repeat a call
/// by itself: to a caller that has called once, a refusal says that nobody waits.
pub trait Workflows: Send + Sync {
    /// Ends the task that waits with `token`, well: `output` is the JSON of what it waited for.
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        limit: Duration,
    ) -> Call<'a, Delivery>;

    /// Ends the task that waits with `token`, by this error.
    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        cause: String,
        limit: Duration,
    ) -> Call<'a, Delivery>;

    /// The state of an execution. The answer may be some seconds old.
    fn look_up<'a>(&'a self, execution: &'a Holder, limit: Duration) -> Call<'a, Execution>;
}

impl std::fmt::Debug for dyn Workflows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workflows")
    }
}
