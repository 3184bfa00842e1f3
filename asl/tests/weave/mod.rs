//! What `weave` writes, and what it refuses.

mod corpus;
mod property;
mod refusals;
mod text;
