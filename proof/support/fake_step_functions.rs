//! A fake Step Functions for the functions' calls, and a fake of what Lambda has for durable executions: a server that records
//! every call.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use leasehold_local::{Options, guard};
use leasehold_net::{Listener, Server};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A server that functions call instead of Step Functions. It stops when its last clone is dropped.
#[derive(Clone, Debug)]
pub struct FakeStepFunctionsServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    server: Arc<tokio::sync::Mutex<Server>>,
}

#[derive(Debug, Default)]
struct ServerState {
    received: Vec<StepFunctionsCall>,
    /// Tokens somebody waits with, or has waited with. Once there is one, no other token is valid.
    waiting: Option<HashMap<String, Option<oneshot::Sender<StepFunctionsCall>>>>,
    /// Tokens without a waiting task.
    expired: HashSet<String>,
    running: HashSet<String>,
    /// The input of every execution that a call started.
    started: HashMap<String, String>,
    /// Executions that did not begin, because the call failed.
    not_begun: HashSet<String>,
    /// State machines that do not exist.
    missing: HashSet<String>,
    /// With when.
    stopped: HashMap<String, f64>,
    /// The result of a task of an execution.
    received_by: HashMap<String, String>,
    /// Executions with tasks that wait with tokens.
    tracked: HashMap<String, TrackedExecution>,
    /// The service error that every call receives, if set.
    failing_with: Option<&'static str>,
}

/// An execution whose tasks wait with tokens, one after the other.
#[derive(Debug, Default)]
struct TrackedExecution {
    /// The token of each task, and what the task ended with.
    tasks: Vec<(String, Option<(&'static str, Value)>)>,
    /// How it ended, and when, in seconds since the epoch. None while it runs.
    ended: Option<(&'static str, f64)>,
}

/// One received call: the operation and its parameters.
#[derive(Debug)]
pub struct StepFunctionsCall {
    /// The action: `SendTaskSuccess`, `SendDurableExecutionCallbackSuccess` and the like.
    pub operation: String,
    /// The call's parameters.
    pub body: Value,
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
        let state = Arc::default();
        let server = Listener::bind(0).await?.serve(routes(&state), guard());
        Ok(Self {
            address: server.address(),
            state,
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
        std::mem::take(&mut self.state().received)
    }

    /// A task of this execution waits with this token, which is answered once. When the receiver is gone, the task has
    /// timed out. From here on the execution runs, and its history tells of the task.
    #[must_use]
    pub fn wait(&self, execution: &str, token: &str) -> oneshot::Receiver<StepFunctionsCall> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        let tracked = state.tracked.entry(execution.to_owned()).or_default();
        tracked.tasks.push((token.to_owned(), None));
        tracked.ended = None;
        let waiting = state.waiting.get_or_insert_default();
        waiting.insert(token.to_owned(), Some(sender));
        receiver
    }

    /// An execution of which a task has waited is over from here on, with this status, unless it was over before.
    pub fn end(&self, execution: &str, status: &'static str) {
        if let Some(tracked) = self.state().tracked.get_mut(execution) {
            tracked.ended.get_or_insert_with(|| (status, now()));
        }
    }

    /// Whether this execution, of which a task has waited, is still running.
    #[must_use]
    pub fn is_running(&self, execution: &str) -> bool {
        let state = self.state();
        let tracked = state.tracked.get(execution);
        tracked.is_some_and(|tracked| tracked.ended.is_none())
    }

    /// Forgets all tokens that somebody has waited with, and the executions.
    pub fn forget_tokens(&self) {
        let mut state = self.state();
        state.waiting = Some(HashMap::new());
        state.tracked.clear();
    }

    /// From here on no task waits with this token.
    pub fn expire_token(&self, token: &str) {
        self.state().expired.insert(token.to_owned());
    }

    /// From here on this execution is running. Any other has succeeded, unless it was stopped.
    pub fn run(&self, execution: &str) {
        let mut state = self.state();
        state.stopped.remove(execution);
        state.running.insert(execution.to_owned());
    }

    /// From here on this execution counts as stopped, with a task still running.
    pub fn stop(&self, execution: &str) {
        let mut state = self.state();
        state.running.remove(execution);
        state.stopped.insert(execution.to_owned(), stop());
    }

    /// The same, two hours ago.
    pub fn stop_earlier(&self, execution: &str) {
        self.stop(execution);
        let at = now() - 7200.0;
        self.state().stopped.insert(execution.to_owned(), at);
    }

    /// Whether there is such a state machine from here on. There are all others.
    pub fn set_missing(&self, machine: &str, is_missing: bool) {
        let mut state = self.state();
        if is_missing {
            state.missing.insert(machine.to_owned());
        } else {
            state.missing.remove(machine);
        }
    }

    /// The input with which this execution was started.
    #[must_use]
    pub fn input_of(&self, execution: &str) -> Option<String> {
        self.state().started.get(execution).cloned()
    }

    /// From here on the history of this execution has a task with this result.
    pub fn has_received(&self, execution: &str, output: &str) {
        let mut state = self.state();
        state
            .received_by
            .insert(execution.to_owned(), output.to_owned());
    }

    /// Answers every call with this error, until it is set to `None`.
    pub fn fail_with(&self, error: Option<&'static str>) {
        self.state().failing_with = error;
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn routes(state: &Arc<Mutex<ServerState>>) -> Router {
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
        .with_state(Arc::clone(state))
}

async fn answer(
    State(state): State<Arc<Mutex<ServerState>>>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, String) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, answer) = state.answer(&headers, &body);
    (status, answer.to_string())
}

/// A callback is a task token by another name.
async fn answer_callback(
    State(state): State<Arc<Mutex<ServerState>>>,
    Path((id, end)): Path<(String, String)>,
    body: String,
) -> Response<Body> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
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
    let before = state.received.len();
    let (status, answer) = state.perform(operation, parameters);
    for call in &mut state.received[before..] {
        call.operation = call
            .operation
            .replace("SendTask", "SendDurableExecutionCallback");
    }
    let name = match answer["__type"].as_str() {
        Some("InvalidToken" | "TaskTimedOut") => Some("CallbackTimeoutException"),
        other => other,
    };
    of_lambda(status, name, &json!({}))
}

async fn describe_durable(
    State(state): State<Arc<Mutex<ServerState>>>,
    Path(arn): Path<String>,
) -> Response<Body> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (status, told) = state.perform("DescribeExecution", json!({"executionArn": arn}));
    let standing = match told["status"].as_str() {
        Some("ABORTED") => Some("STOPPED"),
        other => other,
    };
    let described = json!({
        "DurableExecutionArn": arn,
        "DurableExecutionName": "any",
        "FunctionArn": arn.split("/durable-execution/").next(),
        "StartTimestamp": told["startDate"],
        "EndTimestamp": told["stopDate"],
        "Status": standing,
    });
    let name = match told["__type"].as_str() {
        Some("ExecutionDoesNotExist") => Some("ResourceNotFoundException"),
        other => other,
    };
    of_lambda(status, name, &described)
}

/// An answer of Lambda's API, which has the name of an error in a header.
fn of_lambda(status: StatusCode, error: Option<&str>, answer: &Value) -> Response<Body> {
    let mut response = Response::builder().status(status);
    if let Some(name) = error {
        response = response.header("x-amzn-errortype", name);
    }
    let body = Body::from(answer.to_string());
    response.body(body).unwrap_or_default()
}

impl ServerState {
    fn answer(&mut self, headers: &HeaderMap, body: &str) -> (StatusCode, Value) {
        let target = headers.get("x-amz-target").and_then(|t| t.to_str().ok());
        let operation = target.and_then(|target| target.strip_prefix("AWSStepFunctions."));
        let (Some(operation), Ok(body)) = (operation, serde_json::from_str::<Value>(body)) else {
            return refused(StatusCode::BAD_REQUEST, "ValidationException");
        };
        self.perform(operation, body)
    }

    fn perform(&mut self, operation: &str, body: Value) -> (StatusCode, Value) {
        if let Some(error) = self.failing_with {
            self.not_begun.extend(execution_of(&body));
            return refused(StatusCode::INTERNAL_SERVER_ERROR, error);
        }
        if operation == "StartExecution" {
            let arn = match self.start_execution(&body) {
                Ok(arn) => arn,
                Err(name) => return refused(StatusCode::BAD_REQUEST, name),
            };
            let operation = operation.to_owned();
            self.received.push(StepFunctionsCall { operation, body });
            let answer = json!({"executionArn": arn, "startDate": 1_795_226_400});
            return (StatusCode::OK, answer);
        }
        let asks = ["DescribeExecution", "StopExecution"].contains(&operation);
        if asks && self.is_unknown(&body["executionArn"]) {
            return refused(StatusCode::BAD_REQUEST, "ExecutionDoesNotExist");
        }
        if ["DescribeExecution", "GetExecutionHistory"].contains(&operation) {
            return (StatusCode::OK, self.execution(operation, &body));
        }
        if let Some(arn) = body["executionArn"].as_str() {
            if operation == "StopExecution" {
                // What is over stays as it is.
                if self.running.remove(arn) {
                    self.stopped.insert(arn.to_owned(), stop());
                }
                let operation = operation.to_owned();
                self.received.push(StepFunctionsCall { operation, body });
                return (StatusCode::OK, json!({"stopDate": 4_102_444_800_u64}));
            }
            if operation == "RedriveExecution" {
                self.stopped.remove(arn);
                self.running.insert(arn.to_owned());
                return (StatusCode::OK, json!({"redriveDate": 4_102_444_800_u64}));
            }
        }
        let token = body["taskToken"].as_str().unwrap_or_default().to_owned();
        if self.expired.contains(&token) {
            return refused(StatusCode::BAD_REQUEST, "TaskTimedOut");
        }
        let call = StepFunctionsCall {
            operation: operation.to_owned(),
            body,
        };
        let Some(waiting) = &mut self.waiting else {
            self.received.push(call);
            return (StatusCode::OK, json!({}));
        };
        let Some(waiter) = waiting.get_mut(&token) else {
            return refused(StatusCode::BAD_REQUEST, "InvalidToken");
        };
        let end = match call.operation.as_str() {
            "SendTaskSuccess" => ("TaskSucceeded", json!({"output": call.output()})),
            _ => ("TaskFailed", json!({"error": call.body["error"]})),
        };
        match waiter.take().map(|waiter| waiter.send(call)) {
            Some(Ok(())) => {
                let mut tasks = self.tracked.values_mut().flat_map(|it| &mut it.tasks);
                if let Some((_, ended)) = tasks.find(|(of, _)| *of == token) {
                    *ended = Some(end);
                }
                (StatusCode::OK, json!({}))
            }
            _ => refused(StatusCode::BAD_REQUEST, "TaskTimedOut"),
        }
    }

    /// The execution runs from here on. As in the service, a name that is in use is refused, but for a repeated call while the
    /// execution runs.
    fn start_execution(&mut self, body: &Value) -> Result<String, &'static str> {
        let text = |name: &str| body[name].as_str().ok_or("ValidationException");
        if self.missing.contains(text("stateMachineArn")?) {
            return Err("StateMachineDoesNotExist");
        }
        let arn = execution_of(body).ok_or("ValidationException")?;
        let input = text("input")?;
        match self.started.get(&arn) {
            Some(before) if before == input && self.running.contains(&arn) => return Ok(arn),
            Some(_) => return Err("ExecutionAlreadyExists"),
            None => {}
        }
        self.not_begun.remove(&arn);
        self.running.insert(arn.clone());
        self.started.insert(arn.clone(), input.to_owned());
        Ok(arn)
    }

    fn is_unknown(&self, arn: &Value) -> bool {
        let arn = arn.as_str().unwrap_or_default();
        if self.not_begun.contains(arn) {
            return true;
        }
        arn.rsplit_once(':').is_some_and(|(machine, _)| {
            let machine = machine.replacen(":execution:", ":stateMachine:", 1);
            self.missing.contains(&machine)
        })
    }

    /// The response about an execution: about one that is tracked, what happened; about any other, that it runs, was
    /// stopped with a task still running, or has succeeded with every task answered.
    fn execution(&self, operation: &str, body: &Value) -> Value {
        let arn = body["executionArn"].as_str().unwrap_or_default();
        let tracked = self.tracked.get(arn);
        // Later than every write for it.
        let much_later = 4_102_444_800.0;
        let (status, stopped) = match tracked {
            Some(tracked) => tracked.ended.unwrap_or(("RUNNING", now())),
            None if self.running.contains(arn) => ("RUNNING", much_later),
            None => match self.stopped.get(arn) {
                Some(at) => ("ABORTED", *at),
                None => ("SUCCEEDED", much_later),
            },
        };
        if operation == "DescribeExecution" {
            return json!({
                "executionArn": arn,
                "stateMachineArn": arn,
                "startDate": 1_795_226_400,
                "stopDate": (status != "RUNNING").then_some(stopped),
                "status": status,
                "input": self.started.get(arn),
            });
        }
        let mut events = tracked.map_or_else(
            || {
                let output = self.received_by.get(arn);
                let has_answered = status == "SUCCEEDED" || output.is_some();
                let end = has_answered.then(|| ("TaskSucceeded", json!({ "output": output })));
                task(("lambda", "invoke"), end)
            },
            |tracked| self.tasks(tracked),
        );
        events.push(match status {
            "RUNNING" => json!({"type": "ExecutionStarted"}),
            "ABORTED" => json!({"type": "ExecutionAborted"}),
            "FAILED" => json!({"type": "ExecutionFailed"}),
            _ => json!({"type": "ExecutionSucceeded"}),
        });
        for (before, event) in events.iter_mut().enumerate() {
            event["timestamp"] = stopped.into();
            event["id"] = (before + 1).into();
            event["previousEventId"] = before.into();
        }
        if body["reverseOrder"] == true {
            events.reverse();
        }
        json!({ "events": events })
    }

    fn tasks(&self, tracked: &TrackedExecution) -> Vec<Value> {
        let tasks = tracked.tasks.iter().flat_map(|(token, end)| {
            let waiter = self.waiting.as_ref().and_then(|all| all.get(token));
            let waits = waiter.is_some_and(|it| it.as_ref().is_some_and(|it| !it.is_closed()));
            let timed_out = (!waits).then(|| ("TaskTimedOut", json!({})));
            let end = end.clone().or(timed_out);
            task(("lambda", "invoke.waitForTaskToken"), end)
        });
        // One that ended in the middle of what it did with the answer.
        let is_cut_off = tracked
            .ended
            .is_some_and(|(status, _)| status != "SUCCEEDED")
            && tracked
                .tasks
                .iter()
                .filter_map(|(_, end)| end.as_ref())
                .any(|(name, _)| *name == "TaskSucceeded");
        let work = is_cut_off.then(|| task(("lambda", "invoke"), None));
        tasks.chain(work.into_iter().flatten()).collect()
    }
}

fn refused(status: StatusCode, name: &str) -> (StatusCode, Value) {
    (status, json!({"__type": name, "message": "as asked"}))
}

/// The execution that a call of `StartExecution` names.
fn execution_of(body: &Value) -> Option<String> {
    let (machine, name) = (body["stateMachineArn"].as_str()?, body["name"].as_str()?);
    let machine = machine.replacen(":stateMachine:", ":execution:", 1);
    Some(format!("{machine}:{name}"))
}

/// The events of a task, with those of its end if it has ended.
fn task((kind, resource): (&str, &str), end: Option<(&str, Value)>) -> Vec<Value> {
    let scheduled = ("TaskScheduled", json!({}));
    let started = ("TaskStarted", json!({}));
    let events = [scheduled, started].into_iter().chain(end);
    let event = |(name, mut details): (&str, Value)| {
        details["resourceType"] = kind.into();
        details["resource"] = resource.into();
        let (first, rest) = name.split_at(1);
        let field = format!("{}{rest}EventDetails", first.to_lowercase());
        json!({"type": name, field: details})
    };
    events.map(event).collect()
}

/// The end of an execution that is stopped now, in seconds since the epoch: later than every write for it.
fn stop() -> f64 {
    now() + 60.0
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_used_once() {
        let mut state = ServerState::default();
        let machine = "arn:aws:states:us-east-1:123456789012:stateMachine:m";
        let mut start = |input: &str, ends: bool| {
            let body = json!({"stateMachineArn": machine, "name": "n", "input": input});
            let (_, answer) = state.perform("StartExecution", body.clone());
            if ends {
                let execution = json!({"executionArn": answer["executionArn"]});
                state.perform("StopExecution", execution);
            }
            answer["__type"].as_str().map(str::to_owned)
        };
        let in_use = || Some("ExecutionAlreadyExists".to_owned());
        assert_eq!(start("{}", false), None);
        assert_eq!(start("{\"n\": 1}", false), in_use());
        assert_eq!(start("{}", true), None, "the same again, while it runs");
        assert_eq!(start("{}", false), in_use());
    }
}
