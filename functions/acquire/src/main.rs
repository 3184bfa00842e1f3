//! Grants a lease. Refuses with `Lease.Held` while somebody else holds it (unless asked to tell so
//! as a result), with `Lease.Consumed` a late duplicate, with `Lease.Frozen` a frozen key.

use leasehold::{
    Acquire, Acquired, Error, Holder, Key, Leases, Metadata, RequestId, Ttl,
    lambda::{Fatal, NotYet, OnePermit},
    store::Store,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "the contract's names")]
struct Request {
    key: Key,
    holder: Holder,
    request_id: Option<RequestId>,
    ttl_seconds: Ttl,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    on_held: OnHeld,
    #[serde(default, rename = "permits")]
    _permits: OnePermit,
    #[serde(rename = "keys")]
    _keys: Option<NotYet>,
    #[serde(rename = "observed_version")]
    _observed_version: Option<NotYet>,
    #[serde(rename = "reentrant")]
    _reentrant: Option<NotYet>,
    #[serde(rename = "task_token")]
    _task_token: Option<NotYet>,
    #[serde(rename = "wait_seconds")]
    _wait_seconds: Option<NotYet>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnHeld {
    #[default]
    Error,
    Result,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve(handle).await
}

async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Acquired, Error> {
    let mut acquire =
        Acquire::new(request.key, request.holder, request.ttl_seconds).metadata(request.metadata);
    acquire.request_id = request.request_id;
    let acquired = leases.acquire(acquire).await?;
    match request.on_held {
        OnHeld::Error => acquired.granted().map(Acquired::Granted),
        OnHeld::Result => Ok(acquired),
    }
}
