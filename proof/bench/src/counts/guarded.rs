//! A write to the resource in the middle of a section: unguarded, guarded by the fence, and guarded by the lease itself.

use std::time::Instant;

use aws_sdk_dynamodb::types::{TransactWriteItem, Update};
use leasehold::fence;

use super::clients::{Lock, Ours, Setting, TABLE, Who, table, text, told};
use super::played::{Marks, Played};
use super::sections::site;
use crate::site::Site;

const RESOURCE: &str = "orders";

/// The three of them.
pub async fn writes(setting: &Setting) -> Result<Vec<Played>, String> {
    let site = site().await?;
    let mut ours = Ours::enter(&site, setting).await?;
    let held = ours.acquire("orders/42").await?;
    let client = &ours.client;
    table(client, RESOURCE).await?;

    let unguarded = async || {
        let update = client.update_item().table_name(RESOURCE);
        let update = update
            .key("pk", text("unguarded"))
            .update_expression("SET #status = :status")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":status", text("paid"));
        let sent = update.send().await;
        sent.map(drop).map_err(|error| told(&error))
    };
    let fenced = async || {
        let mut guard = fence::condition(held.fencing_token);
        guard
            .names
            .insert("#status".to_owned(), "status".to_owned());
        guard.values.insert(":status".to_owned(), text("paid"));
        let update = client.update_item().table_name(RESOURCE);
        let update = update
            .key("pk", text("fenced"))
            .condition_expression(guard.condition)
            .update_expression(format!("SET {}, #status = :status", guard.assignment))
            .set_expression_attribute_names(Some(guard.names))
            .set_expression_attribute_values(Some(guard.values));
        let sent = update.send().await;
        sent.map(drop).map_err(|error| told(&error))
    };
    let under_the_lease = async || {
        let check = held.condition_check(TABLE);
        let check = check.map_err(|error| told(&error))?;
        let update = Update::builder().table_name(RESOURCE);
        let update = update
            .key("pk", text("under the lease"))
            .update_expression("SET #status = :status")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":status", text("paid"))
            .build();
        let update = update.map_err(|error| told(&error))?;
        let both = client.transact_write_items();
        let both = both
            .transact_items(TransactWriteItem::builder().condition_check(check).build())
            .transact_items(TransactWriteItem::builder().update(update).build());
        let sent = both.send().await;
        sent.map(drop).map_err(|error| told(&error))
    };
    let (direct, ours) = (Who::DirectCalls.told(), Who::Leasehold.told());
    Ok(vec![
        twice(&site, "write, unguarded", direct, unguarded)
            .await?
            .knowing("a holder that wakes up late overwrites what its successor wrote"),
        twice(&site, "write, guarded by the fence", ours, fenced)
            .await?
            .knowing("refused once a later holder has written"),
        twice(&site, "write, guarded by the lease", ours, under_the_lease)
            .await?
            .knowing("refused as soon as the lease is over"),
    ])
}

/// The second of two, from which on the item is there.
async fn twice(
    site: &Site,
    scene: &str,
    client: &'static str,
    write: impl AsyncFn() -> Result<(), String>,
) -> Result<Played, String> {
    write().await?;
    let (mut marks, began) = (Marks::begin(site.door().counts()), Instant::now());
    write().await?;
    marks.step("write", site.door().counts());
    Ok(Played::once(scene, client, marks, began.elapsed()))
}
