//! The cost of waiting in the queue, counted at the socket, and the cost of a lost answer there. What something else puts in
//! the place of a waiter, and what DynamoDB's own TTL takes of them.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold::test_support::{FakeStepFunctions, TaskAnswer};
use leasehold::{
    Acquire, Clock as _, DynamoDb, Error, Execution, ExtendOptions, Holder, KeepTime, Key, Lease,
    Lifetime, ManualClock, Permits, Queue, Queued, ReleaseOutcome, RequestId, SweepBounds,
    SystemClock, TaskToken, Wait, WaitTime, row::Item,
};
use leasehold_local::Fault;

use leasehold_proof::fixture::{TABLE, Table, request, s};

const WAIT: Duration = Duration::from_hours(1);

struct Waiting {
    table: Table,
    calls: Arc<FakeStepFunctions>,
    leases: Queue<DynamoDb>,
}

/// Requests by operation.
type Requests = BTreeMap<String, u64>;

impl Waiting {
    async fn start() -> Self {
        Self::on(Table::start().await)
    }

    fn on(table: Table) -> Self {
        let calls = Arc::new(FakeStepFunctions::default());
        let leases = table.leases().with_engine(calls.clone());
        Self {
            table,
            calls,
            leases,
        }
    }

    async fn ask_to_join(&self, key: &str, who: &str) -> Result<Queued, Error> {
        self.ask(key, who, false).await
    }

    async fn ask(&self, key: &str, who: &str, latest: bool) -> Result<Queued, Error> {
        self.ask_for(key, None, who, latest).await
    }

    async fn ask_for(
        &self,
        key: &str,
        permits: Option<u16>,
        who: &str,
        latest: bool,
    ) -> Result<Queued, Error> {
        let queue = Wait {
            task_token: TaskToken::new(format!("{key}: {who}")).unwrap(),
            wait: WaitTime::new(WAIT).unwrap(),
            latest,
        };
        let keep = KeepTime::default();
        let waits = Acquire::new(
            Key::new(key).unwrap(),
            execution(who),
            Lifetime::Execution { keep },
        );
        let mut waits = waits.request_id(RequestId::new("1").unwrap());
        waits.permits = permits.map(|n| Permits::new(n).unwrap());
        self.leases.acquire_queued(waits, queue).await
    }

    async fn join(&self, key: &str, who: &str) -> Queued {
        self.ask_to_join(key, who).await.unwrap()
    }

    /// The waiter that was notified just now, and the lease that it got.
    fn woken(&self) -> (String, Lease) {
        let answers = self.calls.take_answers();
        let [TaskAnswer { token, .. }] = &answers[..] else {
            panic!("not one was notified, but {}", answers.len());
        };
        let lease = serde_json::from_value(answers[0].output()["lease"].clone());
        let (_, who) = token.split_once(": ").unwrap();
        (who.to_owned(), lease.unwrap())
    }

    async fn released(&self, lease: &Lease) -> ReleaseOutcome {
        self.leases.release(lease).await.unwrap().outcome
    }

    /// The requests since this was last asked.
    fn requests(&self) -> Requests {
        self.table.requests()
    }
}

fn execution(name: &str) -> Holder {
    Holder::new(format!(
        "arn:aws:states:us-east-1:123456789012:execution:leasehold-queued-section:{name}"
    ))
    .unwrap()
}

/// A release after which the next waiter is granted the key and told.
fn hand_over() -> Requests {
    of([("DeleteItem", 1), ("GetItem", 1), ("UpdateItem", 2)])
}

fn of<const N: usize>(requests: [(&str, u64); N]) -> Requests {
    requests
        .map(|(operation, n)| (operation.to_owned(), n))
        .into()
}

#[tokio::test]
async fn hand_over_costs_four_requests() {
    let case = Waiting::start().await;
    for waiters in [2, 8, 32, 128] {
        let key = format!("{waiters} wait");
        let holder = case.table.grant(&key, "holder", "1").await.lease;
        for n in 1..waiters {
            case.join(&key, &format!("{n}")).await;
        }
        case.requests();
        case.join(&key, "last").await;
        let joining = of([("GetItem", 1), ("TransactWriteItems", 1)]);
        assert_eq!(case.requests(), joining, "{waiters}");
        assert_eq!(case.released(&holder).await, ReleaseOutcome::Released);
        assert_eq!(case.requests(), hand_over(), "{waiters}");
        let (who, lease) = case.woken();
        assert_eq!(who, "1", "first come, first served");
        // From one waiter to the next it is the same.
        assert_eq!(case.released(&lease).await, ReleaseOutcome::Released);
        assert_eq!(case.requests(), hand_over(), "{waiters}");
        case.woken();
        assert_eq!(waiters_left(&case.table, &key).await, waiters - 2);
    }
}

/// One read more than a mutex, when it is joined and when it is handed over: of the rows of all permits.
#[tokio::test]
async fn permit_hand_over_costs_five_requests() {
    let case = Waiting::start().await;
    for waiters in [2, 8, 32, 128] {
        let key = format!("{waiters} wait for permits");
        let join = async |who: String| case.ask_for(&key, Some(3), &who, false).await.unwrap();
        let mut held = Vec::new();
        for n in 0..3 {
            case.requests();
            assert_eq!(join(format!("h{n}")).await, Queued::Acquired);
            // The read: whether it was sent away for a later one.
            let free = of([("GetItem", 1), ("Query", 1), ("UpdateItem", 1)]);
            assert_eq!(case.requests(), free);
            held.push(case.woken().1);
        }
        held.sort_by_key(|lease| lease.permit);
        for n in 1..waiters {
            case.requests();
            join(format!("{n}")).await;
            // Who joins an empty queue looks again.
            let reads = if n == 1 { 2 } else { 1 };
            let joining = of([("Query", reads), ("TransactWriteItems", 1)]);
            let mut requests = case.requests();
            // And finds itself there.
            assert_eq!(requests.remove("GetItem"), (n == 1).then_some(1));
            assert_eq!(requests, joining, "{waiters}");
        }
        // One of those that were counted holds no permit and does not wait.
        for (waiting, lease) in (0..waiters).rev().zip(held) {
            case.requests();
            assert_eq!(case.released(&lease).await, ReleaseOutcome::Released);
            let told = case.calls.take_answers().len();
            assert_eq!(told, usize::from(waiting > 0), "{waiters}");
            let costs = if waiting == 0 {
                of([("Query", 1), ("UpdateItem", 1)])
            } else if lease.permit == 0 {
                of([
                    ("DeleteItem", 1),
                    ("GetItem", 1),
                    ("Query", 1),
                    ("UpdateItem", 2),
                ])
            } else {
                of([
                    ("DeleteItem", 1),
                    ("GetItem", 1),
                    ("Query", 1),
                    ("TransactWriteItems", 1),
                    ("UpdateItem", 1),
                ])
            };
            assert_eq!(case.requests(), costs, "{waiters}");
        }
    }
}

/// Where nobody waits, the end of a permit with a deadline costs a read of the row that would say so.
#[tokio::test]
async fn release_of_permit_reads_first_row() {
    let case = Waiting::start().await;
    let mut held = Vec::new();
    for n in 0..2 {
        let request = request("permits", &format!("h{n}"), "1").permits(Permits::new(2).unwrap());
        let granted = case.leases.acquire(request).await;
        held.push(granted.unwrap().granted().unwrap().lease);
    }
    for lease in held {
        case.requests();
        case.released(&lease).await;
        let reads = (lease.permit > 0).then_some(1);
        let requests = case.requests();
        assert_eq!(requests.get("GetItem").copied(), reads);
        assert_eq!(requests.get("Query"), None);
    }
}

#[tokio::test]
async fn newest_pays_for_each_sent_away() {
    let case = Waiting::start().await;
    for sent_away in [0, 1, 8] {
        let key = format!("newest of {sent_away}");
        case.table.grant(&key, "holder", "1").await;
        for n in 0..sent_away {
            case.join(&key, &format!("{n}")).await;
        }
        case.requests();
        case.ask(&key, "last", true).await.unwrap();
        let mut joining = of([
            ("TransactWriteItems", 1 + sent_away),
            ("GetItem", 2 + sent_away),
            ("UpdateItem", sent_away),
        ]);
        joining.retain(|_, times| *times > 0);
        assert_eq!(case.requests(), joining, "{sent_away}");
        let told = case.calls.take_answers().len();
        assert_eq!(told, usize::try_from(sent_away).unwrap());
        let waiting = case.leases.waiters(&Key::new(&key).unwrap()).await.unwrap();
        assert_eq!(waiting.len(), 1, "the last");
    }
}

async fn waiters_left(table: &Table, key: &str) -> usize {
    waiters(table, key).await.len()
}

#[tokio::test]
async fn sweep_ends_wait_with_three_requests() {
    let case = Waiting::start().await;
    case.leases.sweep(SweepBounds::Schedule).await.unwrap();
    let nothing: u64 = case.requests().values().sum();
    // By this clock the waiters' hour has passed, and the lease has not expired: nobody's turn comes.
    let later = case.leases.now().plus(Duration::from_hours(2));
    let late = case.leases.clone();
    let late = late.with_clock(Arc::new(ManualClock::at(later)));
    for waiting in [1, 8, 32] {
        let key = format!("{waiting} give up");
        let held = late.acquire(request(&key, "holder", "1")).await;
        held.unwrap().granted().unwrap();
        for n in 0..waiting {
            case.join(&key, &format!("{n}")).await;
        }
        case.requests();
        late.sweep(SweepBounds::Schedule).await.unwrap();
        let requests = case.requests();
        let answers = case.calls.take_answers();
        let away = |answers: &TaskAnswer| {
            answers
                .result
                .as_ref()
                .is_err_and(|e| e.0 == "Lease.QueueTimeout")
        };
        assert_eq!(answers.len(), usize::try_from(waiting).unwrap());
        assert!(answers.iter().all(away), "{answers:?}");
        assert!(case.table.row(&key).await.waiting().is_empty());
        // The rows are read, and the first item, which says whether it waits for a permit, and how long it has waited; then each item is
        // read, its place is left, and it is deleted.
        let total: u64 = requests.values().sum();
        assert_eq!(total, nothing + 2 + 3 * waiting, "{requests:?}");
    }
}

#[tokio::test]
async fn free_key_costs_one_write() {
    let case = Waiting::start().await;
    for who in ["a", "b"] {
        assert_eq!(case.join("k", who).await, Queued::Acquired);
        // The row, and whether it was sent away for a later one.
        let costs = of([("GetItem", 2), ("UpdateItem", 1)]);
        assert_eq!(case.requests(), costs);
        let (woken, lease) = case.woken();
        assert_eq!(woken, who);
        assert_eq!(case.released(&lease).await, ReleaseOutcome::Released);
        assert_eq!(case.requests(), of([("UpdateItem", 1)]), "nobody waits");
    }
}

#[tokio::test]
async fn a_repeated_release_costs_one_request() {
    let case = Waiting::start().await;
    let holder = case.table.grant("k", "holder", "1").await.lease;
    case.join("k", "a").await;
    case.released(&holder).await;
    case.requests();
    for _ in 0..3 {
        let released = case.released(&holder).await;
        assert_eq!(released, ReleaseOutcome::AlreadyReleased);
        assert_eq!(case.requests(), of([("UpdateItem", 1)]));
    }
    let (who, _) = case.woken();
    assert_eq!(who, "a", "once: a token is answered once");
}

#[tokio::test]
async fn lost_answer_costs_one_more_request() {
    let case = Waiting::start().await;
    for (n, fault) in Fault::LOST_ANSWERS.into_iter().enumerate() {
        let key = format!("k{n}");
        let holder = case.table.grant(&key, "holder", "1").await.lease;
        let inject = |operation| {
            case.table.proxy.reset();
            case.table.proxy.inject(fault, operation, 1);
        };

        inject("TransactWriteItems");
        let joined = case.join(&key, "a").await;
        assert!(
            matches!(joined, Queued::Queued { .. }),
            "{fault:?}: {joined:?}"
        );
        assert_eq!(
            case.requests(),
            of([("GetItem", 1), ("TransactWriteItems", 2)]),
            "{fault:?}"
        );
        assert_eq!(case.table.row(&key).await.waiting().len(), 1, "{fault:?}");
        case.join(&key, "b").await;

        inject("UpdateItem");
        let released = case.released(&holder).await;
        assert_eq!(released, ReleaseOutcome::AlreadyReleased, "{fault:?}");
        let costs = of([("DeleteItem", 1), ("GetItem", 1), ("UpdateItem", 3)]);
        assert_eq!(case.requests(), costs, "{fault:?}");
        let (who, lease) = case.woken();
        assert_eq!(who, "a", "{fault:?}");

        inject("GetItem");
        let released = case.released(&lease).await;
        assert_eq!(released, ReleaseOutcome::Released, "{fault:?}");
        let costs = of([("DeleteItem", 1), ("GetItem", 2), ("UpdateItem", 2)]);
        assert_eq!(case.requests(), costs, "{fault:?}");
        assert_eq!(case.woken().0, "b", "{fault:?}");
    }
}

/// What DynamoDB counts of an item: names and values, and for lists one byte an entry and three more.
fn size(item: &leasehold::row::Item) -> usize {
    use aws_sdk_dynamodb::types::AttributeValue as Value;
    fn of(value: &Value) -> usize {
        match value {
            Value::S(text) => text.len(),
            Value::B(bytes) => bytes.as_ref().len(),
            // Two digits a byte, and one more.
            Value::N(digits) => digits.len().div_ceil(2) + 1,
            Value::L(entries) => 3 + entries.iter().map(|entry| 1 + of(entry)).sum::<usize>(),
            Value::M(fields) => {
                3 + fields
                    .iter()
                    .map(|(k, v)| 1 + k.len() + of(v))
                    .sum::<usize>()
            }
            _ => 1,
        }
    }
    item.iter()
        .map(|(name, value)| name.len() + of(value))
        .sum()
}

/// A row over 1 KB takes another write unit with each write, the holder's extends too.
#[tokio::test]
async fn queued_row_fits_one_write_unit() {
    let case = Waiting::start().await;
    let name = |n| format!("0c4f5a52-6a3c-4d0e-9d3b-{n:012}");
    // Every attribute that a row can have while it is held.
    case.join("orders/42", &name(0)).await;
    let mut lease = case.woken().1;
    for n in 1..6 {
        case.join("orders/42", &name(n)).await;
        case.released(&lease).await;
        lease = case.woken().1;
    }
    let proven = case.leases.extend(&lease, ExtendOptions::default()).await;
    drop(proven.unwrap());
    let address = leasehold::store::Address {
        key: lease.key,
        permit: 0,
    };
    let mut fitting = 0;
    for n in 0..40 {
        let size = size(&case.table.get(&address).await.unwrap());
        if size <= 1024 {
            fitting = n;
        }
        case.join("orders/42", &name(100 + n)).await;
    }
    assert_eq!(fitting, 14, "docs/reference/cost.md says so");
}

/// The items of the waiters for a key.
async fn waiters(table: &Table, key: &str) -> Vec<Item> {
    let query = table.client.query().table_name(TABLE);
    let query = query
        .key_condition_expression("pk = :pk AND begins_with(sk, :wait)")
        .expression_attribute_values(":pk", s(key))
        .expression_attribute_values(":wait", s("WAIT#"));
    query.send().await.unwrap().items.unwrap()
}

#[tokio::test]
async fn stranger_in_waiters_place_is_untouched() {
    let case = Waiting::start().await;
    let table = &case.table;
    let holder = table.grant("k", "holder", "1").await.lease;
    table.grant("elsewhere", "holder", "1").await;
    case.join("elsewhere", "a").await;
    let mut stranger = waiters(table, "elsewhere").await.remove(0);
    for (name, value) in [
        ("pk", "k"),
        ("request", "somebody else's"),
        ("colour", "blue"),
    ] {
        stranger.insert(name.to_owned(), s(value));
    }
    let put = table.client.put_item().table_name(TABLE);
    put.set_item(Some(stranger.clone())).send().await.unwrap();

    let refused = case.ask_to_join("k", "a").await;
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert!(table.row("k").await.waiting().is_empty(), "both or neither");
    // Others are none the worse for it.
    case.join("k", "b").await;
    case.released(&holder).await;
    assert_eq!(case.woken().0, "b");
    let found = waiters(table, "k").await;
    assert!(found.contains(&stranger), "untouched");
}

#[tokio::test]
async fn dynamodb_purges_nobody_who_still_waits() {
    let now = SystemClock.now().as_millis() / 1000;
    let clock = leasehold_local::ManualClock::new(now);
    let server = leasehold_local::DynamoDb::start_with_clock(&clock).await;
    let table = Table::on(server.unwrap()).await;
    leasehold::table::create(&table.client, TABLE)
        .await
        .unwrap();
    let case = Waiting::on(table);
    let table = &case.table;
    table.grant("k", "holder", "1").await;
    case.join("k", "a").await;
    clock.tick(WAIT.saturating_sub(Duration::from_secs(1)));
    assert_eq!(table.server.sweep_ttl().unwrap(), 0);
    // Sweep sends it away at its time: this is for tables that nobody sweeps.
    clock.tick(Duration::from_secs(7 * 86_400 - 1));
    assert_eq!(
        table.server.sweep_ttl().unwrap(),
        0,
        "kept for seven days more"
    );
    clock.tick(Duration::from_mins(1));
    assert_eq!(
        table.server.sweep_ttl().unwrap(),
        1,
        "and the row that has the queue never"
    );
    assert_eq!(waiters(table, "k").await, []);
    assert_eq!(table.row("k").await.waiting().len(), 1);
}

/// The end and the grant are one write.
#[tokio::test]
async fn reap_for_the_next_costs_five_requests() {
    let case = Waiting::start().await;
    for who in ["a", "b", "c"] {
        case.join("k", who).await;
    }
    let a = execution("a");
    let over = Execution::Ended {
        stopped_at: case.leases.now(),
        redrivable: false,
        all_answered: true,
    };
    case.calls.set_execution(a.as_str(), over);
    case.requests();
    case.leases.reap(&a).await.unwrap();
    let costs = of([
        ("Query", 1),
        ("GetItem", 2),
        ("UpdateItem", 1),
        ("DeleteItem", 1),
    ]);
    assert_eq!(case.requests(), costs);
}

/// Nothing happens to them: each minute sweep looks at the holder, and at who waits first.
#[tokio::test]
async fn waiting_key_costs_three_requests_a_sweep() {
    let case = Waiting::start().await;
    let later = Arc::new(ManualClock::at(case.leases.now()));
    let leases = case.leases.clone().with_clock(later.clone());
    case.table.proxy.count_units();
    let sweep = async || {
        later.advance(Duration::from_mins(1));
        case.table.proxy.reset();
        leases.sweep(SweepBounds::Schedule).await.unwrap();
        let counts = case.table.proxy.counts();
        let units = counts.units();
        (counts.total(), units.writing(), units.read)
    };
    let (requests, written, read) = sweep().await;
    for key in ["a", "b", "c"] {
        let holder = format!("holder of {key}");
        let runs = Execution::Running;
        case.calls.set_execution(execution(&holder).as_str(), runs);
        assert_eq!(case.join(key, &holder).await, Queued::Acquired);
        for who in ["first", "second"] {
            case.join(key, who).await;
        }
    }
    for _ in 0..3 {
        // The row twice, as a lease and as a queue; and who waits first. No look is due, and nothing has changed.
        let each = (requests + 3 * 3, written, read + 3.0 * 3.0);
        assert_eq!(sweep().await, each);
    }
}
