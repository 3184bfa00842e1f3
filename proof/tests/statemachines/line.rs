//! The line of a key, as the table has it, and functions of a test's own.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

impl World {
    /// How many wait for the key.
    pub async fn waiting(&self, key: &str) -> usize {
        let row = self.item("LeaseTable", key, "LEASE#0000").await;
        let line = row.as_ref().and_then(|row| row.get("line"));
        line.map_or(0, |line| line.as_l().unwrap().len())
    }

    /// Waits until so many wait for the key.
    pub async fn is_waited_for_by(&self, key: &str, number: usize) {
        let start = Instant::now();
        loop {
            let waiting = self.waiting(key).await;
            if waiting == number {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{waiting} wait for {key}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Registers a function of the template once more, for one test to do things to: under `name`, with these
    /// variables changed. Answers its ARN.
    pub fn own_function(&self, like: &str, name: &str, environment: &[(&str, &str)]) -> String {
        let host = self.stack.functions();
        let mut function = host.function(like).unwrap();
        name.clone_into(&mut function.logical_id);
        for (variable, value) in environment {
            let value = (*value).to_owned();
            function.environment.insert((*variable).to_owned(), value);
        }
        host.register(function);
        format!("arn:aws:lambda:us-east-1:123456789012:function:{name}")
    }

    /// Who worked on the key's resource, each once, in order.
    pub async fn workers(&self, key: &str) -> Vec<String> {
        let entries = self.entries(key).await;
        let mut workers: Vec<String> = entries
            .iter()
            .map(|entry| entry["holder"].as_s().unwrap().clone())
            .collect();
        workers.dedup();
        workers
    }
}
