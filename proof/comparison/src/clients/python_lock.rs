//! `python_dynamodb_lock` 0.9.1: an item with a version that a thread in the background changes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Calling, Client, Settings};
use crate::python::Python;

/// A heartbeat so rare that none comes in between.
const NEVER: Duration = Duration::from_hours(1);

pub(super) struct Locker {
    process: Arc<Python>,
    name: String,
    lease: Option<Duration>,
    key: String,
}

impl Locker {
    pub(super) async fn new(process: &Arc<Python>, number: usize, settings: &Settings) -> Self {
        let name = format!("client-{number}");
        if number == 0 {
            let created = process.ask(&name, json!({"do": "create_table"})).await;
            created.unwrap();
        }
        let mut order = json!({"do": "new"});
        if let Some(lease) = settings.lease {
            order["lease"] = json!(lease.as_secs_f64());
            order["heartbeat"] = json!(NEVER.as_secs_f64());
        }
        process.ask(&name, order).await.unwrap();
        Self {
            process: Arc::clone(process),
            name,
            lease: settings.lease,
            key: String::new(),
        }
    }

    async fn order(&self, order: Value) -> Result<(), String> {
        self.process.ask(&self.name, order).await.map(drop)
    }
}

impl Client for Locker {
    fn wait<'a>(&'a mut self, key: &'a str) -> Calling<'a> {
        Box::pin(async move {
            key.clone_into(&mut self.key);
            let mut order = json!({"do": "acquire", "key": key});
            if let Some(lease) = self.lease {
                // As often as by default, a sixth of the lease; and for longer than that, so that it outlasts the lease.
                order["period"] = json!(lease.as_secs_f64() / 6.0);
                order["timeout"] = json!(lease.as_secs_f64() * 4.0 + 10.0);
            }
            self.order(order).await
        })
    }

    fn extend(&mut self) -> Calling<'_> {
        Box::pin(async move { self.order(json!({"do": "extend", "key": self.key})).await })
    }

    fn release(&mut self) -> Calling<'_> {
        Box::pin(async move { self.order(json!({"do": "release", "key": self.key})).await })
    }
}
