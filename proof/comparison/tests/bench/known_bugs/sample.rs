//! The semaphore of AWS's sample: a counter in one item, beside the names of those it counts.
//!
//! `peers/semaphore.asl.json` and `peers/semaphore-cleanup.asl.json` do what the sample does, in our own words: the
//! same conditional writes, the same look at who is in, the same clean-up.

use leasehold_local::Invocation;
use serde_json::json;
use tokio::sync::broadcast::Receiver;

use leasehold_bench::workflows::fixture::{TABLE, WorkflowFixture, succeeds};
use leasehold_proof::execution::Execution;
use leasehold_proof::fixture::{n, s};

use super::fixture::fresh_key;

pub const SEMAPHORE: &str = include_str!("../../../peers/semaphore.asl.json");
const CLEANUP: &str = include_str!("../../../peers/semaphore-cleanup.asl.json");

/// A semaphore of the sample.
pub struct Sample<'a> {
    fixture: &'a WorkflowFixture,
    name: String,
}

impl<'a> Sample<'a> {
    /// A new one, whose count may be above zero.
    pub async fn new(fixture: &'a WorkflowFixture, count: u32) -> Self {
        let name = fresh_key();
        let put = fixture.stack.dynamodb().put_item().table_name(TABLE);
        put.item("name", s(&name))
            .item("currentlockcount", n(count))
            .send()
            .await
            .unwrap();
        Self { fixture, name }
    }

    pub async fn machine(&self, definition: &str, limit: u32) -> String {
        let names = [
            ("Table", TABLE),
            ("Name", &self.name),
            ("Limit", &limit.to_string()),
        ];
        self.fixture.create("record", definition, &names).await
    }

    /// What the rule starts when an execution has not succeeded.
    pub async fn clean_up_after(&self, ended: &Execution) {
        let machine = self.machine(CLEANUP, 0).await;
        let input = json!({"executionArn": ended.arn});
        succeeds(&self.fixture.start(&machine, &input).await).await;
    }

    /// The count, and who is counted.
    pub async fn state(&self) -> (u32, Vec<String>) {
        let get = self.fixture.stack.dynamodb().get_item().table_name(TABLE);
        let get = get.key("name", s(&self.name));
        let item = get
            .consistent_read(true)
            .send()
            .await
            .unwrap()
            .item
            .unwrap();
        let count = item["currentlockcount"].as_n().unwrap().parse().unwrap();
        let others = ["name", "currentlockcount"];
        let holders = item
            .into_keys()
            .filter(|name| !others.contains(&name.as_str()));
        (count, holders.collect())
    }
}

/// Waits for the invocations of the step that name this text, so many.
pub async fn steps(ended: &mut Receiver<Invocation>, text: &str, many: usize) -> Vec<Invocation> {
    let mut found = Vec::new();
    while found.len() < many {
        let invocation = ended.recv().await.unwrap();
        if invocation.function == "StepFunction" && invocation.payload.contains(text) {
            found.push(invocation);
        }
    }
    found
}

/// What identifies an execution in the event of its step.
pub fn name(run: &Execution) -> &str {
    run.arn.rsplit(':').next().unwrap()
}

/// Which of these executions' steps ends first.
pub async fn first_to_end<'a>(
    ended: &mut Receiver<Invocation>,
    runs: [&'a Execution; 2],
) -> &'a str {
    loop {
        let invocation = ended.recv().await.unwrap();
        let mut runs = runs.iter();
        if let Some(run) = runs.find(|run| invocation.payload.contains(name(run))) {
            return &run.arn;
        }
    }
}

/// Longer than anything that happens meanwhile.
pub const LONG: u32 = 60;
