//! The console as a program, on a table and a Step Functions of this machine.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use leasehold::{
    Acquire, AtLeast, AuditReason, Clock as _, ExecutionName, ForceReleaseOptions, Key, KeyDetails,
    KeyView, Leases, LimitedTo, ManualClock, Operator, Permits, Pool, Queue, Reason, Record, Start,
    StartRules, StateMachineArn, SystemClock,
    store::{Address, DynamoDb},
};
use leasehold_lambda::StepFunctions;
use leasehold_local::{Fault, session_token};
use leasehold_proof::fake_step_functions::FakeStepFunctionsServer;
use leasehold_proof::fixture::{TABLE, Table, config, s};
use leasehold_proof::program;
use tokio::sync::{Mutex, MutexGuard};

pub const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:orders";
/// The executions of the starts, without their numbers.
pub const EXECUTION: &str = "arn:aws:states:us-east-1:123456789012:execution:orders:";

/// The pages of the pictures, by the names of their files.
pub const PAGES: [(&str, &str); 6] = [
    ("keys", ""),
    ("key", "key?name=orders%2F42"),
    ("permits", "key?name=partner-api"),
    ("cooling", "key?name=reports%2Fdaily"),
    ("starts", "starts"),
    ("freeze", "change?act=freeze&key=orders%2F42"),
];

/// One scene at a time: a busy machine is slower than the library waits.
static SCENE: Mutex<()> = Mutex::const_new(());

pub struct Console {
    _scene: MutexGuard<'static, ()>,
    table: Table,
    step_functions: FakeStepFunctionsServer,
    program: Child,
    /// What it printed: the address to open.
    pub address: String,
}

impl Console {
    pub async fn start(arguments: &[&str]) -> Self {
        let scene = SCENE.lock().await;
        let table = Table::patient().await;
        let step_functions = FakeStepFunctionsServer::open().await.unwrap();
        let mut program = Command::new(program("leasehold"))
            .args(["console", "--table", TABLE])
            .args(arguments)
            .env_clear()
            .envs([("USER", "alice"), ("AWS_REGION", "us-east-1")])
            .envs([
                ("AWS_ACCESS_KEY_ID", "local"),
                ("AWS_SECRET_ACCESS_KEY", "local"),
            ])
            .env("AWS_SESSION_TOKEN", session_token())
            .env("AWS_ENDPOINT_URL_DYNAMODB", table.proxy.url())
            .env(
                "AWS_ENDPOINT_URL_SFN",
                format!("http://{}", step_functions.address()),
            )
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = program.stdout.take().unwrap();
        let address = tokio::task::spawn_blocking(|| BufReader::new(out).lines().next());
        let address = address.await.unwrap().unwrap().unwrap();
        Self {
            _scene: scene,
            table,
            step_functions,
            program,
            address,
        }
    }

    /// The address of a page.
    pub fn page(&self, page: &str) -> String {
        let (root, _) = self.address.split_once("open/").unwrap();
        format!("{root}{page}")
    }

    async fn starts(&self) -> Queue<DynamoDb> {
        self.starts_at(self.table.leases()).await
    }

    async fn starts_at(&self, leases: Leases<DynamoDb>) -> Queue<DynamoDb> {
        let config = config(&format!("http://{}", self.step_functions.address())).await;
        let engine = Arc::new(StepFunctions::new(&config));
        let queue = leases.with_engine(engine);
        queue.with_starts(StartRules::of(MACHINE).unwrap())
    }

    fn start_of(key: &str, name: &str) -> Start {
        let machine = StateMachineArn::new(MACHINE).unwrap();
        Start::new(
            Key::new(key).unwrap(),
            machine,
            ExecutionName::new(name).unwrap(),
        )
    }

    /// So many starts of a key: the first, named 0, has it, and the others wait.
    pub async fn queue(&self, key: &str, starts: usize) {
        let queue = self.starts().await;
        for number in 0..starts {
            let start = Self::start_of(key, &number.to_string());
            let _ = queue.start(start).await.unwrap();
        }
    }

    /// A start of each of these keys, which share a pool of one: the first has both, and the others wait in the pool.
    pub async fn pool(&self, pool: &str, keys: &[&str]) {
        let queue = self.starts().await;
        let pool = Pool::new(&Key::new(pool).unwrap(), Permits::new(1).unwrap());
        for key in keys {
            let mut start = Self::start_of(key, &key.replace('/', "-"));
            start.pool = Some(pool.clone());
            let _ = queue.start(start).await.unwrap();
        }
    }

    /// A start that fails, because its machine is gone for a moment.
    pub async fn fail_start(&self, key: &str, name: &str) {
        self.step_functions.set_missing(MACHINE, true);
        let start = Self::start_of(key, name);
        assert!(self.starts().await.start(start).await.is_err());
        self.step_functions.set_missing(MACHINE, false);
    }

    pub fn is_running(&self, number: usize) -> bool {
        self.step_functions
            .is_running(&format!("{EXECUTION}{number}"))
    }

    /// A lease of ten minutes.
    pub async fn hold(&self, key: &str, holder: &str) {
        let request = Acquire::of(key, holder, Duration::from_mins(10)).unwrap();
        let acquired = self.table.leases().acquire(request).await.unwrap();
        let _ = acquired.granted().unwrap();
    }

    /// So many keys: copies of one, past the library.
    pub async fn hold_many(&self, keys: usize) {
        self.hold("tenant/0", "worker 7").await;
        let address = Address {
            key: Key::new("tenant/0").unwrap(),
            permit: 0,
        };
        let row = self.table.get(&address).await.unwrap();
        let puts = (1..keys).map(|number| {
            let mut row = row.clone();
            row.insert("pk".to_owned(), s(&format!("tenant/{number}")));
            let put = PutRequest::builder().set_item(Some(row)).build();
            WriteRequest::builder().put_request(put.unwrap()).build()
        });
        let puts: Vec<_> = puts.collect();
        for some in puts.chunks(25) {
            let write = self.table.client.batch_write_item();
            write
                .request_items(TABLE, some.to_vec())
                .send()
                .await
                .unwrap();
        }
    }

    /// Ends the lease of a key past the console.
    pub async fn free(&self, key: &str) {
        let because = AuditReason {
            who: Operator::new("bob").unwrap(),
            why: Reason::new("elsewhere").unwrap(),
        };
        let (key, which) = (Key::new(key).unwrap(), ForceReleaseOptions::default());
        self.table
            .leases()
            .force_release(&key, which, &because)
            .await
            .unwrap();
    }

    pub async fn view(&self, key: &str) -> KeyView {
        let key = Key::new(key).unwrap();
        let leases = self.table.leases();
        leases.key_view(&key, KeyDetails::default()).await.unwrap()
    }

    /// Refuses the next request of this operation.
    pub fn refuse(&self, operation: &str) {
        self.table.proxy.inject(Fault::Denied, operation, 1);
    }

    /// What an operator last did to a key.
    pub async fn last_act(&self, key: &str) -> Record {
        self.view(key).await.last_act().cloned().unwrap()
    }

    /// The requests to the table since this was last asked.
    pub fn requests(&self) -> u64 {
        self.table.requests().values().sum()
    }

    /// Their operations.
    pub fn operations(&self) -> Vec<String> {
        self.table.requests().into_keys().collect()
    }
}

impl Console {
    /// Something to see.
    pub async fn play(&self) {
        let clock = Arc::new(ManualClock::at(
            SystemClock.now().minus(Duration::from_mins(14)),
        ));
        let queue = self
            .starts_at(self.table.leases().with_clock(clock.clone()))
            .await;
        for (name, minutes) in [("2041", 3), ("2042", 4), ("2045", 5), ("2046", 1)] {
            let start = Self::start_of("orders/42", name);
            let _ = queue.start(start).await.unwrap();
            clock.advance(Duration::from_mins(minutes));
        }
        self.hold("deploy/production", "ci/4711").await;
        let request = Acquire::of("tenant/9", "import 3", Duration::from_millis(1500)).unwrap();
        let _ = self.table.leases().acquire(request).await.unwrap();
        let request = Acquire::of("reports/daily", "worker 7", Duration::from_mins(10)).unwrap();
        let request = request.at_least(AtLeast::new(Duration::from_mins(10)).unwrap());
        let acquired = self.table.leases().acquire(request).await.unwrap();
        let lease = acquired.granted().unwrap().lease;
        let _ = self.table.leases().release(&lease).await.unwrap();
        for holder in ["a", "b"] {
            let request = Acquire::of("partner-api", holder, Duration::from_mins(10)).unwrap();
            let request = request.permits(leasehold::Permits::new(3).unwrap());
            let _ = self
                .table
                .leases()
                .acquire(request)
                .await
                .unwrap()
                .granted()
                .unwrap();
        }
        self.fail_start("orders/43", "7f3c").await;
        let because = AuditReason {
            who: Operator::new("alice").unwrap(),
            why: Reason::new("incident 77").unwrap(),
        };
        let (partner, key) = (
            Key::new("partner-api").unwrap(),
            Key::new("deploy/production").unwrap(),
        );
        let limit = LimitedTo::new(3).unwrap();
        self.table
            .leases()
            .limit_to(&partner, Some(limit), &because)
            .await
            .unwrap();
        self.table.leases().freeze(&key, &because).await.unwrap();
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
