//! The fields of acquire, and which of them go together, stand in its function, its schema and the checker of state machines. All
//! combinations of fields show that they agree.

use std::sync::LazyLock;

use leasehold::{Error, Leases, Settings, store::Memory};
use leasehold_asl::{Options, Rule, Source, check};
use leasehold_proof::fixture::without_executions;
use serde_json::{Map, Value, json};

use super::{SCHEMAS, VALIDATORS, written};

type Request = Map<String, Value>;

const EXECUTION: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";
const DURABLE: &str =
    "arn:aws:lambda:us-east-1:123456789012:function:deploy:1/durable-execution/7f3c/1";

/// Values that the schema allows: of a choice all, of a holder one of each service, of anything else one.
fn values(name: &str, field: &Value) -> Vec<Value> {
    match name {
        "holder" => return vec![EXECUTION.into(), DURABLE.into()],
        "callback_id" => return vec!["Ab+/9w==".into()],
        "pool" => return vec![json!({"name": "imports", "permits": 10})],
        _ => {}
    }
    let place = field["$ref"].as_str().unwrap_or_default();
    let schema = SCHEMAS["acquire.event"].pointer(place.trim_start_matches('#'));
    let schema = schema.filter(|_| !place.is_empty()).unwrap_or(field);
    if let Some(choice) = schema["oneOf"].as_array() {
        return choice.iter().map(|one| one["const"].clone()).collect();
    }
    let value = match schema["type"].as_str() {
        Some("string") => EXECUTION.into(),
        Some("number" | "integer") => 60.into(),
        Some("boolean") => true.into(),
        Some("array") => json!(["orders/42"]),
        _ => json!({}),
    };
    vec![value]
}

/// What goes with any other field, and is tried with one combination of the others in so many. No power of two: each field then
/// meets each other.
const WITH_ANY: [(&str, usize); 2] = [("metadata", 3), ("request_id", 7)];

fn goes_with_any(name: &str) -> bool {
    WITH_ANY.iter().any(|(one, _)| *one == name)
}

/// The required fields with each combination of the others, and whether the schema takes it.
static COMBINATIONS: LazyLock<Vec<(Request, bool)>> = LazyLock::new(|| {
    let validator = &VALIDATORS["acquire.event"];
    let fits = |request: Request| {
        let fits = validator.is_valid(&request.clone().into());
        (request, fits)
    };
    combinations().into_iter().map(fits).collect()
});

fn combinations() -> Vec<Request> {
    let schema = &SCHEMAS["acquire.event"];
    let fields = schema["properties"].as_object().unwrap();
    let mut all = vec![Request::new()];
    for (name, field) in fields {
        if goes_with_any(name) {
            continue;
        }
        let required = schema["required"].as_array().unwrap();
        let mut more = Vec::new();
        for request in &all {
            let with = |value| {
                let mut request = request.clone();
                request.insert(name.clone(), value);
                request
            };
            more.extend(values(name, field).into_iter().map(with));
        }
        if required.contains(&Value::from(name.as_str())) {
            all.clear();
        }
        all.extend(more);
    }
    for (name, one_in) in WITH_ANY {
        let value = &values(name, &fields[name])[0];
        for request in all.iter_mut().step_by(one_in) {
            request.insert(name.to_owned(), value.clone());
        }
    }
    all
}

#[tokio::test]
async fn acquire_takes_what_schema_takes() {
    assert!(COMBINATIONS.len() > 50_000, "{}", COMBINATIONS.len());
    for (request, fits) in &*COMBINATIONS {
        let leases = Leases::new(Memory::new(), Settings::default());
        let queue = without_executions(&leases);
        let typed = serde_json::from_value(request.clone().into()).expect("each field is right");
        let answer = written::acquire::handle(queue, typed).await;
        let is_invalid = matches!(answer, Err(Error::Invalid { .. }));
        assert_eq!(!is_invalid, *fits, "{request:?}: {:?}", answer.err());
    }
}

#[test]
fn check_refuses_impossible_field_combinations() {
    // The holder is this execution in every machine, which has no callback.
    let of_execution = |(request, _): &&(Request, bool)| request["holder"] == EXECUTION;
    let all = COMBINATIONS.iter().filter(of_execution);
    let (right, wrong): (Vec<_>, Vec<_>) = all.partition(|(_, fits)| *fits);
    let has = |more: &Request, request: &Request| {
        let mut fields = request.iter();
        fields.all(|(name, value)| goes_with_any(name) || more.get(name) == Some(value))
    };
    let is_refused = |request: &Request| {
        let waits = if request.contains_key("task_token") {
            ".waitForTaskToken"
        } else {
            ""
        };
        let machine = json!({"QueryLanguage": "JSONata", "StartAt": "Acquire", "States": {"Acquire": {
            "Type": "Task", "Resource": format!("arn:aws:states:::lambda:invoke{waits}"), "End": true,
            "Arguments": {"FunctionName": "acquire", "Payload": request}}}});
        let source = Source::new("machine", machine.to_string());
        let checked = check(&source.read().unwrap(), &Options::default());
        let mut rules = checked.findings.iter().map(|finding| finding.rule);
        rules.any(|rule| rule == Rule::InvalidRequest)
    };
    for (request, _) in &right {
        assert!(!is_refused(request), "{request:?}");
    }
    // What another field would make right is not reported.
    for (request, _) in wrong {
        if !is_refused(request) {
            let may_become_right = right.iter().any(|(more, _)| has(more, request));
            assert!(may_become_right, "{request:?}");
        }
    }
}
