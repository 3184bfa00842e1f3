//! SDK clients for the local endpoints.

macro_rules! client {
    ($sdk:ident, $name:ident, $what:literal) => {
        #[doc = concat!("A client for ", $what, " at `url`, with dummy credentials and the SDK's default retries.")]
        pub(super) fn $name(url: &str) -> $sdk::Client {
            use $sdk::config::{BehaviorVersion, Config, Credentials, Region};
            let config = Config::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new(crate::lambda::REGION))
                .credentials_provider(Credentials::new("local", "local", None, None, "local"))
                .endpoint_url(url)
                .http_client(aws_smithy_http_client::Builder::new().build_http())
                .build();
            $sdk::Client::from_conf(config)
        }
    };
}

client!(aws_sdk_dynamodb, dynamodb, "DynamoDB");
#[cfg(feature = "lambda-client")]
client!(aws_sdk_lambda, lambda, "Lambda");
client!(aws_sdk_sfn, sfn, "Step Functions");
