//! The rows that an operator has frozen or limited, which no index has.

use std::time::Duration;

use super::{DynamoDb, within};
use crate::{
    error::Error,
    row::attributes as at,
    row::{Item, Row, Stored, s, text},
    store::Address,
};

/// Items per request: at the size of a lease row half a second's reading at most.
const PAGE: i32 = 1000;

impl DynamoDb {
    /// The first permits that are frozen or limited, among the next items of the table, and where to go on.
    pub(crate) async fn scan_restricted(
        &self,
        from: Option<Item>,
        limit: Duration,
    ) -> Result<(Vec<(Address, Row)>, Option<Item>), Error> {
        let scan = self
            .client
            .scan()
            .table_name(&self.table)
            .filter_expression(
                "#sk = :first AND (attribute_exists(#frozen) OR attribute_exists(#limit))",
            )
            .expression_attribute_names("#sk", at::SK)
            .expression_attribute_names("#frozen", at::FROZEN)
            .expression_attribute_names("#limit", at::LIMIT)
            .expression_attribute_values(":first", s(&at::lease_sk(0)))
            .limit(PAGE)
            .set_exclusive_start_key(from);
        let output = within(scan.customize(), limit)
            .send()
            .await
            .map_err(|e| self.request("dynamodb:Scan", None).failed(e))?;
        let rows = output.items().iter().filter_map(read);
        Ok((rows.collect(), output.last_evaluated_key))
    }
}

/// A row and its address; none if it is not ours.
fn read(item: &Item) -> Option<(Address, Row)> {
    let address = Address::of(text(item, at::PK)?, text(item, at::SK)?)?;
    match Stored::read(Some(item)) {
        Stored::Row(row) => Some((address, row)),
        _ => None,
    }
}
