//! The command line as people and programs meet it, command by command.
#![allow(clippy::unwrap_used, missing_docs)]

mod acquire;
mod check;
mod hostile;
#[cfg(feature = "local")]
mod local;
mod look;
mod operate;
mod readme;
mod rights;
#[path = "../stand/mod.rs"]
mod stand;
mod surroundings;
mod terminal;
mod weave;
