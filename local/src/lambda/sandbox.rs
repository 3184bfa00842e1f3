//! One sandbox: a process of a function that serves one event at a time.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};

use super::outcome::Outcome;
use super::printed::Printed;
use crate::process;

/// How long a new process may take until it polls for its first event.
pub(super) const INIT_LIMIT: Duration = Duration::from_secs(10);

/// An event on its way into a sandbox.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) request_id: String,
    pub(super) payload: String,
    /// Set when the process takes the event. Its time limit counts from then.
    taken: oneshot::Sender<()>,
}

/// The owner's orders to the process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Kill,
    Freeze,
    Thaw,
}

/// A process, its current event, and the channel to end it.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: String,
    /// Logical id of its function.
    pub(super) function: String,
    timeout: Duration,
    busy: AtomicBool,
    /// Set together with the order to kill it, so that it gets no event until the order takes effect.
    condemned: AtomicBool,
    events: mpsc::Sender<Event>,
    /// The receiver of `events`. The lock is async, because it is held while the process waits for work.
    inbox: tokio::sync::Mutex<mpsc::Receiver<Event>>,
    orders: mpsc::UnboundedSender<Order>,
    /// How the process ended. None while it runs.
    ended: watch::Receiver<Option<String>>,
    current: Mutex<Option<Current>>,
    /// Whether the process has asked for an event.
    polled: watch::Sender<bool>,
    /// The error that the process reported instead.
    init_error: OnceLock<String>,
    /// Of a user's command: what it prints.
    printed: Option<Printed>,
}

#[derive(Debug)]
struct Current {
    request_id: String,
    answer: oneshot::Sender<Outcome>,
}

impl Sandbox {
    /// Supervises a process, and calls `gone` once it has ended. The user is told of a command that ends by itself.
    pub(super) fn new(
        id: String,
        function: String,
        timeout: Duration,
        (child, printed): (Child, Option<Printed>),
        gone: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (events, inbox) = mpsc::channel(1);
        let (orders, received) = mpsc::unbounded_channel();
        let (end, ended) = watch::channel(None);
        let (named, prints) = (function.clone(), printed.clone());
        tokio::spawn(async move {
            let (how, by_itself) = supervise(child, received).await;
            if let Some(printed) = prints.filter(|_| by_itself) {
                printed.tell(&named, &format!("has ended: {how}"));
            }
            end.send_replace(Some(how));
            gone();
        });
        Self {
            id,
            function,
            timeout,
            busy: AtomicBool::new(false),
            condemned: AtomicBool::new(false),
            events,
            inbox: tokio::sync::Mutex::new(inbox),
            orders,
            ended,
            current: Mutex::new(None),
            polled: watch::channel(false).0,
            init_error: OnceLock::new(),
            printed,
        }
    }

    /// Waits until the process has asked for an event.
    pub(super) async fn polled(&self) {
        let _ = self.polled.subscribe().wait_for(|polled| *polled).await;
    }

    /// The error with which the process could not initialize, as it reported it.
    pub(super) fn init_error(&self) -> Option<&str> {
        self.init_error.get().map(String::as_str)
    }

    /// Tells the user something about the function, with the end of what it printed.
    pub(super) fn tell(&self, what: &str) {
        if let Some(printed) = &self.printed {
            printed.tell(&self.function, what);
        }
    }

    /// How the process ended, for whoever invoked it.
    fn end(&self, how: &str) -> String {
        let line = self.printed.as_ref().and_then(Printed::last_line);
        match line {
            Some(line) => format!("{how}: {line}"),
            None => how.to_owned(),
        }
    }

    /// Reserves the sandbox for one invocation, if it is alive and idle.
    pub(super) fn reserve(&self) -> bool {
        self.is_alive()
            && !self.condemned.load(Ordering::Acquire)
            && !self.busy.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.ended.borrow().is_none()
    }

    pub(super) fn order(&self, order: Order) {
        if matches!(order, Order::Kill) {
            self.condemned.store(true, Ordering::Release);
        }
        // A process that has ended needs no orders.
        let _ = self.orders.send(order);
    }

    /// Waits until the process has ended, and returns how.
    pub(super) async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            // The supervisor ended together with the runtime.
            Err(_) => "signal: killed".to_owned(),
        }
    }

    /// Runs one event. The caller has [reserved](Self::reserve) the sandbox.
    pub(super) async fn run(&self, request_id: &str, payload: String) -> Outcome {
        let (taken, was_taken) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        *self.current() = Some(Current {
            request_id: request_id.to_owned(),
            answer,
        });
        let event = Event {
            request_id: request_id.to_owned(),
            payload,
            taken,
        };
        let work = async {
            if self.events.send(event).await.is_err() {
                return None;
            }
            if tokio::time::timeout(INIT_LIMIT, was_taken).await.is_err() {
                return Some(Outcome::timed_out(request_id, INIT_LIMIT));
            }
            match tokio::time::timeout(self.timeout, answered).await {
                Ok(Ok(outcome)) => Some(outcome),
                Ok(Err(_)) => None,
                Err(_) => Some(Outcome::timed_out(request_id, self.timeout)),
            }
        };
        // A posted response counts, even if the process ended right after it.
        let outcome = tokio::select! {
            biased;
            Some(outcome) = work => outcome,
            how = self.ended() => Outcome::exited(request_id, &self.end(&how)),
        };
        if self.current().take().is_some() {
            // There was no response. The process is killed, because its late response must not reach another event.
            self.order(Order::Kill);
            self.ended().await;
        }
        self.busy.store(false, Ordering::Release);
        outcome
    }

    /// The next event for the polling process. Waits for ever if there is none.
    pub(super) async fn next_event(&self) -> Option<(Event, SystemTime)> {
        self.polled.send_replace(true);
        let event = self.inbox.lock().await.recv().await?;
        Some((event, SystemTime::now() + self.timeout))
    }

    /// Takes the process's response to its event. Returns `false` if the event is not (or no longer) its own.
    pub(super) fn answer(&self, request_id: &str, outcome: Outcome) -> bool {
        let mut current = self.current();
        let Some(ours) = current.take_if(|current| current.request_id == request_id) else {
            return false;
        };
        ours.answer.send(outcome).is_ok()
    }

    /// Fails the waiting event, because the process could not initialize.
    pub(super) fn fail_init(&self, error: String) {
        let outcome = Outcome::FunctionError(error.clone());
        let _ = self.init_error.set(error);
        if let Some(current) = self.current().take() {
            let _ = current.answer.send(outcome);
        }
        self.order(Order::Kill);
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Event {
    /// Notifies the invoker that the process has the event, and returns it.
    pub(super) fn delivered(self) -> (String, String) {
        let _ = self.taken.send(());
        (self.request_id, self.payload)
    }
}

/// Owns the process until it has ended, so that signals are only sent to a process that has not been waited for. Returns how it ended,
/// and whether by itself.
async fn supervise(mut child: Child, mut orders: mpsc::UnboundedReceiver<Order>) -> (String, bool) {
    loop {
        tokio::select! {
            status = child.wait() => {
                return (status.map_or_else(|error| error.to_string(), describe), true);
            }
            order = orders.recv() => match order {
                Some(Order::Freeze) => process::signal(&child, Signal::STOP),
                Some(Order::Thaw) => process::signal(&child, Signal::CONT),
                // Nothing can use it any more.
                Some(Order::Kill) | None => {
                    process::kill(&mut child);
                    let status = child.wait().await;
                    return (status.map_or_else(|error| error.to_string(), describe), false);
                }
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(9)) => "signal: killed".to_owned(),
        (None, Some(signal)) => format!("signal: {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}
