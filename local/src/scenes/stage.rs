//! A stack of its own for one scene, with its preparation done.

use std::collections::BTreeMap;
use std::net::IpAddr;

use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::row::{Holding, Item, Row, State};
use leasehold::{Lease, RequestDigest, RequestId};
use serde_json::{Value, json};

use super::{Scene, Step};
use crate::error::{Error, io};
use crate::fake_step_functions::{FakeStepFunctionsServer, StepFunctionsCall};
use crate::lambda::Outcome;
use crate::stack::{Options, Stack};

/// A stack with a fresh table for one scene.
pub struct Stage {
    stack: Stack,
    desk: FakeStepFunctionsServer,
    verb: String,
    payload: String,
}

impl Scene {
    /// The text of the event.
    ///
    /// # Errors
    /// [`Error::Io`] when its file cannot be read.
    pub fn payload(&self) -> Result<String, Error> {
        read(&self.event)
    }

    /// Starts a stack, and makes the preparation for the event.
    ///
    /// # Errors
    /// Errors of starting a stack, and [`Error::Call`] if a preparation step fails.
    pub async fn set(&self) -> Result<Stage, Error> {
        let mut options = Options {
            // No schedules, streams or queues.
            follow: false,
            ..Options::default()
        };
        let settings = options.environment.entry("*".to_owned()).or_default();
        let ours = self.entry.environment.iter();
        settings.extend(ours.map(|(name, value)| (name.clone(), Some(value.clone()))));
        let desk = FakeStepFunctionsServer::start(&mut options).await?;
        let stage = Stage {
            stack: Stack::start(options).await?,
            desk,
            verb: self.function().to_owned(),
            payload: self.payload()?,
        };
        for step in &self.entry.before {
            stage.take(step).await?;
        }
        // Calls so far belong to the preparation.
        stage.desk.calls();
        Ok(stage)
    }
}

impl Stage {
    /// The event.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The stack of the scene.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The calls to Step Functions since the last call of this method.
    #[must_use]
    pub fn step_functions_calls(&self) -> Vec<StepFunctionsCall> {
        self.desk.calls()
    }

    /// Lets DynamoDB and Step Functions listen at `ip` too, for containers.
    ///
    /// # Errors
    /// [`Error::Io`] when this machine has no such address, or a port is taken there.
    pub async fn listen_also(&mut self, ip: IpAddr) -> Result<(), Error> {
        self.stack.listen_also(ip).await?;
        self.desk.listen_also(ip).await
    }

    /// The function's variables, for a host that reaches this machine as `address`.
    #[must_use]
    pub fn environment(&self, address: &str) -> BTreeMap<String, String> {
        let mut all = self.stack.environments(address);
        let id = self.logical_id();
        all.remove(&id).unwrap_or_default()
    }

    /// The function's name in the template.
    #[must_use]
    pub fn logical_id(&self) -> String {
        let function = self.stack.functions().function(&self.verb);
        function.map_or_else(|_| String::new(), |function| function.logical_id)
    }

    /// Sends the event to the function as a process of this machine, and returns its response.
    ///
    /// # Errors
    /// [`Error::Call`] if there is no response.
    pub async fn invoke(&self) -> Result<String, Error> {
        match self.send(&self.verb, &self.payload).await? {
            Outcome::Answer(text) | Outcome::FunctionError(text) => Ok(text),
            Outcome::Throttled => Err(failed(&self.verb, "throttled")),
        }
    }

    /// Stops it, and waits until its processes have ended.
    pub async fn stop(self) {
        self.stack.stop().await;
    }

    async fn send(&self, function: &str, payload: &str) -> Result<Outcome, Error> {
        let sent = self.stack.functions().invoke(function, payload).await?;
        Ok(sent.outcome)
    }

    /// A call that must succeed.
    async fn call(&self, function: &str, payload: &str) -> Result<Value, Error> {
        match self.send(function, payload).await? {
            Outcome::Answer(text) => {
                serde_json::from_str(&text).map_err(|error| failed(function, &error))
            }
            other => Err(failed(function, &format!("{other:?}"))),
        }
    }

    async fn event(&self, name: &str) -> Result<Value, Error> {
        let function = name.split('-').next().unwrap_or_default();
        self.call(function, &read(name)?).await
    }

    async fn take(&self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Stop(execution) => self.desk.stop(execution),
            Step::Hold { key, holder } => {
                let holder = holder.as_deref().unwrap_or("other");
                let request =
                    json!({"key": key, "holder": holder, "request_id": "1", "ttl_seconds": 300});
                self.call("acquire", &request.to_string()).await?;
            }
            Step::Event(name) => drop(self.event(name).await?),
            Step::Call(function, request) => {
                self.call(function, &request.to_string()).await?;
            }
            Step::Spend(name) => {
                let granted = self.event(name).await?;
                let handle = json!({"lease": granted["lease"]});
                self.call("release", &handle.to_string()).await?;
            }
            Step::Stand(name) => {
                let event: Value =
                    serde_json::from_str(&read(name)?).map_err(|error| failed(name, &error))?;
                let several = event["leases"].as_array();
                for handle in several.unwrap_or(&vec![event["lease"].clone()]) {
                    self.put(item_of(handle)?).await?;
                }
            }
            Step::Change {
                key,
                attribute,
                number,
            } => {
                let mut item = self.item(key).await?;
                item.insert(attribute.clone(), AttributeValue::N(number.clone()));
                self.put(item).await?;
            }
            Step::Strange(key) => {
                let text = |text: &str| AttributeValue::S(text.to_owned());
                let attributes = [("pk", key.as_str()), ("sk", SORT), ("holder", "x")];
                let attributes = attributes.map(|(name, value)| (name.to_owned(), text(value)));
                self.put(attributes.into()).await?;
            }
        }
        Ok(())
    }

    fn table(&self) -> &str {
        self.stack.tables().first().copied().unwrap_or_default()
    }

    async fn put(&self, item: Item) -> Result<(), Error> {
        let put = self.stack.dynamodb().put_item().table_name(self.table());
        let put = put.set_item(Some(item)).send().await;
        put.map_err(|error| failed("PutItem", &DisplayErrorContext(&error)))?;
        Ok(())
    }

    async fn item(&self, key: &str) -> Result<Item, Error> {
        let get = self.stack.dynamodb().get_item().table_name(self.table());
        let get = get
            .key("pk", AttributeValue::S(key.to_owned()))
            .key("sk", AttributeValue::S(SORT.to_owned()));
        let got = get.send().await;
        let got = got.map_err(|error| failed("GetItem", &DisplayErrorContext(&error)))?;
        got.item
            .ok_or_else(|| failed("GetItem", &format!("nothing is stored at {key}")))
    }
}

const SORT: &str = "LEASE#0000";

/// The item for a handle, as if it had just been granted.
///
/// # Errors
/// [`Error::Call`] if it is no handle.
pub fn item_of(handle: &Value) -> Result<Item, Error> {
    let no_handle = |error: &dyn std::fmt::Display| failed("read a handle", error);
    let lease: Lease = serde_json::from_value(handle.clone()).map_err(|error| no_handle(&error))?;
    let sample = RequestId::new("sample").map_err(|error| no_handle(&error))?;
    let row = Row {
        fencing_token: lease.fencing_token,
        version: lease.version,
        granted_to: lease.holder.clone(),
        request: RequestDigest::of(&lease.holder, &sample),
        past_requests: [None, None, None],
        previous: None,
        frozen: None,
        operator: None,
        purge_at: None,
        request_keys: None,
        line: Vec::new(),
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
    let mut item = row.to_item();
    item.insert(
        "pk".to_owned(),
        AttributeValue::S(lease.key.as_str().to_owned()),
    );
    item.insert("sk".to_owned(), AttributeValue::S(SORT.to_owned()));
    Ok(item)
}

fn read(event: &str) -> Result<String, Error> {
    let path = Options::default().root.join(format!("events/{event}.json"));
    std::fs::read_to_string(&path).map_err(io(format!("read {}", path.display())))
}

fn failed(what: &str, message: &(impl ToString + ?Sized)) -> Error {
    Error::Call {
        what: what.to_owned(),
        message: message.to_string(),
    }
}
