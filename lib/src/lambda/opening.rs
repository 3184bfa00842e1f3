//! One connection is opened while the sandbox starts, when a function has a whole processor and nobody waits for it yet, and the
//! first request takes it: name, TCP and TLS are then no part of the first invocation.
//!
//! A request is made up for it as any other is, and goes no further than the connection: so where it leads is the SDK's own
//! opinion, and what the SDK does but once is done too. Nothing is sent. It is a matter of speed only: whatever goes wrong here,
//! the first request meets again, and tells.

use std::{
    future::{Future, ready},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use aws_sdk_dynamodb::{Client, config::Config};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        http::{
            HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings,
            SharedHttpConnector,
        },
        orchestrator::HttpRequest,
        result::ConnectorError,
        runtime_components::RuntimeComponents,
    },
    shared::IntoShared,
};
use aws_smithy_types::retry::RetryConfig;
use http::Uri;
use tower_service::Service;

use super::https::Https;
use crate::{
    clock::{Clock as _, SystemClock, Timestamp},
    store::Connection,
};

/// How long a connection waits for the first request. A sandbox that was started in advance may be frozen for hours before it,
/// and nobody tells it that the other end has long hung up.
const KEPT: Duration = Duration::from_secs(10);

/// Opens a connection to where `client` sends its requests, for `https` to use.
pub(super) async fn open(client: &Client, https: &Https, table: &str) {
    let request = client.get_item().table_name(table).customize();
    let instead = Config::builder()
        .http_client(Door(https.clone()))
        .retry_config(RetryConfig::disabled());
    // An error in any case: there is no answer to what is not sent.
    let _ = request.config_override(instead).send().await;
}

/// Takes a request as far as its connection.
#[derive(Clone, Debug)]
struct Door(Https);

impl HttpClient for Door {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.clone().into_shared()
    }
}

impl HttpConnector for Door {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (https, to) = (self.0.clone(), request.uri().parse());
        HttpConnectorFuture::new(async move {
            if let Ok(to) = to {
                https.open(to).await;
            }
            Err(ConnectorError::user("nothing is sent".into()))
        })
    }
}

/// Connects within [`Connection::CONNECT`], name and TLS included, or not at all; or takes what was opened beforehand.
#[derive(Debug)]
pub(super) struct InTime<C, S> {
    connect: C,
    opened: Arc<Opened<S>>,
}

impl<C: Clone, S> Clone for InTime<C, S> {
    fn clone(&self) -> Self {
        Self {
            connect: self.connect.clone(),
            opened: Arc::clone(&self.opened),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("no connection within {0:?}")]
pub(super) struct TooSlow(Duration);

type Connecting<S> = Pin<Box<dyn Future<Output = Result<S, BoxError>> + Send>>;

impl<C> InTime<C, C::Response>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    pub(super) fn new(connect: C) -> Self {
        Self {
            connect,
            opened: Arc::default(),
        }
    }

    /// Opens a connection for the first request that goes there.
    pub(super) async fn open(mut self, to: Uri) {
        if let Ok(stream) = self.connecting(to.clone()).await {
            self.opened.put(&to, stream, SystemClock.now());
        }
    }

    fn connecting(&mut self, to: Uri) -> Connecting<C::Response> {
        let connecting = self.connect.call(to);
        Box::pin(async move {
            match tokio::time::timeout(Connection::CONNECT, connecting).await {
                Ok(connected) => connected.map_err(Into::into),
                Err(_) => Err(TooSlow(Connection::CONNECT).into()),
            }
        })
    }
}

impl<C> Service<Uri> for InTime<C, C::Response>
where
    C: Service<Uri>,
    C::Response: Send + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Connecting<C::Response>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connect.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match self.opened.take(&to, SystemClock.now()) {
            Some(stream) => Box::pin(ready(Ok(stream))),
            None => self.connecting(to),
        }
    }
}

/// The connection that nobody has taken yet.
#[derive(Debug)]
struct Opened<S>(Mutex<Option<Waiting<S>>>);

#[derive(Debug)]
struct Waiting<S> {
    to: Uri,
    since: Timestamp,
    stream: S,
}

impl<S> Default for Opened<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S> Opened<S> {
    fn put(&self, to: &Uri, stream: S, now: Timestamp) {
        let waiting = Waiting {
            to: to.clone(),
            since: now,
            stream,
        };
        // Nothing panics while it holds the lock.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting);
    }

    /// Whatever waits is gone afterwards: what does not fit the first connection does not fit a later one.
    fn take(&self, to: &Uri, now: Timestamp) -> Option<S> {
        let waiting = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        let same = waiting.to.scheme() == to.scheme() && waiting.to.authority() == to.authority();
        (same && now.since(waiting.since) <= KEPT).then_some(waiting.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_is_taken_once_and_soon_and_for_the_same_place() {
        let at = |ms: u64| Timestamp::from_millis(1_795_230_000_000 + ms);
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let taken = |to: &str, after: u64| {
            let opened = Opened::default();
            opened.put(&uri("https://here.example/path"), 1, at(0));
            let first = opened.take(&uri(to), at(after));
            assert_eq!(opened.take(&uri(to), at(after)), None);
            first
        };
        assert_eq!(taken("https://here.example", 10_000), Some(1));
        assert_eq!(taken("https://here.example/", 0), Some(1));
        assert_eq!(taken("https://here.example", 10_001), None);
        assert_eq!(taken("https://there.example", 0), None);
        assert_eq!(taken("http://here.example", 0), None);
    }
}
