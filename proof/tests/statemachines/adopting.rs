//! `examples/adopting`: a workflow before and after it runs under a lease.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use crate::world::{RESOURCES, World, fresh_key, with_world};

const BOOK: &str = include_str!("../../../examples/adopting/book-payment.asl.json");
const BEFORE: &str = include_str!("../../../examples/adopting/before/take-payment.asl.json");
const AFTER: &str = include_str!("../../../examples/adopting/after/take-payment.asl.json");

/// The workflow that takes payments, with what it starts.
async fn deploy(world: &World, name: &str, take: &str) -> String {
    let book = world.create(&format!("{name}-book"), BOOK).await;
    let take = take
        .replace("${BookPayment}", &book)
        .replace("${WithLease}", world.machine("WithLeaseStateMachine"));
    world.create(&format!("{name}-take"), &take).await
}

/// An account with a hundred on it.
async fn account(world: &World) -> String {
    let account = fresh_key();
    let put = world.stack.dynamodb().put_item().table_name(RESOURCES);
    put.item("pk", AttributeValue::S(account.clone()))
        .item("sk", AttributeValue::S("BALANCE".to_owned()))
        .item("balance", AttributeValue::N("100".to_owned()))
        .send()
        .await
        .unwrap();
    account
}

async fn balance(world: &World, account: &str) -> String {
    let item = world.item(RESOURCES, account, "BALANCE").await.unwrap();
    item["balance"].as_n().unwrap().clone()
}

fn payment(account: &str, amount: u32) -> Value {
    json!({"account": account, "amount": amount, "check_seconds": 0})
}

#[test]
fn alone_a_workflow_does_the_same_before_and_after() {
    with_world(async |world| {
        for (name, take) in [("before", BEFORE), ("after", AFTER)] {
            let machine = deploy(world, name, take).await;
            let account = account(world).await;
            let run = world.start(&machine, payment(&account, 10)).await;
            assert_eq!(
                run.ended().await.output(),
                json!({"account": account, "balance": 110}),
                "{name}"
            );
            assert_eq!(balance(world, &account).await, "110", "{name}");
        }
    });
}

#[test]
fn payments_on_one_account_wait_for_each_other_afterwards() {
    with_world(async |world| {
        let machine = deploy(world, "contended", AFTER).await;
        let account = account(world).await;
        let key = format!("accounts/{account}");
        let lease = world.occupy(&key, "somebody else").await;
        let mut runs = Vec::new();
        for amount in [1, 2, 4] {
            runs.push(world.start(&machine, payment(&account, amount)).await);
        }
        world.is_waited_for_by(&key, runs.len()).await;
        assert_eq!(balance(world, &account).await, "100");
        world.take_away(&lease, None).await;
        for run in &runs {
            run.ended().await.output();
        }
        assert_eq!(balance(world, &account).await, "107");
        assert_eq!(world.holder(&key).await, None);
    });
}
