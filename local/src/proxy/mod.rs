//! The proxy in front of the embedded DynamoDB, and in front of the engine for the functions' requests. It is always in the
//! path, so that requests are counted at the socket, where they cost money, and faults happen between two programs, as in
//! production.

mod count;
mod fault;
mod forward;
mod units;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use leasehold_net::{Listener, Server};

pub use count::{Counts, Tally};
pub use fault::Fault;
pub use units::Units;

use crate::error::{Error, io};
use crate::guard::guard;
use crate::observer::Observer;
use crate::wiring::{Oversight, bind};
use fault::Injection;

/// Rewrites a request's body, by its operation. `None` leaves it as it is.
type Rewriting = dyn Fn(&str, &[u8]) -> Option<Vec<u8>> + Send + Sync;

/// A counting, fault-injecting HTTP proxy. Dropping it closes its port and every connection.
pub struct Proxy {
    server: Server,
    wire: Arc<Wire>,
}

/// The shared state of the connections.
struct Wire {
    upstream: SocketAddr,
    client: Client<
        hyper_util::client::legacy::connect::HttpConnector,
        http_body_util::Full<bytes::Bytes>,
    >,
    state: Mutex<State>,
    oversight: Oversight,
    counts_units: AtomicBool,
}

#[derive(Default)]
struct State {
    counts: Counts,
    injections: Vec<Injection>,
    happened: Vec<Fault>,
    latency: Duration,
    rewriting: Option<Arc<Rewriting>>,
}

impl Proxy {
    /// Starts a proxy for DynamoDB at `upstream` on 127.0.0.1. Port 0 takes a free one.
    ///
    /// # Errors
    /// [`Error::Io`] when the port cannot be bound.
    pub async fn start(upstream: SocketAddr, port: u16) -> Result<Self, Error> {
        let listener = bind(port, "DynamoDB").await?;
        Ok(Self::new(listener, upstream, Oversight::default()))
    }

    /// As [`start`](Self::start), at a free port, with an observer that sees all requests and responses.
    ///
    /// # Errors
    /// [`Error::Io`] when no port can be bound.
    pub async fn start_observed(
        upstream: SocketAddr,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, Error> {
        let oversight = Oversight {
            observer: Some(observer),
            ..Oversight::default()
        };
        Ok(Self::new(bind(0, "DynamoDB").await?, upstream, oversight))
    }

    /// A proxy for the service at `upstream`.
    pub(crate) fn new(listener: Listener, upstream: SocketAddr, oversight: Oversight) -> Self {
        let wire = Arc::new(Wire {
            upstream,
            client: Client::builder(TokioExecutor::new()).build_http(),
            state: Mutex::default(),
            oversight,
            counts_units: AtomicBool::new(false),
        });
        let routes = Router::new()
            .fallback(forward::handle)
            .with_state(Arc::clone(&wire));
        Self {
            server: listener.serve(routes, guard()),
            wire,
        }
    }

    /// Listens at the same port of `ip` too, for clients that cannot reach 127.0.0.1, such as a container.
    ///
    /// # Errors
    /// [`Error::Io`] when this machine has no such address, or the port is taken there.
    pub async fn listen_also(&mut self, ip: IpAddr) -> Result<(), Error> {
        let what = format!("bind port {} of {ip}", self.server.address().port());
        self.server.listen_also(ip).await.map_err(io(what))
    }

    /// Counts capacity units from now on, by adding `ReturnConsumedCapacity` to each request. The added bytes of requests
    /// and responses are not counted.
    pub fn count_units(&self) {
        self.wire.counts_units.store(true, Ordering::Relaxed);
    }

    /// The endpoint that clients use for the service.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Everything counted since the start or the last [`reset`](Self::reset).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.wire.state().counts.clone()
    }

    /// Resets all counts, and removes faults, latency and rewriting.
    pub fn reset(&self) {
        *self.wire.state() = State::default();
    }

    /// Injects `fault` into the next `times` requests of `operation` (`"*"` for any). Faults that match the
    /// same request are used in the order of their injection.
    pub fn inject(&self, fault: Fault, operation: &str, times: u32) {
        self.push(fault, operation, None, times);
    }

    /// Like [`inject`](Self::inject), but only for requests whose body contains `text`, such as one key among many.
    pub fn inject_matching(&self, fault: Fault, operation: &str, text: &str, times: u32) {
        self.push(fault, operation, Some(text.to_owned()), times);
    }

    /// How many injected faults have not happened yet. Zero proves that a test met its fault.
    #[must_use]
    pub fn pending_faults(&self) -> u64 {
        self.wire
            .state()
            .injections
            .iter()
            .map(|injection| u64::from(injection.left))
            .sum()
    }

    /// The faults since the start or the last [`reset`](Self::reset), in order.
    #[must_use]
    pub fn happened(&self) -> Vec<Fault> {
        self.wire.state().happened.clone()
    }

    /// Delays every request by this much before it is forwarded.
    pub fn set_latency(&self, latency: Duration) {
        self.wire.state().latency = latency;
    }

    /// Rewrites requests before they reach the database, as if the client had sent them differently. The function receives
    /// the operation and the original body, and returns another body, or none to leave it. It replaces an earlier
    /// function.
    pub fn rewrite(
        &self,
        rewriting: impl Fn(&str, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) {
        self.wire.state().rewriting = Some(Arc::new(rewriting));
    }

    fn push(&self, fault: Fault, operation: &str, body_contains: Option<String>, times: u32) {
        let injection = Injection {
            fault,
            operation: operation.to_owned(),
            body_contains,
            left: times,
        };
        self.wire.state().injections.push(injection);
    }
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, and the counters would stay usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a request, and returns the fault for it, if any.
    fn receive(&mut self, operation: &str, body: &[u8]) -> (Option<Fault>, Duration) {
        self.counts.request(operation, body);
        let found = self
            .injections
            .iter()
            .position(|injection| injection.matches(operation, body));
        let fault = found.map(|index| {
            let injection = &mut self.injections[index];
            injection.left = injection.left.saturating_sub(1);
            let fault = injection.fault;
            if injection.left == 0 {
                self.injections.remove(index);
            }
            fault
        });
        self.happened.extend(fault);
        (fault, self.latency)
    }
}
