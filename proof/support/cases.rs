//! Cases of state machines as data (`proof/machines/*.yaml`), and what plays them through the Step Functions API.
//!
//! A case is a list of steps, described in `proof/machines/README.md`. Nearly all need no more than the APIs of Step
//! Functions, Lambda and DynamoDB; [`Case::needs`] tells what else one needs that only the embedded stack has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::execution::Execution;
use crate::fixture::{eventually, s, unique};
use crate::machines::{Machines, definition};

mod expected;

use expected::{assert_fits, fits, plain};

/// One case, or one variant of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, and after `:` which variant this is.
    pub name: String,
    steps: Vec<Value>,
    variables: Map<String, Value>,
    file: Arc<Value>,
}

/// The cases of a file in `proof/machines`, and whether they are about a stack where sweep runs all the time.
pub fn cases(file: &str) -> (Vec<Case>, bool) {
    let path = format!("{}/machines/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    let file: Value = yaml_serde::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file = Arc::new(file);
    let mut cases = Vec::new();
    for (name, case) in file["cases"].as_object().unwrap() {
        let alone = vec![json!({})];
        for variables in case["each"].as_array().unwrap_or(&alone) {
            let variables = variables.as_object().unwrap().clone();
            let of = variables
                .values()
                .next()
                .map_or_else(String::new, |v| format!(": {v}"));
            cases.push(Case {
                name: format!("{name}{of}"),
                steps: case["steps"].as_array().unwrap().clone(),
                variables,
                file: Arc::clone(&file),
            });
        }
    }
    (cases, file["swept"] == true)
}

impl Case {
    /// What only the embedded stack can do for this case, if there is something.
    pub fn needs(&self) -> Option<&'static str> {
        let steps = json!(self.steps).to_string();
        let needs = [
            ("\"fault\"", "faults between services"),
            ("\"redrive\"", "redrive"),
            ("\"freeze\"", "processes that are stopped"),
            ("\"kill\"", "processes that are killed"),
            ("\"stack\"", "roles that are enforced"),
        ];
        let own = self.file["functions"].as_object().into_iter().flatten();
        let own = own.map(|(name, _)| (name.clone(), "functions of its own"));
        let needs = needs.map(|(word, need)| (word.to_owned(), need));
        let machines = self.file["machines"].as_object().into_iter().flatten();
        let used = machines.filter(|(name, _)| steps.contains(&format!("\"{name}\"")));
        let text = steps.clone()
            + &used
                .map(|(_, machine)| machine.to_string())
                .collect::<String>();
        let mut needs = needs.into_iter().chain(own);
        needs
            .find(|(word, _)| text.contains(word))
            .map(|(_, need)| need)
    }

    /// Plays the case; `at` tells at any time which step it is at.
    ///
    /// # Panics
    ///
    /// Panics when something is not as the case says.
    pub async fn play(&self, on: &'static Machines, at: &std::sync::Mutex<String>) {
        let mut player = Player {
            on,
            file: &self.file,
            variables: self.variables.clone(),
            runs: BTreeMap::new(),
            machines: BTreeMap::new(),
            functions: BTreeMap::new(),
            begun: Instant::now(),
            extending: None,
        };
        for step in &self.steps {
            *at.lock().unwrap() = step.to_string();
            let step = player.filled(step);
            player.step(Step(step.as_object().unwrap().clone())).await;
        }
        if let Some(extending) = player.extending {
            assert!(!extending.is_finished(), "an extend was refused");
            extending.abort();
        }
    }
}

/// A step, of which nothing may be left when it was done.
struct Step(Map<String, Value>);

impl Step {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    fn is_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let value = self.take(name)?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
        )
    }

    fn number(&mut self, name: &str) -> Option<usize> {
        Some(usize::try_from(self.take(name)?.as_u64().unwrap()).unwrap())
    }

    /// Checks a value, if the step names it.
    fn equals(&mut self, name: &str, found: impl Into<Value>) {
        if let Some(expected) = self.take(name) {
            assert_eq!(found.into(), expected, "{name}");
        }
    }

    /// Texts, or one.
    fn texts(&mut self, name: &str) -> Vec<String> {
        match self.take(name) {
            Some(Value::Array(all)) => all.iter().map(|v| v.as_str().unwrap().to_owned()).collect(),
            Some(one) => vec![one.as_str().unwrap().to_owned()],
            None => Vec::new(),
        }
    }
}

struct Player<'a> {
    on: &'static Machines,
    file: &'a Value,
    /// What `<name>` means.
    variables: Map<String, Value>,
    runs: BTreeMap<String, Execution>,
    /// The case's own machines and functions, by the names in the file.
    machines: BTreeMap<String, String>,
    functions: BTreeMap<String, String>,
    begun: Instant,
    extending: Option<tokio::task::JoinHandle<()>>,
}

impl Player<'_> {
    /// Puts variables in the place of `<name>`; a name that was not seen before means something new.
    fn filled(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let mut text = text.clone();
                while let Some((before, rest)) = text.split_once('<') {
                    let (name, after) = rest.split_once('>').unwrap();
                    let fresh = || unique(name).into();
                    let value = self.variables.entry(name).or_insert_with(fresh).clone();
                    let value = self.filled(&value);
                    if before.is_empty() && after.is_empty() {
                        return value;
                    }
                    let value = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    text = format!("{before}{value}{after}");
                }
                text.into()
            }
            Value::Array(all) => all.iter().map(|value| self.filled(value)).collect(),
            Value::Object(all) => {
                let mut filled = Map::new();
                for (name, value) in all {
                    let name = self.filled(&name.as_str().into());
                    filled.insert(name.as_str().unwrap().to_owned(), self.filled(value));
                }
                Value::Object(filled)
            }
            plain => plain.clone(),
        }
    }

    fn run(&self, name: &str) -> Execution {
        self.runs
            .get(name)
            .unwrap_or_else(|| panic!("no execution {name}"))
            .clone()
    }

    /// The handle that an execution had last, or one that the case keeps under this name.
    async fn lease(&self, name: &str, which: Option<usize>) -> Value {
        let Some(run) = self.runs.get(name) else {
            return self.variables[name].clone();
        };
        let history = run.history().await;
        match which {
            Some(nth) => history.answer_with("leases").unwrap()["leases"][nth].clone(),
            None => history.handle().unwrap(),
        }
    }

    /// A function by the name that the template or the file has for it; the logical id.
    fn function(&mut self, name: &str) -> String {
        if let Some(known) = self.functions.get(name) {
            return known.clone();
        }
        let own = &self.file["functions"][name];
        let Some(like) = own["like"].as_str() else {
            return name.to_owned();
        };
        let host = self.on.stack().functions();
        let mut function = host.function(like).unwrap();
        function.logical_id = unique(name).replace('/', "");
        function.verb.clone_from(&function.logical_id);
        for (variable, value) in own["environment"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap().to_owned();
            function.environment.insert(variable.clone(), value);
        }
        if let Some(limit) = own["concurrency"].as_u64() {
            function.concurrency = usize::try_from(limit).unwrap();
        }
        let id = function.logical_id.clone();
        host.register(function);
        self.functions.insert(name.to_owned(), id.clone());
        id
    }

    /// The ARN of a machine: of the template, or made by the file for this case.
    async fn machine(&mut self, name: &str) -> String {
        if let Some(known) = self.machines.get(name) {
            return known.clone();
        }
        let own = self.file["machines"][name].clone();
        if let Some(arn) = own["arn"].as_str() {
            return arn.to_owned();
        }
        let shipped = |name: &str| format!("templates/statemachines/{name}.asl.json");
        let logical_id = logical_id(name);
        let arn = match self.on.deployed.get(&logical_id) {
            Some(arn) if own.is_null() => arn.clone(),
            _ => {
                let file = own["file"].as_str().map(str::to_owned);
                let file = file.unwrap_or_else(|| shipped(own["of"].as_str().unwrap_or(name)));
                let mut definition = match &own["definition"] {
                    Value::Null => definition(&file),
                    written => written.clone(),
                };
                if let Some(pointer) = own["only"].as_str() {
                    definition = definition.pointer(pointer).unwrap().clone();
                    definition["QueryLanguage"] = "JSONata".into();
                    definition
                        .as_object_mut()
                        .unwrap()
                        .remove("ProcessorConfig");
                }
                if let Some(tries) = own["tries"].as_u64() {
                    try_less(&mut definition, tries);
                }
                if own["without_checks"] == true {
                    let items = definition.pointer_mut("/States/Write/Arguments/TransactItems");
                    let items = items.unwrap().as_array_mut().unwrap();
                    items.retain(|item| item["Update"].is_object());
                }
                if let Some(before) = own["pause_before"].as_str() {
                    pause(&mut definition["States"], before);
                }
                let changes = self.filled(&own["set"]);
                for (pointer, value) in changes.as_object().into_iter().flatten() {
                    let (parent, name) = pointer.rsplit_once('/').unwrap();
                    let parent = definition.pointer_mut(parent).expect(pointer);
                    match value {
                        value if parent.is_array() => {
                            parent[name.parse::<usize>().unwrap()] = value.clone();
                        }

                        value => parent[name] = value.clone(),
                    }
                }
                let mut text = definition.to_string();
                for (from, to) in own["replace"].as_object().into_iter().flatten() {
                    assert!(text.contains(from), "{name} has no {from}");
                    text = text.replace(from, to.as_str().unwrap());
                }
                let mut substitutions = BTreeMap::new();
                for (placeholder, function) in own["functions"].as_object().into_iter().flatten() {
                    let id = self.function(function.as_str().unwrap());
                    substitutions.insert(placeholder.clone(), self.on.function(&id));
                }
                for (placeholder, machine) in own["machines"].as_object().into_iter().flatten() {
                    let arn = Box::pin(self.machine(machine.as_str().unwrap())).await;
                    substitutions.insert(placeholder.clone(), arn);
                }
                let stack = own["stack"].as_str().unwrap_or("leasehold");
                let kind = own["kind"].as_str();
                let create = self.on.create_for(stack, kind, name, &text, &substitutions);
                create.await
            }
        };
        self.machines.insert(name.to_owned(), arn.clone());
        arn
    }

    async fn step(&mut self, mut step: Step) {
        let on = self.on;
        let name = step.text("run").unwrap_or_else(|| "it".to_owned());
        let nth = step.number("nth").unwrap_or(1);
        let key = step.text("key").unwrap_or_else(|| {
            let key = self.filled(&"<key>".into());
            key.as_str().unwrap().to_owned()
        });
        if let Some(machine) = step.text("start") {
            self.start(&machine, &mut step).await;
        } else if let Some(machine) = step.text("start_through") {
            self.start_through(&key, &machine, &mut step).await;
        } else if let names = step.texts("begins")
            && !names.is_empty()
        {
            for name in names {
                self.begins(name).await;
            }
        } else if let Some(state) = step.text("at_work_in") {
            self.run(&name).in_task(&state, nth).await;
        } else if let Some(state) = step.text("reaches") {
            self.run(&name).reaches(&state, nth).await;
        } else if let Some(state) = step.text("waits_in") {
            self.run(&name).waits_in(&state, nth).await;
        } else if let Some(run) = step.text("stop") {
            self.run(&run).stop().await;
        } else if let Some(run) = step.text("redrive") {
            self.run(&run).redrive().await;
        } else if let Some(machine) = step.text("child") {
            let (run, machine) = (self.run(&name), self.machine(&machine).await);
            let what = format!("child {nth} of {name}");
            let found = async || run.children(&machine).await.get(nth - 1).cloned();
            self.runs
                .insert("child".to_owned(), eventually(&what, found).await);
        } else if let Some(holder) = step.text("occupy") {
            let mut event = json!({"key": key, "holder": holder});
            event
                .as_object_mut()
                .unwrap()
                .extend(step.take("with").into_iter().flat_map(object));
            let lease = on.occupy(event).await;
            let name = step.text("as").unwrap_or_else(|| "lease".to_owned());
            self.variables.insert(name, lease);
        } else if let Some(of) = step.text("end_lease") {
            // Of an execution, or of a holder: then others have the key, of whom the last one keeps it.
            let mut lease = self.lease(&of, step.number("which")).await;
            let key = lease["key"].clone();
            if step.take("applied_perhaps").is_some() {
                on.call("ReleaseFunction", &json!({"lease": lease})).await;
            } else {
                on.release(&lease).await;
            }
            let others = step.texts("then_held_by");
            for (n, holder) in others.iter().enumerate() {
                lease = on.occupy(json!({"key": key, "holder": holder})).await;
                if n + 1 < others.len() {
                    on.release(&lease).await;
                }
            }
            self.variables.insert("other".to_owned(), lease);
        } else if let Some(number) = step.number("queue") {
            let what = format!("{number} in the queue of {key}");
            eventually(&what, async || {
                (on.waiting(&key).await == number).then_some(())
            })
            .await;
        } else if step.is_any(&["freeze", "thaw", "kill", "fault", "sleep", "call"]) {
            self.disturb(&mut step, key).await;
        } else if step.is_any(&[
            "balances",
            "until_balances",
            "move_deadline",
            "keep_extending",
        ]) {
            self.meddle(&mut step, &key).await;
        } else if let Some(variable) = step.text("remember") {
            let (field, which) = (step.text("field").unwrap(), step.number("which"));
            let value = match field.as_str() {
                "end" => json!(self.run(&name).times().await[1]),
                field => self.lease(&name, which).await[field].clone(),
            };
            self.variables.insert(variable, value);
        } else if step.take("from_here").is_some() {
            self.begun = Instant::now();
        } else if let Some(expected) = step.take("expect") {
            let mut runs = step.texts("runs");
            if runs.is_empty() {
                runs.push(name);
            }
            for name in runs {
                let expected = expected.as_object().unwrap().clone();
                self.expect(&name, &key, Step(expected)).await;
            }
        }
        assert!(step.0.is_empty(), "what is {:?}?", step.0);
    }

    /// What happens to functions, and between them and the services.
    async fn disturb(&mut self, step: &mut Step, key: String) {
        let on = self.on;
        if let Some(function) = step.text("freeze") {
            // A call first, so that there is a process to freeze.
            let function = self.function(&function);
            on.call(&function, &json!({})).await;
            assert!(on.stack().functions().freeze(&function).unwrap() > 0);
        } else if let Some(function) = step.text("thaw") {
            let function = self.function(&function);
            on.stack().functions().thaw(&function).unwrap();
        } else if let Some(function) = step.text("kill") {
            let function = self.function(&function);
            on.stack()
                .functions()
                .kill_before_answer(&function, 1)
                .unwrap();
        } else if let Some(fault) = step.take("fault") {
            let fault: Fault = serde_json::from_value(fault).unwrap();
            let (operation, text) = (step.text("of").unwrap(), step.text("naming").unwrap_or(key));
            let times = u32::try_from(step.number("times").unwrap_or(1)).unwrap();
            let to_workflows = ["SendTask", "StartExecution", "StopExecution"];
            let to_workflows = to_workflows.iter().any(|one| operation.starts_with(one));
            let proxy = on.stack().sfn_proxy().filter(|_| to_workflows);
            let proxy = proxy.unwrap_or_else(|| on.stack().proxy());
            proxy.inject_matching(fault, &operation, &text, times);
        } else if let Some(seconds) = step.take("sleep") {
            tokio::time::sleep(Duration::from_secs_f64(seconds.as_f64().unwrap())).await;
        } else if let Some(function) = step.text("call") {
            let (function, event) = (self.function(&function), step.take("event").unwrap());
            if let Some(any) = step.take("until") {
                let any = any.as_array().unwrap();
                eventually(&format!("{function} {event}: {any:?}"), async || {
                    let answer = on.call(&function, &event).await;
                    any.iter().any(|one| fits(&answer, one)).then_some(())
                })
                .await;
            } else {
                let expected = step.take("answer").unwrap_or(json!({}));
                assert_fits(&on.call(&function, &event).await, &expected, "the answer");
            }
        }
    }

    /// What happens in tables and queues, behind everybody's back.
    async fn meddle(&mut self, step: &mut Step, key: &str) {
        let on = self.on;
        if let Some(balances) = step.take("balances") {
            for (account, balance) in object(balances) {
                let balance = match balance {
                    Value::Null => continue,
                    Value::String(text) => s(&text),
                    number => AttributeValue::N(number.to_string()),
                };
                let accounts = on.table("AccountsTable");
                let set = accounts.change(&account, "BALANCE", "balance", balance);
                set.await;
            }
        } else if let Some(balances) = step.take("until_balances") {
            for (account, balance) in object(balances) {
                eventually("a balance", async || {
                    (self.balance(&account).await.as_ref() == Some(&balance)).then_some(())
                })
                .await;
            }
        } else if let Some(by) = step.take("move_deadline") {
            on.move_deadline(key, by.as_i64().unwrap()).await;
        } else if let Some(of) = step.text("keep_extending") {
            let lease = self.variables[&of].clone();
            let late_by = step
                .take("late_by")
                .and_then(|by| by.as_i64())
                .unwrap_or_default();
            self.extending = Some(tokio::spawn(on.keep_extending(lease, late_by)));
        }
    }

    async fn start(&mut self, machine: &str, step: &mut Step) {
        let usual = self.file["input"].clone();
        let mut input = match self.filled(&usual) {
            Value::Null => json!({}),
            usual => usual,
        };
        let arn = self.machine(machine).await;
        if let Some(event) = step.text("event") {
            // The key and the machine are the case's own.
            let path = crate::fixture::events().join(format!("{event}.json"));
            let sample = std::fs::read_to_string(&path).expect(&event);
            for (name, value) in object(serde_json::from_str(&sample).unwrap()) {
                if !["key", "keys", "state_machine_arn"].contains(&&*name) {
                    input[name] = value;
                }
            }
        }
        let own = ["input", "also"].map(|field| step.take(field));
        for (name, value) in own.into_iter().flatten().flat_map(object) {
            match value {
                Value::Null => drop(input.as_object_mut().unwrap().remove(&name)),
                value => input[name] = value,
            }
        }
        if let Some(wrapped) = step.text("wraps") {
            input["state_machine_arn"] = self.machine(&wrapped).await.into();
        }
        let names = match step.texts("as") {
            names if names.is_empty() => vec!["it".to_owned()],
            names => names,
        };
        let in_turn = step.take("in_turn").is_some();
        for (nth, name) in names.into_iter().enumerate() {
            let run = self.on.start(&arn, &input).await;
            self.variables.insert(name.clone(), run.arn.clone().into());
            self.runs.insert(name, run);
            if in_turn {
                let key = input["key"].as_str().unwrap();
                let joined = async || (self.on.waiting(key).await == nth + 1).then_some(());
                eventually("a place in the queue", joined).await;
            }
        }
    }

    /// Asks for starts through the key. A name that was used before means the same start again.
    async fn start_through(&mut self, key: &str, machine: &str, step: &mut Step) {
        let arn = self.machine(machine).await;
        self.variables
            .insert(machine.to_owned(), arn.clone().into());
        let mut event = json!({"key": key, "state_machine_arn": arn});
        let also = step.take("with").into_iter().flat_map(object);
        event.as_object_mut().unwrap().extend(also);
        let function = step
            .text("by")
            .unwrap_or_else(|| "StartFunction".to_owned());
        let (function, usual) = (self.function(&function), json!({"outcome": "started"}));
        let expected = step.take("answer").unwrap_or(usual);
        let names = match step.texts("as") {
            names if names.is_empty() => vec!["it".to_owned()],
            names => names,
        };
        for name in names {
            let fresh = || {
                let own = unique(&name).replace('/', "-");
                let arn = arn.replace(":stateMachine:", ":execution:");
                format!("{arn}:{own}").into()
            };
            let execution = self.variables.entry(name.clone()).or_insert_with(fresh);
            let execution = execution.as_str().unwrap().to_owned();
            event["name"] = execution.rsplit(':').next().unwrap().into();
            let of = format!("name-of-{name}");
            self.variables.insert(of, event["name"].clone());
            let ask = async || {
                let answer = self.on.call(&function, &event).await;
                // It has its turn, and the service has not answered in time: a caller asks again.
                let has_its_turn = answer["outcome"] == "queued" && answer.get("held").is_none();
                let again = expected["outcome"] == "started" && has_its_turn;
                (!again).then_some(answer)
            };
            let answer = eventually(&format!("an answer for {name}"), ask).await;
            assert_fits(&answer, &expected, &format!("the answer for {name}"));
            if answer["outcome"] == "started" {
                assert_eq!(answer["execution_arn"], *execution);
                self.begins(name).await;
            }
        }
    }

    /// Waits until the service knows an execution.
    async fn begins(&mut self, name: String) {
        let run = Execution::of(&self.on.sfn, self.variables[&name].as_str().unwrap());
        eventually(&format!("the begin of {}", run.arn), async || {
            run.is_known().await.then_some(())
        })
        .await;
        self.runs.insert(name, run);
    }

    async fn balance(&self, account: &str) -> Option<Value> {
        let row = self.on.table("AccountsTable").get(account, "BALANCE").await;
        Some(plain(row?.get("balance")?))
    }
}

/// What `woven.yaml` says of the machines of weave's corpus: `file`, `keys`, `inputs` and how they wait.
pub fn corpus() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/machines/woven.yaml");
    let file: Value = yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["corpus"].as_array().unwrap().clone()
}

/// Puts `value` in the place of `<name>` in all texts.
pub fn with(name: &str, value: &str, text: &Value) -> Value {
    let text = text.to_string().replace(&format!("<{name}>"), value);
    serde_json::from_str(&text).unwrap()
}

/// A pause before one of the states, in which a test can act on a busy machine, too.
fn pause(states: &mut Value, before: &str) {
    let states = states.as_object_mut().unwrap();
    for state in states.values_mut().filter(|state| state["Next"] == before) {
        state["Next"] = "Pause".into();
    }
    let pause = json!({"Type": "Wait", "Seconds": 3, "Next": before});
    states.insert("Pause".to_owned(), pause);
}

/// Every Retry but that of a held key tries so often, a second apart.
fn try_less(definition: &mut Value, tries: u64) {
    match definition {
        Value::Array(all) => all.iter_mut().for_each(|value| try_less(value, tries)),
        Value::Object(state) => {
            for retry in state
                .get_mut("Retry")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                if retry["ErrorEquals"] != json!(["Lease.Held"]) {
                    retry["IntervalSeconds"] = 1.into();
                    retry["MaxAttempts"] = (tries - 1).into();
                }
            }
            state.values_mut().for_each(|value| try_less(value, tries));
        }
        _ => {}
    }
}

/// `with-lease` is `WithLeaseStateMachine` in the template.
fn logical_id(name: &str) -> String {
    let mut id = String::new();
    for word in name.split('-') {
        let (first, rest) = word.split_at(1);
        id += &(first.to_uppercase() + rest);
    }
    id + "StateMachine"
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("not an object: {other}"),
    }
}
