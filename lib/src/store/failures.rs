//! What a failed request means: the service's many error codes, sorted by what the caller can do.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};

use crate::{
    error::{Cause, Error},
    values::Key,
};

/// Which request failed.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// The IAM action.
    pub(super) action: &'static str,
    pub(super) table: &'a str,
    /// The key, if the request is about one row.
    pub(super) key: Option<&'a Key>,
    /// Whether the client has a Region.
    pub(super) region: bool,
}

/// A failure of a request about the table itself.
pub(crate) fn failed<E, R>(action: &'static str, table: &str, error: SdkError<E, R>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug + 'static,
{
    let request = Request {
        action,
        table,
        key: None,
        region: true,
    };
    request.failed(error)
}

impl Request<'_> {
    /// The failure as one of ours. Never "held": a condition's refusal does not come this way.
    pub(super) fn failed<E, R>(&self, error: SdkError<E, R>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug + 'static,
    {
        let Self { action, table, .. } = *self;
        match error {
            SdkError::ServiceError(refusal) => {
                let (code, message) = (refusal.err().code(), refusal.err().message());
                self.refused(code.unwrap_or("no code"), message.unwrap_or_default())
            }
            SdkError::ConstructionFailure(_) => Error::Misconfigured {
                problem: format!("{action} on table {table} could not be put together"),
                source: None,
            },
            error if lacks_credentials(&error) => Error::Denied {
                action,
                resource: format!("table {table}"),
                source: Cause::said("no credentials could be loaded"),
            },
            SdkError::DispatchFailure(unsent) if !unsent.is_io() && !self.region => {
                Error::Misconfigured {
                    problem: "no Region: set AWS_REGION, or one in the client's configuration"
                        .to_owned(),
                    source: None,
                }
            }
            // The words of such an error may show the whole request, lease id and all.
            SdkError::DispatchFailure(unsent) if !unsent.is_io() && !unsent.is_timeout() => {
                Error::Unavailable {
                    problem: format!("{action} on table {table} brought no answer"),
                    source: Some(Cause::said("the connection ended, or could not be used")),
                }
            }
            error => Error::Unavailable {
                problem: format!("{action} on table {table} brought no answer"),
                source: Some(Cause::of(&error)),
            },
        }
    }

    pub(super) fn refused(&self, code: &str, message: &str) -> Error {
        let Self {
            action, table, key, ..
        } = *self;
        let source = Cause::said(format!("{code}: {message}"));
        match code {
            code if is_throttling(code) => Error::Throttled {
                action,
                resource: format!("table {table}"),
                source,
            },
            code if is_denial(code) => Error::Denied {
                action,
                resource: format!("table {table}"),
                source,
            },
            "ResourceNotFoundException" => Error::Misconfigured {
                problem: format!(
                    "there is no table {table}, or it lacks the index: check LEASE_TABLE, the \
                     Region, and that the table is leasehold's"
                ),
                source: Some(source),
            },
            "ValidationError" | "ValidationException" => match key {
                // Only an item that somebody else filled is that large.
                Some(key) if message.contains("size") && message.contains("exceeded") => {
                    Error::Corrupt {
                        key: key.clone(),
                        reason: "the item is as large as an item can be".to_owned(),
                    }
                }
                _ if message.to_ascii_lowercase().contains("tablename") => Error::Misconfigured {
                    problem: format!("no table can be called {table}: check LEASE_TABLE"),
                    source: Some(source),
                },
                _ => Error::Misconfigured {
                    problem: format!(
                        "table {table} does not take {action}: its key schema is not pk and sk"
                    ),
                    source: Some(source),
                },
            },
            _ => Error::Unavailable {
                problem: format!("{action} on table {table} failed in the service"),
                source: Some(source),
            },
        }
    }
}

/// Whether a service refused for capacity.
pub(crate) fn is_throttling(code: &str) -> bool {
    matches!(
        code,
        "LimitExceededException"
            | "ReplicatedWriteConflictException"
            | "RequestThrottled"
            | "Throttling"
            | "ThrottlingError"
            | "ThrottlingException"
            | "ProvisionedThroughputExceeded"
            | "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "TransactionConflictException"
            | "TransactionInProgressException"
    )
}

/// Whether a service refused the caller.
pub(crate) fn is_denial(code: &str) -> bool {
    matches!(
        code,
        "AccessDeniedException"
            | "ExpiredTokenException"
            | "IncompleteSignatureException"
            | "InvalidSignatureException"
            | "MissingAuthenticationTokenException"
            | "NotAuthorized"
            | "UnrecognizedClientException"
    )
}

pub(crate) fn lacks_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(<dyn std::error::Error + 'static>::is::<CredentialsError>)
}
