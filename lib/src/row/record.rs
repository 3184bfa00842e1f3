//! An operator's act on a row: stored in the row, so that its next reader knows whom to ask.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};

use super::{n, s};
use crate::{
    clock::Timestamp,
    values::{Caller, Operator, Reason},
};

/// What an operator last did to a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// What the operator did.
    pub act: Act,
    /// Who did it.
    pub who: Operator,
    /// The reason that the operator gave.
    pub why: Reason,
    /// When, by the clock of the function that did it.
    pub at: Timestamp,
    /// Whose credentials signed the request, if known; `who` is what the operator entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
}

/// An operator's acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Ends a grant that somebody else holds.
    ForceRelease,
    /// Keeps a key from being granted.
    Freeze,
    /// Lets it be granted again.
    Unfreeze,
    /// Ensures that the next token is above a floor.
    RaiseFloor,
    /// Sets how many may hold a key at once, or leaves that to the callers again.
    Limit,
    /// Has the execution stopped that holds it.
    Stop,
}

impl Act {
    const ALL: [Self; 6] = [
        Self::ForceRelease,
        Self::Freeze,
        Self::Unfreeze,
        Self::RaiseFloor,
        Self::Limit,
        Self::Stop,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ForceRelease => "force_release",
            Self::Freeze => "freeze",
            Self::Unfreeze => "unfreeze",
            Self::RaiseFloor => "raise_floor",
            Self::Limit => "limit",
            Self::Stop => "stop",
        }
    }
}

impl Record {
    pub(crate) fn to_value(&self) -> AttributeValue {
        let fields = [
            ("act", s(self.act.as_str())),
            ("who", s(self.who.as_str())),
            ("why", s(self.why.as_str())),
            ("at", n(self.at.as_millis())),
        ];
        let caller = self.caller.as_ref();
        let caller = caller.map(|caller| ("caller", s(caller.as_str())));
        let fields = fields.into_iter().chain(caller);
        AttributeValue::M(
            fields
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    }

    /// None if somebody else wrote the attribute: the record is a note, and no reason to refuse the row.
    pub(crate) fn read(value: &AttributeValue) -> Option<Self> {
        let fields = value.as_m().ok()?;
        let text = |name: &str| fields.get(name)?.as_s().ok().map(String::as_str);
        let act = text("act")?;
        Some(Self {
            act: Act::ALL.into_iter().find(|known| known.as_str() == act)?,
            who: Operator::stored(text("who")?),
            why: Reason::stored(text("why")?),
            at: Timestamp::from_millis(fields.get("at")?.as_n().ok()?.parse().ok()?),
            caller: text("caller").map(Caller::stored),
        })
    }
}

/// Why, by whom and when an operator acted, if there is a record.
pub(crate) fn because(record: Option<&Record>) -> String {
    record.map_or_else(String::new, |Record { who, why, at, .. }| {
        format!(": {why} ({who}, {at})")
    })
}
