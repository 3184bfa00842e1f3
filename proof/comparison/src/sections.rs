//! What a section costs, by itself, after a lost answer and after a crash.
//!
//! Each scene has a database of its own.

use std::time::{Duration, Instant};

use leasehold_local::Fault;
use tokio::task::JoinSet;

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
pub(crate) async fn measure() -> Found {
    let mut measures = Vec::new();
    let mut steps = Vec::new();
    for who in EVERYBODY {
        steps.push((who.name(), section(who).await));
    }
    for (place, step) in STEPS.iter().enumerate() {
        let of = |what: &str, unit: &str, figure: fn(&Cost) -> f64| {
            let name = format!("{what} per uncontended {step}");
            Measure::of_all(name, unit, &steps, |steps| figure(&steps[place]))
        };
        measures.push(of("requests", "requests", requests).at_most(1.0));
        measures.push(of("write units", "write units", |cost| cost.write_units));
        measures.push(of("bytes", "bytes", |cost| crate::ratio(cost.bytes, 1)));
    }
    for (place, step) in STEPS.iter().enumerate() {
        let mut settled = Vec::new();
        for who in EVERYBODY {
            settled.push((who.name(), lost_answer(who, place).await));
        }
        let name = format!("requests until a lost answer is settled, {step}");
        let measure = Measure::of_all(name, "requests", &settled, |sent| crate::ratio(*sent, 1));
        measures.push(measure.at_most(2.0));
    }
    let crashes = crashes().await;
    measures.push(Measure::of_all(
        "time to take over from a holder that crashed",
        "lengths of the lease",
        &crashes,
        |crash| crash.leases,
    ));
    measures.push(Measure::of_all(
        "requests to take over from a holder that crashed",
        "requests",
        &crashes,
        |crash| crash.requests,
    ));
    // Without a failure a section costs nearly the same everywhere: the table says it.
    let shown = |measure: &&Measure| {
        ["lost answer", "crashed"]
            .iter()
            .any(|what| measure.name.contains(what))
    };
    let chart = bars(measures.iter().filter(shown));
    Found {
        measures,
        charts: vec![("sections", chart)],
    }
}

fn requests(cost: &Cost) -> f64 {
    crate::ratio(cost.requests(), 1)
}

/// Acquire, extend and release, on a key that was used before.
pub async fn section(who: ClientKind) -> [Cost; 3] {
    let fixture = Fixture::start().await;
    let settings = Settings {
        lease: Some(LONG),
        extends_every: Some(Duration::from_millis(200)),
    };
    let mut clients = who.clients(&fixture, &settings, 1).await;
    let client = &mut clients[0];
    client.wait(KEY).await.unwrap();
    client.release().await.unwrap();
    let (acquired, acquire) = fixture.cost(client.wait(KEY)).await;
    let (extended, extend) = fixture.cost(client.extend()).await;
    let (released, release) = fixture.cost(client.release()).await;
    acquired.and(extended).and(released).unwrap();
    [acquire, extend, release]
}

/// One request is applied, and its answer lost with the connection: that of the step of this number. How many requests it takes
/// until the client knows.
async fn lost_answer(who: ClientKind, step: usize) -> u64 {
    let fixture = Fixture::start().await;
    let settings = Settings {
        lease: Some(SHORT),
        extends_every: (step == 1).then_some(Duration::from_millis(1200)),
    };
    let mut clients = who.clients(&fixture, &settings, 1).await;
    let client = &mut clients[0];
    client.wait("warm").await.unwrap();
    client.release().await.unwrap();
    if step > 0 {
        client.wait(KEY).await.unwrap();
    }
    let endpoint = fixture.measured_endpoint();
    let before = endpoint.counts();
    endpoint.inject(Fault::LoseAnswer, who.writes()[step], 1);
    // What it then takes for true is for the known bugs.
    let _ = match step {
        0 => client.wait(KEY).await,
        1 => client.extend().await,
        _ => client.release().await,
    };
    let requests = endpoint.counts().since(&before).total();
    assert_eq!(endpoint.pending_faults(), 0, "{}", who.name());
    requests
}

/// How the next one got the key of one who vanished.
struct Crash {
    leases: f64,
    requests: f64,
}

/// All at once, since everybody waits for a lease to run out.
async fn crashes() -> Vec<(&'static str, Crash)> {
    let everybody = [ClientKind::Queued].into_iter().chain(EVERYBODY);
    let crashes: JoinSet<_> = everybody
        .map(|who| async move { (who, crash(who).await) })
        .collect();
    let mut found = crashes.join_all().await;
    found.sort_by_key(|(who, _)| *who);
    let named = found.into_iter().map(|(who, crash)| (who.name(), crash));
    named.collect()
}

async fn crash(who: ClientKind) -> Crash {
    let fixture = Fixture::start().await;
    let settings = Settings {
        lease: Some(SHORT),
        extends_every: None,
    };
    let mut clients = who.clients(&fixture, &settings, 1).await;
    who.crash(&fixture, &settings, KEY).await;
    let began = Instant::now();
    let (got, cost) = fixture.cost(clients[0].wait(KEY)).await;
    got.unwrap();
    Crash {
        leases: began.elapsed().div_duration_f64(SHORT),
        requests: requests(&cost),
    }
}
