//! The cost of a start through a key, counted at the socket: however many wait.
use std::sync::Arc;

use leasehold::test_support::FakeStepFunctions;
use leasehold::{
    Execution, ExecutionName, Key, Permits, Pool, Start, StartRules, Started, StateMachineArn,
    SweepBounds, Timestamp,
};

use leasehold_proof::fixture::Table;

const MACHINE: &str = "arn:aws:states:us-east-1:123456789012:stateMachine:orders";

const ALL: [&str; 3] = ["GetItem", "TransactWriteItems", "UpdateItem"];

#[tokio::test]
async fn start_costs_same_for_any_queue() {
    let table = Table::start().await;
    let calls = Arc::new(FakeStepFunctions::default());
    let starts = StartRules::of(MACHINE).unwrap();
    let leases = table
        .leases()
        .with_engine(calls.clone())
        .with_starts(starts);
    for waiting in [2, 8, 32, 128] {
        let start = async |n: u32| {
            let name = ExecutionName::new(format!("{waiting}-{n}")).unwrap();
            let key = Key::new(format!("{waiting} wait")).unwrap();
            let start = Start::new(key, StateMachineArn::new(MACHINE).unwrap(), name);
            let execution = start.execution();
            (execution, leases.start(start).await.unwrap())
        };
        let (first, begun) = start(0).await;
        assert!(matches!(begun, Started::Started { .. }));
        // The row is read; the item and the grant are one write, and that it has begun is another.
        assert_eq!(table.cost(ALL), [1, 1, 1], "{waiting}");
        for n in 1..waiting {
            start(n).await;
        }
        table.requests();
        start(waiting).await;
        // The row is read; the item and the place in the queue are one write.
        assert_eq!(table.cost(ALL), [1, 1, 0], "{waiting}");
        let over = Execution::Ended {
            stopped_at: Timestamp::from_millis(1),
            redrivable: false,
            all_answered: true,
        };
        calls.set_execution(first.as_str(), over);
        leases.reap(&first).await.unwrap();
        // The end of the first: the index, the row, whether it began. The turn of the second: the item; the end and the grant in one
        // write; that it has begun.
        let cost = table.cost(["Query", "GetItem", "UpdateItem"]);
        assert_eq!(cost, [1, 3, 2], "{waiting}");
        assert!(
            calls
                .started()
                .contains_key(&format!("{}1", first.as_str().trim_end_matches('0')))
        );
    }
}

#[tokio::test]
async fn free_pool_costs_a_read_and_two_writes() {
    let table = Table::start().await;
    let calls = Arc::new(FakeStepFunctions::default());
    let starts = StartRules::of(MACHINE).unwrap();
    let queue = table.leases().with_engine(calls).with_starts(starts);
    let start = async |pool: Option<&Pool>, n: usize| {
        let name = ExecutionName::new(format!("n{n}")).unwrap();
        let key = Key::new(format!("tenant {n}")).unwrap();
        let mut start = Start::new(key, StateMachineArn::new(MACHINE).unwrap(), name);
        start.pool = pool.cloned();
        let execution = start.execution();
        let started = queue.start(start).await.unwrap();
        assert!(matches!(started, Started::Started { .. }), "{started:?}");
        execution
    };
    let name = Key::new("imports").unwrap();
    let pool = Pool::new(&name, Permits::new(10).unwrap());
    let all = ["Query", "GetItem", "TransactWriteItems", "UpdateItem"];
    start(None, 0).await;
    assert_eq!(table.cost(all), [0, 1, 1, 1]);
    // However many are in it already: the pool is read and written, and the key's row says so.
    for n in 1..=8 {
        start(Some(&pool), n).await;
        assert_eq!(table.cost(all), [0, 2, 1, 3], "{n}");
    }
}

/// What a second sweep takes where so many starts of different keys wait in a pool beside so many that run: of [`IN_POOLS`].
async fn sweep_of_a_pool(waiting: usize, running: u16) -> [u64; 5] {
    let table = Table::start().await;
    let calls = Arc::new(FakeStepFunctions::default());
    let starts = StartRules::of(MACHINE).unwrap();
    let queue = table
        .leases()
        .with_engine(calls.clone())
        .with_starts(starts);
    for n in 0..waiting + usize::from(running) {
        let name = ExecutionName::new(format!("n{n}")).unwrap();
        let key = Key::new(format!("tenant {n}")).unwrap();
        let mut start = Start::new(key, StateMachineArn::new(MACHINE).unwrap(), name);
        let name = Key::new("imports").unwrap();
        start.pool = Some(Pool::new(&name, Permits::new(running).unwrap()));
        calls.set_execution(start.execution().as_str(), Execution::Running);
        let runs = matches!(queue.start(start).await.unwrap(), Started::Started { .. });
        assert_eq!(runs, n < usize::from(running));
    }
    // It writes that it has seen them run.
    queue.sweep(SweepBounds::Schedule).await.unwrap();
    let _ = table.cost(IN_POOLS);
    queue.sweep(SweepBounds::Schedule).await.unwrap();
    table.cost(IN_POOLS)
}

const IN_POOLS: [&str; 5] = [
    "Query",
    "GetItem",
    "Scan",
    "TransactWriteItems",
    "UpdateItem",
];

#[tokio::test]
async fn sweep_of_a_pool_costs_one_request_for_each_key() {
    let few = sweep_of_a_pool(10, 1).await;
    let more = |costs: [u64; 5]| -> Vec<_> { (0..5).map(|n| costs[n] - few[n]).collect() };
    // A query of each key that waits; the row of each that runs, once, on however many pages of the index others wait.
    assert_eq!(more(sweep_of_a_pool(20, 1).await), [10, 0, 0, 0, 0]);
    assert_eq!(more(sweep_of_a_pool(10, 6).await), [0, 5, 0, 0, 0]);
}
