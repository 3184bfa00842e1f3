//! Step Functions, as far as our functions call it: a desk that writes down what is told to whom.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::error::{Error, io};
use crate::stack::Options;
use crate::task::OwnedTask;

/// A desk that functions call in the place of Step Functions. It closes when the last of its copies goes.
#[derive(Clone, Debug)]
pub struct Desk {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
    serving: Arc<Mutex<Vec<OwnedTask>>>,
}

#[derive(Debug, Default)]
struct Book {
    told: Vec<Told>,
    /// Nobody waits with these.
    over: HashSet<String>,
    running: HashSet<String>,
    stopped: HashSet<String>,
    /// Everything is answered with this error of the service.
    out_of_order: Option<&'static str>,
}

/// One call that arrived: the operation, and what was sent.
#[derive(Debug)]
pub struct Told {
    /// The action: `SendTaskSuccess`, `SendTaskFailure` or `SendTaskHeartbeat`.
    pub operation: String,
    /// The call's parameters.
    pub body: Value,
}

impl Told {
    /// The text that ends a task well; nothing if this ended it otherwise.
    #[must_use]
    pub fn output(&self) -> &str {
        self.body["output"].as_str().unwrap_or_default()
    }
}

impl Desk {
    /// Opens it, and has every function call it.
    ///
    /// # Errors
    /// [`Error::Io`] when no port can be had.
    pub async fn open(options: &mut Options) -> Result<Self, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(io("bind a port for the desk"))?;
        let address = listener.local_addr().map_err(io("read the desk's port"))?;
        let desk = Self {
            address,
            book: Arc::default(),
            serving: Arc::default(),
        };
        desk.serve(listener);
        let everywhere = options.environment.entry("*".to_owned()).or_default();
        let url = format!("http://{address}");
        everywhere.insert("AWS_ENDPOINT_URL_SFN".to_owned(), Some(url));
        Ok(desk)
    }

    /// Listens at the same port of `ip` too, for a container.
    ///
    /// # Errors
    /// [`Error::Io`] when this machine has no such address, or the port is taken there.
    pub async fn listen_also(&self, ip: IpAddr) -> Result<(), Error> {
        let address = SocketAddr::new(ip, self.address.port());
        let listener = TcpListener::bind(address).await;
        self.serve(listener.map_err(io(format!("bind {address} for the desk")))?);
        Ok(())
    }

    fn serve(&self, listener: TcpListener) {
        // The book alone: a task that held the desk would keep itself alive.
        let router = Router::new()
            .route("/", post(answer))
            .with_state(Arc::clone(&self.book));
        let task = OwnedTask::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the desk closed");
            }
        });
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        serving.push(task);
    }

    /// What was told since this was last asked.
    #[expect(clippy::must_use_candidate, reason = "asked to forget, too")]
    pub fn told(&self) -> Vec<Told> {
        std::mem::take(&mut self.book().told)
    }

    /// From here on nobody waits with this token.
    pub fn hang_up(&self, token: &str) {
        self.book().over.insert(token.to_owned());
    }

    /// From here on this execution is running. Any other has succeeded, unless it was stopped.
    pub fn run(&self, execution: &str) {
        self.book().running.insert(execution.to_owned());
    }

    /// From here on this execution was stopped, with a task at work.
    pub fn stop(&self, execution: &str) {
        self.book().stopped.insert(execution.to_owned());
    }

    /// Answers everything with this error, until it is put in order by `None`.
    pub fn out_of_order(&self, error: Option<&'static str>) {
        self.book().out_of_order = error;
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(
    State(book): State<Arc<Mutex<Book>>>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, answer) = book.answer(&headers, &body);
    (status, answer.to_string())
}

impl Book {
    fn answer(&mut self, headers: &HeaderMap, body: &str) -> (StatusCode, Value) {
        let refused = |status, name: &str| (status, json!({"__type": name, "message": "as asked"}));
        let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
        let operation = target.and_then(|target| target.strip_prefix("AWSStepFunctions."));
        let (Some(operation), Ok(body)) = (operation, serde_json::from_str::<Value>(body)) else {
            return refused(StatusCode::BAD_REQUEST, "ValidationException");
        };
        if let Some(error) = self.out_of_order {
            return refused(StatusCode::INTERNAL_SERVER_ERROR, error);
        }
        if let Some(told) = execution(operation, &body, |arn| {
            if self.running.contains(arn) {
                How::Runs
            } else if self.stopped.contains(arn) {
                How::Stopped
            } else {
                How::Succeeded
            }
        }) {
            return (StatusCode::OK, told);
        }
        if self
            .over
            .contains(body["taskToken"].as_str().unwrap_or_default())
        {
            return refused(StatusCode::BAD_REQUEST, "TaskTimedOut");
        }
        self.told.push(Told {
            operation: operation.to_owned(),
            body,
        });
        (StatusCode::OK, json!({}))
    }
}

/// How an execution stands that is no real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It runs.
    Runs,
    /// It was stopped, with a task at work.
    Stopped,
    /// It succeeded, and every task has answered.
    Succeeded,
}

/// What `DescribeExecution` and `GetExecutionHistory` answer of such an execution; nothing for any other operation.
pub fn execution(operation: &str, body: &Value, how: impl FnOnce(&str) -> How) -> Option<Value> {
    let arn = body["executionArn"].as_str().unwrap_or_default();
    let (status, last) = match operation {
        "DescribeExecution" | "GetExecutionHistory" => match how(arn) {
            How::Runs => ("RUNNING", "ExecutionStarted"),
            How::Stopped => ("ABORTED", "ExecutionAborted"),
            How::Succeeded => ("SUCCEEDED", "ExecutionSucceeded"),
        },
        _ => return None,
    };
    // Later than anything that was written for it.
    let stopped = 4_102_444_800_u64;
    if operation == "DescribeExecution" {
        return Some(json!({
            "executionArn": arn,
            "stateMachineArn": arn,
            "startDate": 1_795_226_400,
            "stopDate": (status != "RUNNING").then_some(stopped),
            "status": status,
        }));
    }
    let events = ["TaskScheduled", "TaskStarted", "TaskSucceeded", last];
    let events = events
        .into_iter()
        .filter(|kind| status == "SUCCEEDED" || *kind != "TaskSucceeded");
    let events = events.enumerate().map(|(before, kind)| {
        let mut event =
            json!({"timestamp": stopped, "type": kind, "id": before + 1, "previousEventId": before});
        if kind == "TaskSucceeded" {
            event["taskSucceededEventDetails"] =
                json!({"resourceType": "lambda", "resource": "invoke"});
        }
        event
    });
    Some(json!({"events": events.collect::<Vec<_>>()}))
}
