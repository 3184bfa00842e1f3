//! How many instructions the library and the functions take, counted by valgrind and held to `budget.json`.
//!
//! Instructions are the same on a busy machine as on an idle one, which times are not, so that a small step back is seen. They
//! are counted by difference: of two runs of one program, one does more of one thing, and everything else drops out.
//!
//! valgrind offers no instructions for SHA-256, so that signing is counted as done without: a quarter of a request.

mod runtime_api;
mod tls;
mod valgrind;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use leasehold::{Acquire, DynamoDb, Holder, Key, Lease, Leases, RequestId, Ttl};
use leasehold_local::{Proxy, session_token};
use leasehold_proof::fixture::{HOLDER, event};
use serde::Deserialize;
use serde_json::json;

use crate::clients::{TABLE, leases};
use crate::report::{Found, Measure};
use crate::{Error, Options, ratio};
use leasehold_proof::root;
use runtime_api::RuntimeApi;
use tls::{AUTHORITY, Tls};
use valgrind::Program;

/// How often something is counted whose requests time out.
const TRIES: usize = 12;
const OPERATIONS: [&str; 3] = ["acquire", "extend", "release"];
/// Calls in the shorter run, beside which the longer one has more: the first ones connect and fill what is kept.
const FIRST: usize = 10;
/// How many leases are held, of whatever many invocations: sweep looks at all of them.
const ROWS: usize = 50;
/// The most that a call of the library may take, by what the SDK takes for the same request.
const BESIDE_THE_SDK: f64 = 1.1;
/// The instruction set that the budget speaks of.
const BUDGETED: &str = "x86_64";

/// How the binaries were built that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Build {
    /// As `make build` does.
    Shipped,
    /// As CI does: without optimisation across packages.
    Quick,
}

/// The most that each count may be, by its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Budget {
    #[serde(rename = "about")]
    _about: String,
    shipped: BTreeMap<String, f64>,
    quick: BTreeMap<String, f64>,
}

/// A function, its sample event, what makes one invocation different from the one before, how many requests each sends, and
/// how many more the first of a process.
struct Function {
    name: &'static str,
    sample: &'static str,
    about: About,
    requests: usize,
    at_first: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    FreshKey,
    Key,
    Lease,
    Same,
}

/// The first three are what every workflow calls, and are counted quickly too.
const FUNCTIONS: [Function; 7] = [
    Function::new("acquire", "acquire", About::FreshKey, 1),
    Function::new("extend", "extend", About::Lease, 1),
    Function::new("release", "release", About::Lease, 1),
    // At first it publishes the rules of the table.
    Function {
        at_first: 1,
        ..Function::new("sweep", "sweep", About::Same, 4)
    },
    Function::new("inspect", "inspect", About::Key, 1),
    Function::new("operate", "operate-freeze", About::Key, 2),
    Function::new("reap", "reap-succeeded", About::Same, 1),
];

/// Counts everything that `make -C proof counted` has built, and holds each count to its bound. What has none misses it.
pub(crate) async fn measure(options: &Options) -> Result<Found, Error> {
    valgrind::find().await?;
    let budget = std::fs::read(root().join("proof/comparison/budget.json")).unwrap();
    let budget: Budget = serde_json::from_slice(&budget).unwrap();
    let bounds = match options.build {
        Build::Shipped => budget.shipped,
        Build::Quick => budget.quick,
    };
    let built = root().join("target/instructions");
    let (calls, invocations) = if options.quick { (40, 15) } else { (100, 40) };
    let held = |name: &str, count: f64| {
        let measure = Measure::new(name, "instructions", count.ceil());
        match std::env::consts::ARCH {
            BUDGETED => measure.at_most(bounds.get(name).copied().unwrap_or(f64::NAN)),
            _ => measure,
        }
    };
    let mut measures = Vec::new();
    let driver = built.join("calls/bootstrap");
    for operation in OPERATIONS {
        let [library, sdk] = ["library", "sdk"].map(|by| per_call(&driver, by, operation, calls));
        let (library, sdk) = tokio::try_join!(library, sdk)?;
        measures.push(
            held(&format!("{operation} by the library"), library)
                .peer("the same request by the SDK", sdk),
        );
        let name = format!("{operation} by the library, by the same request by the SDK");
        measures.push(Measure::new(name, "ratio", library / sdk).at_most(BESIDE_THE_SDK));
    }
    let functions = if options.quick {
        &FUNCTIONS[..3]
    } else {
        &FUNCTIONS
    };
    for function in functions {
        let binary = built.join(function.name).join("bootstrap");
        let first = invoked(function, &binary, 1, Over::Http).await?;
        let all = invoked(function, &binary, 1 + invocations, Over::Http).await?;
        let cold = invoked(function, &binary, 1, Over::Tls).await?;
        let name = function.name;
        measures.push(held(
            &format!("{name} function, warm invocation"),
            difference(first, all, invocations),
        ));
        measures.push(held(
            &format!("{name} function, process and first answer over TLS"),
            ratio(cold, 1),
        ));
    }
    if !options.quick {
        let acquire = &FUNCTIONS[0];
        let binary = built.join(acquire.name).join("bootstrap");
        let cold = invoked(acquire, &binary, 1, Over::TlsAsHere).await?;
        measures.push(held(
            "acquire function, the same with every authority of this machine",
            ratio(cold, 1),
        ));
    }
    Ok(Found {
        measures,
        charts: Vec::new(),
    })
}

/// What one of `times` takes by which two runs differ.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn difference(few: u64, many: u64, times: usize) -> f64 {
    (many as f64 - few as f64) / times as f64
}

async fn per_call(driver: &Path, by: &str, operation: &str, calls: usize) -> Result<f64, Error> {
    let (few, many) = tokio::try_join!(
        run(driver, by, operation, FIRST, FIRST + calls),
        run(driver, by, operation, FIRST + calls, FIRST + calls)
    )?;
    Ok(difference(few, many, calls))
}

/// A table of its own for each run: what one leaves behind is no other's.
async fn run(
    driver: &Path,
    by: &str,
    operation: &str,
    calls: usize,
    rows: usize,
) -> Result<u64, Error> {
    for _ in 0..TRIES {
        let table = Table::start().await;
        let leases = table.grant(rows).await;
        if operation == "acquire" {
            for lease in &leases {
                let _ = table.leases.release(lease).await.unwrap();
            }
        }
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("leases.json");
        std::fs::write(&file, serde_json::to_vec(&leases).unwrap()).unwrap();
        let counted = valgrind::count(&Program {
            path: driver.to_owned(),
            arguments: vec![
                by.to_owned(),
                operation.to_owned(),
                file.display().to_string(),
                calls.to_string(),
            ],
            environment: BTreeMap::from([
                ("TABLE_URL".to_owned(), table.proxy.url()),
                ("AWS_SESSION_TOKEN".to_owned(), session_token().to_owned()),
            ]),
        })
        .await?;
        if table.requests() == calls {
            return Ok(counted.of_a_success());
        }
    }
    Err(Error::TooSlow(operation.to_string()))
}

/// How a function's process reaches the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Http,
    /// With one authority to trust: how many a machine has differs, and so would the counts.
    Tls,
    /// With those of this machine.
    TlsAsHere,
}

/// Where a Linux machine has its authorities in one file.
const AUTHORITIES: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];

/// The instructions of a function's process that serves so many invocations.
async fn invoked(
    function: &Function,
    binary: &Path,
    many: usize,
    over: Over,
) -> Result<u64, Error> {
    let name = function.name;
    let mut last = format!("the requests of {name} time out under valgrind");
    for _ in 0..TRIES {
        let table = Table::start().await;
        let leases = table.grant(ROWS).await;
        let place = tempfile::tempdir().unwrap();
        let trusted = place.path().join("authority.pem");
        let mut authorities = AUTHORITY.to_owned();
        if over == Over::TlsAsHere {
            let found = AUTHORITIES
                .iter()
                .find_map(|path| std::fs::read_to_string(path).ok());
            authorities +=
                &found.unwrap_or_else(|| panic!("this machine has none of {AUTHORITIES:?}"));
        }
        std::fs::write(&trusted, authorities).unwrap();
        let leases = leases.iter().take(many);
        let events = leases.map(|lease| function.event(lease)).collect();
        let api = RuntimeApi::start(events).await;
        let mut environment = environment(name, &api.address());
        let tls = Tls::before(&table.proxy.url()).await;
        let url = match over {
            Over::Http => table.proxy.url(),
            Over::Tls | Over::TlsAsHere => tls.url(),
        };
        environment.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), url);
        environment.insert("SSL_CERT_FILE".to_owned(), trusted.display().to_string());
        let counted = valgrind::count(&Program {
            path: binary.to_owned(),
            arguments: Vec::new(),
            environment,
        })
        .await?;
        match api.answers() {
            Ok(answers) if answers == many && table.requests() == function.sends(many) => {
                // However it ended: a function that nobody calls any more ends with an error.
                return Ok(counted.in_any_case());
            }
            Ok(_) => {}
            Err(error) => last = error,
        }
    }
    if last.contains("time out under valgrind") || last.contains("request has timed out") {
        return Err(Error::TooSlow(name.to_string()));
    }
    panic!("{last}")
}

impl Function {
    const fn new(name: &'static str, sample: &'static str, about: About, requests: usize) -> Self {
        Self {
            name,
            sample,
            about,
            requests,
            at_first: 0,
        }
    }

    const fn sends(&self, invocations: usize) -> usize {
        self.at_first + invocations * self.requests
    }

    fn event(&self, lease: &Lease) -> String {
        let mut event = event(self.sample);
        match self.about {
            About::FreshKey => event["key"] = json!(format!("fresh/{}", lease.key.as_str())),
            About::Key => event["key"] = json!(lease.key.as_str()),
            About::Lease => event["lease"] = json!(lease),
            About::Same => {}
        }
        event.to_string()
    }
}

/// What Lambda tells a function.
fn environment(name: &str, runtime_api: &str) -> BTreeMap<String, String> {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "local"),
        ("AWS_SECRET_ACCESS_KEY", "local"),
        ("AWS_SESSION_TOKEN", session_token()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
        ("AWS_LAMBDA_FUNCTION_NAME", name),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/counted"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "counted"),
        ("AWS_LAMBDA_RUNTIME_API", runtime_api),
        ("LANG", "en_US.UTF-8"),
        ("LEASE_TABLE", TABLE),
        ("LEASE_RULES", "own"),
        ("TZ", ":UTC"),
        ("_HANDLER", "bootstrap"),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// The lease table that everything counted here works on, behind a proxy that counts requests.
struct Table {
    proxy: Proxy,
    /// What is made ready goes through here, and is not counted.
    _ready: Proxy,
    leases: Leases<DynamoDb>,
    // Closed last.
    _database: leasehold_local::DynamoDb,
}

impl Table {
    async fn start() -> Self {
        let database = leasehold_local::DynamoDb::start().await.unwrap();
        let proxy = Proxy::start(database.address(), 0).await.unwrap();
        let ready = Proxy::start(database.address(), 0).await.unwrap();
        let leases = leases(&ready).await;
        Self {
            proxy,
            _ready: ready,
            leases,
            _database: database,
        }
    }

    fn requests(&self) -> usize {
        usize::try_from(self.proxy.counts().total()).unwrap_or(usize::MAX)
    }

    /// Grants so many leases of keys of their own, as a workflow would hold them.
    async fn grant(&self, many: usize) -> Vec<Lease> {
        let mut held = Vec::new();
        for n in 0..many {
            let key = Key::new(format!("orders/{n:04}")).unwrap();
            let ttl = Ttl::new(Duration::from_mins(5)).unwrap();
            let id = format!("Acquire 2026-11-21T03:00:00.{n:03}Z");
            let request = Acquire::new(key, Holder::new(HOLDER).unwrap(), ttl)
                .request_id(RequestId::new(id).unwrap());
            let acquired = self.leases.acquire(request).await.unwrap();
            held.push(acquired.granted().unwrap().lease);
        }
        held
    }
}
