//! How fast the account may ask Step Functions about executions, by which sweep and reap learn of ends.

use super::account::{Account, CallError};
use super::report::Outcome;

/// What Step Functions calls the quota of an action.
const SUFFIX: &str = " throttle token refill rate per second";

/// The actions that limit a stack, and the lowest refill that AWS documents as a default: that of its smaller Regions.
const DOCUMENTED: [(&str, f64); 2] = [("GetExecutionHistory", 20.0), ("DescribeExecution", 10.0)];

/// Compares the account's quotas with the lowest defaults. One that Service Quotas does not list is not checked.
pub(super) async fn of_quotas(account: &Account) -> Outcome {
    let list = account.quotas.list_service_quotas().service_code("states");
    let mut pages = list.into_paginator().items().send();
    let mut quotas = Vec::new();
    while let Some(quota) = pages.next().await {
        match quota {
            Ok(quota) => quotas.extend(quota.quota_name.zip(quota.value)),
            Err(error) => {
                return CallError::of("servicequotas:ListServiceQuotas", &error)
                    .outcome("the list of quotas");
            }
        }
    }
    let mut found = Vec::new();
    for (action, documented) in DOCUMENTED {
        let is_its = |(name, _): &&(String, f64)| name.strip_suffix(SUFFIX) == Some(action);
        match quotas.iter().find(is_its) {
            None => {
                return Outcome::not_checked(format!(
                    "Service Quotas does not list \"{action}{SUFFIX}\""
                ));
            }
            Some((_, value)) if *value < documented => found.push(format!(
                "{action} refills at {value} a second, and {documented} is the lowest that AWS documents"
            )),
            Some(_) => {}
        }
    }
    Outcome::of(found)
}
