//! A fake Step Functions for the functions' calls, and a fake of what Lambda has for durable executions: the HTTP of a
//! service in memory (`service`), which records every call.
//!
//! The engine of `local/asl` interprets machines and knows nothing of this; `leasehold::test_support` has a fake of our own trait, whose
//! answers a test sets; the model's are written from what AWS documents. They stay apart, so that one error is not
//! in all of them.

mod service;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use leasehold_local::{Options, guard};
use leasehold_net::{Listener, Server};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use service::Service;

type Shared = Arc<Mutex<Service>>;

/// A server that functions call instead of Step Functions. It stops when its last clone is dropped.
#[derive(Clone, Debug)]
pub struct FakeStepFunctionsServer {
    address: SocketAddr,
    service: Shared,
    server: Arc<tokio::sync::Mutex<Server>>,
}

/// One received call: the operation and its parameters.
#[derive(Debug)]
pub struct StepFunctionsCall {
    /// The action: `SendTaskSuccess`, `SendDurableExecutionCallbackSuccess` and the like.
    pub operation: String,
    /// The call's parameters.
    pub body: Value,
}

/// An execution that was started, while it ran: from its beginning, or from a redrive, to its end.
#[derive(Clone, Debug)]
pub struct StartedRun {
    /// Its ARN.
    pub execution: String,
    /// Its input.
    pub input: String,
    /// Whether it ran by a redrive.
    pub is_redrive: bool,
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub until: Option<Instant>,
    /// How it ended, or that it runs.
    pub status: &'static str,
    /// Whether its task was answered.
    pub is_answered: bool,
}

impl StepFunctionsCall {
    /// The output of a successful task. None for any other call.
    #[must_use]
    pub fn output(&self) -> &str {
        self.body["output"].as_str().unwrap_or_default()
    }
}

impl FakeStepFunctionsServer {
    /// Starts it, and makes every function call it.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(options: &mut Options) -> io::Result<Self> {
        let server = Self::open().await?;
        let everywhere = options.environment.entry("*".to_owned()).or_default();
        let url = format!("http://{}", server.address);
        for service in ["SFN", "LAMBDA"] {
            everywhere.insert(format!("AWS_ENDPOINT_URL_{service}"), Some(url.clone()));
        }
        Ok(server)
    }

    /// Starts it, for callers that are told its address.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn open() -> io::Result<Self> {
        let service = Arc::default();
        let server = Listener::bind(0).await?.serve(routes(&service), guard());
        Ok(Self {
            address: server.address(),
            service,
            server: Arc::new(tokio::sync::Mutex::new(server)),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens at the same port of `ip` too, for a container.
    ///
    /// # Errors
    /// When this machine has no such address, or the port is taken there.
    pub async fn listen_also(&self, ip: IpAddr) -> io::Result<()> {
        self.server.lock().await.listen_also(ip).await
    }

    /// The calls received since the last call of this method, but for those that a waiter received.
    #[expect(clippy::must_use_candidate, reason = "asked to forget, too")]
    pub fn calls(&self) -> Vec<StepFunctionsCall> {
        std::mem::take(&mut self.service().received)
    }

    /// A task of this execution waits with this token, which is answered once. When the receiver is gone, the task has
    /// timed out. From here on the execution runs, and its history tells of the task.
    ///
    /// # Panics
    /// If the execution has ended.
    #[must_use]
    pub fn wait(&self, execution: &str, token: &str) -> oneshot::Receiver<StepFunctionsCall> {
        self.service().wait(execution, token)
    }

    /// An execution of which a task has waited is over from here on, with this status, unless it was over before.
    pub fn end(&self, execution: &str, status: &'static str) {
        self.service().end(execution, status);
    }

    /// Whether this execution is still running.
    #[must_use]
    pub fn is_running(&self, execution: &str) -> bool {
        self.service().is_running(execution)
    }

    /// Forgets all tokens that somebody has waited with, the executions that waited or were started, and the calls received.
    pub fn forget(&self) {
        self.service().forget();
    }

    /// From here on no task waits with this token.
    pub fn expire_token(&self, token: &str) {
        self.service().expired.insert(token.to_owned());
    }

    /// From here on this execution is running, by a redrive if it had ended. Any that nobody has told of has succeeded.
    pub fn run(&self, execution: &str) {
        self.service().run(execution);
    }

    /// From here on this execution counts as stopped, with a task still running.
    pub fn stop(&self, execution: &str) {
        self.service().stop(execution, 0.0);
    }

    /// The same, two hours ago.
    pub fn stop_earlier(&self, execution: &str) {
        self.service().stop(execution, 7200.0);
    }

    /// Whether there is such a state machine from here on. There are all others.
    pub fn set_missing(&self, machine: &str, is_missing: bool) {
        let missing = &mut self.service().missing;
        if is_missing {
            missing.insert(machine.to_owned());
        } else {
            missing.remove(machine);
        }
    }

    /// The input with which this execution was started.
    #[must_use]
    pub fn input_of(&self, execution: &str) -> Option<String> {
        self.service().input_of(execution)
    }

    /// From here on this machine has no executions but those that were started, and a stop ends them then, and not later.
    pub fn knows_what_began(&self, machine: &str) {
        self.service().exact.insert(machine.to_owned());
    }

    /// The executions that were started, each time that they ran.
    #[must_use]
    pub fn runs(&self) -> Vec<StartedRun> {
        self.service().runs()
    }

    /// From here on the history of this execution has a task with this result.
    pub fn has_received(&self, execution: &str, output: &str) {
        self.service().has_received(execution, output);
    }

    /// Answers every call with this error, until it is set to `None`.
    pub fn fail_with(&self, error: Option<&'static str>) {
        self.service().failing_with = error;
    }

    fn service(&self) -> MutexGuard<'_, Service> {
        lock(&self.service)
    }
}

fn routes(service: &Shared) -> Router {
    Router::new()
        .route("/", post(answer))
        .route(
            "/2025-12-01/durable-execution-callbacks/{id}/{end}",
            post(answer_callback),
        )
        .route(
            "/2025-12-01/durable-executions/{arn}",
            get(describe_durable),
        )
        .with_state(Arc::clone(service))
}

fn lock(service: &Shared) -> MutexGuard<'_, Service> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The service's own errors are its fault, all others the caller's.
fn status_of(error: &str) -> StatusCode {
    match error {
        "ExecutionAlreadyExists"
        | "ExecutionDoesNotExist"
        | "ExecutionNotRedrivable"
        | "InvalidToken"
        | "StateMachineDoesNotExist"
        | "TaskTimedOut"
        | "ValidationException" => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn answer(
    State(service): State<Shared>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix("AWSStepFunctions."));
    let answer = match (operation, serde_json::from_str(&body)) {
        (Some(operation), Ok(body)) => lock(&service).perform(operation, body),
        _ => Err("ValidationException"),
    };
    match answer {
        Ok(answer) => (StatusCode::OK, answer.to_string()),
        Err(name) => {
            let error = json!({"__type": name, "message": "as asked"});
            (status_of(name), error.to_string())
        }
    }
}

/// A callback is a task token by another name.
async fn answer_callback(
    State(service): State<Shared>,
    Path((id, end)): Path<(String, String)>,
    body: String,
) -> Response<Body> {
    let (operation, parameters) = if end == "succeed" {
        (
            "SendTaskSuccess",
            json!({"taskToken": id, "callbackId": id, "output": body}),
        )
    } else {
        let error: Value = serde_json::from_str(&body).unwrap_or_default();
        let (name, data) = (&error["ErrorType"], &error["ErrorData"]);
        let said = &error["ErrorMessage"];
        (
            "SendTaskFailure",
            json!({"taskToken": id, "callbackId": id, "error": name, "cause": data, "message": said}),
        )
    };
    let mut service = lock(&service);
    let before = service.received.len();
    let answer = service.perform(operation, parameters);
    for call in &mut service.received[before..] {
        call.operation = call
            .operation
            .replace("SendTask", "SendDurableExecutionCallback");
    }
    of_lambda(answer.map_err(|name| match name {
        "InvalidToken" | "TaskTimedOut" => (status_of(name), "CallbackTimeoutException"),
        other => (status_of(other), other),
    }))
}

async fn describe_durable(
    State(service): State<Shared>,
    Path(arn): Path<String>,
) -> Response<Body> {
    let told = lock(&service).perform("DescribeExecution", json!({"executionArn": arn}));
    let described = told.map(|told| {
        let standing = match told["status"].as_str() {
            Some("ABORTED") => Some("STOPPED"),
            other => other,
        };
        json!({
            "DurableExecutionArn": arn,
            "DurableExecutionName": "any",
            "FunctionArn": arn.split("/durable-execution/").next(),
            "StartTimestamp": told["startDate"],
            "EndTimestamp": told["stopDate"],
            "Status": standing,
        })
    });
    of_lambda(described.map_err(|name| match name {
        "ExecutionDoesNotExist" => (status_of(name), "ResourceNotFoundException"),
        other => (status_of(other), other),
    }))
}

/// An answer of Lambda's API, which has the name of an error in a header.
fn of_lambda(answer: Result<Value, (StatusCode, &str)>) -> Response<Body> {
    let (response, body) = match answer {
        Ok(answer) => (Response::builder(), answer),
        Err((status, name)) => {
            let refused = Response::builder().status(status);
            (refused.header("x-amzn-errortype", name), json!({}))
        }
    };
    response
        .body(Body::from(body.to_string()))
        .unwrap_or_default()
}
