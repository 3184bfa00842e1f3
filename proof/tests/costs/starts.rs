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
        // The end of the first: the index, the row, whether it began, the end. The turn of the second: the item, the grant, that
        // it has begun.
        let cost = table.cost(["Query", "GetItem", "UpdateItem"]);
        assert_eq!(cost, [1, 3, 3], "{waiting}");
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

/// As many keys more, as many requests more: two queries of the key, and a read of its item.
#[tokio::test]
async fn sweep_of_a_pool_costs_one_request_for_each_key_that_waits() {
    let all = [
        "Query",
        "GetItem",
        "Scan",
        "TransactWriteItems",
        "UpdateItem",
    ];
    let mut costs = Vec::new();
    for waiting in [10, 20] {
        let table = Table::start().await;
        let calls = Arc::new(FakeStepFunctions::default());
        let starts = StartRules::of(MACHINE).unwrap();
        let queue = table.leases().with_engine(calls).with_starts(starts);
        for n in 0..=waiting {
            let name = ExecutionName::new(format!("n{n}")).unwrap();
            let key = Key::new(format!("tenant {n}")).unwrap();
            let mut start = Start::new(key, StateMachineArn::new(MACHINE).unwrap(), name);
            let name = Key::new("imports").unwrap();
            start.pool = Some(Pool::new(&name, Permits::new(1).unwrap()));
            let started = queue.start(start).await.unwrap();
            assert_eq!(matches!(started, Started::Started { .. }), n == 0);
        }
        let _ = table.cost(all);
        queue.sweep(SweepBounds::Schedule).await.unwrap();
        costs.push(table.cost(all));
    }
    let more: Vec<_> = (0..all.len()).map(|n| costs[1][n] - costs[0][n]).collect();
    assert_eq!(more, [10, 0, 0, 0, 0], "{costs:?}");
}
