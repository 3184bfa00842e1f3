//! What the random definitions of both properties have in common.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

/// The same cases in every run.
pub fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// The name of the nth state.
pub fn name(nth: usize) -> String {
    format!("S{nth}")
}

/// Sets a field, unless it would be null or an empty list.
pub fn put(state: &mut Value, key: &str, value: Value) {
    if !value.is_null() && value != json!([]) {
        state[key] = value;
    }
}

/// The same definition in the other language, JSONPath.
pub fn in_json_path(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(in_json_path),
        Value::Object(fields) => {
            fields.values_mut().for_each(in_json_path);
            if let Some(language) = fields.get_mut("QueryLanguage") {
                *language = "JSONPath".into();
            }
            if let Some(arguments) = fields.remove("Arguments") {
                fields.insert("Parameters".to_owned(), arguments);
            }
            if fields.contains_key("ErrorEquals") && fields.contains_key("Next") {
                fields.insert("ResultPath".to_owned(), "$.failure".into());
            }
            for (key, mut instead) in [
                ("Condition", json!({"Variable": "$.x", "IsPresent": true})),
                ("Output", json!({"ResultPath": "$.result"})),
                (
                    "Assign",
                    json!({"ResultSelector": {"lease.$": "$.Payload.lease"}, "ResultPath": "$.held"}),
                ),
                ("holder", json!({"holder.$": "$$.Execution.Id"})),
                (
                    "request_id",
                    json!({"request_id.$": "$$.State.EnteredTime"}),
                ),
                ("lease", json!({"lease.$": "$.held.lease"})),
            ] {
                if fields.remove(key).is_some() {
                    fields.append(instead.as_object_mut().unwrap());
                }
            }
        }
        _ => {}
    }
}
