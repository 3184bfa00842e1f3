//! A row as an item, and an item as a row.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};

use super::{
    Entries, Frozen, Holding, InPool, Item, Limit, Notification, Record, Row, State, Stored, Term,
    attributes as at,
};
use crate::{
    clock::Timestamp,
    outcomes::{Ended, Previous},
    values::{
        AtLeast, Counter, Holder, KeepTime, KeysDigest, LeaseId, Metadata, Permits, RequestDigest,
        Ttl,
    },
};

impl Row {
    /// Reads an item.
    ///
    /// # Errors
    /// The reason that shows that this library did not write it.
    pub fn read(item: &Item) -> Result<Self, &'static str> {
        let granted_to = text(item, at::GRANTED_TO).ok_or("granted_to is not a string")?;
        let fencing_token = counter(item, at::FENCING_TOKEN)
            .ok_or("fencing_token is not a whole number from 1 to 2^52")?;
        Ok(Self {
            fencing_token,
            version: counter(item, at::VERSION)
                .ok_or("version is not a whole number from 1 to 2^52")?,
            granted_to: Holder::stored(granted_to),
            request: bytes(item, at::REQUEST)
                .map(RequestDigest::stored)
                .ok_or("request is not binary")?,
            request_keys: bytes(item, at::REQUEST_KEYS).map(KeysDigest::stored),
            permits: permits(item),
            past_requests: at::PAST_REQUESTS
                .map(|name| bytes(item, name).map(RequestDigest::stored)),
            past_releases: at::PAST_RELEASES.map(|name| counter(item, name)),
            previous: previous(item),
            frozen: item.get(at::FROZEN).map(|value| match Record::read(value) {
                Some(record) => Frozen::By(record),
                None => Frozen::ByHand,
            }),
            limit: item.get(at::LIMIT).map(Limit::read).map(Box::new),
            // What cannot be read is in the way.
            opens_at: item
                .contains_key(at::OPENS_AT)
                .then(|| time(item, at::OPENS_AT).unwrap_or(Timestamp::MAX)),
            operator: item.get(at::OPERATOR).and_then(Record::read),
            kept_until: purged(item, at::KEPT_UNTIL),
            purge_at: purged(item, at::PURGE_AT),
            queue: queue(item).ok_or("queue is not a list of binaries")?,
            entries: item.get(at::ENTRIES).map(Entries::read).map(Box::new),
            state: if item.contains_key(at::HOLDER) {
                if text(item, at::HOLDER) != Some(granted_to) {
                    return Err("holder is not the holder that it was granted to");
                }
                State::Held(holding(item)?)
            } else {
                free(item, fencing_token)?
            },
        })
    }

    /// The whole row as an item, without `pk` and `sk`.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let mut item = Item::new();
        let mut set = |name: &str, value: AttributeValue| {
            item.insert(name.to_owned(), value);
        };
        set(at::FENCING_TOKEN, n(self.fencing_token.get()));
        set(at::VERSION, n(self.version.get()));
        set(at::GRANTED_TO, s(self.granted_to.as_str()));
        set(at::REQUEST, b(self.request.as_bytes()));
        if let Some(keys) = &self.request_keys {
            set(at::REQUEST_KEYS, b(keys.as_bytes()));
        }
        if let Some(permits) = self.permits {
            set(at::PERMITS, n(permits.get().into()));
        }
        for (name, past) in at::PAST_REQUESTS.iter().zip(&self.past_requests) {
            set(name, past.as_ref().map_or(NULL, |p| b(p.as_bytes())));
        }
        for (name, token) in at::PAST_RELEASES.iter().zip(self.past_releases) {
            if let Some(token) = token {
                set(name, n(token.get()));
            }
        }
        let previous = self.previous.as_ref();
        set(
            at::PREVIOUS_HOLDER,
            previous.map_or(NULL, |p| s(p.holder.as_str())),
        );
        set(
            at::PREVIOUS_FENCING_TOKEN,
            n(previous.map_or(0, |p| p.fencing_token.get())),
        );
        let ended = previous.map_or(Ended::Expired, |p| p.ended);
        set(at::PREVIOUS_ENDED, s(ended.as_str()));
        for (name, value) in self.by_operators() {
            if let Some(value) = value {
                set(name, value);
            }
        }
        if let Some(at) = self.opens_at {
            set(at::OPENS_AT, instant(at));
        }
        if let Some(at) = self.purge_at {
            set(at::PURGE_AT, n(at));
        }
        if let Some(entries) = &self.entries {
            set(at::ENTRIES, entries.to_value());
        }
        let queue = self.queue.iter().map(|request| b(request.as_bytes()));
        set(at::QUEUE, AttributeValue::L(queue.collect()));
        match &self.state {
            State::Held(held) => {
                set(at::HOLDER, s(self.granted_to.as_str()));
                set(at::LEASE_ID, s(held.lease_id.expose()));
                set(at::ACQUIRED_AT, instant(held.acquired_at));
                match held.term {
                    Term::Ttl { ttl, expires_at } => {
                        set(at::TTL_MS, n(ttl.as_millis()));
                        set(at::EXPIRES_AT, instant(expires_at));
                    }
                    Term::Execution {
                        keep,
                        looked_at,
                        look_again_at,
                    } => {
                        set(at::KEEP_MS, n(keep.as_millis()));
                        for (name, at) in [
                            (at::LOOKED_AT, looked_at),
                            (at::LOOK_AGAIN_AT, look_again_at),
                        ] {
                            if let Some(at) = at {
                                set(name, instant(at));
                            }
                        }
                    }
                }
                set(at::METADATA, metadata_value(&held.metadata));
                if let Some(at) = held.extended_at {
                    set(at::EXTENDED_AT, instant(at));
                }
                if let Some(at) = held.sweep_after {
                    set(at::SWEEP_AFTER, instant(at));
                }
                if let Some(pool) = &held.pool {
                    set(at::POOL, pool.to_value());
                }
                if let Some(notification) = held.notification {
                    notification.each(&mut set);
                }
            }
            State::Free { ended, last_token } => {
                set(at::ENDED, s(ended.as_str()));
                if *last_token != self.fencing_token {
                    set(at::LAST_TOKEN, n(last_token.get()));
                }
            }
        }
        item
    }
}

impl Notification {
    fn each(self, mut set: impl FnMut(&'static str, AttributeValue)) {
        set(at::NOTIFICATIONS, n(self.tries.get()));
        set(at::NOTIFIED_AT, instant(self.at));
        if let Some(ticket) = self.ticket {
            set(at::TICKET, n(ticket));
        }
        if let Some(at) = self.refused_at {
            set(at::REFUSED_AT, instant(at));
        }
    }
}

impl Row {
    fn by_operators(&self) -> [(&'static str, Option<AttributeValue>); 4] {
        let frozen = self.frozen.as_ref().map(|frozen| match frozen {
            Frozen::By(record) => record.to_value(),
            Frozen::ByHand => AttributeValue::Bool(true),
        });
        [
            (at::FROZEN, frozen),
            (at::LIMIT, self.limit.as_deref().map(Limit::to_value)),
            (at::KEPT_UNTIL, self.kept_until.map(n)),
            (at::OPERATOR, self.operator.as_ref().map(Record::to_value)),
        ]
    }
}

impl Limit {
    fn read(value: &AttributeValue) -> Self {
        let permits = || {
            let permits = value.as_m().ok()?.get(at::LIMIT_PERMITS)?.as_n().ok()?;
            permits.parse::<f64>().ok()
        };
        // As the condition of a grant: whatever is more than 0 is at least 1.
        let permits = permits().unwrap_or(0.0).ceil().clamp(0.0, 1000.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, from 0 to 1000"
        )]
        Self {
            permits: permits as u16,
            by: Record::read(value),
        }
    }

    fn to_value(&self) -> AttributeValue {
        let record = self.by.as_ref().map(Record::to_value);
        let mut fields = match record {
            Some(AttributeValue::M(fields)) => fields,
            _ => Item::new(),
        };
        fields.insert(at::LIMIT_PERMITS.to_owned(), n(self.permits.into()));
        AttributeValue::M(fields)
    }
}

impl Stored {
    /// Reads the item that a read or a refused write returned.
    #[must_use]
    pub fn read(item: Option<&Item>) -> Self {
        match item {
            None => Self::Absent,
            Some(item) => Row::read(item).map_or_else(Self::Foreign, Self::Row),
        }
    }

    /// The row, if it is one.
    pub(crate) const fn row(&self) -> Option<&Row> {
        match self {
            Self::Row(row) => Some(row),
            Self::Absent | Self::Foreign(_) => None,
        }
    }
}

fn holding(item: &Item) -> Result<Holding, &'static str> {
    if item.contains_key(at::ENDED) || item.contains_key(at::LAST_TOKEN) {
        return Err("it is held and ended at once");
    }
    Ok(Holding {
        lease_id: text(item, at::LEASE_ID)
            .map(LeaseId::stored)
            .ok_or("lease_id is not a string")?,
        term: term(item)?,
        acquired_at: time(item, at::ACQUIRED_AT).ok_or("acquired_at is not an instant")?,
        extended_at: time(item, at::EXTENDED_AT),
        sweep_after: time(item, at::SWEEP_AFTER),
        metadata: item
            .get(at::METADATA)
            .and_then(metadata)
            .ok_or("metadata is not a map of strings")?,
        notification: notification(item),
        pool: item.get(at::POOL).map(InPool::read).map(Box::new),
    })
}

/// DynamoDB never purges by an attribute that is not a number.
fn purged(item: &Item, name: &str) -> Option<u64> {
    item.contains_key(name)
        .then(|| whole(item, name).unwrap_or(Row::NEVER))
}

/// One that cannot be read counts as known to its holder, so that nobody passes the key on.
fn notification(item: &Item) -> Option<Notification> {
    Some(Notification {
        tries: counter(item, at::NOTIFICATIONS)?,
        at: time(item, at::NOTIFIED_AT)?,
        ticket: whole(item, at::TICKET),
        refused_at: time(item, at::REFUSED_AT),
    })
}

fn term(item: &Item) -> Result<Term, &'static str> {
    if !item.contains_key(at::KEEP_MS) {
        return Ok(Term::Ttl {
            ttl: ttl(item).ok_or("ttl_ms is not a whole number from 1 to 86400000")?,
            expires_at: time(item, at::EXPIRES_AT).ok_or("expires_at is not an instant")?,
        });
    }
    if item.contains_key(at::TTL_MS) || item.contains_key(at::EXPIRES_AT) {
        return Err("it has a deadline, and lasts as long as an execution");
    }
    Ok(Term::Execution {
        keep: whole(item, at::KEEP_MS)
            .and_then(KeepTime::stored)
            .ok_or("keep_ms is not a whole number from 0 to 1209600000")?,
        looked_at: time(item, at::LOOKED_AT),
        look_again_at: time(item, at::LOOK_AGAIN_AT),
    })
}

fn free(item: &Item, fencing_token: Counter) -> Result<State, &'static str> {
    if item.contains_key(at::LEASE_ID) {
        return Err("it has a lease_id and no holder");
    }
    Ok(State::Free {
        ended: text(item, at::ENDED)
            .and_then(Ended::from_name)
            .ok_or("it has no holder and does not say how it ended")?,
        last_token: match item.get(at::LAST_TOKEN) {
            None => fencing_token,
            Some(_) => counter(item, at::LAST_TOKEN)
                .ok_or("last_fencing_token is not a whole number from 1 to 2^52")?,
        },
    })
}

/// The attributes belong together; a first grant writes NULL for the previous holder.
fn previous(item: &Item) -> Option<Previous> {
    Some(Previous {
        holder: Holder::stored(text(item, at::PREVIOUS_HOLDER)?),
        fencing_token: counter(item, at::PREVIOUS_LAST_TOKEN)
            .or_else(|| counter(item, at::PREVIOUS_FENCING_TOKEN))?,
        ended: Ended::from_name(text(item, at::PREVIOUS_ENDED)?)?,
    })
}

fn queue(item: &Item) -> Option<Vec<RequestDigest>> {
    let digests = item.get(at::QUEUE)?.as_l().ok()?.iter();
    digests
        .map(|digest| Some(RequestDigest::stored(digest.as_b().ok()?.as_ref())))
        .collect()
}

pub(crate) fn text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name)?.as_s().ok().map(String::as_str)
}

pub(crate) fn bytes<'a>(item: &'a Item, name: &str) -> Option<&'a [u8]> {
    item.get(name)?.as_b().ok().map(Blob::as_ref)
}

/// A whole number. DynamoDB writes numbers in plain decimal, so that anything `u64` cannot read
/// is negative, fractional or huge.
pub(crate) fn whole(item: &Item, name: &str) -> Option<u64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// Of how many permits the holder of the row, or the waiter, asked for one; none for the mutex, also where the attribute is missing.
pub(crate) fn permits(item: &Item) -> Option<Permits> {
    let permits = whole(item, at::PERMITS)?.try_into().ok()?;
    Permits::new(permits).ok()
}

pub(crate) fn permits_value(permits: Option<Permits>) -> AttributeValue {
    n(permits.map_or(0, Permits::get).into())
}

/// The cooldown of the row after the grant of the waiter; none where the attribute is missing.
pub(crate) fn at_least(item: &Item) -> AtLeast {
    let stored = whole(item, at::AT_LEAST_MS).and_then(AtLeast::stored);
    stored.unwrap_or_default()
}

fn counter(item: &Item, name: &str) -> Option<Counter> {
    whole(item, name).and_then(Counter::new)
}

fn ttl(item: &Item) -> Option<Ttl> {
    whole(item, at::TTL_MS).and_then(Ttl::stored)
}

pub(crate) fn time(item: &Item, name: &str) -> Option<Timestamp> {
    whole(item, name)
        .filter(|&millis| (1..=Timestamp::MAX.as_millis()).contains(&millis))
        .map(Timestamp::from_millis)
}

pub(crate) fn metadata(value: &AttributeValue) -> Option<Metadata> {
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

pub(crate) fn b(bytes: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
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
