//! What `weave` writes, and what it refuses.

mod corpus;
mod manual;
mod property;
mod refusals;
mod text;
