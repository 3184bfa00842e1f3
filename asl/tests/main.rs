//! Reading, checking, drawing and weaving, each on whole definitions.
#![allow(clippy::unwrap_used, missing_docs)]

mod check;
mod weave;
