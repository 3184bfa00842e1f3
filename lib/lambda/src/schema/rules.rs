//! Which fields of a request go together, as the handlers require.

use schemars::Schema;
use serde_json::{Value, json};

fn add(schema: &mut Schema, rules: Value) {
    if let Value::Object(rules) = rules {
        schema.ensure_object().extend(rules);
    }
}

/// `key` or `keys`; a task token or the id of a callback, with a waiting time; fields that go with one key without permits only.
pub fn acquire(schema: &mut Schema) {
    let durable = json!({"pattern": "^arn:[^:]*:lambda:[^:]*:[^:]*:function:[^:]+:.*/durable-execution/[^/]+/.+$"});
    let waits = json!({"anyOf": [{"required": ["task_token"]}, {"required": ["callback_id"]}]});
    add(
        schema,
        json!({
            "oneOf": [{"required": ["key"]}, {"required": ["keys"]}],
            "dependentRequired": {"task_token": ["wait_seconds"], "callback_id": ["wait_seconds"]},
            "dependentSchemas": {
                "keys": {"properties": {"permits": false, "observed_version": false, "pool": false, "task_token": false, "callback_id": false}},
                "observed_version": {"properties": {"permits": false}},
                "if_held": {"anyOf": [{"properties": {"if_held": {"enum": ["fail", "skip"]}}}, waits]},
                "wait_seconds": waits,
                "pool": waits,
                "task_token": {"properties": {"if_held": {"enum": ["wait", "latest"]}, "lifetime": {"const": "execution"}, "callback_id": false, "holder": {"not": durable}}},
                "callback_id": {"properties": {"if_held": {"enum": ["wait", "latest"]}, "lifetime": {"const": "execution"}, "holder": durable}},
            },
            "allOf": [{"if": {"properties": {"holder": durable}}, "then": {"properties": {"keep_seconds": {"const": 0}}}}],
            "if": {"anyOf": [
                {"properties": {"lifetime": {"const": "execution"}}, "required": ["lifetime"]},
                waits,
            ]},
            "then": {"properties": {"ttl_seconds": false, "observed_version": false}},
            "else": {"required": ["ttl_seconds"], "properties": {"keep_seconds": false}},
        }),
    );
}

/// A waiting time only for who waits; of several that run it does not say which to replace. A task that waits is answered, and may say
/// with which caller the execution stops.
pub fn start(schema: &mut Schema) {
    add(
        schema,
        json!({
            "dependentSchemas": {
                "wait_seconds": {"properties": {"if_held": {"enum": ["wait", "latest", "replace"]}}},
                "permits": {"properties": {"if_held": {"enum": ["wait", "latest", "fail", "skip"]}}},
                "pool": {"properties": {"if_held": {"enum": ["wait", "latest", "replace"]}}},
                "task_token": {"required": ["caller"]},
                "caller": {"required": ["task_token"]},
            },
            "if": {"required": ["stop_with_caller"], "properties": {"stop_with_caller": {"const": true}}},
            "then": {"required": ["task_token"]},
        }),
    );
}

/// `lease` or `leases`.
pub fn one_or_several_leases(schema: &mut Schema) {
    let either = json!([{"required": ["lease"]}, {"required": ["leases"]}]);
    add(schema, json!({"oneOf": either}));
}

/// A key, a pool, a holder or the list; pages for the last two.
pub fn inspect(schema: &mut Schema) {
    let list = json!({"list": {"const": true}});
    add(
        schema,
        json!({
            "oneOf": [
                {"required": ["key"], "properties": {"limit": false, "cursor": false}},
                {"required": ["pool"], "properties": {"limit": false, "cursor": false}},
                {"required": ["holder"]},
                {"required": ["list"], "properties": list},
            ],
        }),
    );
}

/// One key or pool, or a page of all.
pub fn sweep(schema: &mut Schema) {
    let page = json!({"limit": false, "cursor": false});
    let key = json!({"properties": page});
    let pool = json!({"properties": {"key": false, "limit": false, "cursor": false}});
    add(
        schema,
        json!({"dependentSchemas": {"key": key, "pool": pool}}),
    );
}

/// `key` or `pool`; fields that go with one operation only.
pub fn operate(schema: &mut Schema) {
    let only = |operation: &str, fields: Value| json!({"if": {"properties": {"operation": {"const": operation}}}, "else": {"properties": fields}});
    let all = json!([
        only(
            "force_release",
            json!({"permit": false, "fencing_token": false})
        ),
        only("raise_floor", json!({"floor": false})),
        only("limit", json!({"permits": false})),
        {"if": {"properties": {"operation": {"const": "limit"}}}, "then": {"required": ["permits"]}},
    ]);
    let pool = json!({"required": ["pool"], "properties": {"operation": {"enum": ["force_release", "limit"]}}});
    add(
        schema,
        json!({"allOf": all, "oneOf": [{"required": ["key"]}, pool]}),
    );
}
