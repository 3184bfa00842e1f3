//! Finds in a state machine, before it runs, what a lease cannot bear: work that can outlast it, ways that forget to give it back,
//! work after its end, and asking for it in a way that does not mean what it seems to.
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
//! [`Source::read`] makes one tree of JSON and YAML in which everything knows its place; [`definitions`] finds state machines in
//! templates and documents, and what their functions are. [`check`] makes of a definition scopes of typed states, classifies what
//! each task calls, and walks: a position is a state with what is known of each lease (held, lost, given back, refused; how old at worst;
//! where its handle is), an edge is a success, a clause of a Catch, an error that nobody catches, a rule of a Choice.
//!
//! The walk joins: where executions meet that differ in time alone, the longest time goes on, and states are taken in an order
//! in which everything that leads to a state comes first, loops aside. So a definition is gone through about once for each
//! combination of what its leases are, not once for each path, of which there may be exponentially many. A loop that comes
//! back later than before, and without an extend on the way, has no bound; whether it comes back is seen on the trail that
//! each position keeps, which is also the evidence of a finding.
//!
//! What is not about paths is looked at without walking: requests, the names in Retry, the loops that count towards the history.
//!
//! [`weave`] writes leases into a definition, and [`draw`] makes a picture of one.
//!
//! `docs/reference/check-rules.md` has the rules, what they assume, and what they leave out. `tests/check/property` holds silence against all
//! executions of small definitions.

mod check;
mod draw;
mod escape;
mod read;
pub mod weave;

pub use check::calls::{Options, Verb};
pub use check::checker::{Checked, check};
pub use check::finding::{Finding, Step};
pub use check::report::{self, Report};
pub use check::rule::{Example, Rule, examples, explain, manual};
pub use check::template::{Definition, definitions};
pub use draw::{draw, pictures};
pub use escape::{plain, plain_lines};
pub use read::error_names::KNOWN as KNOWN_ERRORS;
pub use read::node::{Member, Node, Span, Value};
pub use read::source::{LARGEST, Place, Source, Unreadable};
pub use read::within::within;
