//! A table at the other end of a wire: requests take their time, and some do not come back.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use crate::{
    Cause, Error, Holder, Key, Memory,
    row::{Row, Stored},
    store::{Address, Applied, AppliedAll, Page, Part, Position, Store},
    transition::Change,
};

pub const ROUND_TRIP: Duration = Duration::from_millis(10);

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// Written, and nobody is told: silence until the time limit.
    AnswerLost,
    /// Not written: silence until the time limit.
    RequestLost,
    /// Not written, and the answer says so.
    Throttled,
}

#[derive(Clone, Default)]
pub struct Wire {
    table: Memory,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Fate>,
    always: Option<Fate>,
    requests: u32,
    grants: u32,
}

impl Wire {
    /// The fates of the next writes.
    pub fn script(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.extend(fates);
    }

    /// The fate of every write after the script.
    pub fn always(&self, fate: Fate) {
        self.state().always = Some(fate);
    }

    /// Writes asked for.
    pub fn requests(&self) -> u32 {
        self.state().requests
    }

    /// Grants that were written, told or not.
    pub fn grants(&self) -> u32 {
        self.state().grants
    }

    pub async fn row(&self) -> Row {
        let address = Address {
            key: Key::new("k").expect("valid"),
            permit: 0,
        };
        match self.table.read(&address, Duration::MAX).await {
            Ok(Stored::Row(row)) => row,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn next(&self) -> Fate {
        let mut state = self.state();
        state.requests += 1;
        let scripted = state.script.pop_front();
        scripted.or(state.always).unwrap_or(Fate::Answered)
    }

    async fn silence(limit: Duration) -> Error {
        tokio::time::sleep(limit).await;
        Error::Unavailable {
            problem: "no answer".to_owned(),
            source: None,
        }
    }
}

impl Store for Wire {
    fn name(&self) -> &str {
        self.table.name()
    }

    async fn apply(
        &self,
        address: &Address,
        change: &Change,
        limit: Duration,
    ) -> Result<Applied, Error> {
        let fate = self.next();
        if fate == Fate::RequestLost {
            return Err(Self::silence(limit).await);
        }
        if fate == Fate::Throttled {
            return Err(Error::Throttled {
                action: "dynamodb:UpdateItem",
                table: "memory".to_owned(),
                source: Cause::said("ThrottlingException"),
            });
        }
        let applied = self.table.apply(address, change, limit).await?;
        let granted = matches!((&applied, change), (Applied::Done { .. }, Change::Grant(_)));
        self.state().grants += u32::from(granted);
        if fate == Fate::AnswerLost || limit < ROUND_TRIP {
            return Err(Self::silence(limit).await);
        }
        tokio::time::sleep(ROUND_TRIP).await;
        Ok(applied)
    }

    async fn read(&self, address: &Address, limit: Duration) -> Result<Stored, Error> {
        self.table.read(address, limit).await
    }

    async fn apply_all(
        &self,
        changes: &[(Address, Change)],
        limit: Duration,
    ) -> Result<AppliedAll, Error> {
        self.table.apply_all(changes, limit).await
    }

    async fn read_all(
        &self,
        rows: &[Address],
        limit: Duration,
    ) -> Result<Option<Vec<Stored>>, Error> {
        self.table.read_all(rows, limit).await
    }

    async fn read_key(&self, key: &Key, limit: Duration) -> Result<Vec<(u16, Stored)>, Error> {
        self.table.read_key(key, limit).await
    }

    async fn held(
        &self,
        part: Part,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        self.table.held(part, from, most, limit).await
    }

    async fn held_by(
        &self,
        holder: &Holder,
        from: Option<&Position>,
        most: u32,
        limit: Duration,
    ) -> Result<Page, Error> {
        self.table.held_by(holder, from, most, limit).await
    }
}
