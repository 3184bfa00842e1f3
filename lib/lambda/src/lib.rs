//! Serves leases (the crate [`leasehold`]) as Lambda functions. What every handler needs is here, in one place: logging,
//! configuration, one client per sandbox, strict parsing, error names.
//!
//! A handler takes the leases and its own request, and returns its response. Its `main` is one call:
//!
//! ```no_run
//! use leasehold::{Error, Key, Leases, Inspected, store::Store};
//! use leasehold_lambda::{Fatal, Function, Names, Request};
//!
//! #[derive(serde::Deserialize)]
//! struct Show {
//!     key: Key,
//! }
//!
//! impl Request for Show {
//!     fn names(&self) -> Names<'_> {
//!         Names::default().key(&self.key)
//!     }
//! }
//!
//! async fn handle<S: Store>(leases: Leases<S>, request: Show) -> Result<Inspected, Error> {
//!     leases.inspect(&request.key).await
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Fatal> {
//!     Function::new("show").serve(handle).await
//! }
//! ```
//!
//! [`ExecutionServices`] notifies waiters and looks executions up, in Step Functions and among Lambda's durable functions. It also
//! serves a program that is no Lambda function.

use std::{
    fmt,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use aws_config::SdkConfig;
use lambda_runtime::{Context, LambdaEvent, Runtime, service_fn};
use leasehold::{
    Cause, Clock, Connection, DynamoDb, Environment, Error, Leases, Queue, StartRules, SystemClock,
    Timestamp,
    metrics::{self, Counts},
    store::Store,
};
use serde::Serialize;
use tracing::Instrument as _;

mod boundary;
mod delivered;
#[cfg(feature = "durable-functions")]
mod durable_functions;
mod emf;
mod environment;
mod events;
mod execution_events;
mod execution_services;
mod invocation_metrics;
mod json;
mod log;
mod names;
mod response;
#[cfg(feature = "schema")]
pub mod schema;
mod service_calls;
mod step_functions;

pub use delivered::{Delivered, Handled, Message};
#[cfg(feature = "durable-functions")]
pub use durable_functions::DurableFunctions;
pub use events::{Event, FromEvent, Request, Trigger};
pub use execution_events::ExecutionEvent;
pub use execution_services::ExecutionServices;
pub use lambda_runtime::{Diagnostic, Error as Fatal};
pub use names::Names;
pub use step_functions::StepFunctions;

use boundary::Boundary;
use emf::EmfWriter;
use log::About;
use response::Summary;

/// The time at the end of an invocation that is reserved for sending the response.
const TO_ANSWER: Duration = Duration::from_millis(200);

/// A function: its name in logs and metrics, and what it may call beside the table.
#[must_use = "it does nothing until it serves"]
pub struct Function<L = Leases<DynamoDb>> {
    operation: &'static str,
    /// Gives the leases what they may call. A pointer, so that a function which calls nothing is built without its client.
    with_calls: fn(Leases<DynamoDb>, StartRules, &SdkConfig) -> L,
    clock: Option<Arc<dyn Clock>>,
}

impl Function {
    /// A function that calls nothing but the table: its handler takes [`Leases`].
    pub fn new(operation: &'static str) -> Self {
        Self {
            operation,
            with_calls: |leases, _, _| leases,
            clock: None,
        }
    }

    /// It also notifies waiters: its handler takes a [`Queue`].
    pub fn that_notifies(self) -> Function<Queue<DynamoDb>> {
        self.with_calls(|leases, starts, ambient| {
            let workflows = ExecutionServices::<false>::of(ambient);
            leases.with_engine(Arc::new(workflows)).with_starts(starts)
        })
    }

    /// It also notifies waiters and looks executions up, which [`Queue::reap`] and [`Queue::sweep`] need.
    pub fn that_looks(self) -> Function<Queue<DynamoDb>> {
        self.with_calls(|leases, starts, ambient| {
            let workflows = ExecutionServices::new(ambient);
            leases.with_engine(Arc::new(workflows)).with_starts(starts)
        })
    }

    fn with_calls<L>(
        self,
        with_calls: fn(Leases<DynamoDb>, StartRules, &SdkConfig) -> L,
    ) -> Function<L> {
        Function {
            operation: self.operation,
            with_calls,
            clock: self.clock,
        }
    }
}

/// What a handler works with: [`Leases`] or a [`Queue`], for one invocation.
pub trait ForCall {
    /// The same for one invocation, which ends at this instant.
    #[must_use]
    fn for_call(&self, deadline: Timestamp) -> Self;
}

impl<S: Store> ForCall for Leases<S> {
    fn for_call(&self, deadline: Timestamp) -> Self {
        Self::for_call(self, deadline)
    }
}

impl<S: Store> ForCall for Queue<S> {
    fn for_call(&self, deadline: Timestamp) -> Self {
        Self::for_call(self, deadline)
    }
}

impl<L: ForCall> Function<L> {
    /// The clock of its leases, if not the system's.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Serves a handler for as long as the sandbox lives.
    ///
    /// A handler takes the leases, bound to the invocation, and its parsed request. It returns its response or an
    /// [`Error`], whose name becomes the `errorType`. A missing or wrong configuration, an unreadable event, and a panic
    /// also end with such a name.
    ///
    /// # Errors
    /// If Lambda's runtime API cannot be reached, or if `AWS_USE_FIPS_ENDPOINT` is true and the cipher library is not the
    /// FIPS-validated one.
    pub async fn serve<Q, A, H, F>(self, handle: H) -> Result<(), Fatal>
    where
        Q: Request,
        A: Serialize,
        H: Fn(L, Q) -> F,
        F: Future<Output = Result<A, Error>>,
    {
        log::listen();
        // A string, because the process ends with the `Debug` of the error.
        #[cfg(feature = "https-client")]
        let module = aws_lc_rs::try_fips_mode();
        #[cfg(not(feature = "https-client"))]
        let module = Err("no cipher library");
        environment::check_fips(environment::variable, module)
            .map_err(|error| error.to_string())?;
        let served = self.connect(Q::WHOLE_TABLE).map_err(Arc::new);
        let meter = EmfWriter::new(self.operation);
        let (handle, served, meter) = (&handle, &served, &meter);
        let service = service_fn(move |event: LambdaEvent<String>| async move {
            let (outcome, counts) = outcome(self.operation, handle, served, event).await;
            meter.write(&counts, SystemClock.now());
            outcome
        });
        Runtime::new(service).layer(events::AsText).run().await
    }

    /// What a sandbox keeps for all its invocations.
    fn connect(&self, whole_table: bool) -> Result<(L, Boundary), Error> {
        let Environment {
            table,
            settings,
            owns_rules,
            executions,
            starts,
        } = Environment::read()?;
        let boundary = Boundary::read(environment::variable)?;
        environment::check_endpoints(environment::variable)?;
        if whole_table {
            boundary.check_absence()?;
        }
        let ambient = environment::read(environment::variable)?;
        let store = DynamoDb::new(Connection::client(&ambient), table);
        let leases = Leases::new(store, settings);
        let mut leases = leases.with_executions(executions);
        if !owns_rules {
            leases = leases.with_table_rules();
        }
        if let Some(clock) = &self.clock {
            leases = leases.with_clock(Arc::clone(clock));
        }
        Ok(((self.with_calls)(leases, starts, &ambient), boundary))
    }
}

impl<L> fmt::Debug for Function<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.operation).finish()
    }
}

/// The response of a failed invocation.
#[derive(Debug)]
struct Failure(Diagnostic);

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

/// Handles one event as a function that serves `handle` does, on any store, and logs as it does: for tests of a
/// handler. The event is the bytes that Lambda delivers, whatever they are.
///
/// # Errors
/// What Lambda would receive: the error's name and its message.
pub async fn answer<L, Q, A, H, F>(
    handle: &H,
    leases: L,
    event: &[u8],
) -> Result<serde_json::Value, Diagnostic>
where
    L: ForCall,
    Q: Request,
    A: Serialize,
    H: Fn(L, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let event = LambdaEvent::new(events::text(event).to_owned(), Context::default());
    let served = Ok((leases, Boundary::default()));
    let (answered, _) = outcome("", handle, &served, event).await;
    answered.map_err(Diagnostic::from)
}

/// The outcome of one event, and what to count for it.
async fn outcome<L, Q, A, H, F>(
    operation: &'static str,
    handle: &H,
    served: &Result<(L, Boundary), Arc<Error>>,
    LambdaEvent { payload, context }: LambdaEvent<String>,
) -> (Result<serde_json::Value, Failure>, Counts)
where
    L: ForCall,
    Q: Request,
    A: Serialize,
    H: Fn(L, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let began = SystemClock.now();
    let (request, about) = match json::parse(&payload) {
        Err(unreadable) => (
            Err(unreadable),
            About::unreadable(None, &context, operation),
        ),
        Ok(event) => {
            let request = unless_it_panics(async { Q::from_event(&Event(&event)) }).await;
            let about = match &request {
                Ok(request) => About::of(&request.names(), &context, operation),
                Err(_) => About::unreadable(Some(&event), &context, operation),
            };
            (request, about)
        }
    };
    let work = async {
        let served = served.as_ref().map_err(Arc::clone);
        match (served, request) {
            (Err(misconfigured), _) => Err(misconfigured),
            (_, Err(unreadable)) => Err(Arc::new(unreadable)),
            (Ok((leases, boundary)), Ok(request)) => {
                let deadline = Timestamp::from_millis(context.deadline).minus(TO_ANSWER);
                let leases = leases.for_call(deadline);
                let work = async {
                    boundary.check(&request.names())?;
                    let answer = handle(leases, request).await?;
                    let json =
                        serde_json::to_value(&answer).map_err(|error| Error::Unavailable {
                            problem: "the response could not be written as JSON".to_owned(),
                            source: Some(Cause::of(&error)),
                        })?;
                    let summary = Summary::of(&json);
                    Ok((json, summary))
                };
                unless_it_panics(work).await.map_err(Arc::new)
            }
        }
    };
    let work = metrics::counted(work);
    let (outcome, mut counts) = work.instrument(about.span()).await;
    let took = SystemClock.now().since(began);
    let summary = outcome.as_ref().map(|(_, summary)| summary);
    invocation_metrics::add(&mut counts, summary, took);
    about.log(summary, took);
    let answered = outcome.map(|(json, _)| json);
    (
        answered.map_err(|error| Failure(about.diagnose(&error))),
        counts,
    )
}

/// Without this the runtime would report a panic by the name of a Rust type.
async fn unless_it_panics<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    // On the heap, because some work holds many responses at once.
    let mut work = Box::pin(work);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| {
            Poll::Ready(Err(Error::Unavailable {
                problem: "the function panicked; its log says where".to_owned(),
                source: None,
            }))
        })
    })
    .await
}
