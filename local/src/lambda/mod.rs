//! A Lambda host: real function binaries as child processes, behind the Invoke API that SDKs call and the
//! Runtime API that `lambda_runtime` polls.
//!
//! As in the service: one event at a time per sandbox, reuse of idle sandboxes, the concurrency limit, a
//! kill at the function's timeout, a clean environment, `X-Amz-Function-Error` and the error names of the
//! sandbox, and the permissions of callers with a role. Left out: layers, extensions, versions and aliases
//! (qualifiers are accepted and ignored), and the service's own two retries of an asynchronous invocation.

mod code;
mod deaths;
pub(crate) mod durable;
mod function;
mod host;
mod invoke_api;
mod outcome;
mod printed;
mod remote;
mod runtime_api;
mod sandbox;
mod state;
mod trial;

pub use code::Code;
pub use function::Function;
pub use host::LambdaHost;
pub use outcome::{Invocation, Outcome};
pub(crate) use state::{HostOptions, Invoker, request_id};
