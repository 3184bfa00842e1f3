//! So many at once and no more, over all executions: counted by the resource, permit by permit.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::Fault;
use serde_json::{Value, json};

use crate::execution::Execution;
use crate::world::{World, fresh_key, with_world};

const DEFINITION: &str = include_str!("../../../statemachines/semaphore.asl.json");

async fn start(world: &World, input: Value) -> Execution {
    world
        .start(world.machine("SemaphoreStateMachine"), input)
        .await
}

/// What one item runs through, as a machine of its own: the local engine redrives a Map only as a whole.
async fn one_item(world: &World, name: &str) -> String {
    let definition: Value = serde_json::from_str(DEFINITION).unwrap();
    let mut item = definition["States"]["Each"]["ItemProcessor"].clone();
    item.as_object_mut().unwrap().remove("ProcessorConfig");
    item["QueryLanguage"] = "JSONata".into();
    world.create(name, &item.to_string()).await
}

fn item(key: &str, ttl: u32, work: &Value) -> Value {
    json!({"index": 0, "key": key, "permits": 2, "ttl_seconds": ttl, "work": work})
}

/// The permits that are held, by their sort keys.
async fn held(world: &World, key: &str) -> BTreeSet<String> {
    let query = world.stack.dynamodb().query().table_name("LeaseTable");
    let found = query
        .key_condition_expression("pk = :key")
        .filter_expression("attribute_exists(holder)")
        .expression_attribute_values(":key", AttributeValue::S(key.to_owned()))
        .consistent_read(true)
        .send()
        .await
        .unwrap();
    let rows = found.items().iter();
    rows.map(|row| row["sk"].as_s().unwrap().clone()).collect()
}

/// How Semaphore.ItemsFailed tells of the items.
async fn failures(run: &Execution) -> Value {
    let cause = run.ended().await.failed_with("Semaphore.ItemsFailed");
    serde_json::from_str(&cause).unwrap()
}

async fn cost(world: &World, items: usize) -> (usize, usize) {
    let input = json!({"key": fresh_key(), "ttl_seconds": 30, "items": vec![json!({}); items]});
    let run = start(world, input).await;
    let output = run.ended().await.output();
    assert_eq!(output.as_array().unwrap().len(), items);
    (run.path().await.len(), run.history().await.len())
}

#[test]
fn an_item_costs_three_transitions_and_17_events_and_the_whole_three_more() {
    with_world(async |world| {
        let none = cost(world, 0).await;
        assert_eq!(none.0, 3);
        for items in [1, 4] {
            let (transitions, events) = cost(world, items).await;
            assert_eq!(transitions, 3 + 3 * items);
            assert_eq!(events, none.1 + 17 * items);
        }
    });
}

#[test]
fn twelve_items_of_each_of_two_executions_share_five_permits() {
    with_world(async |world| {
        let key = fresh_key();
        let items: Vec<_> = (0..12)
            .map(|n| json!({"seconds": 0.2, "output_bytes": n + 1}))
            .collect();
        let input = json!({"key": key, "ttl_seconds": 30, "items": items});
        let runs = [start(world, input.clone()).await, start(world, input).await];
        let mut used = BTreeSet::new();
        for run in &runs {
            let output = run.ended().await.output();
            for (n, answer) in output.as_array().unwrap().iter().enumerate() {
                assert_eq!(answer["result"]["step"], n.to_string());
                assert_eq!(answer["result"]["output"].as_str().unwrap().len(), n + 1);
                used.insert(answer["permit"].as_u64().unwrap());
            }
        }
        // Never two under one permit, and no sixth permit: never more than five inside.
        let mut writes = 0;
        for permit in 0..5 {
            writes += world.audit(&format!("{key}#{permit}")).await;
        }
        assert_eq!(writes, 2 * 12 * 2);
        assert!(
            used.len() > 1 && used.iter().all(|permit| *permit < 5),
            "{used:?}"
        );
        assert_eq!(held(world, &key).await, BTreeSet::new());
    });
}

#[test]
fn items_of_one_execution_never_refuse_each_other_and_each_has_a_request_of_its_own() {
    with_world(async |world| {
        let key = fresh_key();
        let items = vec![json!({"seconds": 0.1}); 6];
        let input = json!({"key": key, "permits": 2, "ttl_seconds": 30, "items": items});
        let run = start(world, input).await;
        run.ended().await.output();
        let mut requests = BTreeSet::new();
        for event in run.history().await {
            assert!(event.task_failed_event_details().is_none());
            let scheduled = event.task_scheduled_event_details();
            if let Some(scheduled) = scheduled {
                let parameters: Value = serde_json::from_str(scheduled.parameters()).unwrap();
                if let Some(request) = parameters["Payload"]["request_id"].as_str() {
                    requests.insert(request.rsplit('/').next().unwrap().to_owned());
                }
            }
        }
        let indexes = ["0", "1", "2", "3", "4", "5"];
        assert_eq!(requests, indexes.map(str::to_owned).into());
    });
}

#[test]
fn the_permits_are_shared_by_executions_whose_items_are_many_at_once() {
    with_world(async |world| {
        let key = fresh_key();
        let mut runs = Vec::new();
        for _ in 0..4 {
            let items = vec![json!({"seconds": 0.1}); 2];
            let input = json!({"key": key, "permits": 2, "ttl_seconds": 30, "items": items});
            runs.push(start(world, input).await);
        }
        for run in &runs {
            run.ended().await.output();
        }
        let writes =
            world.audit(&format!("{key}#0")).await + world.audit(&format!("{key}#1")).await;
        assert_eq!(writes, 4 * 2 * 2);
    });
}

#[test]
fn a_failing_item_and_one_beyond_its_time_leave_the_others_alone_and_fail_the_whole_in_the_end() {
    with_world(async |world| {
        let key = fresh_key();
        let items = json!([{}, {"fail": "Payment.Declined"}, {"seconds": 30}, {"seconds": 0.1}, {"panic": true}, {}]);
        let input = json!({"key": key, "permits": 3, "ttl_seconds": 3, "items": items});
        let run = start(world, input).await;
        let told = failures(&run).await;
        assert_eq!(told["failed"], json!([1, 2, 4]));
        let first = told["first"].as_array().unwrap();
        assert_eq!(first.len(), 3);
        assert_eq!(first[0]["Error"], "Payment.Declined");
        assert!(
            first[0]["Cause"]
                .as_str()
                .unwrap()
                .contains("asked to fail")
        );
        assert_eq!(first[1]["Error"], "Lease.StepTimeout");
        // Five have come and gone; the sixth may still be inside, so its permit stays.
        let mut writes = 0;
        for permit in 0..3 {
            writes += world.audit(&format!("{key}#{permit}")).await;
        }
        assert_eq!(writes, 5 * 2 + 1);
        assert_eq!(held(world, &key).await.len(), 1);
    });
}

#[test]
fn all_failed_items_are_named_and_ten_told_of() {
    with_world(async |world| {
        let items = vec![json!({"fail": "Step.Broken"}); 12];
        let input = json!({"key": fresh_key(), "permits": 12, "ttl_seconds": 30, "items": items});
        let told = failures(&start(world, input).await).await;
        assert_eq!(told["failed"].as_array().unwrap().len(), 12);
        assert_eq!(told["first"].as_array().unwrap().len(), 10);
    });
}

#[test]
fn a_permit_that_is_never_free_fails_its_item_with_the_holder() {
    with_world(async |world| {
        let key = fresh_key();
        world.occupy(&key, "the night shift").await;
        let mut definition: Value = serde_json::from_str(DEFINITION).unwrap();
        let acquire = &mut definition["States"]["Each"]["ItemProcessor"]["States"]["Acquire"];
        acquire["Retry"][0]["MaxAttempts"] = 1.into();
        let machine = world
            .create("hasty-semaphore", &definition.to_string())
            .await;
        let input = json!({"key": key, "permits": 1, "ttl_seconds": 30, "items": [{}]});
        let run = world.start(&machine, input).await;
        let told = failures(&run).await;
        assert_eq!(told["first"][0]["Error"], "Lease.Held");
        assert!(
            told["first"][0]["Cause"]
                .as_str()
                .unwrap()
                .contains("the night shift")
        );
        assert_eq!(
            run.path().await,
            ["Each", "Acquire", "NotReleased", "AllWell?", "ItemsFailed"]
        );
        assert_eq!(held(world, &key).await.len(), 1);
    });
}

#[test]
fn a_lost_permit_fails_its_item_and_frees_nobody_elses() {
    with_world(async |world| {
        let key = fresh_key();
        let items = json!([{"seconds": 1}]);
        let input = json!({"key": key, "permits": 1, "ttl_seconds": 30, "items": items});
        let run = start(world, input).await;
        run.in_task("Work", 1).await;
        world.take_away(&run.lease().await, None).await;
        let other = world.occupy(&key, "another").await;
        world.take_away(&other, Some("somebody else")).await;
        assert_eq!(failures(&run).await["first"][0]["Error"], "Lease.Lost");
        assert_eq!(world.holder(&key).await.as_deref(), Some("somebody else"));
    });
}

#[test]
fn a_permit_whose_answer_is_lost_is_replayed_and_not_taken_twice() {
    with_world(async |world| {
        let key = fresh_key();
        let proxy = world.stack.proxy();
        // All attempts of one call: the function answers Lease.Unavailable, the Retry repeats the request.
        proxy.inject_matching(Fault::FailAnswer, "UpdateItem", &key, 3);
        let input = json!({"key": key, "ttl_seconds": 30, "items": [{"seconds": 1}]});
        let run = start(world, input).await;
        run.in_task("Work", 1).await;
        assert_eq!(run.grant().await["grant"], "replayed");
        assert_eq!(held(world, &key).await.len(), 1);
        run.ended().await.output();
        assert_eq!(held(world, &key).await, BTreeSet::new());
    });
}

#[test]
fn a_refused_request_fails_every_item_under_its_own_name() {
    with_world(async |world| {
        let input = json!({"key": fresh_key(), "permits": 0, "ttl_seconds": 30, "items": [{}, {}]});
        let told = failures(&start(world, input).await).await;
        assert_eq!(told["failed"], json!([0, 1]));
        assert_eq!(told["first"][0]["Error"], "Lease.Invalid");
        // And what the step would have had too little time for.
        let input = json!({"key": fresh_key(), "ttl_seconds": 1, "items": [{}]});
        let told = failures(&start(world, input).await).await;
        assert_eq!(told["first"][0]["Error"], "Step.QueryEvaluationError");
    });
}

#[test]
fn a_redriven_item_proves_its_permit_before_it_starts() {
    with_world(async |world| {
        let machine = one_item(world, "one-item").await;
        for lost in [false, true] {
            let key = fresh_key();
            let run = world
                .start(&machine, item(&key, 30, &json!({"seconds": 1})))
                .await;
            run.in_task("Work", 1).await;
            run.stop().await;
            if lost {
                world.take_away(&run.lease().await, None).await;
            }
            run.redrive().await;
            let output = run.ended().await.output();
            let path = run.since_redrive().await;
            if lost {
                assert_eq!(output["failure"]["Error"], "Lease.Lost");
                assert_eq!(path, ["Work", "Prove", "NotReleased"]);
                assert_eq!(run.steps_since_redrive().await, 0);
            } else {
                assert_eq!(output["result"]["step"], "0");
                assert_eq!(path, ["Work", "Prove", "Work", "Release"]);
                assert_eq!(held(world, &key).await, BTreeSet::new());
            }
        }
    });
}

#[test]
fn a_redriven_list_is_worked_to_its_end() {
    with_world(async |world| {
        let key = fresh_key();
        let items = json!([{}, {"seconds": 1}]);
        let input = json!({"key": key, "ttl_seconds": 30, "items": items});
        let run = start(world, input).await;
        run.in_task("Work", 2).await;
        run.stop().await;
        run.redrive().await;
        let output = run.ended().await.output();
        assert_eq!(output.as_array().unwrap().len(), 2);
        for permit in 0..5 {
            assert_eq!(world.overlaps(&format!("{key}#{permit}")).await, 0);
        }
    });
}
