//! Queues as SQS has them, in memory: delay, visibility, and the move to a dead-letter queue.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lambda::request_id;
use crate::template::QueueResource;

/// All queues of a stack, by logical id.
#[derive(Debug)]
pub(crate) struct Queues(BTreeMap<String, Queue>);

#[derive(Debug)]
struct Queue {
    resource: QueueResource,
    messages: Mutex<Vec<Waiting>>,
    came: Notify,
}

#[derive(Debug)]
struct Waiting {
    message: Message,
    visible_at: Instant,
}

/// A received message.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) body: String,
    pub(super) receive_count: u32,
}

impl Queues {
    /// The queues of a template. `delay` replaces each queue's delays: of new messages, if they have one, and of failed ones.
    pub(crate) fn new(resources: &[QueueResource], delay: Option<Duration>) -> Self {
        let queue = |resource: &QueueResource| {
            let mut resource = resource.clone();
            if let Some(delay) = delay {
                if !resource.delay.is_zero() {
                    resource.delay = delay;
                }
                resource.visibility = delay;
            }
            let queue = Queue {
                resource,
                messages: Mutex::default(),
                came: Notify::new(),
            };
            (queue.resource.logical_id.clone(), queue)
        };
        Self(resources.iter().map(queue).collect())
    }

    /// Puts a message into a queue. Names of missing queues were refused before.
    pub(super) fn send(&self, queue: &str, body: String) {
        let message = Message {
            id: request_id(),
            body,
            receive_count: 0,
        };
        let Some(queue) = self.0.get(queue) else {
            return tracing::warn!(queue, "no queue is called this");
        };
        queue.keep(message, queue.resource.delay);
    }

    /// Receives up to `most` messages, as soon as there is one. A message stays in the queue until it is
    /// [deleted](Self::give_back). A message that was received too often becomes a dead letter instead.
    pub(super) async fn receive(&self, name: &str, most: usize) -> Vec<Message> {
        let Some(queue) = self.0.get(name) else {
            return std::future::pending().await;
        };
        loop {
            let came = queue.came.notified();
            let (taken, next) = queue.take_visible(most);
            let (fresh, spent): (Vec<_>, Vec<_>) = taken.into_iter().partition(|message| {
                let redrive = queue.resource.redrive.as_ref();
                redrive.is_none_or(|(_, after)| message.receive_count <= *after)
            });
            for message in spent {
                if let Some((dead_letters, _)) = &queue.resource.redrive {
                    self.send(dead_letters, message.body);
                }
            }
            if !fresh.is_empty() {
                return fresh;
            }
            match next {
                Some(at) => {
                    tokio::select! { () = came => {}, () = tokio::time::sleep_until(at) => {} }
                }
                None => came.await,
            }
        }
    }

    /// Returns failed messages, which become visible again after the queue's delay. The other received
    /// messages are deleted.
    pub(super) fn give_back(&self, queue: &str, messages: Vec<Message>) {
        if let Some(queue) = self.0.get(queue) {
            for message in messages {
                queue.keep(message, queue.resource.visibility);
            }
        }
    }

    /// The texts in a queue, the oldest first. `None` if there is no such queue.
    pub(crate) fn bodies(&self, queue: &str) -> Option<Vec<String>> {
        let queue = self.0.get(queue)?;
        let messages = queue.messages();
        Some(
            messages
                .iter()
                .map(|waiting| waiting.message.body.clone())
                .collect(),
        )
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Queue {
    fn keep(&self, message: Message, invisible: Duration) {
        let visible_at = Instant::now() + invisible;
        self.messages().push(Waiting {
            message,
            visible_at,
        });
        self.came.notify_waiters();
    }

    /// The messages that are visible now, and the instant of the next one.
    fn take_visible(&self, most: usize) -> (Vec<Message>, Option<Instant>) {
        let now = Instant::now();
        let mut taken = Vec::new();
        let mut messages = self.messages();
        messages.retain(|waiting| {
            let take = taken.len() < most && waiting.visible_at <= now;
            if take {
                let mut message = waiting.message.clone();
                message.receive_count += 1;
                taken.push(message);
            }
            !take
        });
        (
            taken,
            messages.iter().map(|waiting| waiting.visible_at).min(),
        )
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
