//! `leasehold redrive`: takes the leases of a failed execution back for it, and redrives it.

use std::collections::BTreeMap;

use aws_sdk_sfn::Client;
use aws_sdk_sfn::types::ExecutionStatus;
use clap::Args;
use leasehold::{
    DynamoDb, GrantKind, Granted, Holder, Key, LeaseTerms, LifetimeKind, Queue, RequestId,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::connect::{TableArgs, TableClient};
use crate::exit::{Code, Failure};
use crate::output::{print, print_error};
use crate::start::queue_of;
use crate::step_functions::{client, failed, status};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  leasehold redrive arn:aws:states:eu-west-1:123456789012:execution:orders:7f3c

A redriven execution resumes at the state that failed, past its Acquire, and somebody else may have its key by then. This
command finds the leases that last while the execution runs, in the table and in its history, takes those back that it has
lost, and redrives it. If somebody else holds one of the keys, nothing is changed. It is for what `leasehold start` or the
function start began, which has no Acquire, and for machines that do not verify their lease themselves: one that does
(docs/guides/weave.md) acquires anew, and can be redriven as it is. Redriven in any other way, what was started under a lease
is stopped by the stack if its key has passed on (the parameter RedrivenStarts).

A lease that was taken back has a new handle, which the execution does not know: its own Release finds it lost, and the key
is free when the execution ends.

Exit codes: 0 redriven, 1 it cannot be redriven, 75 somebody else holds a key of it.")]
pub(crate) struct Redrive {
    /// The execution's ARN
    #[arg(value_parser = |text: &str| Holder::new(text))]
    execution: Holder,
    /// A key to take back, instead of those in its history; may be given more than once
    #[arg(long, value_parser = |text: &str| Key::new(text))]
    key: Vec<Key>,
    #[command(flatten)]
    table_args: TableArgs,
}

impl Redrive {
    pub(crate) async fn run(self) -> Result<Code, Failure> {
        let execution = &self.execution;
        if !is_execution(execution.as_str()) {
            let what = format!("{execution} is no execution of Step Functions");
            let advice = "give its ARN: arn:aws:states:REGION:ACCOUNT:execution:MACHINE:NAME";
            return Err(Failure::usage(what).advice(advice));
        }
        let table_client = self.table_args.connect().await?;
        let sfn = client(&table_client)?;
        match status(&sfn, execution).await? {
            ExecutionStatus::Failed | ExecutionStatus::Aborted | ExecutionStatus::TimedOut => {}
            other => {
                let status = other.as_str();
                let what = format!("{execution} cannot be redriven: it is {status}");
                return Err(Failure::new(Code::FAILURE, what));
            }
        }
        let all = self.all_terms(&table_client, &sfn).await?;
        let queue = queue_of(&table_client, execution)?;
        let mut taken = Vec::new();
        for terms in all {
            match take_back(&queue, execution, &terms).await {
                Ok(granted) => taken.push(granted),
                Err(failure) => {
                    give_back(&queue, &taken).await;
                    return Err(failure);
                }
            }
        }
        let redriven = sfn.redrive_execution().execution_arn(execution.as_str());
        if let Err(error) = redriven.send().await {
            give_back(&queue, &taken).await;
            return Err(failed("RedriveExecution", &error));
        }
        for Granted { lease, grant, .. } in &taken {
            let (key, number) = (lease.key.label(), lease.fencing_token);
            let how = if *grant == GrantKind::Reentered {
                "still its own"
            } else {
                "taken back"
            };
            print(&format!("{key} is {how}, with token {number}"))?;
        }
        print(&format!("redriven: {execution}"))?;
        Ok(Code::DONE)
    }

    /// The leases to take back: what the execution still has, what it had until its end, and what its history shows.
    async fn all_terms(
        &self,
        table_client: &TableClient,
        sfn: &Client,
    ) -> Result<Vec<LeaseTerms>, Failure> {
        let execution = &self.execution;
        let known = table_client.leases.keys_of(execution).await?.into_iter();
        let known = known.map(|terms| (terms.key.clone(), terms));
        let mut known: BTreeMap<_, _> = known.collect();
        let keys = if self.key.is_empty() {
            let mut keys = keys_of(sfn, execution).await?;
            let more = known.keys().filter(|key| !keys.contains(key));
            let more: Vec<_> = more.cloned().collect();
            keys.extend(more);
            keys
        } else {
            self.key.clone()
        };
        if keys.is_empty() {
            let failure = Failure::new(
                Code::FAILURE,
                format!(
                    "neither the table nor the history of {execution} shows a lease that lasts while it runs"
                ),
            );
            return Err(failure.advice("name its keys with --key, or redrive it with `aws stepfunctions redrive-execution`"));
        }
        let terms = |key: Key| known.remove(&key).unwrap_or_else(|| LeaseTerms::new(key));
        Ok(keys.into_iter().map(terms).collect())
    }
}

/// Asked before anything that needs credentials.
fn is_execution(arn: &str) -> bool {
    let parts: Vec<_> = arn.split(':').collect();
    matches!(parts[..], ["arn", _, "states", _, _, "execution", _, _])
}

/// The lease of the execution, if it still has it, or a new one.
async fn take_back(
    queue: &Queue<DynamoDb>,
    execution: &Holder,
    terms: &LeaseTerms,
) -> Result<Granted, Failure> {
    let again = queue.acquire_again(execution, terms, RequestId::random());
    let granted = again.await?.map_err(|in_the_way| {
        let failure = Failure::new(Code::HELD, format!("not redriven: {in_the_way}"));
        failure.advice("wait until it is free, and try again")
    })?;
    // A look that is under way must not end what was found.
    let proven = queue.extend(&granted.lease, leasehold::ExtendOptions::default());
    drop(proven.await?);
    Ok(granted)
}

/// Releases what this call was granted anew.
async fn give_back(queue: &Queue<DynamoDb>, taken: &[Granted]) {
    let new = taken.iter().filter(|one| one.grant != GrantKind::Reentered);
    for Granted { lease, .. } in new {
        if let Err(error) = queue.release(lease).await {
            let key = &lease.key;
            print_error(&format!("{key} could not be released: {error}"));
        }
    }
}

/// The keys of the execution's leases, as its tasks' results show them, in the order in which it got them.
async fn keys_of(sfn: &Client, execution: &Holder) -> Result<Vec<Key>, Failure> {
    let mut keys = BTreeMap::new();
    let mut next = None;
    loop {
        let page = sfn.get_execution_history();
        let page = page.execution_arn(execution.as_str());
        let page = page.include_execution_data(true).max_results(1000);
        let page = page.set_next_token(next).send().await;
        let page = page.map_err(|error| failed("GetExecutionHistory", &error))?;
        for event in page.events() {
            let output = event.task_succeeded_event_details();
            let output = output.and_then(|details| details.output());
            let output = output.and_then(|text| serde_json::from_str(text).ok());
            find_handles(&output.unwrap_or(Value::Null), execution, &mut keys);
        }
        next = page.next_token;
        if next.is_none() {
            let mut found: Vec<_> = keys.into_iter().collect();
            found.sort_by_key(|(_, place)| *place);
            return Ok(found.into_iter().map(|(key, _)| key).collect());
        }
    }
}

/// A handle in a task's result, of which only this is read.
#[derive(Deserialize)]
struct FoundHandle {
    key: Key,
    holder: Holder,
    lifetime: LifetimeKind,
    #[serde(rename = "lease_id")]
    _lease_id: IgnoredAny,
}

/// Adds the keys of the handles in this value.
fn find_handles(value: &Value, execution: &Holder, keys: &mut BTreeMap<Key, usize>) {
    match FoundHandle::deserialize(value) {
        Ok(handle) if handle.lifetime == LifetimeKind::Execution && handle.holder == *execution => {
            let place = keys.len();
            keys.entry(handle.key).or_insert(place);
        }
        _ => parts(value).for_each(|part| find_handles(part, execution, keys)),
    }
}

fn parts(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(values) => Box::new(values.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn handles_are_found_wherever_they_are() {
        let own =
            Holder::new("arn:aws:states:eu-west-1:123456789012:execution:orders:own").unwrap();
        let handle = |key: &str, holder: &str, lifetime: &str| json!({"key": key, "holder": holder, "lifetime": lifetime, "lease_id": "x"});
        let output = json!({
            "Payload": {"lease": handle("b", own.as_str(), "execution")},
            "all": [handle("a", own.as_str(), "execution"), handle("c", "other", "execution"), handle("d", own.as_str(), "ttl")],
            "text": "lease_id", "key": "e",
        });
        let mut keys = BTreeMap::new();
        find_handles(&output, &own, &mut keys);
        let found: Vec<_> = keys.keys().map(Key::as_str).collect();
        assert_eq!(found, ["a", "b"]);
    }
}
