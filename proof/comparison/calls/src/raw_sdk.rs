//! The same requests by the SDK alone: those of the library, recorded before they are sent, and of the answer the one number that
//! a careful user reads.
//!
//! It makes up no ids and computes no digest or expression: the request has them. It keeps no condition apart from another failure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::{Builder, StalledStreamProtectionConfig};
use aws_sdk_dynamodb::operation::update_item::{
    UpdateItemInput, builders::UpdateItemFluentBuilder,
};
use aws_sdk_dynamodb::{Client, types::AttributeValue};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::{
    Intercept, context::BeforeSerializationInterceptorContextRef,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use aws_types::SdkConfig;
use leasehold::Connection;

use crate::Failed;

/// A client with nothing of the library's.
pub(crate) fn client(ambient: &SdkConfig) -> Client {
    let config =
        Builder::from(ambient).stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

/// Keeps each request that the library would send, which fails.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<UpdateItemInput>>>);

impl Intercept for Recorder {
    fn name(&self) -> &'static str {
        "Recorder"
    }

    fn read_before_serialization(
        &self,
        context: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input().downcast_ref::<UpdateItemInput>();
        let input = input.ok_or("another operation")?.clone();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(input);
        Err("recorded, and not sent".into())
    }
}

impl Recorder {
    /// The library's client, which sends nothing.
    pub(crate) fn client(&self, ambient: &SdkConfig) -> Client {
        let config = Connection::client(ambient).config().to_builder();
        Client::from_conf(config.interceptor(self.clone()).build())
    }

    /// The requests so far, each of which [`again`] sends as it is.
    pub(crate) fn requests(&self, client: &Client) -> Result<Vec<UpdateItemInput>, Failed> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for request in &*all {
            assert_eq!(again(client, request).as_input().clone().build()?, *request);
        }
        Ok(all.clone())
    }
}

/// The request, put together as somebody would by hand who knows its texts.
fn again(client: &Client, request: &UpdateItemInput) -> UpdateItemFluentBuilder {
    client
        .update_item()
        .set_table_name(request.table_name.clone())
        .set_key(request.key.as_ref().map(listed))
        .set_condition_expression(request.condition_expression.clone())
        .set_update_expression(request.update_expression.clone())
        .set_expression_attribute_names(request.expression_attribute_names.as_ref().map(listed))
        .set_expression_attribute_values(request.expression_attribute_values.as_ref().map(listed))
        .set_return_values(request.return_values.clone())
        .set_return_values_on_condition_check_failure(
            request.return_values_on_condition_check_failure.clone(),
        )
}

/// Made anew from its entries, as from a list.
fn listed<T: Clone>(map: &HashMap<String, T>) -> HashMap<String, T> {
    let entries = map.iter();
    entries
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Sends it. Answers the fencing token.
pub(crate) async fn send(client: &Client, request: &UpdateItemInput) -> Result<u64, Failed> {
    let output = again(client, request).send().await?;
    let token = output
        .attributes()
        .and_then(|item| item.get("fencing_token"));
    let token = token.and_then(|value: &AttributeValue| value.as_n().ok());
    Ok(token.ok_or("the answer lacks the number")?.parse()?)
}
