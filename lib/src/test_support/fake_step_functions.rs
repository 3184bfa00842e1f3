//! An in-memory fake of Step Functions: callbacks and executions.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{
    Answer, Begun, Call, Delivery, Engine, Error, Execution, ExecutionName, Failure, Holder,
    Outcome, Question, Receipt, Redrives, StateMachineArn, TaskToken,
};

/// An in-memory fake of Step Functions: it records every callback and returns what it was set to. As in Step
/// Functions, the first callback of a task token is delivered and every later one is refused.
#[derive(Debug, Default)]
pub struct FakeStepFunctions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    answers: Vec<TaskAnswer>,
    /// What happens before the next callback of a token arrives.
    before: HashMap<String, Act>,
    /// Tokens that were answered, or have expired.
    over: HashSet<String>,
    lost: HashMap<String, (Lost, u32)>,
    executions: HashMap<String, Execution>,
    denied: HashSet<String>,
    throttled: HashSet<String>,
    receipts: HashMap<String, Receipt>,
    /// The input of each execution that was started, by its ARN.
    started: HashMap<String, String>,
    /// What the next calls that start an execution of this name come to.
    starts: HashMap<String, Vec<StartFate>>,
    /// Why executions were to stop, in the order of the calls.
    stopped: Vec<(String, String)>,
    redrives: HashMap<String, Option<Redrives>>,
    /// What those that have ended came to; none if it may not be read.
    results: HashMap<String, Option<Result<String, Failure>>>,
    /// What the next looks at them do not show yet.
    late: HashMap<(String, Late), u32>,
    /// How many looks it answers from now on, if not all.
    answers_looks: Option<usize>,
    /// Which executions it was asked about, and how many looks it has refused.
    looked: (Vec<String>, usize),
    /// Those that its lists show although they have ended.
    listed: Vec<String>,
}

impl State {
    fn is_late(&mut self, execution: &str, what: Late) -> bool {
        let left = self.late.get_mut(&(execution.to_owned(), what));
        left.is_some_and(|left| std::mem::replace(left, left.saturating_sub(1)) > 0)
    }

    fn look(&mut self, execution: &Holder) -> Result<(), Error> {
        if let Some(left) = &mut self.answers_looks {
            if *left == 0 {
                self.looked.1 += 1;
                return Err(throttled("states:DescribeExecution", execution.as_str()));
            }
            *left -= 1;
        }
        self.looked.0.push(execution.as_str().to_owned());
        Ok(())
    }
}

/// What shows later than it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Late {
    /// That an execution has ended.
    End,
    /// What it came to, after that it has ended.
    Result,
}

struct Act(Pin<Box<dyn Future<Output = ()> + Send>>);

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Act")
    }
}

/// What a call that starts an execution comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFate {
    /// It does not arrive, and the caller learns nothing.
    Lost,
    /// It begins the execution, and the caller learns nothing.
    AnswerLost,
    /// It is throttled.
    Throttled,
    /// It is refused for good.
    Refused,
    /// The role may not call.
    Denied,
}

/// A callback that was delivered.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAnswer {
    /// The task token.
    pub token: String,
    /// The output, as JSON text; or the name of an error and its cause.
    pub result: Result<String, (String, String)>,
}

impl TaskAnswer {
    /// The output, as JSON.
    ///
    /// # Panics
    /// If the callback was a failure.
    #[must_use]
    pub fn output(&self) -> serde_json::Value {
        let output = self.result.as_ref().expect("an output");
        serde_json::from_str(output).expect("JSON")
    }
}

/// Which part of a callback is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The request: nothing is delivered.
    Request,
    /// The response: the callback is delivered, and the caller does not learn of it.
    Response,
}

impl FakeStepFunctions {
    /// Ends the task that waits with `token`: later callbacks are refused.
    pub fn expire_token(&self, token: &str) {
        self.state().over.insert(token.to_owned());
    }

    /// A task waits with `token` again, as after a redrive: the next callback is delivered.
    pub fn renew_token(&self, token: &str) {
        self.state().over.remove(token);
    }

    /// While the next callback of this token, the next answer whether a task waits with it, or the next call of a start by this name is on
    /// its way, `act` happens: what others do between a grant and its notification.
    pub fn before(&self, name: &str, act: impl Future<Output = ()> + Send + 'static) {
        let act = Act(Box::pin(act));
        self.state().before.insert(name.to_owned(), act);
    }

    /// From now on callbacks of `token` fail with [`Error::Denied`].
    pub fn deny_token(&self, token: &str) {
        self.state().denied.insert(token.to_owned());
    }

    /// They may arrive again.
    pub fn allow_token(&self, token: &str) {
        self.state().denied.remove(token);
    }

    /// From now on `execution` may not be looked up, nor stopped, nor its input read.
    pub fn deny_execution(&self, execution: &str) {
        self.state().denied.insert(execution.to_owned());
    }

    /// From now on the service does not say what the input of `execution` is, because it is asked too often.
    pub fn throttle_execution(&self, execution: &str) {
        self.state().throttled.insert(execution.to_owned());
    }

    /// From now on the service answers so many looks at executions, and refuses those after them.
    pub fn throttle_after(&self, looks: usize) {
        self.state().answers_looks = Some(looks);
    }

    /// Which executions were looked at, and how many looks were throttled, since this was asked last.
    pub fn take_looked(&self) -> (Vec<String>, usize) {
        std::mem::take(&mut self.state().looked)
    }

    /// From now on lists of running executions show this one, which has ended.
    pub fn list(&self, execution: &str) {
        self.state().listed.push(execution.to_owned());
    }

    /// It may again.
    pub fn allow_execution(&self, execution: &str) {
        self.state().denied.remove(execution);
    }

    /// The next `times` callbacks of `token` fail with [`Error::Unavailable`].
    pub fn lose(&self, token: &str, lost: Lost, times: u32) {
        self.state().lost.insert(token.to_owned(), (lost, times));
    }

    /// Sets the status of an execution. All others are [`Execution::Unknown`].
    pub fn set_execution(&self, execution: &str, status: Execution) {
        self.state().executions.insert(execution.to_owned(), status);
    }

    /// Sets how an execution stands as to redrives, or that it is not known. All others cannot be redriven.
    pub fn set_redrives(&self, execution: &str, redrives: impl Into<Option<Redrives>>) {
        let redrives = redrives.into();
        self.state().redrives.insert(execution.to_owned(), redrives);
    }

    /// Sets what an execution came to, if that may be read. All others that have ended have the output {}.
    pub fn set_result(&self, execution: &str, result: Option<Result<String, Failure>>) {
        self.state().results.insert(execution.to_owned(), result);
    }

    /// The next `looks` at an execution that has ended do not show this of it yet.
    pub fn shows_late(&self, execution: &str, what: Late, looks: u32) {
        let late = (execution.to_owned(), what);
        self.state().late.insert(late, looks);
    }

    /// Sets what an execution's history shows of its lease. That of all others is [`Receipt::Unreadable`].
    pub fn set_receipt(&self, execution: &str, receipt: Receipt) {
        self.state().receipts.insert(execution.to_owned(), receipt);
    }

    /// The next calls that start an execution of this name come to these; later ones begin it.
    pub fn script_starts(&self, name: &str, fates: &[StartFate]) {
        self.state().starts.insert(name.to_owned(), fates.to_vec());
    }

    /// An execution of this ARN and input, as somebody else may have started it.
    pub fn start_elsewhere(&self, execution: &str, input: &str) {
        let mut state = self.state();
        state.started.insert(execution.to_owned(), input.to_owned());
        let runs = Execution::Running;
        state.executions.insert(execution.to_owned(), runs);
    }

    /// The executions that were to stop, and why, since this was asked last.
    pub fn take_stopped(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.state().stopped)
    }

    /// The inputs of the executions that were started, by their ARNs.
    #[must_use]
    pub fn started(&self) -> BTreeMap<String, String> {
        self.state().started.clone().into_iter().collect()
    }

    /// The callbacks that were delivered since the last call of this method, in order.
    pub fn take_answers(&self) -> Vec<TaskAnswer> {
        std::mem::take(&mut self.state().answers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens while a call with this token, or of a start by this name, is on its way.
    async fn meanwhile(&self, name: &str) {
        let before = self.state().before.remove(name);
        if let Some(Act(act)) = before {
            act.await;
        }
    }

    fn began(
        &self,
        machine: &StateMachineArn,
        name: &ExecutionName,
        input: String,
    ) -> Result<Begun, Error> {
        let mut state = self.state();
        let execution = machine.execution(name).as_str().to_owned();
        let fates = state.starts.get_mut(name.as_str());
        let fate = fates
            .filter(|fates| !fates.is_empty())
            .map(|fates| fates.remove(0));
        let unavailable = || Error::Unavailable {
            problem: "the call was lost".to_owned(),
            source: None,
        };
        match fate {
            Some(StartFate::Lost) => Err(unavailable()),
            Some(StartFate::Throttled) => Err(throttled("states:StartExecution", machine.as_str())),
            Some(StartFate::Denied) => Err(denied("states:StartExecution", machine.as_str())),
            Some(StartFate::Refused) => Ok(Begun::Refused("StateMachineDoesNotExist".to_owned())),
            Some(StartFate::AnswerLost) | None => {
                let runs = state.executions.get(&execution) == Some(&Execution::Running);
                let same = state
                    .started
                    .get(&execution)
                    .is_none_or(|other| *other == input);
                let began = match state.started.contains_key(&execution) {
                    true if runs && same => Begun::Began,
                    true => Begun::NameInUse,
                    false => {
                        state.started.insert(execution.clone(), input);
                        state.executions.insert(execution, Execution::Running);
                        Begun::Began
                    }
                };
                if fate.is_some() {
                    Err(unavailable())
                } else {
                    Ok(began)
                }
            }
        }
    }

    fn delivered(
        &self,
        token: &TaskToken,
        result: Result<String, (String, String)>,
    ) -> Result<Delivery, Error> {
        let mut state = self.state();
        let token = token.expose().to_owned();
        let lost = match state.lost.get_mut(&token) {
            Some((lost, left)) if *left > 0 => {
                *left -= 1;
                Some(*lost)
            }
            _ => None,
        };
        let unavailable = Err(Error::Unavailable {
            problem: "the call was lost".to_owned(),
            source: None,
        });
        if lost == Some(Lost::Request) {
            unavailable
        } else if lost.is_none() && state.denied.contains(&token) {
            Err(denied("states:SendTaskSuccess", "a task token"))
        } else if state.over.insert(token.clone()) {
            state.answers.push(TaskAnswer { token, result });
            if lost.is_some() {
                unavailable
            } else {
                Ok(Delivery::Delivered)
            }
        } else {
            Ok(Delivery::Refused)
        }
    }
}

fn throttled(action: &'static str, resource: &str) -> Error {
    Error::Throttled {
        action,
        resource: resource.to_owned(),
        source: crate::Cause::said("ThrottlingException"),
    }
}

fn denied(action: &'static str, resource: &str) -> Error {
    Error::Denied {
        action,
        resource: resource.to_owned(),
        source: crate::Cause::said("AccessDeniedException"),
    }
}

impl FakeStepFunctions {
    fn answer(&self, question: &Question) -> Result<Answer, Error> {
        let mut state = self.state();
        let is_denied = |state: &State, name: &str, action| {
            let is_denied = state.denied.contains(name);
            is_denied.then(|| denied(action, name))
        };
        Ok(match question {
            Question::Waits(_, token) => {
                if state.denied.contains(token.expose()) {
                    return Err(denied("states:SendTaskHeartbeat", "a task token"));
                }
                (!state.over.contains(token.expose())).into()
            }
            Question::Describe(execution) => {
                let name = execution.as_str();
                let known = state.executions.get(name).copied();
                let is_late = state.is_late(name, Late::End);
                let known = known.map(|known| if is_late { Execution::Running } else { known });
                state.look(execution)?;
                if let Some(denied) = is_denied(&state, name, "states:DescribeExecution") {
                    return Err(denied);
                }
                known.unwrap_or(Execution::Unknown).into()
            }
            Question::Running(machine) => {
                let of_machine = machine.as_str().replace(":stateMachine:", ":execution:") + ":";
                let running = state.executions.iter();
                let running = running.filter(|(_, status)| **status == Execution::Running);
                let listed = running.map(|(execution, _)| execution).chain(&state.listed);
                let listed = listed.filter(|execution| execution.starts_with(&of_machine));
                let listed = listed.filter_map(|execution| Holder::new(execution).ok());
                listed.collect::<Vec<_>>().into()
            }
            Question::Stop(execution, cause, _) => {
                let name = execution.as_str();
                if let Some(denied) = is_denied(&state, name, "states:StopExecution") {
                    return Err(denied);
                }
                let is_known = state.started.contains_key(name);
                if is_known {
                    state.stopped.push((name.to_owned(), cause.clone()));
                }
                is_known.into()
            }
            Question::Redrives(execution) => {
                let redrives = state.redrives.get(execution.as_str()).copied();
                state.look(execution)?;
                redrives.unwrap_or(Some(Redrives::NEVER)).into()
            }
            Question::Outcome(execution) => {
                let name = execution.as_str();
                let is_late = state.is_late(name, Late::Result);
                if let Some(denied) = is_denied(&state, name, "states:GetExecutionHistory") {
                    return Err(denied);
                }
                let outcome = match state.executions.get(name) {
                    None | Some(Execution::Unknown) => Outcome::Unknown,
                    Some(Execution::Running) => Outcome::Runs,
                    Some(Execution::Ended { .. }) if is_late => Outcome::Incomplete,
                    Some(Execution::Ended { .. }) => {
                        let result = state.results.get(name).cloned();
                        Outcome::Ended(result.unwrap_or_else(|| Some(Ok("{}".to_owned()))))
                    }
                };
                outcome.into()
            }
            Question::Input(execution) => {
                let name = execution.as_str();
                if let Some(denied) = is_denied(&state, name, "states:DescribeExecution") {
                    return Err(denied);
                }
                if state.throttled.contains(name) {
                    return Err(Error::Unavailable {
                        problem: "Rate exceeded".to_owned(),
                        source: None,
                    });
                }
                state.started.get(name).cloned().into()
            }
            Question::Received(execution, ..) => {
                let receipt = state.receipts.get(execution.as_str()).copied();
                receipt.unwrap_or(Receipt::Unreadable).into()
            }
            Question::Succeed(..) | Question::Fail(..) | Question::Start(..) => {
                unreachable!("something may happen before it")
            }
        })
    }
}

impl Engine for FakeStepFunctions {
    fn ask(&self, question: Question, _: Duration) -> Call<'_, Answer> {
        Box::pin(async move {
            let (token, result) = match question {
                Question::Start(machine, name, input) => {
                    self.meanwhile(name.as_str()).await;
                    return self.began(&machine, &name, input).map(Answer::from);
                }
                Question::Succeed(_, token, output) => (token, Ok(output)),
                Question::Fail(_, token, Failure { error, cause }) => (token, Err((error, cause))),
                other => {
                    let answer = self.answer(&other);
                    if let Question::Waits(_, token) = other {
                        self.meanwhile(token.expose()).await;
                    }
                    return answer;
                }
            };
            self.meanwhile(token.expose()).await;
            self.delivered(&token, result).map(Answer::from)
        })
    }
}
