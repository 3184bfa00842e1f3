//! The event bus: rules that send events to functions and queues, and its HTTP endpoint.
//!
//! ```text
//! POST /events          puts one event on the bus
//! GET  /queues          every queue with its messages
//! GET  /queues/{name}   the texts in one queue, such as the dead letters
//! POST /cloudformation  the resources of the stack, as that service lists them
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::routing::{get, post};
use serde_json::{Map, Value};

use super::queues::Queues;
use crate::lambda::{Invoker, LambdaHost};
use crate::template::{RuleResource, Target, Transformer};

/// Rules and their targets.
pub(crate) struct Bus {
    rules: Vec<(RuleResource, Vec<Route>)>,
    queues: Arc<Queues>,
    /// Events that contain this text are lost, as a service could lose them.
    lost: Mutex<Option<String>>,
}

/// Where a rule sends an event, and how it changes it for that.
struct Route {
    destination: Destination,
    input: Option<Transformer>,
}

enum Destination {
    Function(Arc<Invoker>),
    Queue(String),
}

impl Bus {
    pub(super) fn new(rules: &[RuleResource], host: &LambdaHost, queues: Arc<Queues>) -> Self {
        let route = |(target, input): &(Target, Option<Transformer>)| Route {
            destination: match target {
                Target::Function(id) => Destination::Function(Arc::new(host.invoker(id))),
                Target::Queue(id) => Destination::Queue(id.clone()),
            },
            input: input.clone(),
        };
        let rules = rules.iter();
        let rules = rules.map(|rule| (rule.clone(), rule.targets.iter().map(route).collect()));
        Self {
            rules: rules.collect(),
            queues,
            lost: Mutex::default(),
        }
    }

    /// Sends an event to the targets of the matching rules. Functions are invoked asynchronously and once; the service would retry.
    pub(crate) fn put(&self, event: &Value) {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*lost, Some(text) if event.to_string().contains(text)) {
            return;
        }
        let matching = self
            .rules
            .iter()
            .filter(|(rule, _)| rule.pattern.as_ref().is_some_and(|p| p.matches(event)));
        for route in matching.flat_map(|(_, routes)| routes) {
            let input = match &route.input {
                Some(transformer) => transformer.apply(event),
                None => event.clone(),
            };
            let text = input.to_string();
            match &route.destination {
                Destination::Function(invoker) => {
                    let invoker = Arc::clone(invoker);
                    // The task holds only a weak reference to the host, so it ends with the host.
                    tokio::spawn(async move { invoker.invoke(text).await });
                }
                Destination::Queue(queue) => self.queues.send(queue, text),
            }
        }
    }

    /// From here on loses the events that contain this text. None loses nothing.
    pub(crate) fn lose(&self, containing: Option<&str>) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        *lost = containing.map(str::to_owned);
    }
}

/// The routes of the bus and the queues.
pub(super) fn routes(bus: Arc<Bus>) -> Router {
    Router::new()
        .route("/events", post(put))
        .route("/queues", get(queues))
        .route("/queues/{name}", get(queue))
        .with_state(bus)
}

async fn put(State(bus): State<Arc<Bus>>, body: String) -> (StatusCode, String) {
    match serde_json::from_str(&body) {
        Ok(event) => {
            bus.put(&event);
            (StatusCode::ACCEPTED, "{}\n".to_owned())
        }
        Err(error) => (
            StatusCode::BAD_REQUEST,
            format!("this is not JSON: {error}\n"),
        ),
    }
}

type Json = ([(HeaderName, &'static str); 1], String);

fn json(value: &Value) -> Json {
    (
        [(header::CONTENT_TYPE, "application/json")],
        format!("{value}\n"),
    )
}

async fn queues(State(bus): State<Arc<Bus>>) -> Json {
    let all = bus.queues.names().map(|name| {
        let bodies = bus.queues.bodies(name).unwrap_or_default();
        (name.to_owned(), parsed(&bodies))
    });
    json(&Value::Object(all.collect::<Map<_, _>>()))
}

async fn queue(
    State(bus): State<Arc<Bus>>,
    Path(name): Path<String>,
) -> Result<Json, (StatusCode, String)> {
    match bus.queues.bodies(&name) {
        Some(bodies) => Ok(json(&parsed(&bodies))),
        None => Err((
            StatusCode::NOT_FOUND,
            format!("no queue is called {name}\n"),
        )),
    }
}

/// Messages are texts. JSON texts are shown as JSON.
fn parsed(bodies: &[String]) -> Value {
    let parse =
        |body: &String| serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.clone()));
    Value::Array(bodies.iter().map(parse).collect())
}
