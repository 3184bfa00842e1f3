//! Those who ask for keys under load. Each asks once, and if it is refused goes on with another key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::AttributeValue;
use clap::ValueEnum;
use leasehold::{
    Acquire, Acquired, Connection, DynamoDb, ExtendOptions, Holder, Key, Lease, Leases, Settings,
    Ttl,
};
use serde::{Deserialize, Serialize};

use super::super::field::TABLE;

/// Who takes part.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Ours.
    Leasehold,
    /// The Rust crate of that name. It extends every 30 s by itself, so that a section has no extend.
    DynamodbLease,
    /// What one would write without a library: a conditional put, update and delete.
    DirectCalls,
}

impl Name {
    /// As a column beside ours.
    #[must_use]
    pub const fn as_peer(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::DynamodbLease => "dynamodb-lease",
            Self::DirectCalls => "direct calls",
        }
    }

    /// How many requests a section is made of.
    #[must_use]
    pub const fn per_section(self) -> u64 {
        match self {
            Self::Leasehold | Self::DirectCalls => 3,
            Self::DynamodbLease => 2,
        }
    }
}

/// One who asks.
pub enum Client {
    /// Ours.
    Leasehold(Box<Leases<DynamoDb>>, Holder),
    /// Each with locks of its own, as for one process each: clones of one keep each other out without a request.
    DynamodbLease(dynamodb_lease::Client),
    /// And a name.
    DirectCalls(aws_sdk_dynamodb::Client, String),
}

/// What shows that a key is one's own.
pub enum Held {
    /// Ours.
    Leasehold(Box<Lease>),
    /// Theirs.
    DynamodbLease(dynamodb_lease::Lease),
    /// The key.
    DirectCalls(String),
}

impl Held {
    /// The number by which the resource would know it, if there is one.
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        match self {
            Self::Leasehold(lease) => Some(lease.fencing_token.get()),
            Self::DynamodbLease(_) | Self::DirectCalls(_) => None,
        }
    }
}

const TTL: Duration = Duration::from_mins(1);

impl Client {
    /// One with connections of its own.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub async fn new(
        name: Name,
        who: String,
        config: &aws_config::SdkConfig,
    ) -> Result<Self, String> {
        let client = Connection::client(config);
        Ok(match name {
            Name::Leasehold => {
                let leases = Leases::new(DynamoDb::new(client, TABLE), Settings::default());
                Self::Leasehold(Box::new(leases), Holder::new(who).map_err(told)?)
            }
            Name::DynamodbLease => {
                let built = dynamodb_lease::Client::builder().build_and_check_db(client);
                Self::DynamodbLease(built.await.map_err(|error| format!("{error:#}"))?)
            }
            Name::DirectCalls => Self::DirectCalls(client, who),
        })
    }

    /// Asks once; none if somebody else holds it.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub async fn acquire(&self, key: &str) -> Result<Option<Held>, String> {
        match self {
            Self::Leasehold(leases, holder) => {
                let ttl = Ttl::new(TTL).map_err(told)?;
                let request = Acquire::new(Key::new(key).map_err(told)?, holder.clone(), ttl);
                match leases.acquire(request).await.map_err(told)? {
                    Acquired::Granted(granted) => {
                        Ok(Some(Held::Leasehold(Box::new(granted.lease))))
                    }
                    Acquired::Held(_) => Ok(None),
                }
            }
            Self::DynamodbLease(client) => {
                let lease = client.try_acquire(key).await;
                Ok(lease
                    .map_err(|error| format!("{error:#}"))?
                    .map(Held::DynamodbLease))
            }
            Self::DirectCalls(client, who) => {
                let put = client
                    .put_item()
                    .table_name(TABLE)
                    .item("pk", text(key))
                    .item("sk", text(DIRECT))
                    .item("owner", text(who))
                    .item("expires", expires())
                    .condition_expression("attribute_not_exists(pk) OR #expires < :now")
                    .expression_attribute_names("#expires", "expires")
                    .expression_attribute_values(":now", number(now()))
                    .send()
                    .await;
                match put.map_err(aws_sdk_dynamodb::error::SdkError::into_service_error) {
                    Ok(_) => Ok(Some(Held::DirectCalls(key.to_owned()))),
                    Err(error) if error.is_conditional_check_failed_exception() => Ok(None),
                    Err(error) => Err(told(error)),
                }
            }
        }
    }

    /// Extends it, if that is the client's to do.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub async fn extend(&self, held: Held) -> Result<Held, String> {
        match (self, held) {
            (Self::Leasehold(leases, _), Held::Leasehold(lease)) => {
                let extended = leases.extend(&lease, ExtendOptions::default()).await;
                let lease = extended.map_err(told)?.into_lease();
                Ok(Held::Leasehold(Box::new(lease)))
            }
            (Self::DirectCalls(client, who), Held::DirectCalls(key)) => {
                let update = client
                    .update_item()
                    .table_name(TABLE)
                    .key("pk", text(&key))
                    .key("sk", text(DIRECT))
                    .update_expression("SET #expires = :expires")
                    .condition_expression("#owner = :owner")
                    .expression_attribute_names("#expires", "expires")
                    .expression_attribute_names("#owner", "owner")
                    .expression_attribute_values(":expires", expires())
                    .expression_attribute_values(":owner", text(who));
                update
                    .send()
                    .await
                    .map_err(|error| told(error.into_service_error()))?;
                Ok(Held::DirectCalls(key))
            }
            (_, held) => Ok(held),
        }
    }

    /// Gives it back.
    ///
    /// # Errors
    /// What went wrong, as text.
    pub async fn release(&self, held: Held) -> Result<(), String> {
        match (self, held) {
            (Self::Leasehold(leases, _), Held::Leasehold(lease)) => leases
                .release_strictly(&lease)
                .await
                .map(|_| ())
                .map_err(told),
            (Self::DirectCalls(client, who), Held::DirectCalls(key)) => {
                let delete = client
                    .delete_item()
                    .table_name(TABLE)
                    .key("pk", text(&key))
                    .key("sk", text(DIRECT))
                    .condition_expression("#owner = :owner")
                    .expression_attribute_names("#owner", "owner")
                    .expression_attribute_values(":owner", text(who));
                let deleted = delete.send().await;
                deleted
                    .map(|_| ())
                    .map_err(|error| told(error.into_service_error()))
            }
            (_, Held::DynamodbLease(lease)) => {
                lease.release().await.map_err(|error| format!("{error:#}"))
            }
            _ => Err("this is somebody else's".to_owned()),
        }
    }
}

/// The sort key of what direct calls write.
const DIRECT: &str = "DIRECT";

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn expires() -> AttributeValue {
    number(now() + TTL.as_secs())
}

/// In seconds since the epoch.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

fn told(error: impl std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |told, cause| format!("{told}: {cause}"))
}
