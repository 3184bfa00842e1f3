//! Pagination: the held rows in pages, from a cursor that a caller keeps between calls.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{
    store::{Position, ScanSegment},
    values::{Holder, small},
};

/// The held rows are read in this many parts, so that a walk can start in any of them.
const PARTS: u8 = 4;

/// Where a walk continues. Opaque: pass it back unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    first: u8,
    walked: u8,
    after: Option<Position>,
}

/// How many rows one call examines: 1 to 10 000, `DEFAULT` if not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize<const DEFAULT: u32>(u32);

impl<const DEFAULT: u32> PageSize<DEFAULT> {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<const DEFAULT: u32> Default for PageSize<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<'de, const DEFAULT: u32> Deserialize<'de> for PageSize<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match small(deserializer)? {
            rows @ 1..=10_000 => Ok(Self(rows.into())),
            _ => Err(de::Error::custom("expected a whole number from 1 to 10000")),
        }
    }
}

/// Where a scheduled sweep stopped before it was done, for the next one by the same leases or a clone of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SweptTo(Arc<Mutex<Option<Cursor>>>);

impl SweptTo {
    pub(crate) fn get(&self) -> Option<Cursor> {
        let cursor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cursor.clone()
    }

    pub(crate) fn set(&self, cursor: Option<Cursor>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cursor;
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    first: u8,
    walked: u8,
    after: Option<Position>,
}

impl Cursor {
    /// The start of a walk. Its first part is `first`, modulo the number of parts.
    pub(crate) const fn start(first: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "less than PARTS")]
        let first = (first % PARTS as u64) as u8;
        Self {
            first,
            walked: 0,
            after: None,
        }
    }

    /// A place in the list of one holder, which has no parts.
    pub(crate) const fn at(place: Position) -> Self {
        Self {
            first: 0,
            walked: 0,
            after: Some(place),
        }
    }

    /// The position, if it is one in the list of this holder.
    pub(crate) fn within(self, holder: &Holder) -> Option<Position> {
        self.after.filter(|place| place.holder == holder.as_str())
    }

    pub(crate) const fn after(&self) -> Option<&Position> {
        self.after.as_ref()
    }

    pub(crate) fn segment(&self) -> ScanSegment {
        ScanSegment {
            segment: (self.first + self.walked) % PARTS,
            total: PARTS,
        }
    }

    pub(crate) fn next(self, after: Option<Position>) -> Option<Self> {
        match after {
            Some(_) => Some(Self { after, ..self }),
            None if self.walked + 1 < PARTS => Some(Self {
                walked: self.walked + 1,
                after: None,
                ..self
            }),
            None => None,
        }
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            first: self.first,
            walked: self.walked,
            after: self.after.clone(),
        };
        let json = serde_json::to_vec(&written).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&crate::values::hex(&json))
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect::<Option<Vec<_>>>();
        bytes
            .and_then(|json| serde_json::from_slice::<Written>(&json).ok())
            .filter(|written| written.first < PARTS && written.walked < PARTS)
            .map(
                |Written {
                     first,
                     walked,
                     after,
                 }| Self {
                    first,
                    walked,
                    after,
                },
            )
            .ok_or_else(|| de::Error::custom("is not a cursor of an earlier response"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_visits_each_part_once() {
        for first in 0..9 {
            let mut cursor = Some(Cursor::start(first));
            let mut parts = Vec::new();
            while let Some(at) = cursor {
                parts.push(at.segment().segment);
                cursor = at.next(None);
            }
            let start = u8::try_from(first).expect("small") % PARTS;
            let round: Vec<_> = (0..PARTS).map(|n| (start + n) % PARTS).collect();
            assert_eq!(parts, round);
        }
    }
}
