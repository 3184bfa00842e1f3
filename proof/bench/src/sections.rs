//! What a section costs, by itself, after a lost answer and after a crash.
//!
//! Each scene has a database of its own.

use std::time::{Duration, Instant};

use leasehold_local::Fault;
use tokio::task::JoinSet;

use crate::Error;
use crate::chart::bars;
use crate::clients::{ClientKind, Settings};
use crate::fixture::{Cost, Fixture};
use crate::report::{Found, Measure};

const KEY: &str = "orders/42";
const EVERYBODY: [ClientKind; 4] = [
    ClientKind::Polling,
    ClientKind::Direct,
    ClientKind::DynamodbLease,
    ClientKind::PythonLock,
];
const STEPS: [&str; 3] = ["acquire", "extend", "release"];

/// In scenes in which nobody waits for a lease to run out.
const LONG: Duration = Duration::from_mins(1);
/// In the others.
const SHORT: Duration = Duration::from_secs(4);

/// All scenes, but the crashes one after the other.
pub(crate) async fn measure() -> Result<Found, Error> {
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
            settled.push((who, lost_answer(who, place).await?));
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
fn over<T>(
    found: &[(ClientKind, T)],
    name: &str,
    unit: &str,
    figure: impl Fn(&T) -> f64,
) -> Measure {
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
pub async fn section(who: ClientKind) -> Result<[Cost; 3], Error> {
    let fixture = Fixture::start().await?;
    let settings = Settings {
        lease: Some(LONG),
        extends_every: Some(Duration::from_millis(200)),
    };
    let mut clients = who.clients(&fixture, &settings, 1).await?;
    let client = &mut clients[0];
    client.wait(KEY).await?;
    client.release().await?;
    let (acquired, acquire) = fixture.cost(client.acquire(KEY)).await?;
    if !acquired {
        return Err(Error::Failed(format!(
            "{} was refused a free key",
            who.name()
        )));
    }
    let ((), extend) = fixture.cost(client.extend()).await?;
    let ((), release) = fixture.cost(client.release()).await?;
    Ok([acquire, extend, release])
}

/// One request is applied, and its answer lost with the connection: that of the step of this number. How many requests it takes
/// until the client knows.
async fn lost_answer(who: ClientKind, step: usize) -> Result<u64, Error> {
    let fixture = Fixture::start().await?;
    let extends_every = (step == 1).then_some(Duration::from_millis(1200));
    let mut clients = who
        .clients(
            &fixture,
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
    let before = fixture.measured_endpoint().counts();
    fixture
        .measured_endpoint()
        .inject(Fault::LoseAnswer, who.writes()[step], 1);
    // What it then takes for true is for the known bugs.
    let _ = match step {
        0 => client.wait(KEY).await,
        1 => client.extend().await,
        _ => client.release().await,
    };
    let requests = fixture.measured_endpoint().counts().since(&before).total();
    if fixture.measured_endpoint().pending_faults() > 0 {
        return Err(Error::Failed(format!(
            "{} sent no {}",
            who.name(),
            who.writes()[step]
        )));
    }
    Ok(requests)
}

/// How the next one got the key of one who vanished.
struct Crash {
    leases: f64,
    requests: f64,
}

/// All at once, since everybody waits for a lease to run out.
async fn crashes() -> Result<Vec<(ClientKind, Crash)>, Error> {
    let everybody = [
        ClientKind::Queued,
        ClientKind::Polling,
        ClientKind::Direct,
        ClientKind::DynamodbLease,
        ClientKind::PythonLock,
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

async fn crash(who: ClientKind) -> Result<Crash, Error> {
    let fixture = Fixture::start().await?;
    let settings = Settings {
        lease: Some(SHORT),
        extends_every: None,
    };
    let mut clients = who.clients(&fixture, &settings, 1).await?;
    who.crash(&fixture, &settings, KEY).await?;
    let began = Instant::now();
    let ((), cost) = fixture.cost(clients[0].wait(KEY)).await?;
    Ok(Crash {
        leases: began.elapsed().div_duration_f64(SHORT),
        requests: requests(&cost),
    })
}
