//! A lease row: what one item of the table says, once it is known to be ours.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    outcomes::{Ended, Previous},
    record::Record,
    store::attributes as at,
    values::{Counter, Holder, KeysDigest, LeaseId, Metadata, RequestDigest, Ttl},
};

/// An item as DynamoDB gives it.
pub type Item = HashMap<String, AttributeValue>;

/// What stands where a lease row should stand.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a row is what mostly stands there"
)]
pub enum Stored {
    /// Nothing.
    Absent,
    /// A row that this library wrote.
    Row(Row),
    /// An item that this library did not write, and why one can tell. It is never touched.
    Foreign(&'static str),
}

/// A lease row. A mutex is permit 0 of 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The token of the current or last grant.
    pub fencing_token: Counter,
    /// Bumped by every write.
    pub version: Counter,
    /// Who holds it, or held it last.
    pub granted_to: Holder,
    /// The request of the current or last grant.
    pub request: RequestDigest,
    /// Which keys that request asked for, if for several.
    pub request_keys: Option<KeysDigest>,
    /// The requests of the grants before that, latest first.
    pub past_requests: [Option<RequestDigest>; 3],
    /// The grant before the current or last one.
    pub previous: Option<Previous>,
    /// An operator keeps the key from being granted.
    pub frozen: Option<Frozen>,
    /// What an operator last did to the row.
    pub operator: Option<Record>,
    /// When DynamoDB may delete the row, in epoch seconds: [`Row::NEVER`] while it is frozen, so
    /// that a release in the meantime does not let the freeze be purged.
    pub purge_at: Option<u64>,
    /// Held or free.
    pub state: State,
}

/// How a row came to be frozen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Frozen {
    /// By an operator, who has signed for it.
    By(Record),
    /// By an attribute that somebody else has set, whatever its value.
    ByHand,
}

/// Whether a row is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody holds it, though perhaps past its deadline.
    Held(Holding),
    /// Nobody holds it.
    Free {
        /// How the last grant ended.
        ended: Ended,
    },
}

/// What a row says only while it is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Proof of ownership.
    pub lease_id: LeaseId,
    /// The length last asked for.
    pub ttl: Ttl,
    /// When it was granted.
    pub acquired_at: Timestamp,
    /// When it was last extended.
    pub extended_at: Option<Timestamp>,
    /// The deadline.
    pub expires_at: Timestamp,
    /// Before this instant sweep need not look at it.
    pub sweep_after: Option<Timestamp>,
    /// What the holder wants others to see.
    pub metadata: Metadata,
}

impl Row {
    /// A [`Row::purge_at`] that does not come: the end of the year 9999.
    pub const NEVER: u64 = 253_402_300_799;

    /// The current or last grant, as the next one is told of it: one that is taken over has
    /// expired. An operator who ends a grant by force takes the token above it.
    #[must_use]
    pub fn last_grant(&self) -> Previous {
        let ended = match &self.state {
            State::Free { ended } => *ended,
            State::Held(_) => Ended::Expired,
        };
        Previous {
            holder: self.granted_to.clone(),
            fencing_token: ended.token_of_grant(self.fencing_token),
            ended,
        }
    }

    /// The holding, while it is held.
    #[must_use]
    pub const fn holding(&self) -> Option<&Holding> {
        match &self.state {
            State::Held(holding) => Some(holding),
            State::Free { .. } => None,
        }
    }

    /// The last grant that is over: what the next grant will be told as `previous`, or, while the
    /// row is held, what this grant was told.
    #[must_use]
    pub fn last_ended(&self) -> Option<Previous> {
        match &self.state {
            State::Held(_) => self.previous.clone(),
            State::Free { .. } => Some(self.last_grant()),
        }
    }

    /// Whether `request` was ever granted here, as far as the row remembers.
    #[must_use]
    pub fn remembers(&self, request: &RequestDigest) -> bool {
        self.request == *request || self.past_requests.iter().flatten().any(|p| p == request)
    }

    /// Reads an item.
    ///
    /// # Errors
    /// What shows that this library did not write it.
    pub fn read(item: &Item) -> Result<Self, &'static str> {
        let granted_to = text(item, at::GRANTED_TO).ok_or("granted_to is not a string")?;
        Ok(Self {
            fencing_token: counter(item, at::FENCING_TOKEN)
                .ok_or("fencing_token is not a whole number from 1 to 2^52")?,
            version: counter(item, at::VERSION)
                .ok_or("version is not a whole number from 1 to 2^52")?,
            granted_to: Holder::stored(granted_to),
            request: text(item, at::REQUEST)
                .map(RequestDigest::stored)
                .ok_or("request is not a string")?,
            request_keys: text(item, at::REQUEST_KEYS).map(KeysDigest::stored),
            past_requests: at::PAST_REQUESTS
                .map(|name| text(item, name).map(RequestDigest::stored)),
            previous: previous(item),
            frozen: item.get(at::FROZEN).map(|value| match Record::read(value) {
                Some(record) => Frozen::By(record),
                None => Frozen::ByHand,
            }),
            operator: item.get(at::OPERATOR).and_then(Record::read),
            // DynamoDB never purges by what is not a number.
            purge_at: item
                .contains_key(at::PURGE_AT)
                .then(|| whole(item, at::PURGE_AT).unwrap_or(Self::NEVER)),
            state: if item.contains_key(at::HOLDER) {
                if text(item, at::HOLDER) != Some(granted_to) {
                    return Err("holder is not the holder that it was granted to");
                }
                State::Held(holding(item)?)
            } else {
                free(item)?
            },
        })
    }

    /// Writes the whole row; `pk` and `sk` are the address's to add.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = Item::new();
        let mut set = |name: &str, value: AttributeValue| {
            item.insert(name.to_owned(), value);
        };
        set(at::FENCING_TOKEN, n(self.fencing_token.get()));
        set(at::VERSION, n(self.version.get()));
        set(at::GRANTED_TO, s(self.granted_to.as_str()));
        set(at::REQUEST, s(self.request.as_str()));
        if let Some(keys) = &self.request_keys {
            set(at::REQUEST_KEYS, s(keys.as_str()));
        }
        for (name, past) in at::PAST_REQUESTS.iter().zip(&self.past_requests) {
            set(name, past.as_ref().map_or(NULL, |p| s(p.as_str())));
        }
        let previous = self.previous.as_ref();
        set(
            at::PREVIOUS_HOLDER,
            previous.map_or(NULL, |p| s(p.holder.as_str())),
        );
        set(
            at::PREVIOUS_FENCING_TOKEN,
            n(previous.map_or(0, |p| p.ended.token_of_row(p.fencing_token).get())),
        );
        let ended = previous.map_or(Ended::Expired, |p| p.ended);
        set(at::PREVIOUS_ENDED, s(ended.as_str()));
        match &self.frozen {
            Some(Frozen::By(record)) => set(at::FROZEN, record.to_value()),
            Some(Frozen::ByHand) => set(at::FROZEN, AttributeValue::Bool(true)),
            None => {}
        }
        if let Some(record) = &self.operator {
            set(at::OPERATOR, record.to_value());
        }
        if let Some(at) = self.purge_at {
            set(at::PURGE_AT, n(at));
        }
        match &self.state {
            State::Held(held) => {
                set(at::HOLDER, s(self.granted_to.as_str()));
                set(at::LEASE_ID, s(held.lease_id.expose()));
                set(at::TTL_MS, n(held.ttl.as_millis()));
                set(at::ACQUIRED_AT, instant(held.acquired_at));
                set(at::EXPIRES_AT, instant(held.expires_at));
                set(at::METADATA, metadata_value(&held.metadata));
                if let Some(at) = held.extended_at {
                    set(at::EXTENDED_AT, instant(at));
                }
                if let Some(at) = held.sweep_after {
                    set(at::SWEEP_AFTER, instant(at));
                }
            }
            State::Free { ended } => set(at::ENDED, s(ended.as_str())),
        }
        item
    }
}

impl Stored {
    /// Reads what a read or a refused write brought back.
    #[must_use]
    pub fn read(item: Option<&Item>) -> Self {
        match item {
            None => Self::Absent,
            Some(item) => Row::read(item).map_or_else(Self::Foreign, Self::Row),
        }
    }
}

fn holding(item: &Item) -> Result<Holding, &'static str> {
    if item.contains_key(at::ENDED) {
        return Err("it is held and ended at once");
    }
    Ok(Holding {
        lease_id: text(item, at::LEASE_ID)
            .map(LeaseId::stored)
            .ok_or("lease_id is not a string")?,
        ttl: whole(item, at::TTL_MS)
            .and_then(Ttl::stored)
            .ok_or("ttl_ms is not a whole number from 1 to 86400000")?,
        acquired_at: time(item, at::ACQUIRED_AT).ok_or("acquired_at is not an instant")?,
        extended_at: time(item, at::EXTENDED_AT),
        expires_at: time(item, at::EXPIRES_AT).ok_or("expires_at is not an instant")?,
        sweep_after: time(item, at::SWEEP_AFTER),
        metadata: item
            .get(at::METADATA)
            .and_then(metadata)
            .ok_or("metadata is not a map of strings")?,
    })
}

fn free(item: &Item) -> Result<State, &'static str> {
    if item.contains_key(at::LEASE_ID) {
        return Err("it has a lease_id and no holder");
    }
    Ok(State::Free {
        ended: text(item, at::ENDED)
            .and_then(Ended::from_name)
            .ok_or("it has no holder and does not say how it ended")?,
    })
}

/// The three attributes are one fact; a first grant writes NULL for its predecessor's holder.
fn previous(item: &Item) -> Option<Previous> {
    let ended = Ended::from_name(text(item, at::PREVIOUS_ENDED)?)?;
    Some(Previous {
        holder: Holder::stored(text(item, at::PREVIOUS_HOLDER)?),
        fencing_token: ended.token_of_grant(counter(item, at::PREVIOUS_FENCING_TOKEN)?),
        ended,
    })
}

fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

/// A whole number. DynamoDB writes numbers in plain decimal, so that anything `u64` cannot read
/// is negative, fractional or huge.
fn whole(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

fn counter(item: &Item, name: &str) -> Option<Counter> {
    whole(item, name).and_then(Counter::new)
}

fn time(item: &Item, name: &str) -> Option<Timestamp> {
    whole(item, name)
        .filter(|&millis| (1..=Timestamp::MAX.as_millis()).contains(&millis))
        .map(Timestamp::from_millis)
}

fn metadata(value: &AttributeValue) -> Option<Metadata> {
    let entries = value.as_m().ok()?.iter();
    entries
        .map(|(name, value)| Some((name.clone(), value.as_s().ok()?.clone())))
        .collect::<Option<_>>()
        .map(Metadata::stored)
}

pub(crate) const NULL: AttributeValue = AttributeValue::Null(true);

pub(crate) fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(crate) fn n(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn instant(at: Timestamp) -> AttributeValue {
    n(at.as_millis())
}

pub(crate) fn metadata_value(metadata: &Metadata) -> AttributeValue {
    let entries = metadata.entries().iter();
    AttributeValue::M(
        entries
            .map(|(name, value)| (name.clone(), s(value)))
            .collect(),
    )
}
