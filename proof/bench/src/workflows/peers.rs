//! The others' machines: AWS's semaphore sample, and the loop that one writes without a library.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, TimeToLiveSpecification,
};
use serde_json::{Value, json};

use super::stage::{Stage, failed, told};
use crate::Error;

/// The sample in our own words, as the track record has it: its loop without the frame around it and without its Retry.
const SEMAPHORE: &str = include_str!("../../../track-record/peers/semaphore.asl.json");
const CLEANUP: &str = include_str!("../../../track-record/peers/semaphore-cleanup.asl.json");
const LOOP: &str = include_str!("polling-loop.asl.json");

/// How the sample asks again within its first state: after 1 s, and each time after twice as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    /// How often its Retry asks.
    pub(super) retries: u32,
    /// How long it pauses after that, in seconds.
    pub(super) pause: u32,
}

/// As published.
pub(super) const PUBLISHED: Asking = Asking {
    retries: 6,
    pause: 3,
};

impl Asking {
    /// How long a round takes, in seconds, requests left out.
    pub(super) const fn round(self) -> u32 {
        (1 << self.retries) - 1 + self.pause
    }
}

/// The name of the sample's item. To the loop, an item of that name is a key that is held.
pub(super) const HELD: &str = "permit";

/// A table and an item in it for one scene.
pub(super) struct Counter {
    table: String,
    name: String,
}

impl Counter {
    /// The sample's item: a count, which stands at `count`.
    pub(super) async fn new(stage: &Stage, scene: &str, count: u32) -> Result<Self, Error> {
        let counter = Self {
            table: format!("Peer-{scene}"),
            name: HELD.to_owned(),
        };
        let database = stage.database().await;
        lock_table(&database, &counter.table, "name", None)
            .await
            .map_err(|error| failed(told(&error)))?;
        counter.set(stage, count).await?;
        Ok(counter)
    }

    /// Sets the count, as whoever holds it would.
    pub(super) async fn set(&self, stage: &Stage, count: u32) -> Result<(), Error> {
        let database = stage.database().await;
        let put = database.put_item().table_name(&self.table);
        let put = put.item("name", AttributeValue::S(self.name.clone()));
        let count = AttributeValue::N(count.to_string());
        let put = put.item("currentlockcount", count).send().await;
        put.map_err(|error| failed(told(&error)))?;
        Ok(())
    }

    /// The sample with the frame that it has as published, and one permit.
    pub(super) async fn published(&self, stage: &Stage, asking: Asking) -> Result<String, Error> {
        self.create(stage, &framed(asking)?).await
    }

    /// Its loop alone, which pauses for a second.
    pub(super) async fn plain(&self, stage: &Stage) -> Result<String, Error> {
        self.create(stage, SEMAPHORE).await
    }

    /// What its rule starts when an execution has ended without success.
    pub(super) async fn cleanup(&self, stage: &Stage) -> Result<String, Error> {
        self.create(stage, CLEANUP).await
    }

    /// The loop without a library.
    pub(super) async fn polling_loop(&self, stage: &Stage) -> Result<String, Error> {
        self.create(stage, LOOP).await
    }

    async fn create(&self, stage: &Stage, definition: &str) -> Result<String, Error> {
        let names = [
            ("Table", self.table.as_str()),
            ("Name", self.name.as_str()),
            ("Limit", "1"),
        ];
        stage.create(definition, &names).await
    }
}

/// The sample's shape around the same states: taking is a Parallel with a Retry inside, and so is the work without one.
fn framed(asking: Asking) -> Result<String, Error> {
    let mut machine: Value =
        serde_json::from_str(SEMAPHORE).map_err(|error| failed(error.to_string()))?;
    let mut take = machine["States"].take();
    let states = take.as_object_mut();
    let states = states.ok_or_else(|| failed("the semaphore has no states"))?;
    let mut out = |name: &str| {
        let state = states.remove(name);
        state.ok_or_else(|| failed(format!("the semaphore has no {name}")))
    };
    let (mut work, give_back, done) = (out("Work")?, out("GiveBack")?, out("Done")?);
    ends(&mut work);
    ends(&mut take["Take"]);
    take["Take"]["Retry"] = json!([
        {"ErrorEquals": ["States.ALL"], "MaxAttempts": asking.retries, "BackoffRate": 2}
    ]);
    take["Pause"]["Seconds"] = asking.pause.into();
    take["IsItMine"]["Choices"][0]["Next"] = "In".into();
    take["In"] = json!({"Type": "Pass", "End": true});
    machine["StartAt"] = "GetLock".into();
    machine["States"] = json!({
        "GetLock": {
            "Type": "Parallel",
            "Branches": [{"StartAt": "Take", "States": take}],
            "Output": "{% $states.input %}",
            "Next": "DoWork"
        },
        "DoWork": {
            "Type": "Parallel",
            "Branches": [{"StartAt": "Work", "States": {"Work": work}}],
            "Next": "GiveBack"
        },
        "GiveBack": give_back,
        "Done": done,
    });
    Ok(machine.to_string())
}

fn ends(state: &mut Value) {
    if let Some(state) = state.as_object_mut() {
        state.remove("Next");
        state.insert("End".to_owned(), true.into());
    }
}

/// A table of items by name.
pub(super) async fn lock_table(
    client: &aws_sdk_dynamodb::Client,
    table: &str,
    key: &str,
    expiry: Option<&str>,
) -> Result<(), aws_sdk_dynamodb::Error> {
    let name = AttributeDefinition::builder()
        .attribute_name(key)
        .attribute_type(ScalarAttributeType::S)
        .build()?;
    let hash = KeySchemaElement::builder()
        .attribute_name(key)
        .key_type(KeyType::Hash)
        .build()?;
    let create = client.create_table().table_name(table);
    let create = create.billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(name).key_schema(hash);
    create.send().await?;
    if let Some(expiry) = expiry {
        let by = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(expiry)
            .build()?;
        let update = client.update_time_to_live().table_name(table);
        update.time_to_live_specification(by).send().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_published_a_round_takes_66_seconds() {
        assert_eq!(PUBLISHED.round(), 66);
        let short = Asking {
            retries: 1,
            pause: 1,
        };
        assert_eq!(short.round(), 2);
    }

    #[test]
    fn the_frame_has_all_states_of_the_loop_once() {
        let framed: Value = serde_json::from_str(&framed(PUBLISHED).unwrap()).unwrap();
        let outer: Vec<_> = framed["States"].as_object().unwrap().keys().collect();
        assert_eq!(outer, ["DoWork", "Done", "GetLock", "GiveBack"]);
        let inner = &framed["States"]["GetLock"]["Branches"][0]["States"];
        let names: Vec<_> = inner.as_object().unwrap().keys().collect();
        assert_eq!(names, ["In", "IsItMine", "Look", "Pause", "Take"]);
        let work = &framed["States"]["DoWork"]["Branches"][0]["States"]["Work"];
        for last in [work, &inner["Take"]] {
            assert_eq!((&last["End"], &last["Next"]), (&json!(true), &json!(null)));
        }
        assert_eq!(inner["Take"]["Retry"][0]["MaxAttempts"], 6);
        assert_eq!(inner["Take"]["Catch"][0]["Next"], "Look");
        assert_eq!(inner["Pause"]["Seconds"], 3);
    }
}
