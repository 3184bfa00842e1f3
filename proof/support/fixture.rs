//! What tests stand on: the lease table alone, or the whole stack, on this machine.
//!
//! A [`Table`] is started in milliseconds, and every test may have its own. A [`Fixture`] with the state machine engine
//! takes seconds: a test binary keeps one in a [`Shared`], and its tests keep apart by keys of their own ([`unique`]).

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{AsyncSleep, Credentials, SharedAsyncSleep, Sleep};
use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::row::{Holding, Item, Row, State, Stored, Term};
use leasehold::store::{Address, ItemAddress, Slot, Store};
use leasehold::{
    Acquire, Connection, DynamoDb, Granted, Holder, KeepTime, Key, Lease, Leases, Queue,
    RequestDigest, RequestId, Settings, Ttl,
};
use leasehold_local::{Options, Proxy, Stack, session_token};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::secret_scanner::SecretScanner;

/// These leases with an engine that runs nothing: nobody waits for them, and no execution has one.
pub fn without_executions<S: Store>(leases: &Leases<S>) -> Queue<S> {
    leases.clone().with_engine(Arc::new(
        leasehold::test_support::FakeStepFunctions::default(),
    ))
}

/// The name of the lease table of a [`Table`].
pub const TABLE: &str = "leases";

/// The sort key of the lease row of a key without permits.
pub const ROW: &str = "LEASE#0000";

/// The holder in the sample events.
pub const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";

/// More than anything takes on a busy machine: a longer wait would never end.
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// A string as an attribute.
pub fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// A number as an attribute.
pub fn n(number: impl std::fmt::Display) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// A key, account or name that nothing else in this process has, and that begins none of them: `prefix/00017`.
pub fn unique(prefix: &str) -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}/{:05}", LAST.fetch_add(1, Ordering::Relaxed))
}

/// Looks until there is something to be seen, first after milliseconds and then more seldom.
///
/// # Panics
///
/// Panics after [`TIMEOUT`].
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        let mut pause = Duration::from_millis(5);
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(pause).await;
            pause = Duration::from_millis(60).min(pause * 3 / 2);
        }
    };
    let found = tokio::time::timeout(TIMEOUT, looking).await;
    found.unwrap_or_else(|_| panic!("{what}: not after {TIMEOUT:?}"))
}

/// The request of `holder` for a lease of a minute.
pub fn request(key: &str, holder: &str, id: &str) -> Acquire {
    let ttl = Ttl::new(Duration::from_mins(1)).unwrap();
    Acquire::new(Key::new(key).unwrap(), Holder::new(holder).unwrap(), ttl)
        .request_id(RequestId::new(id).unwrap())
}

/// The primary key of a lease row.
pub fn key(address: &Address) -> Item {
    HashMap::from([
        ("pk".to_owned(), s(address.key.as_str())),
        ("sk".to_owned(), s(&sort_key(address))),
    ])
}

/// What an SDK has to know of a local endpoint.
pub async fn config(url: &str) -> SdkConfig {
    let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(
            "local",
            "local",
            Some(session_token().to_owned()),
            None,
            "test",
        ))
        .endpoint_url(url);
    config.load().await
}

/// The items of a table, read and written past the library and the functions.
pub struct Items {
    client: Client,
    table: String,
}

impl Items {
    /// The items of the table with this name.
    pub fn of(client: Client, table: &str) -> Self {
        let table = table.to_owned();
        Self { client, table }
    }

    /// An item.
    pub async fn get(&self, pk: &str, sk: &str) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.table);
        let get = get.key("pk", s(pk)).key("sk", s(sk)).consistent_read(true);
        get.send().await.unwrap().item
    }

    /// Writes an item.
    pub async fn put(&self, pk: &str, sk: &str, item: Item) {
        let put = self.client.put_item().table_name(&self.table);
        let put = put.set_item(Some(item)).item("pk", s(pk));
        put.item("sk", s(sk)).send().await.unwrap();
    }

    /// Deletes an item.
    pub async fn delete(&self, pk: &str, sk: &str) {
        let delete = self.client.delete_item().table_name(&self.table);
        let delete = delete.key("pk", s(pk)).key("sk", s(sk));
        delete.send().await.unwrap();
    }

    /// Changes one attribute of an item.
    pub async fn change(&self, pk: &str, sk: &str, name: &str, value: AttributeValue) {
        let update = self.client.update_item().table_name(&self.table);
        let update = update.key("pk", s(pk)).key("sk", s(sk));
        let update = update.update_expression("SET #name = :value");
        let update = update.expression_attribute_names("#name", name);
        let update = update.expression_attribute_values(":value", value);
        update.send().await.unwrap();
    }

    /// The items of a partition whose sort keys are in a range, in order.
    pub async fn between(&self, pk: &str, from: &str, to: &str) -> Vec<Item> {
        let query = self.client.query().table_name(&self.table);
        let query = query.key_condition_expression("pk = :pk AND sk BETWEEN :from AND :to");
        let query = query.expression_attribute_values(":pk", s(pk));
        let query = query.expression_attribute_values(":from", s(from));
        let query = query.expression_attribute_values(":to", s(to));
        let found = query.consistent_read(true).send().await.unwrap();
        found.items.unwrap_or_default()
    }
}

/// The sort key of a lease row.
fn sort_key(address: &Address) -> String {
    format!("LEASE#{:04}", address.permit)
}

/// Makes a client's limits of time twenty times as long.
#[derive(Debug)]
struct Patience;

impl AsyncSleep for Patience {
    fn sleep(&self, limit: Duration) -> Sleep {
        Sleep::new(tokio::time::sleep(limit * 20))
    }
}

/// A lease table in the embedded DynamoDB, behind the proxy that counts requests and injects faults.
pub struct Table {
    /// The proxy.
    pub proxy: Proxy,
    /// Through the proxy, with the library's own timeouts and retries.
    pub client: Client,
    /// The database behind the proxy.
    pub server: leasehold_local::DynamoDb,
}

impl Table {
    /// An empty table.
    pub async fn start() -> Self {
        Self::without_table().await.empty().await
    }

    /// An empty table whose client waits longer than the library's limits, for a test that keeps the machine busy.
    pub async fn patient() -> Self {
        let server = leasehold_local::DynamoDb::start().await.unwrap();
        let mut table = Self::on(server).await;
        let config = config(&table.proxy.url()).await.into_builder();
        let config = config.sleep_impl(SharedAsyncSleep::new(Patience)).build();
        table.client = Connection::client(&config);
        table.empty().await
    }

    async fn empty(self) -> Self {
        let created = leasehold::table::create(&self.client, TABLE).await;
        created.unwrap();
        self.proxy.reset();
        self
    }

    /// The database without the table.
    pub async fn without_table() -> Self {
        Self::on(leasehold_local::DynamoDb::start().await.unwrap()).await
    }

    /// A database that is there, without the table.
    pub async fn on(server: leasehold_local::DynamoDb) -> Self {
        let proxy = Proxy::start(server.address(), 0).await.unwrap();
        Self {
            client: Connection::client(&config(&proxy.url()).await),
            proxy,
            server,
        }
    }

    /// The library's store on this table.
    pub fn store(&self) -> DynamoDb {
        DynamoDb::new(self.client.clone(), TABLE)
    }

    /// The library on this table.
    pub fn leases(&self) -> Leases<DynamoDb> {
        Leases::new(self.store(), Settings::default())
    }

    fn rows(&self) -> Items {
        Items::of(self.client.clone(), TABLE)
    }

    /// Writes a row past the library.
    pub async fn put(&self, address: &Address, item: Item) {
        let (pk, sk) = (address.key.as_str(), sort_key(address));
        self.rows().put(pk, &sk, item).await;
    }

    /// A row as it is stored.
    pub async fn get(&self, address: &Address) -> Option<Item> {
        let (pk, sk) = (address.key.as_str(), sort_key(address));
        self.rows().get(pk, &sk).await
    }

    /// Every item of this key: rows, and waiters in the queue.
    pub async fn items(&self, key: &Key) -> Vec<Item> {
        self.rows().between(key.as_str(), "\0", "\u{10ffff}").await
    }

    /// A lease that has to be granted.
    pub async fn grant(&self, key: &str, holder: &str, id: &str) -> Granted {
        let acquired = self.leases().acquire(request(key, holder, id)).await;
        acquired.unwrap().granted().unwrap()
    }

    /// The row of a key, which has to be ours.
    pub async fn row(&self, key: &str) -> Row {
        let address = Address {
            key: Key::new(key).unwrap(),
            permit: 0,
        };
        match Stored::read(self.get(&address).await.as_ref()) {
            Stored::Row(row) => row,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes a row past the library.
    pub async fn delete(&self, address: &Address) {
        let (pk, sk) = (address.key.as_str(), sort_key(address));
        self.rows().delete(pk, &sk).await;
    }

    /// The requests since this was last asked: those of the operations named, and no others.
    pub fn cost<const N: usize>(&self, operations: [&str; N]) -> [u64; N] {
        let counts = self.proxy.counts();
        let cost = operations.map(|operation| counts.of(operation));
        assert_eq!(cost.iter().sum::<u64>(), counts.total(), "{operations:?}");
        self.proxy.reset();
        cost
    }

    /// The requests by operation since this was last asked.
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let counts = self.proxy.counts();
        self.proxy.reset();
        let each = counts.iter();
        each.map(|(operation, tally)| (operation.to_owned(), tally.requests))
            .collect()
    }
}

impl leasehold_conformance::Bench for Table {
    type Store = DynamoDb;

    fn store(&self) -> DynamoDb {
        self.store()
    }

    async fn put(&self, address: &ItemAddress, slot: &Slot) {
        let (pk, sk) = address.keys();
        match slot.item() {
            Some(item) => self.rows().put(&pk, &sk, item.clone()).await,
            None => self.rows().delete(&pk, &sk).await,
        }
    }
}

/// A function's answer, or its error's name and message.
pub type Answer = Result<Value, (String, Value)>;

/// The name of the error that an answer has to be.
pub fn error_name(answer: &Answer) -> &str {
    answer.as_ref().unwrap_err().0.as_str()
}

/// The name and the message of an error as Lambda returns it.
pub fn error(mut error: Value) -> (String, Value) {
    let message = error["errorMessage"].take();
    // One JSON object, as text.
    let message = message.as_str().unwrap();
    let message = serde_json::from_str(message).expect(message);
    (error["errorType"].as_str().unwrap().to_owned(), message)
}

/// The directory of the sample events.
pub fn events() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../events"))
}

/// A sample event.
pub fn event(name: &str) -> Value {
    let text = std::fs::read_to_string(events().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Options of a stack whose logs are searched for secrets at its end.
pub fn scanned() -> Options {
    Options {
        observer: Some(Arc::new(SecretScanner::default())),
        ..Options::default()
    }
}

/// Options of a stack in which nothing happens by itself.
pub fn quiet() -> Options {
    Options {
        follow: false,
        ..scanned()
    }
}

/// Changes to the environment of every function.
pub fn environment<const N: usize>(
    variables: [(&str, &str); N],
) -> BTreeMap<String, BTreeMap<String, Option<String>>> {
    let changes = variables.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    BTreeMap::from([("*".to_owned(), changes.into())])
}

/// The stack: the functions as processes, the tables, and what is wired between them.
pub struct Fixture {
    /// The stack itself.
    pub stack: Stack,
}

impl Fixture {
    /// The template's stack, without the state machine engine.
    pub async fn start() -> Self {
        Self::with(scanned()).await
    }

    /// A stack by these options.
    pub async fn with(options: Options) -> Self {
        let stack = Stack::start(options).await;
        let stack = stack.unwrap_or_else(|error| panic!("{error}"));
        Self { stack }
    }

    /// Invokes a function, by its verb or logical id.
    pub async fn call(&self, function: &str, payload: impl ToString) -> Answer {
        let functions = self.stack.functions();
        let invocation = functions.invoke(function, &payload.to_string()).await;
        invocation.unwrap().outcome.json().map_err(error)
    }

    /// Invokes the function that a sample event is for: `acquire-queue` is acquire's.
    pub async fn event(&self, name: &str) -> Answer {
        let function = name.split('-').next().unwrap();
        self.call(function, event(name)).await
    }

    /// The handle of a lease of five minutes, which has to be granted.
    pub async fn acquire(&self, key: &str, holder: &str, id: &str) -> Value {
        let request = json!({"key": key, "holder": holder, "request_id": id, "ttl_seconds": 300});
        self.call("acquire", request).await.unwrap()["lease"].clone()
    }

    /// The name of the lease table.
    pub fn table(&self) -> &str {
        self.stack.tables()[0]
    }

    fn items(&self, table: &str) -> Items {
        Items::of(self.stack.dynamodb(), table)
    }

    /// The lease row of a key.
    pub async fn item(&self, key: &str) -> Option<Item> {
        self.item_of(self.table(), key, ROW).await
    }

    /// An item of any table.
    pub async fn item_of(&self, table: &str, pk: &str, sk: &str) -> Option<Item> {
        self.items(table).get(pk, sk).await
    }

    /// Writes the lease row of a key past the functions.
    pub async fn put(&self, key: &str, item: Item) {
        self.items(self.table()).put(key, ROW, item).await;
    }

    /// Deletes the lease row of a key past the functions.
    pub async fn delete(&self, key: &str) {
        self.items(self.table()).delete(key, ROW).await;
    }

    /// Changes an attribute of a key's lease row past the functions.
    pub async fn change(&self, key: &str, name: &str, value: AttributeValue) {
        self.items(self.table()).change(key, ROW, name, value).await;
    }

    /// Writes rows that agree with the handles in a sample event: its `lease`, or its `leases`.
    pub async fn write_handles(&self, name: &str) {
        let event = event(name);
        let several = event["leases"].as_array().cloned().unwrap_or_default();
        let one = event.get("lease").cloned();
        for handle in several.into_iter().chain(one) {
            let key = handle["key"].as_str().unwrap();
            self.put(key, item_of(&handle)).await;
        }
    }

    /// What a function has logged so far.
    pub fn log(&self, function: &str) -> String {
        self.stack.functions().log(function).unwrap()
    }
}

/// The row for a handle, as if it had just been granted.
fn item_of(handle: &Value) -> Item {
    let lease: Lease = serde_json::from_value(handle.clone()).unwrap();
    let request_id = RequestId::new("sample").unwrap();
    let row = Row {
        fencing_token: lease.fencing_token,
        version: lease.version,
        granted_to: lease.holder.clone(),
        request: RequestDigest::of(&lease.holder, &request_id),
        past_requests: [None, None, None],
        past_releases: [None; 3],
        previous: None,
        frozen: None,
        limit: None,
        opens_at: None,
        kept_until: None,
        operator: None,
        purge_at: None,
        request_keys: None,
        permits: None,
        queue: Vec::new(),
        entries: None,
        state: State::Held(Holding {
            lease_id: lease.lease_id,
            term: lease.deadline.map_or(
                Term::Execution {
                    keep: KeepTime::default(),
                    looked_at: None,
                    look_again_at: None,
                },
                |deadline| Term::Ttl {
                    ttl: deadline.ttl,
                    expires_at: deadline.expires_at,
                },
            ),
            acquired_at: lease.acquired_at,
            extended_at: None,
            sweep_after: None,
            metadata: lease.metadata,
            notification: None,
            pool: None,
        }),
    };
    row.to_item()
}

/// One value for all tests of a binary, and the runtime that it lives on: a test's own runtime ends with the test, and
/// with it the tasks of whatever was started there.
///
/// ```text
/// static FIXTURE: Shared<Fixture> = Shared::new();
///
/// #[test]
/// fn a_test() {
///     FIXTURE.run(Fixture::start, async |fixture| { … });
/// }
/// ```
pub struct Shared<T> {
    runtime: LazyLock<Runtime>,
    value: OnceCell<T>,
}

impl<T> Shared<T> {
    /// Nothing is started yet.
    pub const fn new() -> Self {
        Self {
            runtime: LazyLock::new(|| Runtime::new().unwrap()),
            value: OnceCell::const_new(),
        }
    }

    /// Runs a test on the value, which the first test starts.
    pub fn run<S: Future<Output = T>, F: Future<Output = ()>>(
        &'static self,
        start: impl FnOnce() -> S,
        test: impl FnOnce(&'static T) -> F,
    ) {
        self.runtime
            .block_on(async { test(self.value.get_or_init(start).await).await });
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}
