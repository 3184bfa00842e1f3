//! What the leases protect: per key a number that everybody adds one to, once with the fence and once without.
//!
//! Who has the number read it when it came in. With the fence, coming in is a write of the token already, so that
//! nobody who is late can write what was read before; without, whoever writes last wins.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ReturnValue,
    ScalarAttributeType,
};

use crate::Error;

const RESOURCE: &str = "resource";

/// The protected numbers.
#[derive(Clone, Debug)]
pub struct Resource {
    client: Client,
}

/// What the resource itself remembers of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witnessed {
    /// The tokens of the writes that the fence let pass, in their order.
    pub tokens: Vec<u64>,
    /// The number with the fence.
    pub guarded: u64,
    /// The number without.
    pub unguarded: u64,
}

/// What was read on coming in.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// The number with the fence.
    pub guarded: u64,
    /// The number without.
    pub unguarded: u64,
}

impl Resource {
    /// Creates its table.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn create(client: Client) -> Result<Self, Error> {
        let key = KeySchemaElement::builder()
            .attribute_name("pk")
            .key_type(KeyType::Hash)
            .build();
        let text = AttributeDefinition::builder()
            .attribute_name("pk")
            .attribute_type(ScalarAttributeType::S)
            .build();
        let create = client
            .create_table()
            .table_name(RESOURCE)
            .billing_mode(BillingMode::PayPerRequest)
            .key_schema(key.map_err(|error| failed(&error))?)
            .attribute_definitions(text.map_err(|error| failed(&error))?);
        create.send().await.map_err(|error| sdk(&error))?;
        Ok(Self { client })
    }

    /// Comes in with a token; none if somebody with a larger one was here.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn enter(&self, key: &str, token: u64) -> Result<Option<Entered>, Error> {
        let Some(guarded) = self.guarded(key, token, None).await? else {
            return Ok(None);
        };
        let unguarded = self.read(key).await?.unguarded;
        Ok(Some(Entered { guarded, unguarded }))
    }

    /// Adds one to what was read, with the fence; whether it let that pass.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn add(&self, key: &str, token: u64, read: u64) -> Result<bool, Error> {
        let added = self.guarded(key, token, Some(read + 1)).await?;
        Ok(added.is_some())
    }

    /// Adds one to what was read, whoever has been here since.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn add_without(&self, key: &str, read: u64) -> Result<(), Error> {
        let put = self.client.put_item().table_name(RESOURCE);
        let put = put
            .item("pk", AttributeValue::S(format!("{key} unguarded")))
            .item("number", AttributeValue::N((read + 1).to_string()));
        put.send().await.map_err(|error| sdk(&error))?;
        Ok(())
    }

    /// What it remembers.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn read(&self, key: &str) -> Result<Witnessed, Error> {
        let guarded = self.item(key).await?;
        let tokens = guarded.get("tokens").and_then(|list| list.as_l().ok());
        let tokens = tokens.into_iter().flatten().filter_map(number).collect();
        let unguarded = self.item(&format!("{key} unguarded")).await?;
        Ok(Witnessed {
            tokens,
            guarded: guarded.get("number").and_then(number).unwrap_or(0),
            unguarded: unguarded.get("number").and_then(number).unwrap_or(0),
        })
    }

    async fn item(&self, pk: &str) -> Result<HashMap<String, AttributeValue>, Error> {
        let get = self.client.get_item().table_name(RESOURCE);
        let get = get
            .key("pk", AttributeValue::S(pk.to_owned()))
            .consistent_read(true);
        Ok(get
            .send()
            .await
            .map_err(|error| sdk(&error))?
            .item
            .unwrap_or_default())
    }

    /// The fence of the protocol: no token that is older than the newest seen. Answers the number.
    async fn guarded(
        &self,
        key: &str,
        token: u64,
        becomes: Option<u64>,
    ) -> Result<Option<u64>, Error> {
        let n = |number: u64| AttributeValue::N(number.to_string());
        let becoming = if becomes.is_some() {
            "#number = :number"
        } else {
            "#number = if_not_exists(#number, :number)"
        };
        let update = self.client.update_item().table_name(RESOURCE);
        let update = update
            .key("pk", AttributeValue::S(key.to_owned()))
            .condition_expression("attribute_not_exists(#fence) OR #fence <= :token")
            .update_expression(format!(
                "SET #fence = :token, {becoming}, #tokens = list_append(if_not_exists(#tokens, :none), :tokens)"
            ))
            .expression_attribute_names("#fence", "fence")
            .expression_attribute_names("#number", "number")
            .expression_attribute_names("#tokens", "tokens")
            .expression_attribute_values(":token", n(token))
            .expression_attribute_values(":number", n(becomes.unwrap_or(0)))
            .expression_attribute_values(":none", AttributeValue::L(Vec::new()))
            .expression_attribute_values(":tokens", AttributeValue::L(vec![n(token)]))
            .return_values(ReturnValue::AllNew);
        match update.send().await {
            Ok(updated) => {
                let item = updated.attributes.unwrap_or_default();
                Ok(Some(item.get("number").and_then(number).unwrap_or(0)))
            }
            Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
            Err(error) => Err(sdk(&error)),
        }
    }
}

fn number(value: &AttributeValue) -> Option<u64> {
    value.as_n().ok()?.parse().ok()
}

fn failed(error: &impl ToString) -> Error {
    Error::Resource(error.to_string())
}

fn sdk<E: std::error::Error + 'static, R: std::fmt::Debug + 'static>(
    error: &SdkError<E, R>,
) -> Error {
    Error::Resource(DisplayErrorContext(error).to_string())
}
