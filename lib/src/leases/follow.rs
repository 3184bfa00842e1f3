//! Follows the rules of a table, or publishes them.

use std::sync::{Arc, PoisonError};

use crate::{
    error::Error,
    leases::Leases,
    rules::{LastRead, RulesSource, TableRules},
    store::{Operations, Store},
};

impl<S: Store> Leases<S> {
    /// The same leases, for a user of the table beside its own stack: they follow the table's rules where those are
    /// stricter than the settings. The first call reads the rules, and later the first call after a minute. A table
    /// without rules leaves the settings as they are.
    #[must_use]
    pub fn with_table_rules(self) -> Self {
        let mut leases = self;
        leases.rules = RulesSource::Table(Arc::default());
        leases
    }

    /// Writes these settings to the table as its rules, once in the life of these leases and their clones. Only the
    /// table's own stack does that. Leases that read the rules write nothing.
    ///
    /// # Errors
    /// [`Error::Misconfigured`] if the table's floor is higher than the settings' floor, which would set tokens back;
    /// and those of [`Store::write`].
    pub async fn publish_rules(&self) -> Result<(), Error> {
        let RulesSource::Own(published) = &self.rules else {
            return Ok(());
        };
        let is_published = || published.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_published() {
            return Ok(());
        }
        let rules = TableRules::of(&self.settings());
        if !self.store().publish_rules(&rules, self.limit()).await? {
            return Err(Error::Misconfigured {
                problem: format!(
                    "the token floor of {} is below the one in the rules of the table {}: set LEASE_TOKEN_FLOOR (the \
                     parameter TokenFloor) to that one again, or tokens go back",
                    rules.token_floor,
                    self.store().name()
                ),
                source: None,
            });
        }
        *is_published() = true;
        Ok(())
    }

    /// Reads the rules of the table if it is time, before anything is granted by them.
    pub(crate) async fn follow_rules(&self) -> Result<(), Error> {
        let RulesSource::Table(last) = &self.rules else {
            return Ok(());
        };
        let now = self.now();
        // A clock that was set back reads again.
        let is_fresh =
            |read: LastRead| read.at <= now && now.since(read.at) < TableRules::READ_EVERY;
        if self.rules.last().is_some_and(is_fresh) {
            return Ok(());
        }
        let rules = self.store().rules(self.limit()).await?;
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(LastRead { at: now, rules });
        Ok(())
    }

    /// As [`Leases::follow_rules`], for a call that grants nothing: a holder should not lose its lease because the
    /// rules cannot be read again. The rules that were read before still hold.
    pub(crate) async fn follow_rules_if_possible(&self) -> Result<(), Error> {
        match self.follow_rules().await {
            Err(_) if self.rules.last().is_some() => Ok(()),
            followed => followed,
        }
    }
}
