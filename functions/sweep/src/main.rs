//! Frees the leases of holders that are gone. On its schedule it examines all of them, and stays for what is due before its next run; when
//! called, it examines up to `limit`, or one `key` or `pool`, whose queue it serves. Fails with `Lease.Invalid` if it cannot use the key, the limit or the cursor, and
//! with `Lease.Misconfigured`, after the sweep, if the token floor was lowered.

use leasehold::{Cursor, Error, Key, PageSize, Queue, SweepBounds, Swept, store::Store};
use leasehold_lambda::{Fatal, Function, Names, Trigger};
use serde::Deserialize;

/// The request of a sweep on call.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = leasehold_lambda::schema::rules::sweep))]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The one key to examine, instead of all: its leases, and who waits first.
    key: Option<Key>,
    /// The one pool to examine, by its name.
    pool: Option<Key>,
    /// How many leases and waiters to examine; 1000 if left out.
    limit: Option<PageSize<1000>>,
    /// Where to continue: the cursor of the last response.
    cursor: Option<Cursor>,
}

impl leasehold_lambda::Request for Request {
    fn names(&self) -> Names<'_> {
        let Self {
            key,
            pool,
            limit: _,
            cursor: _,
        } = self;
        Names::default().key(key).only_pool(pool)
    }
}

impl Request {
    fn bounds(self) -> Result<SweepBounds, Error> {
        let key = match (self.key, self.pool) {
            (Some(_), Some(_)) => return Err(Error::invalid("pool", "give key or pool, not both")),
            (key, pool) => key.or(pool.map(|name| Key::of_pool(&name))),
        };
        match (key, self.limit, self.cursor) {
            (Some(key), None, None) => Ok(SweepBounds::Key(key)),
            (Some(_), Some(_), _) => Err(Error::invalid("limit", "does not go with key or pool")),
            (Some(_), None, Some(_)) => {
                Err(Error::invalid("cursor", "does not go with key or pool"))
            }
            (None, limit, cursor) => Ok(SweepBounds::Call {
                limit: limit.unwrap_or_default().get(),
                cursor,
            }),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fatal> {
    Function::new(env!("CARGO_PKG_NAME"))
        .that_looks()
        .serve(handle)
        .await
}

pub(crate) async fn handle<S: Store>(
    queue: Queue<S>,
    request: Trigger<Request>,
) -> Result<Swept, Error> {
    let bounds = match request {
        Trigger::Schedule => SweepBounds::Schedule,
        Trigger::Call(request) => request.bounds()?,
    };
    // The table's other users follow the settings of its stack. A floor that was lowered is reported after the sweep.
    let published = queue.publish_rules().await;
    let swept = queue.sweep(bounds).await?;
    published.map(|()| swept)
}
