//! Our own polling: `Leases::acquire_within`, then `release`.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{
    Acquire, AcquireOutcome, Connection, DynamoDb, Granted, Holder, Key, Leases, RequestId,
    RetryPolicy, Settings, Ttl,
};

use super::{KEY, told};
use crate::site::Site;
use crate::waiting::course::Course;
use crate::waiting::crew::{Client, Crew};
use crate::waiting::diary::Diary;

pub(super) const SETTINGS: &str = "Leases::acquire_within with RetryPolicy::of: random pauses of at most 100 ms at first, \
     doubling to at most 5 s; ttl 60 s; a budget that does not run out";

const TABLE: &str = "leases";
const BUDGET: Duration = Duration::from_hours(1);

struct Poller {
    leases: Leases<DynamoDb>,
    ask: Acquire,
}

impl Client for Poller {
    type Held = Granted;

    async fn acquire(&mut self) -> Result<Granted, String> {
        // A clone would be the same request.
        let again = self.ask.clone().request_id(RequestId::random());
        let waited = self.leases.acquire_within(again, RetryPolicy::of(BUDGET));
        match waited.await {
            Ok(AcquireOutcome::Granted(granted)) => Ok(granted),
            Ok(AcquireOutcome::TimedOut(_)) => Err("the budget has run out".to_owned()),
            Err(error) => Err(told(&error)),
        }
    }

    async fn release(&mut self, held: Granted) -> Result<(), String> {
        let released = self.leases.release_strictly(&held.lease).await;
        released.map(|_| ()).map_err(|error| told(&error))
    }
}

pub(super) async fn enter(
    site: &Site,
    course: &Course,
    diary: &Arc<Diary>,
) -> Result<Crew, String> {
    let client = Connection::client(&site.config().await);
    let created = leasehold::table::create(&client, TABLE).await;
    created.map_err(|error| told(&error))?;
    let leases = Leases::new(DynamoDb::new(client, TABLE), Settings::default());
    let poller = |number| {
        let bad = |error: leasehold::BadValue| told(&error);
        let ask = Acquire::new(
            Key::new(KEY).map_err(bad)?,
            Holder::new(format!("client-{number}")).map_err(bad)?,
            Ttl::new(Duration::from_mins(1)).map_err(bad)?,
        );
        let leases = leases.clone();
        Ok(Poller { leases, ask })
    };
    let pollers: Result<_, String> = (0..course.waiters).map(poller).collect();
    Ok(Crew::of(pollers?, course, diary))
}
