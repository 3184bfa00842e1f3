//! Ends a lease, or several. It never frees anybody else's; a lease that somebody else was granted
//! since is told as `lost`, and refused with `Lease.Lost` if the caller is strict.

use leasehold::{
    Error, Lease, LeaseSet, Leases, Released, ReleasedAll, lambda::Fatal, store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    lease: Option<Lease>,
    leases: Option<LeaseSet>,
    #[serde(default)]
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    One(Released),
    All(ReleasedAll),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve_with_workflows(env!("CARGO_PKG_NAME"), handle).await
}

pub(crate) async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Answer, Error> {
    match (request.lease, request.leases, request.strict) {
        (Some(lease), None, false) => leases.release(&lease).await.map(Answer::One),
        (Some(lease), None, true) => leases.release_strictly(&lease).await.map(Answer::One),
        (None, Some(set), false) => leases.release_all(&set).await.map(Answer::All),
        (None, Some(set), true) => leases.release_all_strictly(&set).await.map(Answer::All),
        (Some(_), Some(_), _) => Err(Error::invalid("leases", "give lease or leases, not both")),
        (None, None, _) => Err(Error::invalid("lease", "is required, or leases instead")),
    }
}
