//! S10: items that are not ours are unchanged.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_proof::fixture::{n, s};

use crate::checks::Violation;
use crate::fixture::TABLE;

type Item = HashMap<String, AttributeValue>;

/// Items of somebody else in the place of lease rows.
pub struct Strangers {
    client: Client,
    items: Vec<(String, Item)>,
}

impl Strangers {
    /// Puts one in the place of each key's row: one without anything, one with a token that is none, one that looks
    /// held and expired.
    pub async fn put(client: Client, keys: &[String]) -> Self {
        let kinds: [Vec<(&str, AttributeValue)>; 3] = [
            vec![],
            vec![("fencing_token", s("seven")), ("version", n("7"))],
            vec![
                ("holder", s("somebody")),
                ("expires_at", n("1")),
                ("fencing_token", n("-3")),
                ("version", n("3")),
                ("sweep_after", n("1")),
            ],
        ];
        let mut items = Vec::new();
        for (key, kind) in keys.iter().zip(kinds.iter().cycle()) {
            let mut item = at(key);
            item.extend(
                kind.iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone())),
            );
            let put = client.put_item().table_name(TABLE);
            let put = put.set_item(Some(item.clone())).send();
            put.await.unwrap();
            items.push((key.clone(), item));
        }
        Self { client, items }
    }

    /// S10: whether they are as they were.
    pub async fn check(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (key, item) in &self.items {
            let get = self.client.get_item().table_name(TABLE);
            let get = get.set_key(Some(at(key))).consistent_read(true);
            let found = get.send().await.unwrap().item;
            violations.extend(compare(key, item, found.as_ref()));
        }
        violations
    }

    /// Takes them away.
    pub async fn remove(&self) {
        for (key, _) in &self.items {
            let delete = self.client.delete_item().table_name(TABLE);
            delete.set_key(Some(at(key))).send().await.unwrap();
        }
    }
}

pub(super) fn compare(key: &str, was: &Item, is: Option<&Item>) -> Option<Violation> {
    (is != Some(was)).then(|| {
        let what = format!("somebody else's item was changed from {was:?} to {is:?}");
        Violation::new("S10", key, what)
    })
}

fn at(key: &str) -> Item {
    HashMap::from([
        ("pk".to_owned(), s(key)),
        ("sk".to_owned(), s("LEASE#0000")),
    ])
}
