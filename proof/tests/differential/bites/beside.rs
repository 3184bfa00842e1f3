//! What else can stand in the place of a waiter's item: a stranger's, which is left alone, and one from before items
//! said when they were asked for, which is not. The memory store has no such strangers, hence no sequences.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Key,
    row::{Item, Stored},
    store::{Joined, Store as _},
};

use super::super::{LIMIT, Twins, bench::TABLE, changes, steps::Step};

pub async fn is_as_it_should_be(twins: &Twins, key: &str) -> Result<(), String> {
    let key = Key::new(key).unwrap();
    let store = twins.table.store();
    let (join, waiter) = changes::join(&Stored::Absent, &JOIN).unwrap();
    let made = store.call_back_by(&key, &waiter, LIMIT).await;
    made.map_err(|e| e.to_string())?;
    let items = twins.table.items(&key).await;
    let item = items.into_iter().next().ok_or("no item was made")?;

    let mut old = item.clone();
    old.remove("asked_at");
    put(twins, old).await;
    let asked = store.call_back_by(&key, &waiter, LIMIT).await;
    asked.map_err(|e| format!("an item from before was not taken up: {e}"))?;

    let mut strange = item;
    let another = AttributeValue::S("another".to_owned());
    strange.insert("request".to_owned(), another);
    put(twins, strange.clone()).await;
    if store.call_back_by(&key, &waiter, LIMIT).await.is_ok() {
        return Err("a stranger's item was taken for a waiter's".to_owned());
    }
    twins
        .run(key.as_str(), &[GRANT])
        .await
        .map_err(|e| e.to_string())?;
    let joined = store.join(&key, &join, &waiter, LIMIT).await;
    if !matches!(joined, Ok(Joined::Occupied)) {
        return Err(format!(
            "a stranger's item was in the way, and yet {joined:?}"
        ));
    }
    if !twins.table.items(&key).await.contains(&strange) {
        return Err("a stranger's item was changed".to_owned());
    }
    Ok(())
}

async fn put(twins: &Twins, item: Item) {
    let put = twins.table.client.put_item().table_name(TABLE);
    put.set_item(Some(item)).send().await.unwrap();
}

const GRANT: Step = Step::Grant {
    who: 0,
    request: 0,
    id: 0,
    at: 1,
    ttl: 5,
    observed: None,
    several: false,
    floor: 0,
};

const JOIN: Step = Step::Join {
    who: 1,
    request: 0,
    at: 1,
    observed: None,
    cap: 9,
    token: 0,
};
