//! The addresses of a stack, bound before anything is built, and what every service is built with.

use std::sync::Arc;

use leasehold_net::Listener;

use crate::error::{Error, io};
use crate::iam::Roles;
use crate::observer::Observer;

/// Nothing listens at this address, so requests to it fail at once and do not leave the machine.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:9";

/// The endpoints of a stack.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    pub(crate) dynamodb: String,
    pub(crate) lambda: String,
    /// Of Step Functions as functions and executions reach it. Without an engine nothing listens there.
    pub(crate) sfn: String,
    /// Of the event bus, the queues, and the list of resources.
    pub(crate) events: String,
}

/// Whose permissions a service enforces, and who sees what passes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oversight {
    pub(crate) roles: Option<Arc<Roles>>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl Oversight {
    /// Shows the observer what passes.
    pub(crate) fn show(&self, passing: &[u8]) {
        if let Some(observer) = &self.observer {
            observer.see(passing);
        }
    }
}

/// Binds a port of 127.0.0.1 for a service. Port 0 takes a free one.
pub(crate) async fn bind(port: u16, service: &str) -> Result<Listener, Error> {
    let what = format!("bind port {port} of 127.0.0.1 for {service}");
    Listener::bind(port).await.map_err(io(what))
}
