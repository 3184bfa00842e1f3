//! Creating and checking the table, whose definition is the template's.

use leasehold::Error;

use leasehold_proof::fixture::{TABLE, Table, request};

#[tokio::test]
async fn a_table_is_created_once_and_checked() {
    let table = Table::without_table().await;
    let (client, name) = (&table.client, "fresh");
    let missing = leasehold::table::check(client, name).await;
    assert!(
        matches!(missing, Err(Error::Misconfigured { .. })),
        "{missing:?}"
    );
    leasehold::table::create(client, name).await.unwrap();
    leasehold::table::create(client, name)
        .await
        .expect("safe to repeat");
    leasehold::table::check(client, name).await.unwrap();
}

#[tokio::test]
async fn a_table_of_another_shape_is_named_fault_by_fault() {
    use aws_sdk_dynamodb::types::{
        AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    };
    let table = Table::without_table().await;
    let key = KeySchemaElement::builder()
        .attribute_name("id")
        .key_type(KeyType::Hash);
    let id = AttributeDefinition::builder().attribute_name("id");
    table
        .client
        .create_table()
        .table_name(TABLE)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key.build().unwrap())
        .attribute_definitions(id.attribute_type(ScalarAttributeType::S).build().unwrap())
        .send()
        .await
        .unwrap();
    let fault = leasehold::table::check(&table.client, TABLE)
        .await
        .unwrap_err();
    for part in [
        "keys are not pk",
        "attribute sk",
        "index held",
        "no stream of NEW_IMAGE",
        "TTL attribute is not purge_at",
    ] {
        assert!(fault.to_string().contains(part), "{part} in {fault}");
    }
    let refused = table.leases().acquire(request("k", "a", "1")).await;
    assert!(
        matches!(refused, Err(Error::Misconfigured { .. })),
        "{refused:?}"
    );
}
