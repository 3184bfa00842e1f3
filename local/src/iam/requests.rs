//! The actions and resources of a request to a service.

use serde_json::Value;

use crate::arn;

/// An action on a resource. No resource if the request does not name one, or if the action on any resource is enough.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) action: String,
    pub(super) resource: Option<String>,
    /// The partitions that the request names. A Scan names none, and a batch counts as naming none.
    pub(super) leading_keys: Vec<String>,
}

impl Need {
    pub(super) fn new(action: impl Into<String>, resource: impl Into<String>) -> Self {
        Self {
            action: action.into(),
            resource: Some(resource.into()),
            leading_keys: Vec::new(),
        }
    }
}

/// The permissions that a request of the JSON protocols needs, from its `X-Amz-Target` and body.
pub(super) fn required_permissions(target: &str, body: &[u8]) -> Vec<Need> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    if target.starts_with("AWSStepFunctions.") {
        return vec![of_step_functions(operation, &body)];
    }
    of_dynamodb(operation, &body)
}

/// The parts of a transaction or batch need the actions of single requests.
fn of_dynamodb(operation: &str, body: &Value) -> Vec<Need> {
    match operation {
        "TransactWriteItems" | "TransactGetItems" => {
            let parts = body["TransactItems"].as_array().into_iter().flatten();
            let parts = parts.flat_map(|part| part.as_object().into_iter().flatten());
            let need = |(kind, part): (&String, &Value)| {
                let action = match kind.as_str() {
                    "ConditionCheck" => "ConditionCheckItem",
                    "Delete" => "DeleteItem",
                    "Get" => "GetItem",
                    "Put" => "PutItem",
                    "Update" => "UpdateItem",
                    other => other,
                };
                on_table(action, part)
            };
            parts.map(need).collect()
        }
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            tables
                .map(|(table, _)| Need::new(format!("dynamodb:{operation}"), table_arn(table)))
                .collect()
        }
        _ => vec![on_table(operation, body)],
    }
}

fn on_table(operation: &str, body: &Value) -> Need {
    let action = format!("dynamodb:{operation}");
    let Some(table) = body["TableName"].as_str() else {
        return Need {
            action,
            resource: None,
            leading_keys: Vec::new(),
        };
    };
    let table = table_arn(table);
    let need = match body["IndexName"].as_str() {
        Some(index) => Need::new(action, format!("{table}/index/{index}")),
        None => Need::new(action, table),
    };
    Need {
        leading_keys: leading_key(body).into_iter().collect(),
        ..need
    }
}

/// The partition of a request, from an item's key, the item itself, or the first comparison of a Query.
fn leading_key(body: &Value) -> Option<String> {
    let named = ["Key", "Item"].map(|name| body[name]["pk"]["S"].as_str());
    let queried = || {
        let condition = body["KeyConditionExpression"].as_str()?;
        let (_, rest) = condition.split_once('=')?;
        let value = rest.split_whitespace().next()?;
        body["ExpressionAttributeValues"][value]["S"].as_str()
    };
    let named = named.into_iter().flatten().next();
    named.or_else(queried).map(str::to_owned)
}

/// A request names a table by its name or by its ARN.
fn table_arn(name: &str) -> String {
    if name.starts_with("arn:") {
        return name.to_owned();
    }
    arn::table(name)
}

fn of_step_functions(operation: &str, body: &Value) -> Need {
    let named = ["executionArn", "stateMachineArn"]
        .into_iter()
        .find_map(|name| body[name].as_str().map(str::to_owned));
    let waiting = || body["taskToken"].as_str().and_then(machine_of);
    Need {
        action: format!("states:{operation}"),
        resource: named.or_else(waiting),
        leading_keys: Vec::new(),
    }
}

/// The machine that waits with a token of the embedded engine; none of a token that is not the engine's.
fn machine_of(token: &str) -> Option<String> {
    let (hex, _) = token.split_once('/')?;
    let digits = (0..hex.len()).step_by(2);
    let bytes = digits.map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
    let machine = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    machine.starts_with("arn:").then_some(machine)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn request_names_partition_unless_scanning() {
        let named = |operation: &str, body: &Value| {
            let target = format!("DynamoDB_20120810.{operation}");
            let required_permissions = required_permissions(&target, body.to_string().as_bytes());
            let named = required_permissions
                .into_iter()
                .flat_map(|need| need.leading_keys);
            named.collect::<Vec<_>>()
        };
        let key = json!({"TableName": "T", "Key": {"pk": {"S": "a"}, "sk": {"S": "x"}}});
        assert_eq!(named("UpdateItem", &key), ["a"]);
        let query = json!({"TableName": "T", "IndexName": "held", "KeyConditionExpression": "#holder = :holder AND #sk > :x",
            "ExpressionAttributeValues": {":holder": {"S": "b"}, ":x": {"S": "c"}}});
        assert_eq!(named("Query", &query), ["b"]);
        let other = json!({"TableName": "T", "Key": {"pk": {"S": "d"}}});
        let both = json!({"TransactItems": [{"Update": key}, {"Update": other}]});
        assert_eq!(named("TransactWriteItems", &both), ["a", "d"]);
        let scan = json!({"TableName": "T", "IndexName": "held"});
        assert_eq!(named("Scan", &scan), [""; 0]);
    }

    #[test]
    fn a_token_is_its_machines() {
        for (operation, body, resource) in [
            (
                "SendTaskSuccess",
                json!({"taskToken": "61726e3a6d/c2VjcmV0"}),
                Some("arn:m"),
            ),
            ("SendTaskSuccess", json!({"taskToken": "c2VjcmV0"}), None),
            ("SendTaskSuccess", json!({"taskToken": "6d/c2VjcmV0"}), None),
            ("StopExecution", json!({"executionArn": "e"}), Some("e")),
        ] {
            let target = format!("AWSStepFunctions.{operation}");
            let needed = required_permissions(&target, body.to_string().as_bytes());
            let found = (&*needed[0].action, needed[0].resource.as_deref());
            assert_eq!(found, (&*format!("states:{operation}"), resource));
        }
    }
}
