//! One that waits for a key: its item, of one of two kinds.

mod token;

pub use token::TokenItem;

use crate::{clock::Timestamp, request::Request, start::StartItem};

/// The item of one that waits.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A task with a token, or a durable callback.
    Token(Box<TokenItem>),
    /// A start: the call of `StartExecution` waits.
    Start(Box<StartItem>),
}

impl Waiter {
    /// What it asks for.
    pub(crate) const fn request(&self) -> &Request {
        match self {
            Self::Token(waiter) => &waiter.request,
            Self::Start(item) => &item.request,
        }
    }

    /// Whether it is a start.
    pub(crate) const fn is_start(&self) -> bool {
        matches!(self, Self::Start(_))
    }

    /// Which wait of a task token it is: the row that it is granted says so.
    pub(crate) const fn ticket(&self) -> Option<u64> {
        match self {
            Self::Token(waiter) => Some(waiter.ticket),
            Self::Start(_) => None,
        }
    }

    /// Since when it waits.
    pub(crate) const fn since(&self) -> Timestamp {
        match self {
            Self::Token(waiter) => Timestamp::from_millis(waiter.ticket),
            Self::Start(item) => item.asked_at,
        }
    }

    /// When it gives up.
    pub(crate) const fn deadline(&self) -> Timestamp {
        match self {
            Self::Token(waiter) => waiter.deadline,
            Self::Start(item) => item.deadline,
        }
    }
}
