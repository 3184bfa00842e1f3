//! Events: rules that route them, queues that delay them, and streams that functions follow.
//!
//! As in the service: patterns, filters and input transformers, partial batch responses, halving, retries, dead letters, delays and
//! redrive. Left out: the retries of a rule's target, permissions, and costs.

mod batch;
mod bus;
mod consumer;
mod deliveries;
mod queues;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

pub use deliveries::{Deliveries, Source};

use crate::cloudformation;
use crate::dynamodb::DynamoDb;
use crate::error::Error;
use crate::lambda::LambdaHost;
use crate::task::OwnedTask;
use crate::template::Template;
use bus::Bus;
use queues::Queues;

/// The running deliveries of a stack. Dropping it ends them.
pub(crate) struct Events {
    address: SocketAddr,
    bus: Arc<Bus>,
    queues: Arc<Queues>,
    deliveries: Deliveries,
    tasks: Vec<OwnedTask>,
}

impl Events {
    /// Opens the bus and the queues of a template. Nothing is read from streams and queues before
    /// [`follow`](Self::follow).
    pub(crate) async fn start(
        template: &Template,
        host: &LambdaHost,
        delay: Option<Duration>,
        port: u16,
    ) -> Result<Self, Error> {
        let deliveries = Deliveries::default();
        let queues = Arc::new(Queues::new(&template.queues, delay));
        let bus = Bus::new(
            &template.rules,
            host,
            Arc::clone(&queues),
            deliveries.clone(),
        );
        let bus = Arc::new(bus);
        let (address, serving) = bus::serve(
            Arc::clone(&bus),
            cloudformation::routes(&template.listed),
            port,
        )
        .await?;
        Ok(Self {
            address,
            bus,
            queues,
            deliveries,
            tasks: vec![serving],
        })
    }

    /// Starts delivering from streams and queues.
    pub(crate) fn follow(
        &mut self,
        template: &Template,
        host: &LambdaHost,
        dynamodb: &DynamoDb,
    ) -> Result<(), Error> {
        for source in &template.streams {
            let tasks = stream::start(
                source.clone(),
                dynamodb.database().clone(),
                host.invoker(&source.function),
                &self.queues,
                &self.deliveries,
            );
            self.tasks.extend(tasks?);
        }
        for source in &template.queue_sources {
            self.tasks.push(consumer::start(
                source.clone(),
                host.invoker(&source.function),
                Arc::clone(&self.queues),
                self.deliveries.clone(),
            ));
        }
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    pub(crate) fn put(&self, event: Value) {
        self.bus.put(event);
    }

    pub(crate) fn queue(&self, name: &str) -> Option<Vec<String>> {
        self.queues.bodies(name)
    }
}
