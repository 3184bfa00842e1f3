//! Who is in a pool: what its row has.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Item, Row, attributes as at, b};
use crate::values::{Counter, Key, Permits, RequestDigest};

/// The grant of a key that is in a pool, or waits there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The request that was granted the key.
    pub request: RequestDigest,
    /// The key.
    pub key: Key,
    /// Which of its rows has the grant.
    pub permit: u16,
    /// Its token.
    pub fencing_token: Counter,
    /// How many may be inside at once, as the request says.
    pub number: Permits,
}

const MARK: u8 = b':';

impl Entry {
    /// Whether this row has the grant.
    #[must_use]
    pub fn is_held_in(&self, row: &Row) -> bool {
        row.holding().is_some()
            && row.request == self.request
            && row.fencing_token == self.fencing_token
    }

    /// Whether the grant has ended, as this row, that of the key, shows. One with a smaller token was read before the grant.
    #[must_use]
    pub fn has_ended_in(&self, row: &Row) -> bool {
        row.fencing_token >= self.fencing_token && !self.is_held_in(row)
    }

    fn to_value(&self) -> AttributeValue {
        let mut bytes = self.request.as_bytes().to_vec();
        bytes.push(MARK);
        bytes.extend(self.permit.to_be_bytes());
        bytes.extend(self.fencing_token.get().to_be_bytes());
        bytes.extend(self.number.get().to_be_bytes());
        bytes.extend(self.key.as_str().as_bytes());
        b(&bytes)
    }

    fn read(value: &AttributeValue) -> Option<Self> {
        let bytes = value.as_b().ok()?.as_ref();
        let mark = [16, 17]
            .into_iter()
            .find(|at| bytes.get(*at) == Some(&MARK))?;
        let (request, rest) = (&bytes[..mark], &bytes[mark + 1..]);
        let (permit, rest) = rest.split_first_chunk()?;
        let (token, rest) = rest.split_first_chunk()?;
        let (number, key) = rest.split_first_chunk()?;
        Some(Self {
            request: RequestDigest::stored(request),
            key: Key::new(std::str::from_utf8(key).ok()?).ok()?,
            permit: u16::from_be_bytes(*permit),
            fencing_token: Counter::new(u64::from_be_bytes(*token))?,
            number: Permits::new(u16::from_be_bytes(*number)).ok()?,
        })
    }
}

/// Who is in a pool, and who waits there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entries {
    /// Who is inside, each in a place of its own, counted from 0.
    pub inside: BTreeMap<u16, Entry>,
    /// Who waits, first come first.
    pub waiting: Vec<Entry>,
}

impl Entries {
    /// Nobody is inside, and nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inside.is_empty() && self.waiting.is_empty()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Entry> {
        self.inside.values().chain(&self.waiting)
    }

    /// In the first free place.
    pub(crate) fn enter(&mut self, entry: Entry) {
        let place = (0..=u16::MAX).find(|place| !self.inside.contains_key(place));
        self.inside.insert(place.unwrap_or_default(), entry);
    }

    /// How many bytes they take, nearly.
    pub(crate) fn size(&self) -> usize {
        self.all().map(|entry| entry.key.as_str().len() + 40).sum()
    }

    /// One that cannot be read is nobody's: the row of its key says what is due.
    pub(crate) fn read(value: &AttributeValue) -> Self {
        let empty = Item::new();
        let fields = value.as_m().unwrap_or(&empty);
        let inside = fields.get(at::INSIDE).and_then(|inside| inside.as_m().ok());
        let inside = inside.into_iter().flatten();
        let waiting = fields.get(at::WAITING).and_then(|one| one.as_l().ok());
        Self {
            inside: inside
                .filter_map(|(place, entry)| Some((place.parse().ok()?, Entry::read(entry)?)))
                .collect(),
            waiting: waiting
                .into_iter()
                .flatten()
                .filter_map(Entry::read)
                .collect(),
        }
    }

    pub(crate) fn to_value(&self) -> AttributeValue {
        let inside = self.inside.iter();
        let inside = inside.map(|(place, entry)| (place.to_string(), entry.to_value()));
        let waiting = self.waiting.iter().map(Entry::to_value);
        AttributeValue::M(Item::from([
            (at::INSIDE.to_owned(), AttributeValue::M(inside.collect())),
            (at::WAITING.to_owned(), AttributeValue::L(waiting.collect())),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestId, test_support::make};

    #[test]
    fn entries_are_read_as_written() {
        let token = RequestDigest::of(&make::holder("h"), &RequestId::random());
        let start = RequestDigest::of_start(&make::execution("one"));
        let entry = |request| Entry {
            request,
            key: make::key("tenants/a"),
            permit: 300,
            fencing_token: Counter::new(7).expect("valid"),
            number: make::permits(20),
        };
        let entries = Entries {
            inside: BTreeMap::from([(0, entry(token.clone())), (12, entry(start))]),
            waiting: vec![entry(token)],
        };
        assert_eq!(Entries::read(&entries.to_value()), entries);
    }
}
