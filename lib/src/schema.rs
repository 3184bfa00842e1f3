//! JSON Schemas of the values whose JSON is read and written by hand. Those of the other types are derived.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    clock::Timestamp,
    leases::LeaseSet,
    outcomes::Lease,
    pagination::{Cursor, PageSize},
    start::{ExecutionName, StateMachineArn},
    values::{
        AtLeast, CallbackId, Caller, Counter, Holder, KeepTime, Key, Keys, LeaseId, LimitedTo,
        Metadata, ObservedVersion, Operator, Permit, Permits, Reason, RequestId, TaskToken, Ttl,
        WaitTime,
    },
};

/// Any character but a control character.
const PLAIN: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

macro_rules! schemas {
    ($($name:ident: $schema:expr;)*) => {
        $(impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let schema: fn(&mut SchemaGenerator) -> Schema = $schema;
                schema(generator)
            }
        })*
    };
}

/// A text. The limit is in bytes, and no text has more characters than bytes.
fn text(most: u32, description: &str) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": most,
        "description": format!("{description} 1 to {most} bytes of UTF-8."),
    })
}

fn plain(most: u32, description: &str) -> Schema {
    let mut schema = text(most, description);
    schema.insert("pattern".to_owned(), PLAIN.into());
    schema
}

/// A whole number, which may be written as a float.
fn whole(least: u64, most: u64, description: &str) -> Schema {
    json_schema!({"type": "integer", "minimum": least, "maximum": most, "description": description})
}

schemas! {
    StateMachineArn: |_| json_schema!({
        "type": "string",
        "pattern": "^arn:[^:*?,]+:states:[^:*?,]+:[^:*?,]+:stateMachine:[^:*?,]+(:[^:*?,]+)?$",
        "maxLength": 256,
        "description": "The ARN of a standard state machine, with or without a version or an alias.",
    });
    ExecutionName: |_| json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 80,
        "pattern": r##"^[^\s\u0000-\u001f\u007f-\u009f<>{}\[\]?*"#%\\^|~`$&,;:/]*$"##,
        "description": "The name of an execution, in characters that Step Functions allows.",
    });
    Key: |_| plain(1024, "The name of what is leased, without control characters.");
    Holder: |_| text(1024, "The name of the holder.");
    RequestId: |_| text(1024, "The idempotency key of one acquire.");
    Operator: |_| plain(128, "The name of a person, without control characters.");
    Caller: |_| plain(2048, "Whose credentials signed, as STS names them.");
    Reason: |_| plain(512, "A reason, without control characters.");
    LeaseId: |_| text(256, "Proof of ownership: a secret. Do not log it.");
    CallbackId: |_| json_schema!({
        "type": "string",
        "maxLength": 1024,
        "pattern": "^[A-Za-z0-9+/]+={0,2}$",
        "description": "The id of a callback of a durable execution: a secret.",
    });
    TaskToken: |_| text(2048, "The task token of a task that waits for a callback: a secret.");
    Metadata: |_| json_schema!({
        "type": "object",
        "additionalProperties": {"type": "string"},
        "propertyNames": {"minLength": 1},
        "description": "Strings by name; names and values have at most 4096 bytes together.",
    });
    Keys: |generator| json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Key>(),
        "minItems": 1,
        "maxItems": 100,
        "uniqueItems": true,
        "description": "1 to 100 keys, no two the same.",
    });
    LeaseSet: |generator| json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Lease>(),
        "minItems": 1,
        "maxItems": 100,
        "description": "1 to 100 handles, no two of the same key and permit.",
    });
    Ttl: |generator| if generator.contract().is_serialize() {
        json_schema!({"type": "number", "exclusiveMinimum": 0, "maximum": 86_400, "description": "A length in seconds."})
    } else {
        json_schema!({
            "type": "number",
            "minimum": 1,
            "maximum": 86_400,
            "description": "A length in seconds, 1 to 86400; fractions are rounded to milliseconds.",
        })
    };
    KeepTime: |_| json_schema!({
        "type": "number",
        "minimum": 0,
        "maximum": 1_209_600,
        "description": "A length in seconds, at most 14 days.",
    });
    AtLeast: |_| json_schema!({
        "type": "number",
        "minimum": 0,
        "maximum": 86_400,
        "description": "A length in seconds, at most a day.",
    });
    LimitedTo: |_| whole(0, 1000, "How many may hold a key at once.");
    WaitTime: |_| json_schema!({
        "type": "number",
        "minimum": 0,
        "maximum": 31_536_000,
        "description": "A length in seconds, at most 365 days.",
    });
    Counter: |_| whole(1, Counter::MAX, "A number that increases from grant to grant, or from write to write.");
    ObservedVersion: |_| whole(0, Counter::MAX, "The version in a held response, or 0.");
    Permits: |_| whole(1, 1000, "A number of permits.");
    Permit: |_| whole(0, 999, "One of a semaphore's permits; 0 for a mutex.");
    Timestamp: |generator| {
        let mut schema = json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "An instant, RFC 3339 in UTC with milliseconds.",
        });
        if generator.contract().is_serialize() {
            let pattern = "^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$";
            schema.insert("pattern".to_owned(), pattern.into());
        }
        schema
    };
    Cursor: |_| json_schema!({
        "type": "string",
        "pattern": "^([0-9a-fA-F]{2})+$",
        "description": "Where to continue: pass it back unchanged.",
    });
}

impl<const DEFAULT: u32> JsonSchema for PageSize<DEFAULT> {
    fn schema_name() -> Cow<'static, str> {
        "PageSize".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        whole(1, 10_000, "How many rows one call examines.")
    }
}
