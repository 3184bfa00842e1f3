//! A fact as one line of text.

use super::facts::{Fact, What};
use super::record::Record;

/// The line, or nothing if the fact is not worth one.
pub(super) fn line(record: &Record, fact: &Fact) -> Option<String> {
    let (key, event) = event(record, fact)?;
    let at = record.seconds(fact.at);
    let name = record.name(&fact.holder);
    Some(format!("{at:6.2} s  {key:<15} {name:<11} {event}"))
}

fn event(record: &Record, fact: &Fact) -> Option<(String, String)> {
    let own_key = || {
        let execution = record.execution(&fact.holder);
        execution.map_or_else(String::new, |execution| execution.key.to_owned())
    };
    let (key, event) = match &fact.what {
        What::Started => (own_key(), "starts".to_owned()),
        What::Stopped => (own_key(), "STOPPED in the middle of its section".to_owned()),
        What::Ended { status, error } => {
            let error = error.iter().map(|error| format!(" with {error}"));
            (
                own_key(),
                format!("ended {status}{}", error.collect::<String>()),
            )
        }
        What::Granted(grant) => {
            let before = grant.previous.as_ref().map(|previous| {
                let from = record.name(&previous.holder);
                format!(", after {from} ({})", previous.ended)
            });
            let how = match grant.kind.as_str() {
                "takeover" => "TAKES OVER",
                "replayed" => "is granted by REPLAY",
                _ => "is granted",
            };
            let event = format!(
                "{how}, token {}{}",
                grant.fencing_token,
                before.unwrap_or_default()
            );
            (grant.key.clone(), event)
        }
        What::Held { key, by } => (key.clone(), format!("waits for {}", record.name(by))),
        What::Killed { verb, .. } => (own_key(), format!("{verb} KILLED before its answer")),
        What::Extended { key, .. } => (key.clone(), "extends".to_owned()),
        What::Released { outcome } => (own_key(), format!("release: {outcome}")),
        What::Stepped {
            pass: Some(pass),
            refused: Some(error),
        } => (
            pass.key.clone(),
            format!("late write REFUSED by the resource: {error}"),
        ),
        What::Swept { freed } if *freed > 0 => (String::new(), format!("sweep frees {freed}")),
        What::Failed { verb, error } => (own_key(), format!("{verb} FAILED: {error}")),
        What::Stepped { .. } | What::Swept { .. } => return None,
    };
    Some((key, event))
}
