//! Shows the state of a key or of a pool, the leases of a holder, or everything that is held. Never shows a secret. Fails with
//! `Lease.Invalid` if the request does not name exactly one of the four.

use leasehold::{Cursor, Error, Holder, Inspected, Key, LeasePage, Leases, PageSize, store::Store};
use leasehold_lambda::{Fatal, Function, Names};
use serde::{Deserialize, Serialize};

/// Names a key, a pool, a holder, or the whole list.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::inspect))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Show this key.
    key: Option<Key>,
    /// Show the pool of this name.
    pool: Option<Key>,
    /// Show the leases of this holder.
    holder: Option<Holder>,
    /// Show all leases that are held or expired.
    #[serde(default)]
    list: bool,
    /// How many leases to examine; in a list 100 if left out, of a holder all of them.
    limit: Option<PageSize<100>>,
    /// Where to continue: the cursor of the last response.
    cursor: Option<Cursor>,
}

/// The response of inspect.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[expect(
    clippy::large_enum_variant,
    reason = "one value at a time, and short-lived"
)]
pub(crate) enum Answer {
    Key(Inspected),
    List(LeasePage),
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            key,
            pool,
            holder,
            list,
            limit: _,
            cursor: _,
        } = self;
        Names::default()
            .key(key)
            .only_pool(pool)
            .holder(holder)
            .list(*list)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME")).serve(handle).await
}

pub(crate) async fn handle<S: Store>(leases: Leases<S>, request: Request) -> Result<Answer, Error> {
    let (limit, cursor) = (request.limit, request.cursor);
    let pool = request.pool.map(|name| Key::of_pool(&name));
    let answer = match (request.key, pool, request.holder, request.list) {
        (Some(key), None, None, false) | (None, Some(key), None, false)
            if limit.is_none() && cursor.is_none() =>
        {
            leases.inspect(&key).await.map(Answer::Key)
        }
        (None, None, Some(holder), false) => {
            let limit = limit.map_or(u32::MAX, PageSize::get);
            let listed = leases.held_by(&holder, limit, cursor);
            listed.await.map(Answer::List)
        }
        (None, None, None, true) => {
            let limit = limit.unwrap_or_default().get();
            leases.list(limit, cursor).await.map(Answer::List)
        }
        _ => Err(Error::invalid(
            "key",
            "give exactly one of key, pool, holder, or list (limit and cursor go with holder and list)",
        )),
    };
    answer.map_err(Error::of_a_read)
}
