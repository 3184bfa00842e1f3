//! Where state machines run: the embedded stack, or any endpoint that speaks the services' APIs.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_lambda::primitives::Blob;
use leasehold::row::Item;
use leasehold_local::{Options, Schedules, Stack};
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::fixture::{Items, ROW, config, environment, n, scanned, unique};

/// The table of what leases protect: who was inside, and the accounts of transfers.
const RESOURCES: &str = "ResourceTable";
const FUNCTIONS: [&str; 9] = [
    "StartFunction",
    "AcquireFunction",
    "ExtendFunction",
    "ReleaseFunction",
    "StepFunction",
    "OperateFunction",
    "ReapFunction",
    "InspectFunction",
    "SweepFunction",
];

/// Where state machines run: the embedded stack, or any endpoint that speaks the services' APIs.
pub struct Machines {
    pub(crate) sfn: aws_sdk_sfn::Client,
    lambda: aws_sdk_lambda::Client,
    dynamodb: aws_sdk_dynamodb::Client,
    stack: Option<Stack>,
    /// The role of the machines that tests create, on somebody else's endpoint.
    role: Option<String>,
    /// What the placeholders in definitions stand for, by name: functions' ARNs and tables' names.
    substitutions: BTreeMap<String, String>,
    /// The ARNs of the machines of the template, by logical id.
    pub(crate) deployed: BTreeMap<String, String>,
}

impl Machines {
    /// The embedded stack, with margins so short that seconds are long; where sweep runs, also with a short grace, and it
    /// looks soon.
    pub async fn embedded(schedules: Schedules) -> Self {
        let (grace, look) = match schedules {
            Schedules::Never => ("900", "300"),
            _ => ("4", "1"),
        };
        let stack = Stack::start(Options {
            engine: true,
            schedules,
            environment: environment([
                ("LEASE_CLOCK_MARGIN_MS", "300"),
                ("LEASE_GUARD_MS", "200"),
                ("LEASE_REAP_GRACE_SECONDS", grace),
                ("LEASE_LOOK_SECONDS", look),
            ]),
            ..scanned()
        });
        let stack = stack.await.unwrap_or_else(|error| panic!("{error}"));
        let functions = FUNCTIONS.map(|name| (name.to_owned(), embedded(name)));
        Self {
            sfn: stack.sfn(),
            lambda: aws_sdk_lambda::Client::new(&config(&stack.lambda_url()).await),
            dynamodb: stack.dynamodb(),
            role: None,
            substitutions: Self::tables("LeaseTable", RESOURCES)
                .chain(functions)
                .collect(),
            deployed: stack.deploy().await.unwrap(),
            stack: Some(stack),
        }
    }

    /// The stack at `LEASEHOLD_SFN_ENDPOINT`, `LEASEHOLD_LAMBDA_ENDPOINT` and `LEASEHOLD_DYNAMODB_ENDPOINT`, if the
    /// first of them is set. The functions of the template, `StepFunction` of `local/step` and the tables have to be
    /// there, under names that contain their logical ids; the machines are created.
    pub async fn remote() -> Option<Self> {
        let endpoint = std::env::var("LEASEHOLD_SFN_ENDPOINT").ok()?;
        let other = |name: &str| std::env::var(name).unwrap_or_else(|_| endpoint.clone());
        let sfn = aws_sdk_sfn::Client::new(&config(&endpoint).await);
        let lambda = config(&other("LEASEHOLD_LAMBDA_ENDPOINT")).await;
        let lambda = aws_sdk_lambda::Client::new(&lambda);
        let dynamodb = config(&other("LEASEHOLD_DYNAMODB_ENDPOINT")).await;
        let dynamodb = aws_sdk_dynamodb::Client::new(&dynamodb);
        let pages = lambda.list_functions().into_paginator().items().send();
        let found: Vec<_> = pages.collect::<Result<_, _>>().await.unwrap();
        let arn = |name: &str| {
            let function = found
                .iter()
                .find(|f| f.function_name().is_some_and(|n| n.contains(name)));
            let arn = function.and_then(|f| f.function_arn());
            arn.unwrap_or_else(|| panic!("{name} is not there"))
                .to_owned()
        };
        let functions = FUNCTIONS.map(|name| (name.to_owned(), arn(name)));
        let tables = dynamodb.list_tables().send().await.unwrap();
        let table = |name: &str| {
            let found = tables
                .table_names()
                .iter()
                .find(|table| table.contains(name));
            found
                .unwrap_or_else(|| panic!("{name} is not there"))
                .clone()
        };
        let tables = Self::tables(&table("LeaseTable"), &table(RESOURCES));
        Some(Self {
            sfn,
            lambda,
            dynamodb,
            stack: None,
            role: Some(
                std::env::var("LEASEHOLD_MACHINE_ROLE")
                    .unwrap_or_else(|_| "arn:aws:iam::123456789012:role/test".to_owned()),
            ),
            substitutions: tables.chain(functions).collect(),
            deployed: BTreeMap::new(),
        })
    }

    /// The substitutions that are no functions.
    fn tables(leases: &str, resources: &str) -> impl Iterator<Item = (String, String)> + use<> {
        let names = [
            ("Partition", "aws"),
            ("LeaseTable", leases),
            ("AccountsTable", resources),
        ];
        names
            .map(|(name, table)| (name.to_owned(), table.to_owned()))
            .into_iter()
    }

    /// The stack, where the machines run on the embedded one.
    ///
    /// # Panics
    ///
    /// Panics on a remote one.
    pub fn stack(&self) -> &Stack {
        self.stack.as_ref().expect("the embedded stack")
    }

    /// Whether this is somebody else's endpoint.
    pub fn is_remote(&self) -> bool {
        self.stack.is_none()
    }

    /// Creates a machine; `${AcquireFunction}` and the like are replaced as in the template, unless `own` says
    /// otherwise. By its name, its executions may have leases if it acquires, and otherwise it may be started through keys.
    pub async fn create(
        &self,
        name: &str,
        definition: &str,
        own: &BTreeMap<String, String>,
    ) -> String {
        self.create_for("leasehold", None, name, definition, own)
            .await
    }

    /// The same with a name that another stack's machines would have, or those of another kind.
    pub(crate) async fn create_for(
        &self,
        stack: &str,
        kind: Option<&str>,
        name: &str,
        definition: &str,
        own: &BTreeMap<String, String>,
    ) -> String {
        let mut definition = definition.to_owned();
        for (name, value) in own.iter().chain(&self.substitutions) {
            definition = definition.replace(&format!("${{{name}}}"), value);
        }
        let acquires = definition.contains("task_token") || definition.contains("lifetime");
        let kind = kind.unwrap_or(if acquires { "leasing" } else { "started" });
        let name = unique(&format!("{stack}_{kind}_{name}")).replace('/', "-");
        let any_role = || "arn:aws:iam::123456789012:role/test".to_owned();
        let role = self.role.clone().unwrap_or_else(any_role);
        let create = self.sfn.create_state_machine().name(&name);
        let created = create.definition(definition).role_arn(role).send();
        created.await.unwrap().state_machine_arn
    }

    /// Starts an execution.
    pub async fn start(&self, machine: &str, input: &Value) -> Execution {
        Execution::start(&self.sfn, machine, input).await
    }

    /// The ARN of a function of the template, or of one that a case has registered.
    pub(crate) fn function(&self, name: &str) -> String {
        let known = self.substitutions.get(name).cloned();
        known.unwrap_or_else(|| embedded(name))
    }

    /// Invokes a function; its answer, or its error as an object with `errorType`.
    pub async fn call(&self, function: &str, event: &Value) -> Value {
        let function = self
            .substitutions
            .get(function)
            .map_or(function, String::as_str);
        let invoke = self.lambda.invoke().function_name(function);
        let output = invoke.payload(Blob::new(event.to_string())).send().await;
        serde_json::from_slice(output.unwrap().payload().unwrap().as_ref()).unwrap()
    }

    /// Lets `holder` have the key for an hour; the handle.
    pub async fn occupy(&self, mut event: Value) -> Value {
        if event["ttl_seconds"].is_null() {
            event["ttl_seconds"] = 3600.into();
        }
        let acquired = self.call("AcquireFunction", &event).await;
        assert_eq!(acquired["outcome"], "acquired", "{acquired}");
        acquired["lease"].clone()
    }

    /// Ends a lease behind its holder's back.
    pub async fn release(&self, lease: &Value) {
        let released = self.call("ReleaseFunction", &json!({"lease": lease})).await;
        assert_eq!(released["outcome"], "released", "{released}");
    }

    /// The items of a table, by its name in definitions.
    pub(crate) fn table(&self, name: &str) -> Items {
        Items::of(self.dynamodb.clone(), &self.substitutions[name])
    }

    pub(crate) async fn lease_row(&self, key: &str) -> Item {
        let row = self.table("LeaseTable").get(key, ROW).await;
        row.unwrap_or_default()
    }

    /// Moves the stored deadline by milliseconds, as a clock that is wrong by as much would have written it.
    pub(crate) async fn move_deadline(&self, key: &str, by: i64) {
        let deadline = self.lease_row(key).await["expires_at"]
            .as_n()
            .unwrap()
            .parse::<i64>();
        let deadline = n(deadline.unwrap() + by);
        let leases = self.table("LeaseTable");
        leases.change(key, ROW, "expires_at", deadline).await;
    }

    /// Extends twice a second, by a clock that is late by so many milliseconds.
    pub(crate) async fn keep_extending(&self, lease: Value, late_by: i64) {
        loop {
            if late_by != 0 {
                self.move_deadline(lease["key"].as_str().unwrap(), -late_by)
                    .await;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            let extended = self.call("ExtendFunction", &json!({"lease": lease})).await;
            assert!(extended["outcome"].is_string(), "{extended}");
        }
    }

    /// Who holds the key.
    pub async fn holder(&self, key: &str) -> Option<String> {
        let holder = self.lease_row(key).await.remove("holder")?;
        Some(holder.as_s().unwrap().clone())
    }

    /// How many of the key's permits are held.
    pub async fn held(&self, key: &str) -> usize {
        let leases = self.table("LeaseTable");
        let rows = leases.between(key, "LEASE#", "LEASE#~").await;
        rows.iter().filter(|row| row.contains_key("holder")).count()
    }

    /// How many of its permits nobody gave back: somebody has them, or had them until they expired.
    pub async fn kept(&self, key: &str) -> usize {
        let leases = self.table("LeaseTable");
        let rows = leases.between(key, "LEASE#", "LEASE#~").await;
        let is_kept = |row: &&Item| {
            let ended = row.get("ended").and_then(|ended| ended.as_s().ok());
            row.contains_key("holder") || ended.is_some_and(|ended| ended == "expired")
        };
        rows.iter().filter(is_kept).count()
    }

    /// How many wait for the key.
    pub async fn waiting(&self, key: &str) -> usize {
        let row = self.lease_row(key).await;
        row.get("queue")
            .map_or(0, |queue| queue.as_l().unwrap().len())
    }

    /// How often the resource found two inside.
    pub(crate) async fn overlaps(&self, key: &str) -> u64 {
        let row = self.table("AccountsTable").get(key, "RESOURCE").await;
        let overlaps = row.and_then(|mut row| row.remove("overlaps"));
        overlaps.map_or(0, |n| n.as_n().unwrap().parse().unwrap())
    }

    /// What the resource accepted, in its own order: operation, token and holder. Checks that nobody was inside
    /// together with somebody else, and that tokens only grew.
    pub(crate) async fn audit(&self, key: &str) -> Vec<String> {
        assert_eq!(self.overlaps(key).await, 0, "two were inside {key}");
        let (mut inside, mut highest, mut holders) = (None, 0, Vec::new());
        for entry in self.table("AccountsTable").between(key, "0", "A").await {
            let token = entry["token"].as_n().unwrap().parse::<u64>().unwrap();
            assert!(token >= highest, "token {token} after {highest} in {key}");
            highest = token;
            // A newer token may find an older occupant only when that one's time was over: else it was refused.
            if entry["op"].as_s().unwrap() == "enter" {
                inside = Some(token);
            } else {
                assert!(
                    inside.is_none_or(|t| t == token),
                    "{token} left {inside:?} in {key}"
                );
                inside = None;
            }
            holders.push(entry["holder"].as_s().unwrap().clone());
        }
        holders
    }
}

/// The ARN of a function of the embedded stack.
fn embedded(function: &str) -> String {
    format!("arn:aws:lambda:us-east-1:123456789012:function:{function}")
}

/// A definition of the repository, as the service takes it.
pub fn definition(path: &str) -> Value {
    let path = crate::root().join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // JSON is YAML.
    yaml_serde::from_str(&text).unwrap()
}
