//! The parts of the stack on this machine, each by itself and together: the Lambda host, the proxy, roles, TLS, the table, the engine.
#![allow(clippy::unwrap_used, missing_docs)]

mod engine;
mod https;
mod lambda_host;
mod proxy;
mod roles;
mod stack;
