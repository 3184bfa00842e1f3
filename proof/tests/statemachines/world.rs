//! One stack for all tests of this program, and what they do to executions on it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_lambda::primitives::Blob;
use leasehold_local::{Options, Schedules, Stack};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::execution::Execution;

pub const RESOURCES: &str = "ResourceTable";

/// The stack outlives the tests that share it, so its tasks need a runtime that does, too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static WORLD: OnceCell<World> = OnceCell::const_new();
static SWEPT: OnceCell<World> = OnceCell::const_new();

/// Runs a test on the shared stack.
pub fn with_world<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    let build = || World::build(Schedules::Never);
    RUNTIME.block_on(async { test(WORLD.get_or_init(build).await).await });
}

/// Runs a test on another shared stack, where sweep runs all the time; the tests of the first one want expired leases
/// to stay as they are.
pub fn with_swept_world<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    let build = || World::build(Schedules::Every(Duration::from_millis(500)));
    RUNTIME.block_on(async { test(SWEPT.get_or_init(build).await).await });
}

/// A key that no other test has.
pub fn fresh_key() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("orders/{}", LAST.fetch_add(1, Ordering::Relaxed))
}

pub struct World {
    pub stack: Stack,
    machines: BTreeMap<String, String>,
}

impl World {
    async fn build(schedules: Schedules) -> Self {
        // A short margin and guard, so that seconds are long.
        let short = [("LEASE_CLOCK_MARGIN_MS", "300"), ("LEASE_GUARD_MS", "200")];
        let short = short.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
        let stack = Stack::start(Options {
            engine: true,
            schedules,
            environment: BTreeMap::from([("*".to_owned(), BTreeMap::from(short))]),
            ..Options::default()
        })
        .await
        .unwrap();
        let machines = stack.deploy().await.unwrap();
        Self { stack, machines }
    }

    /// The ARN of a state machine of the template.
    pub fn machine(&self, logical_id: &str) -> &str {
        &self.machines[logical_id]
    }

    /// Creates a state machine of the test's own; `${StepFunction}` and the like are replaced as in the template. Its name
    /// is one that with-lease may start.
    pub async fn create(&self, name: &str, definition: &str) -> String {
        let mut definition = definition.to_owned();
        for function in ["Acquire", "Extend", "Release", "Step"] {
            let arn = format!("arn:aws:lambda:us-east-1:123456789012:function:{function}Function");
            definition = definition.replace(&format!("${{{function}Function}}"), &arn);
        }
        for (name, table) in [("LeaseTable", "LeaseTable"), ("AccountsTable", RESOURCES)] {
            definition = definition.replace(&format!("${{{name}}}"), table);
        }
        let name = format!("leasehold-wrapped-{name}");
        let create = self.stack.sfn().create_state_machine().name(name);
        create
            .definition(definition)
            .role_arn("arn:aws:iam::123456789012:role/test")
            .send()
            .await
            .unwrap()
            .state_machine_arn()
            .to_owned()
    }

    /// Starts an execution.
    pub async fn start(&self, machine: &str, input: Value) -> Execution {
        let start = self
            .stack
            .sfn()
            .start_execution()
            .state_machine_arn(machine);
        let started = start.input(input.to_string()).send().await.unwrap();
        Execution {
            arn: started.execution_arn().to_owned(),
            sfn: self.stack.sfn(),
        }
    }

    /// Starts the critical section of the template.
    pub async fn start_section(&self, input: Value) -> Execution {
        self.start(self.machine("CriticalSectionStateMachine"), input)
            .await
    }

    /// Starts the queued section of the template.
    pub async fn start_queued(&self, input: Value) -> Execution {
        self.start(self.machine("QueuedSectionStateMachine"), input)
            .await
    }

    /// Starts with-lease of the template.
    pub async fn start_with_lease(&self, input: Value) -> Execution {
        self.start(self.machine("WithLeaseStateMachine"), input)
            .await
    }

    /// Invokes a function; its answer, or its error as an object with `errorType`.
    pub async fn call(&self, function: &str, event: &Value) -> Value {
        let invoke = self.stack.lambda().invoke().function_name(function);
        let output = invoke.payload(Blob::new(event.to_string())).send().await;
        serde_json::from_slice(output.unwrap().payload().unwrap().as_ref()).unwrap()
    }

    /// Who holds the key, in the table.
    pub async fn holder(&self, key: &str) -> Option<String> {
        let row = self.item("LeaseTable", key, "LEASE#0000").await?;
        row.get("holder")
            .map(|holder| holder.as_s().unwrap().clone())
    }

    /// Ends the lease behind its holder's back, as an operator would; for ever, or to give it to `next`.
    pub async fn take_away(&self, lease: &Value, next: Option<&str>) {
        let released = self.call("ReleaseFunction", &json!({"lease": lease})).await;
        assert_eq!(released["outcome"], "released", "{released}");
        if let Some(next) = next {
            self.occupy(lease["key"].as_str().unwrap(), next).await;
        }
    }

    /// Lets `holder` hold the key for an hour; the handle.
    pub async fn occupy(&self, key: &str, holder: &str) -> Value {
        let event = json!({"key": key, "holder": holder, "ttl_seconds": 3600});
        let acquired = self.call("AcquireFunction", &event).await;
        assert_eq!(acquired["outcome"], "acquired", "{acquired}");
        acquired["lease"].clone()
    }

    pub async fn item(
        &self,
        table: &str,
        pk: &str,
        sk: &str,
    ) -> Option<std::collections::HashMap<String, AttributeValue>> {
        let get = self.stack.dynamodb().get_item().table_name(table);
        let get = get
            .key("pk", AttributeValue::S(pk.to_owned()))
            .key("sk", AttributeValue::S(sk.to_owned()));
        get.consistent_read(true).send().await.unwrap().item
    }

    /// Changes one attribute behind everybody's back.
    pub async fn tamper(&self, table: &str, pk: &str, sk: &str, name: &str, value: AttributeValue) {
        let update = self.stack.dynamodb().update_item().table_name(table);
        update
            .key("pk", AttributeValue::S(pk.to_owned()))
            .key("sk", AttributeValue::S(sk.to_owned()))
            .update_expression("SET #name = :value")
            .expression_attribute_names("#name", name)
            .expression_attribute_values(":value", value)
            .send()
            .await
            .unwrap();
    }

    /// The writes that the resource accepted, in its own order.
    pub async fn entries(
        &self,
        key: &str,
    ) -> Vec<std::collections::HashMap<String, AttributeValue>> {
        let query = self.stack.dynamodb().query().table_name(RESOURCES);
        let found = query
            .key_condition_expression("#pk = :key AND #sk < :letters")
            .expression_attribute_names("#pk", "pk")
            .expression_attribute_names("#sk", "sk")
            .expression_attribute_values(":key", AttributeValue::S(key.to_owned()))
            .expression_attribute_values(":letters", AttributeValue::S("A".to_owned()))
            .consistent_read(true)
            .send()
            .await
            .unwrap();
        found.items.unwrap_or_default()
    }

    /// How often the resource found two inside.
    pub async fn overlaps(&self, key: &str) -> u64 {
        let item = self
            .item(RESOURCES, key, "RESOURCE")
            .await
            .unwrap_or_default();
        let overlaps = item.get("overlaps").map(|n| n.as_n().unwrap());
        overlaps.map_or(0, |n| n.parse().unwrap())
    }
}
