//! What the SDK's clients need to know, as Lambda tells it: in variables, and nowhere else. The SDK's own loader would also look
//! for profiles, instance metadata and roles to assume, and a third of every function would be code for these.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, Region, SdkConfig, environment::EnvironmentVariableCredentialsProvider,
};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::{rt::sleep::TokioSleep, time::SystemTimeSource};
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use super::https::Https;
use crate::{
    error::Error,
    settings::variable,
    values::{Holder, TaskToken},
    workflows::{Call, Delivery, Execution, StepFunctions, Workflows},
};

pub(super) fn read(https: &Https) -> SdkConfig {
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
    let credentials = EnvironmentVariableCredentialsProvider::new();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(region.map(Region::new))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(https.clone())
        .service_config(Variables)
        .sleep_impl(TokioSleep::new())
        .time_source(SystemTimeSource::new());
    config.build()
}

/// What concerns one service: `AWS_ENDPOINT_URL_DYNAMODB` before `AWS_ENDPOINT_URL`.
#[derive(Debug)]
struct Variables;

impl LoadServiceConfig for Variables {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let service = key.service_id().to_uppercase().replace(' ', "_");
        variable(&format!("{}_{service}", key.env())).or_else(|| variable(key.env()))
    }
}

/// Step Functions for a function that calls back and never asks for the state of an execution: its role does not allow that either, and
/// the code that reads the answer need not be linked.
pub(super) struct CallbacksOnly(pub(super) StepFunctions);

impl Workflows for CallbacksOnly {
    fn succeed<'a>(
        &'a self,
        token: &'a TaskToken,
        output: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        self.0.succeed(token, output, limit)
    }

    fn fail<'a>(
        &'a self,
        token: &'a TaskToken,
        error: &'a str,
        cause: String,
        limit: Duration,
    ) -> Call<'a, Delivery> {
        self.0.fail(token, error, cause, limit)
    }

    fn look_up<'a>(&'a self, _: &'a Holder, _: Duration) -> Call<'a, Execution> {
        Box::pin(async {
            Err(Error::Misconfigured {
                problem: "this function cannot ask how executions stand: serve it with `serve_with_executions`".to_owned(),
                source: None,
            })
        })
    }
}
