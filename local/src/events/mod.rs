//! Events: rules that route them, and queues that delay them.
//!
//! As in the service: patterns and input transformers, partial batch responses, retries, dead letters and delays.
//! Left out: the retries of a rule's target, permissions, and costs.

mod bus;
mod consumer;
mod queues;

use std::sync::Arc;
use std::time::Duration;

use leasehold_net::{Listener, Server};

use crate::cloudformation;
use crate::guard::guard;
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
    _deliveries: Vec<OwnedTask>,
}

impl Events {
    /// Opens the bus and the queues of a template, and delivers what is in the queues if `follow` says so.
    pub(crate) fn new(
        listener: Listener,
        template: &Template,
        host: &LambdaHost,
        delay: Option<Duration>,
        follow: bool,
    ) -> Self {
        let queues = Arc::new(Queues::new(&template.queues, delay));
        let bus = Arc::new(Bus::new(&template.rules, host, Arc::clone(&queues)));
        let routes = bus::routes(Arc::clone(&bus)).merge(cloudformation::routes(&template.listed));
        let sources = template.queue_sources.iter().filter(|_| follow);
        let deliveries = sources.map(|source| {
            let invoker = host.invoker(&source.function);
            consumer::start(source.clone(), invoker, Arc::clone(&queues))
        });
        Self {
            server: listener.serve(routes, guard()),
            bus,
            _deliveries: deliveries.collect(),
            queues,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }
}
