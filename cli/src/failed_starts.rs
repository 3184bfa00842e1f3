//! `leasehold ls --failed`: the starts that have failed, each with the command that repeats it.

use leasehold::{
    Error, ExecutionName, Holder, Key, StartItem, StartStatus, StateMachineArn, Timestamp,
};
use leasehold_net::quoted;
use serde::Serialize;

use crate::columns::pairs;
use crate::connect::{TableArgs, TableClient};
use crate::exit::Failure;
use crate::lease_text::when;

/// Starts per page.
const PAGE: u32 = 100;

/// A start that has failed, without its input.
#[derive(Serialize)]
pub(crate) struct FailedStart {
    pub(crate) key: Key,
    execution_arn: Holder,
    state_machine_arn: StateMachineArn,
    name: ExecutionName,
    asked_at: Timestamp,
    reason: String,
}

/// All of them, by key and age.
pub(crate) async fn all(table_client: &TableClient) -> Result<Vec<FailedStart>, Failure> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = table_client.leases.failed_starts(PAGE, from.as_ref());
        let (items, next) = page.await.map_err(Error::of_a_read)?;
        all.extend(items.into_iter().map(FailedStart::from));
        from = next;
        if from.is_none() {
            all.sort_by(|a, b| (&a.key, a.asked_at).cmp(&(&b.key, b.asked_at)));
            return Ok(all);
        }
    }
}

impl From<StartItem> for FailedStart {
    fn from(item: StartItem) -> Self {
        Self {
            execution_arn: item.execution(),
            key: item.key,
            state_machine_arn: item.state_machine,
            name: item.name,
            asked_at: item.asked_at,
            reason: match item.status {
                StartStatus::Failed(reason) => reason,
                other => other.word().to_owned(),
            },
        }
    }
}

impl FailedStart {
    /// What is known of it, as names and values.
    pub(crate) fn details(&self, now: Timestamp, table_args: &TableArgs) -> String {
        let asked = format!("{} ({})", self.asked_at, when(self.asked_at, now));
        pairs(vec![
            ("key", self.key.to_string()),
            ("machine", self.state_machine_arn.to_string()),
            ("name", self.name.to_string()),
            ("asked", asked),
            ("reason", self.reason.clone()),
            ("repeat", self.repeat(table_args)),
        ])
    }

    /// The command that repeats it.
    fn repeat(&self, table_args: &TableArgs) -> String {
        let start = [self.key.as_str(), self.execution_arn.as_str()];
        let words = start.into_iter().chain(table_args.words());
        let words = words.map(|word| format!(" {}", quoted(word)));
        format!("leasehold repeat-start{}", words.collect::<String>())
    }
}
