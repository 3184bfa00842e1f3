//! Tables that are not there or not ours, and clients that do not know where to look.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use leasehold::{Connection, DynamoDb, Error, Holder, Leases, Settings, SweepBounds};

use crate::{
    bench::{TABLE, Table},
    calls::{Call, each},
};

/// What is wrong with the table.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Missing,
    KeySchema,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_or_one_of_another_schema_is_misconfigured_and_not_tried_again() {
    let wrong = [Wrong::Missing, Wrong::KeySchema];
    each(&wrong, &Call::ALL, async |wrong, mut scene| {
        let name = match wrong {
            Wrong::Missing => "elsewhere",
            Wrong::KeySchema => "other",
        };
        if matches!(wrong, Wrong::KeySchema) {
            create(&scene.table, name, &["id"]).await;
        }
        scene.leases = Leases::new(
            DynamoDb::new(scene.table.client.clone(), name),
            Settings::default(),
        )
        .with_clock(scene.clock.clone());
        scene.table.proxy.reset();
        misconfigured(scene.make().await.err(), name);
        assert_eq!(scene.requests(), 1, "{wrong:?}");
    })
    .await;
}

#[tokio::test]
async fn a_table_without_the_index_is_misconfigured_for_whoever_needs_it() {
    let table = Table::without_table().await;
    create(&table, TABLE, &["pk", "sk"]).await;
    let leases = table.leases();
    let lease = table.grant("k", "a", "1").await.lease;
    misconfigured(leases.sweep(SweepBounds::Schedule).await.err(), TABLE);
    misconfigured(leases.list(10, None).await.err(), TABLE);
    let holder = Holder::new("a").unwrap();
    misconfigured(leases.held_by(&holder, 10, None).await.err(), TABLE);
    // What needs one row only goes on.
    let _ = leases.release(&lease).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_region_is_misconfigured_and_nothing_is_sent() {
    each(&[()], &Call::ALL, async |(), mut scene| {
        let config = aws_config::SdkConfig::builder()
            .behavior_version(aws_config::BehaviorVersion::v2026_01_12())
            .endpoint_url(scene.table.proxy.url())
            .build();
        let store = DynamoDb::new(Connection::client(&config), TABLE);
        scene.leases = Leases::new(store, Settings::default()).with_clock(scene.clock.clone());
        misconfigured(scene.make().await.err(), "AWS_REGION");
        assert_eq!(scene.requests(), 0);
    })
    .await;
}

fn misconfigured(error: Option<Error>, named: &str) {
    let Some(error @ Error::Misconfigured { .. }) = error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().contains(named), "{named} in {error}");
}

/// A table with these keys and no index.
async fn create(table: &Table, name: &str, keys: &[&str]) {
    let create = table.client.create_table().table_name(name);
    let mut create = create.billing_mode(BillingMode::PayPerRequest);
    for (key, kind) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let part = KeySchemaElement::builder()
            .attribute_name(*key)
            .key_type(kind);
        let text = AttributeDefinition::builder().attribute_name(*key);
        let text = text.attribute_type(ScalarAttributeType::S);
        create = create
            .key_schema(part.build().unwrap())
            .attribute_definitions(text.build().unwrap());
    }
    create.send().await.unwrap();
}
