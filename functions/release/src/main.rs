//! Ends a lease. It never frees anybody else's; a lease that somebody else was granted since is
//! told as `lost`, and refused with `Lease.Lost` if the caller is strict.

use leasehold::{
    Error, Lease, Leases, Released,
    lambda::{Fatal, NotYet},
    store::Store,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    lease: Lease,
    #[serde(default)]
    strict: bool,
    #[serde(rename = "leases")]
    _leases: Option<NotYet>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve(handle).await
}

async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Released, Error> {
    if request.strict {
        leases.release_strictly(&request.lease).await
    } else {
        leases.release(&request.lease).await
    }
}
