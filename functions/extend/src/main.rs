//! Moves the deadline of one lease or of several, and verifies that each is still valid. Fails with `Lease.Lost` if the
//! lease has ended, and with `Lease.Expired` or `Lease.Frozen` if it has expired and may not be revived.

use leasehold::{
    Error, ExtendOptions, Extended, ExtendedAll, Lease, LeaseSet, Leases, Ttl, store::Store,
};
use leasehold_lambda::{Fatal, Function, Names};
use serde::{Deserialize, Serialize};

/// Names the lease to extend, or several.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::one_or_several_leases))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The handle, as acquire or extend returned it: this or `leases`.
    lease: Option<Lease>,
    /// Several handles. Each is extended separately.
    leases: Option<LeaseSet>,
    /// New length from now, in seconds; the lease's own if left out. Never shortens the lease.
    ttl_seconds: Option<Ttl>,
    /// Return Lease.Expired instead of reviving a lease whose deadline has passed.
    #[serde(default)]
    require_unexpired: bool,
}

/// The response of extend.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Answer {
    One(Extended),
    All(ExtendedAll),
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            lease,
            leases,
            ttl_seconds: _,
            require_unexpired: _,
        } = self;
        Names::default().lease(lease).leases(leases)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME")).serve(handle).await
}

pub(crate) async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Answer, Error> {
    let options = ExtendOptions {
        ttl: request.ttl_seconds,
        require_unexpired: request.require_unexpired,
    };
    match (request.lease, request.leases) {
        (Some(lease), None) => leases.extend(&lease, options).await.map(Answer::One),
        (None, Some(set)) => leases.extend_all(&set, options).await.map(Answer::All),
        (Some(_), Some(_)) => Err(Error::invalid("leases", "give lease or leases, not both")),
        (None, None) => Err(Error::invalid("lease", "is required, or leases instead")),
    }
}
