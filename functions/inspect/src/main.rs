//! Shows what stands under a key, what a holder holds, or everything that is held, and never a
//! secret. Refuses with `Lease.Invalid` a request that does not say which.

use leasehold::{
    Cursor, Error, Holder, Inspected, Key, Leases, Listed, PageSize, lambda::Fatal, store::Store,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    key: Option<Key>,
    holder: Option<Holder>,
    #[serde(default)]
    list: bool,
    limit: Option<PageSize<100>>,
    cursor: Option<Cursor>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Key(Inspected),
    List(Listed),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    leasehold::lambda::serve(handle).await
}

async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Answer, Error> {
    let paged = request.limit.is_some() || request.cursor.is_some();
    match (request.key, request.holder, request.list) {
        (Some(key), None, false) if !paged => leases.inspect(&key).await.map(Answer::Key),
        (None, Some(holder), false) if !paged => leases.held_by(&holder).await.map(Answer::List),
        (None, None, true) => {
            let limit = request.limit.unwrap_or_default().get();
            leases.list(limit, request.cursor).await.map(Answer::List)
        }
        _ => Err(Error::invalid(
            "key",
            "give exactly one of key, holder, or list (limit and cursor go with list)",
        )),
    }
}
