//! Rules for the shipped machines beyond `check` and asl-validator: reasons, one language, limits, names of errors, retries and
//! secrets. Each rule is tested with a fault that it finds.

use crate::{root, text};
use leasehold_asl::KNOWN_ERRORS;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Errors that Lambda may return instead of running a function. The functions may safely be called again after them.
const SERVICE_EXCEPTIONS: [&str; 5] = [
    "Lambda.AWSLambdaException",
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.TooManyRequestsException",
];

/// Errors that a retry cannot change.
const FINAL: &str = "Lease.Consumed Lease.Corrupt Lease.Denied Lease.Expired Lease.Invalid Lease.Lost Lease.Misconfigured \
    Lease.QueueTimeout Lease.Superseded States.ALL States.TaskFailed";

/// The services' errors in their own spelling, and the errors that the machines end with. An error that is missing from the model
/// of the service is `<Service>.<Service>Exception`.
const OTHER_ERRORS: &str = "DynamoDB.AmazonDynamoDBException DynamoDB.ConditionalCheckFailedException \
    DynamoDB.InternalServerErrorException DynamoDB.ProvisionedThroughputExceededException \
    DynamoDB.RequestLimitExceededException DynamoDB.SdkClientException DynamoDB.TransactionCanceledException \
    DynamoDb.ConditionalCheckFailedException DynamoDb.DynamoDbException DynamoDb.InternalServerErrorException \
    DynamoDb.ProvisionedThroughputExceededException DynamoDb.RequestLimitExceededException DynamoDb.SdkClientException \
    DynamoDb.ThrottlingException DynamoDb.TransactionCanceledException DynamoDb.TransactionInProgressException \
    Lambda.AWSLambdaException Lambda.ClientExecutionTimeoutException Lambda.SdkClientException Lambda.ServiceException \
    Lambda.TooManyRequestsException Lambda.Unknown Runtime.ExitError Sandbox.Timedout States.ALL States.BranchFailed \
    States.DataLimitExceeded States.ExceedToleratedFailureThreshold States.HeartbeatTimeout States.ItemReaderFailed \
    States.NoChoiceMatched States.Permissions States.QueryEvaluationError States.ResultWriterFailed States.Runtime \
    States.TaskFailed States.Timeout Semaphore.ItemsFailed Transfer.BalanceTooLarge Transfer.InsufficientFunds \
    Transfer.NoSuchAccount Transfer.Unknown";

/// Fields that JSONPath does not have.
const JSONATA: &str = "Arguments Condition Items Output";

/// Fields that JSONata does not have.
const JSONPATH: &str = "CausePath ErrorPath HeartbeatSecondsPath InputPath ItemsPath Iterator MaxConcurrencyPath OutputPath \
    Parameters ResultPath ResultSelector SecondsPath TimeoutSecondsPath TimestampPath ToleratedFailureCountPath \
    ToleratedFailurePercentagePath Variable";

fn is_one_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

/// A state, with the other states of its scope.
struct State<'a> {
    name: &'a str,
    node: &'a Value,
    beside: &'a Value,
    is_jsonata: bool,
}

impl State<'_> {
    fn list(&self, field: &str) -> &[Value] {
        self.node[field].as_array().map_or(&[], Vec::as_slice)
    }

    /// The called function: the name of the substitution for its ARN.
    fn called(&self) -> Option<&str> {
        let name = self.node["Arguments"]["FunctionName"].as_str()?;
        Some(name.trim_start_matches("${").trim_end_matches('}'))
    }

    fn calls_ours(&self) -> bool {
        self.called().is_some_and(|name| own_limit(name).is_some())
    }

    /// The errors that the state retries: by its Retry, or by a Catch that leads to a Wait and back.
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

/// The template's time limit of a function, in seconds.
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

fn all_texts(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    texts(value, &mut found);
    found.into_iter().map(str::to_owned).collect()
}

/// A state without its inner states, which have languages of their own.
fn own(state: &Value) -> Value {
    let mut own = state.clone();
    for inside in ["Branches", "ItemProcessor"] {
        own.as_object_mut().unwrap().remove(inside);
    }
    own
}

type Rule = fn(&State<'_>) -> bool;

/// Rules for every state, each with a field of a state and a value that breaks the rule.
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
            |state| {
                !all_texts(state.node)
                    .iter()
                    .any(|text| text.contains("arn:aws"))
            },
            ("Resource", json!("arn:aws:states:::lambda:invoke")),
        ),
        (
            "is in one language alone",
            |state| {
                let rules = state.list("Choices").iter().chain(state.list("Catch"));
                let mut fields = rules
                    .chain([state.node])
                    .filter_map(Value::as_object)
                    .flat_map(serde_json::Map::keys);
                let texts = all_texts(&own(state.node));
                let is_path = |text: &String| {
                    text.starts_with("$.") || text.starts_with("$$.") || text.ends_with(".$")
                };
                let others = if state.is_jsonata { JSONPATH } else { JSONATA };
                !fields.any(|field| is_one_of(others, field))
                    && !texts.iter().any(|text| {
                        if state.is_jsonata {
                            is_path(text)
                        } else {
                            text.starts_with("{%")
                        }
                    })
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
                let tells = |text: &String| {
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
                let limits = ["TimeoutSeconds", "TimeoutSecondsPath"];
                (!is_task || limits.iter().any(|limit| !state.node[limit].is_null()))
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
fn each_state(scope: &Value, is_jsonata: bool, look: &mut impl FnMut(&State<'_>)) {
    let of = |node: &Value, around| match node["QueryLanguage"].as_str() {
        Some(language) => language == "JSONata",
        None => around,
    };
    let is_jsonata = of(scope, is_jsonata);
    for (name, node) in scope["States"].as_object().into_iter().flatten() {
        let is_jsonata = of(node, is_jsonata);
        look(&State {
            name,
            node,
            beside: &scope["States"],
            is_jsonata,
        });
        let branches = node["Branches"].as_array().into_iter().flatten();
        for inner in branches.chain([&node["ItemProcessor"]]) {
            each_state(inner, is_jsonata, look);
        }
    }
}

fn machines() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(root().join("templates/statemachines")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let read = |name: &String| {
        serde_json::from_str(&text(&format!("templates/statemachines/{name}"))).unwrap()
    };
    let mut machines: Vec<(String, Value)> =
        names.map(|name| (name.clone(), read(&name))).collect();
    machines.sort_by(|a, b| a.0.cmp(&b.0));
    machines
}

#[test]
fn shipped_states_keep_all_rules() {
    let rules = rules();
    for (file, machine) in machines() {
        each_state(&machine, false, &mut |state| {
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
                beside: states,
                is_jsonata: true,
            }),
            "{sentence}"
        );
    }
}

const LIST: &str = "asl/tests/check/retries.txt";

/// Every retrier without its comment, and below it its states.
fn retriers() -> String {
    let mut entries: Vec<(String, BTreeSet<String>)> = Vec::new();
    for (file, machine) in machines() {
        each_state(&machine, false, &mut |state| {
            let name = format!("  {}/{}\n", file.replace(".asl.json", ""), state.name);
            for retrier in state.list("Retry") {
                let fields = retrier.as_object().unwrap().iter();
                let fields: BTreeMap<_, _> = fields.filter(|(key, _)| *key != "Comment").collect();
                let retrier = serde_json::to_string(&fields).unwrap() + "\n";
                match entries.iter_mut().find(|(known, _)| *known == retrier) {
                    Some((_, states)) => drop(states.insert(name.clone())),
                    None => entries.push((retrier, BTreeSet::from([name.clone()]))),
                }
            }
        });
    }
    let entries = entries.into_iter();
    entries
        .flat_map(|(retrier, states)| std::iter::once(retrier).chain(states))
        .collect()
}

/// The retriers come from one list. Each is there once, with all its states. A deviating retrier is another entry, for review. To
/// accept it: `UPDATE_RETRIES=1 cargo test -p leasehold-asl`.
#[test]
#[expect(clippy::disallowed_methods, reason = "no setting of a program's")]
fn shipped_retriers_are_all_listed() {
    let found = retriers();
    if std::env::var_os("UPDATE_RETRIES").is_some() {
        std::fs::write(root().join(LIST), &found).unwrap();
    }
    assert!(found == text(LIST), "{LIST} should be:\n{found}");
}

/// The variables in a text that this definition assigns.
fn variables<'a>(text: &str, assigned: &'a BTreeSet<String>) -> Vec<&'a str> {
    let named = |variable: &&String| {
        text.match_indices(&format!("${variable}"))
            .any(|(at, found)| {
                let after = text[at + found.len()..].chars().next();
                !after.is_some_and(|next| next.is_alphanumeric() || next == '_')
            })
    };
    assigned.iter().filter(named).map(String::as_str).collect()
}

/// The variables that a state, or a clause of its Catch, assigns.
fn assigns(node: &Value) -> impl Iterator<Item = String> {
    let names = node["Assign"].as_object().into_iter().flatten();
    names.map(|(name, _)| name.trim_end_matches(".$").to_owned())
}

/// The Fail states that use a variable although some path to them does not assign it.
fn untold(
    scope: &Value,
    known: &BTreeSet<String>,
    all: &BTreeSet<String>,
    found: &mut Vec<String>,
) {
    let start = scope["StartAt"].as_str().unwrap().to_owned();
    let (mut seen, mut ahead) = (BTreeSet::new(), vec![(start, known.clone())]);
    while let Some((name, known)) = ahead.pop() {
        if !seen.insert((name.clone(), known.clone())) {
            continue;
        }
        let state = &scope["States"][&name];
        for field in ["Error", "Cause", "ErrorPath", "CausePath"] {
            let text = state[field].as_str().unwrap_or_default();
            let unknown = variables(text, all)
                .into_iter()
                .filter(|name| !known.contains(*name));
            found.extend(unknown.map(|variable| format!("{name} tells ${variable}")));
            found.dedup();
        }
        let branches = state["Branches"].as_array().into_iter().flatten();
        for inner in branches.chain([&state["ItemProcessor"]]) {
            if inner.is_object() {
                untold(inner, &known, all, found);
            }
        }
        let list = |field: &str| state[field].as_array().map_or(&[][..], Vec::as_slice);
        let mut go = |way: &Value, to: &str| {
            if let Some(next) = way[to].as_str() {
                let known = known.iter().cloned().chain(assigns(way));
                ahead.push((next.to_owned(), known.collect()));
            }
        };
        go(state, "Next");
        go(state, "Default");
        for way in list("Choices").iter().chain(list("Catch")) {
            go(way, "Next");
        }
    }
}

fn all_assigned(value: &Value) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = assigns(value).collect();
    match value {
        Value::Array(list) => found.extend(list.iter().flat_map(all_assigned)),
        Value::Object(fields) => found.extend(fields.values().flat_map(all_assigned)),
        _ => {}
    }
    found
}

fn every_fail_state_tells(machine: &Value) -> Vec<String> {
    let mut found = Vec::new();
    untold(
        machine,
        &BTreeSet::new(),
        &all_assigned(machine),
        &mut found,
    );
    found
}

#[test]
fn paths_to_fail_carry_failure() {
    let nothing: Vec<String> = Vec::new();
    let mut all = machines();
    for file in std::fs::read_dir(root().join("asl/corpus/weave")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".woven.asl.json") {
            let woven = text(&format!("asl/corpus/weave/{name}"));
            all.push((name, serde_json::from_str(&woven).unwrap()));
        }
    }
    assert!(all.len() > 10);
    for (file, machine) in &all {
        assert_eq!(every_fail_state_tells(machine), nothing, "{file}");
        // A removed assignment of a clause is found if a Fail state depends on it.
        let mut worse = machine.clone();
        let Some(catch) = worse.pointer_mut("/States/Extend/Catch") else {
            continue;
        };
        let last = catch.as_array_mut().unwrap().last_mut().unwrap();
        last.as_object_mut().unwrap().remove("Assign");
        assert_eq!(
            every_fail_state_tells(&worse),
            ["Failed tells $failure"],
            "{file}"
        );
    }
}
