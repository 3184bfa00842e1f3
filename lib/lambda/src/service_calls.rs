//! What all calls of the services have in common.

use std::time::Duration;

use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_types::{DateTime, timeout::TimeoutConfig};
use leasehold::{
    Cause, Delivery, Error, Timestamp,
    store::{lacks_credentials, refusal},
};

/// There are no retries. After a retry, a refusal could mean that the first call arrived. Without one, a refusal
/// shows that nobody waits with the token, and the next waiter may have the key at once.
const CONNECT: Duration = Duration::from_millis(500);
pub(crate) const CALL: Duration = Duration::from_millis(1500);

pub(crate) fn timeouts(limit: Duration) -> TimeoutConfig {
    let limit = limit.clamp(Duration::from_millis(1), CALL);
    TimeoutConfig::builder()
        .connect_timeout(CONNECT.min(limit))
        .operation_timeout(limit)
        .build()
}

pub(crate) fn instant(at: &DateTime) -> Timestamp {
    Timestamp::from_millis(
        at.to_millis()
            .ok()
            .and_then(|at| at.try_into().ok())
            .unwrap_or(0),
    )
}

/// What came of a notification. With one of the codes `refusals` the service says that nobody waits.
pub(crate) fn delivered<E, R>(
    action: &'static str,
    resource: &str,
    sent: Result<(), SdkError<E, R>>,
    refusals: &[&str],
) -> Result<Delivery, Error>
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match sent {
        Ok(()) => Ok(Delivery::Delivered),
        Err(error) if is_one_of(&error, refusals) => Ok(Delivery::Refused),
        Err(error) => Err(failed(action, resource.to_owned(), error)),
    }
}

pub(crate) fn is_one_of<E: ProvideErrorMetadata, R>(
    error: &SdkError<E, R>,
    codes: &[&str],
) -> bool {
    error.code().is_some_and(|code| codes.contains(&code))
}

/// The text comes from the response only; that of the request would show the token.
pub(crate) fn failed<E, R>(action: &'static str, resource: String, error: SdkError<E, R>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    if lacks_credentials(&error) {
        let source = Cause::said("no credentials could be loaded");
        return Error::Denied {
            action,
            resource,
            source,
        };
    }
    let code = error.code().unwrap_or("no code").to_owned();
    let message = error.message().unwrap_or("no message").to_owned();
    if !matches!(error, SdkError::ServiceError(_)) {
        return Error::Unavailable {
            problem: format!("{action} on {resource} got no response"),
            source: None,
        };
    }
    let source = Cause::said(format!("{code}: {message}")).by(error);
    refusal(&code, action, resource, source)
}
