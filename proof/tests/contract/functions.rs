//! The functions of the stack, called with sample events.

use std::{collections::BTreeSet, fs, path::Path};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold_local::{Options, Outcome, Stack, scenes};
use serde_json::{Value, json};

pub const HOLDER: &str = "arn:aws:states:us-east-1:123456789012:execution:deploy:7f3c";

pub struct Functions {
    pub stack: Stack,
}

/// An answer, or an error's name and message.
pub type Answer = Result<Value, (String, Value)>;

impl Functions {
    pub async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        let stack = Stack::start(options).await.unwrap();
        Self { stack }
    }

    pub async fn call(&self, function: &str, payload: impl ToString) -> Answer {
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
            other @ Outcome::Throttled => panic!("{other:?}"),
        }
    }

    pub async fn event(&self, name: &str) -> Answer {
        let function = name.split('-').next().unwrap();
        self.call(function, event(name)).await
    }

    pub async fn acquire(&self, key: &str, holder: &str, id: &str) -> Value {
        let request = json!({"key": key, "holder": holder, "request_id": id, "ttl_seconds": 300});
        self.call("acquire", request).await.unwrap()["lease"].clone()
    }

    pub fn table(&self) -> &str {
        self.stack.tables()[0]
    }

    pub async fn item(&self, key: &str) -> Option<leasehold::row::Item> {
        let get = self.stack.dynamodb().get_item().table_name(self.table());
        let get = get.key("pk", s(key)).key("sk", s("LEASE#0000"));
        get.send().await.unwrap().item
    }

    pub async fn put(&self, key: &str, item: leasehold::row::Item) {
        let put = self.stack.dynamodb().put_item().table_name(self.table());
        let put = put
            .set_item(Some(item))
            .item("pk", s(key))
            .item("sk", s("LEASE#0000"));
        put.send().await.unwrap();
    }

    pub async fn delete(&self, key: &str) {
        let delete = self.stack.dynamodb().delete_item();
        let delete = delete.table_name(self.table()).key("pk", s(key));
        delete.key("sk", s("LEASE#0000")).send().await.unwrap();
    }

    /// What a function has logged so far.
    pub fn log(&self, function: &str) -> String {
        self.stack.functions().log(function).unwrap()
    }

    /// Makes the table say what the handle in a sample event says.
    pub async fn stand(&self, name: &str) {
        self.stand_by(&event(name)["lease"]).await;
    }

    /// Makes the table say what the handles in a sample event say.
    pub async fn stand_all(&self, name: &str) {
        for lease in event(name)["leases"].as_array().unwrap() {
            self.stand_by(lease).await;
        }
    }

    async fn stand_by(&self, handle: &Value) {
        let key = handle["key"].as_str().unwrap();
        self.put(key, scenes::item_of(handle).unwrap()).await;
    }

    pub async fn change(&self, key: &str, name: &str, value: AttributeValue) {
        let mut item = self.item(key).await.unwrap();
        item.insert(name.to_owned(), value);
        self.put(key, item).await;
    }
}

/// A stack in which nothing happens by itself.
pub fn quiet() -> Options {
    Options {
        follow: false,
        ..Options::default()
    }
}

pub fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub fn events() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../events"))
}

pub fn event(name: &str) -> Value {
    let text = fs::read_to_string(events().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub fn fields(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

pub fn name_of(answer: &Answer) -> &str {
    answer.as_ref().unwrap_err().0.as_str()
}

pub const HANDLE: [&str; 11] = [
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
