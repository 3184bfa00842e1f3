//! A sample of a user's own step: work that needs exclusive access to a resource, done under a lease.
//!
//! It enters the resource, works, and leaves it, with two fenced writes (see [`resource`]) to the
//! table `RESOURCE_TABLE`. Without a `lease` it only works. `work` sets how long it works and how it ends.
//! It refuses with `Step.StaleToken` after a newer token was accepted, with `Step.Overlap` while another holder is
//! inside, and with `Step.Invalid` if it cannot read the request. A panic is `Step.Panicked`.

mod resource;

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use resource::{Pass, Resource};
use serde::{Deserialize, Serialize};
use tokio::task::JoinError;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    step: String,
    #[serde(default)]
    work: Work,
    lease: Option<Pass>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Work {
    /// How long the work takes.
    seconds: f64,
    /// The error name to fail with, after leaving the resource.
    fail: Option<String>,
    /// Whether to panic, after leaving the resource.
    panic: bool,
    /// The size of the response.
    output_bytes: usize,
}

#[derive(Debug, Serialize)]
struct Done {
    step: String,
    /// The resource's numbers of the two writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    entered: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    output: String,
}

/// Why a step failed. The message is for people, the name for Retry and Catch.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("token {token} comes too late for {key}: {accepted} was accepted before")]
    StaleToken {
        key: String,
        token: u64,
        accepted: u64,
    },
    #[error("token {token} found {occupant} inside {key}")]
    Overlap {
        key: String,
        token: u64,
        occupant: u64,
    },
    #[error("the request cannot be read: {0}")]
    Invalid(String),
    #[error("the resource table did not answer: {0}")]
    Unavailable(String),
    #[error("asked to fail with {0}")]
    Asked(String),
    #[error("panicked: {0}")]
    Panicked(String),
}

impl From<Failure> for Diagnostic {
    fn from(failure: Failure) -> Self {
        let name = match &failure {
            Failure::StaleToken { .. } => "Step.StaleToken",
            Failure::Overlap { .. } => "Step.Overlap",
            Failure::Invalid(_) => "Step.Invalid",
            Failure::Unavailable(_) => "Step.Unavailable",
            Failure::Asked(name) => name,
            Failure::Panicked(_) => "Step.Panicked",
        };
        Self {
            error_type: name.to_owned(),
            error_message: failure.to_string(),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(variable("AWS_REGION")))
        .credentials_provider(Credentials::new(
            variable("AWS_ACCESS_KEY_ID"),
            variable("AWS_SECRET_ACCESS_KEY"),
            std::env::var("AWS_SESSION_TOKEN").ok(),
            None,
            "environment",
        ))
        .endpoint_url(variable("AWS_ENDPOINT_URL_DYNAMODB"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    // It lives as long as the process.
    let resource: &'static Resource = Box::leak(Box::new(Resource::new(
        Client::from_conf(config),
        variable("RESOURCE_TABLE"),
    )));
    lambda_runtime::run(service_fn(
        move |event: LambdaEvent<serde_json::Value>| async move {
            let request = serde_json::from_value(event.payload)
                .map_err(|error| Failure::Invalid(error.to_string()))?;
            // A task of its own, because the runtime would report a panic by the name of a Rust type.
            match tokio::spawn(handle(resource, request)).await {
                Ok(done) => done,
                Err(ended) => Err(Failure::Panicked(message(ended))),
            }
        },
    ))
    .await
}

/// The message of a panic.
fn message(ended: JoinError) -> String {
    let Ok(panic) = ended.try_into_panic() else {
        return "without a word".to_owned();
    };
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .map_or("without a word", |message| message)
            .to_owned(),
    }
}

async fn handle(resource: &Resource, request: Request) -> Result<Done, Failure> {
    let Request { step, work, lease } = request;
    let length = Duration::try_from_secs_f64(work.seconds)
        .map_err(|error| Failure::Invalid(format!("work.seconds: {error}")))?;
    let entered = match &lease {
        Some(pass) => Some(resource.enter(pass, &step).await?),
        None => None,
    };
    tokio::time::sleep(length).await;
    // The resource is left before a failure too, because a failed step must not touch it any more.
    let left = match &lease {
        Some(pass) => Some(resource.leave(pass, &step).await?),
        None => None,
    };
    assert!(!work.panic, "asked to panic");
    if let Some(name) = work.fail {
        return Err(Failure::Asked(name));
    }
    Ok(Done {
        step,
        entered,
        left,
        output: "x".repeat(work.output_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_secret_is_refused() {
        let request = serde_json::from_value::<Request>(serde_json::json!({
            "step": "first",
            "lease": {"key": "k", "holder": "h", "fencing_token": 1, "lease_id": "c0ffee",
                      "safe_until": "2026-11-21T03:04:59.123Z"},
        }));
        assert!(request.is_err());
    }

    #[tokio::test]
    async fn panic_is_named_by_message() {
        let panicked = async |text: Option<String>| {
            let task = tokio::spawn(async move {
                let Some(text) = text else {
                    panic!("asked to panic");
                };
                panic!("{text}");
            });
            message(task.await.unwrap_err())
        };
        assert_eq!(panicked(None).await, "asked to panic");
        assert_eq!(panicked(Some("by name".to_owned())).await, "by name");
    }

    #[test]
    fn names_reach_the_workflow() {
        let name = |failure: Failure| Diagnostic::from(failure).error_type;
        assert_eq!(name(Failure::Asked("My.Own".into())), "My.Own");
        let key = String::from("k");
        assert_eq!(
            name(Failure::StaleToken {
                key: key.clone(),
                token: 1,
                accepted: 2
            }),
            "Step.StaleToken"
        );
        assert_eq!(
            name(Failure::Overlap {
                key,
                token: 2,
                occupant: 1
            }),
            "Step.Overlap"
        );
    }
}
