//! The boring part of every handler, once: logging, configuration, one client per sandbox, strict
//! parsing, error names.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use aws_config::SdkConfig;
use lambda_runtime::{Context, LambdaEvent, Runtime, service_fn};
use serde::Serialize;

use crate::{
    clock::Timestamp,
    error::Error,
    json::Json,
    leases::Leases,
    settings::{self, Environment},
    store::{Connection, DynamoDb, Store},
    values::Key,
    workflows::StepFunctions,
};

mod ended;
mod raw_event;
mod records;
mod trigger;

pub use ended::{Ends, EndsFailed};
pub use lambda_runtime::{Diagnostic, Error as Fatal};
pub use records::{Changes, Failed};
pub use trigger::{Event, FromEvent, Trigger};

/// What is left of an invocation's time for sending the answer.
const TO_ANSWER: Duration = Duration::from_millis(200);

/// Serves a handler for as long as the sandbox lives.
///
/// A handler takes the leases, bound to the invocation, and its request, already parsed, and
/// returns its answer or an [`Error`], whose name becomes the `errorType`. A configuration that is
/// missing or wrong, an event that cannot be read, and a panic are answered with a name as well.
///
/// # Errors
/// Only if Lambda's runtime API cannot be reached.
pub async fn serve<Q, A, H, F>(handle: H) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    log();
    run(handle, connect().await.map(|(leases, _)| leases)).await
}

/// As [`serve`], with leases that call back those who wait in line.
///
/// # Errors
/// As [`serve`].
pub async fn serve_with_workflows<Q, A, H, F>(handle: H) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    log();
    let leases = connect().await.map(|(leases, ambient)| {
        let workflows = StepFunctions::new(&ambient);
        leases.with_workflows(Arc::new(workflows))
    });
    run(handle, leases).await
}

async fn run<Q, A, H, F>(handle: H, leases: Result<Leases<DynamoDb>, Error>) -> Result<(), Fatal>
where
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<DynamoDb>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let leases = leases.map_err(Arc::new);
    let (handle, leases) = (&handle, &leases);
    let service = service_fn(move |event: LambdaEvent<String>| async move {
        outcome(handle, leases, event).await
    });
    Runtime::new(service).layer(raw_event::AsText).run().await
}

/// The leases, and the configuration that another client may share.
async fn connect() -> Result<(Leases<DynamoDb>, SdkConfig), Error> {
    let environment = Environment::read()?;
    settings::check_endpoint()?;
    let ambient = Connection::ambient().await;
    let region = ambient.region();
    if region.is_none_or(|region| region.as_ref().is_empty()) {
        return Err(Error::Misconfigured {
            problem: "no Region: set AWS_REGION".to_owned(),
            source: None,
        });
    }
    let store = DynamoDb::new(Connection::client(&ambient), environment.table);
    Ok((Leases::new(store, environment.settings), ambient))
}

/// What a failed invocation answers.
#[derive(Debug)]
struct Failure(Diagnostic);

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

/// Answers one event as a function does that serves `handle`, on whatever store, and logs what it
/// would log: for tests of a handler. The event is what Lambda delivers, whatever that is.
///
/// # Errors
/// What Lambda would be told: the error's name and its message.
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
    let event = LambdaEvent::new(raw_event::text(event).to_owned(), Context::default());
    let answered = outcome(handle, &Ok(leases), event).await;
    answered.map_err(Diagnostic::from)
}

async fn outcome<S, Q, A, H, F>(
    handle: &H,
    leases: &Result<Leases<S>, Arc<Error>>,
    LambdaEvent { payload, context }: LambdaEvent<String>,
) -> Result<serde_json::Value, Failure>
where
    S: Store,
    Q: FromEvent,
    A: Serialize,
    H: Fn(Leases<S>, Q) -> F,
    F: Future<Output = Result<A, Error>>,
{
    let event = Json::parse(&payload);
    let about = About::of(event.as_ref().ok(), &context);
    let outcome = match (leases, event) {
        (Err(misconfigured), _) => Err(Arc::clone(misconfigured)),
        (_, Err(unreadable)) => Err(Arc::new(unreadable)),
        (Ok(leases), Ok(event)) => {
            let deadline = Timestamp::from_millis(context.deadline).minus(TO_ANSWER);
            let leases = leases.for_call(deadline);
            let work = async {
                let answer = handle(leases, Q::from_event(&Event(&event))?).await?;
                serde_json::to_value(answer).map_err(|error| Error::Unavailable {
                    problem: "the answer could not be written".to_owned(),
                    source: Some(crate::Cause::of(&error)),
                })
            };
            unless_it_panics(work).await.map_err(Arc::new)
        }
    };
    about.log(&outcome);
    outcome.map_err(|error| Failure(about.diagnose(&error)))
}

/// The runtime would report a panic by the name of a Rust type.
async fn unless_it_panics<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    // On the heap: some of the work holds many answers at once.
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

fn cut(text: &str) -> String {
    text.chars().take(1024).collect()
}

/// What an invocation is about, for its log line and its error.
struct About {
    request_id: String,
    key: Option<Key>,
    /// Of a set, the keys, as many as fit in a line.
    keys: Option<String>,
    holder: Option<String>,
    fencing_token: Option<u64>,
}

impl About {
    fn of(event: Option<&Json>, context: &Context) -> Self {
        let text = |name| {
            let event = event?;
            let own = event.text_at(&[name]);
            own.or_else(|| event.text_at(&["lease", name]))
        };
        Self {
            request_id: context.request_id.clone(),
            key: text("key").and_then(|key| Key::new(key).ok()),
            keys: event.and_then(Json::keys).map(|keys| cut(&keys.join(", "))),
            holder: text("holder").map(cut),
            fencing_token: event.and_then(|event| event.number_at(&["lease", "fencing_token"])),
        }
    }

    fn log(&self, outcome: &Result<serde_json::Value, Arc<Error>>) {
        let key = self.key.as_ref().map(Key::as_str).or(self.keys.as_deref());
        let (request, holder) = (self.request_id.as_str(), self.holder.as_deref());
        match outcome {
            Ok(answer) => {
                let token = answer["lease"]["fencing_token"].as_u64();
                let fencing_token = token.or(self.fencing_token);
                let outcome = answer["outcome"].as_str();
                tracing::info!(request, key, holder, fencing_token, outcome, "answered");
            }
            Err(error) => {
                let (outcome, token) = (error.name(), self.fencing_token);
                let problem = error.to_string();
                match error.worst() {
                    Error::Held(_)
                    | Error::Consumed { .. }
                    | Error::QueueFull { .. }
                    | Error::Frozen { .. } => {
                        tracing::info!(request, key, holder, outcome, problem, "refused");
                    }
                    Error::Lost { .. } | Error::Expired { .. } | Error::Invalid { .. } => {
                        tracing::warn!(
                            request,
                            key,
                            holder,
                            fencing_token = token,
                            outcome,
                            problem,
                            "refused"
                        );
                    }
                    _ => {
                        let problem = error.in_full();
                        tracing::error!(
                            request,
                            key,
                            holder,
                            fencing_token = token,
                            outcome,
                            problem,
                            "failed"
                        );
                    }
                }
            }
        }
    }

    /// Name and message; the message is one JSON object, and names the key whenever the event did.
    fn diagnose(&self, error: &Error) -> Diagnostic {
        Diagnostic {
            error_type: error.name().to_owned(),
            error_message: error.as_message(self.key.as_ref()),
        }
    }
}

/// One line of JSON an event. The SDK and what lies below it stay at their warnings whatever the
/// level: at TRACE they would show requests, and with them lease ids.
fn log() {
    use tracing_subscriber::{
        filter::{LevelFilter, Targets},
        fmt,
        prelude::*,
    };
    let level = settings::log_level();
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("leasehold", level)
        // It would tell every refusal a second time, as an error.
        .with_target("lambda_runtime::layers::panic", LevelFilter::OFF);
    let lines = fmt::layer().json().flatten_event(true);
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init();
}
