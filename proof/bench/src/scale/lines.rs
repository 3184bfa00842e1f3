//! What it costs to join a line, to leave it and to be served, by how many wait: the line is a list in one row, so that
//! requests stay the same, and bytes and units grow with the row.

use std::time::Duration;

use leasehold::{ExtendOptions, Lease, Reaped};
use serde::Serialize;

use super::cost::Cost;
use super::field::{Field, execution, failed};
use crate::Error;

/// The operations at one depth.
#[derive(Clone, Debug, Serialize)]
pub struct Depth {
    /// How many wait: after a join, before a leave and a hand-over.
    pub waiting: u64,
    /// To join, as the last.
    pub join: Cost,
    /// To leave from the last place, as reap does for an execution that has ended.
    pub leave: Cost,
    /// To release with so many in line: the row is written, and the task token of the next is read.
    pub hand_over: Cost,
    /// To confirm, with one less in line.
    pub confirm: Cost,
}

const KEY: &str = "orders/42";
const WAIT: Duration = Duration::from_hours(10);

/// A line that grows to each of `depths` in turn, which have to rise.
///
/// # Errors
/// [`Error`] when the database refuses, or somebody is not in line.
pub async fn measure(depths: &[u64]) -> Result<Vec<Depth>, Error> {
    let field = Field::empty().await?;
    // A row remembers some of its grants: from here on it grows with the line alone.
    for n in 0..4 {
        let lease = field.grant(KEY, &format!("before/{n}")).await?;
        let released = field.leases.release_strictly(&lease).await;
        let _ = released.map_err(failed("release"))?;
    }
    let mut holder = field.grant(KEY, "holder").await?;
    let mut line = Line {
        field: &field,
        waiting: 0,
        asked: 0,
    };
    let mut found = Vec::with_capacity(depths.len());
    for depth in depths {
        while line.waiting + 1 < *depth {
            line.join().await?;
        }
        let join = field.cost(line.join()).await?.1;
        let leave = field.cost(line.leave()).await?.1;
        line.join().await?;
        let releasing = async {
            let released = field.leases.release_strictly(&holder).await;
            released.map_err(failed("release"))
        };
        let hand_over = field.cost(releasing).await?.1;
        let (next, confirm) = field.cost(line.confirm()).await?;
        holder = next;
        line.join().await?;
        found.push(Depth {
            waiting: *depth,
            join,
            leave,
            hand_over,
            confirm,
        });
    }
    Ok(found)
}

struct Line<'a> {
    field: &'a Field,
    waiting: u64,
    asked: u64,
}

impl Line<'_> {
    /// All names are equally long, since they count in bytes.
    fn last(&self) -> String {
        format!("waiter/{:06}", self.asked)
    }

    async fn join(&mut self) -> Result<(), Error> {
        self.asked += 1;
        self.field.join(KEY, &self.last(), WAIT).await?;
        self.waiting += 1;
        Ok(())
    }

    async fn leave(&mut self) -> Result<(), Error> {
        let last = execution(&self.last())?;
        self.field
            .calls
            .set_execution(last.as_str(), crate::site::ENDED);
        let reaped = self.field.leases.reap(&last).await;
        match reaped.map_err(failed("reap"))? {
            Reaped::Reaped { left: 1, .. } => {
                self.waiting -= 1;
                Ok(())
            }
            other => Err(failed("leave the line")(format!("{other:?}"))),
        }
    }

    /// The first extend of whoever was told, which is the grant.
    async fn confirm(&mut self) -> Result<Lease, Error> {
        let told = self.field.calls.take_answers();
        let [told] = &told[..] else {
            return Err(failed("confirm")(format!("{} were told", told.len())));
        };
        let lease = serde_json::from_value(told.output()["lease"].clone());
        let lease: Lease = lease.map_err(failed("read what was told"))?;
        let extended = self
            .field
            .leases
            .extend(&lease, ExtendOptions::default())
            .await;
        self.waiting -= 1;
        Ok(extended.map_err(failed("confirm"))?.into_lease())
    }
}
