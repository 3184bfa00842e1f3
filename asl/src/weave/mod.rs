//! Writes leases into a state machine that has none. A short specification names the states to guard and the key of each section,
//! and the weaver adds acquire, extend, release and their catches to the definition.
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
//! The definition is read with the place of every node, and every edge is led past the states that were woven before. The result
//! is the authored machine, whether the text is plain or woven. The weaver finds the sections in it and makes a plan: where each edge
//! leads, what each Catch lists, and which states are written. It changes only those parts of the text that differ from the plan.
//! So order, indentation and comments stay, and weaving twice changes nothing.
//!
//! The planned machine is checked like any definition. If a lease may expire, an extend is added before the step. If a lease is not
//! released after a failure, or released too early, the next assumption about the effects of that failure is tried.
//! If no assumption is left, the finding becomes the refusal. So the output has passed the checker, and weaving it again has
//! given the same text.
//!
//! `docs/how-to/weave.md` describes the specification's fields, the refusals, and the limits.

mod authored;
mod calls;
mod content;
mod edit;
mod emit;
mod finder;
mod plan;
mod refine;
mod refusal;
mod render;
mod section;
mod spec;
mod weaver;

pub use refusal::Refusal;
pub use spec::{Functions, Mode, Section, Spec, Unfinished};
pub use weaver::{is_woven, weave};
