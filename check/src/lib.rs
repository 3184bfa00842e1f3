//! Finds in a state machine, before it runs, what a lease cannot bear.
#![forbid(unsafe_code)]

mod around;
mod calls;
mod check;
mod choices;
mod explain;
mod expression;
mod finding;
mod json;
mod lease;
mod loops;
mod machine;
mod node;
mod options;
mod outcomes;
mod places;
pub mod report;
mod requests;
mod retries;
mod rule;
mod source;
mod spending;
mod steps;
mod template;
mod timing;
mod verbs;
mod walk;
mod yaml;

pub use check::{Checked, check};
pub use explain::explain;
pub use finding::{Finding, Step};
pub use node::{Member, Node, Span, Value};
pub use options::{Options, Verb};
pub use report::Report;
pub use rule::Rule;
pub use source::{Place, Source, Unreadable};
pub use template::{Definition, definitions};
