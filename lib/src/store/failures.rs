//! The meaning of a failed request: the service's many error codes, by what the caller can do.

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
    /// The key, if the request concerns one row.
    pub(super) key: Option<&'a Key>,
    /// Whether the client has a Region.
    pub(super) region: bool,
}

/// A failure of a request about the table itself.
pub(crate) fn failed<E, R>(action: &'static str, table: &str, error: SdkError<E, R>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
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
    /// The failure as one of our errors. It is never "held", because a refused condition is handled elsewhere.
    pub(super) fn failed<E, R>(&self, error: SdkError<E, R>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
        R: std::fmt::Debug + Send + Sync + 'static,
    {
        let Self { action, table, .. } = *self;
        match error {
            SdkError::ServiceError(_) => {
                let (code, message) = (error.code().unwrap_or("no code"), error.message());
                let (code, message) = (code.to_owned(), message.unwrap_or_default().to_owned());
                self.refused(&code, &message, error)
            }
            SdkError::ConstructionFailure(_) => Error::Misconfigured {
                problem: format!("{action} on table {table} could not be built"),
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
            // The text of such an error may contain the whole request, including the lease id.
            SdkError::DispatchFailure(unsent) if !unsent.is_io() && !unsent.is_timeout() => {
                Error::Unavailable {
                    problem: format!("{action} on table {table} got no response"),
                    source: Some(Cause::said("the connection ended, or could not be used")),
                }
            }
            error => Error::Unavailable {
                problem: format!("{action} on table {table} got no response"),
                source: Some(Cause::of(&error).by(error)),
            },
        }
    }

    /// A refusal by the service, from its error; for a transaction, from the reason that decides.
    pub(super) fn refused(
        &self,
        code: &str,
        message: &str,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        let Self {
            action, table, key, ..
        } = *self;
        let source = Cause::said(format!("{code}: {message}")).by(error);
        match code {
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
                    problem: format!("{table} is not a valid table name: check LEASE_TABLE"),
                    source: Some(source),
                },
                _ => Error::Misconfigured {
                    problem: format!(
                        "table {table} does not take {action}: its keys are not pk and sk, or it has no index held"
                    ),
                    source: Some(source),
                },
            },
            code => refusal(code, action, format!("table {table}"), source),
        }
    }
}

/// A refusal that any service of AWS may give, by its code.
#[must_use]
pub fn refusal(code: &str, action: &'static str, resource: String, source: Cause) -> Error {
    if is_throttling(code) {
        Error::Throttled {
            action,
            resource,
            source,
        }
    } else if is_denial(code) {
        Error::Denied {
            action,
            resource,
            source,
        }
    } else {
        Error::Unavailable {
            problem: format!("{action} on {resource} failed in the service"),
            source: Some(source),
        }
    }
}

/// Whether the service throttled the request, which it did not apply. `TransactionInProgressException` is no such code: a
/// transaction with this token, whose response was lost, is still under way.
fn is_throttling(code: &str) -> bool {
    matches!(
        code,
        "KmsThrottlingException"
            | "LimitExceededException"
            | "ReplicatedWriteConflictException"
            | "RequestThrottled"
            | "Throttling"
            | "ThrottlingError"
            | "ThrottlingException"
            | "ProvisionedThroughputExceeded"
            | "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "TransactionConflictException"
            | "TooManyRequestsException"
    )
}

/// Whether the service denied the request.
fn is_denial(code: &str) -> bool {
    matches!(
        code,
        "AccessDeniedException"
            | "ExpiredTokenException"
            | "IncompleteSignatureException"
            | "InvalidSignatureException"
            | "KMSAccessDeniedException"
            | "KMSDisabledException"
            | "KMSInvalidStateException"
            | "KMSNotFoundException"
            | "KmsAccessDeniedException"
            | "KmsInvalidStateException"
            | "MissingAuthenticationTokenException"
            | "NotAuthorized"
            | "UnrecognizedClientException"
    )
}

/// Whether a request failed because no credentials could be loaded.
#[must_use]
pub fn lacks_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(<dyn std::error::Error + 'static>::is::<CredentialsError>)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{
        error::ErrorMetadata,
        operation::update_item::UpdateItemError,
        types::{AttributeValue, error::ConditionalCheckFailedException},
    };
    use aws_smithy_runtime_api::client::{orchestrator::HttpResponse, result::ConnectorError};
    use aws_smithy_types::body::SdkBody;

    use super::*;

    const SECRET: &str = "7f3c0000000000000000000000005ec7";

    type Failed = SdkError<UpdateItemError, HttpResponse>;

    fn request() -> Request<'static> {
        Request {
            action: "dynamodb:UpdateItem",
            table: "leases",
            key: None,
            region: true,
        }
    }

    /// A response of the service, with a lease id in its body.
    fn answer() -> HttpResponse {
        let body = SdkBody::from(format!("{{\"lease_id\":\"{SECRET}\"}}"));
        HttpResponse::new(400.try_into().unwrap(), body)
    }

    fn refusal(code: &str) -> Failed {
        let meta = ErrorMetadata::builder().code(code).message("too much");
        SdkError::service_error(UpdateItemError::generic(meta.build()), answer())
    }

    /// The error and its sources.
    fn chain(error: &Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        let first: &(dyn std::error::Error + 'static) = error;
        std::iter::successors(Some(first), |error| error.source())
    }

    /// The error in both forms, and the texts of its sources.
    fn shown(error: &Error) -> String {
        let words: Vec<_> = chain(error).map(ToString::to_string).collect();
        format!("{error:?} {} {}", error.in_full(), words.join(" "))
    }

    #[test]
    fn refusal_source_is_sdk_error() {
        for code in ["ThrottlingException", "AccessDeniedException", "Unheard"] {
            let error = request().failed(refusal(code));
            let mut below = chain(&error);
            let sdk = below.find_map(|error| error.downcast_ref::<Failed>());
            let sdk = sdk.expect("the SDK's error is a source");
            assert_eq!(sdk.raw_response().unwrap().status().as_u16(), 400);
            assert_eq!(sdk.as_service_error().unwrap().code(), Some(code));
            assert!(below.any(<dyn std::error::Error + 'static>::is::<UpdateItemError>));
        }
    }

    #[test]
    fn transaction_in_progress_may_apply() {
        let error = request().failed(refusal("TransactionInProgressException"));
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        let error = request().failed(refusal("TransactionConflictException"));
        assert!(matches!(error, Error::Throttled { .. }), "{error:?}");
    }

    /// `DynamoDB` and Step Functions spell them differently.
    #[test]
    fn refusals_of_kms_keys_are_known() {
        for code in [
            "KMSAccessDeniedException",
            "KmsAccessDeniedException",
            "KmsInvalidStateException",
        ] {
            let error = request().failed(refusal(code));
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
        }
        let error = request().failed(refusal("KmsThrottlingException"));
        assert!(matches!(error, Error::Throttled { .. }), "{error:?}");
    }

    #[test]
    fn missing_answer_has_sdk_source() {
        let error = request().failed(Failed::timeout_error("operation timeout"));
        assert!(chain(&error).any(<dyn std::error::Error + 'static>::is::<Failed>));
        assert_eq!(
            error.in_full(),
            "dynamodb:UpdateItem on table leases got no response; the outcome is unknown: \
             repeat the same request: request has timed out: operation timeout"
        );
    }

    #[test]
    fn errors_show_no_request_or_response() {
        let item = ConditionalCheckFailedException::builder()
            .item("lease_id", AttributeValue::S(SECRET.to_owned()))
            .message("no");
        let held = UpdateItemError::ConditionalCheckFailedException(item.build());
        let sent = ConnectorError::other(format!("sent {SECRET}").into(), None);
        for failed in [
            refusal("ThrottlingException"),
            SdkError::service_error(held, answer()),
            SdkError::response_error("unreadable", answer()),
            SdkError::dispatch_failure(sent),
        ] {
            let message = shown(&request().failed(failed));
            assert!(!message.contains(SECRET), "{message}");
        }
    }
}
