//! The output and the refusals of `weave`.

mod corpus;
mod property;
mod refusals;
mod text;
