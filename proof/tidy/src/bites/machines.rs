//! Faults in the state machines, and a part of what the rule says that finds each.

use super::{
    Faults,
    Seed::{Change, Lose},
};

const TEMPLATE: &str = "template.yaml";
const SECTION: &str = "statemachines/critical-section.asl.json";
const WRAPPER: &str = "statemachines/with-lease.asl.json";

pub const FAULTS: &[(&str, Faults)] = &[
    (
        "every error name in a state machine is one that somebody raises",
        &[
            (
                Change(
                    SECTION,
                    "\"ErrorEquals\": [\"Lease.Held\"]",
                    "\"ErrorEquals\": [\"Lease.Hold\"]",
                ),
                "nobody raises Lease.Hold",
            ),
            (
                Change(SECTION, "Lambda.ServiceException", "Lambda.ServerException"),
                "nobody raises Lambda.ServerException",
            ),
            (
                // In a literal of JSONata.
                Change(SECTION, "? 'Lease.StepTimeout'", "? 'Lease.StepTimedOut'"),
                "nobody raises Lease.StepTimedOut",
            ),
            (
                Change(
                    WRAPPER,
                    "\"Error\": \"WithLease.Redriven\"",
                    "\"Error\": \"Redriven\"",
                ),
                "nobody raises Redriven",
            ),
            (
                Change(
                    "README.md",
                    "\"ErrorEquals\": [\"Lease.Held\"]",
                    "\"ErrorEquals\": [\"Lease.Busy\"]",
                ),
                "README.md: Acquire: nobody raises Lease.Busy",
            ),
            (
                Change(
                    "lib/src/error.rs",
                    "        \"Lease.QueueTimeout\",",
                    "        \"Lease.QueueTimedOut\",",
                ),
                "nobody raises Lease.QueueTimeout",
            ),
            (
                Change("lib/src/error.rs", "pub const NAMES", "const ALL"),
                "no list of names",
            ),
        ],
    ),
    (
        "every state has a Comment",
        &[
            (
                Change(
                    "statemachines/transfer.asl.json",
                    "\"Comment\": \"Writes",
                    "\"Remark\": \"Writes",
                ),
                "Write: no Comment",
            ),
            (Lose("statemachines/"), "no state machine to look at"),
        ],
    ),
    (
        "a machine in JSONata has nothing of JSONPath's",
        &[
            (
                Change(
                    SECTION,
                    "\"Output\": \"{% $states.input %}\"",
                    "\"ResultPath\": null",
                ),
                "ResultPath is JSONPath's",
            ),
            (
                Change(
                    SECTION,
                    "\"lease\": \"{% $lease %}\"",
                    "\"lease.$\": \"$.lease\"",
                ),
                "lease.$ takes a path",
            ),
            (
                Change(SECTION, "\"QueryLanguage\": \"JSONata\",", ""),
                "its QueryLanguage is not JSONata",
            ),
            (Lose("statemachines/"), "no state machine to look at"),
        ],
    ),
    (
        "retriers and catchers are what the service takes, and a held key is asked for with jitter",
        &[
            (
                Change(SECTION, "\"BackoffRate\": 1.5", "\"BackoffRate\": 0.5"),
                "BackoffRate of a Retry is 0.5",
            ),
            (
                Change(
                    SECTION,
                    "\"JitterStrategy\": \"FULL\"",
                    "\"JitterStrategy\": \"NONE\"",
                ),
                "JitterStrategy of a Retry is \"NONE\"",
            ),
            (
                Change(
                    SECTION,
                    "[\"States.QueryEvaluationError\"]",
                    "[\"States.ALL\"]",
                ),
                "States.ALL of its Catch is not alone and last",
            ),
            (Lose("statemachines/"), "no state machine to look at"),
        ],
    ),
    (
        "every call of our functions is retried on service exceptions",
        &[
            (
                Change(SECTION, "\"Lambda.SdkClientException\", ", ""),
                "Acquire: no Retry for Lambda.SdkClientException",
            ),
            (
                Change("README.md", "\"Lambda.ServiceException\", ", ""),
                "README.md: Acquire: no Retry for Lambda.ServiceException",
            ),
        ],
    ),
    (
        "what is final is never retried",
        &[
            (
                Change(
                    SECTION,
                    "[\"Lease.Held\"]",
                    "[\"Lease.Held\", \"Lease.Consumed\"]",
                ),
                "Lease.Consumed is final",
            ),
            (
                Change(
                    WRAPPER,
                    "[\"Lease.Throttled\", \"Lease.Unavailable\"",
                    "[\"Lease.Lost\", \"Lease.Unavailable\"",
                ),
                "Lease.Lost is final",
            ),
            (
                Change(SECTION, "[\"Lease.Held\"]", "[\"States.TaskFailed\"]"),
                "States.TaskFailed is final",
            ),
        ],
    ),
    (
        "a lease is kept from others while its step may still run",
        &[
            (
                Change(
                    SECTION,
                    "\"ErrorEquals\": [\"States.Timeout\", ",
                    "\"ErrorEquals\": [",
                ),
                "First: States.Timeout is not caught apart",
            ),
            (
                Change(
                    SECTION,
                    "\"Next\": \"StepMayRun\"",
                    "\"Next\": \"ReleaseAfterFailure\"",
                ),
                "lets others in beside",
            ),
        ],
    ),
    (
        "a step never gets the secret of its lease",
        &[
            (
                Change(
                    SECTION,
                    "\"lease\": \"{% {'key': $lease.key",
                    "\"lease\": \"{% {'id': $lease.lease_id, 'key': $lease.key",
                ),
                "First: the step gets the lease's secret",
            ),
            (
                Change(
                    SECTION,
                    "\"work\": \"{% $exists($input.first) ? $input.first : {} %}\"",
                    "\"work\": \"{% $lease %}\"",
                ),
                "First: the step gets the lease's secret",
            ),
        ],
    ),
    (
        "every task has a time limit, longer than its function's own",
        &[
            (
                Change(SECTION, "\"TimeoutSeconds\": 15,", ""),
                "Acquire: no TimeoutSeconds",
            ),
            (
                Change(SECTION, "\"TimeoutSeconds\": 15", "\"TimeoutSeconds\": 10"),
                "not more than the function's own",
            ),
            (
                Change(
                    SECTION,
                    "\"TimeoutSeconds\": 15",
                    "\"HeartbeatSeconds\": 15, \"TimeoutSeconds\": 15",
                ),
                "HeartbeatSeconds 15 is not less",
            ),
            (
                Change(TEMPLATE, "    Timeout: 10\n", "    Timeout: 20\n"),
                "not more than the function's own",
            ),
        ],
    ),
    (
        "every transition leads to a state, every state is reached, and an end from everywhere",
        &[
            (
                Change(SECTION, "\"Next\": \"Second\"", "\"Next\": \"Third\""),
                "Extend: Third does not exist",
            ),
            (
                Change(SECTION, "\"Next\": \"Second\"", "\"Next\": \"First\""),
                "Second: never reached",
            ),
            (
                Change(SECTION, "\"Next\": \"Done\"", "\"Next\": \"Doom\""),
                "Release: Doom does not exist",
            ),
            (
                Change(
                    SECTION,
                    "\"StartAt\": \"Acquire\"",
                    "\"StartAt\": \"Aquire\"",
                ),
                "StartAt \"Aquire\" does not exist",
            ),
            (
                Change(
                    WRAPPER,
                    "\"Default\": \"ReleaseAfterFailure\"",
                    "\"Else\": \"ReleaseAfterFailure\"",
                ),
                "MayRun?: no Default",
            ),
            (
                // The branch then goes round for ever.
                Change(WRAPPER, "\"Next\": \"Unproven\"", "\"Next\": \"Again\""),
                "Guarded: Wait: no way to an end",
            ),
            (
                // A state of the machine, but not of the branch.
                Change(WRAPPER, "\"Next\": \"Unproven\"", "\"Next\": \"Failed\""),
                "Guarded: Extend: Failed does not exist",
            ),
            (
                Change(
                    "README.md",
                    "\"Next\": \"MayStillRun\"",
                    "\"Next\": \"MayRun\"",
                ),
                "README.md: Work: MayRun does not exist",
            ),
            (Lose("statemachines/"), "no state machine to look at"),
        ],
    ),
    (
        "what a machine's names stand for is of the right kind",
        &[
            (
                Change(
                    TEMPLATE,
                    "        ExtendFunction: !GetAtt ExtendFunction.Arn\n",
                    "        ExtendFunction: !GetAtt ReleaseFunction.Arn\n",
                ),
                "needs as its FunctionName for ExtendFunction",
            ),
            (
                Change(
                    TEMPLATE,
                    "        StepFunction: !Ref StepFunctionArn\n",
                    "        StepFunction: !Ref LeasingStateMachine\n",
                ),
                "needs as its FunctionName for StepFunction",
            ),
            (
                Change(
                    TEMPLATE,
                    "        AccountsTable: !Ref AccountsTableName\n",
                    "        AccountsTable: !Ref LeaseTable\n",
                ),
                "needs as its TableName for AccountsTable",
            ),
            (
                Change(
                    SECTION,
                    "\"step\": \"first\"",
                    "\"step\": \"${StepFunction}\"",
                ),
                "needs as its step for StepFunction",
            ),
            (
                Lose("statemachines/transfer"),
                "statemachines/transfer.asl.json does not exist",
            ),
        ],
    ),
];
