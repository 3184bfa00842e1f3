//! What only some can do at all: several keys in one go, and several permits of one key.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem};
use leasehold::{AcquireAll, AcquiredAll, BadValue, Holder, Key, Keys, LeaseSet, Permits, Ttl};

use super::clients::{Direct, HOLDER, Lock, Ours, Setting, TABLE, Who, refusable, text, told};
use super::played::{Marks, Played};
use super::sections::site;
use crate::site::Site;

/// How many may be in at once.
pub const PERMITS: u16 = 5;
const MANY: u16 = 100;

/// What is written of one key in a transaction.
type One<'a> = &'a (dyn Fn(&str) -> Result<TransactWriteItem, BuildError> + Sync);

/// So many keys at once: ours, in one transaction.
pub async fn keys(setting: &Setting, keys: usize) -> Result<Played, String> {
    let site = site().await?;
    let client = Ours::enter(&site, setting).await?;
    let set = || {
        let keys: Result<Vec<Key>, BadValue> = (0..keys)
            .map(|key| Key::new(format!("accounts/{key}")))
            .collect();
        let (keys, holder) = (Keys::new(keys?)?, Holder::new(HOLDER)?);
        Ok(AcquireAll::new(keys, holder, Ttl::new(setting.lease)?))
    };
    let set = || set().map_err(|error: BadValue| told(&error));
    let (mut marks, mut began) = (Marks::begin(site.door().counts()), Instant::now());
    // The second time the rows are there, as ever after.
    for _ in 0..2 {
        marks = Marks::begin(site.door().counts());
        began = Instant::now();
        let granted = match client.leases.acquire_all(set()?).await {
            Ok(AcquiredAll::Granted(granted)) => granted,
            Ok(AcquiredAll::Held(_)) => return Err("held by another".to_owned()),
            Err(error) => return Err(told(&error)),
        };
        marks.step("acquire", site.door().counts());
        let leases = LeaseSet::new(granted.leases).map_err(|error| told(&error))?;
        let released = client.leases.release_all(&leases).await;
        let _ = released.map_err(|error| told(&error))?;
        marks.step("release", site.door().counts());
    }
    let scene = format!("{keys} keys at once");
    let played = Played::once(scene, Who::Leasehold.told(), marks, began.elapsed());
    Ok(played.knowing("all or none of them"))
}

/// So many keys at once: direct calls, in one transaction, which tells nothing but that it was applied.
pub async fn keys_directly(setting: &Setting, keys: usize) -> Result<Played, String> {
    let site = site().await?;
    let direct = Direct::enter(&site, setting).await?;
    let (mut marks, began) = (Marks::begin(site.door().counts()), Instant::now());
    let put = |key: &str| {
        let put = Put::builder().table_name(TABLE);
        let put = put.item("pk", text(key)).item("owner", text(HOLDER));
        let put = put
            .condition_expression("attribute_not_exists(pk)")
            .build()?;
        Ok(TransactWriteItem::builder().put(put).build())
    };
    let delete = |key: &str| {
        let delete = Delete::builder().table_name(TABLE).key("pk", text(key));
        let delete = delete
            .condition_expression("#owner = :owner")
            .expression_attribute_names("#owner", "owner")
            .expression_attribute_values(":owner", text(HOLDER));
        Ok(TransactWriteItem::builder().delete(delete.build()?).build())
    };
    let write: [(&str, One); 2] = [("acquire", &put), ("release", &delete)];
    for (step, one) in write {
        let all: Result<Vec<_>, _> = (0..keys)
            .map(|key| one(&format!("accounts/{key}")))
            .collect();
        let write = direct.client.transact_write_items();
        let write = write.set_transact_items(Some(all.map_err(|error| told(&error))?));
        write.send().await.map_err(|error| told(&error))?;
        marks.step(step, site.door().counts());
    }
    let scene = format!("{keys} keys at once");
    let played = Played::once(scene, Who::DirectCalls.told(), marks, began.elapsed());
    Ok(played.knowing("all or none of them"))
}

/// Everybody goes in who may, then all go out: ours.
pub async fn semaphore(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let client = Ours::enter(&site, setting).await?;
    // The second time the rows are there, as ever after.
    in_and_out(&site, &client, PERMITS, PERMITS).await?;
    let (marks, took) = in_and_out(&site, &client, PERMITS, PERMITS).await?;
    let played = Played::once(semaphore_name(), Who::Leasehold.told(), marks, took);
    Ok(played
        .of_sections(PERMITS.into())
        .knowing("a lease for each"))
}

/// One goes in where many may: ours, which reads all permits' rows first.
pub async fn one_of_many(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let client = Ours::enter(&site, setting).await?;
    in_and_out(&site, &client, MANY, MANY).await?;
    let (marks, took) = in_and_out(&site, &client, MANY, 1).await?;
    let scene = format!("semaphore of {MANY}, one taken");
    let played = Played::once(scene, Who::Leasehold.told(), marks, took);
    Ok(played.knowing("a lease; all permits' rows are read first"))
}

async fn in_and_out(
    site: &Site,
    client: &Ours,
    permits: u16,
    holders: u16,
) -> Result<(Marks, Duration), String> {
    let (mut marks, began) = (Marks::begin(site.door().counts()), Instant::now());
    let permits = Permits::new(permits).map_err(|error| told(&error))?;
    let mut held = Vec::new();
    for holder in 0..holders {
        let request = client.request("partner", &format!("{HOLDER}-{holder}"))?;
        let acquired = client.leases.acquire(request.permits(permits)).await;
        let granted = acquired.and_then(leasehold::Acquired::granted);
        held.push(granted.map_err(|error| told(&error))?.lease);
    }
    marks.step("acquire", site.door().counts());
    for lease in &held {
        let released = client.leases.release_strictly(lease).await;
        let _ = released.map_err(|error| told(&error))?;
    }
    marks.step("release", site.door().counts());
    Ok((marks, began.elapsed()))
}

/// The same as a counter: what a holder took that crashes is lost for ever.
pub async fn counter(setting: &Setting) -> Result<Played, String> {
    let site = site().await?;
    let direct = Direct::enter(&site, setting).await?;
    let count = async |by: i64| {
        let update = direct.client.update_item().table_name(TABLE);
        let update = update
            .key("pk", text("partner"))
            .update_expression("ADD held :by")
            .condition_expression("attribute_not_exists(held) OR held < :most")
            .expression_attribute_values(":by", number(by))
            // Whoever gives one back need not look.
            .expression_attribute_values(
                ":most",
                number(if by > 0 { PERMITS.into() } else { i64::MAX }),
            );
        match refusable(update.send().await) {
            Ok(true) => Ok(()),
            Ok(false) => Err("none is left".to_owned()),
            Err(error) => Err(error),
        }
    };
    let (mut marks, began) = (Marks::begin(site.door().counts()), Instant::now());
    for (step, by) in [("acquire", 1), ("release", -1)] {
        for _ in 0..PERMITS {
            count(by).await?;
        }
        marks.step(step, site.door().counts());
    }
    let played = Played::once(
        semaphore_name(),
        Who::DirectCalls.told(),
        marks,
        began.elapsed(),
    );
    Ok(played
        .of_sections(PERMITS.into())
        .knowing("a counter: a crash loses a permit for ever, a lost answer may count twice"))
}

fn semaphore_name() -> String {
    format!("semaphore of {PERMITS}, all taken")
}

fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
