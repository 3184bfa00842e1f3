//! How a function reaches AWS: HTTP/1.1, over TLS with the machine's own roots. The SDK's own client brings HTTP/2 and a larger
//! library of ciphers, which no request of ours needs, and which would be a third of every function.

use std::{error::Error, io, sync::Arc};

use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::{
        connection::{CaptureSmithyConnection, ConnectionMetadata},
        http::{
            HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings,
            SharedHttpConnector,
        },
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
        runtime_components::RuntimeComponents,
    },
    shared::IntoShared,
};
use aws_smithy_types::{body::SdkBody, retry::ErrorKind};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{
        self, Client,
        connect::{CaptureConnection, HttpConnector as Tcp, HttpInfo, capture_connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

use super::{
    ciphers,
    opening::{InTime, TooSlow},
};

/// One pool of connections for all clients of a sandbox.
#[derive(Clone, Debug)]
pub(super) struct Https {
    connector: Connector,
    client: Client<Connector, SdkBody>,
}

type Connector = InTime<HttpsConnector<Tcp>, MaybeHttpsStream<TokioIo<TcpStream>>>;

impl Https {
    /// # Errors
    /// [`rustls::Error`] if the ciphers do not fit the versions of TLS, which is decided when this is compiled.
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let mut tcp = Tcp::new();
        // What is not http goes through TLS.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let connector = InTime::new(connector);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector.clone());
        Ok(Self { connector, client })
    }

    /// Opens a connection for the first request to this place, if that can be done.
    pub(super) async fn open(&self, to: http::Uri) {
        self.connector.clone().open(to).await;
    }
}

/// With the roots that the machine trusts. Without any, https fails, and http, which is all that a local stack speaks, goes on.
fn tls() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken == 0 {
        tracing::warn!(problems = ?found.errors, "this machine trusts no authority: nothing can be asked by https");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ciphers::provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

impl HttpClient for Https {
    // Time limits of requests are the SDK's; the one of connecting is the same for all of them.
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.clone().into_shared()
    }
}

impl HttpConnector for Https {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => {
                return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into())));
            }
        };
        // A connection on which a request failed for a moment is not used again: the SDK asks for it by this.
        let connection = capture_connection(&mut request);
        if let Some(capture) = request.extensions().get::<CaptureSmithyConnection>() {
            capture.set_connection_retriever(move || metadata(&connection));
        }
        let answer = self.client.request(request);
        HttpConnectorFuture::new(async move {
            let answer = answer.await.map_err(|error| classified(error.into()))?;
            HttpResponse::try_from(answer.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

fn metadata(connection: &CaptureConnection) -> Option<ConnectionMetadata> {
    let connected = connection.connection_metadata();
    let mut extras = http::Extensions::new();
    connected.as_ref()?.get_extras(&mut extras);
    let addresses = extras.get::<HttpInfo>();
    let poisoned = connection.clone();
    let mut metadata = ConnectionMetadata::builder()
        .proxied(false)
        .poison_fn(move || {
            if let Some(connected) = poisoned.connection_metadata().as_ref() {
                connected.poison();
            }
        });
    metadata
        .set_local_addr(addresses.map(HttpInfo::local_addr))
        .set_remote_addr(addresses.map(HttpInfo::remote_addr));
    Some(metadata.build())
}

/// What went wrong, in the SDK's terms: by them it decides what is asked again.
fn classified(error: BoxError) -> ConnectorError {
    let transient = Some(ErrorKind::TransientError);
    if source::<TooSlow>(&*error).is_some() {
        return ConnectorError::timeout(error);
    }
    let is_io = source::<io::Error>(&*error).is_some();
    match source::<hyper::Error>(&*error) {
        Some(http) if http.is_timeout() => ConnectorError::timeout(error),
        Some(http) if http.is_user() => ConnectorError::user(error),
        Some(http) if http.is_closed() || http.is_canceled() || is_io => ConnectorError::io(error),
        // The server went away in the middle of its answer.
        Some(http) if http.is_incomplete_message() => ConnectorError::other(error, transient),
        Some(_) => ConnectorError::other(error, None),
        None if is_io => ConnectorError::io(error),
        None => match source::<legacy::Error>(&*error) {
            Some(client) if client.is_connect() => ConnectorError::io(error),
            _ => ConnectorError::other(error, None),
        },
    }
}

fn source<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |&error| error.source())
        .find_map(|error| error.downcast_ref())
}
