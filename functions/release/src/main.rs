//! Ends a lease, or several. It never frees anybody else's; a lease that somebody else was granted
//! since is told as `lost`, and refused with `Lease.Lost` if the caller is strict.

use leasehold::{
    Error, Lease, LeaseSet, Leases, Released, ReleasedAll, lambda::Fatal, store::Store,
};
use serde::{Deserialize, Serialize};

/// Names the lease to end, or several.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold::schema::rules::one_or_several_leases))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The handle, as acquire or extend answered it: this or `leases`.
    lease: Option<Lease>,
    /// Several handles; each is released by itself.
    leases: Option<LeaseSet>,
    /// Answer the error Lease.Lost instead of the outcome "lost".
    #[serde(default)]
    strict: bool,
}

/// What release answers.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
