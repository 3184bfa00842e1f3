//! The rules that all users of a table share: an item of the table says them.
//!
//! The functions of the table's own stack get them from the stack's parameters, and its sweep publishes them. Every
//! other user reads them: a team's functions, a program, the command line.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    row::{Item, n, text, whole},
    settings::Settings,
    values::Counter,
};

/// What all users of a table must share, so that tokens keep their order and no two holders believe at once.
///
/// A reader follows the stricter of these and its own settings. So in whichever order they are read, nobody is laxer
/// than the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableRules {
    /// See [`Settings::clock_margin`].
    pub clock_margin: Duration,
    /// See [`Settings::guard`].
    pub guard: Duration,
    /// See [`Settings::token_floor`].
    pub token_floor: Counter,
    /// See [`Settings::stopped`].
    pub stopped: bool,
}

impl TableRules {
    /// The item's place. It has no `holder`, so the index does not contain it, and no `purge_at`.
    pub(crate) const PK: &'static str = "leasehold rules";
    pub(crate) const SK: &'static str = "RULES";

    pub(crate) const CLOCK_MARGIN: &'static str = "clock_margin_ms";
    pub(crate) const GUARD: &'static str = "guard_ms";
    pub(crate) const TOKEN_FLOOR: &'static str = "token_floor";
    pub(crate) const GRANTS: &'static str = "grants";

    /// How long a reader follows what it has read. It reads again with its next call after that.
    pub const READ_EVERY: Duration = Duration::from_mins(1);

    /// The rules in these settings.
    #[must_use]
    pub const fn of(settings: &Settings) -> Self {
        Self {
            clock_margin: settings.clock_margin,
            guard: settings.guard,
            token_floor: settings.token_floor,
            stopped: settings.stopped,
        }
    }

    /// Reads an item; none if this library did not write it.
    pub(crate) fn read(item: &Item) -> Option<Self> {
        let millis = |name| whole(item, name).map(Duration::from_millis);
        Some(Self {
            clock_margin: millis(Self::CLOCK_MARGIN)?,
            guard: millis(Self::GUARD)?,
            token_floor: Counter::new(whole(item, Self::TOKEN_FLOOR)?)?,
            stopped: match text(item, Self::GRANTS)? {
                "open" => false,
                "stopped" => true,
                _ => return None,
            },
        })
    }

    /// Every attribute but the address.
    pub(crate) fn attributes(&self) -> [(&'static str, AttributeValue); 4] {
        let millis = |length: Duration| n(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
        let grants = if self.stopped { "stopped" } else { "open" };
        [
            (Self::CLOCK_MARGIN, millis(self.clock_margin)),
            (Self::GUARD, millis(self.guard)),
            (Self::TOKEN_FLOOR, n(self.token_floor.get())),
            (Self::GRANTS, AttributeValue::S(grants.to_owned())),
        ]
    }

    /// The stricter of each.
    fn with(self, settings: Settings) -> Settings {
        Settings {
            clock_margin: settings.clock_margin.max(self.clock_margin),
            guard: settings.guard.max(self.guard),
            token_floor: settings.token_floor.max(self.token_floor),
            stopped: settings.stopped || self.stopped,
            ..settings
        }
    }
}

/// Where a process's rules come from.
#[derive(Clone, Debug)]
pub(crate) enum RulesSource {
    /// From its own settings; whether they were published.
    Own(Arc<Mutex<bool>>),
    /// From the table: what was read last, and when.
    Table(Arc<Mutex<Option<LastRead>>>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LastRead {
    pub(crate) at: Timestamp,
    pub(crate) rules: Option<TableRules>,
}

impl Default for RulesSource {
    fn default() -> Self {
        Self::Own(Arc::default())
    }
}

impl RulesSource {
    pub(crate) fn last(&self) -> Option<LastRead> {
        match self {
            Self::Own(_) => None,
            Self::Table(last) => *last.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(crate) fn applied_to(&self, settings: Settings) -> Settings {
        match self.last().and_then(|last| last.rules) {
            Some(rules) => rules.with(settings),
            None => settings,
        }
    }
}
