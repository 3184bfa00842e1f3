//! The table of checks: what is looked at or done, which promise it shows, and what to do when it fails.

/// One row of the report. [`PROOFS`](../../../docs/PROOFS.md) has the promises.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) id: &'static str,
    /// The promise that it shows in this account.
    pub(super) promise: &'static str,
    /// The promise in a sentence, as far as the check shows it.
    pub(super) says: &'static str,
    /// What to do when it fails.
    pub(super) action: &'static str,
    pub(super) by: By,
}

/// How a check is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Nothing is written.
    Looking,
    /// Leases of a key of its own are taken and released.
    Doing,
}

const fn look(
    id: &'static str,
    promise: &'static str,
    says: &'static str,
    action: &'static str,
) -> Check {
    Check {
        id,
        promise,
        says,
        action,
        by: By::Looking,
    }
}

const fn act(
    id: &'static str,
    promise: &'static str,
    says: &'static str,
    action: &'static str,
) -> Check {
    Check {
        id,
        promise,
        says,
        action,
        by: By::Doing,
    }
}

/// Every check, in the order of the report.
pub(super) const CHECKS: &[Check] = &[
    look(
        "stack",
        "F26",
        "The stack has its table, functions, roles, rules, queues and the machine with-lease, and none of them failed.",
        "deploy the stack again, and look at its events in CloudFormation for what failed",
    ),
    look(
        "table",
        "F11",
        "The table has the keys, attributes and billing of a lease table.",
        "name the table that the stack made, or restore its shape; a key schema cannot be changed, so a wrong one needs a new table",
    ),
    look(
        "index",
        "F21",
        "Sweep, reap and listings find what is held by the table's index held.",
        "deploy the stack again, so that the table gets its index held back",
    ),
    look(
        "ttl",
        "F10",
        "A row that was released is purged after the retention, by the table's TTL.",
        "switch the table's TTL on: aws dynamodb update-time-to-live --table-name TABLE --time-to-live-specification Enabled=true,AttributeName=purge_at",
    ),
    look(
        "stream",
        "F19",
        "The table's stream reaches the function grant, which hands a freed key to whoever waits.",
        "deploy the stack again, so that the table has its stream (NEW_IMAGE) and grant its event source mapping; enable the mapping if it was disabled",
    ),
    look(
        "ends",
        "F20",
        "The ends of executions reach the function reap a second time, by its queue.",
        "enable the event source mapping of the function reap, or deploy the stack again",
    ),
    look(
        "functions",
        "F26",
        "Every function is there, active, and has the runtime, instruction set and time limit of the template.",
        "deploy the stack again from one version; a function that was changed by hand goes back to the template then",
    ),
    look(
        "table-name",
        "F12",
        "Every function works on this stack's table.",
        "set LEASE_TABLE of the functions that are named to this stack's table: deploy the stack again",
    ),
    look(
        "settings",
        "S8",
        "All functions have the same margin, guard and other settings, and these can be read.",
        "give every function the same variables: deploy the stack again; the parameters ClockMarginMs, GuardMs and the others set them everywhere",
    ),
    look(
        "machine",
        "F23",
        "The state machine with-lease is active, and calls the functions of this stack.",
        "deploy the stack again, so that the machine with-lease is made from its definition",
    ),
    look(
        "alarms",
        "F28",
        "The alarms that tell operators of a breach are there.",
        "deploy with Monitoring=enabled; an alarm that was deleted comes back when the nested stack MonitoringStack is deployed anew",
    ),
    look(
        "listing",
        "S11",
        "The function inspect lists what is held, without its secrets.",
        "look at the logs of the function inspect; if a lease_id was listed, report that as a security problem",
    ),
    look(
        "clock-here",
        "S8",
        "This machine's clock agrees with DynamoDB's to within half of the margin.",
        "set this machine's clock by NTP; until then take no lease from here by the command line or the crate",
    ),
    act(
        "clock-functions",
        "S8",
        "The functions' clocks agree with DynamoDB's to within half of the margin.",
        "AWS keeps these clocks: report it to AWS, and raise ClockMarginMs to more than twice the difference until it is over",
    ),
    act(
        "roles",
        "F29",
        "Every function that was called may do what it has to.",
        "give the function's role the action that is named, on the table that is named: deploy the stack again; look for a permissions boundary or service control policy that takes it away",
    ),
    act(
        "grant",
        "F1",
        "A free key is granted.",
        "look at the logs of the function acquire for the error that is named",
    ),
    act(
        "copies",
        "S7",
        "A request that is repeated gets the same lease back.",
        "stop work with this stack and report it: a retry may get a second lease",
    ),
    act(
        "exclusive",
        "S8",
        "A key that is held is granted to nobody else.",
        "stop work with this stack and report it: two holders may be at work",
    ),
    act(
        "extend",
        "S5",
        "An extend moves the deadline, and never to an earlier one.",
        "look at the logs of the function extend for the error that is named",
    ),
    act(
        "secrets",
        "S11",
        "What is shown of a held key has no lease_id.",
        "report it as a security problem, and let nobody invoke the function inspect until then",
    ),
    act(
        "release",
        "F2",
        "A release frees the key, and may be repeated.",
        "look at the logs of the function release for the error that is named",
    ),
    act(
        "spent",
        "S9",
        "A request whose lease is over is never granted again.",
        "stop work with this stack and report it: a late duplicate may hold a key that nobody releases",
    ),
    act(
        "tokens",
        "S2",
        "A later grant has a larger fencing token.",
        "stop work with this stack and report it; if the table was restored from a backup, raise TokenFloor first",
    ),
    act(
        "permits",
        "F17",
        "Of two permits, two are granted and no third.",
        "look at the logs of the function acquire; if a third was granted, stop work with semaphores and report it",
    ),
    act(
        "keys",
        "F18",
        "Several keys are leased together or not at all.",
        "look at the logs of the function acquire; if one key alone was leased, report it",
    ),
    act(
        "takeover",
        "L1",
        "The key of a holder that vanished is granted again after its ttl and the margin, and the next holder is told.",
        "look at the clocks above, and at the logs of the function acquire",
    ),
    act(
        "lost",
        "S4",
        "The old holder's handle neither extends nor releases the next holder's lease.",
        "stop work with this stack and report it: an old holder can end another's lease",
    ),
    act(
        "queue",
        "L3",
        "Executions that wait in the queue get the key in turn.",
        "look at the executions that are named, at grant's and release's logs, and whether their roles may states:SendTaskSuccess",
    ),
    act(
        "redrive",
        "F20",
        "An execution that was stopped in the queue and redriven waits again, and gets its turn.",
        "look at the execution that is named in Step Functions, and at the function reap's logs",
    ),
    act(
        "sweep",
        "L1",
        "A lease whose holder vanished is freed by sweep, on its schedule.",
        "enable the stack's rule SweepFunctionSchedule, and look at sweep's logs; with a SweepSchedule of more than a minute give --patience",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_a_promise_a_sentence_and_an_action() {
        let ids: BTreeSet<_> = CHECKS.iter().map(|check| check.id).collect();
        assert_eq!(ids.len(), CHECKS.len());
        let proofs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/PROOFS.md");
        let proofs = std::fs::read_to_string(proofs).unwrap();
        for check in CHECKS {
            // A feature may be split into parts there, as in F2a and F2b.
            let rows = [
                format!("\n| {} |", check.promise),
                format!("\n| {}a |", check.promise),
            ];
            assert!(rows.iter().any(|row| proofs.contains(row)), "{check:?}");
            assert!(
                check.says.ends_with('.') && !check.says.contains(". "),
                "{check:?}"
            );
            assert!(
                !check.action.is_empty() && !check.action.ends_with('.'),
                "{check:?}"
            );
        }
    }
}
