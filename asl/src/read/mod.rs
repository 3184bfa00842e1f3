//! Reading: one tree for JSON and YAML in which everything knows its place, and the scopes and states in it.

pub(crate) mod expression;
pub(crate) mod json;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod source;
pub(crate) mod timing;
pub(crate) mod within;
mod yaml;
