//! S10: items that are not ours are unchanged.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::Error;
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
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn put(client: Client, keys: &[String]) -> Result<Self, Error> {
        let s = |text: &str| AttributeValue::S(text.to_owned());
        let n = |text: &str| AttributeValue::N(text.to_owned());
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
            let put = put.set_item(Some(item.clone())).send().await;
            put.map_err(|error| failed(&error))?;
            items.push((key.clone(), item));
        }
        Ok(Self { client, items })
    }

    /// S10: whether they are as they were.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn check(&self) -> Result<Vec<Violation>, Error> {
        let mut violations = Vec::new();
        for (key, item) in &self.items {
            let get = self.client.get_item().table_name(TABLE);
            let get = get.set_key(Some(at(key))).consistent_read(true);
            let found = get.send().await.map_err(|error| failed(&error))?.item;
            violations.extend(compare(key, item, found.as_ref()));
        }
        Ok(violations)
    }

    /// Takes them away.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub async fn remove(&self) -> Result<(), Error> {
        for (key, _) in &self.items {
            let delete = self.client.delete_item().table_name(TABLE);
            let deleted = delete.set_key(Some(at(key))).send().await;
            deleted.map_err(|error| failed(&error))?;
        }
        Ok(())
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
        ("pk".to_owned(), AttributeValue::S(key.to_owned())),
        ("sk".to_owned(), AttributeValue::S("LEASE#0000".to_owned())),
    ])
}

fn failed(error: &(impl std::error::Error + 'static)) -> Error {
    Error::Resource(aws_sdk_dynamodb::error::DisplayErrorContext(error).to_string())
}
