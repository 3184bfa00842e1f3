//! Shows what stands under a key, what a holder holds, or everything that is held, and never a
//! secret. Refuses with `Lease.Invalid` a request that does not say which.

use leasehold::{
    Cursor, Error, Holder, Inspected, Key, Leases, Listed, PageSize, lambda::Fatal, store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    key: Option<Key>,
    holder: Option<Holder>,
    #[serde(default)]
    list: bool,
    limit: Option<PageSize<100>>,
    cursor: Option<Cursor>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Key(Inspected),
    List(Listed),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve(env!("CARGO_PKG_NAME"), handle).await
}

pub(crate) async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Answer, Error> {
    let (limit, cursor) = (request.limit, request.cursor);
    match (request.key, request.holder, request.list) {
        (Some(key), None, false) if limit.is_none() && cursor.is_none() => {
            leases.inspect(&key).await.map(Answer::Key)
        }
        (None, Some(holder), false) => {
            let limit = limit.map_or(u32::MAX, PageSize::get);
            let listed = leases.held_by(&holder, limit, cursor);
            listed.await.map(Answer::List)
        }
        (None, None, true) => {
            let limit = limit.unwrap_or_default().get();
            leases.list(limit, cursor).await.map(Answer::List)
        }
        _ => Err(Error::invalid(
            "key",
            "give exactly one of key, holder, or list (limit and cursor go with holder and list)",
        )),
    }
}
