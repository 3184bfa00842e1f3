//! The workflow engine: it notifies a waiter that was granted the key, and knows whether an execution is still running.

use std::{future::Future, pin::Pin, time::Duration};

use crate::{
    clock::Timestamp,
    error::Error,
    start::{ExecutionName, StateMachineArn},
    values::{Holder, LeaseId, TaskToken},
};

/// The future of a question to an [`Engine`].
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The outcome of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The waiter received it and continues.
    Delivered,
    /// Nobody waits with this token: the task has ended or timed out, or the token was never valid.
    Refused,
}

/// The state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// It runs, or is about to run again.
    Running,
    /// It has ended, in success or failure.
    Ended {
        /// When it ended, by the service's clock.
        stopped_at: Timestamp,
        /// Whether it may have been redriven since, which the response may not show yet. An execution that succeeded
        /// cannot be redriven.
        redrivable: bool,
        /// Whether its history shows that nothing it started can still be at work: every task has answered. False if
        /// that is not certain.
        all_answered: bool,
    },
    /// No such execution is known, or the holder is not an execution.
    Unknown,
}

/// How an execution stands whose result somebody waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No such execution is known.
    Unknown,
    /// It runs, or is about to run again.
    Runs,
    /// It has ended, and the service does not show yet with what.
    Incomplete,
    /// It has ended, with this output or this failure; none if they may not be read.
    Ended(Option<Result<String, Failure>>),
}

/// How an execution failed, was stopped, or timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name of the error.
    pub error: String,
    /// Its cause.
    pub cause: String,
}

/// Whether an execution received a lease through a task token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Its history shows the lease in what a task was answered.
    Shown,
    /// It does not.
    Missing {
        /// Whether a task waits with a token.
        waits: bool,
    },
    /// Its history cannot be read.
    Unreadable,
}

/// How an execution stands as to redrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It runs, or is about to run again.
    Runs,
    /// It has ended, and may be redriven.
    Redrivable,
    /// It has ended, and cannot be redriven any more.
    Final,
}

/// What the engine says of an execution's redrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redrives {
    /// How it stands.
    pub stands: Stands,
    /// How often it was redriven.
    pub count: u32,
    /// When that was last.
    pub at: Option<Timestamp>,
}

impl Redrives {
    /// Of an engine that redrives nothing.
    pub const NEVER: Self = Self {
        stands: Stands::Final,
        count: 0,
        at: None,
    };
}

/// The response to a call that starts an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It runs: this call began it, or an earlier one with the same name and input.
    Began,
    /// There is, or was, an execution of this name that cannot be known to be the same.
    NameInUse,
    /// Nothing was started, and the same call would be refused again: for this reason.
    Refused(String),
}

/// Why an execution is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopFor {
    /// Another one takes its place, or an operator wants it.
    Another,
    /// It was redriven without its key.
    Redrive,
    /// It was to stop with its caller.
    Caller,
}

/// A question to the engine, or an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Ends the wait of an execution, successfully, with the JSON of what it waited for. [`Answer::Delivery`].
    Succeed(Holder, TaskToken, String),
    /// Ends the wait of an execution, with an error. [`Answer::Delivery`].
    Fail(Holder, TaskToken, Failure),
    /// Whether somebody waits with this token, as far as the engine knows now: one that has been answered, or whose attempt has ended, nobody
    /// waits with. [`Answer::Yes`].
    Waits(Holder, TaskToken),
    /// The state of an execution, which may be some seconds old. [`Answer::Execution`].
    Describe(Holder),
    /// Which executions of this machine run, as far as one answer shows them: one that it lacks may run all the same. It may be
    /// half a minute old. [`Answer::Running`].
    Running(StateMachineArn),
    /// Whether the holder of a grant received it through a task token. It may be half a minute old. [`Answer::Receipt`].
    Received(Holder, LeaseId, Timestamp),
    /// Starts an execution of this machine under this name with this input, once for each name. [`Answer::Begun`].
    Start(StateMachineArn, ExecutionName, String),
    /// Stops an execution, and says this as the cause; one that has ended stays as it is. [`Answer::Yes`], or no if no such
    /// execution is known, which may be half a minute old.
    Stop(Holder, String, StopFor),
    /// How an execution stands as to redrives; none if no such execution is known. It may be half a minute old.
    /// [`Answer::Redrives`].
    Redrives(Holder),
    /// How an execution stands, and what it came to. It may be half a minute old. [`Answer::Outcome`].
    Outcome(Holder),
    /// The input of an execution, or none if no such execution is known. It may be half a minute old. [`Answer::Input`].
    Input(Holder),
}

impl Question {
    /// Whether it changes anything, so that it matters whether it arrived.
    #[must_use]
    pub const fn acts(&self) -> bool {
        matches!(
            self,
            Self::Succeed(..) | Self::Fail(..) | Self::Start(..) | Self::Stop(..)
        )
    }

    /// Whether it is to or of one who waits with a token.
    #[must_use]
    pub const fn is_of_a_waiter(&self) -> bool {
        matches!(self, Self::Succeed(..) | Self::Fail(..) | Self::Waits(..))
    }

    /// What an engine answers that knows of waiters and of how executions stand, and of nothing else: the later of two calls of a request
    /// counts, each execution is asked about by itself, a lease of which its holder never learned ends with the execution, and
    /// nothing is redriven.
    ///
    /// # Errors
    /// That it starts and stops nothing.
    pub fn unknown(&self) -> Result<Answer, Error> {
        Ok(match self {
            Self::Waits(..) => Answer::Yes(true),
            Self::Running(_) => Answer::Running(Vec::new()),
            Self::Received(..) => Answer::Receipt(Receipt::Unreadable),
            Self::Redrives(_) => Answer::Redrives(Some(Redrives::NEVER)),
            _ => {
                return Err(Error::Misconfigured {
                    problem: "this workflow engine starts no executions".to_owned(),
                    source: None,
                });
            }
        })
    }
}

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident($of:ty),)*) => {
        /// What an engine answers to a [`Question`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum Answer {
            $($(#[$doc])* $name($of),)*
        }
        $(
            impl From<$of> for Answer {
                fn from(of: $of) -> Self {
                    Self::$name(of)
                }
            }

            impl TryFrom<Answer> for $of {
                type Error = Error;

                fn try_from(answer: Answer) -> Result<Self, Error> {
                    match answer {
                        Answer::$name(of) => Ok(of),
                        _ => Err(Error::Misconfigured {
                            problem: "the workflow engine answered another question".to_owned(),
                            source: None,
                        }),
                    }
                }
            }
        )*
    };
}

answers! {
    /// Of a notification.
    Delivery(Delivery),
    /// Yes or no.
    Yes(bool),
    /// How an execution stands.
    Execution(Execution),
    /// Who runs.
    Running(Vec<Holder>),
    /// What a history shows.
    Receipt(Receipt),
    /// Of a call that starts an execution.
    Begun(Begun),
    /// As to redrives.
    Redrives(Option<Redrives>),
    /// What an execution came to.
    Outcome(Outcome),
    /// The input of an execution.
    Input(Option<String>),
}

/// The workflow engine. Step Functions is one; a program whose waiters are threads or tasks can have its own. What it does not know it may
/// leave to [`Question::unknown`].
///
/// An error leaves open whether the question arrived. The library then repeats it sooner or later, and the second one must return
/// [`Delivery::Refused`] if the first arrived. An implementation must not repeat it by itself: after a single call, a refusal shows
/// that nobody waits.
pub trait Engine: Send + Sync {
    /// Answers within this time.
    fn ask(&self, question: Question, limit: Duration) -> Call<'_, Answer>;
}

impl std::fmt::Debug for dyn Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}
