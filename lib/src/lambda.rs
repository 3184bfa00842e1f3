//! What every handler needs, in one place: logging, configuration, one client per sandbox, strict parsing, error
//! names.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use aws_config::SdkConfig;
use lambda_runtime::{Context, LambdaEvent, Runtime, service_fn};
use serde::Serialize;
use tracing::Instrument as _;

use crate::{
    clock::{Clock as _, SystemClock, Timestamp},
    error::Error,
    json,
    leases::Leases,
    metrics::{INVOCATION_METRICS, InvocationMetrics, Metric},
    settings::{self, Boundary, Environment},
    store::{Connection, DynamoDb, Store},
    workflows::{StepFunctions, Workflows},
};

mod boundary;
mod emf;
mod env_config;
mod events;
mod execution_events;
mod invocation_metrics;
mod log;

pub use events::{Event, FromEvent, Trigger};
pub use execution_events::{ExecutionEvents, FailedExecutions};
pub use lambda_runtime::{Diagnostic, Error as Fatal};

use emf::EmfWriter;
use log::About;

/// The time at the end of an invocation that is reserved for sending the response.
const TO_ANSWER: Duration = Duration::from_millis(200);

/// Serves a handler for as long as the sandbox lives. `operation` is its name in logs and metrics.
///
/// A handler takes the leases, bound to the invocation, and its parsed request. It returns its response or an
/// [`Error`], whose name becomes the `errorType`. A missing or wrong configuration, an unreadable event, and a panic
/// also end with such a name.
///
/// # Errors
/// If Lambda's runtime API cannot be reached, or if `AWS_USE_FIPS_ENDPOINT` is true and the cipher library is not the
/// FIPS-validated one.
pub async fn serve<Q, A, H, F>(operation: &'static str, handle: H) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    run(operation, handle, connect).await
}

/// As [`serve`], with leases that notify waiters.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with_workflows<Q, A, H, F>(
    operation: &'static str,
    handle: H,
) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let only = |ambient: &SdkConfig| env_config::CallbacksOnly(StepFunctions::new(ambient));
    run(operation, handle, calling_back(only)).await
}

/// As [`serve_with_workflows`], with leases that can also ask for the state of an execution, which [`Leases::reap`]
/// needs.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with_executions<Q, A, H, F>(
    operation: &'static str,
    handle: H,
) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    run(operation, handle, calling_back(StepFunctions::new)).await
}

/// Leases that notify through what `workflows` makes of the configuration.
fn calling_back<W: Workflows + 'static>(
    workflows: impl FnOnce(&SdkConfig) -> W,
) -> impl FnOnce() -> Result<Connected, Error> {
    move || {
        let mut connected = connect()?;
        let workflows = Arc::new(workflows(&connected.ambient));
        connected.leases = connected.leases.with_workflows(workflows);
        Ok(connected)
    }
}

async fn run<Q, A, H, F>(
    operation: &'static str,
    handle: H,
    connect: impl FnOnce() -> Result<Connected, Error>,
) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    log::listen();
    // A string, because the process ends with the `Debug` of the error.
    let module = aws_lc_rs::try_fips_mode();
    env_config::check_fips(settings::variable, module).map_err(|error| error.to_string())?;
    let connected = connect().and_then(|connected| {
        if Q::SEES_TO_ALL {
            connected.boundary.check_absence()?;
        }
        Ok(connected)
    });
    let served = connected
        .map(|connected| (connected.leases, connected.boundary))
        .map_err(Arc::new);
    let meter = EmfWriter::new(operation);
    let (handle, served, meter) = (&handle, &served, &meter);
    let service = service_fn(move |event: LambdaEvent<String>| async move {
        let (outcome, tally) = outcome(operation, handle, served, event).await;
        meter.write(&tally, SystemClock.now());
        outcome
    });
    Runtime::new(service).layer(events::AsText).run().await
}

/// What a sandbox keeps for all its invocations.
struct Connected {
    leases: Leases<DynamoDb>,
    boundary: Boundary,
    /// The configuration, to share with another client.
    ambient: SdkConfig,
}

fn connect() -> Result<Connected, Error> {
    let Environment {
        table,
        settings,
        owns_rules,
        boundary,
        executions,
    } = Environment::read()?;
    settings::check_endpoint()?;
    let ambient = env_config::read(settings::variable)?;
    let store = DynamoDb::new(Connection::client(&ambient), table);
    let leases = Leases::new(store, settings).with_executions(executions);
    Ok(Connected {
        leases: if owns_rules {
            leases
        } else {
            leases.with_table_rules()
        },
        boundary,
        ambient,
    })
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
pub async fn answer<S, Q, A, H, F>(
    handle: &H,
    leases: Leases<S>,
    event: &[u8],
) -> Result<serde_json::Value, Diagnostic>
where
    S: Store,
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<S>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let event = LambdaEvent::new(events::text(event).to_owned(), Context::default());
    let served = Ok((leases, Boundary::default()));
    let (answered, _) = outcome("", handle, &served, event).await;
    answered.map_err(Diagnostic::from)
}

/// The outcome of one event, and what to count for it.
async fn outcome<S, Q, A, H, F>(
    operation: &'static str,
    handle: &H,
    served: &Result<(Leases<S>, Boundary), Arc<Error>>,
    LambdaEvent { payload, context }: LambdaEvent<String>,
) -> (Result<serde_json::Value, Failure>, InvocationMetrics)
where
    S: Store,
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<S>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let began = SystemClock.now();
    let event = json::parse(&payload);
    let about = About::of(event.as_ref().ok(), &context, operation);
    let work = async {
        let outcome = match (served, event) {
            (Err(misconfigured), _) => Err(Arc::clone(misconfigured)),
            (_, Err(unreadable)) => Err(Arc::new(unreadable)),
            (Ok((leases, boundary)), Ok(event)) => {
                let deadline = Timestamp::from_millis(context.deadline).minus(TO_ANSWER);
                let leases = leases.for_call(deadline);
                let work = async {
                    let request = Q::from_event(&Event(&event))?;
                    boundary.check(&event)?;
                    let answer = handle(leases, request).await?;
                    serde_json::to_value(answer).map_err(|error| Error::Unavailable {
                        problem: "the response could not be written as JSON".to_owned(),
                        source: Some(crate::Cause::of(&error)),
                    })
                };
                unless_it_panics(work).await.map_err(Arc::new)
            }
        };
        (outcome, INVOCATION_METRICS.with(RefCell::take))
    };
    let work = INVOCATION_METRICS.scope(RefCell::default(), work);
    let (outcome, mut tally) = work.instrument(about.span()).await;
    let took = SystemClock.now().since(began);
    match &outcome {
        Ok(answer) => tally.add_answer(answer),
        Err(error) => tally.add_error(error),
    }
    tally.add_length(Metric::Latency, took);
    about.log(&outcome, took);
    (
        outcome.map_err(|error| Failure(about.diagnose(&error))),
        tally,
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
