//! The parts of the stack on this machine, each by itself and together: the Lambda host, the proxy, roles, TLS, the table.
#![allow(clippy::unwrap_used, missing_docs)]

mod https;
mod lambda_host;
mod proxy;
mod roles;
mod stack;
