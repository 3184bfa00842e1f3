//! From an authored machine and a specification to the woven one.

use crate::check::calls::{Options, Verb};
use crate::check::checker::check;
use crate::check::rule::Rule;
use crate::read::source::Source;
use crate::weave::authored::{AuthoredMachine, Machine, is_written};
use crate::weave::finder;
use crate::weave::refine::Refiner;
use crate::weave::refusal::Refusal;
use crate::weave::spec::Spec;

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
    let checked = check(&root, options);
    let known = checked.findings;
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
    let sections = finder::find(&machine, spec)?;
    let ours = machine.states.iter().filter(|state| {
        let asks = |text: &str| text.contains("State.EnteredTime");
        is_written(state) && state.node.any_text(asks)
    });
    let refiner = Refiner {
        has_leases: checked.acquires > ours.count(),
        machine: &machine,
        spec,
        options,
        known: &known,
    };
    refiner.refine(sections)
}
