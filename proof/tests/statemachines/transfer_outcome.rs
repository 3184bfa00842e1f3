//! Whether a transfer was written is known in the end, whatever got lost on the way.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::execution::Execution;
use crate::transfer::{
    DEFINITION, NOT_WRITTEN, accounts, balance, balances, leases, paused, set_balance, start,
    transfer,
};
use crate::world::{RESOURCES, World, fresh_key, with_world};

/// The states after a failure, when it turns out that the write was applied.
const WRITTEN: [&str; 5] = ["FindOut", "ReleaseAfterFailure", "Look", "Written", "Done"];
/// How often an impatient machine tries.
const TRIES: u32 = 2;

/// Tries everything twice, a second apart, and lets a write wait for its answer no longer than that.
fn impatient(states: &mut Value) {
    states["Write"]["TimeoutSeconds"] = 1.into();
    let inner =
        ["ReleaseAfterFailure", "Look"].map(|name| format!("/FindOut/Branches/0/States/{name}"));
    for place in ["/Write", "/FindOut"]
        .map(str::to_owned)
        .into_iter()
        .chain(inner)
    {
        let state = states.pointer_mut(&place).unwrap();
        for retry in state["Retry"].as_array_mut().unwrap() {
            retry["IntervalSeconds"] = 1.into();
            retry["MaxAttempts"] = (TRIES - 1).into();
        }
    }
}

/// As if 10 minutes passed between any two tries: DynamoDB knows no token again.
fn forgotten(states: &mut Value) {
    states["Write"]["Arguments"]["ClientRequestToken"] = "{% $uuid() %}".into();
}

/// An impatient machine of the test's own.
async fn changed(world: &World, name: &str, change: impl Fn(&mut Value)) -> String {
    let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
    impatient(&mut definition["States"]);
    change(&mut definition["States"]);
    world.create(name, &definition.to_string()).await
}

/// Lets `fault` happen to every try of this write.
fn whenever_it_writes(world: &World, fault: Fault, from: &str) {
    let proxy = world.stack.proxy();
    // The acquire is a transaction with this account, too; only the write has a record.
    let written = format!(r#""from": {{"S": "{from}"}}"#);
    proxy.inject_matching(fault, "TransactWriteItems", &written, TRIES);
}

fn told(from: &str, to: &str) -> Value {
    json!({"from": from, "to": to, "amount": 30, "balances": {"from": 70, "to": 35}})
}

/// What the transfers of this account recorded.
async fn records(world: &World, account: &str) -> Vec<Value> {
    let query = world.stack.dynamodb().query().table_name(RESOURCES);
    let found = query
        .key_condition_expression("#pk = :account AND begins_with(#sk, :record)")
        .expression_attribute_names("#pk", "pk")
        .expression_attribute_names("#sk", "sk")
        .expression_attribute_values(":account", AttributeValue::S(account.to_owned()))
        .expression_attribute_values(":record", AttributeValue::S("TRANSFER#".to_owned()))
        .consistent_read(true)
        .send()
        .await
        .unwrap();
    let plain = |item| plain(&AttributeValue::M(item));
    found.items.unwrap().into_iter().map(plain).collect()
}

fn plain(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => text.as_str().into(),
        AttributeValue::N(number) => number.parse::<i64>().unwrap().into(),
        AttributeValue::M(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(members.collect())
        }
        other => panic!("not in a record: {other:?}"),
    }
}

async fn after_write(run: &Execution) -> Vec<String> {
    let path = run.path().await;
    let write = path.iter().rposition(|state| state == "Write").unwrap();
    path[write + 1..].to_vec()
}

#[test]
fn a_transfer_leaves_a_record_of_itself() {
    with_world(async |world| {
        let both = accounts(world, [100, 5]).await;
        let run = start(world, transfer(&both[0], &both[1], 30)).await;
        run.ended().await.output();
        let [record] = &records(world, &both[0]).await[..] else {
            panic!("one transfer, one record");
        };
        let leases = leases(&run).await;
        let mut record = record.clone();
        let name = record["sk"].take();
        let start = name
            .as_str()
            .unwrap()
            .strip_prefix(&format!("TRANSFER#{}#", run.arn));
        let start: leasehold::Timestamp = start.unwrap().parse().unwrap();
        let at: leasehold::Timestamp = record["at"].take().as_str().unwrap().parse().unwrap();
        assert!(start <= at);
        assert_eq!(
            record,
            json!({
                "pk": both[0], "sk": null, "at": null,
                "from": both[0], "to": both[1], "amount": 30, "balances": {"from": 70, "to": 35},
                "fencing_tokens": {"from": leases[0]["fencing_token"], "to": leases[1]["fencing_token"]},
            })
        );
    });
}

#[test]
fn a_write_whose_answer_is_lost_is_done_once_and_told_as_done() {
    with_world(async |world| {
        // Time enough before the Retry for somebody else to come in.
        let machine = paused(world, "unanswered", "Write", |states| {
            let retry = &mut states["Write"]["Retry"][1];
            retry["IntervalSeconds"] = 2.into();
            retry["JitterStrategy"] = "NONE".into();
        })
        .await;
        let both = accounts(world, [100, 5]).await;
        let run = world
            .start(&machine, transfer(&both[0], &both[1], 30))
            .await;
        run.reaches("Pause", 1).await;
        let proxy = world.stack.proxy();
        proxy.inject_matching(Fault::LoseAnswer, "TransactWriteItems", &both[0], 1);
        while balance(world, &both[0]).await == 100 {
            sleep(Duration::from_millis(20)).await;
        }
        // The checks would fail by now: only the token tells that the write was ours.
        world
            .take_away(&leases(&run).await[0], Some("somebody else"))
            .await;
        set_balance(world, &both[0], 1070).await;
        run.ended().await.output();
        assert_eq!(run.path().await.last().unwrap(), "Release", "a replay");
        assert_eq!(balances(world, &both).await, [1070, 35]);
        assert_eq!(
            world.holder(&both[0]).await.as_deref(),
            Some("somebody else")
        );
    });
}

#[test]
fn a_write_that_is_never_answered_is_found_and_told_as_done() {
    with_world(async |world| {
        for fault in [Fault::LoseAnswer, Fault::FailAnswer, Fault::HangAnswer] {
            let machine = changed(world, &format!("unanswered-{fault:?}"), |_| ()).await;
            let both = accounts(world, [100, 5]).await;
            whenever_it_writes(world, fault, &both[0]);
            let run = world
                .start(&machine, transfer(&both[0], &both[1], 30))
                .await;
            assert_eq!(run.ended().await.output(), told(&both[0], &both[1]));
            assert_eq!(after_write(&run).await, WRITTEN, "{fault:?}");
            assert_eq!(balances(world, &both).await, [70, 35]);
            for account in &both {
                assert_eq!(world.holder(account).await, None);
            }
        }
    });
}

#[test]
fn a_write_that_never_arrives_fails_under_its_own_name_for_good() {
    with_world(async |world| {
        for (fault, error) in [
            (Fault::LoseRequest, "DynamoDb.SdkClientException"),
            (Fault::ServerError, "DynamoDb.InternalServerErrorException"),
            (Fault::Hang, "Transfer.Timeout"),
        ] {
            let machine = changed(world, &format!("unsent-{fault:?}"), |_| ()).await;
            let both = accounts(world, [100, 5]).await;
            whenever_it_writes(world, fault, &both[0]);
            let run = world
                .start(&machine, transfer(&both[0], &both[1], 30))
                .await;
            run.ended().await.failed_with(error);
            assert_eq!(after_write(&run).await, NOT_WRITTEN, "{fault:?}");
            // Nothing of it can be written any more.
            for account in &both {
                assert_eq!(world.holder(account).await, None);
            }
            run.redrive().await;
            run.ended().await.failed_with(error);
            assert_eq!(run.since_redrive().await, ["Failed"]);
            assert_eq!(balances(world, &both).await, [100, 5]);
            assert_eq!(records(world, &both[0]).await, [json!(null); 0]);
        }
    });
}

/// An execution that was stopped while it waited for the answer to an applied write, of which DynamoDB has
/// forgotten the token since.
async fn stopped(world: &World, name: &str, both: &[String; 2]) -> Execution {
    let machine = paused(world, name, "Write", |states| {
        impatient(states);
        forgotten(states);
        states["Write"]["TimeoutSeconds"] = 15.into();
    })
    .await;
    let run = world
        .start(&machine, transfer(&both[0], &both[1], 30))
        .await;
    run.reaches("Pause", 1).await;
    let proxy = world.stack.proxy();
    proxy.inject_matching(
        Fault::HangAnswer,
        "TransactWriteItems",
        &format!("\"{}\"", both[0]),
        1,
    );
    run.in_task("Write", 1).await;
    run.stop().await;
    assert_eq!(balances(world, both).await, [70, 35]);
    run
}

#[test]
fn a_write_that_is_repeated_long_after_is_applied_once() {
    with_world(async |world| {
        let both = accounts(world, [100, 5]).await;
        let run = stopped(world, "forgotten", &both).await;
        // By somebody who asks for no lease: the checks would let the write pass again.
        set_balance(world, &both[0], 1070).await;
        run.redrive().await;
        assert_eq!(run.ended().await.output(), told(&both[0], &both[1]));
        assert_eq!(after_write(&run).await, WRITTEN);
        assert_eq!(balances(world, &both).await, [1070, 35]);
        assert_eq!(records(world, &both[0]).await.len(), 1);
    });
}

#[test]
fn leases_that_others_took_after_the_write_do_not_make_it_undone() {
    with_world(async |world| {
        let both = accounts(world, [100, 5]).await;
        let run = stopped(world, "taken-over", &both).await;
        for lease in leases(&run).await.as_array().unwrap() {
            world.take_away(lease, Some("somebody else")).await;
        }
        set_balance(world, &both[0], 1070).await;
        run.redrive().await;
        assert_eq!(run.ended().await.output(), told(&both[0], &both[1]));
        assert_eq!(balances(world, &both).await, [1070, 35]);
        for account in &both {
            let holder = world.holder(account).await;
            assert_eq!(holder.as_deref(), Some("somebody else"));
        }
    });
}

#[test]
fn while_nothing_can_be_looked_up_it_is_unknown_and_a_redrive_finds_out() {
    with_world(async |world| {
        for (fault, applied) in [(Fault::LoseAnswer, true), (Fault::LoseRequest, false)] {
            let machine = changed(world, &format!("unseen-{applied}"), |_| ()).await;
            let both = accounts(world, [100, 5]).await;
            whenever_it_writes(world, fault, &both[0]);
            let run = world
                .start(&machine, transfer(&both[0], &both[1], 30))
                .await;
            let proxy = world.stack.proxy();
            let look = format!("TRANSFER#{}#", run.arn);
            proxy.inject_matching(Fault::LoseRequest, "GetItem", &look, TRIES * TRIES);
            let cause = run.ended().await.failed_with("Transfer.Unknown");
            assert!(
                cause.contains("when finding out, DynamoDb.SdkClientException"),
                "{cause}"
            );
            let round = ["ReleaseAfterFailure", "Look", "Unknown"];
            assert_eq!(
                after_write(&run).await,
                [["FindOut"].as_slice(), &round, &round].concat()
            );

            world.occupy(&both[0], "somebody else").await;
            run.redrive().await;
            let ended = run.ended().await;
            if applied {
                assert_eq!(ended.output(), told(&both[0], &both[1]));
                assert_eq!(balances(world, &both).await, [70, 35]);
            } else {
                ended.failed_with("DynamoDb.SdkClientException");
                assert_eq!(balances(world, &both).await, [100, 5]);
            }
            let found = if applied { WRITTEN } else { NOT_WRITTEN };
            assert_eq!(
                run.since_redrive().await,
                [["FindOut", "Unknown"].as_slice(), &found[1..]].concat()
            );
        }
    });
}

/// Lets the next `times` releases of this account fail.
fn refuse_release(world: &World, account: &str, times: u32) {
    let proxy = world.stack.proxy();
    proxy.inject_matching(
        Fault::Denied,
        "UpdateItem",
        &format!("\"{account}\""),
        times,
    );
}

#[test]
fn while_the_leases_may_stand_a_missing_record_proves_nothing() {
    with_world(async |world| {
        let machine = changed(world, "unreleased", |_| ()).await;
        let both = accounts(world, [100, 5]).await;
        whenever_it_writes(world, Fault::LoseRequest, &both[0]);
        refuse_release(world, &both[0], TRIES);
        let run = world
            .start(&machine, transfer(&both[0], &both[1], 30))
            .await;
        let cause = run.ended().await.failed_with("Transfer.Unknown");
        assert!(cause.contains("when finding out, Lease.Denied"), "{cause}");
        assert!(!run.path().await.contains(&"Look".to_owned()));
        run.redrive().await;
        run.ended().await.failed_with("DynamoDb.SdkClientException");
        for account in &both {
            assert_eq!(world.holder(account).await, None);
        }
        assert_eq!(balances(world, &both).await, [100, 5]);
    });
}

#[test]
fn what_was_never_sent_keeps_its_name_whatever_becomes_of_the_leases() {
    with_world(async |world| {
        let [from, to] = accounts(world, [100, 5]).await;
        for (to, amount, error, why) in [
            (&to, 101, "Transfer.InsufficientFunds", "101 are to go"),
            (&fresh_key(), 1, "Transfer.NoSuchAccount", "has no balance"),
        ] {
            refuse_release(world, to, 1);
            let run = start(world, transfer(&from, to, amount)).await;
            let cause = run.ended().await.failed_with(error);
            assert!(cause.contains(why), "{cause}");
            let path = after_write(&run).await;
            assert_eq!(path, ["FindOut", "ReleaseAfterFailure", "Unknown"]);
        }
        // Nor after a failing read.
        let read = format!(r#"{{"S": "{from}"}}, "sk": {{"S": "BALANCE"}}"#);
        let proxy = world.stack.proxy();
        proxy.inject_matching(Fault::Denied, "TransactGetItems", &read, 1);
        let to = fresh_key();
        refuse_release(world, &to, 1);
        let run = start(world, transfer(&from, &to, 1)).await;
        run.ended().await.failed_with("DynamoDb.DynamoDbException");
        let path = run.path().await;
        assert_eq!(
            path[1..],
            ["Read", "FindOut", "ReleaseAfterFailure", "Unknown"]
        );
    });
}
