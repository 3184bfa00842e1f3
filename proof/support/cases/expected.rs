//! What a case expects: of an execution's end and history, of the tables, and of when things happened.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::Timestamp;
use serde_json::{Value, json};

use super::{Player, Step, object};
use crate::execution::{Ended, Execution, History};

impl Player<'_> {
    /// Everything that is said of an execution and of what is in the tables.
    pub(super) async fn expect(&self, name: &str, key: &str, mut step: Step) {
        if ["succeeds", "fails", "stopped_by", "status"]
            .iter()
            .any(|end| step.0.contains_key(*end))
        {
            let ended = self.run(name).ended().await;
            check_end(&ended, &mut step);
        }
        if let Some(expected) = step.take("input") {
            let described = self.run(name).describe().await;
            let input = serde_json::from_str(described.input().unwrap()).unwrap();
            assert_fits(&input, &expected, "the input");
        }
        if let Some(machine) = step.text("executions_of") {
            let list = self
                .on
                .sfn
                .list_executions()
                .state_machine_arn(&self.machines[&machine]);
            let listed = list.send().await.unwrap();
            step.equals("executions", listed.executions().len());
        }
        for other in step.texts("never_begun") {
            let execution = Execution::of(&self.on.sfn, self.variables[&other].as_str().unwrap());
            assert!(!execution.is_known().await, "{other} has begun");
        }
        if let Some(run) = self.runs.get(name) {
            let history = run.history().await;
            check_history(&history, &mut step);
            if let Some(machine) = step.text("children_of") {
                let children = run.children(&self.machines[&machine]).await;
                assert_eq!(Some(children.len()), step.number("children"), "children");
            }
            if step.0.keys().any(|key| key.starts_with("since")) {
                let since = history.since_redrive();
                check_path("since", &since.path(), &mut step);
                step.equals("since_steps", since.calls("StepFunction"));
            }
        }
        self.expect_leases(key, &mut step).await;
        self.expect_resources(key, &mut step).await;
        self.expect_times(name, &mut step).await;
        assert!(step.0.is_empty(), "what is expected by {:?}?", step.0);
    }

    /// What the lease table says of the key.
    async fn expect_leases(&self, key: &str, step: &mut Step) {
        let on = self.on;
        if step.is_any(&["holder", "is_held"]) {
            let holder = on.holder(key).await;
            step.equals("is_held", holder.is_some());
            step.equals("holder", holder);
        }
        if step.take("no_row").is_some() {
            assert!(on.lease_row(key).await.is_empty(), "{key} was leased");
        }
        if step.is_any(&["permits_held"]) {
            step.equals("permits_held", on.held(key).await);
        }
        if step.is_any(&["permits_kept"]) {
            step.equals("permits_kept", on.kept(key).await);
        }
        if step.is_any(&["waiting"]) {
            step.equals("waiting", on.waiting(key).await);
        }
    }

    /// What the resources tell: who was inside, balances, records.
    async fn expect_resources(&self, key: &str, step: &mut Step) {
        let on = self.on;
        let permits = step.number("over_permits");
        let keys = permits.map_or_else(
            || vec![key.to_owned()],
            |n| (0..n).map(|n| format!("{key}#{n}")).collect(),
        );
        if step.is_any(&["writes"]) {
            let mut sum = 0;
            for key in &keys {
                sum += on.audit(key).await.len();
            }
            step.equals("writes", sum);
        }
        if let Some(overlaps) = step.take("overlaps") {
            for key in &keys {
                assert_eq!(json!(on.overlaps(key).await), overlaps, "{key}");
            }
        }
        if step.is_any(&["workers"]) {
            let mut holders = on.audit(key).await;
            holders.dedup();
            step.equals("workers", holders);
        }
        for (account, expected) in step.take("balances").into_iter().flat_map(object) {
            assert_eq!(
                json!(self.balance(&account).await),
                expected,
                "the balance of {account}"
            );
        }
        if let Some(expected) = step.take("records") {
            let account = step.text("of").unwrap();
            let accounts = on.table("AccountsTable");
            let found = accounts.between(&account, "TRANSFER#", "TRANSFER#~").await;
            let found: Vec<_> = found
                .into_iter()
                .map(|row| plain(&AttributeValue::M(row)))
                .collect();
            assert_fits(&found.into(), &expected, "the records of transfers");
        }
    }

    /// What happened when.
    async fn expect_times(&self, name: &str, step: &mut Step) {
        if let Some(bounds) = step.take("elapsed") {
            let elapsed = self.begun.elapsed().as_secs_f64();
            let bounds = [
                bounds[0].as_f64().unwrap_or(0.0),
                bounds[1].as_f64().unwrap_or(f64::MAX),
            ];
            assert!(
                bounds[0] <= elapsed && elapsed < bounds[1],
                "{elapsed} s is not within {bounds:?}"
            );
        }
        if let Some(bound) = step.take("ended_before") {
            let [_, end] = self.run(name).times().await;
            assert!(
                end < moment(&bound),
                "ended at {end}, which is not before {bound}"
            );
        }
        for (which, after) in [("granted_after", true), ("granted_before", false)] {
            if let Some(bound) = step.take(which) {
                let grant = self.run(name).history().await.answer_with("grant").unwrap();
                let granted = instant(&grant["lease"]["acquired_at"]);
                // A lease may be taken over in the very millisecond in which its margin ends.
                assert_eq!(
                    granted >= moment(&bound),
                    after,
                    "{which}: granted at {granted}, {bound}"
                );
            }
        }
        // The engine tells times a millisecond too early.
        if let Some(state) = step.text("unsafe_before") {
            let lease = self.lease(name, None).await;
            let entered = self.run(name).history().await.entered(&state);
            assert!(
                entered.plus(Duration::from_millis(5)) >= instant(&lease["safe_until"]),
                "{state} too early"
            );
        }
        if let Some(fields) = step.take("lease") {
            assert_fits(&self.lease(name, None).await, &fields, "the lease");
        }
        for (field, least) in step.take("lease_beyond").into_iter().flat_map(object) {
            assert!(
                self.lease(name, None).await[&field].as_u64() > least.as_u64(),
                "{field}"
            );
        }
        if let Some(machine) = step.text("at_most_of") {
            let most = step.number("at_most").unwrap();
            self.at_most(&machine, most).await;
        }
        if let Some(most) = step.number("in_turn") {
            self.in_turn(most).await;
        }
        if let Some(last) = step.text("one_by_one") {
            self.one_by_one(&last, step.take("in_order").is_some())
                .await;
        }
    }

    /// Never more children of a machine ran at once.
    async fn at_most(&self, machine: &str, most: usize) {
        let mut times = std::collections::BTreeMap::new();
        for run in self.runs.values() {
            for child in run.children(&self.machines[machine]).await {
                times.insert(child.arn.clone(), child.times().await);
            }
        }
        let at = |instant: &Timestamp| {
            let runs = |[start, end]: &&[Timestamp; 2]| start <= instant && instant < end;
            times.values().filter(runs).count()
        };
        let found = times.values().map(|[start, _]| at(start)).max().unwrap();
        assert!(found <= most, "{found} at once, of {}", times.len());
    }

    /// Of executions that are named by a letter for their key and their number there, never more than so many ran at once, and one of a key;
    /// and the keys took turns: whoever began earlier than one with a smaller number began with it.
    async fn in_turn(&self, most: usize) {
        let mut all = Vec::new();
        for (name, run) in &self.runs {
            let [start, end] = run.times().await;
            let (key, number) = name.split_at(1);
            all.push((start, end, key, number.parse::<usize>().unwrap()));
        }
        all.sort_unstable();
        for (at, (start, _, key, number)) in all.iter().enumerate() {
            let running = all[..at].iter().filter(|(_, end, ..)| end > start);
            let running: Vec<_> = running.map(|(_, _, key, _)| key).collect();
            assert!(running.len() < most, "beside {running:?}: {all:?}");
            assert!(!running.contains(&key), "two of {key}: {all:?}");
            let passed = all[at..].iter().filter(|(.., other)| other < number);
            assert!(passed.count() < most, "{key}{number} too early: {all:?}");
        }
    }

    /// No two executions of the case were between the states `first..last` at once; or no two children of a machine; or no
    /// two at all, for `all`.
    async fn one_by_one(&self, what: &str, in_order: bool) {
        let mut times = Vec::new();
        for run in self.runs.values() {
            match what.split_once("..") {
                Some((first, last)) => times.push(run.history().await.times(first, last)),
                None if what == "all" => times.push(run.times().await),
                None => {
                    for child in run.children(&self.machines[what]).await {
                        times.push(child.times().await);
                    }
                }
            }
        }
        if !in_order {
            times.sort_unstable();
        }
        assert_eq!(times.len(), self.runs.len());
        assert!(
            times.windows(2).all(|pair| pair[0][1] <= pair[1][0]),
            "{times:?}"
        );
    }
}

fn check_end(ended: &Ended, step: &mut Step) {
    if let Some(output) = step.take("succeeds") {
        assert_eq!(ended.status, "SUCCEEDED", "{ended:?}");
        assert_fits(&ended.output, &output, "the output");
    }
    if let Some(error) = step.text("fails") {
        let failed = (ended.status.as_str(), &ended.error);
        assert_eq!(failed, ("FAILED", &error), "{ended:?}");
    }
    if let Some(error) = step.text("stopped_by") {
        let stopped = (ended.status.as_str(), &ended.error);
        assert_eq!(stopped, ("ABORTED", &error), "{ended:?}");
    }
    if let Some(status) = step.text("status") {
        assert_eq!(ended.status, status, "{ended:?}");
    }
    for part in step.texts("cause") {
        assert!(ended.cause.contains(&part), "{part}: {}", ended.cause);
    }
    step.equals("whole_cause", &*ended.cause);
    if let Some(expected) = step.take("cause_is") {
        assert_fits(
            &serde_json::from_str(&ended.cause).unwrap(),
            &expected,
            "the cause",
        );
    }
    if let Some(expected) = step.take("message_is") {
        let cause: Value = serde_json::from_str(&ended.cause).unwrap();
        let message = serde_json::from_str(cause["errorMessage"].as_str().unwrap());
        assert_fits(&message.unwrap(), &expected, "the message");
    }
    step.equals("redrives", ended.redrives);
}

/// What the step says of a path, under a name and that name with an ending.
fn check_path(name: &str, path: &[String], step: &mut Step) {
    step.equals(name, path);
    if let Some(expected) = step.take(&format!("{name}_starts")) {
        let length = expected.as_array().unwrap().len();
        assert_eq!(json!(path[..length]), expected, "{path:?}");
    }
    if let Some(expected) = step.take(&format!("{name}_ends")) {
        let length = expected.as_array().unwrap().len();
        assert_eq!(json!(path[path.len() - length..]), expected, "{path:?}");
    }
    if let Some(state) = step.text(&format!("{name}_contains")) {
        assert!(path.contains(&state), "{path:?}");
    }
    if let Some(state) = step.text(&format!("{name}_without")) {
        assert!(!path.contains(&state), "{path:?}");
    }
}

fn check_history(history: &History, step: &mut Step) {
    let path = history.path();
    check_path("path", &path, step);
    if let Some(expected) = step.take("after_write") {
        let write = path.iter().rposition(|state| state == "Write").unwrap();
        assert_eq!(
            json!(path[write + 1..]),
            expected,
            "the path after the write"
        );
    }
    check_tasks(history, step);
    step.equals("transitions", path.len());
    step.equals("events", history.0.len());
    if let Some(most) = step.number("transitions_below") {
        assert!(path.len() < most, "{path:?}");
    }
    for (state, times) in step.take("visits").into_iter().flat_map(object) {
        let visits = path.iter().filter(|entered| **entered == state).count();
        assert_eq!(json!(visits), times, "visits of {state} in {path:?}");
    }
}

fn check_tasks(history: &History, step: &mut Step) {
    for (function, times) in step.take("calls").into_iter().flat_map(object) {
        assert_eq!(
            json!(history.calls(&function)),
            times,
            "calls of {function}"
        );
    }
    if let Some(expected) = step.take("task_failures") {
        assert_fits(&json!(history.failures()), &expected, "tasks that failed");
    }
    if let Some(grant) = step.take("grant") {
        let found = history.answer_with("grant").expect("a grant");
        assert_fits(&found, &grant, "the grant");
    }
    if let Some(task) = step.take("first_task") {
        let (limit, parameters) = history.tasks().swap_remove(0);
        let found = json!({"limit": limit, "payload": parameters["Payload"]});
        assert_fits(&found, &task, "the first task");
    }
    if step.take("request_of_each_item").is_some() {
        let tasks = history.tasks();
        let ids = tasks
            .iter()
            .filter_map(|(_, task)| task["Payload"]["request_id"].as_str());
        let mut ids: Vec<_> = ids
            .map(|id| id.rsplit('/').next().unwrap().to_owned())
            .collect();
        ids.sort();
        let expected: Vec<_> = (0..ids.len()).map(|n| n.to_string()).collect();
        assert_eq!(ids, expected, "a request for each item");
    }
    if step.take("steps_see_no_secret").is_some() {
        let tasks = history.tasks();
        let mut secrets = vec![history.answer_with("lease").unwrap()["lease"]["lease_id"].clone()];
        secrets.extend(
            tasks
                .iter()
                .map(|(_, task)| task["Payload"]["task_token"].clone()),
        );
        let steps = tasks.iter().map(|(_, task)| task.to_string());
        let steps: Vec<_> = steps.filter(|task| task.contains("StepFunction")).collect();
        assert!(!steps.is_empty());
        for secret in secrets.iter().filter_map(Value::as_str) {
            assert!(
                steps.iter().all(|step| !step.contains(secret)),
                "a step sees a secret"
            );
        }
    }
}

/// Checks that `found` has all that `expected` says: an object's fields (`true` for any output), an array's length and
/// elements, a text that begins with `~` anywhere inside.
///
/// # Panics
///
/// Panics when it does not.
pub(super) fn assert_fits(found: &Value, expected: &Value, what: &str) {
    assert!(
        fits(found, expected),
        "{what}: expected {expected}, found {found}"
    );
}

/// Whether a value is as expected, in part.
pub(super) fn fits(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (_, Value::Bool(true)) if !found.is_boolean() => true,
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(name, value)| fits(found.get(name).unwrap_or(&Value::Null), value)),
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| fits(f, e))
        }
        (Value::Array(found), Value::Number(length)) => length.as_u64() == Some(found.len() as u64),
        (Value::String(found), Value::String(expected)) => match expected.strip_prefix('~') {
            Some(part) => found.contains(part),
            None => found == expected,
        },
        (Value::String(found), Value::Number(length)) => {
            length.as_u64() == Some(found.len() as u64)
        }
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        (found, expected) => found == expected,
    }
}

pub(super) fn plain(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => text.as_str().into(),
        AttributeValue::N(number) => number.parse::<i64>().unwrap().into(),
        AttributeValue::M(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(members.collect())
        }
        other => panic!("not expected in this table: {other:?}"),
    }
}

fn instant(value: &Value) -> Timestamp {
    serde_json::from_value(value.clone()).unwrap()
}

/// An instant, or an instant and so many milliseconds.
fn moment(value: &Value) -> Timestamp {
    match value.as_array() {
        Some(pair) => instant(&pair[0]).plus(Duration::from_millis(pair[1].as_u64().unwrap())),
        None => instant(value),
    }
}
