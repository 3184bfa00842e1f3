//! Hostile events: what a function answers, writes and logs when it gets one.

use std::{sync::Arc, time::Duration};

use arbitrary::{Result as Chosen, Unstructured};
use leasehold::{Error, Leases, ManualClock, Memory, Settings};
use leasehold_lambda::Diagnostic;
use serde_json::Value;

use crate::{
    Function, NO_CASE, Verdict,
    fixture::{self, NOW},
    log,
    mutate::{self, Mutated},
    secrets,
    step_functions::UnreliableStepFunctions,
};

/// The name of a function in the first line, and its event after it; or choices.
pub fn judge(bytes: &[u8]) -> Verdict {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (first, event) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut functions = Function::ALL.iter();
    let (function, event) = match functions.find(|known| known.name().as_bytes() == first) {
        Some(function) => (*function, event.get(1..).unwrap_or_default().to_vec()),
        None => match case(&mut Unstructured::new(bytes)) {
            Ok(case) => case,
            Err(_) => return Ok(NO_CASE.to_owned()),
        },
    };
    judge_event(function, &event)
        .map(|outcome| format!("{function} {outcome}"))
        .map_err(|fault| format!("{function}: {fault}: {}", String::from_utf8_lossy(&event)))
}

/// A sample event with up to three changes; now and then valid, so that cases get further than the first check.
fn case(choices: &mut Unstructured<'_>) -> Chosen<(Function, Vec<u8>)> {
    if choices.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let sample = choices.choose(fixture::samples())?;
    let function = if choices.ratio(1, 20)? {
        *choices.choose(Function::ALL)?
    } else {
        sample.function
    };
    let mut event = Mutated::new(sample.event.clone());
    for _ in 0..choices.int_in_range(0..=3)? {
        event.mutate(choices)?;
    }
    let mut event = event.write().into_bytes();
    if choices.ratio(1, 8)? {
        for _ in 0..=choices.int_in_range(0..=2)? {
            mutate::corrupt(&mut event, choices)?;
        }
    }
    Ok((function, event))
}

fn judge_event(function: Function, event: &[u8]) -> Verdict {
    let table = fixture::table();
    // Any number will do that the event alone decides.
    let workflows = UnreliableStepFunctions::from_turn(event.len() as u64);
    let queue = Leases::new(table.clone(), Settings::default())
        .with_clock(Arc::new(ManualClock::at(NOW)))
        .with_engine(workflows.clone())
        .for_call(NOW.plus(Duration::from_secs(10)));
    let (answer, log) = log::of(|| fixture::now(function.answer(queue, event)));
    let wrote = table.all() != fixture::rows();
    let outcome = judge_answer(function, event, &answer, wrote)?;
    shows_nothing(event, &log, "the log")?;
    for cause in workflows.take_causes() {
        shows_nothing(event, &cause, "a failed task")?;
    }
    if log.is_empty() {
        return Err("nothing was logged".to_owned());
    }
    strangers_are_untouched(&table)?;
    Ok(outcome)
}

/// Beside them there may be rows of ours, such as another permit's.
fn strangers_are_untouched(table: &Memory) -> Result<(), String> {
    let all = table.all();
    let mut strangers = fixture::rows()
        .iter()
        .filter(|(pk, ..)| fixture::STRANGERS.contains(&pk.as_str()));
    match strangers.find(|stranger| !all.contains(stranger)) {
        Some((pk, sk, _)) => Err(format!("the stranger's item at {pk} {sk} was changed")),
        None => Ok(()),
    }
}

fn judge_answer(
    function: Function,
    event: &[u8],
    answer: &Result<Value, Diagnostic>,
    wrote: bool,
) -> Verdict {
    match answer {
        Ok(answer) => {
            let public = without_own_secrets(function, answer).to_string();
            shows_nothing(event, &public, "the answer")?;
            Ok(answer["outcome"].as_str().unwrap_or("a list").to_owned())
        }
        Err(error) => judge_error(event, error, wrote).map(|()| error.error_type.clone()),
    }
}

/// The answer without what it is there to bring: the proof of the caller's own lease.
fn without_own_secrets(function: Function, answer: &Value) -> Value {
    let mut public = answer.clone();
    if matches!(function, Function::Acquire | Function::Extend) {
        for lease in public["leases"].as_array_mut().into_iter().flatten() {
            lease["lease_id"].take();
        }
        if let Some(lease) = public.get_mut("lease") {
            lease["lease_id"].take();
        }
    }
    public
}

fn judge_error(event: &[u8], error: &Diagnostic, wrote: bool) -> Result<(), String> {
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
    shows_nothing(event, &error.error_message, "the error")?;
    if name == "Lease.Invalid" {
        if wrote {
            return Err(format!("a write by a request that was refused: {text}"));
        }
        if text.contains(secrets::GIVEN) && !secrets::is_a_name(event, secrets::GIVEN) {
            return Err(format!("it repeats what was given: {text}"));
        }
        let is_object = matches!(serde_json::from_slice(event), Ok(Value::Object(_)));
        if is_object && message["field"].as_str().is_none_or(str::is_empty) {
            return Err(format!("it does not say which field: {text}"));
        }
    }
    Ok(())
}

fn shows_nothing(event: &[u8], text: &str, what: &str) -> Result<(), String> {
    match secrets::found_in(text) {
        Some(form) if !secrets::is_published(&String::from_utf8_lossy(event)) => {
            Err(format!("{what} shows a secret {form}: {text}"))
        }
        _ => Ok(()),
    }
}
