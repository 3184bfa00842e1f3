//! Events of AWS's own, as far as a function reads them, and the responses to a batch.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{Delivered, ExecutionEvent, Handled, Trigger};

/// The response to a batch: the messages to deliver again.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailedMessages;

impl JsonSchema for FailedMessages {
    fn schema_name() -> Cow<'static, str> {
        "FailedMessages".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "The messages of a batch that failed. They are delivered again.",
            "properties": {
                "batchItemFailures": {
                    "type": "array",
                    "description": "One entry for each message that failed; empty if all went well.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "itemIdentifier": {
                                "type": "string",
                                "description": "The message's id.",
                            },
                        },
                        "required": ["itemIdentifier"],
                    },
                },
            },
            "required": ["batchItemFailures"],
        })
    }
}

impl<T: JsonSchema> JsonSchema for Handled<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Handled_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        let batch = generator.subschema_for::<FailedMessages>();
        json_schema!({
            "description": "What was done for one request, or which messages of a batch failed.",
            "anyOf": [one, batch],
        })
    }
}

impl<T: JsonSchema> JsonSchema for Trigger<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Trigger_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let call = generator.subschema_for::<T>();
        json_schema!({
            "description": "An event of EventBridge's schedule, or a request.",
            "if": {"type": "object", "required": ["detail-type"]},
            "then": {"description": "EventBridge: any scheduled event.", "properties": {"detail-type": {"type": "string", "description": "What kind of event it is."}}},
            "else": call,
        })
    }
}

impl<T: JsonSchema> JsonSchema for Delivered<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Delivered_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({
            "type": "object",
            "description": "One request, or a batch of messages from an SQS queue, with a request as the body of each.",
            "if": {"properties": {"Records": {"type": "array"}}, "required": ["Records"]},
            "else": one,
        })
    }
}

impl JsonSchema for ExecutionEvent {
    fn schema_name() -> Cow<'static, str> {
        "ExecutionEvent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let status = [
            "RUNNING",
            "PENDING_REDRIVE",
            "SUCCEEDED",
            "FAILED",
            "ABORTED",
            "STOPPED",
            "TIMED_OUT",
            "PAUSING",
            "PAUSED",
        ];
        let arn = |what: &str| json_schema!({"type": "string", "minLength": 1, "maxLength": 1024, "description": what});
        json_schema!({
            "type": "object",
            "description": "A Step Functions Execution Status Change, or a Durable Execution Status Change.",
            "properties": {
                "detail": {
                    "type": "object",
                    "description": "The execution in the event.",
                    "properties": {
                        "executionArn": arn("The execution of a state machine."),
                        "durableExecutionArn": arn("The execution of a durable function."),
                        "status": {"enum": status, "description": "Its status at the time of the event."},
                    },
                    "required": ["status"],
                    "anyOf": [{"required": ["executionArn"]}, {"required": ["durableExecutionArn"]}],
                },
            },
            "required": ["detail"],
        })
    }
}
