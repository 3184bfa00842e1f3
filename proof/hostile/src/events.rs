//! Hostile events: what a function answers, writes and logs when it gets one.

use std::{cell::RefCell, sync::Arc, time::Duration};

use leasehold::{Error, Leases, ManualClock, Settings, lambda::Diagnostic};
use serde_json::Value;

use crate::{
    Function,
    desk::Desk,
    dice::Dice,
    journal, marks, samples,
    tree::Tree,
    twist,
    witness::Witness,
    world::{self, NOW},
};

/// An event, and for which function.
#[derive(Clone, Debug)]
pub struct Case {
    /// The function that gets it.
    pub function: Function,
    /// What Lambda delivers.
    pub event: Vec<u8>,
}

/// The case of this number.
#[must_use]
pub fn case(seed: u64, number: u64) -> Case {
    let mut dice = Dice::of(seed, number);
    let samples = samples::all();
    let sample = dice.pick(samples);
    let function = if dice.one_in(20) {
        *dice.pick(Function::ALL)
    } else {
        sample.function
    };
    let mut tree = sample.event.clone();
    // Now and then it is valid after all, so that cases meet what cases before them could not.
    for _ in 0..dice.place(4) {
        let mut others = |dice: &mut Dice| dice.pick(samples).event.clone();
        twist::strike(&mut tree, &mut dice, &mut others);
    }
    let mut event = tree.write().into_bytes();
    if dice.one_in(8) {
        for _ in 0..=dice.place(3) {
            twist::damage(&mut event, &mut dice);
        }
    }
    Case { function, event }
}

/// Lets a function have an event, and tells how it was answered: `acquired`, `Lease.Invalid` …
///
/// # Errors
/// What must not be: a panic, a write by a refused request or to a stranger's item, a secret that shows, a refusal that
/// does not say which field is wrong.
pub fn judge(function: Function, event: &[u8]) -> Result<String, String> {
    thread_local! {
        static STAGE: RefCell<Stage> = RefCell::new(Stage::new());
    }
    STAGE.with_borrow_mut(|stage| stage.play(function, event))
}

/// A table and a clock, set back to the start after each event that changed them.
struct Stage {
    witness: Witness,
    clock: Arc<ManualClock>,
}

impl Stage {
    fn new() -> Self {
        Self {
            witness: furnished(),
            clock: Arc::new(ManualClock::at(NOW)),
        }
    }

    fn play(&mut self, function: Function, event: &[u8]) -> Result<String, String> {
        self.clock.set(NOW);
        // Any number will do that the event alone decides.
        let desk = Desk::at(event.len() as u64);
        let leases = Leases::new(self.witness.clone(), Settings::default())
            .with_clock(self.clock.clone())
            .for_call(NOW.plus(Duration::from_secs(10)));
        let leases = match function {
            Function::Extend | Function::Inspect | Function::Operate => leases,
            _ => leases.with_workflows(desk.clone()),
        };
        let before = self.witness.writes();
        let (answer, log) = journal::of(|| world::now(function.answer(leases, event)));
        let writes = self.witness.writes() - before;
        let judged = judged(function, event, &answer, writes)
            .and_then(|outcome| show_nothing(event, &log, "the log").map(|()| outcome))
            .and_then(|outcome| {
                let mut causes = desk.causes().into_iter();
                causes
                    .try_for_each(|cause| show_nothing(event, &cause, "what a token was told"))?;
                Ok(outcome)
            });
        if log.is_empty() {
            return Err("nothing was logged".to_owned());
        }
        if writes > 0 {
            let after = std::mem::replace(&mut self.witness, furnished());
            strangers_stand(&after)?;
        }
        judged
    }
}

fn furnished() -> Witness {
    let witness = Witness::default();
    for (pk, sk, item) in world::furnished() {
        witness.table.put_at(pk, sk, item);
    }
    witness
}

/// Nothing was done to them; beside them there may be rows of ours, such as another permit's.
fn strangers_stand(witness: &Witness) -> Result<(), String> {
    let all = witness.table.all();
    let strangers = world::furnished().iter();
    let mut strangers = strangers.filter(|(pk, ..)| world::STRANGERS.contains(&pk.as_str()));
    match strangers.find(|stranger| !all.contains(stranger)) {
        Some((pk, sk, _)) => Err(format!("the stranger at {pk} {sk} was changed")),
        None => Ok(()),
    }
}

fn judged(
    function: Function,
    event: &[u8],
    answer: &Result<Value, Diagnostic>,
    writes: u64,
) -> Result<String, String> {
    match answer {
        Ok(answer) => {
            show_nothing(event, &shown(function, answer).to_string(), "the answer")?;
            let outcome = answer["outcome"].as_str();
            Ok(outcome.unwrap_or("a list").to_owned())
        }
        Err(error) => refused(event, error, writes).map(|()| error.error_type.clone()),
    }
}

/// The answer without what it is there to bring: the proof of the caller's own lease.
fn shown(function: Function, answer: &Value) -> Value {
    let mut shown = answer.clone();
    if matches!(function, Function::Acquire | Function::Extend) {
        let several = shown["leases"].as_array_mut();
        for lease in several.into_iter().flatten() {
            lease["lease_id"].take();
        }
        if let Some(lease) = shown.get_mut("lease") {
            lease["lease_id"].take();
        }
    }
    shown
}

fn refused(event: &[u8], error: &Diagnostic, writes: u64) -> Result<(), String> {
    let name = error.error_type.as_str();
    if !Error::NAMES.contains(&name) {
        return Err(format!("{name} is not one of our names"));
    }
    let message: Value = serde_json::from_str(&error.error_message)
        .map_err(|problem| format!("the message is not JSON: {problem}"))?;
    let text = message["message"].as_str().unwrap_or_default();
    if text.is_empty() {
        return Err("the message says nothing".to_owned());
    }
    if name == "Lease.Unavailable" && text.starts_with("the function panicked") {
        return Err(format!("{name}: {text}"));
    }
    show_nothing(event, &error.error_message, "the error")?;
    if name == "Lease.Invalid" {
        if writes > 0 {
            return Err(format!(
                "{writes} writes by a request that was refused: {text}"
            ));
        }
        let tree = serde_json::from_slice::<Tree>(event);
        let named = tree.is_ok_and(|tree| twist::is_a_name(&tree, marks::GIVEN));
        if text.contains(marks::GIVEN) && !named {
            return Err(format!("it repeats what was given: {text}"));
        }
        let is_object = matches!(serde_json::from_slice(event), Ok(Value::Object(_)));
        if is_object && message["field"].as_str().is_none_or(str::is_empty) {
            return Err(format!("it does not say which field: {text}"));
        }
    }
    Ok(())
}

fn show_nothing(event: &[u8], text: &str, what: &str) -> Result<(), String> {
    let Some(form) = marks::found_in(text) else {
        return Ok(());
    };
    let tree = serde_json::from_slice::<Tree>(event);
    if tree.is_ok_and(|tree| twist::is_published(&tree, "")) {
        return Ok(());
    }
    Err(format!("{what} shows a secret {form}: {text}"))
}
