//! Finds faults in the use of leases in a state machine before it runs: work that can outlast a lease, paths without a release,
//! work after the lease has ended, and acquires whose requests are wrong.
//!
//! ```
//! use leasehold_asl::{Options, Rule, Source, check};
//!
//! let source = Source::new("order.asl.json", r#"{ "StartAt": "Acquire", "States": {
//!     "Acquire": { "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 15, "Next": "Work",
//!         "Parameters": { "FunctionName": "acquire", "Payload": { "key": "k", "holder.$": "$$.Execution.Id",
//!             "request_id.$": "$$.State.EnteredTime", "ttl_seconds": 60 } },
//!         "ResultPath": "$.held" },
//!     "Work": { "Type": "Task", "Resource": "arn:aws:states:::dynamodb:putItem", "TimeoutSeconds": 50, "ResultPath": null,
//!         "Parameters": {}, "Catch": [{ "ErrorEquals": ["States.ALL"], "ResultPath": null, "Next": "Release" }], "Next": "Release" },
//!     "Release": { "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 15, "End": true,
//!         "Parameters": { "FunctionName": "release", "Payload": { "lease.$": "$.held.Payload.lease" } } } } }"#);
//! let checked = check(&source.read()?, &Options::default());
//! let finding = &checked.findings[0];
//! assert_eq!((finding.rule, finding.state.as_str()), (Rule::Outlasts, "Work"));
//! assert_eq!(finding.trail(), "Acquire → Work");
//! # Ok::<(), leasehold_asl::Unreadable>(())
//! ```
//!
//! # How it works
//!
//! [`Source::read`] makes one tree of JSON and YAML with the place of every node. [`definitions`] finds state machines in
//! templates and documents, and classifies their functions. [`check`] makes scopes of typed states from a definition, classifies
//! the call of each task, and walks. A position is a state with the facts known of each lease: its status (held, lost, released,
//! refused), its greatest possible age, and the place of its handle. An edge is a success, a clause of a Catch, an uncaught error,
//! or a rule of a Choice.
//!
//! The walk joins executions. If two meet at a state and differ only in time, it continues with the longest time. Apart from
//! loops, a state is visited after all states that lead to it. So each combination of facts is walked about once, although there
//! may be exponentially many paths. A loop is unbounded if it returns with more time and without an extend. The trail of each
//! position shows such a return, and is also the evidence of a finding.
//!
//! Rules that are not about paths need no walk: requests, the names in Retry, and the loops that fill the history.
//!
//! [`weave`] writes leases into a definition.
//!
//! `docs/reference/check-rules.md` describes the rules, their assumptions and their limits. `tests/check/property` compares the
//! checker's silence with all executions of small definitions.

mod check;
mod escape;
mod expr;
mod read;
pub mod weave;

pub use check::calls::{Options, Verb};
pub use check::checker::{Checked, check};
pub use check::finding::{Finding, Step};
pub use check::report::{self, Report};
pub use check::rule::{Rule, explain};
pub use check::template::{Definition, definitions};
pub use escape::{plain, plain_lines};
pub use read::error_names::{
    KNOWN as KNOWN_ERRORS, LOST as ERRORS_OF_LOST_LEASES,
    OUTCOME_UNKNOWN as ERRORS_OF_UNKNOWN_OUTCOME, RETRYABLE as RETRYABLE_ERRORS,
};
pub use read::node::{Member, Node, Span, Value};
pub use read::source::{LARGEST, Place, Source, Unreadable};
pub use read::within::confine_path;
