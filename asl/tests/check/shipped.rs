//! What the shipped machines are held to beyond `check` and asl-validator: reasons, one language, limits, names of errors, retries and
//! secrets. Each rule is shown a fault that it notices.

use crate::{root, text};
use leasehold_asl::KNOWN_ERRORS;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// What Lambda may answer instead of running a function, which ours bear being called twice for.
const SERVICE_EXCEPTIONS: [&str; 5] = [
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
];

/// What asking again cannot change.
const FINAL: &str = "Lease.Consumed Lease.Corrupt Lease.Denied Lease.Expired Lease.Invalid Lease.Lost Lease.Misconfigured \
    Lease.QueueTimeout States.ALL States.TaskFailed";

/// What the services raise, as they spell it, and what the machines themselves end with.
const OTHER_ERRORS: &str = "DynamoDB.AmazonDynamoDBException DynamoDB.ConditionalCheckFailedException \
    DynamoDB.InternalServerErrorException DynamoDB.ProvisionedThroughputExceededException DynamoDB.RequestLimitExceededException \
    DynamoDB.SdkClientException DynamoDB.ThrottlingException DynamoDB.TransactionCanceledException \
    DynamoDb.ConditionalCheckFailedException DynamoDb.InternalServerErrorException \
    DynamoDb.ProvisionedThroughputExceededException DynamoDb.RequestLimitExceededException DynamoDb.SdkClientException \
    DynamoDb.ThrottlingException DynamoDb.TransactionCanceledException DynamoDb.TransactionInProgressException \
    Lambda.AWSLambdaException Lambda.ClientExecutionTimeoutException Lambda.SdkClientException Lambda.ServiceException \
    Lambda.TooManyRequestsException Lambda.Unknown Runtime.ExitError Sandbox.Timedout Sfn.SdkClientException \
    Sfn.ThrottlingException States.ALL States.BranchFailed States.DataLimitExceeded States.ExceedToleratedFailureThreshold \
    States.HeartbeatTimeout States.ItemReaderFailed States.NoChoiceMatched States.Permissions States.QueryEvaluationError \
    States.ResultWriterFailed States.Runtime States.TaskFailed States.Timeout \
    StepFunctions.ExecutionAlreadyExistsException StepFunctions.ExecutionLimitExceededException \
    StepFunctions.SdkClientException StepFunctions.ThrottlingException Semaphore.ItemsFailed Transfer.BalanceTooLarge \
    Transfer.InsufficientFunds Transfer.NoSuchAccount Transfer.Unknown WithLease.ChildAborted WithLease.ChildFailed \
    WithLease.ChildSucceeded WithLease.ChildTimedOut WithLease.NoChild WithLease.Redriven";

/// Fields that JSONata has no use for.
const JSONPATH: &str = "CausePath ErrorPath HeartbeatSecondsPath InputPath ItemsPath Iterator MaxConcurrencyPath OutputPath \
    Parameters ResultPath ResultSelector SecondsPath TimeoutSecondsPath TimestampPath ToleratedFailureCountPath \
    ToleratedFailurePercentagePath Variable";

fn is_one_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

/// A state with the states beside it.
struct State<'a> {
    name: &'a str,
    node: &'a Value,
    beside: &'a Value,
}

impl State<'_> {
    fn list(&self, field: &str) -> &[Value] {
        self.node[field].as_array().map_or(&[], Vec::as_slice)
    }

    /// The function that is called: the name of the substitution that becomes its ARN.
    fn called(&self) -> Option<&str> {
        let name = self.node["Arguments"]["FunctionName"].as_str()?;
        Some(name.trim_start_matches("${").trim_end_matches('}'))
    }

    fn calls_ours(&self) -> bool {
        self.called().is_some_and(|name| own_limit(name).is_some())
    }

    /// What makes the state ask again: its Retry, and a Catch that leads to a Wait which leads back.
    fn asked_again(&self) -> Vec<&str> {
        let comes_back = |catcher: &&Value| {
            let next = &self.beside[catcher["Next"].as_str().unwrap_or_default()];
            next["Type"] == "Wait" && next["Next"] == self.name
        };
        let catchers = self.list("Catch").iter().filter(comes_back);
        self.list("Retry")
            .iter()
            .chain(catchers)
            .flat_map(errors)
            .collect()
    }
}

fn errors(handler: &Value) -> Vec<&str> {
    let names = handler["ErrorEquals"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    names.iter().filter_map(Value::as_str).collect()
}

static TEMPLATE: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&text("local/template.json")).unwrap());

/// The time limit that the template gives a function, in seconds.
fn own_limit(function: &str) -> Option<f64> {
    TEMPLATE["Resources"][function]["Properties"]["Timeout"].as_f64()
}

fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(list) => list.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => {
            found.extend(
                fields
                    .keys()
                    .filter(|key| key.ends_with(".$"))
                    .map(String::as_str),
            );
            fields.values().for_each(|value| texts(value, found));
        }
        _ => {}
    }
}

fn all_texts(value: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    texts(value, &mut found);
    found
}

type Rule = fn(&State<'_>) -> bool;

/// What holds of every state; and the field of a state, with a value that breaks it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn rules() -> Vec<(&'static str, Rule, (&'static str, Value))> {
    let work = json!({"FunctionName": "${StepFunction}", "Payload": {"handle": "{% $lease %}"}});
    vec![
        (
            "has its reason",
            |state| {
                state.node["Comment"]
                    .as_str()
                    .is_some_and(|text| !text.trim().is_empty())
            },
            ("Comment", json!(" ")),
        ),
        (
            "leaves the partition to the deployment",
            |state| !all_texts(state.node).iter().any(|text| text.contains("arn:aws")),
            ("Resource", json!("arn:aws:states:::lambda:invoke")),
        ),
        (
            "is in JSONata alone",
            |state| {
                let rules = state.list("Choices").iter();
                let mut fields = rules
                    .chain([state.node])
                    .filter_map(Value::as_object)
                    .flat_map(serde_json::Map::keys);
                let is_path = |text: &&str| {
                    text.starts_with("$.") || text.starts_with("$$.") || text.ends_with(".$")
                };
                state.node["QueryLanguage"].is_null()
                    && !fields.any(|field| is_one_of(JSONPATH, field))
                    && !all_texts(state.node).iter().any(is_path)
            },
            ("OutputPath", json!("$.x")),
        ),
        (
            "catches everything alone and last, and nothing for no error",
            |state| {
                ["Retry", "Catch"].iter().all(|field| {
                    let clauses = state.list(field);
                    clauses.iter().enumerate().all(|(nth, clause)| {
                        match errors(clause).as_slice() {
                            [] => false,
                            names => {
                                !names.contains(&"States.ALL")
                                    || (names.len() == 1 && nth + 1 == clauses.len())
                            }
                        }
                    })
                })
            },
            (
                "Catch",
                json!([{"ErrorEquals": ["States.ALL"]}, {"ErrorEquals": ["States.Timeout"]}]),
            ),
        ),
        (
            "asks for a held key at random times",
            |state| {
                let mut held = state
                    .list("Retry")
                    .iter()
                    .filter(|retrier| errors(retrier).contains(&"Lease.Held"));
                held.all(|retrier| retrier["JitterStrategy"] == "FULL")
            },
            ("Retry", json!([{"ErrorEquals": ["Lease.Held"]}])),
        ),
        (
            "asks our functions again on the exceptions of Lambda",
            |state| {
                !state.calls_ours()
                    || SERVICE_EXCEPTIONS
                        .iter()
                        .all(|name| state.asked_again().contains(name))
            },
            ("Retry", json!([{"ErrorEquals": ["Lambda.Unknown"]}])),
        ),
        (
            "does not ask again for what is final",
            |state| {
                let mut again = state.asked_again().into_iter();
                !again.any(|name| {
                    is_one_of(FINAL, name) && (state.calls_ours() || name.starts_with("Lease."))
                })
            },
            ("Retry", json!([{"ErrorEquals": ["Lease.Lost"]}])),
        ),
        (
            "keeps the secret of the lease from others' functions",
            |state| {
                let is_other = state.called().is_some() && !state.calls_ours();
                let bare = |text: &str| text.trim_matches(['{', '%', '}', ' ']).to_owned();
                let tells = |text: &&str| {
                    text.contains("lease_id")
                        || ["$lease", "$leases"].contains(&bare(text).as_str())
                };
                !is_other || !all_texts(&state.node["Arguments"]).iter().any(tells)
            },
            ("Arguments", work),
        ),
        (
            "has a time limit, longer than its heartbeat and than its function's own",
            |state| {
                let limit = state.node["TimeoutSeconds"].as_f64();
                let longer = |least: Option<f64>| {
                    least.is_none_or(|least| limit.is_none_or(|limit| limit > least))
                };
                let is_task = state.node["Type"] == "Task";
                let own = state
                    .called()
                    .filter(|_| state.calls_ours())
                    .and_then(own_limit);
                (!is_task || !state.node["TimeoutSeconds"].is_null())
                    && longer(state.node["HeartbeatSeconds"].as_f64())
                    && longer(own)
            },
            ("TimeoutSeconds", json!(10)),
        ),
        (
            "names errors that somebody raises",
            |state| {
                let clauses = state.list("Retry").iter().chain(state.list("Catch"));
                let own = state.node["Error"]
                    .as_str()
                    .filter(|error| !error.starts_with("{%"));
                let mut names = clauses.flat_map(errors).chain(own);
                names.all(|name| KNOWN_ERRORS.contains(&name) || is_one_of(OTHER_ERRORS, name))
            },
            ("Catch", json!([{"ErrorEquals": ["States.TimeOut"]}])),
        ),
    ]
}

/// Calls `look` with every state of a machine, also inside Parallel and Map.
fn each_state(scope: &Value, look: &mut impl FnMut(&State<'_>)) {
    for (name, node) in scope["States"].as_object().into_iter().flatten() {
        let beside = &scope["States"];
        look(&State { name, node, beside });
        let branches = node["Branches"].as_array().into_iter().flatten();
        for inner in branches.chain([&node["ItemProcessor"]]) {
            each_state(inner, look);
        }
    }
}

fn machines() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(root().join("statemachines")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let read =
        |name: &String| serde_json::from_str(&text(&format!("statemachines/{name}"))).unwrap();
    let mut machines: Vec<(String, Value)> =
        names.map(|name| (name.clone(), read(&name))).collect();
    machines.sort_by(|a, b| a.0.cmp(&b.0));
    machines
}

#[test]
fn every_state_of_the_shipped_machines_keeps_the_rules() {
    let rules = rules();
    for (file, machine) in machines() {
        assert_eq!(machine["QueryLanguage"], "JSONata", "{file}");
        each_state(&machine, &mut |state| {
            for (sentence, holds, _) in &rules {
                assert!(holds(state), "{file}: {} {sentence}: no", state.name);
            }
        });
    }
}

#[test]
fn every_rule_notices_its_fault() {
    let (_, machine) = machines().swap_remove(0);
    let states = &machine["States"];
    let name = "Acquire";
    for (sentence, holds, (field, value)) in rules() {
        let mut node = states[name].clone();
        assert!(node.is_object());
        node[field] = value;
        assert!(
            !holds(&State {
                name,
                node: &node,
                beside: states
            }),
            "{sentence}"
        );
    }
}
