//! The table against a real DynamoDB API: the suite of every store, which holds its condition expressions to the pure
//! transition, whole and with a part of them left out; and what each call costs.
#![allow(clippy::unwrap_used, missing_docs)]

mod golden;
mod mutations;
mod restore;
mod store;
