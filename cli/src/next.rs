//! The first waiter for a key that a command has freed is served at once, if the stack or the caller's rights allow it.

use std::sync::Arc;

use leasehold::{Key, KeyDetails};
use serde_json::json;

use crate::connect::TableClient;
use crate::environment;
use crate::step_functions::Everybody;

/// The variable that names the stack's function sweep.
const SWEEP: &str = "LEASEHOLD_SWEEP";

/// Has the first waiter for `key` served: by the stack's function sweep if it is named, which has every right that it takes, and
/// otherwise with the rights of the caller. False if nobody is known to have been served: then sweep's next run does it.
pub(crate) async fn serve(table_client: &TableClient, key: &Key) -> bool {
    let view = table_client.leases.key_view(key, KeyDetails::default());
    if view.await.is_ok_and(|view| view.waiting() == 0) {
        return false;
    }
    if let Some(function) = environment::text(SWEEP) {
        return by_the_stack(table_client, &function, key).await;
    }
    let Some(everybody) = Everybody::of(table_client) else {
        return false;
    };
    let queue = table_client.leases.clone();
    let queue = queue.with_engine(Arc::new(everybody));
    let queue = queue.with_starts(table_client.starts.clone());
    queue.hand_over(key).await.unwrap_or(false)
}

async fn by_the_stack(table_client: &TableClient, function: &str, key: &Key) -> bool {
    let lambda = aws_sdk_lambda::Client::new(&table_client.config);
    let event = match key.pool_name() {
        Some(name) => json!({"pool": name}),
        None => json!({"key": key}),
    };
    let event = event.to_string().into_bytes();
    let invoke = lambda.invoke().function_name(function);
    let Ok(answer) = invoke.payload(event.into()).send().await else {
        return false;
    };
    let payload = answer.payload().map(AsRef::as_ref).unwrap_or_default();
    let swept: serde_json::Value = serde_json::from_slice(payload).unwrap_or_default();
    answer.function_error().is_none() && swept["granted"].as_u64().is_some_and(|told| told > 0)
}
