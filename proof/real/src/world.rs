//! What everybody works on: a lease table behind the proxy that injects faults, fleets of function processes with
//! different clocks, a double that receives task tokens, and a resource that the leases protect.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use leasehold_local::{Code, DynamoDb, Function, LambdaHost, Proxy};
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;
use leasehold_proof::fixture::{Items, TABLE, config};
use leasehold_proof::program;

use crate::resource::Resource;

/// The state machine that is started through keys.
pub const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:started";
/// The clock margin in the functions' settings, in milliseconds.
pub const MARGIN: i64 = 600;
/// How long before its deadline a holder stops.
const GUARD: i64 = 50;
/// How long a lease outlasts the end of its execution, of which something may still be at work.
pub const GRACE: i64 = 1_000;
/// How long after a grant sweep looks at its execution, if nobody waits for the key.
const LOOK_SECONDS: u64 = 1;
/// By how much any two clocks differ here, in milliseconds: less than the margin, by which they may.
pub const SKEW: i64 = 280;

/// All fleets of processes, by how many milliseconds their clocks are ahead: two of what is shipped, by the machine's clock,
/// and three that are wrong.
pub const FLEETS: [Option<i64>; 5] = [None, None, Some(SKEW / 2), Some(-SKEW / 2), Some(SKEW / 4)];

/// The functions of every fleet.
pub const VERBS: &[&str] = &["acquire", "extend", "reap", "release", "start", "sweep"];

/// Longer than any process is stopped here, so that it goes on in the middle of its call.
const FUNCTION_LIMIT: Duration = Duration::from_secs(6);
/// More than there are clients.
const CONCURRENCY: usize = 100;

/// All of it. Dropping it ends every process.
pub struct World {
    /// In front of the lease table.
    pub proxy: Proxy,
    /// In front of the double of Step Functions.
    pub calls_back: Proxy,
    /// The executions, and their tasks that wait.
    pub step_functions: FakeStepFunctionsServer,
    /// What the leases protect.
    pub resource: Resource,
    /// Of the lease table, past the proxy.
    pub items: Items,
    /// The processes.
    pub host: LambdaHost,
    // Closed last.
    _database: DynamoDb,
    logs: tempfile::TempDir,
}

impl World {
    /// Starts it, with no process yet. The functions' settings have `margin`, in milliseconds: anything but
    /// [`MARGIN`] is sabotage, to see whether the checks detect it.
    pub async fn start(margin: i64) -> Self {
        let database = DynamoDb::start().await.unwrap();
        let config = config(&format!("http://{}", database.address())).await;
        let client = Client::new(&config);
        let created = leasehold::table::create(&client, TABLE).await;
        created.unwrap();
        let resource = Resource::create(client.clone()).await;
        let proxy = Proxy::start(database.address(), 0).await.unwrap();
        let step_functions = FakeStepFunctionsServer::open().await.unwrap();
        step_functions.knows_what_began(MACHINE);
        let calls_back = Proxy::start(step_functions.address(), 0).await.unwrap();
        let logs = tempfile::tempdir().unwrap();
        let host = LambdaHost::start(logs.path(), 0).await.unwrap();
        let world = Self {
            proxy,
            calls_back,
            step_functions,
            resource,
            items: Items::of(client, TABLE),
            host,
            _database: database,
            logs,
        };
        for fleet in 0..FLEETS.len() {
            for verb in VERBS {
                world.register(verb, fleet, margin);
            }
        }
        for verb in ["operate", "inspect"] {
            world.register(verb, 0, margin);
        }
        world
    }

    /// What the functions have written since this was last asked, by file.
    pub fn take_logs(&self) -> Vec<(String, String)> {
        let mut taken = Vec::new();
        for entry in std::fs::read_dir(self.logs.path()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&text).into_owned();
            taken.push((name.into_owned(), text));
            // Writers append, and so begin again at the start of the file.
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            file.unwrap().set_len(0).unwrap();
        }
        taken
    }

    fn register(&self, verb: &str, fleet: usize, margin: i64) {
        let mut environment: BTreeMap<String, String> = [
            ("LEASE_TABLE", TABLE.to_owned()),
            ("LEASE_RULES", "own".to_owned()),
            ("LEASE_CLOCK_MARGIN_MS", margin.to_string()),
            ("LEASE_GUARD_MS", GUARD.to_string()),
            ("LEASE_REAP_GRACE_SECONDS", (GRACE / 1000).to_string()),
            ("LEASE_LOOK_SECONDS", LOOK_SECONDS.to_string()),
            ("AWS_ENDPOINT_URL_DYNAMODB", self.proxy.url()),
            ("AWS_ENDPOINT_URL_SFN", self.calls_back.url()),
            ("LEASE_STARTS", MACHINE.to_owned()),
            ("LEASE_LOG_LEVEL", "TRACE".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut binary = verb.to_owned();
        if let Some(ahead) = FLEETS[fleet] {
            binary = format!("skewed-{verb}");
            environment.insert(leasehold_lambda::OFFSET.to_owned(), ahead.to_string());
        }
        let name = function(verb, fleet);
        self.host.register(Function {
            logical_id: name.clone(),
            verb: name,
            code: Code::Binary(program(&binary)),
            environment,
            timeout: FUNCTION_LIMIT,
            here: None,
            memory_mb: 128,
            concurrency: CONCURRENCY,
        });
    }
}

/// How a function of a fleet is called.
pub fn function(verb: &str, fleet: usize) -> String {
    format!("{verb}-{fleet}")
}
