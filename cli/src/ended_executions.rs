//! Executions that have ended while the table still has a lease of theirs, for the listings.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sfn::types::ExecutionStatus;
use leasehold::{HeldView, Holder, LeaseView, Timestamp, ViewUntil};
use tokio::task::JoinSet;

use crate::connect::TableClient;
use crate::step_functions::client;

/// How many executions one command asks about at most, and how many at once.
const MOST: usize = 100;
const AT_ONCE: usize = 10;

/// What Step Functions says of executions that have ended, and when they did.
#[derive(Debug, Default)]
pub(crate) struct EndedExecutions {
    executions: BTreeMap<Holder, (String, Timestamp)>,
    asked: usize,
}

impl EndedExecutions {
    /// Asks about the executions that have these leases. A caller that may not ask sees what the table shows.
    pub(crate) async fn ask<'a>(
        &mut self,
        table_client: &TableClient,
        leases: impl Iterator<Item = &'a LeaseView>,
    ) {
        let held = leases.filter_map(|lease| lease.held.as_ref());
        let lasting = held.filter(|held| matches!(held.until, ViewUntil::Execution { .. }));
        let executions: BTreeSet<_> = lasting.map(|held| &held.holder).collect();
        let executions = executions
            .into_iter()
            .filter(|execution| !execution.is_durable_execution())
            .take(MOST.saturating_sub(self.asked));
        let executions: Vec<_> = executions.cloned().collect();
        if executions.is_empty() {
            return;
        }
        let Ok(sfn) = client(table_client) else {
            return;
        };
        self.asked += executions.len();
        let (mut waiting, mut asked) = (executions.into_iter(), JoinSet::new());
        loop {
            for execution in waiting.by_ref().take(AT_ONCE - asked.len()) {
                let call = sfn.describe_execution().execution_arn(execution.as_str());
                asked.spawn(async move { (execution, call.send().await) });
            }
            let Some(answer) = asked.join_next().await else {
                return;
            };
            let Ok((execution, Ok(described))) = answer else {
                // Perhaps these credentials may not ask at all.
                self.asked = MOST;
                return;
            };
            let status = described.status();
            let at = described.stop_date().and_then(|at| at.to_millis().ok());
            let at = at.and_then(|at| u64::try_from(at).ok());
            if let Some(at) = at
                && !matches!(
                    status,
                    ExecutionStatus::Running | ExecutionStatus::PendingRedrive
                )
            {
                let ended = (status.as_str().to_owned(), Timestamp::from_millis(at));
                self.executions.insert(execution, ended);
            }
        }
    }

    /// How the execution ended that has this lease, and when, if it has.
    pub(crate) fn of(&self, held: &HeldView) -> Option<(&str, Timestamp)> {
        let (status, at) = self.executions.get(&held.holder)?;
        Some((status, *at))
    }
}
