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
//! The planned machine is checked like any definition. If a lease may expire, an extend is added before the step. What may still be
//! running after a failure of a task is known from what it calls; of a Parallel or a Map the check says it, and the plan is made anew.
//! If nothing is left to change, the finding becomes the refusal. So the output has passed the checker, and weaving it again has
//! given the same text.
//!
//! `docs/guides/weave.md` describes the specification's fields, the refusals, and the limits.

mod authored;
mod calls;
mod content;
mod edit;
mod emit;
mod finder;
mod language;
mod plan;
mod refine;
mod refusal;
mod render;
mod retries;
mod section;
mod spec;

pub use refusal::Refusal;
pub use spec::{Functions, IfHeld, Lifetime, Section, Spec, Unfinished};

use crate::check::calls::{Call, Options, Verb, calls};
use crate::check::checker::check;
use crate::check::rule::Rule;
use crate::read::source::Source;
use authored::{AuthoredMachine, Machine, is_written};
use refine::Refiner;

/// Weaves sections into a state machine.
///
/// # Errors
///
/// The place, what prevents the weaving, and what to do about it.
pub fn weave(machine: &Source, spec: &Spec, options: &Options) -> Result<String, Refusal> {
    let mut options = options.clone();
    let functions = &spec.functions;
    for (name, verb) in [
        (&functions.acquire, Verb::Acquire),
        (&functions.extend, Verb::Extend),
        (&functions.release, Verb::Release),
    ] {
        options.names.insert(name.clone(), Some(verb));
    }
    let text = once(machine, spec, &options)?;
    // Weaving again must recognise the written states.
    let woven = Source::new(&machine.name, &text);
    match once(&woven, spec, &options) {
        Ok(again) if again == text => Ok(text),
        Ok(_) => Err(Refusal::internal(
            &machine.name,
            "weaving the output again would change it",
        )),
        Err(refusal) => Err(Refusal::internal(
            &machine.name,
            format!("the output is refused: {}", refusal.fault.message),
        )),
    }
}

/// Whether this text contains written states.
#[must_use]
pub fn is_woven(source: &Source) -> bool {
    source
        .read()
        .is_ok_and(|root| Machine::read(&root).states.iter().any(is_written))
}

fn once(source: &Source, spec: &Spec, options: &Options) -> Result<String, Refusal> {
    let root = source.read()?;
    let known = check(&root, options).findings;
    if let Some(finding) = known.iter().find(|finding| finding.rule == Rule::Malformed) {
        let state = if finding.state.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.state)
        };
        let message = format!("{state}{}", finding.message);
        return Err(source.unreadable(finding.at.start, message).into());
    }
    let machine = AuthoredMachine::read(source, &root);
    let mut sections = finder::find(&machine, spec)?;
    let calls = calls(&machine, options);
    for section in &mut sections {
        section.open(&machine, &calls);
    }
    let mut all = machine.states.iter().zip(&calls);
    let refiner = Refiner {
        has_leases: all.any(|(state, call)| matches!(call, Call::Acquire(_)) && !is_written(state)),
        machine: &machine,
        spec,
        options,
        known: &known,
    };
    refiner.refine(sections)
}
