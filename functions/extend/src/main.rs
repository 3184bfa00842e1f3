//! Moves a lease's deadline and proves that the lease still stands. Refuses with `Lease.Lost` once
//! it is over, and with `Lease.Expired` or `Lease.Frozen` where it may not be revived.

use leasehold::{
    Error, ExtendOptions, Extended, Lease, Leases, Ttl,
    lambda::{Fatal, NotYet},
    store::Store,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    lease: Lease,
    ttl_seconds: Option<Ttl>,
    #[serde(default)]
    require_unexpired: bool,
    #[serde(rename = "leases")]
    _leases: Option<NotYet>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve(handle).await
}

async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Extended, Error> {
    let options = ExtendOptions {
        ttl: request.ttl_seconds,
        require_unexpired: request.require_unexpired,
    };
    leases.extend(&request.lease, options).await
}
