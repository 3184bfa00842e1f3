//! What a row says of the pool of its grant.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Item, attributes as at, n, s, text, whole};
use crate::{
    outcomes::PoolLease,
    values::{Key, Permits},
};

/// What a held row says of the pool of its grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InPool {
    /// The key of the pool.
    pub key: Key,
    /// How many may be inside at once, as the request says.
    pub permits: Permits,
    /// Whether it has entered the pool. Nobody is notified of the grant before.
    pub entered: bool,
}

impl InPool {
    /// One that cannot be read is a pool without a name, which nobody enters.
    pub(crate) fn read(value: &AttributeValue) -> Self {
        let empty = Item::new();
        let fields = value.as_m().unwrap_or(&empty);
        let permits = whole(fields, at::PERMITS).and_then(|permits| permits.try_into().ok());
        let permits = permits.and_then(|permits| Permits::new(permits).ok());
        Self {
            key: Key::stored(text(fields, at::NAME).unwrap_or_default()),
            permits: permits.unwrap_or(Permits::LEAST),
            entered: whole(fields, at::ENTERED) == Some(1),
        }
    }

    pub(crate) fn to_value(&self) -> AttributeValue {
        AttributeValue::M(Item::from([
            (at::NAME.to_owned(), s(self.key.as_str())),
            (at::PERMITS.to_owned(), n(self.permits.get().into())),
            (at::ENTERED.to_owned(), n(self.entered.into())),
        ]))
    }

    /// The same for the handle; none while it waits.
    pub(crate) fn lease(&self) -> Option<PoolLease> {
        let name = Key::stored(self.key.pool_name()?);
        self.entered.then_some(PoolLease { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::make;

    #[test]
    fn pool_of_row_is_read_as_written() {
        let key = Key::of_pool(&make::key("imports"));
        for entered in [true, false] {
            let pool = InPool {
                key: key.clone(),
                permits: make::permits(7),
                entered,
            };
            assert_eq!(InPool::read(&pool.to_value()), pool);
        }
        assert!(Key::new(key.as_str()).is_err(), "it is no key of a caller");
    }
}
