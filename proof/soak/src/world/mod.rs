//! What the clients work on: a lease table behind the proxy that breaks things, fleets of function processes with
//! clocks of their own, somebody to tell task tokens to, and something that the leases protect.

mod desk;
mod resource;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials;
use leasehold_local::{DynamoDb, Function, LambdaHost, Proxy};

pub use desk::{Desk, Word};
pub use resource::{Resource, Witnessed};

use crate::Error;
use crate::history::Millis;

/// The lease table.
pub const TABLE: &str = "leases";
/// How long before its deadline a holder stops.
pub const GUARD: Millis = 50;
/// How long a waiter whose turn has come may take to confirm.
pub const CLAIM_SECONDS: u64 = 2;
/// By how much any two clocks may differ: less than half the margin.
pub const SKEW: Millis = 280;

/// Processes of one kind, with a clock of their own.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// By how much its clock is ahead, in milliseconds. `None`: the shipped binaries, by the machine's clock.
    pub ahead: Option<Millis>,
}

/// All fleets: two of what is shipped, three that are wrong.
pub const FLEETS: &[Fleet] = &[
    Fleet { ahead: None },
    Fleet { ahead: None },
    Fleet {
        ahead: Some(SKEW / 2),
    },
    Fleet {
        ahead: Some(-SKEW / 2),
    },
    Fleet { ahead: Some(-60) },
];

/// The functions of every fleet.
pub const VERBS: &[&str] = &["acquire", "extend", "release", "sweep"];

/// Longer than any process is stopped here, so that it goes on in the middle of its call.
const FUNCTION_LIMIT: Duration = Duration::from_secs(6);
/// More than there are clients.
const CONCURRENCY: usize = 100;

/// All of it. Dropping it ends every process.
pub struct World {
    /// In front of the lease table.
    pub proxy: Proxy,
    /// In front of the desk.
    pub calls_back: Proxy,
    /// Who waits with which task token.
    pub desk: Desk,
    /// What the leases protect.
    pub resource: Resource,
    /// Past the proxy, for operators with other tools.
    pub direct: Client,
    /// The processes.
    pub host: LambdaHost,
    // Closed last.
    _database: DynamoDb,
    logs: tempfile::TempDir,
}

impl World {
    /// Starts it, with no process yet. The functions are told `margin`, in milliseconds: anything but
    /// [`MARGIN`](crate::row::MARGIN) is sabotage, to see whether it is found out.
    ///
    /// # Errors
    /// [`Error::Missing`] for binaries that were not built, and what else keeps it from starting.
    pub async fn start(margin: Millis) -> Result<Self, Error> {
        let binaries = binaries()?;
        let database = DynamoDb::start().await?;
        let direct = client(&format!("http://{}", database.address())).await;
        let created = leasehold::table::create(&direct, TABLE).await;
        created.map_err(|error| Error::Start(error.to_string()))?;
        let resource = Resource::create(direct.clone()).await?;
        let proxy = Proxy::start(database.address(), 0).await?;
        let (desk, address) = Desk::open().await?;
        let calls_back = Proxy::start(address, 0).await?;
        let logs = tempfile::tempdir().map_err(|error| Error::Start(error.to_string()))?;
        let host = LambdaHost::start(logs.path(), 0).await?;
        let world = Self {
            proxy,
            calls_back,
            desk,
            resource,
            direct,
            host,
            _database: database,
            logs,
        };
        for fleet in 0..FLEETS.len() {
            for verb in VERBS {
                world.register(&binaries, verb, fleet, margin)?;
            }
        }
        for verb in ["operate", "inspect", "reap"] {
            world.register(&binaries, verb, 0, margin)?;
        }
        Ok(world)
    }

    /// What the functions have written since this was last asked, by file.
    ///
    /// # Errors
    /// A file that cannot be read or emptied.
    pub fn take_logs(&self) -> std::io::Result<Vec<(String, Vec<u8>)>> {
        let mut taken = Vec::new();
        for entry in std::fs::read_dir(self.logs.path())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            taken.push((name.into_owned(), std::fs::read(&path)?));
            // Whoever writes on appends, and so begins anew.
            std::fs::OpenOptions::new()
                .write(true)
                .open(&path)?
                .set_len(0)?;
        }
        Ok(taken)
    }

    fn register(
        &self,
        binaries: &Path,
        verb: &str,
        fleet: usize,
        margin: Millis,
    ) -> Result<(), Error> {
        let mut environment: BTreeMap<String, String> = [
            ("LEASE_TABLE", TABLE.to_owned()),
            ("LEASE_CLOCK_MARGIN_MS", margin.to_string()),
            ("LEASE_GUARD_MS", GUARD.to_string()),
            ("LEASE_CLAIM_SECONDS", CLAIM_SECONDS.to_string()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.proxy.url()),
            ("AWS_ENDPOINT_URL_SFN", self.calls_back.url()),
            ("AWS_LAMBDA_LOG_LEVEL", "TRACE".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut binary = binaries.join(verb);
        if let Some(ahead) = FLEETS[fleet].ahead {
            binary = binaries.join(format!("skewed-{verb}"));
            environment.insert(leasehold::OFFSET.to_owned(), ahead.to_string());
        }
        if !binary.is_file() {
            return Err(Error::Missing(binary));
        }
        let name = function(verb, fleet);
        self.host.register(Function {
            logical_id: name.clone(),
            verb: name,
            binary,
            environment,
            timeout: FUNCTION_LIMIT,
            memory_mb: 128,
            concurrency: CONCURRENCY,
        });
        Ok(())
    }
}

/// How a function of a fleet is called.
#[must_use]
pub fn function(verb: &str, fleet: usize) -> String {
    format!("{verb}-{fleet}")
}

/// By how much the clock of a fleet is ahead.
#[must_use]
pub fn ahead(fleet: usize) -> Millis {
    FLEETS[fleet].ahead.unwrap_or(0)
}

/// Where the function binaries are: beside the running program, or `LEASEHOLD_BIN_DIR`.
fn binaries() -> Result<PathBuf, Error> {
    if let Some(chosen) = std::env::var_os("LEASEHOLD_BIN_DIR") {
        return Ok(chosen.into());
    }
    let own = std::env::current_exe().map_err(|error| Error::Start(error.to_string()))?;
    let directory = own.parent().unwrap_or(Path::new("."));
    // Tests are built one level below the binaries.
    let above = directory
        .parent()
        .filter(|_| directory.ends_with("deps"))
        .unwrap_or(directory);
    Ok(above.to_owned())
}

async fn client(url: &str) -> Client {
    let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "soak"))
        .endpoint_url(url)
        .load()
        .await;
    Client::new(&config)
}
