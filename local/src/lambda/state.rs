//! What a host knows of its functions and sandboxes, and the course of an invocation.

use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use serde_json::Value;
use tokio::sync::broadcast;

use super::code::Code;
use super::function::{Function, name_of};
use super::outcome::{Invocation, Outcome};
use super::printed::Printed;
use super::remote;
use super::sandbox::{Order, Sandbox};
use crate::error::Error;
use crate::guard;
use crate::observer::Observer;
use crate::process::Program;
use crate::wiring::Oversight;

/// How many invocations a slow reader of the live view may lag behind before it misses some.
const INVOCATIONS_KEPT: usize = 8192;

/// One function of a host, for a task that may outlive the host.
#[derive(Debug)]
pub(crate) struct Invoker {
    host: Weak<HostState>,
    logical_id: String,
}

impl Invoker {
    pub(super) fn of(host: &Arc<HostState>, logical_id: &str) -> Self {
        Self {
            host: Arc::downgrade(host),
            logical_id: logical_id.to_owned(),
        }
    }

    /// Invokes the function as registered now. `None` if the host or the function is gone.
    pub(crate) async fn invoke(&self, payload: String) -> Option<Invocation> {
        let host = self.host.upgrade()?;
        let hosted = host.hosted(&self.logical_id).ok()?;
        Some(host.invoke(hosted, request_id(), payload).await)
    }
}

/// The shared state of the HTTP handlers.
#[derive(Debug)]
pub(super) struct HostState {
    address: SocketAddr,
    logs: PathBuf,
    /// Each by its logical id and by its verb.
    functions: Mutex<HashMap<String, Arc<Hosted>>>,
    sandboxes: Mutex<HashMap<String, Arc<Sandbox>>>,
    pub(super) invocations: broadcast::Sender<Invocation>,
    started: AtomicU64,
    pub(super) stopped: AtomicBool,
    pub(super) options: HostOptions,
}

/// What a host is built with.
#[derive(Debug, Default)]
pub(crate) struct HostOptions {
    /// An observer also reads the logs when the host ends. With one, functions log everything.
    pub(crate) oversight: Oversight,
    /// The event source mappings that the API returns, by id.
    pub(crate) event_sources: BTreeMap<String, Value>,
    /// Where AWS's local runner of durable functions is.
    pub(crate) durable_runner: Option<String>,
}

/// A registered function.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) function: Function,
    /// How many coming invocations end by the death of the process: after their work, and before it.
    pub(super) deaths_before_answer: AtomicU32,
    pub(super) deaths_after_start: AtomicU32,
}

/// Whether a death is planned, which happens now.
pub(super) fn happens(planned: &AtomicU32) -> bool {
    let less = |left: u32| left.checked_sub(1);
    planned
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
        .is_ok()
}

impl HostState {
    pub(super) fn new(address: SocketAddr, logs: &Path, options: HostOptions) -> Self {
        Self {
            address,
            logs: logs.to_owned(),
            functions: Mutex::default(),
            sandboxes: Mutex::default(),
            invocations: broadcast::channel(INVOCATIONS_KEPT).0,
            started: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            options,
        }
    }

    pub(super) fn hosted(&self, name: &str) -> Result<Arc<Hosted>, Error> {
        let found = self.functions().get(name_of(name)).cloned();
        found.ok_or_else(|| Error::UnknownFunction(name.to_owned()))
    }

    /// All functions, by logical id.
    pub(super) fn registered(&self) -> Vec<Function> {
        let functions = self.functions();
        let named = functions
            .iter()
            .filter(|(name, hosted)| **name == hosted.function.logical_id);
        let mut all: Vec<_> = named.map(|(_, hosted)| hosted.function.clone()).collect();
        all.sort_by(|a, b| a.logical_id.cmp(&b.logical_id));
        all
    }

    pub(super) fn sandbox(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.sandboxes().get(id).cloned()
    }

    /// Sends an order to every sandbox of a function, and returns how many there are.
    pub(super) fn order(&self, logical_id: &str, order: Order) -> usize {
        let sandboxes = self.sandboxes();
        let ours = sandboxes
            .values()
            .filter(|sandbox| sandbox.function == logical_id);
        ours.map(|sandbox| sandbox.order(order)).count()
    }

    pub(super) async fn invoke(
        self: Arc<Self>,
        hosted: Arc<Hosted>,
        request_id: String,
        payload: String,
    ) -> Invocation {
        let started_at = SystemTime::now();
        let outcome = if let Code::Url(url) = &hosted.function.code {
            remote::invoke(
                url,
                &request_id,
                payload.clone(),
                hosted.function.stops_after(),
            )
            .await
        } else {
            match self.sandbox_for(&hosted, &request_id) {
                Ok(sandbox) => sandbox.run(&request_id, payload.clone()).await,
                Err(refusal) => refusal,
            }
        };
        let invocation = Invocation {
            function: hosted.function.logical_id.clone(),
            verb: hosted.function.verb.clone(),
            request_id,
            payload,
            outcome,
            started_at,
            ended_at: SystemTime::now(),
        };
        self.show(&invocation);
        // It is no error if nobody is subscribed.
        let _ = self.invocations.send(invocation.clone());
        invocation
    }

    /// An idle sandbox, or a new one if the limit allows it.
    fn sandbox_for(
        self: &Arc<Self>,
        hosted: &Hosted,
        request_id: &str,
    ) -> Result<Arc<Sandbox>, Outcome> {
        let function = &hosted.function;
        // The lock is held while a process starts, about a millisecond, so that the limit cannot be exceeded.
        let mut sandboxes = self.sandboxes();
        let ours = || {
            sandboxes
                .values()
                .filter(|sandbox| sandbox.function == function.logical_id)
        };
        if let Some(idle) = ours().find(|sandbox| sandbox.reserve()) {
            return Ok(Arc::clone(idle));
        }
        if ours().filter(|sandbox| sandbox.is_alive()).count() >= function.concurrency {
            return Err(Outcome::Throttled);
        }
        if self.stopped.load(Ordering::Acquire) {
            return Err(Outcome::no_entrypoint(request_id, "the host has stopped"));
        }
        let sandbox = self.start_sandbox(function).map_err(|error| {
            let why = format!("could not start {}: {error}", function.code);
            Outcome::no_entrypoint(request_id, &why)
        })?;
        sandbox.reserve();
        sandboxes.insert(sandbox.id.clone(), Arc::clone(&sandbox));
        Ok(sandbox)
    }

    /// Keeps a sandbox for the next event.
    pub(super) fn keep(&self, sandbox: &Arc<Sandbox>) {
        let id = sandbox.id.clone();
        self.sandboxes().insert(id, Arc::clone(sandbox));
    }

    /// What a function prints from now on.
    pub(super) fn printed_from_now_on(&self, function: &Function) -> Printed {
        Printed::to(&self.log_file(function))
    }

    pub(super) fn start_sandbox(
        self: &Arc<Self>,
        function: &Function,
    ) -> std::io::Result<Arc<Sandbox>> {
        let id = format!(
            "{}-{}",
            function.logical_id,
            self.started.fetch_add(1, Ordering::Relaxed)
        );
        let runtime_api = format!("http://{}{}/{id}", self.address, guard::runtime_path());
        let (path, arguments) = match &function.code {
            Code::Binary(path) => (path.as_path(), Vec::new()),
            Code::Command(command) => (Path::new("/bin/sh"), vec!["-c".into(), command.into()]),
            Code::Url(_) => return Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
        };
        // `setpriv` would report a missing program in the log only.
        if !path.is_file() {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        }
        let program = Program {
            path,
            arguments,
            environment: function.environment(
                &runtime_api,
                &id,
                self.options.oversight.observer.is_some(),
            ),
            output: OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.log_file(function))?,
        };
        let is_users = matches!(function.code, Code::Command(_));
        let printed = is_users.then(|| self.printed_from_now_on(function));
        let child = program.spawn()?;
        let (host, gone) = (Arc::downgrade(self), id.clone());
        let forget = move || {
            if let Some(host) = host.upgrade() {
                host.sandboxes().remove(&gone);
            }
        };
        Ok(Arc::new(Sandbox::new(
            id,
            function.logical_id.clone(),
            function.stops_after(),
            (child, printed),
            forget,
        )))
    }

    /// Shows the observer an invocation that has ended.
    fn show(&self, invocation: &Invocation) {
        let oversight = &self.options.oversight;
        oversight.show(invocation.payload.as_bytes());
        if let Outcome::Answer(text) | Outcome::FunctionError(text) = &invocation.outcome {
            oversight.show(text.as_bytes());
        }
    }

    /// What is wrong with the log of each function.
    pub(super) fn faults(&self, observer: &dyn Observer) -> Vec<String> {
        let registered = self.registered().into_iter();
        let faults = registered.filter_map(|function| {
            let log = std::fs::read(self.log_file(&function)).unwrap_or_default();
            let fault = observer.finds(&log)?;
            Some(format!("{}, {fault}", function.logical_id))
        });
        faults.collect()
    }

    pub(super) fn log_file(&self, function: &Function) -> PathBuf {
        self.logs.join(format!("{}.log", function.logical_id))
    }

    pub(super) fn functions(&self) -> MutexGuard<'_, HashMap<String, Arc<Hosted>>> {
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sandboxes(&self) -> MutexGuard<'_, HashMap<String, Arc<Sandbox>>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A random request id in the form that Lambda gives them, a version 4 UUID.
pub(crate) fn request_id() -> String {
    let number = fastrand::u128(..) & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let mut id = format!("{number:032x}");
    for at in [8, 13, 18, 23] {
        id.insert(at, '-');
    }
    id
}

#[cfg(test)]
mod tests {
    #[test]
    fn request_id_is_uuid_v4() {
        let id = super::request_id();
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!("89ab".contains(&id[19..20]));
        assert_ne!(id, super::request_id());
    }
}
