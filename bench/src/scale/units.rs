//! What DynamoDB would charge: each request is made to ask for it on its way, and the answers are read.
//!
//! A write whose condition is refused is charged too, and no answer says so: such a one is not in it.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::config::interceptors::FinalizerInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::{
    delete_item::DeleteItemOutput, get_item::GetItemOutput, put_item::PutItemOutput,
    query::QueryOutput, scan::ScanOutput, transact_get_items::TransactGetItemsOutput,
    transact_write_items::TransactWriteItemsOutput, update_item::UpdateItemOutput,
};
use aws_sdk_dynamodb::types::ConsumedCapacity;
use serde::{Deserialize, Serialize};

/// Units, of the table and of its index together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Units {
    /// To write.
    pub write: f64,
    /// To read.
    pub read: f64,
    /// How much longer the answers were for telling it.
    pub bytes: u64,
}

impl Units {
    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            write: self.write + other.write,
            read: self.read + other.read,
            bytes: self.bytes + other.bytes,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            write: self.write - earlier.write,
            read: self.read - earlier.read,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

/// Reads the answers of one client.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Mutex<Units>>);

impl Meter {
    /// Everything so far.
    #[must_use]
    pub fn read(&self) -> Units {
        *self.units()
    }

    /// A client like this one, whose answers are read.
    #[must_use]
    pub fn on(&self, client: &aws_sdk_dynamodb::Client) -> aws_sdk_dynamodb::Client {
        let config = client.config().to_builder().interceptor(self.clone());
        aws_sdk_dynamodb::Client::from_conf(config.build())
    }

    fn units(&self) -> MutexGuard<'_, Units> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request, if it is one that can ask what it costs.
#[must_use]
pub fn asking(operation: &str, body: &[u8]) -> Option<Vec<u8>> {
    const ASKING: [&str; 8] = [
        "DeleteItem",
        "GetItem",
        "PutItem",
        "Query",
        "Scan",
        "TransactGetItems",
        "TransactWriteItems",
        "UpdateItem",
    ];
    let open = body
        .strip_suffix(b"}")
        .filter(|_| ASKING.contains(&operation))?;
    Some([open, br#","ReturnConsumedCapacity":"TOTAL"}"#].concat())
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Ok(output)) = context.output_or_error() else {
            return Ok(());
        };
        let mut units = self.units();
        macro_rules! told {
            ($output:ty, $axis:ident, $beside:expr) => {
                if let Some(output) = output.downcast_ref::<$output>() {
                    for told in output.consumed_capacity().iter() {
                        units.$axis += told.capacity_units().unwrap_or_default();
                        units.bytes += length(told, $beside);
                    }
                }
            };
        }
        told!(UpdateItemOutput, write, Beside::Others);
        told!(DeleteItemOutput, write, Beside::Nothing);
        told!(TransactWriteItemsOutput, write, Beside::Nothing);
        told!(PutItemOutput, write, Beside::Nothing);
        told!(GetItemOutput, read, Beside::Others);
        told!(QueryOutput, read, Beside::Others);
        told!(ScanOutput, read, Beside::Others);
        told!(TransactGetItemsOutput, read, Beside::Others);
        Ok(())
    }
}

/// What an answer tells beside it.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Others,
}

/// How many bytes it took to tell this. A transaction has a list of it, with a field for its kind of units.
fn length(told: &ConsumedCapacity, beside: Beside) -> u64 {
    let table = told.table_name().unwrap_or_default();
    let units = told.capacity_units().unwrap_or_default();
    let mut text =
        format!(r#""ConsumedCapacity":{{"TableName":"{table}","CapacityUnits":{units:?}}}"#);
    if let Some(units) = told.write_capacity_units() {
        let _ = write!(text, r#"[],"WriteCapacityUnits":{units:?}"#);
    }
    if let Some(units) = told.read_capacity_units() {
        let _ = write!(text, r#"[],"ReadCapacityUnits":{units:?}"#);
    }
    let comma = match beside {
        Beside::Nothing => 0,
        Beside::Others => 1,
    };
    u64::try_from(text.len() + comma).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_is_as_long_as_it_is() {
        let told = ConsumedCapacity::builder();
        let told = told.table_name("leasehold").capacity_units(2.5);
        let one = r#""ConsumedCapacity":{"TableName":"leasehold","CapacityUnits":2.5},"#;
        let length =
            |told: ConsumedCapacity, beside| usize::try_from(length(&told, beside)).unwrap();
        assert_eq!(length(told.clone().build(), Beside::Others), one.len());
        let list = r#""ConsumedCapacity":[{"TableName":"leasehold","CapacityUnits":2.5,"WriteCapacityUnits":2.5}]"#;
        let told = told.write_capacity_units(2.5).build();
        assert_eq!(length(told, Beside::Nothing), list.len());
    }

    #[test]
    fn who_can_be_asked_is_asked() {
        let asked = asking("GetItem", br#"{"Key":{}}"#).unwrap();
        let asked = String::from_utf8(asked).unwrap();
        assert_eq!(asked, r#"{"Key":{},"ReturnConsumedCapacity":"TOTAL"}"#);
        assert_eq!(asking("CreateTable", b"{}"), None);
    }
}
