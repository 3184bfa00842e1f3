//! A client of Lambda's API, as any program has one, for whoever answers in Lambda's place on this machine.

use std::net::SocketAddr;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_lambda::error::DisplayErrorContext;
use aws_sdk_lambda::primitives::Blob;

use crate::error::Error;

/// What a function answered.
pub(crate) struct Answer {
    /// Its text, be it an answer or an error.
    pub(crate) text: String,
    /// Whether Lambda's API says that it is an error.
    pub(crate) is_error: bool,
}

pub(crate) fn client(address: SocketAddr) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(format!("http://{address}"))
        // A container may have to be made first.
        .timeout_config(TimeoutConfig::disabled());
    Client::from_conf(config.build())
}

pub(crate) async fn invoke(
    client: &Client,
    function: &str,
    payload: &str,
) -> Result<Answer, Error> {
    let invoked = client
        .invoke()
        .function_name(function)
        .payload(Blob::new(payload))
        .send()
        .await;
    let invoked = invoked.map_err(|error| Error::Invoke {
        function: function.to_owned(),
        told: DisplayErrorContext(&error).to_string(),
    })?;
    let bytes = invoked.payload().map(Blob::as_ref).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    Ok(Answer {
        text: text.trim_end_matches('\n').to_owned(),
        is_error: invoked.function_error().is_some(),
    })
}
