//! The contract, to the letter: the exact JSON that leaves the real function binaries, for every
//! sample event and every error name.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{collections::BTreeSet, fs, path::Path};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Lease,
    row::{Holding, Row, State},
};
use leasehold_local::{Fault, Options, Outcome, Stack};
use serde_json::{Value, json};

const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";

struct Functions {
    stack: Stack,
}

/// An answer, or an error's name and message.
type Answer = Result<Value, (String, Value)>;

impl Functions {
    async fn start() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let stack = Stack::start(options).await.unwrap();
        Self { stack }
    }

    async fn call(&self, function: &str, payload: impl ToString) -> Answer {
        let invocation = self
            .stack
            .functions()
            .invoke(function, &payload.to_string())
            .await;
        match invocation.unwrap().outcome {
            Outcome::Answer(text) => Ok(serde_json::from_str(&text).unwrap()),
            Outcome::FunctionError(text) => {
                let mut error: Value = serde_json::from_str(&text).unwrap();
                let message = error["errorMessage"].take();
                // One JSON object, as text.
                let message = message.as_str().unwrap();
                let message = serde_json::from_str(message).expect(message);
                Err((error["errorType"].as_str().unwrap().to_owned(), message))
            }
            other => panic!("{other:?}"),
        }
    }

    async fn event(&self, name: &str) -> Answer {
        let function = name.split('-').next().unwrap();
        self.call(function, event(name)).await
    }

    async fn acquire(&self, key: &str, holder: &str, id: &str) -> Value {
        let request = json!({"key": key, "holder": holder, "request_id": id, "ttl_seconds": 300});
        self.call("acquire", request).await.unwrap()["lease"].clone()
    }

    fn table(&self) -> &str {
        self.stack.tables()[0]
    }

    async fn item(&self, key: &str) -> Option<leasehold::row::Item> {
        let get = self.stack.dynamodb().get_item().table_name(self.table());
        let get = get.key("pk", s(key)).key("sk", s("LEASE#0000"));
        get.send().await.unwrap().item
    }

    async fn put(&self, key: &str, item: leasehold::row::Item) {
        let put = self.stack.dynamodb().put_item().table_name(self.table());
        let put = put
            .set_item(Some(item))
            .item("pk", s(key))
            .item("sk", s("LEASE#0000"));
        put.send().await.unwrap();
    }

    /// Makes the table say what the handle in a sample event says.
    async fn stand(&self, name: &str) {
        let lease: Lease = serde_json::from_value(event(name)["lease"].clone()).unwrap();
        let row = Row {
            fencing_token: lease.fencing_token,
            version: lease.version,
            granted_to: lease.holder.clone(),
            request: leasehold::RequestDigest::of(
                &lease.holder,
                &leasehold::RequestId::new("sample").unwrap(),
            ),
            past_requests: [None, None, None],
            previous: None,
            frozen: false,
            state: State::Held(Holding {
                lease_id: lease.lease_id,
                ttl: lease.ttl,
                acquired_at: lease.acquired_at,
                extended_at: None,
                expires_at: lease.expires_at,
                sweep_after: None,
                metadata: lease.metadata,
            }),
        };
        self.put(lease.key.as_str(), row.to_item()).await;
    }

    async fn change(&self, key: &str, name: &str, value: AttributeValue) {
        let mut item = self.item(key).await.unwrap();
        item.insert(name.to_owned(), value);
        self.put(key, item).await;
    }
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn events() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../events"))
}

fn event(name: &str) -> Value {
    let text = fs::read_to_string(events().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn fields(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn name_of(answer: &Answer) -> &str {
    answer.as_ref().unwrap_err().0.as_str()
}

const HANDLE: [&str; 11] = [
    "key",
    "holder",
    "lease_id",
    "fencing_token",
    "version",
    "ttl_seconds",
    "acquired_at",
    "expires_at",
    "safe_until",
    "permit",
    "metadata",
];

#[tokio::test(flavor = "multi_thread")]
async fn acquire_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    let answer = functions.event("acquire").await.unwrap();
    let lease = &answer["lease"];
    assert_eq!(
        fields(&answer),
        ["outcome", "lease", "grant", "previous"].into()
    );
    assert_eq!(fields(lease), HANDLE.into());
    assert_eq!(
        (&answer["outcome"], &answer["grant"], &answer["previous"]),
        (&json!("acquired"), &json!("new"), &Value::Null)
    );
    assert_eq!(
        (
            &lease["key"],
            &lease["holder"],
            &lease["ttl_seconds"],
            &lease["permit"]
        ),
        (&json!("orders/42"), &json!(HOLDER), &json!(300), &json!(0))
    );
    assert_eq!(lease["metadata"], json!({"order": "42"}));
    assert!(lease["fencing_token"].as_u64().unwrap() < 1 << 53);
    assert_eq!(lease["lease_id"].as_str().unwrap().len(), 32);
    for instant in ["acquired_at", "expires_at", "safe_until"] {
        let text = lease[instant].as_str().unwrap();
        assert!(text.len() == 24 && text.ends_with('Z'), "{text}");
    }

    // The same event again, and twice at once: the same lease.
    let (again, once_more) = tokio::join!(functions.event("acquire"), functions.event("acquire"));
    for again in [again.unwrap(), once_more.unwrap()] {
        assert_eq!(
            (&again["lease"], &again["grant"]),
            (lease, &json!("replayed"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contention_is_an_error_or_a_result() {
    let functions = Functions::start().await;
    let other = functions.acquire("orders/43", "other", "1").await;
    let (name, message) = functions.event("acquire-held").await.unwrap_err();
    assert_eq!(name, "Lease.Held");
    let held = [
        "key",
        "holder",
        "fencing_token",
        "version",
        "ttl_seconds",
        "expires_at",
        "metadata",
        "waiting",
        "permit",
        "by_you",
    ];
    let beside = ["message", "retry_at", "wait_seconds"];
    assert_eq!(fields(&message), held.into_iter().chain(beside).collect());
    assert_eq!(message["holder"], "other");

    let answer = functions.event("acquire-held-as-result").await.unwrap();
    assert_eq!(
        fields(&answer),
        ["outcome", "held", "retry_at", "wait_seconds"].into()
    );
    assert_eq!(
        (&answer["outcome"], &answer["wait_seconds"]),
        (&json!("held"), &json!(301))
    );
    assert_eq!(fields(&answer["held"]), held.into());
    for same in ["key", "holder", "fencing_token", "version", "expires_at"] {
        assert_eq!(answer["held"][same], other[same]);
    }
    let text = format!("{message}{answer}");
    assert!(
        !text.contains(other["lease_id"].as_str().unwrap()),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_metadata_is_cut_in_the_error_and_whole_in_the_result() {
    let functions = Functions::start().await;
    let metadata = json!({"a": "x".repeat(1000), "b": "y".repeat(3000)});
    let request =
        json!({"key": "k", "holder": "a", "ttl_seconds": 300, "metadata": metadata.clone()});
    functions.call("acquire", &request).await.unwrap();
    let mut other = json!({"key": "k", "holder": "b", "ttl_seconds": 300});
    let (_, message) = functions.call("acquire", &other).await.unwrap_err();
    assert_eq!(message["metadata"], json!({"a": metadata["a"]}));
    other["on_held"] = json!("result");
    let answer = functions.call("acquire", &other).await.unwrap();
    assert_eq!(answer["held"]["metadata"], metadata);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_names_the_previous_holder() {
    let functions = Functions::start().await;
    let old = functions.acquire("orders/44", "other", "1").await;
    functions
        .change(
            "orders/44",
            "expires_at",
            AttributeValue::N("1700000000000".into()),
        )
        .await;
    let answer = functions.event("acquire-takeover").await.unwrap();
    let token = &old["fencing_token"];
    assert_eq!(answer["grant"], "takeover");
    assert_eq!(
        answer["previous"],
        json!({"holder": "other", "fencing_token": token, "ended": "expired"})
    );
    assert_eq!(answer["lease"]["ttl_seconds"], 1.5);
    assert!(answer["lease"]["fencing_token"].as_u64() > token.as_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spent_request_a_frozen_key_and_a_strange_item_are_refused() {
    let functions = Functions::start().await;
    let spent = functions.event("acquire-consumed").await.unwrap();
    let released = functions
        .call("release", json!({"lease": spent["lease"]}))
        .await
        .unwrap();
    assert_eq!(released, json!({"outcome": "released", "expired": false}));
    let (name, message) = functions.event("acquire-consumed").await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Consumed", &json!("orders/45"))
    );
    assert_eq!(fields(&message), ["message", "key"].into());

    functions.acquire("orders/46", "other", "1").await;
    functions
        .change("orders/46", "frozen", s("maintenance"))
        .await;
    let (name, message) = functions.event("acquire-frozen").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Frozen", ["message", "key"].into())
    );

    functions
        .put("orders/48", [("colour".to_owned(), s("blue"))].into())
        .await;
    let before = functions.item("orders/48").await;
    let (name, message) = functions.event("acquire-corrupt").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Corrupt", ["message", "key"].into())
    );
    assert_eq!(functions.item("orders/48").await, before, "untouched");
}

#[tokio::test(flavor = "multi_thread")]
async fn extend_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    let lease = functions.acquire("k", HOLDER, "1").await;
    let answer = functions
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    assert_eq!(fields(&answer), ["outcome", "lease"].into());
    assert_eq!(
        (&answer["outcome"], fields(&answer["lease"])),
        (&json!("extended"), HANDLE.into())
    );
    assert_eq!(answer["lease"]["fencing_token"], lease["fencing_token"]);

    // The sample handles ended in the past: what was not taken since is revived.
    functions.stand("extend").await;
    let answer = functions.event("extend").await.unwrap();
    assert_eq!(fields(&answer), ["outcome", "lease", "lapsed_ms"].into());
    assert_eq!(answer["outcome"], "revived");

    functions.stand("extend-expired").await;
    let (name, message) = functions.event("extend-expired").await.unwrap_err();
    assert_eq!(
        (name.as_str(), fields(&message)),
        ("Lease.Expired", ["message", "key"].into())
    );
    let answer = functions.event("extend-revived").await.unwrap();
    assert!(answer["lapsed_ms"].as_u64().unwrap() > 0);
    assert_eq!(answer["lease"]["ttl_seconds"], 600);

    let (name, message) = functions.event("extend-lost").await.unwrap_err();
    assert_eq!(
        (name.as_str(), &message["key"]),
        ("Lease.Lost", &json!("orders/52"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn release_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    functions.stand("release").await;
    let released = json!({"outcome": "released", "expired": true});
    assert_eq!(functions.event("release").await.unwrap(), released);
    let already = json!({"outcome": "already_released", "expired": true});
    assert_eq!(functions.event("release").await.unwrap(), already);
    assert_eq!(functions.event("release-already").await.unwrap(), already);

    functions.stand("release-lost").await;
    functions.acquire("orders/62", "other", "1").await;
    let lost = json!({"outcome": "lost", "expired": true});
    assert_eq!(functions.event("release-lost").await.unwrap(), lost);
    let strict = functions.event("release-lost-strict").await;
    assert_eq!(name_of(&strict), "Lease.Lost");
    assert_eq!(strict.unwrap_err().1["key"], "orders/62");
}

#[tokio::test(flavor = "multi_thread")]
async fn sweep_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    for name in ["release", "release-already", "release-lost"] {
        functions.stand(name).await;
    }
    functions
        .put("strange", [("holder".to_owned(), s("x"))].into())
        .await;
    let answer = functions.event("sweep-limited").await.unwrap();
    let counted = ["outcome", "examined", "freed", "granted", "skipped_corrupt"];
    assert_eq!(
        fields(&answer),
        counted.into_iter().chain(["cursor"]).collect()
    );
    assert_eq!(answer["examined"], 1);
    let next = functions
        .call("sweep", json!({"limit": 1, "cursor": answer["cursor"]}))
        .await;
    assert_eq!(next.unwrap()["examined"], 1);
    let freed = answer["freed"].as_u64().unwrap();
    let rest = functions.event("sweep").await.unwrap();
    assert_eq!(fields(&rest), counted.into());
    assert_eq!(
        (&rest["outcome"], &rest["skipped_corrupt"]),
        (&json!("swept"), &json!(1))
    );
    assert!(freed <= 1 && rest["freed"].as_u64().unwrap() <= 3);
    assert_eq!(
        functions.event("release").await.unwrap()["outcome"],
        "already_released"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_answers_as_the_contract_says() {
    let functions = Functions::start().await;
    assert_eq!(
        functions.event("inspect-absent").await.unwrap(),
        json!({"outcome": "absent"})
    );
    let lease = functions.acquire("orders/70", HOLDER, "1").await;
    let answer = functions.event("inspect").await.unwrap();
    assert_eq!(
        fields(&answer),
        ["outcome", "state", "lease", "previous", "frozen", "waiting"].into()
    );
    let without_secret: BTreeSet<_> = HANDLE.into_iter().filter(|f| *f != "lease_id").collect();
    assert_eq!(fields(&answer["lease"]), without_secret);
    assert_eq!(
        (&answer["outcome"], &answer["state"]),
        (&json!("found"), &json!("held"))
    );
    assert_eq!(
        (&answer["frozen"], &answer["waiting"]),
        (&json!(false), &json!(0))
    );
    for list in ["inspect-holder", "inspect-list"] {
        let listed = functions.event(list).await.unwrap();
        assert_eq!(fields(&listed), ["leases"].into());
        assert_eq!(listed["leases"], json!([answer["lease"]]));
    }
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let answer = functions.event("inspect").await.unwrap();
    assert_eq!(answer["state"], "free");
    assert_eq!(
        fields(&answer["lease"]),
        ["key", "fencing_token", "version", "permit"].into()
    );
    let token = &lease["fencing_token"];
    assert_eq!(
        answer["previous"],
        json!({"holder": HOLDER, "fencing_token": token, "ended": "released"})
    );
}

/// Function, event, and the field that the refusal names.
fn malformed() -> Vec<(&'static str, String, Option<&'static str>)> {
    let whole = event("acquire");
    let with = |field: &str, value: Value| {
        let mut event = whole.clone();
        event[field] = value;
        event.to_string()
    };
    let without = |field: &str| {
        let mut event = whole.clone();
        event.as_object_mut().unwrap().remove(field);
        event.to_string()
    };
    let handle = |field: &str, value: Value| {
        let mut event = event("extend");
        event["lease"][field] = value;
        event.to_string()
    };
    let secret = json!("hunter2");
    vec![
        ("acquire", String::new(), None),
        ("acquire", "hunter2".into(), None),
        ("acquire", "null".into(), None),
        ("acquire", r#"["hunter2"]"#.into(), None),
        ("acquire", r#"{"key": NaN}"#.into(), None),
        (
            "acquire",
            format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
            None,
        ),
        ("acquire", r#"{"key":"a","key":"b"}"#.into(), Some("key")),
        ("acquire", without("key"), Some("key")),
        ("acquire", without("holder"), Some("holder")),
        ("acquire", without("ttl_seconds"), Some("ttl_seconds")),
        ("acquire", with("key", json!("")), Some("key")),
        ("acquire", with("key", json!("a\u{0}b")), Some("key")),
        ("acquire", with("key", json!("k".repeat(1025))), Some("key")),
        ("acquire", with("key", json!(7)), Some("key")),
        ("acquire", with("holder", json!("")), Some("holder")),
        ("acquire", with("request_id", json!("")), Some("request_id")),
        (
            "acquire",
            with("request_id", Value::Null),
            Some("request_id"),
        ),
        (
            "acquire",
            with("ttl_seconds", json!(1)),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("ttl_seconds", json!(86401)),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("ttl_seconds", json!(u64::MAX)),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("ttl_seconds", secret.clone()),
            Some("ttl_seconds"),
        ),
        (
            "acquire",
            with("metadata", json!({"a": 1})),
            Some("metadata.a"),
        ),
        (
            "acquire",
            with("metadata", json!({"a": "x".repeat(4096)})),
            Some("metadata"),
        ),
        ("acquire", with("on_held", secret.clone()), Some("on_held")),
        ("acquire", with("permits", json!(0)), Some("permits")),
        ("acquire", with("hunter", secret.clone()), Some("hunter")),
        // What later releases bring.
        ("acquire", with("permits", json!(5)), Some("permits")),
        ("acquire", with("keys", json!(["a", "b"])), Some("keys")),
        (
            "acquire",
            with("observed_version", json!(1)),
            Some("observed_version"),
        ),
        ("acquire", with("reentrant", json!(true)), Some("reentrant")),
        (
            "acquire",
            with("task_token", secret.clone()),
            Some("task_token"),
        ),
        (
            "acquire",
            with("wait_seconds", json!(5)),
            Some("wait_seconds"),
        ),
        ("extend", json!({"leases": []}).to_string(), Some("leases")),
        ("extend", json!({}).to_string(), Some("lease")),
        (
            "extend",
            json!({"lease": secret}).to_string(),
            Some("lease"),
        ),
        (
            "extend",
            handle("fencing_token", json!(1.5)),
            Some("lease.fencing_token"),
        ),
        (
            "extend",
            handle("fencing_token", json!(-1)),
            Some("lease.fencing_token"),
        ),
        (
            "extend",
            handle("lease_id", json!(["hunter2"])),
            Some("lease.lease_id"),
        ),
        (
            "extend",
            handle("expires_at", json!("hunter2")),
            Some("lease.expires_at"),
        ),
        (
            "extend",
            handle("more", json!("hunter2")),
            Some("lease.more"),
        ),
        ("release", json!({"leases": []}).to_string(), Some("leases")),
        (
            "release",
            json!({"lease": {}}).to_string(),
            Some("lease.key"),
        ),
        ("sweep", json!({"limit": 0}).to_string(), Some("limit")),
        (
            "sweep",
            json!({"cursor": "hunter2"}).to_string(),
            Some("cursor"),
        ),
        (
            "sweep",
            json!({"more": "hunter2"}).to_string(),
            Some("more"),
        ),
        ("inspect", json!({}).to_string(), Some("key")),
        (
            "inspect",
            json!({"key": "k", "holder": "h"}).to_string(),
            Some("key"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_request_names_its_field_and_changes_nothing() {
    let functions = Functions::start().await;
    functions.stack.proxy().reset();
    for (function, event, field) in malformed() {
        let shown: String = event.chars().take(200).collect();
        let (name, message) = functions.call(function, &event).await.unwrap_err();
        assert_eq!(name, "Lease.Invalid", "{shown}");
        assert_eq!(message["field"].as_str(), field, "{shown}: {message}");
        assert!(!message["message"].as_str().unwrap().is_empty(), "{shown}");
        assert!(
            !message.to_string().contains("hunter2"),
            "{shown}: {message}"
        );
    }
    let sample = functions.event("acquire-invalid").await.unwrap_err();
    assert_eq!(
        (sample.0.as_str(), &sample.1["field"]),
        ("Lease.Invalid", &json!("ttl_seconds"))
    );
    assert_eq!(sample.1["key"], "orders/47");
    assert_eq!(
        functions.stack.proxy().counts().total(),
        0,
        "the table was never asked"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_table_does_has_a_name() {
    let functions = Functions::start().await;
    let request = json!({"key": "k", "holder": "a", "request_id": "1", "ttl_seconds": 300});
    let cases = [
        (Fault::Throttle, "Lease.Throttled"),
        (Fault::Conflict, "Lease.Throttled"),
        (Fault::Denied, "Lease.Denied"),
        (Fault::ServerError, "Lease.Unavailable"),
        (Fault::LoseAnswer, "Lease.Unavailable"),
        (Fault::Hang, "Lease.Unavailable"),
    ];
    for (fault, expected) in cases {
        functions.stack.proxy().reset();
        functions.stack.proxy().inject(fault, "UpdateItem", 3);
        let (name, message) = functions.call("acquire", &request).await.unwrap_err();
        assert_eq!(name, expected, "{fault:?}: {message}");
        assert_eq!(fields(&message), ["message", "key"].into(), "{fault:?}");
        let text = message["message"].as_str().unwrap();
        assert!(text.contains("dynamodb:UpdateItem on table"), "{text}");
    }
    // Whatever came of those, the same request resolves it.
    functions.stack.proxy().reset();
    let answer = functions.call("acquire", &request).await.unwrap();
    assert_eq!(answer["outcome"], "acquired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_has_a_name() {
    let functions = Functions::start().await;
    let mut faulty = functions.stack.functions().function("acquire").unwrap();
    faulty.binary = faulty.binary.with_file_name("examples").join("panic");
    (faulty.logical_id, faulty.verb) = ("PanicFunction".to_owned(), "panic".to_owned());
    functions.stack.functions().register(faulty);
    for _ in 0..2 {
        let (name, message) = functions
            .call("panic", json!({"key": "k"}))
            .await
            .unwrap_err();
        assert_eq!(name, "Lease.Unavailable");
        assert_eq!(fields(&message), ["message", "key"].into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_environment_is_named_by_every_answer() {
    let cases = [
        ("LEASE_TABLE", None),
        ("LEASE_CLOCK_MARGIN_MS", Some("soon")),
        ("LEASE_GUARD_MS", Some("-1")),
        ("LEASE_RETENTION_DAYS", Some("")),
        ("AWS_REGION", Some("")),
    ];
    for (variable, value) in cases {
        let mut options = Options::default();
        let change = [(variable.to_owned(), value.map(str::to_owned))].into();
        options.environment.insert("*".to_owned(), change);
        let functions = Functions::with(options).await;
        for name in ["acquire", "extend", "release", "sweep", "inspect"] {
            for _ in 0..2 {
                let answer = functions.event(name).await;
                let (error, message) = answer.expect_err(variable);
                assert_eq!(error, "Lease.Misconfigured", "{variable}");
                let text = message["message"].as_str().unwrap();
                assert!(text.contains(variable), "{variable}: {text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_and_a_strange_one_are_misconfigured() {
    let mut options = Options::default();
    let change = [("LEASE_TABLE".to_owned(), Some("elsewhere".to_owned()))].into();
    options.environment.insert("*".to_owned(), change);
    let functions = Functions::with(options).await;
    for name in ["acquire", "extend", "release", "sweep", "inspect"] {
        let (error, message) = functions.event(name).await.unwrap_err();
        assert_eq!(error, "Lease.Misconfigured", "{name}: {message}");
        assert!(
            message["message"].as_str().unwrap().contains("elsewhere"),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_reaches_the_logs() {
    let mut options = Options::default();
    let change = [
        ("AWS_LAMBDA_LOG_LEVEL".to_owned(), Some("TRACE".to_owned())),
        ("RUST_LOG".to_owned(), Some("trace".to_owned())),
    ];
    options.environment.insert("*".to_owned(), change.into());
    let functions = Functions::with(options).await;
    let lease = functions.acquire("k", "a", "1").await;
    functions
        .call("extend", json!({"lease": lease}))
        .await
        .unwrap();
    functions
        .call("inspect", json!({"key": "k"}))
        .await
        .unwrap();
    functions
        .stack
        .proxy()
        .inject(Fault::HalfAnswer, "UpdateItem", 3);
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap_err();
    functions
        .call("release", json!({"lease": lease, "strict": 1}))
        .await
        .unwrap_err();
    functions
        .call("release", json!({"lease": lease}))
        .await
        .unwrap();
    let secret = lease["lease_id"].as_str().unwrap();
    for name in ["acquire", "extend", "release", "inspect"] {
        let log = functions.stack.functions().log(name).unwrap();
        assert!(
            log.contains(r#""key":"k""#),
            "{name} says what it was about: {log}"
        );
        assert!(!log.contains(secret), "{name}: {log}");
    }
}

#[test]
fn every_event_is_used() {
    let here = include_str!("contract.rs");
    for entry in fs::read_dir(events()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(here.contains(&format!("\"{name}\"")), "{name}");
    }
}
