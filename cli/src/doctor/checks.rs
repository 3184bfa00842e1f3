//! The table of checks: the promise that each one shows, and what to do if it fails.

/// One row of the report. [`PROOFS`](../../../docs/contributing/proofs.md) has the promises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) id: &'static str,
    /// The promise that the check shows in this account.
    pub(super) promise: &'static str,
    /// The promise in a sentence, as far as the check shows it.
    pub(super) says: &'static str,
    /// What to do if the check fails.
    pub(super) action: &'static str,
    /// Whether it acquires and releases leases, on keys of its own. Other checks write nothing.
    pub(super) takes_leases: bool,
}

/// Every check, in the order of the report.
pub(super) fn checks() -> impl Iterator<Item = Check> {
    let tables = [(INSPECTIONS, false), (EXERCISES, true)];
    tables.into_iter().flat_map(|(rows, takes_leases)| {
        rows.iter().map(move |&[id, promise, says, action]| Check {
            id,
            promise,
            says,
            action,
            takes_leases,
        })
    })
}

/// The checks that write nothing: id, promise, sentence and action.
const INSPECTIONS: &[[&str; 4]] = &[
    [
        "stack",
        "F26",
        "The stack has its table, functions, roles, rules, queues and the machine with-lease, and none of them is in a failed state.",
        "deploy the stack again, and read its CloudFormation events to see what failed",
    ],
    [
        "table",
        "F11",
        "The table has the keys, attributes and billing of a lease table, in one Region.",
        "use the table that the stack created, or restore its shape; a key schema cannot be changed, so a wrong one needs a new table",
    ],
    [
        "index",
        "F21",
        "The table has its index held, by which sweep, reap and listings find the held leases.",
        "deploy the stack again, which restores the index held",
    ],
    [
        "ttl",
        "F10",
        "The table's TTL purges a released row after the retention.",
        "enable the table's TTL: aws dynamodb update-time-to-live --table-name TABLE --time-to-live-specification Enabled=true,AttributeName=purge_at",
    ],
    [
        "recovery",
        "X26",
        "The table can be restored to any second of the last weeks, and cannot be deleted by mistake.",
        "switch both on, as the template does and a restore does not: aws dynamodb update-continuous-backups --table-name TABLE --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true, and aws dynamodb update-table --table-name TABLE --deletion-protection-enabled",
    ],
    [
        "ends",
        "F20",
        "The end of each execution reaches the function reap, through its queue.",
        "enable the event source mapping of the function reap, or deploy the stack again",
    ],
    [
        "functions",
        "F26",
        "Every function exists, is active, and has the runtime, instruction set and timeout of the template.",
        "deploy the stack again from one version, which also undoes changes made by hand",
    ],
    [
        "table-name",
        "F12",
        "Every function uses this stack's table.",
        "deploy the stack again, which sets LEASE_TABLE of the named functions to this stack's table",
    ],
    [
        "settings",
        "S8",
        "All functions have the same margin, guard and other settings, and every value parses.",
        "give every function the same variables: deploy the stack again; the parameters ClockMarginMs, GuardMs and the others set them everywhere",
    ],
    [
        "grace",
        "F41",
        "No function of a listed state machine may run longer than its execution's leases are kept after the execution's end.",
        "raise ReapGraceSeconds to the function's timeout, or shorten that: a lease may end while the function works",
    ],
    [
        "machine",
        "F23",
        "The state machine with-lease is active, and calls start of this stack.",
        "deploy the stack again, which restores the definition of the machine with-lease",
    ],
    [
        "alarms",
        "F28",
        "The alarms that notify operators exist.",
        "deploy with Monitoring=enabled; deploy the nested stack MonitoringStack again to restore a deleted alarm",
    ],
    [
        "quotas",
        "L1",
        "Step Functions may be asked about executions at least as fast as AWS documents it for its smaller Regions.",
        "request more in Service Quotas; docs/guides/deploy-and-alarms.md says which quotas, and what they allow",
    ],
    [
        "listing",
        "S11",
        "The function inspect lists the held leases, without their secrets.",
        "read the logs of the function inspect; if a lease_id was listed, report that as a security problem",
    ],
    [
        "clock-here",
        "S8",
        "This machine's clock agrees with DynamoDB's to within half of the margin.",
        "synchronize this machine's clock by NTP; until then take no lease from this machine with the command line or the crate",
    ],
];

/// The checks that take leases.
const EXERCISES: &[[&str; 4]] = &[
    [
        "clock-functions",
        "S8",
        "The functions' clocks agree with DynamoDB's to within half of the margin.",
        "AWS sets these clocks: report it to AWS, and until it is fixed raise ClockMarginMs to more than twice the difference",
    ],
    [
        "roles",
        "F29",
        "Every called function has the permissions that it needs.",
        "deploy the stack again, which gives the function's role the named action on the named table; look for a permissions boundary or service control policy that denies it",
    ],
    [
        "grant",
        "F1",
        "A free key is granted.",
        "read the logs of the function acquire for the named error",
    ],
    [
        "copies",
        "S7",
        "A repeated request gets the same lease.",
        "stop work with this stack and report it: a retry may get a second lease",
    ],
    [
        "exclusive",
        "S8",
        "A key that is held is granted to nobody else.",
        "stop work with this stack and report it: two holders may work at the same time",
    ],
    [
        "extend",
        "S5",
        "An extend moves the deadline, and never to an earlier instant.",
        "read the logs of the function extend for the named error",
    ],
    [
        "secrets",
        "S11",
        "The function inspect shows a held key without its lease_id.",
        "report it as a security problem, and let nobody invoke the function inspect until it is fixed",
    ],
    [
        "release",
        "F2",
        "A release frees the key, and is idempotent.",
        "read the logs of the function release for the named error",
    ],
    [
        "spent",
        "S9",
        "A request whose lease has ended is never granted again.",
        "stop work with this stack and report it: a late duplicate may hold a key that nobody releases",
    ],
    [
        "tokens",
        "S2",
        "A later grant has a larger fencing token.",
        "stop work with this stack and report it; if the table was restored from a backup, raise TokenFloor first",
    ],
    [
        "permits",
        "F17",
        "A semaphore of two permits grants two and no third.",
        "read the logs of the function acquire; if a third permit was granted, stop work with semaphores and report it",
    ],
    [
        "keys",
        "F18",
        "Several keys are leased together or not at all.",
        "read the logs of the function acquire; if only one key was leased, report it",
    ],
    [
        "takeover",
        "L1",
        "The key of a crashed holder is granted again after its ttl and the margin, and the grant says that the lease expired.",
        "check the clocks above, and read the logs of the function acquire",
    ],
    [
        "lost",
        "S4",
        "The old holder's handle neither extends nor releases the next holder's lease.",
        "stop work with this stack and report it: an old holder can end another's lease",
    ],
    [
        "queue",
        "L3",
        "Executions that wait in the queue get the key in turn.",
        "inspect the named executions, read the logs of release and sweep, and check that their roles allow states:SendTaskSuccess",
    ],
    [
        "redrive",
        "F20",
        "An execution that was stopped in the queue and redriven waits again, and is granted the key.",
        "inspect the named execution in Step Functions, and read the logs of the function reap",
    ],
    [
        "sweep",
        "L1",
        "Sweep frees the lease of a crashed holder, on its schedule.",
        "enable the stack's rule SweepFunctionSchedule, and read sweep's logs; if SweepSchedule is longer than a minute, use a longer --patience",
    ],
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_is_complete() {
        let ids: BTreeSet<_> = checks().map(|check| check.id).collect();
        assert_eq!(ids.len(), checks().count());
        let proofs = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/contributing/proofs.md"
        );
        let proofs = std::fs::read_to_string(proofs).unwrap();
        for check in checks() {
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
