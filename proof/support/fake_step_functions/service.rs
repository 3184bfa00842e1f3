//! Step Functions in memory: executions, their tasks, and who waits with which token. An execution that has ended runs again only by a
//! redrive, and its name stays in use.

use std::collections::{HashMap, HashSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{StartedRun, StepFunctionsCall};

/// What a call comes to: the response, or the name of an error.
pub(super) type Answer = Result<Value, &'static str>;

/// Later than every write for an execution whose times nobody has set.
const MUCH_LATER: f64 = 4_102_444_800.0;
const STARTED: u64 = 1_795_226_400;

#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) received: Vec<StepFunctionsCall>,
    /// Tokens somebody waits with, or has waited with. Once there is one, no other token is valid.
    waiting: Option<HashMap<String, Option<oneshot::Sender<StepFunctionsCall>>>>,
    /// Tokens without a waiting task.
    pub(super) expired: HashSet<String>,
    /// Any other has succeeded, with every task answered.
    executions: HashMap<String, Execution>,
    /// Executions that did not begin, because the call failed.
    not_begun: HashSet<String>,
    /// State machines that do not exist.
    pub(super) missing: HashSet<String>,
    /// State machines whose executions are those that were started, and no others.
    pub(super) exact: HashSet<String>,
    /// The service error that every call receives, if set.
    pub(super) failing_with: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct End {
    status: &'static str,
    /// In seconds since the epoch.
    at: f64,
}

/// An execution. It runs unless it has ended.
#[derive(Debug, Default)]
struct Execution {
    input: Option<String>,
    end: Option<End>,
    /// How it had ended before each redrive.
    redriven: Vec<End>,
    redriven_at: Option<f64>,
    /// Its tasks that wait with tokens, one after the other.
    tasks: Vec<Task>,
    /// The result of a task, of an execution without such tasks.
    result: Option<String>,
    /// When it began, and began again.
    began: Vec<Instant>,
    /// When it ended each time.
    ended: Vec<Instant>,
}

#[derive(Debug)]
struct Task {
    token: String,
    /// The redrives before it.
    redrives: usize,
    end: Option<(&'static str, Value)>,
}

impl Execution {
    fn over() -> Self {
        let (status, at) = ("SUCCEEDED", MUCH_LATER);
        Self {
            end: Some(End { status, at }),
            ..Self::default()
        }
    }

    fn status(&self) -> &'static str {
        self.end.map_or("RUNNING", |end| end.status)
    }

    fn end(&mut self, status: &'static str, at: f64) {
        if self.end.is_none() {
            self.end = Some(End { status, at });
            self.ended.push(Instant::now());
        }
    }

    /// Runs again after a failure, which it returns.
    fn redrive(&mut self) -> Result<(), &'static str> {
        let failure = self.end.filter(|end| end.status != "SUCCEEDED");
        self.redriven.push(failure.ok_or("ExecutionNotRedrivable")?);
        self.redriven_at = Some(now());
        self.end = None;
        self.began.push(Instant::now());
        Ok(())
    }
}

impl Service {
    pub(super) fn perform(&mut self, operation: &str, body: Value) -> Answer {
        if let Some(error) = self.failing_with {
            self.not_begun.extend(execution_of(&body));
            return Err(error);
        }
        let execution = body["executionArn"].as_str().unwrap_or_default().to_owned();
        let of_one = ["DescribeExecution", "GetExecutionHistory", "StopExecution"];
        if of_one.contains(&operation) && self.is_unknown(&execution) {
            return Err("ExecutionDoesNotExist");
        }
        match operation {
            "StartExecution" => {
                let arn = self.start(&body)?;
                self.receive(operation, body);
                Ok(json!({"executionArn": arn, "startDate": STARTED}))
            }
            "DescribeExecution" => Ok(self.describe(&execution)),
            "GetExecutionHistory" => Ok(self.history(&execution, body["reverseOrder"] == true)),
            "StopExecution" => {
                let at = if self.is_exact(&execution) {
                    now()
                } else {
                    stop()
                };
                if let Some(execution) = self.executions.get_mut(&execution) {
                    execution.end("ABORTED", at);
                }
                self.receive(operation, body);
                Ok(json!({"stopDate": MUCH_LATER}))
            }
            "RedriveExecution" => {
                let execution = self.executions.get_mut(&execution);
                let execution = execution.ok_or("ExecutionNotRedrivable")?;
                execution.redrive()?;
                Ok(json!({"redriveDate": execution.redriven_at}))
            }
            _ => self.answer_task(operation, body),
        }
    }

    /// A task of this execution waits with this token.
    ///
    /// # Panics
    /// If the execution has ended.
    pub(super) fn wait(
        &mut self,
        execution: &str,
        token: &str,
    ) -> oneshot::Receiver<StepFunctionsCall> {
        let execution = self.executions.entry(execution.to_owned()).or_default();
        assert_eq!(
            execution.status(),
            "RUNNING",
            "only a redrive runs it again"
        );
        execution.tasks.push(Task {
            token: token.to_owned(),
            redrives: execution.redriven.len(),
            end: None,
        });
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting.get_or_insert_default();
        waiting.insert(token.to_owned(), Some(sender));
        receiver
    }

    pub(super) fn end(&mut self, execution: &str, status: &'static str) {
        if let Some(execution) = self.executions.get_mut(execution) {
            execution.end(status, now());
        }
    }

    pub(super) fn is_running(&self, execution: &str) -> bool {
        let execution = self.executions.get(execution);
        execution.is_some_and(|execution| execution.end.is_none())
    }

    pub(super) fn forget(&mut self) {
        self.waiting = Some(HashMap::new());
        let is_kept = |it: &Execution| it.tasks.is_empty() && it.input.is_none();
        self.executions.retain(|_, it| is_kept(it));
        self.received.clear();
    }

    pub(super) fn run(&mut self, execution: &str) {
        let execution = self.executions.entry(execution.to_owned()).or_default();
        // What has ended runs again only so.
        let _ = execution.redrive();
    }

    pub(super) fn stop(&mut self, execution: &str, earlier: f64) {
        let (status, at) = ("ABORTED", stop() - earlier);
        let execution = self.executions.entry(execution.to_owned()).or_default();
        execution.end = Some(End { status, at });
    }

    pub(super) fn input_of(&self, execution: &str) -> Option<String> {
        self.executions.get(execution)?.input.clone()
    }

    /// The executions that were started, each time that they ran.
    pub(super) fn runs(&self) -> Vec<StartedRun> {
        let mut runs = Vec::new();
        for (arn, execution) in &self.executions {
            let Some(input) = &execution.input else {
                continue;
            };
            for (time, from) in execution.began.iter().enumerate() {
                let before = execution.redriven.get(time);
                runs.push(StartedRun {
                    execution: arn.clone(),
                    input: input.clone(),
                    is_redrive: time > 0,
                    from: *from,
                    until: execution.ended.get(time).copied(),
                    status: before.map_or(execution.status(), |end| end.status),
                    is_answered: execution.result.is_some(),
                });
            }
        }
        runs
    }

    pub(super) fn has_received(&mut self, execution: &str, output: &str) {
        let execution = self.executions.entry(execution.to_owned());
        execution.or_insert_with(Execution::over).result = Some(output.to_owned());
    }

    fn receive(&mut self, operation: &str, body: Value) {
        let operation = operation.to_owned();
        self.received.push(StepFunctionsCall { operation, body });
    }

    /// The execution runs from here on. As in the service, a name that is in use is refused, but for a repeated call while the
    /// execution runs.
    fn start(&mut self, body: &Value) -> Result<String, &'static str> {
        let text = |name: &str| body[name].as_str().ok_or("ValidationException");
        if self.missing.contains(text("stateMachineArn")?) {
            return Err("StateMachineDoesNotExist");
        }
        let arn = execution_of(body).ok_or("ValidationException")?;
        let input = text("input")?;
        if let Some(before) = self.executions.get(&arn) {
            let is_same = before.end.is_none() && before.input.as_deref() == Some(input);
            return is_same.then_some(arn).ok_or("ExecutionAlreadyExists");
        }
        self.not_begun.remove(&arn);
        let execution = self.executions.entry(arn.clone()).or_default();
        execution.input = Some(input.to_owned());
        execution.began.push(Instant::now());
        Ok(arn)
    }

    /// The first answer of a token reaches who waits with it.
    fn answer_task(&mut self, operation: &str, body: Value) -> Answer {
        let token = body["taskToken"].as_str().unwrap_or_default().to_owned();
        if self.expired.contains(&token) {
            return Err("TaskTimedOut");
        }
        if operation == "SendTaskHeartbeat" {
            let waits = match &self.waiting {
                None => Some(true),
                Some(waiting) => waiting.get(&token).map(Option::is_some),
            };
            return match waits {
                Some(true) => Ok(json!({})),
                Some(false) => Err("TaskTimedOut"),
                None => Err("InvalidToken"),
            };
        }
        let Some(waiting) = &mut self.waiting else {
            self.receive(operation, body);
            return Ok(json!({}));
        };
        let waiter = waiting.get_mut(&token).ok_or("InvalidToken")?;
        let operation = operation.to_owned();
        let call = StepFunctionsCall { operation, body };
        let end = match call.operation.as_str() {
            "SendTaskSuccess" => ("TaskSucceeded", json!({"output": call.output()})),
            _ => ("TaskFailed", json!({"error": call.body["error"]})),
        };
        let waiter = waiter.take().ok_or("TaskTimedOut")?;
        waiter.send(call).map_err(|_| "TaskTimedOut")?;
        let mut tasks = self.executions.values_mut().flat_map(|it| &mut it.tasks);
        if let Some(task) = tasks.find(|task| task.token == token) {
            task.end = Some(end);
        }
        Ok(json!({}))
    }

    fn is_unknown(&self, arn: &str) -> bool {
        if self.not_begun.contains(arn) {
            return true;
        }
        machine_of(arn).is_some_and(|machine| self.missing.contains(&machine))
            || (self.is_exact(arn) && !self.executions.contains_key(arn))
    }

    fn is_exact(&self, arn: &str) -> bool {
        machine_of(arn).is_some_and(|machine| self.exact.contains(&machine))
    }

    fn describe(&self, arn: &str) -> Value {
        let over = Execution::over();
        let execution = self.executions.get(arn).unwrap_or(&over);
        let redrivable = !["RUNNING", "SUCCEEDED"].contains(&execution.status());
        json!({
            "executionArn": arn,
            "stateMachineArn": arn,
            "startDate": STARTED,
            "stopDate": execution.end.map(|end| end.at),
            "status": execution.status(),
            "input": execution.input,
            "output": (execution.status() == "SUCCEEDED").then_some("{}"),
            "redriveCount": execution.redriven.len(),
            "redriveDate": execution.redriven_at,
            "redriveStatus": if redrivable { "REDRIVABLE" } else { "NOT_REDRIVABLE" },
        })
    }

    /// What happened in an execution with tasks that wait; any other has one task, which was answered if the execution has succeeded.
    fn history(&self, arn: &str, is_reversed: bool) -> Value {
        let over = Execution::over();
        let execution = self.executions.get(arn).unwrap_or(&over);
        let mut events = Vec::new();
        for (before, end) in execution.redriven.iter().enumerate() {
            events.extend(self.tasks(execution, before));
            events.extend([end_of(end.status), json!({"type": "ExecutionRedriven"})]);
        }
        if execution.tasks.is_empty() {
            let output = &execution.result;
            let is_answered = execution.status() == "SUCCEEDED" || output.is_some();
            let end = is_answered.then(|| ("TaskSucceeded", json!({ "output": output })));
            events.extend(task(("lambda", "invoke"), end));
        } else {
            events.extend(self.tasks(execution, execution.redriven.len()));
            events.extend(cut_off(execution));
        }
        events.push(end_of(execution.status()));
        let is_tracked = !execution.tasks.is_empty();
        let running_at = if is_tracked { now() } else { MUCH_LATER };
        for (before, event) in events.iter_mut().enumerate() {
            event["timestamp"] = execution.end.map_or(running_at, |end| end.at).into();
            event["id"] = (before + 1).into();
            event["previousEventId"] = before.into();
        }
        if is_reversed {
            events.reverse();
        }
        json!({ "events": events })
    }

    /// The tasks of an execution after so many redrives.
    fn tasks(&self, execution: &Execution, redrives: usize) -> Vec<Value> {
        let tasks = execution.tasks.iter();
        let tasks = tasks.filter(|task| task.redrives == redrives);
        let events = tasks.flat_map(|it| {
            let waiter = self.waiting.as_ref().and_then(|all| all.get(&it.token));
            let waits = waiter.is_some_and(|it| it.as_ref().is_some_and(|it| !it.is_closed()));
            let timed_out = (!waits).then(|| ("TaskTimedOut", json!({})));
            let end = it.end.clone().or(timed_out);
            task(("lambda", "invoke.waitForTaskToken"), end)
        });
        events.collect()
    }
}

/// The work of one that ended in the middle of what it did with the answer.
fn cut_off(execution: &Execution) -> Vec<Value> {
    let has_failed = execution.end.is_some_and(|end| end.status != "SUCCEEDED");
    let mut ends = execution.tasks.iter().filter_map(|task| task.end.as_ref());
    if has_failed && ends.any(|(name, _)| *name == "TaskSucceeded") {
        task(("lambda", "invoke"), None)
    } else {
        Vec::new()
    }
}

/// The last event of an execution with this status so far.
fn end_of(status: &str) -> Value {
    let kind = match status {
        "RUNNING" => "ExecutionStarted",
        "ABORTED" => "ExecutionAborted",
        "FAILED" => "ExecutionFailed",
        "TIMED_OUT" => "ExecutionTimedOut",
        _ => {
            let output = json!({"output": "{}"});
            return json!({"type": "ExecutionSucceeded", "executionSucceededEventDetails": output});
        }
    };
    json!({"type": kind})
}

/// The execution that a call of `StartExecution` names.
fn execution_of(body: &Value) -> Option<String> {
    let (machine, name) = (body["stateMachineArn"].as_str()?, body["name"].as_str()?);
    let machine = machine.replacen(":stateMachine:", ":execution:", 1);
    Some(format!("{machine}:{name}"))
}

/// The state machine of an execution.
fn machine_of(execution: &str) -> Option<String> {
    let (machine, _) = execution.rsplit_once(':')?;
    Some(machine.replacen(":execution:", ":stateMachine:", 1))
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

    const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:m";
    const EXECUTION: &str = "arn:aws:states:us-east-1:123456789012:execution:m:n";

    fn start(service: &mut Service, input: &str) -> Answer {
        let body = json!({"stateMachineArn": MACHINE, "name": "n", "input": input});
        service.perform("StartExecution", body)
    }

    fn call(service: &mut Service, operation: &str) -> Answer {
        service.perform(operation, json!({"executionArn": EXECUTION}))
    }

    #[test]
    fn a_name_is_used_once() {
        let mut service = Service::default();
        let in_use = Err("ExecutionAlreadyExists");
        assert!(start(&mut service, "{}").is_ok());
        assert_eq!(start(&mut service, "{\"n\": 1}"), in_use);
        assert!(start(&mut service, "{}").is_ok(), "the same, while it runs");
        call(&mut service, "StopExecution").unwrap();
        assert_eq!(start(&mut service, "{}"), in_use);
    }

    #[test]
    fn an_ended_execution_stays_ended() {
        let mut service = Service::default();
        let _waits = service.wait(EXECUTION, "token");
        service.end(EXECUTION, "FAILED");
        service.end(EXECUTION, "SUCCEEDED");
        call(&mut service, "StopExecution").unwrap();
        let described = call(&mut service, "DescribeExecution").unwrap();
        assert_eq!(described["status"], "FAILED");
        let late = std::panic::AssertUnwindSafe(|| service.wait(EXECUTION, "other"));
        assert!(std::panic::catch_unwind(late).is_err());
    }

    #[test]
    fn each_run_has_its_times() {
        let mut service = Service::default();
        service.exact.insert(MACHINE.to_owned());
        let unknown = Err("ExecutionDoesNotExist");
        assert_eq!(call(&mut service, "DescribeExecution"), unknown);
        start(&mut service, "{}").unwrap();
        start(&mut service, "{}").unwrap();
        call(&mut service, "StopExecution").unwrap();
        call(&mut service, "RedriveExecution").unwrap();
        let runs = service.runs();
        let runs = runs
            .iter()
            .map(|run| (run.is_redrive, run.until.is_some(), run.status));
        let twice = [(false, true, "ABORTED"), (true, false, "RUNNING")];
        assert_eq!(runs.collect::<Vec<_>>(), twice, "a repeated call is no run");
        service.forget();
        assert!(service.runs().is_empty() && service.received.is_empty());
    }

    #[test]
    fn redrives_are_counted() {
        let mut service = Service::default();
        start(&mut service, "{}").unwrap();
        let refused = Err("ExecutionNotRedrivable");
        assert_eq!(call(&mut service, "RedriveExecution"), refused, "it runs");
        for count in 1..=2 {
            call(&mut service, "StopExecution").unwrap();
            let stopped = call(&mut service, "DescribeExecution").unwrap();
            assert_eq!(stopped["redriveStatus"], "REDRIVABLE");
            call(&mut service, "RedriveExecution").unwrap();
            let running = call(&mut service, "DescribeExecution").unwrap();
            let told = (&running["status"], &running["redriveCount"]);
            assert_eq!(told, (&json!("RUNNING"), &json!(count)));
            assert!(running["redriveDate"].is_f64());
            let history = call(&mut service, "GetExecutionHistory").unwrap();
            let events = history["events"].as_array().unwrap();
            let again = events.iter().filter(|it| it["type"] == "ExecutionRedriven");
            assert_eq!(again.count(), count);
        }
        service.end(EXECUTION, "SUCCEEDED");
        assert_eq!(
            call(&mut service, "RedriveExecution"),
            refused,
            "it is done"
        );
    }
}
