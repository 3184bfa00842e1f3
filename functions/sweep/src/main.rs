//! Frees the leases of holders that are gone. On its schedule it examines all of them; when called, it examines up to
//! `limit`. Fails with `Lease.Invalid` if it cannot use the limit or the cursor, and with `Lease.Misconfigured`, after the
//! sweep, if the token floor was lowered.

use leasehold::{Cursor, Error, PageSize, Queue, SweepBounds, Swept, store::Store};
use leasehold_lambda::{Fatal, Function, Names, Trigger};
use serde::Deserialize;

/// The request of a sweep on call.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// How many leases and waiters to examine; 1000 if left out.
    #[serde(default)]
    limit: PageSize<1000>,
    /// Where to continue: the cursor of the last response.
    cursor: Option<Cursor>,
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            limit: _,
            cursor: _,
        } = self;
        Names::default()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_looks()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(
    queue: Queue<S>,
    request: Trigger<Request>,
) -> Result<Swept, Error> {
    // The table's other users follow the settings of its stack. A floor that was lowered is told after the sweep.
    let published = queue.publish_rules().await;
    let bounds = match request {
        Trigger::Schedule => SweepBounds::Schedule,
        Trigger::Call(Request { limit, cursor }) => SweepBounds::Call {
            limit: limit.get(),
            cursor,
        },
    };
    let swept = queue.sweep(bounds).await?;
    published.map(|()| swept)
}
