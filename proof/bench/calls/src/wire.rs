//! The same way to the table for both: plain HTTP/1.1 through one pool of connections, as a function's way is below its TLS.

use std::time::Duration;

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Region, SharedAsyncSleep, timeout::TimeoutConfig},
};
use aws_smithy_async::{rt::sleep::TokioSleep, time::SystemTimeSource};
use aws_smithy_runtime_api::{
    client::{
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
use aws_smithy_types::body::SdkBody;
use aws_types::SdkConfig;
use hyper_util::{
    client::legacy::{self, connect},
    rt::TokioExecutor,
};

/// Where the table is.
pub(crate) fn url() -> Result<String, std::env::VarError> {
    std::env::var("TABLE_URL")
}

/// The way to it, and with what to sign.
pub(crate) fn config(url: String, client: impl HttpClient + 'static) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "local", "local", None, None, "calls",
        )))
        .endpoint_url(url)
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .time_source(SystemTimeSource::new())
        .timeout_config(TimeoutConfig::disabled())
        .http_client(client)
        .build()
}

/// The same client, with the same limits in the same places, which are far: where every instruction takes fifty times as long,
/// a request would time out and be sent again.
pub(crate) fn patient(client: &Client) -> Client {
    let far = Duration::from_mins(2);
    let limits = TimeoutConfig::builder()
        .connect_timeout(far)
        .operation_attempt_timeout(far)
        .operation_timeout(far);
    let config = client.config().to_builder();
    Client::from_conf(config.timeout_config(limits.build()).build())
}

/// HTTP/1.1 without TLS, in one pool of connections.
#[derive(Clone, Debug)]
pub(crate) struct Plain(legacy::Client<connect::HttpConnector, SdkBody>);

impl Plain {
    pub(crate) fn new() -> Self {
        let mut tcp = connect::HttpConnector::new();
        tcp.set_nodelay(true);
        Self(legacy::Client::builder(TokioExecutor::new()).build(tcp))
    }
}

impl HttpClient for Plain {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        self.clone().into_shared()
    }
}

impl HttpConnector for Plain {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => {
                return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into())));
            }
        };
        let answer = self.0.request(request);
        HttpConnectorFuture::new(async move {
            let answer = answer
                .await
                .map_err(|error| ConnectorError::io(error.into()))?;
            HttpResponse::try_from(answer.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}
