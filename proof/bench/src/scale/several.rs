//! What several keys in one acquire cost: one transaction and one reading of the tokens, however many they are.

use leasehold::{AcquireAll, ExtendOptions, Key, Keys, LeaseSet, RequestId, Ttl};
use serde::Serialize;

use super::cost::Cost;
use super::field::{Field, execution, failed, key};
use crate::Error;

/// The operations on so many keys.
#[derive(Clone, Debug, Serialize)]
pub struct Set {
    /// How many keys.
    pub keys: usize,
    /// To acquire all of them, each for the first time.
    pub acquire: Cost,
    /// To extend all of them.
    pub extend: Cost,
    /// To release all of them.
    pub release: Cost,
    /// To be told that one of them, the last, is held.
    pub held: Cost,
}

/// Acquires, extends and releases as many keys at once.
///
/// # Errors
/// [`Error`] when the database refuses, or a set is granted or refused that should not be.
pub async fn measure(numbers: &[usize]) -> Result<Vec<Set>, Error> {
    let field = Field::empty().await?;
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        found.push(with(&field, *number).await?);
    }
    Ok(found)
}

async fn with(field: &Field, number: usize) -> Result<Set, Error> {
    let names = (0..number).map(|n| key(&format!("account/{number:03}/{n:03}")));
    let keys: Vec<Key> = names.collect::<Result<_, _>>()?;
    let request = |id: &str| {
        let keys = Keys::new(keys.clone()).map_err(failed("name the keys"))?;
        let holder = execution("transfer")?;
        let ttl = Ttl::new(std::time::Duration::from_hours(1)).map_err(failed("set the ttl"))?;
        let id = RequestId::new(id).map_err(failed("name a request"))?;
        Ok::<_, Error>(AcquireAll::new(keys, holder, ttl).request_id(id))
    };
    let acquiring = async {
        let acquired = field.leases.acquire_all(request("first")?).await;
        let granted = acquired.and_then(leasehold::AcquiredAll::granted);
        LeaseSet::new(granted.map_err(failed("acquire"))?.leases).map_err(failed("name the leases"))
    };
    let (leases, acquire) = field.cost(acquiring).await?;
    let extending = async {
        let options = ExtendOptions::default();
        let extended = field.leases.extend_all(&leases, options).await;
        extended.map_err(failed("extend"))
    };
    let extend = field.cost(extending).await?.1;
    let releasing = async {
        let released = field.leases.release_all_strictly(&leases).await;
        released.map_err(failed("release"))
    };
    let release = field.cost(releasing).await?.1;

    let last = keys.last().map(Key::as_str).unwrap_or_default();
    field.grant(last, "somebody").await?;
    let refusing = async {
        let refused = field.leases.acquire_all(request("again")?).await;
        match refused.map_err(failed("be refused"))?.granted() {
            Err(leasehold::Error::Held(_)) => Ok(()),
            _ => Err(failed("be refused")("all of them were granted")),
        }
    };
    let held = field.cost(refusing).await?.1;
    Ok(Set {
        keys: number,
        acquire,
        extend,
        release,
        held,
    })
}
