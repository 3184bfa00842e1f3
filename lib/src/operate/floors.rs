//! A floor for the tokens of one key.

use serde::Serialize;

use super::AuditReason;
use crate::{
    error::Error,
    leases::Leases,
    outcomes::Ended,
    row::Act,
    row::{Row, State},
    store::Store,
    transition::{TakeoverRule, seed},
    values::{Counter, Holder, Key},
};

/// The answer to a raise of the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Raised {
    /// The next token will be above the floor.
    Raised,
    /// It would have been anyway.
    HighEnough,
}

impl<S: Store> Leases<S> {
    /// Sees to it that the next token of `key` is above `floor`: for tables that were restored
    /// from a backup, which sets tokens back. If not given, the floor is now in milliseconds since
    /// the epoch, which is above all tokens that were ever given out. A permit that was never
    /// granted starts from the clock, and so above any floor that is not in the future; for a
    /// whole table there is [`crate::Settings::token_floor`].
    ///
    /// The key must not be held: the tokens of a grant do not change. What was the last grant is
    /// then a grant to the operator that ended `forced`, since a restored row does not know how
    /// the last one ended.
    ///
    /// # Errors
    /// [`Error::Held`] while somebody holds it (force its release first); [`Error::Invalid`] for
    /// a floor above [`Counter::HIGHEST_FLOOR`]; and as [`Leases::freeze`].
    pub async fn raise_floor(
        &self,
        key: &Key,
        floor: Option<Counter>,
        because: &AuditReason,
    ) -> Result<Raised, Error> {
        let now = self.now();
        let floor = floor.unwrap_or_else(|| seed(now));
        if floor > Counter::HIGHEST_FLOOR {
            return Err(Error::invalid("floor", "must be at most 5 * 10^14"));
        }
        let floor = floor.max(self.settings().token_floor);
        let over = TakeoverRule::At(self.takeable());
        let token = floor.plus(1);
        let raised = self
            .change_all(key, Act::RaiseFloor, because, |address, row| {
                let Some(row) = row else {
                    return Ok((seed(now) < floor).then(|| Row {
                        fencing_token: token,
                        state: freed(Ended::Released, token),
                        ..self.untouched(because)
                    }));
                };
                if row.fencing_token >= floor {
                    return Ok(None);
                }
                if !over.holds(row) {
                    let asker = Holder::from(&because.who);
                    let contention = self.held(address.clone(), row, &asker)?;
                    return Err(Error::Held(Box::new(contention)));
                }
                if row.reserved().is_some() {
                    let key = &address.key;
                    return Err(Error::Unavailable {
                        problem: format!("{key} is being handed over to one who waited for it"),
                        source: None,
                    });
                }
                let untouched = self.untouched(because);
                let [first, second, _] = row.past_requests.clone();
                Ok(Some(Row {
                    fencing_token: token,
                    previous: Some(row.last_grant()),
                    past_requests: [Some(row.request.clone()), first, second],
                    state: freed(Ended::Forced, floor),
                    purge_at: row.purge_at.or(untouched.purge_at),
                    version: row.version,
                    frozen: row.frozen.clone(),
                    ..untouched
                }))
            })
            .await?;
        Ok(if raised {
            Raised::Raised
        } else {
            Raised::HighEnough
        })
    }
}

fn freed(ended: Ended, last_token: Counter) -> State {
    State::Free {
        ended,
        last_token,
        reserved: None,
    }
}
