//! The same way to the table for both: the SDK's own HTTP client, without TLS.

use std::time::Duration;

use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use aws_sdk_dynamodb::{
    Client,
    config::{BehaviorVersion, Region, SharedAsyncSleep, timeout::TimeoutConfig},
};
use aws_smithy_async::{rt::sleep::TokioSleep, time::SystemTimeSource};
use aws_types::SdkConfig;

/// Where the table is.
pub(crate) fn url() -> Result<String, std::env::VarError> {
    std::env::var("TABLE_URL")
}

/// The way to it, and with what to sign.
pub(crate) fn config(url: String) -> SdkConfig {
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "local",
            "local",
            std::env::var("AWS_SESSION_TOKEN").ok(),
            None,
            "calls",
        )))
        .endpoint_url(url)
        .sleep_impl(SharedAsyncSleep::new(TokioSleep::new()))
        .time_source(SystemTimeSource::new())
        .timeout_config(TimeoutConfig::disabled())
        .build()
}

/// The same client, with the same limits in the same places, which are far: where every instruction takes fifty times as long,
/// a request would time out and be sent again. The library's limits stay: a count with a request too many is counted anew.
pub(crate) fn patient(client: &Client) -> Client {
    let far = Duration::from_mins(2);
    let limits = TimeoutConfig::builder()
        .connect_timeout(far)
        .operation_attempt_timeout(far)
        .operation_timeout(far);
    let config = client.config().to_builder();
    Client::from_conf(config.timeout_config(limits.build()).build())
}
