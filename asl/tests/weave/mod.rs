//! The output and the refusals of `weave`.

mod clauses;
mod corpus;
mod property;
mod refusals;
mod text;
