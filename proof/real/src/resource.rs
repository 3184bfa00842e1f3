//! What the leases protect: per key a number that everybody adds one to, by the library's own fence.
//!
//! A holder reads the number when it comes in. Coming in already writes the token, so that no late holder can write on
//! the basis of an old read.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use leasehold::{Counter, fence};
use leasehold_local::create_table;
use leasehold_proof::fixture::{n, s};

const RESOURCE: &str = "resource";

/// The protected numbers.
pub struct Resource {
    client: Client,
}

impl Resource {
    pub async fn create(client: Client) -> Self {
        let created = create_table(&client, RESOURCE, &["pk"], None).await;
        created.unwrap();
        Self { client }
    }

    /// Comes in with a token, and reads the number; none if a holder with a larger token was here.
    pub async fn enter(&self, key: &str, token: u64) -> Option<u64> {
        self.write(key, token, 0, "if_not_exists(#number, :number)", vec![])
            .await
    }

    /// Adds one to the number that was read, unless a holder with a larger token was here.
    pub async fn add(&self, key: &str, token: u64, read: u64) {
        let write = AttributeValue::L(vec![n(token), n(read + 1)]);
        self.write(key, token, read + 1, ":number", vec![write])
            .await;
    }

    /// The writes that were accepted, in their order: token and number.
    pub async fn writes(&self, key: &str) -> Vec<(u64, u64)> {
        let get = self.client.get_item().table_name(RESOURCE);
        let get = get.key("pk", s(key)).consistent_read(true);
        let item = get.send().await.unwrap().item.unwrap_or_default();
        let writes = item.get("writes").and_then(|writes| writes.as_l().ok());
        let pair = |write: &AttributeValue| {
            let write = write.as_l().ok()?;
            Some((number(write.first()?)?, number(write.get(1)?)?))
        };
        writes.into_iter().flatten().filter_map(pair).collect()
    }

    /// Answers the number.
    async fn write(
        &self,
        key: &str,
        token: u64,
        new: u64,
        becomes: &str,
        writes: Vec<AttributeValue>,
    ) -> Option<u64> {
        let guard = fence::condition(Counter::new(token).unwrap());
        let update = self.client.update_item().table_name(RESOURCE);
        let update = update
            .key("pk", s(key))
            .condition_expression(guard.condition)
            .update_expression(format!(
                "SET {}, #number = {becomes}, #writes = list_append(if_not_exists(#writes, :none), :writes)",
                guard.assignment
            ))
            .set_expression_attribute_names(Some(guard.names))
            .set_expression_attribute_values(Some(guard.values))
            .expression_attribute_names("#number", "number")
            .expression_attribute_names("#writes", "writes")
            .expression_attribute_values(":number", n(new))
            .expression_attribute_values(":none", AttributeValue::L(vec![]))
            .expression_attribute_values(":writes", AttributeValue::L(writes))
            .return_values(ReturnValue::AllNew);
        match update.send().await {
            Ok(updated) => number(updated.attributes?.get("number")?),
            Err(error) if error.code() == Some("ConditionalCheckFailedException") => None,
            Err(error) => panic!("the protected resource failed: {error:?}"),
        }
    }
}

fn number(value: &AttributeValue) -> Option<u64> {
    value.as_n().ok()?.parse().ok()
}
