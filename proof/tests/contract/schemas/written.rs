//! The schemas as they are written from the types, the requests of the functions among them: their sources are compiled in.

use std::collections::BTreeMap;

use leasehold::{Reaped, Started, Swept};
use leasehold_lambda::{
    Delivered, ExecutionEvent, Handled, Request, Trigger,
    schema::{self, answer, event},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

macro_rules! functions {
    ($($name:ident: $path:literal;)*) => {
        $(
            #[path = $path]
            #[expect(dead_code, reason = "it is a whole program")]
            pub mod $name;
        )*
    };
}

functions! {
    acquire: "../../../../functions/acquire/src/main.rs";
    extend: "../../../../functions/extend/src/main.rs";
    inspect: "../../../../functions/inspect/src/main.rs";
    operate: "../../../../functions/operate/src/main.rs";
    release: "../../../../functions/release/src/main.rs";
    start: "../../../../functions/start/src/main.rs";
    sweep: "../../../../functions/sweep/src/main.rs";
}

/// What a request of this function says that it names, as text.
pub fn names(function: &str, event: &Value) -> String {
    fn of<T: Request + DeserializeOwned>(event: &Value) -> String {
        let mut event = event.clone();
        // As it is read from a function's event: the text of its JSON.
        if let Some(input) = event.get_mut("input") {
            *input = input.to_string().into();
        }
        let request: T = serde_json::from_value(event).expect("a request");
        format!("{:?}", request.names())
    }
    match function {
        "acquire" => of::<acquire::Request>(event),
        "extend" => of::<extend::Request>(event),
        "inspect" => of::<inspect::Request>(event),
        "operate" => of::<operate::Request>(event),
        "release" => of::<release::Request>(event),
        "start" => match event["Records"][0]["body"].as_str() {
            Some(body) => of::<start::Request>(&serde_json::from_str(body).expect("JSON")),
            None => of::<start::Request>(event),
        },
        other => panic!("{other} names nothing"),
    }
}

/// The schema by the name of its file in `docs/reference/schemas/`.
pub fn files() -> Vec<(String, Value)> {
    let files = [
        ("acquire.event", event::<acquire::Request>("acquire event")),
        (
            "acquire.answer",
            answer::<acquire::Answer>("acquire answer"),
        ),
        ("extend.event", event::<extend::Request>("extend event")),
        ("extend.answer", answer::<extend::Answer>("extend answer")),
        ("inspect.event", event::<inspect::Request>("inspect event")),
        (
            "inspect.answer",
            answer::<inspect::Answer>("inspect answer"),
        ),
        ("operate.event", event::<operate::Request>("operate event")),
        (
            "operate.answer",
            answer::<operate::Answer>("operate answer"),
        ),
        (
            "reap.event",
            event::<Delivered<ExecutionEvent>>("reap event"),
        ),
        ("reap.answer", answer::<Handled<Reaped>>("reap answer")),
        ("release.event", event::<release::Request>("release event")),
        (
            "release.answer",
            answer::<release::Answer>("release answer"),
        ),
        (
            "start.event",
            event::<Delivered<start::Request>>("start event"),
        ),
        ("start.answer", answer::<Handled<Started>>("start answer")),
        (
            "sweep.event",
            event::<Trigger<sweep::Request>>("sweep event"),
        ),
        ("sweep.answer", answer::<Swept>("sweep answer")),
        ("error", schema::error()),
    ];
    let files = files.into_iter();
    files
        .map(|(name, schema)| (format!("{name}.json"), schema))
        .collect()
}

/// The schemas by name, and those of an error's message.
pub fn schemas() -> BTreeMap<String, Value> {
    let mut all: BTreeMap<_, _> = files()
        .into_iter()
        .map(|(name, schema)| (name.trim_end_matches(".json").to_owned(), schema))
        .collect();
    for message in ["Message", "HeldMessage"] {
        let reference =
            json!({"$ref": format!("#/$defs/{message}"), "$defs": all["error"]["$defs"]});
        all.insert(message.to_owned(), reference);
    }
    all
}
