//! Events: rules that route them, and queues that delay them.
//!
//! As in the service: patterns and input transformers, partial batch responses, retries, dead letters and delays.
//! Left out: the retries of a rule's target, permissions, and costs.

mod bus;
mod consumer;
mod queues;

use std::sync::Arc;
use std::time::Duration;

use leasehold_net::Server;

use crate::cloudformation;
use crate::error::Error;
use crate::lambda::LambdaHost;
use crate::task::OwnedTask;
use crate::template::Template;
use bus::Bus;
use queues::Queues;

/// The running deliveries of a stack. Dropping it ends them.
pub(crate) struct Events {
    server: Server,
    pub(crate) bus: Arc<Bus>,
    pub(crate) queues: Arc<Queues>,
    deliveries: Vec<OwnedTask>,
}

impl Events {
    /// Opens the bus and the queues of a template. Nothing is read from queues before
    /// [`follow`](Self::follow).
    pub(crate) async fn start(
        template: &Template,
        host: &LambdaHost,
        delay: Option<Duration>,
        port: u16,
    ) -> Result<Self, Error> {
        let queues = Arc::new(Queues::new(&template.queues, delay));
        let bus = Arc::new(Bus::new(&template.rules, host, Arc::clone(&queues)));
        let account = cloudformation::routes(&template.listed);
        Ok(Self {
            server: bus::serve(Arc::clone(&bus), account, port).await?,
            bus,
            queues,
            deliveries: Vec::new(),
        })
    }

    /// Starts delivering from queues.
    pub(crate) fn follow(&mut self, template: &Template, host: &LambdaHost) {
        for source in &template.queue_sources {
            self.deliveries.push(consumer::start(
                source.clone(),
                host.invoker(&source.function),
                Arc::clone(&self.queues),
            ));
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }
}
