//! A table of leases that only one measurement uses, and what is done to it, by a clock that stands still.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::StreamSpecification;
use leasehold::conformance::FakeStepFunctions;
use leasehold::{
    Acquire, Connection, DynamoDb, ExtendOptions, Holder, Inspected, Key, Lease, LeaseState,
    Leases, ManualClock, Queue, Queued, RequestId, Settings, TaskToken, Timestamp, Ttl, WaitTime,
};

use super::cost::Cost;
use crate::Error;
use crate::site::Site;

/// The name of the table. Another client may have its own beside it.
pub const TABLE: &str = "leasehold";

/// When everything begins: always the same, so that numbers have the same length in every run.
const BEGINNING: Timestamp = Timestamp::from_millis(1_795_000_000_000);

/// Something that is under way.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

/// The field.
pub struct Field {
    /// Where the table is.
    pub site: Site,
    /// A client with the library's own time limits.
    pub client: aws_sdk_dynamodb::Client,
    /// The leases in it.
    pub leases: Leases<DynamoDb>,
    /// What time it is for them.
    pub clock: Arc<ManualClock>,
    /// Those who are called back. Such a call is no request to the table, and is not counted.
    pub calls: Arc<FakeStepFunctions>,
}

impl Field {
    /// An empty table with its index. Its stream is off: what it feeds is not measured here, and the embedded
    /// database would keep a copy of every write.
    ///
    /// # Errors
    /// [`Error`] when the database or the table cannot be made.
    pub async fn empty() -> Result<Self, Error> {
        let site = Site::start().await?;
        let client = Connection::client(&site.config().await);
        let created = leasehold::table::create(&client, TABLE).await;
        created.map_err(failed("create the table"))?;
        let off = StreamSpecification::builder().stream_enabled(false).build();
        let off = off.map_err(failed("say that the stream is off"))?;
        let update = client.update_table().table_name(TABLE);
        let update = update.stream_specification(off).send().await;
        update.map_err(|error| failed("switch the stream off")(error.into_service_error()))?;

        let (clock, calls) = (Arc::new(ManualClock::at(BEGINNING)), Arc::default());
        let mut settings = Settings::default();
        // The default is 128; how deep a line may be is what is measured.
        settings.queue_cap = 1000;
        let leases = Leases::new(DynamoDb::new(client.clone(), TABLE), settings)
            .with_clock(clock.clone())
            .with_workflows(Arc::clone(&calls) as _);
        Ok(Self {
            site,
            client,
            leases,
            clock,
            calls,
        })
    }

    /// So many free rows and one more, their model: each as
    /// the library leaves one that was granted, extended and released.
    ///
    /// # Errors
    /// [`Error`] when the database refuses.
    pub async fn fill(&self, rows: u64) -> Result<(), Error> {
        let model = free(9_999_999);
        let lease = self.grant(&model, "before").await?;
        let extended = self.leases.extend(&lease, ExtendOptions::default()).await;
        let lease = extended.map_err(failed("extend"))?.into_lease();
        let released = self.leases.release(&lease).await;
        let _ = released.map_err(failed("release"))?;
        let database = self.site.database();
        database.copy(TABLE, (&model, "LEASE#0000"), (0..rows).map(free))?;
        // The library reads them as its own.
        for row in [0, rows / 2, rows.saturating_sub(1)] {
            let found = self.leases.inspect(&key(&free(row))?).await;
            match found.map_err(failed("read a row back"))? {
                Inspected::Found { first, .. }
                    if first.state == LeaseState::Free
                        && first.previous.as_ref().map(|p| &p.holder)
                            == Some(&execution("before")?) => {}
                other => return Err(failed("read a row back")(format!("{other:?}"))),
            }
        }
        Ok(())
    }

    /// What `doing` comes to, with its answer.
    ///
    /// # Errors
    /// What `doing` fails with.
    pub fn cost<'a, T: 'a>(
        &'a self,
        doing: impl Future<Output = Result<T, Error>> + 'a,
    ) -> Doing<'a, (T, Cost)> {
        // What the SDK does is large.
        let doing = Box::pin(doing);
        Box::pin(async move {
            let before = self.site.spent();
            let done = doing.await?;
            let spent = self.site.spent().since(&before);
            Ok((done, Cost::from(&spent.cycle)))
        })
    }

    /// A lease of `key` for an hour.
    ///
    /// # Errors
    /// [`Error`] when it is not granted.
    pub async fn grant(&self, key: &str, holder: &str) -> Result<Lease, Error> {
        let acquired = self.leases.acquire(ask(key, holder)?).await;
        let granted = acquired.and_then(leasehold::Acquired::granted);
        Ok(granted.map_err(failed("acquire"))?.lease)
    }

    /// A place in line for `key`; the task token is `key: holder`.
    ///
    /// # Errors
    /// [`Error`] when it is not in line afterwards.
    pub async fn join(&self, key: &str, holder: &str, wait: Duration) -> Result<(), Error> {
        let queue = Queue {
            task_token: TaskToken::new(format!("{key}: {holder}")).map_err(failed("name"))?,
            wait: WaitTime::new(wait).map_err(failed("wait"))?,
        };
        let joined = self.leases.acquire_in_line(ask(key, holder)?, queue).await;
        match joined.map_err(failed("join the line"))? {
            Queued::Queued { .. } => Ok(()),
            Queued::Acquired => Err(failed("join the line")("it was granted")),
        }
    }
}

/// The request of `holder` for `key`. Each holder asks for a key once, or has given it back.
///
/// # Errors
/// [`Error`] for what is no key or no holder.
pub fn ask(key: &str, holder: &str) -> Result<Acquire, Error> {
    let ttl = Ttl::new(Duration::from_hours(1)).map_err(failed("set the ttl"))?;
    let request = RequestId::new(holder).map_err(failed("name a request"))?;
    Ok(Acquire::new(self::key(key)?, execution(holder)?, ttl).request_id(request))
}

/// A holder as long as an execution's name is, since that counts in bytes and units.
///
/// # Errors
/// [`Error`] for what is no holder.
pub fn execution(name: &str) -> Result<Holder, Error> {
    let named = format!(
        "arn:aws:states:us-east-1:123456789012:execution:leasehold-critical-section:{name:->36}"
    );
    Holder::new(named).map_err(failed("name a holder"))
}

/// The key of that name.
///
/// # Errors
/// [`Error`] for what is none.
pub fn key(name: &str) -> Result<Key, Error> {
    Key::new(name).map_err(failed("name a key"))
}

/// The key of a free row: all of them are equally long.
#[must_use]
pub fn free(number: u64) -> String {
    format!("free/{number:07}")
}

/// Says what could not be done.
pub fn failed<E: Display>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Contestant {
        contestant: "leasehold",
        message: format!("could not {what}: {error}"),
    }
}
