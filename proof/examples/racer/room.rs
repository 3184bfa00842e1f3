//! A room with places for several, which knows by itself who is inside.
//!
//! One item, `sk` = `ROOM`, that is there before anybody comes: `places`; `inside`, a map of
//! permit and token to `holder` and `until` (when that one promised to be out); `fences`, a map of
//! permit to the highest token accepted, and one more once that one has left, so that none of its
//! writes that come late can bring it in again; `entries` (writes accepted so far) and `overlaps`
//! (times that more were inside than there are places). One item per accepted write, `sk` = its
//! number: `permit`, `token`, `holder`, `op`, `at` in milliseconds and `inside`, how many were.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    operation::update_item::{UpdateItemError, builders::UpdateItemFluentBuilder},
    types::{AttributeValue, ReturnValue},
};
use leasehold::{Clock as _, Lease, SystemClock, Timestamp};

type Item = HashMap<String, AttributeValue>;

pub struct Room {
    client: Client,
    table: String,
}

impl Room {
    pub const fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// Goes in, or says until when it now stays.
    pub async fn enter(&self, lease: &Lease) -> Result<(), &'static str> {
        let token = lease.fencing_token.get();
        let stay = HashMap::from([
            ("holder".to_owned(), text(lease.holder.as_str())),
            ("until".to_owned(), number(lease.safe_until.as_millis())),
        ]);
        let update = self
            .update(lease)
            .update_expression(
                "SET #inside.#pass = :stay, #fences.#permit = :fence, #entries = #entries + :one",
            )
            .expression_attribute_values(":stay", AttributeValue::M(stay));
        self.accepted(update, lease, token, "enter").await
    }

    /// Goes out.
    pub async fn leave(&self, lease: &Lease) -> Result<(), &'static str> {
        // No semaphore ever grants this token: its tokens rise by two.
        let closed = lease.fencing_token.get() + 1;
        let update = self.update(lease).update_expression(
            "SET #fences.#permit = :fence, #entries = #entries + :one REMOVE #inside.#pass",
        );
        self.accepted(update, lease, closed, "leave").await
    }

    fn update(&self, lease: &Lease) -> UpdateItemFluentBuilder {
        let pass = format!("{}/{}", lease.permit, lease.fencing_token);
        self.of(lease)
            .condition_expression(
                "attribute_not_exists(#fences.#permit) OR #fences.#permit <= :fence",
            )
            .expression_attribute_names("#inside", "inside")
            .expression_attribute_names("#pass", pass)
            .expression_attribute_names("#fences", "fences")
            .expression_attribute_names("#permit", lease.permit.to_string())
            .expression_attribute_names("#entries", "entries")
    }

    fn of(&self, lease: &Lease) -> UpdateItemFluentBuilder {
        let update = self.client.update_item().table_name(&self.table);
        update
            .key("pk", text(lease.key.as_str()))
            .key("sk", text("ROOM"))
            .expression_attribute_values(":one", number(1))
    }

    async fn accepted(
        &self,
        update: UpdateItemFluentBuilder,
        lease: &Lease,
        fence: u64,
        op: &str,
    ) -> Result<(), &'static str> {
        let update = update
            .expression_attribute_values(":fence", number(fence))
            .return_values(ReturnValue::AllNew);
        let item = match update.send().await {
            Ok(output) => output.attributes.unwrap_or_default(),
            Err(error) => {
                let refused = error
                    .as_service_error()
                    .is_some_and(UpdateItemError::is_conditional_check_failed_exception);
                // A process that still has the permit cannot have been overtaken on it.
                let valid = SystemClock.now() < lease.safe_until;
                return Err(match (refused, valid) {
                    (false, _) => "unavailable",
                    (true, false) => "stale",
                    (true, true) => "overtaken",
                });
            }
        };
        // Later than the write: whose time is not over by now was inside then.
        let now = SystemClock.now();
        let inside = inside(&item, now);
        let crowded = inside > of_number(&item, "places");
        if crowded {
            let count = self.of(lease).update_expression("ADD #overlaps :one");
            let count = count.expression_attribute_names("#overlaps", "overlaps");
            count.send().await.map_err(|_| "unavailable")?;
        }
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .item("pk", text(lease.key.as_str()))
            .item("sk", text(&format!("{:012}", of_number(&item, "entries"))))
            .item("permit", number(u64::from(lease.permit)))
            .item("token", number(lease.fencing_token.get()))
            .item("holder", text(lease.holder.as_str()))
            .item("op", text(op))
            .item("at", number(now.as_millis()))
            .item("inside", number(inside));
        put.send().await.map_err(|_| "unavailable")?;
        if crowded { Err("overlap") } else { Ok(()) }
    }
}

/// How many are inside whose time is not over.
fn inside(item: &Item, now: Timestamp) -> u64 {
    let stays = item.get("inside").and_then(|inside| inside.as_m().ok());
    let valid = stays.into_iter().flatten().filter(|(_, stay)| {
        let stay = stay.as_m().ok();
        stay.is_some_and(|stay| of_number(stay, "until") > now.as_millis())
    });
    valid.count() as u64
}

fn of_number(item: &Item, name: &str) -> u64 {
    let value = item.get(name).and_then(|value| value.as_n().ok());
    value.and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
