//! The command line as its users run it, command by command.
#![allow(clippy::unwrap_used, missing_docs)]

mod acquire;
mod check;
mod environment;
mod executions;
#[path = "../fixture/mod.rs"]
mod fixture;
mod history;
mod hostile;
mod listing;
mod manual;
mod operate;
mod readme;
mod rights;
mod snippets;
mod starts;
mod terminal;
mod weave;
