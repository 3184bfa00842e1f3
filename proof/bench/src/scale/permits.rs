//! What one permit of a semaphore costs, by how many there are: a query reads them all.

use leasehold::{Acquired, Lease, Permits, RequestId};
use serde::Serialize;

use super::cost::Cost;
use super::field::{Field, ask, failed};
use crate::Error;

/// The operations with so many permits.
#[derive(Clone, Debug, Serialize)]
pub struct Semaphore {
    /// How many there are.
    pub permits: u16,
    /// To get the first one, when none was ever granted: there is no row yet.
    pub first: Cost,
    /// To get the last one.
    pub last: Cost,
    /// To be told that there is none.
    pub full: Cost,
    /// To get one when all were granted and given back.
    pub free: Cost,
    /// To give one back.
    pub release: Cost,
}

/// Takes all permits, asks for one more, gives them back, and takes one again.
///
/// # Errors
/// [`Error`] when the database refuses, or a permit is granted or refused that should not be.
pub async fn measure(numbers: &[u16]) -> Result<Vec<Semaphore>, Error> {
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        found.push(with(*number).await?);
    }
    Ok(found)
}

async fn with(number: u16) -> Result<Semaphore, Error> {
    let field = Field::empty().await?;
    let permits = Permits::new(number).map_err(failed("set the permits"))?;
    let mut asked = 0;
    let mut acquire = async || {
        asked += 1;
        // A request of its own each time, by the same holder.
        let request_id = RequestId::new(format!("{asked:06}")).map_err(failed("name a request"))?;
        let request = ask("fragile", "holder")?.request_id(request_id);
        let acquired = field.leases.acquire(request.permits(permits)).await;
        match acquired.map_err(failed("acquire a permit"))? {
            Acquired::Granted(granted) => Ok(Some(granted.lease)),
            Acquired::Held(_) => Ok(None),
        }
    };
    let (lease, first) = field.cost(acquire()).await?;
    let mut leases = vec![granted(lease)?];
    for _ in 2..number {
        leases.push(granted(acquire().await?)?);
    }
    let (lease, last) = field.cost(acquire()).await?;
    leases.push(granted(lease)?);
    let (refused, full) = field.cost(acquire()).await?;
    if refused.is_some() {
        return Err(failed("be refused")("there was one permit too many"));
    }
    let mut release = Cost::default();
    for lease in leases {
        let releasing = async {
            let released = field.leases.release_strictly(&lease).await;
            released.map_err(failed("release"))
        };
        release = field.cost(releasing).await?.1;
    }
    let (lease, free) = field.cost(acquire()).await?;
    granted(lease)?;
    Ok(Semaphore {
        permits: number,
        first,
        last,
        full,
        free,
        release,
    })
}

fn granted(lease: Option<Lease>) -> Result<Lease, Error> {
    lease.ok_or_else(|| failed("acquire a permit")("they are said to be held"))
}
