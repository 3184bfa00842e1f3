//! Writes leases into a state machine that has none: a few lines say which of its states are to be alone with what, and the
//! definition comes back with acquire, extend, release and the catches between them.
//!
//! ```
//! use leasehold_asl::weave::{Spec, weave};
//! use leasehold_asl::{Options, Source};
//!
//! let machine = Source::new("count.asl.json", r#"{ "StartAt": "Count", "States": {
//!     "Count": { "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "TimeoutSeconds": 30, "End": true,
//!         "Parameters": { "FunctionName": "count", "Payload.$": "$" } } } }"#);
//! let spec = Source::new("count.weave.yaml", "
//! machine: count.asl.json
//! sections:
//!   - { states: [Count], key: $.shelf, ttl_seconds: 200 }
//! ");
//! let woven = weave(&machine, &Spec::read(&spec)?, &Options::default())?;
//! assert!(woven.contains(r#""StartAt": "CountAcquire""#));
//! # Ok::<(), leasehold_asl::weave::Refusal>(())
//! ```
//!
//! # How it works
//!
//! The definition is read with the place of everything in it, and every edge is led past the states that were woven before: that
//! is the plain machine, whether the text is plain or woven. Sections are found in it, and a plan is made: where each edge
//! leads, what each Catch lists, which states are written. What differs between the plan and the text is changed in the text, and
//! nothing else, so that order, indentation and comments stay, and weaving twice changes nothing.
//!
//! What is planned is checked as any definition is. Where a lease may run out, an extend goes in before the step; where a lease
//! is forgotten after a failure, or given back too soon, the next guess is tried of what that failure leaves behind.
//! If nothing is left to try, the finding is the refusal. So what is written has passed the checker, and it has been woven once
//! more and come out the same.
//!
//! `docs/how-to/weave.md` has the specification's fields, what is refused, and what is not done.

mod calls;
mod content;
mod edit;
mod emit;
mod finder;
mod plain;
mod plan;
mod refusal;
mod render;
mod section;
mod settle;
mod spec;
mod weaver;

pub use refusal::Refusal;
pub use spec::{Functions, Mode, Section, Spec, Unfinished};
pub use weaver::{is_woven, weave};
