//! What the act has left behind, none of it by the word of the functions: the resource's own record, the histories
//! of the executions, and the items of the table.

use super::super::resource::{Audit, Write};
use super::cast::Part;
use super::line::Line;
use super::story::Story;

/// Everything that the act is judged by.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// When the act began, in milliseconds since the epoch, as all instants here.
    pub(super) began: u64,
    /// In the order in which they were started, each once the one before stood in line.
    pub(super) waiters: Vec<Waiter>,
    /// The line as it stood before the key was given back for the first time.
    pub(super) full: Line,
    /// When the demo, which held the key until all stood in line, gave it back.
    pub(super) given_back: u64,
    /// When who was stopped waiting was seen to stand in line no more.
    pub(super) place_gone: Option<u64>,
    /// When the key, and all that had been in line for it, was looked at for the last time, and what was left.
    pub(super) at_last: (u64, Line),
    pub(super) audit: Audit,
}

/// An execution, and what its history tells.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) name: String,
    pub(super) arn: String,
    pub(super) part: Part,
    /// When `StopExecution` was asked for.
    pub(super) stopped: Option<u64>,
    pub(super) story: Story,
}

/// Somebody's time with the resource, from coming in for the first time to going out for the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) holder: String,
    pub(super) fencing_token: u64,
    pub(super) from: u64,
    /// Nothing if it has come in and not gone out again.
    pub(super) until: Option<u64>,
    /// How often it came in.
    pub(super) entries: usize,
}

impl Evidence {
    pub(super) fn index_of(&self, part: Part) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.part == part)
    }

    pub(super) fn with_part(&self, part: Part) -> Option<&Waiter> {
        self.index_of(part).map(|index| &self.waiters[index])
    }

    pub(super) fn waiter(&self, arn: &str) -> Option<&Waiter> {
        self.waiters.iter().find(|waiter| waiter.arn == arn)
    }

    /// For people.
    pub(super) fn name<'a>(&'a self, arn: &'a str) -> &'a str {
        self.waiter(arn).map_or(arn, |waiter| &waiter.name)
    }

    pub(super) fn turns(&self) -> Vec<Turn> {
        turns(&self.audit.writes)
    }

    /// Who had the key after somebody, as the resource knows it.
    pub(super) fn turn_after(&self, holder: &str) -> Option<Turn> {
        let turns = self.turns();
        let own = turns.iter().rposition(|turn| turn.holder == holder)?;
        turns.into_iter().nth(own + 1)
    }

    /// Seconds since the act began.
    #[allow(clippy::cast_precision_loss)] // Minutes in milliseconds.
    pub(super) fn seconds(&self, at: u64) -> f64 {
        at.saturating_sub(self.began) as f64 / 1000.0
    }
}

/// The turns in the resource's record of one key, in the order of acceptance.
pub(super) fn turns(writes: &[Write]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for write in writes {
        let same = |turn: &&mut Turn| {
            turn.holder == write.holder && turn.fencing_token == write.fencing_token
        };
        if turns.last_mut().as_mut().is_none_or(|turn| !same(turn)) {
            turns.push(Turn {
                holder: write.holder.clone(),
                fencing_token: write.fencing_token,
                from: write.at,
                until: None,
                entries: 0,
            });
        }
        if let Some(turn) = turns.last_mut() {
            turn.entries += usize::from(write.enters);
            turn.until = (!write.enters).then_some(write.at);
        }
    }
    turns
}
