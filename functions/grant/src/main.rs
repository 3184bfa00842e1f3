//! Notifies the first waiter of a key that was freed without a notification: by an operator, or by a program that
//! cannot call a waiter. A release notifies by itself. Reads the table's stream; records that fail are delivered
//! again.

use leasehold::{
    Error, Leases,
    lambda::{Failed, Fatal, StreamRecords},
    store::Store,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve_with_workflows(env!("CARGO_PKG_NAME"), handle).await
}

pub(crate) async fn handle<S: Store>(
    leases: Leases<S>,
    changes: StreamRecords,
) -> Result<Failed, Error> {
    let leases = &leases;
    let hand_over = |key| async move { leases.hand_over(&key).await.map(drop) };
    Ok(changes.each(hand_over).await)
}
