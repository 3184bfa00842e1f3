//! Ends one lease or several. It never frees somebody else's lease. If somebody else was granted the key since, the
//! outcome is `lost`, or with `strict` the error `Lease.Lost`.

use leasehold::{Error, Lease, LeaseSet, Queue, Released, ReleasedAll, store::Store};
use leasehold_lambda::{Fatal, Function, Names};
use serde::{Deserialize, Serialize};

/// Names the lease to end, or several.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::one_or_several_leases))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The handle, as acquire or extend returned it: this or `leases`.
    lease: Option<Lease>,
    /// Several handles. Each is released separately.
    leases: Option<LeaseSet>,
    /// Return the error Lease.Lost instead of the outcome "lost".
    #[serde(default)]
    strict: bool,
}

/// The response of release.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Answer {
    One(Released),
    All(ReleasedAll),
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            lease,
            leases,
            strict: _,
        } = self;
        Names::default().lease(lease).leases(leases)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_notifies()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(queue: Queue<S>, request: Request) -> Result<Answer, Error> {
    match (request.lease, request.leases, request.strict) {
        (Some(lease), None, false) => queue.release(&lease).await.map(Answer::One),
        (Some(lease), None, true) => queue.release_strictly(&lease).await.map(Answer::One),
        (None, Some(set), false) => queue.release_all(&set).await.map(Answer::All),
        (None, Some(set), true) => queue.release_all_strictly(&set).await.map(Answer::All),
        (Some(_), Some(_), _) => Err(Error::invalid("leases", "give lease or leases, not both")),
        (None, None, _) => Err(Error::invalid("lease", "is required, or leases instead")),
    }
}
