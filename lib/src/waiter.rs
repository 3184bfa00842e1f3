//! One that waits for a key: its item, of one of two kinds.

mod token;

pub use token::TokenItem;

use crate::{clock::Timestamp, pool::Entry, request::Request, row::Row, start::StartItem};

/// The item of one that waits.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A task with a token, or a durable callback.
    Token(Box<TokenItem>),
    /// A start: the call of `StartExecution` waits.
    Start(Box<StartItem>),
    /// One of the two that has its key and waits in the queue of its pool.
    InPool(Box<WaitsInPool>),
}

/// One that waits in the queue of a pool.
#[derive(Clone, Debug)]
pub(crate) struct WaitsInPool {
    /// The grant of its key.
    pub(crate) entry: Entry,
    /// The row that has it, as it was read.
    pub(crate) row: Row,
    /// What waits.
    pub(crate) waiter: Waiter,
    /// What it asks of the pool.
    pub(crate) request: Request,
}

impl Waiter {
    /// What it asks for.
    pub(crate) const fn request(&self) -> &Request {
        match self {
            Self::Token(waiter) => &waiter.request,
            Self::Start(item) => &item.request,
            Self::InPool(entry) => &entry.request,
        }
    }

    /// Whether it is a start, also in the queue of its pool.
    pub(crate) const fn is_start(&self) -> bool {
        match self {
            Self::Token(_) => false,
            Self::Start(_) => true,
            Self::InPool(entry) => entry.waiter.is_start(),
        }
    }

    /// Which wait of a task token it is: the row that it is granted says so.
    pub(crate) const fn ticket(&self) -> Option<u64> {
        match self {
            Self::Token(waiter) => Some(waiter.ticket),
            Self::Start(_) | Self::InPool(_) => None,
        }
    }

    /// Since when it waits.
    pub(crate) const fn since(&self) -> Timestamp {
        match self {
            Self::Token(waiter) => Timestamp::from_millis(waiter.ticket),
            Self::Start(item) => item.asked_at,
            Self::InPool(entry) => entry.waiter.since(),
        }
    }

    /// When it gives up.
    pub(crate) const fn deadline(&self) -> Timestamp {
        match self {
            Self::Token(waiter) => waiter.deadline,
            Self::Start(item) => item.deadline,
            Self::InPool(entry) => entry.waiter.deadline(),
        }
    }
}
