//! Faults in template.yaml and in what it names, and a part of what the rule says that finds each.

use super::{
    Faults,
    Seed::{Change, Gain, Lose},
};

const TEMPLATE: &str = "template.yaml";
const SECTION: &str = "statemachines/critical-section.asl.json";

pub const FAULTS: &[(&str, Faults)] = &[
    (
        "one directory = one function = one binary = one logical id, with an event",
        &[
            (
                Change(TEMPLATE, "Binary: sweep", "Binary: seep"),
                "seep is not the binary",
            ),
            (
                Change(
                    TEMPLATE,
                    "CodeUri: functions/reap",
                    "CodeUri: functions/rap",
                ),
                "functions/rap does not exist",
            ),
            (
                Change(
                    "functions/grant/Cargo.toml",
                    "name = \"grant\"",
                    "name = \"grand\"",
                ),
                "not the binary of functions/grant",
            ),
            (
                Change(TEMPLATE, "\n  ExtendFunction:", "\n  ExtensionFunction:"),
                "not the logical id",
            ),
            (Lose("events/inspect"), "no events/inspect*.json"),
            (
                Lose("functions/operate/"),
                "functions/operate does not exist",
            ),
            (
                Gain("functions/renew/Cargo.toml", "name = \"renew\""),
                "functions/renew: not in template.yaml",
            ),
        ],
    ),
    (
        "one state machine file = one resource, with its name and its substitutions",
        &[
            (
                Change(
                    TEMPLATE,
                    "DefinitionUri: statemachines/transfer.asl.json",
                    "DefinitionUri: statemachines/transfers.asl.json",
                ),
                "statemachines/transfers.asl.json does not exist",
            ),
            (
                Change(
                    TEMPLATE,
                    "Name: !Sub ${AWS::StackName}-observe",
                    "Name: !Sub observe",
                ),
                "its Name is not the stack's and observe",
            ),
            (
                Change(SECTION, "${StepFunction}", "${WorkFunction}"),
                "does not substitute WorkFunction",
            ),
            (
                Change(
                    TEMPLATE,
                    "        LeaseTable: !Ref LeaseTable\n",
                    "        LeaseTable: !Ref LeaseTable\n        OtherTable: !Ref LeaseTable\n",
                ),
                "does not ask for OtherTable",
            ),
            (
                Gain("statemachines/more.asl.json", "{}"),
                "statemachines/more.asl.json: not in template.yaml",
            ),
        ],
    ),
    (
        "environment variables are the same in code, template and README",
        &[
            (
                Change(TEMPLATE, "LEASE_QUEUE_CAP:", "LEASE_QUEUE_CAPACITY:"),
                "template.yaml: no LEASE_QUEUE_CAP",
            ),
            (
                Change(
                    "lib/src/settings.rs",
                    "\"LEASE_GUARD_MS\"",
                    "\"LEASE_GUARDS_MS\"",
                ),
                "README.md: no LEASE_GUARDS_MS",
            ),
            (
                Change("README.md", "\n## Deploy", "\n`LEASE_NAME`\n## Deploy"),
                "README.md: LEASE_NAME, which lib/src does not read",
            ),
        ],
    ),
    (
        "every role allows what is written down and no more",
        &[
            (
                Change(
                    TEMPLATE,
                    "Action: dynamodb:Scan",
                    "Action: [dynamodb:Scan, dynamodb:PutItem]",
                ),
                "SweepRole may dynamodb:Scan, dynamodb:PutItem",
            ),
            (
                Change(
                    TEMPLATE,
                    "Action: states:SendTaskSuccess",
                    "Action: states:SendTaskFailure",
                ),
                "AcquireRole may not states:SendTaskSuccess",
            ),
            (
                Change(TEMPLATE, "      Role: !GetAtt OperateRole.Arn\n", ""),
                "without a Role",
            ),
        ],
    ),
    (
        "no action and no resource is more than its name says, or there is a reason",
        &[
            (
                Change(
                    TEMPLATE,
                    "Action: dynamodb:UpdateItem",
                    "Action: dynamodb:*",
                ),
                "dynamodb:* is more than one action",
            ),
            (
                Change(
                    TEMPLATE,
                    "Resource: !GetAtt LeaseTable.Arn",
                    "Resource: '*'",
                ),
                "* has an asterisk without a written reason",
            ),
        ],
    ),
    (
        "Lambda alone takes a role on",
        &[(
            Change(
                TEMPLATE,
                "Service: lambda.amazonaws.com",
                "Service: ec2.amazonaws.com",
            ),
            "somebody else than Lambda",
        )],
    ),
    (
        "nothing is reached from outside of the account",
        &[(
            Change(
                TEMPLATE,
                "      CodeUri: functions/acquire\n",
                "      CodeUri: functions/acquire\n      FunctionUrlConfig: {AuthType: NONE}\n",
            ),
            "a function URL",
        )],
    ),
    (
        "data is encrypted and kept",
        &[
            (
                Change(TEMPLATE, "    DeletionPolicy: Retain\n", ""),
                "DeletionPolicy is \"\"",
            ),
            (
                Change(TEMPLATE, "SSEEnabled: true", "SSEEnabled: false"),
                "SSEEnabled is \"false\"",
            ),
            (
                Change(
                    TEMPLATE,
                    "      RetentionInDays: !Ref LogRetentionDays\n",
                    "",
                ),
                "RetentionInDays",
            ),
        ],
    ),
];
