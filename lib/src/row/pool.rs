//! What a row says of the pool of its grant.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Item, attributes as at, n, s, text, whole};
use crate::{
    outcomes::PoolLease,
    values::{Counter, Key, LeaseId},
};

/// What a held row says of the pool of its grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InPool {
    /// The key of the pool.
    pub key: Key,
    /// The permit; none while it waits for one. Then nobody has been notified of the grant.
    pub permit: Option<PoolPermit>,
}

/// A permit of a pool: what ends it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolPermit {
    /// Which.
    pub permit: u16,
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// Its token.
    pub fencing_token: Counter,
}

impl InPool {
    /// One that cannot be read is a pool without a name, which nobody enters.
    pub(crate) fn read(value: &AttributeValue) -> Self {
        let empty = Item::new();
        let fields = value.as_m().unwrap_or(&empty);
        let permit = || {
            Some(PoolPermit {
                permit: whole(fields, at::POOL_PERMIT)?.try_into().ok()?,
                lease_id: LeaseId::stored(text(fields, at::LEASE_ID)?),
                fencing_token: whole(fields, at::FENCING_TOKEN).and_then(Counter::new)?,
            })
        };
        Self {
            key: Key::stored(text(fields, at::NAME).unwrap_or_default()),
            permit: permit(),
        }
    }

    pub(crate) fn to_value(&self) -> AttributeValue {
        let mut fields = Item::from([(at::NAME.to_owned(), s(self.key.as_str()))]);
        if let Some(permit) = &self.permit {
            fields.extend([
                (at::POOL_PERMIT.to_owned(), n(permit.permit.into())),
                (at::LEASE_ID.to_owned(), s(permit.lease_id.expose())),
                (at::FENCING_TOKEN.to_owned(), n(permit.fencing_token.get())),
            ]);
        }
        AttributeValue::M(fields)
    }

    /// The same for the handle; none while it waits.
    pub(crate) fn lease(&self) -> Option<PoolLease> {
        let permit = self.permit.clone()?;
        Some(PoolLease {
            name: Key::stored(self.key.pool_name()?),
            permit: permit.permit,
            lease_id: permit.lease_id,
            fencing_token: permit.fencing_token,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::make;

    #[test]
    fn pool_of_row_is_read_as_written() {
        let key = Key::of_pool(&make::key("imports"));
        let permit = PoolPermit {
            permit: 3,
            lease_id: LeaseId::random(),
            fencing_token: Counter::new(7).expect("valid"),
        };
        for permit in [None, Some(permit)] {
            let key = key.clone();
            let pool = InPool { key, permit };
            assert_eq!(InPool::read(&pool.to_value()), pool);
        }
        assert!(Key::new(key.as_str()).is_err(), "it is no key of a caller");
    }
}
