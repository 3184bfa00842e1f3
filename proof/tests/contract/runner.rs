//! Plays the cases in `cases/` on the functions as processes, and judges what they answer, log and count.
//!
//! A case is a list of steps on an empty table. A step calls a function, by a sample event (`event`) or with a request
//! (`call: [function, request]`), or does something beside ([`Beside`]). Of a call it may say how the request differs from
//! the sample (`set`, `remove`, by path), and what comes of it: the whole `answer`; single fields of it by path (`has`); the
//! `error` and its `message`; what Step Functions was called with (`notifies`, nothing if that is not said); the `requests`
//! that it took; what it `counts`; what it `logs`. `"<id>"`, `"<time>"`, `"<count>"`, `"<number>"` and `"<text>"` stand for
//! anything of their kind, `"$name.path"` for a field of the answer of the step that was `named` so, `"> $name.path"` for any
//! larger number, `"~ part"` for any text with this part in it, and `{repeat: x, times: n}` for a long text.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;
use leasehold_proof::fixture::{Answer, Fixture, environment, event, n, quiet, s};
use leasehold_proof::secret_scanner::NAMES;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{fit::misfit, log::Written, schemas};

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    Call(Box<Call>),
    Beside(Beside),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
    event: Option<String>,
    #[serde(rename = "call")]
    direct: Option<(String, Value)>,
    set: BTreeMap<String, Value>,
    remove: Vec<String>,
    answer: Option<Value>,
    has: BTreeMap<String, Value>,
    error: Option<String>,
    message: Option<Value>,
    notifies: Option<Vec<BTreeMap<String, Value>>>,
    requests: Option<BTreeMap<String, u64>>,
    counts: Option<BTreeMap<String, Value>>,
    logs: BTreeMap<String, Value>,
    named: Option<String>,
}

/// What a step does that calls no function of its own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beside {
    /// A lease of somebody's, of five minutes.
    Hold {
        key: String,
        holder: Option<String>,
    },
    /// A sample event's lease is granted and given back.
    Spend(String),
    /// The rows that the handles of a sample event speak of, as if they had been granted.
    Stand(String),
    /// An attribute of a lease row is given another value.
    Change {
        key: String,
        attribute: String,
        number: Option<Value>,
        text: Option<String>,
    },
    Delete(String),
    /// An item that is not ours, in the place of a lease row.
    Strange(String),
    /// Whether there is a row.
    Absent(String),
    /// An execution was stopped, with a task at work.
    Stop(String),
    /// The same, two hours ago.
    StopEarlier(String),
    /// An execution runs.
    Run(String),
    /// There is no such state machine any more.
    Missing(String),
    /// Nobody waits with a token any more.
    Expire(String),
    /// Step Functions answers with this error, or properly again.
    Fails(Option<String>),
    /// What so many of the next requests of an operation meet.
    Fault(Fault, String, u32),
}

/// The stack that cases are played on, one after the other.
pub struct Player {
    pub fixture: Fixture,
    pub step_functions: FakeStepFunctionsServer,
    named: BTreeMap<String, Value>,
    /// Every proof and task token that was ever seen: none of them is in an error, or in what others are shown.
    secrets: BTreeSet<String>,
}

/// A stack in which nothing happens by itself, whose functions call a fake in the place of Step Functions.
pub async fn with_fake_step_functions<const N: usize>(
    variables: [(&str, &str); N],
) -> (Fixture, FakeStepFunctionsServer) {
    let mut options = quiet();
    options.environment = environment(variables);
    let durable = "arn:aws:lambda:us-east-1:123456789012:function:orders-durable";
    let durable = ("DurableFunction".to_owned(), durable.to_owned());
    options.parameters.extend([durable]);
    let step_functions = FakeStepFunctionsServer::start(&mut options).await.unwrap();
    (Fixture::with(options).await, step_functions)
}

impl Player {
    pub async fn start(queue_cap: &str) -> Self {
        let grace = ("LEASE_REAP_GRACE_SECONDS", "60");
        let (fixture, step_functions) =
            with_fake_step_functions([("LEASE_QUEUE_CAP", queue_cap), grace]).await;
        Self {
            fixture,
            step_functions,
            named: BTreeMap::new(),
            secrets: BTreeSet::new(),
        }
    }

    /// Plays the steps on an empty table, up to the first that comes to something else than it says.
    pub async fn play(&mut self, steps: &[Step]) -> Result<(), String> {
        self.clear().await;
        for (place, step) in steps.iter().enumerate() {
            let taken = self.take(step).await;
            taken.map_err(|misfit| format!("step {place} {step:?}\n{misfit}"))?;
        }
        Ok(())
    }

    /// The same with the last step's sample event sent to its function by `invoke`, of which the log is not judged.
    pub async fn play_with(
        &mut self,
        steps: &[Step],
        invoke: impl AsyncFnOnce(&Fixture) -> Result<Answer, String>,
    ) -> Result<(), String> {
        let Some((Step::Call(last), before)) = steps.split_last() else {
            return Err("the last step calls no function".to_owned());
        };
        let name = last.event.as_deref().unwrap_or_default();
        let function = name.split('-').next().unwrap_or_default();
        self.play(before).await?;
        let answer = invoke(&self.fixture).await?;
        self.judge(last, function, &event(name), &answer)
    }

    async fn clear(&mut self) {
        let (client, table) = (self.fixture.stack.dynamodb(), self.fixture.table());
        let items = client.scan().table_name(table).send().await.unwrap();
        for mut item in items.items.unwrap_or_default() {
            item.retain(|name, _| name == "pk" || name == "sk");
            let delete = client.delete_item().table_name(table);
            delete.set_key(Some(item)).send().await.unwrap();
        }
        self.step_functions.fail_with(None);
        self.step_functions.calls();
        self.fixture.stack.proxy().reset();
        self.named.clear();
    }

    async fn take(&mut self, step: &Step) -> Result<(), String> {
        let step = match step {
            Step::Call(call) => call,
            Step::Beside(beside) => return self.beside(beside).await,
        };
        let (function, mut request) = match (&step.event, &step.direct) {
            (Some(name), None) => (name.split('-').next().unwrap(), event(name)),
            (None, Some((function, request))) => (function.as_str(), self.filled(request)),
            _ => return Err("either an event or a call".to_owned()),
        };
        for path in &step.remove {
            remove(&mut request, path);
        }
        for (path, value) in &step.set {
            set(&mut request, path, self.filled(value));
        }
        let before = self.fixture.stack.proxy().counts();
        let written = Written::of(&self.fixture, function, &request).await;
        let took = self.fixture.stack.proxy().counts().since(&before);
        self.judge(step, function, &request, &written.answer)?;
        if let Some(expected) = &step.requests {
            let took = took.iter().filter(|(_, tally)| tally.requests > 0);
            let took: BTreeMap<_, _> = took
                .map(|(name, tally)| (name.to_owned(), tally.requests))
                .collect();
            same(&json!(expected), &json!(took), "requests")?;
        }
        if let Some(expected) = &step.counts {
            same(
                &self.filled(&json!(expected)),
                &json!(written.counts()),
                "counts",
            )?;
        }
        for (path, expected) in &step.logs {
            same(&self.filled(expected), at(&written.line, path), path)?;
        }
        if let (Some(name), Ok(answer) | Err((_, answer))) = (&step.named, written.answer) {
            self.named.insert(name.clone(), answer);
        }
        Ok(())
    }

    fn judge(
        &mut self,
        step: &Call,
        function: &str,
        request: &Value,
        answer: &Answer,
    ) -> Result<(), String> {
        self.keep_secrets(function, request, answer)?;
        self.judge_answer(step, answer)?;
        self.judge_notifications(step.notifies.as_deref().unwrap_or_default())
    }

    fn judge_answer(&self, step: &Call, answer: &Answer) -> Result<(), String> {
        let got = match (answer, &step.error) {
            (Ok(answer), None) => answer,
            (Err((name, message)), Some(expected)) if name == expected => message,
            _ => return Err(format!("expected {:?}, got {answer:?}", step.error)),
        };
        for expected in step.answer.iter().chain(&step.message) {
            same(&self.filled(expected), got, "")?;
        }
        for (path, expected) in &step.has {
            same(&self.filled(expected), at(got, path), path)?;
        }
        Ok(())
    }

    /// Who was notified, with their outputs read as JSON.
    fn judge_notifications(&mut self, expected: &[BTreeMap<String, Value>]) -> Result<(), String> {
        let calls = self.step_functions.calls().into_iter().map(|call| {
            let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
            let mut body = call.body;
            for text in ["output", "cause"] {
                if let Some(value) = body.get_mut(text) {
                    *value = read(value.as_str().unwrap());
                }
            }
            // A function's own error, as a Catch sees it: to be parsed twice.
            if let Some(message) = body.pointer_mut("/cause/errorMessage") {
                *message = read(message.as_str().unwrap());
            }
            schemas::check_notified(&body);
            body["operation"] = json!(call.operation);
            body
        });
        let calls: Vec<_> = calls.collect();
        if calls.len() != expected.len() {
            return Err(format!(
                "{} notifications expected, got {calls:?}",
                expected.len()
            ));
        }
        for (expected, got) in expected.iter().zip(calls) {
            for (path, expected) in expected {
                same(&self.filled(expected), at(&got, path), path)?;
            }
            self.secrets.extend(proofs(&got));
            self.named.insert("notified".to_owned(), got);
        }
        Ok(())
    }

    /// An acquire returns a proof, and a caller that has one may get it back; nobody else is shown any.
    fn keep_secrets(
        &mut self,
        function: &str,
        request: &Value,
        answer: &Answer,
    ) -> Result<(), String> {
        self.secrets.extend(proofs(request));
        let shown = match answer {
            Ok(answer)
                if ["acquire", "extend"].contains(&function) && answer.get("held").is_none() =>
            {
                self.secrets.extend(proofs(answer));
                return Ok(());
            }
            Ok(answer) | Err((_, answer)) => answer.to_string(),
        };
        let leaked = self.secrets.iter().find(|secret| shown.contains(*secret));
        leaked.map_or(Ok(()), |secret| Err(format!("{secret} is in {shown}")))
    }

    async fn beside(&mut self, beside: &Beside) -> Result<(), String> {
        let fixture = &self.fixture;
        match beside {
            Beside::Hold { key, holder } => {
                let holder = holder.as_deref().unwrap_or("other");
                let lease = fixture.acquire(key, holder, "1").await;
                self.secrets.extend(proofs(&lease));
                self.named.insert("held".to_owned(), lease);
            }
            Beside::Spend(name) => {
                let granted = fixture.event(name).await.unwrap();
                let lease = json!({"lease": granted["lease"]});
                fixture.call("release", lease).await.unwrap();
            }
            Beside::Stand(name) => fixture.write_handles(name).await,
            Beside::Change {
                key,
                attribute,
                number,
                text,
            } => {
                let number = number.as_ref().map(|number| self.filled(number));
                let number = number.map(|number| n(number.to_string().trim_matches('"')));
                let value: Option<AttributeValue> = number.or(text.as_deref().map(s));
                fixture.change(key, attribute, value.unwrap()).await;
            }
            Beside::Delete(key) => fixture.delete(key).await,
            Beside::Strange(key) => {
                let item = [("holder".to_owned(), s("x"))].into();
                fixture.put(key, item).await;
            }
            Beside::Absent(key) => {
                let item = fixture.item(key).await;
                return item.map_or(Ok(()), |item| Err(format!("{item:?}")));
            }
            Beside::Stop(execution) => self.step_functions.stop(execution),
            Beside::StopEarlier(execution) => self.step_functions.stop_earlier(execution),
            Beside::Run(execution) => self.step_functions.run(execution),
            Beside::Missing(machine) => self.step_functions.set_missing(machine, true),
            Beside::Expire(token) => self.step_functions.expire_token(token),
            Beside::Fails(error) => {
                let error = error.as_deref().map(|error| &*error.to_owned().leak());
                self.step_functions.fail_with(error);
            }
            Beside::Fault(fault, operation, times) => {
                let proxy = fixture.stack.proxy();
                proxy.reset();
                proxy.inject(*fault, operation, *times);
            }
        }
        self.step_functions.calls();
        Ok(())
    }

    /// The value with what stands for other answers' fields, and for long texts, replaced.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match (text.strip_prefix('$'), text.strip_prefix("> $")) {
                (Some(path), _) => self.looked_up(path),
                (_, Some(path)) => json!(format!("> {}", self.looked_up(path))),
                _ => value.clone(),
            },
            Value::Array(all) => all.iter().map(|value| self.filled(value)).collect(),
            Value::Object(fields) if !fields.contains_key("repeat") => {
                let filled = |(name, value): (&String, &Value)| (name.clone(), self.filled(value));
                fields.iter().map(filled).collect()
            }
            _ => texts(value),
        }
    }

    fn looked_up(&self, path: &str) -> Value {
        let (name, path) = path.split_once('.').unwrap_or((path, ""));
        at(&self.named[name], path).clone()
    }
}

/// The value with every `{repeat: x, times: n}` in it as a text.
pub fn texts(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            if let (Value::String(text), Some(times)) = (&value["repeat"], value["times"].as_u64())
            {
                return json!(text.repeat(usize::try_from(times).unwrap()));
            }
            let fields = fields.iter();
            fields
                .map(|(name, value)| (name.clone(), texts(value)))
                .collect()
        }
        Value::Array(all) => all.iter().map(texts).collect(),
        _ => value.clone(),
    }
}

fn same(expected: &Value, got: &Value, what: &str) -> Result<(), String> {
    misfit(expected, got).map_or(Ok(()), |misfit| Err(format!("{what}{misfit}\nin {got}")))
}

/// A field by its path, in which dots stand between names and places.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    if path.is_empty() {
        return value;
    }
    let pointer = format!("/{}", path.replace('.', "/"));
    value.pointer(&pointer).unwrap_or(&Value::Null)
}

pub fn set(value: &mut Value, path: &str, to: Value) {
    match path.rsplit_once('.') {
        None => value[path] = to,
        Some((parent, name)) => {
            let parent = format!("/{}", parent.replace('.', "/"));
            value.pointer_mut(&parent).unwrap()[name] = to;
        }
    }
}

pub fn remove(value: &mut Value, path: &str) {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if parent.is_empty() {
        String::new()
    } else {
        format!("/{}", parent.replace('.', "/"))
    };
    let parent = value.pointer_mut(&parent).unwrap();
    parent.as_object_mut().unwrap().remove(name);
}

/// Every `lease_id`, task token and callback in a value.
fn proofs(value: &Value) -> Vec<String> {
    let here = NAMES.map(|name| value[name].as_str().map(str::to_owned));
    let inside: Vec<_> = match value {
        Value::Object(fields) => fields.values().flat_map(proofs).collect(),
        Value::Array(all) => all.iter().flat_map(proofs).collect(),
        _ => Vec::new(),
    };
    here.into_iter().flatten().chain(inside).collect()
}
