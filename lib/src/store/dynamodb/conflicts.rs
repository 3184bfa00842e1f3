//! A single write that meets a transaction on its item is refused with `TransactionConflictException`, and surely did not
//! happen. The SDK does not repeat it; a holder must not lose its lease to the transactions of those who join its line.

use std::{future::Future, time::Duration};

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tokio::time::sleep;

use crate::{clock::stopwatch, turns::Pauses};

/// Makes a write again, with the time that is left of `limit`, until it meets no transaction or the time is over.
#[expect(
    clippy::disallowed_methods,
    reason = "the SDK waits in real time as well"
)]
pub(super) async fn through_conflicts<T, E, R, F>(
    limit: Duration,
    write: impl Fn(Duration) -> F,
) -> Result<T, SdkError<E, R>>
where
    E: ProvideErrorMetadata,
    F: Future<Output = Result<T, SdkError<E, R>>>,
{
    let began = stopwatch();
    let mut pauses = Pauses::within(limit);
    let mut left = limit;
    loop {
        let answer = write(left).await;
        let conflict = matches!(&answer, Err(SdkError::ServiceError(refusal))
            if refusal.err().code() == Some("TransactionConflictException"));
        left = limit.saturating_sub(began.elapsed());
        match pauses.next(left).filter(|_| conflict) {
            Some(pause) => sleep(pause).await,
            None => return answer,
        }
        left = limit.saturating_sub(began.elapsed());
    }
}
