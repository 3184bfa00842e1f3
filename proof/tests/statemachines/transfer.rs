//! The guarded section: what was read stays true until it is written, or nothing is written.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::world::{RESOURCES, World, fresh_key, with_world};

pub const DEFINITION: &str = include_str!("../../../statemachines/transfer.asl.json");
/// The states after a failure, when it turns out that nothing was written.
pub const NOT_WRITTEN: [&str; 5] = [
    "FindOut",
    "ReleaseAfterFailure",
    "Look",
    "Written",
    "Failed",
];

pub async fn start(world: &World, input: Value) -> Execution {
    world
        .start(world.machine("TransferStateMachine"), input)
        .await
}

/// The shipped machine, changed, with a pause of a second before one of its states.
pub async fn paused(
    world: &World,
    name: &str,
    before: &str,
    change: impl Fn(&mut Value),
) -> String {
    let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
    let states = definition["States"].as_object_mut().unwrap();
    for state in states.values_mut().filter(|state| state["Next"] == before) {
        state["Next"] = "Pause".into();
    }
    let pause = json!({"Type": "Wait", "Seconds": 1, "Next": before});
    states.insert("Pause".to_owned(), pause);
    change(&mut definition["States"]);
    world.create(name, &definition.to_string()).await
}

/// Opens accounts with these balances.
pub async fn accounts<const N: usize>(world: &World, balances: [i64; N]) -> [String; N] {
    let names = balances.map(|_| fresh_key());
    for (name, balance) in names.iter().zip(balances) {
        set_balance(world, name, balance).await;
    }
    names
}

pub async fn set_balance(world: &World, account: &str, balance: i64) {
    put_balance(world, account, AttributeValue::N(balance.to_string())).await;
}

async fn put_balance(world: &World, account: &str, balance: AttributeValue) {
    world
        .tamper(RESOURCES, account, "BALANCE", "balance", balance)
        .await;
}

pub async fn balance(world: &World, account: &str) -> i64 {
    let item = world.item(RESOURCES, account, "BALANCE").await.unwrap();
    item["balance"].as_n().unwrap().parse().unwrap()
}

pub async fn balances<const N: usize>(world: &World, accounts: &[String; N]) -> [i64; N] {
    let mut found = [0; N];
    for (found, account) in found.iter_mut().zip(accounts) {
        *found = balance(world, account).await;
    }
    found
}

pub fn transfer(from: &str, to: &str, amount: i64) -> Value {
    json!({"from": from, "to": to, "amount": amount, "ttl_seconds": 30})
}

/// The handles that acquire returned.
pub async fn leases(run: &Execution) -> Value {
    let history = run.history().await;
    let outputs = history
        .iter()
        .filter_map(|event| event.task_succeeded_event_details()?.output());
    let answers = outputs.map(|output| serde_json::from_str::<Value>(output).unwrap());
    let mut leases = answers.filter(|answer| answer["Payload"]["leases"].is_array());
    leases.next().expect("an execution with leases")["Payload"]["leases"].clone()
}

#[test]
fn a_transfer_costs_four_transitions_and_22_events() {
    with_world(async |world| {
        let both = accounts(world, [100, 5]).await;
        let run = start(world, transfer(&both[0], &both[1], 30)).await;
        assert_eq!(
            run.ended().await.output(),
            json!({"from": both[0], "to": both[1], "amount": 30, "balances": {"from": 70, "to": 35}})
        );
        assert_eq!(run.path().await, ["Acquire", "Read", "Write", "Release"]);
        assert_eq!(run.history().await.len(), 22);
        assert_eq!(balances(world, &both).await, [70, 35]);
        for account in &both {
            assert_eq!(world.holder(account).await, None);
        }
    });
}

#[test]
fn transfers_in_opposite_directions_all_end_and_lose_nothing() {
    with_world(async |world| {
        let all = accounts(world, [1000, 1000, 1000]).await;
        let routes = [
            (0, 1, 1),
            (1, 0, 2),
            (1, 2, 4),
            (2, 1, 8),
            (2, 0, 16),
            (0, 2, 32),
            (0, 1, 64),
            (1, 0, 128),
        ];
        let mut runs = Vec::new();
        for (from, to, amount) in routes {
            runs.push(start(world, transfer(&all[from], &all[to], amount)).await);
        }
        for run in &runs {
            run.ended().await.output();
        }
        let mut expected = [1000; 3];
        for (from, to, amount) in routes {
            expected[from] -= amount;
            expected[to] += amount;
        }
        assert_eq!(balances(world, &all).await, expected);
        for account in &all {
            assert_eq!(world.holder(account).await, None);
        }
    });
}

/// JSONata writes 15 digits, and money has no fractions here.
#[test]
fn a_balance_that_cannot_be_counted_is_not_moved() {
    with_world(async |world| {
        let both = accounts(world, [100, 999_999_999_999_998]).await;
        let run = start(world, transfer(&both[0], &both[1], 2)).await;
        let cause = run.ended().await.failed_with("Transfer.BalanceTooLarge");
        assert!(cause.contains(&both[1]), "{cause}");
        let run = start(world, transfer(&both[0], &both[1], 1)).await;
        run.ended().await.output();
        assert_eq!(balances(world, &both).await, [99, 999_999_999_999_999]);
        for strange in ["10.5", "1000000000000000", "1e23", "-1000000000000000"] {
            put_balance(world, &both[1], AttributeValue::N(strange.to_owned())).await;
            let run = start(world, transfer(&both[0], &both[1], 1)).await;
            let cause = run.ended().await.failed_with("Transfer.NoSuchAccount");
            assert!(cause.contains("15 digits"), "{cause}");
        }
        put_balance(world, &both[1], AttributeValue::S("100".to_owned())).await;
        let run = start(world, transfer(&both[0], &both[1], 1)).await;
        run.ended().await.failed_with("Transfer.NoSuchAccount");
        assert_eq!(balance(world, &both[0]).await, 99);
    });
}

#[test]
fn what_is_not_there_is_not_moved_and_the_leases_are_given_back() {
    with_world(async |world| {
        let both = accounts(world, [100, 5]).await;
        let nobody = fresh_key();
        for (from, to, amount, error) in [
            (&both[0], &both[1], 101, "Transfer.InsufficientFunds"),
            (&both[0], &nobody, 1, "Transfer.NoSuchAccount"),
            (&nobody, &both[0], 1, "Transfer.NoSuchAccount"),
        ] {
            let run = start(world, transfer(from, to, amount)).await;
            let cause = run.ended().await.failed_with(error);
            let named = if *from == nobody || *to == nobody {
                &nobody
            } else {
                from
            };
            assert!(cause.contains(named), "{cause}");
            assert_eq!(
                run.path().await,
                [["Acquire", "Read", "Write"].as_slice(), &NOT_WRITTEN].concat()
            );
            assert_eq!(balances(world, &both).await, [100, 5]);
            assert!(world.item(RESOURCES, &nobody, "BALANCE").await.is_none());
            for account in [from, to] {
                assert_eq!(world.holder(account).await, None);
            }
        }
        // The whole balance may go.
        let run = start(world, transfer(&both[0], &both[1], 100)).await;
        run.ended().await.output();
        assert_eq!(balances(world, &both).await, [0, 105]);
    });
}

#[test]
fn nonsense_is_refused_before_anything_is_leased() {
    with_world(async |world| {
        let [from, to] = &accounts(world, [100, 5]).await;
        let run = start(world, transfer(from, from, 1)).await;
        run.ended().await.failed_with("Lease.Invalid");
        let nonsense = [
            json!({"from": from, "to": to, "amount": 0, "ttl_seconds": 30}),
            json!({"from": from, "to": to, "amount": -1, "ttl_seconds": 30}),
            json!({"from": from, "to": to, "amount": 1.5, "ttl_seconds": 30}),
            json!({"from": from, "to": to, "amount": "1", "ttl_seconds": 30}),
            json!({"from": from, "amount": 1, "ttl_seconds": 30}),
            json!({"from": [from, to], "to": to, "amount": 1, "ttl_seconds": 30}),
        ];
        for input in nonsense {
            let run = start(world, input).await;
            let cause = run.ended().await.failed_with("States.QueryEvaluationError");
            assert!(cause.contains("transfer needs from and to"), "{cause}");
            assert_eq!(run.path().await, ["Acquire"]);
        }
        for account in [from, to] {
            assert!(
                world
                    .item("LeaseTable", account, "LEASE#0000")
                    .await
                    .is_none()
            );
        }
    });
}

/// Somebody else takes one of the leases between reading and writing, and pays 1000 in. How the transfer ended, and
/// the balances.
async fn overtaken(
    world: &World,
    machine: &str,
    which: usize,
) -> (Execution, [String; 2], [i64; 2]) {
    let both = accounts(world, [100, 5]).await;
    let run = world.start(machine, transfer(&both[0], &both[1], 30)).await;
    run.reaches("Pause", 1).await;
    world
        .take_away(&leases(&run).await[which], Some("somebody else"))
        .await;
    set_balance(world, &both[which], 1000 + [100, 5][which]).await;
    run.ended().await;
    let after = balances(world, &both).await;
    (run, both, after)
}

#[test]
fn a_lease_lost_between_reading_and_writing_means_that_nothing_is_written() {
    with_world(async |world| {
        let machine = paused(world, "overtaken", "Write", |_| ()).await;
        for (which, untouched) in [(0, [1100, 5]), (1, [100, 1005])] {
            let (run, both, after) = overtaken(world, &machine, which).await;
            run.ended().await.failed_with("Lease.Lost");
            assert_eq!(after, untouched);
            assert_eq!(
                run.path().await,
                [
                    ["Acquire", "Read", "Pause", "Write"].as_slice(),
                    &NOT_WRITTEN
                ]
                .concat()
            );
            let holder = world.holder(&both[which]).await;
            assert_eq!(holder.as_deref(), Some("somebody else"));
            let other = world.holder(&both[1 - which]).await;
            assert_eq!(other, None, "the other one was still ours");
        }
    });
}

#[test]
fn the_same_transfer_without_the_checks_loses_what_was_paid_in() {
    with_world(async |world| {
        let machine = paused(world, "unguarded", "Write", |states| {
            let items = states["Write"]["Arguments"]["TransactItems"].as_array_mut();
            items.unwrap().retain(|item| item["Update"].is_object());
        })
        .await;
        let (run, _, after) = overtaken(world, &machine, 0).await;
        run.ended().await.output();
        assert_eq!(after, [70, 35], "1000 are gone");
    });
}

#[test]
fn a_lease_that_is_over_and_that_nobody_took_still_guards_the_write() {
    with_world(async |world| {
        let machine = paused(world, "overdue", "Write", |states| {
            states["Pause"]["Seconds"] = 2.into();
        })
        .await;
        let both = accounts(world, [100, 5]).await;
        let mut input = transfer(&both[0], &both[1], 30);
        input["ttl_seconds"] = 1.into();
        world.start(&machine, input).await.ended().await.output();
        assert_eq!(balances(world, &both).await, [70, 35]);
    });
}

#[test]
fn conflicts_and_throttling_are_tried_again() {
    with_world(async |world| {
        for (state, operation, fault) in [
            ("Write", "TransactWriteItems", Fault::Conflict),
            ("Write", "TransactWriteItems", Fault::Throttle),
            ("Write", "TransactWriteItems", Fault::LoseRequest),
            ("Write", "TransactWriteItems", Fault::ServerError),
            ("Read", "TransactGetItems", Fault::Throttle),
        ] {
            let machine = paused(world, &format!("retries-{state}-{fault:?}"), state, |_| ()).await;
            let both = accounts(world, [100, 5]).await;
            let run = world
                .start(&machine, transfer(&both[0], &both[1], 30))
                .await;
            run.reaches("Pause", 1).await;
            let proxy = world.stack.proxy();
            proxy.inject_matching(fault, operation, &both[0], 1);
            run.ended().await.output();
            assert_eq!(balances(world, &both).await, [70, 35]);
            let failed = run.history().await;
            let failed = failed
                .iter()
                .filter(|event| event.task_failed_event_details().is_some());
            assert_eq!(failed.count(), 1, "{fault:?}");
        }
    });
}

#[test]
fn a_redriven_state_needs_no_proof_but_the_checks_of_the_write() {
    with_world(async |world| {
        for (state, operation, fault, lost) in [
            ("Read", "TransactGetItems", Fault::Hang, false),
            ("Read", "TransactGetItems", Fault::Hang, true),
            ("Write", "TransactWriteItems", Fault::Hang, false),
            ("Write", "TransactWriteItems", Fault::Hang, true),
            // Applied, and not told.
            ("Write", "TransactWriteItems", Fault::HangAnswer, false),
            ("Write", "TransactWriteItems", Fault::HangAnswer, true),
        ] {
            let name = format!("redriven-{state}-{fault:?}-{lost}");
            let machine = paused(world, &name, state, |_| ()).await;
            let both = accounts(world, [100, 5]).await;
            let run = world
                .start(&machine, transfer(&both[0], &both[1], 30))
                .await;
            run.reaches("Pause", 1).await;
            let proxy = world.stack.proxy();
            proxy.inject_matching(fault, operation, &both[0], 1);
            run.in_task(state, 1).await;
            run.stop().await;
            let applied = fault == Fault::HangAnswer;
            assert_eq!(balances(world, &both).await == [70, 35], applied);
            if lost {
                world
                    .take_away(&leases(&run).await[0], Some("somebody else"))
                    .await;
            }
            run.redrive().await;
            let ended = run.ended().await;
            let path = run.since_redrive().await;
            assert_eq!(path[0], state);
            if lost && !applied {
                ended.failed_with("Lease.Lost");
                assert_eq!(balances(world, &both).await, [100, 5], "{name}");
            } else {
                ended.output();
                assert_eq!(balances(world, &both).await, [70, 35], "{name}");
            }
        }
    });
}

#[test]
fn a_redriven_release_frees_nobody_else_and_still_succeeds() {
    with_world(async |world| {
        let machine = paused(world, "released-late", "Release", |_| ()).await;
        let both = accounts(world, [100, 5]).await;
        let run = world
            .start(&machine, transfer(&both[0], &both[1], 30))
            .await;
        run.reaches("Pause", 1).await;
        run.stop().await;
        world
            .take_away(&leases(&run).await[1], Some("somebody else"))
            .await;
        run.redrive().await;
        run.ended().await.output();
        assert_eq!(world.holder(&both[0]).await, None);
        assert_eq!(
            world.holder(&both[1]).await.as_deref(),
            Some("somebody else")
        );
    });
}
