//! What a handler may take as its request.

use aws_lambda_events::event::eventbridge::EventBridgeEvent;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{
    error::Error,
    json::{self, Json},
};

/// An event, parsed but not yet understood.
#[derive(Debug)]
pub struct Event<'a>(pub(super) &'a Json);

/// A request that an event can be read as: any type that deserializes, and [`Trigger`].
pub trait FromEvent: Sized {
    /// Reads it.
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

/// The request of a function that runs on a schedule and can be called by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger<T> {
    /// An event of EventBridge: of its scheduler, or of a rule.
    Schedule,
    /// A call with a request of the function's own.
    Call(T),
}

impl<T: DeserializeOwned> FromEvent for Trigger<T> {
    fn from_event(event: &Event<'_>) -> Result<Self, Error> {
        if event.0.has("detail-type") {
            json::read::<EventBridgeEvent<Anything>>(event.0).map(|_| Self::Schedule)
        } else {
            json::read(event.0).map(Self::Call)
        }
    }
}

/// The detail of an event, which nobody reads.
#[derive(Debug)]
struct Anything;

impl<'de> serde::Deserialize<'de> for Anything {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// The event type asks for it.
impl serde::Serialize for Anything {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}
