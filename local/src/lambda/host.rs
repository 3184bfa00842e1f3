//! The host: its functions, and how it starts and stops.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use leasehold_net::{Listener, Server};
use serde_json::Value;
use tokio::sync::broadcast;

use super::function::Function;
use super::outcome::Invocation;
use super::sandbox::Order;
use super::state::{HostOptions, HostState, Hosted, Invoker, request_id};
use super::{durable, invoke_api, runtime_api};
use crate::error::{Error, io};
use crate::guard;
use crate::wiring::bind;

/// Functions as processes, behind Lambda's APIs. Dropping the host kills every sandbox.
#[derive(Debug)]
pub struct LambdaHost {
    pub(super) state: Arc<HostState>,
    server: Server,
}

impl LambdaHost {
    /// Starts a host without functions on 127.0.0.1. Port 0 takes a free one. Each function's output goes to
    /// `<logs>/<logical id>.log`.
    ///
    /// # Errors
    /// [`Error::Io`] when the port or the directory cannot be had.
    pub async fn start(logs: &Path, port: u16) -> Result<Self, Error> {
        let listener = bind(port, "Lambda").await?;
        Self::new(listener, logs, HostOptions::default())
    }

    /// A host without functions.
    pub(crate) fn new(
        listener: Listener,
        logs: &Path,
        options: HostOptions,
    ) -> Result<Self, Error> {
        std::fs::create_dir_all(logs).map_err(io(format!("create {}", logs.display())))?;
        let state = Arc::new(HostState::new(listener.address(), logs, options));
        let routes = Router::new()
            .merge(invoke_api::routes())
            .merge(runtime_api::routes())
            .merge(durable::routes())
            .with_state(Arc::clone(&state));
        Ok(Self {
            state,
            server: listener.serve(routes, guard::guard_of_lambda()),
        })
    }

    /// Listens at the same port of `ip` too, for clients that cannot reach 127.0.0.1, such as a container.
    ///
    /// # Errors
    /// [`Error::Io`] when this machine has no such address, or the port is taken there.
    pub async fn listen_also(&mut self, ip: IpAddr) -> Result<(), Error> {
        let what = format!(
            "bind port {} of {ip} for Lambda",
            self.server.address().port()
        );
        self.server.listen_also(ip).await.map_err(io(what))
    }

    /// The endpoint that clients use for Lambda.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Removes a function, by logical id, verb or ARN, and kills its sandboxes.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let function = self.function(name)?;
        self.state.order(&function.logical_id, Order::Kill);
        let mut functions = self.state.functions();
        functions.retain(|_, hosted| hosted.function.logical_id != function.logical_id);
        Ok(())
    }

    /// Adds a function, or replaces the one with the same logical id and kills its sandboxes.
    pub fn register(&self, function: Function) {
        self.state.order(&function.logical_id, Order::Kill);
        let names = [function.logical_id.clone(), function.verb.clone()];
        let hosted = Arc::new(Hosted {
            function,
            deaths_before_answer: AtomicU32::new(0),
            deaths_after_start: AtomicU32::new(0),
        });
        let each = names.map(|name| (name, Arc::clone(&hosted)));
        self.state.functions().extend(each);
    }

    /// A registered function, by logical id, verb or ARN, so that a variant of it can be registered under another name.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`].
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        Ok(self.state.hosted(name)?.function.clone())
    }

    /// All registered functions, by logical id.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        self.state.registered()
    }

    /// Invokes a function and waits for the end, as the Invoke API does.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`]. How the function ended is not an error of this call.
    pub async fn invoke(&self, name: &str, payload: &str) -> Result<Invocation, Error> {
        let hosted = self.state.hosted(name)?;
        Ok(Arc::clone(&self.state)
            .invoke(hosted, request_id(), payload.to_owned())
            .await)
    }

    /// As [`invoke`](Self::invoke), with an event and its response as JSON.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`]; [`Error::Call`] with the function's error.
    pub async fn call(&self, name: &str, event: &Value) -> Result<Value, Error> {
        let invocation = self.invoke(name, &event.to_string()).await?;
        let answer = invocation.outcome.json();
        answer.map_err(|error| Error::call(format_args!("{name} {event}"), error))
    }

    /// A handle that invokes one function, by logical id, and does not keep the host alive. The function is looked up
    /// at each invocation.
    pub(crate) fn invoker(&self, logical_id: &str) -> Invoker {
        Invoker::of(&self.state, logical_id)
    }

    /// Every invocation that ends from now on, in the order of the ends.
    #[must_use]
    pub fn invocations(&self) -> broadcast::Receiver<Invocation> {
        self.state.invocations.subscribe()
    }

    /// Everything the function has written to its standard output and error so far.
    ///
    /// # Errors
    /// [`Error::UnknownFunction`]; [`Error::Io`] when the file cannot be read.
    pub fn log(&self, name: &str) -> Result<String, Error> {
        let path = self.state.log_file(&self.state.hosted(name)?.function);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            // A function that has not run has written nothing.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(io(format!("read {}", path.display()))(error)),
        }
    }

    /// Kills every sandbox, waits until they have ended, and refuses to start others.
    pub async fn stop(&self) {
        self.state.stopped.store(true, Ordering::Release);
        let living: Vec<_> = self.state.sandboxes().values().cloned().collect();
        for sandbox in &living {
            sandbox.order(Order::Kill);
        }
        for sandbox in &living {
            sandbox.ended().await;
        }
    }
}

impl Drop for LambdaHost {
    fn drop(&mut self) {
        // Running invocations share `state`, so dropping it here does not end the processes.
        self.state.stopped.store(true, Ordering::Release);
        for sandbox in self.state.sandboxes().values() {
            sandbox.order(Order::Kill);
        }
        if let Some(observer) = &self.state.options.oversight.observer {
            observer.ended(&self.state.faults(observer.as_ref()));
        }
    }
}
