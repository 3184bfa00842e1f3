//! What a section costs, by itself, after a lost answer and after a crash; several keys in one go, and a semaphore.
//!
//! Each scene has a database of its own.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
use leasehold::{
    Acquire, AcquireAll, AcquiredAll, BadValue, Holder, Key, Keys, LeaseSet, Permits, Ttl,
};
use leasehold_local::Fault;
use tokio::task::JoinSet;

use crate::chart::bars;
use crate::clients::{Library, Settings, Who};
use crate::report::{Found, Measure};
use crate::site::{Cost, Site, config, create_table};
use crate::{Error, Options, failed};

const KEY: &str = "orders/42";
const EVERYBODY: [Who; 5] = [
    Who::Polling,
    Who::Functions,
    Who::Direct,
    Who::DynamodbLease,
    Who::PythonLock,
];
const STEPS: [&str; 3] = ["acquire", "extend", "release"];

/// In scenes in which nobody waits for a lease to run out.
const LONG: Duration = Duration::from_mins(1);
/// In the others.
const SHORT: Duration = Duration::from_secs(4);

/// All scenes, but the crashes one after the other.
pub(crate) async fn measure(options: &Options) -> Result<Found, Error> {
    let mut measures = Vec::new();
    let mut steps = Vec::new();
    for who in EVERYBODY {
        steps.push((who, section(who).await?));
    }
    for (place, step) in STEPS.iter().enumerate() {
        let of = |what: &str, unit: &str, figure: fn(&Cost) -> f64| {
            over(
                &steps,
                &format!("{what} per uncontended {step}"),
                unit,
                |steps| figure(&steps[place]),
            )
        };
        measures.push(of("requests", "requests", requests).at_most(1.0));
        measures.push(of("write units", "write units", |cost| cost.write_units));
        measures.push(of("bytes", "bytes", |cost| crate::ratio(cost.bytes, 1)));
    }
    for (place, step) in STEPS.iter().enumerate() {
        let mut settled = Vec::new();
        for who in EVERYBODY {
            settled.push((who, lost_answer(who, place).await?.requests));
        }
        let name = format!("requests until a lost answer is settled, {step}");
        measures
            .push(over(&settled, &name, "requests", |sent| crate::ratio(*sent, 1)).at_most(2.0));
    }
    let crashes = crashes().await?;
    measures.push(over(
        &crashes,
        "time to take over from a holder that crashed",
        "lengths of the lease",
        |crash| crash.leases,
    ));
    measures.push(over(
        &crashes,
        "requests to take over from a holder that crashed",
        "requests",
        |crash| crash.requests,
    ));
    let numbers: &[usize] = if options.quick { &[2] } else { &[2, 10, 50] };
    for number in numbers {
        let (ours, direct) = (keys(*number).await?, keys_directly(*number).await?);
        for (place, step) in ["acquire", "release"].iter().enumerate() {
            let name = |what: &str| format!("{what} to {step} {number} keys at once");
            let measure = Measure::new(name("requests"), "requests", requests(&ours[place]));
            measures.push(measure.peer(Who::Direct.name(), requests(&direct[place])));
            let measure = Measure::new(name("write units"), "write units", ours[place].write_units);
            measures.push(measure.peer(Who::Direct.name(), direct[place].write_units));
        }
    }
    for number in if options.quick { &[5][..] } else { &[5, 100] } {
        let (first, last) = permits(*number).await?;
        measures.push(
            Measure::new(
                format!("requests to get one of {number} permits"),
                "requests",
                requests(&last),
            )
            .at_most(2.0),
        );
        measures.push(Measure::new(
            format!("read units to get the first of {number} permits"),
            "read units",
            first.read_units,
        ));
        measures.push(Measure::new(
            format!("read units to get the last of {number} permits"),
            "read units",
            last.read_units,
        ));
    }
    let groups: Vec<_> = measures
        .iter()
        .filter(|measure| measure.peers.len() > 2 && measure.unit != "bytes")
        .map(|measure| (measure.name.as_str(), measure))
        .collect();
    let chart = bars(&groups)?;
    Ok(Found {
        measures,
        charts: vec![("sections", chart)],
    })
}

fn requests(cost: &Cost) -> f64 {
    crate::ratio(cost.requests(), 1)
}

/// A measure over everybody, the first of whom is ours.
fn over<T>(found: &[(Who, T)], name: &str, unit: &str, figure: impl Fn(&T) -> f64) -> Measure {
    let ours = found.first().map_or(f64::NAN, |(_, found)| figure(found));
    let others = found.iter().skip(1);
    others.fold(Measure::new(name, unit, ours), |measure, (who, found)| {
        measure.peer(who.name(), figure(found))
    })
}

/// Acquire, extend and release, on a key that was used before.
///
/// # Errors
/// [`Error`] when the client cannot be set up, or is refused.
pub async fn section(who: Who) -> Result<[Cost; 3], Error> {
    let site = Site::start().await?;
    let settings = Settings {
        lease: Some(LONG),
        extends_every: Some(Duration::from_millis(200)),
    };
    let mut clients = who.clients(&site, &settings, 1).await?;
    let client = &mut clients[0];
    client.wait(KEY).await?;
    client.release().await?;
    let (acquired, acquire) = site.cost(client.acquire(KEY)).await?;
    if !acquired {
        return Err(Error::Failed(format!(
            "{} was refused a free key",
            who.name()
        )));
    }
    let ((), extend) = site.cost(client.extend()).await?;
    let ((), release) = site.cost(client.release()).await?;
    Ok([acquire, extend, release])
}

/// What became of a call whose answer was lost.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Requests until the client knew where it stands.
    pub requests: u64,
    /// What it then knew.
    pub knows: Result<(), String>,
}

/// One request is applied, and its answer lost with the connection: that of the step of this number.
///
/// # Errors
/// [`Error`] when the client cannot be set up.
pub async fn lost_answer(who: Who, step: usize) -> Result<Settled, Error> {
    let site = Site::start().await?;
    let extends_every = (step == 1).then_some(Duration::from_millis(1200));
    let mut clients = who
        .clients(
            &site,
            &Settings {
                lease: Some(SHORT),
                extends_every,
            },
            1,
        )
        .await?;
    let client = &mut clients[0];
    client.wait("warm").await?;
    client.release().await?;
    if step > 0 {
        client.wait(KEY).await?;
    }
    let before = site.door().counts();
    site.door().inject(Fault::LoseAnswer, who.writes()[step], 1);
    let knows = match step {
        0 => client.wait(KEY).await,
        1 => client.extend().await,
        _ => client.release().await,
    };
    let requests = site.door().counts().since(&before).total();
    if site.door().pending_faults() > 0 {
        return Err(Error::Failed(format!(
            "{} sent no {}",
            who.name(),
            who.writes()[step]
        )));
    }
    Ok(Settled { requests, knows })
}

/// How the next one got the key of one who vanished.
struct Crash {
    leases: f64,
    requests: f64,
}

/// All at once, since everybody waits for a lease to run out.
async fn crashes() -> Result<Vec<(Who, Crash)>, Error> {
    let everybody = [
        Who::Line,
        Who::Polling,
        Who::Direct,
        Who::DynamodbLease,
        Who::PythonLock,
    ];
    let mut crashes = JoinSet::new();
    for who in everybody {
        crashes.spawn(async move { Ok((who, crash(who).await?)) });
    }
    let mut found = crashes
        .join_all()
        .await
        .into_iter()
        .collect::<Result<Vec<_>, Error>>()?;
    found.sort_by_key(|(who, _)| *who);
    Ok(found)
}

async fn crash(who: Who) -> Result<Crash, Error> {
    let site = Site::start().await?;
    let settings = Settings {
        lease: Some(SHORT),
        extends_every: None,
    };
    let mut clients = who.clients(&site, &settings, 1).await?;
    who.vanish(&site, &settings, KEY).await?;
    let began = Instant::now();
    let ((), cost) = site.cost(clients[0].wait(KEY)).await?;
    Ok(Crash {
        leases: began.elapsed().div_duration_f64(SHORT),
        requests: requests(&cost),
    })
}

const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:order-42";

/// So many keys in one transaction, used before: to acquire and to release them.
async fn keys(number: usize) -> Result<[Cost; 2], Error> {
    let site = Site::start().await?;
    let leases = Library::at(site.door()).await?.leases;
    let request = || {
        let keys: Result<Vec<Key>, BadValue> = (0..number)
            .map(|n| Key::new(format!("accounts/{n}")))
            .collect();
        Ok(AcquireAll::new(
            Keys::new(keys?)?,
            Holder::new(HOLDER)?,
            Ttl::new(LONG)?,
        ))
    };
    let mut costs = [Cost::default(), Cost::default()];
    for _ in 0..2 {
        let request = request().map_err(failed::<BadValue>("name the keys"))?;
        let (acquired, acquire) = site
            .cost(leases.acquire_all(request))
            .await
            .map_err(failed("acquire several keys"))?;
        let AcquiredAll::Granted(granted) = acquired else {
            return Err(Error::Failed("several keys are held by another".to_owned()));
        };
        let set = LeaseSet::new(granted.leases).map_err(failed("name the leases"))?;
        let (_, release) = site
            .cost(leases.release_all(&set))
            .await
            .map_err(failed("release several keys"))?;
        costs = [acquire, release];
    }
    Ok(costs)
}

/// The same by direct calls, which tell nothing but that all was applied.
async fn keys_directly(number: usize) -> Result<[Cost; 2], Error> {
    const TABLE: &str = "locks";
    let site = Site::start().await?;
    let client = aws_sdk_dynamodb::Client::new(&config(site.door()).await);
    create_table(&client, TABLE, "pk", None).await?;
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let put = |key: &str| {
        let put = Put::builder()
            .table_name(TABLE)
            .item("pk", text(key))
            .item("owner", text(HOLDER));
        let put = put
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        Ok(TransactWriteItem::builder().put(put).build())
    };
    let delete = |key: &str| {
        let delete = Delete::builder().table_name(TABLE).key("pk", text(key));
        let delete = delete
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(HOLDER));
        Ok(TransactWriteItem::builder().delete(delete.build()?).build())
    };
    let all = |one: &dyn Fn(&str) -> Result<TransactWriteItem, BuildError>| {
        let all: Result<Vec<_>, _> = (0..number).map(|n| one(&format!("accounts/{n}"))).collect();
        let all = all.map_err(failed("build a transaction"))?;
        Ok::<_, Error>(client.transact_write_items().set_transact_items(Some(all)))
    };
    let (puts, deletes) = (all(&put)?, all(&delete)?);
    let (_, acquire) = site
        .cost(puts.send())
        .await
        .map_err(failed("put several keys"))?;
    let (_, release) = site
        .cost(deletes.send())
        .await
        .map_err(failed("delete several keys"))?;
    Ok([acquire, release])
}

/// All permits are taken, all of them used before: what the first and the last take.
async fn permits(number: u16) -> Result<(Cost, Cost), Error> {
    let site = Site::start().await?;
    let leases = Library::at(site.door()).await?.leases;
    let permits = Permits::new(number).map_err(failed("set the permits"))?;
    let mut costs = Vec::new();
    for round in 0..2 {
        let mut held = Vec::new();
        costs.clear();
        for n in 0..number {
            let request = || {
                Ok(Acquire::new(
                    Key::new("partner")?,
                    Holder::new(format!("{HOLDER}-{round}-{n}"))?,
                    Ttl::new(LONG)?,
                ))
            };
            let request = request()
                .map_err(failed::<BadValue>("name a permit"))?
                .permits(permits);
            let (acquired, cost) = site
                .cost(leases.acquire(request))
                .await
                .map_err(failed("acquire a permit"))?;
            held.push(
                acquired
                    .granted()
                    .map_err(failed("acquire a permit"))?
                    .lease,
            );
            costs.push(cost);
        }
        for lease in &held {
            let _ = leases
                .release_strictly(lease)
                .await
                .map_err(failed("release a permit"))?;
        }
    }
    match &costs[..] {
        [first, .., last] => Ok((first.clone(), last.clone())),
        _ => Err(Error::Failed(
            "a semaphore has two permits at least".to_owned(),
        )),
    }
}
