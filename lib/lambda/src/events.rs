//! The requests that a handler can take, read from the raw text of the event. The runtime would parse the event
//! first, and would name a Rust type in the error.

use std::{
    fmt,
    task::{Context, Poll},
};

use aws_lambda_events::event::eventbridge::EventBridgeEvent;
use lambda_runtime::{
    LambdaInvocation,
    tower::{Layer, Service},
};
use leasehold::{Error, Key};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Names, json};

/// An event, parsed but not yet understood.
pub struct Event<'a>(pub(crate) &'a Value);

impl Event<'_> {
    /// The key of an event that cannot be read as a request, for the log and the error.
    pub(crate) fn key(&self) -> Option<Key> {
        let text = json::text(self.0, "/key").or_else(|| json::text(self.0, "/lease/key"));
        Key::new(text?).ok()
    }
}

/// Shows nothing of the content, which may be a secret.
impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").finish_non_exhaustive()
    }
}

/// A request that an event can be read as: any type that deserializes, and [`Trigger`].
pub trait FromEvent: Sized {
    /// Whether the function handles the whole table, and not what a caller names.
    const WHOLE_TABLE: bool = false;

    /// Reads the request.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the field at fault.
    fn from_event(event: &Event<'_>) -> Result<Self, Error>;
}

impl<T: DeserializeOwned> FromEvent for T {
    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        json::read(event.0)
    }
}

/// A request of a function.
pub trait Request: FromEvent {
    /// Everything in it that the boundary limits or the log shows. Take the request apart without `..`, so that a new
    /// field does not compile before somebody has thought about it.
    fn names(&self) -> Names<'_>;
}

/// The request of a function that runs on a schedule and can be called by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger<T> {
    /// An event of EventBridge: of its scheduler, or of a rule.
    Schedule,
    /// A call with a request of the function's own.
    Call(T),
}

impl<T: DeserializeOwned> FromEvent for Trigger<T> {
    const WHOLE_TABLE: bool = true;

    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        if event.0.get("detail-type").is_some() {
            json::read_event::<EventBridgeEvent<Value>>(event.0).map(|_| Self::Schedule)
        } else {
            json::read(event.0).map(Self::Call)
        }
    }
}

impl<T: Request + DeserializeOwned> Request for Trigger<T> {
    fn names(&self) -> Names<'_> {
        match self {
            Self::Schedule => Names::default(),
            Self::Call(request) => request.names(),
        }
    }
}

/// Text that is not UTF-8 becomes the empty text, which is refused as text that is not JSON is.
pub(crate) fn text(event: &[u8]) -> &str {
    std::str::from_utf8(event).unwrap_or_default()
}

/// Wraps the event's text as a JSON string, which always parses.
pub(crate) struct AsText;

impl<S> Layer<S> for AsText {
    type Service = AsTextService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AsTextService(inner)
    }
}

pub(crate) struct AsTextService<S>(S);

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for AsTextService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let text = text(&invocation.body);
        invocation.body = serde_json::Value::from(text).to_string().into();
        self.0.call(invocation)
    }
}
