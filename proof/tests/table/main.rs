//! The table against a real DynamoDB API: the conformance suite, what each call costs; and its condition
//! expressions against the pure transition, whole and with a part of them left out.
#![allow(clippy::unwrap_used, missing_docs)]

mod changes;
mod golden;
mod item_writes;
mod items;
mod mutations;
mod restore;
mod sequences;
mod steps;
mod store;
mod transition;
