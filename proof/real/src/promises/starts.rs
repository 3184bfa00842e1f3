//! Starts: what was asked for begins once, with its input; what was answered is what happens, and stays so.
//!
//! What was skipped or has failed never begins. Only what was refused is nowhere written, so that another copy of it may be accepted.

use super::{Answer, At, Broken, Event, What, by_who};

pub(super) fn broken(events: &[&Event]) -> Vec<Broken> {
    let mut found = Vec::new();
    for (start, events) in by_who(events) {
        let place = events[0].place.as_str();
        let begun: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.what {
                What::Began(input) => Some((event.at, input)),
                _ => None,
            })
            .collect();
        let is_asked = |input: &String| {
            let asked = |event: &&Event| matches!(&event.what, What::Asked(it) if it == input);
            events.iter().any(asked)
        };
        if begun.len() > 1 {
            let what = format!("{start} began {} times", begun.len());
            found.push(Broken::new("S7", place, what));
        }
        if begun.iter().any(|(_, input)| !is_asked(input)) {
            let what = format!("{start} began, and nobody asked for that");
            found.push(Broken::new("S7", place, what));
        }
        let heard = heard(&events);
        let unlike = unlike(&heard, begun.first().map(|(at, _)| *at));
        let wrong = unlike.or_else(|| changed(&heard));
        found.extend(wrong.map(|what| Broken::new("contract", place, format!("{start} {what}"))));
    }
    found
}

/// The answers: when each call was sent, and when it was answered.
fn heard(events: &[&Event]) -> Vec<(At, At, Answer)> {
    let heard = events.iter().filter_map(|event| match event.what {
        What::Heard { asked, answer } => Some((asked, event.at, answer)),
        _ => None,
    });
    heard.collect()
}

/// What was heard, and what has happened instead.
fn unlike(heard: &[(At, At, Answer)], begun: Option<At>) -> Option<String> {
    let (_, _, last) = *heard.last()?;
    let settled = heard
        .iter()
        .find(|(_, _, it)| matches!(it, Answer::Skipped | Answer::Failed));
    let started = heard.iter().find(|(_, _, it)| *it == Answer::Started);
    let all_refused = heard.iter().all(|(_, _, it)| *it == Answer::Refused);
    match (begun, settled, started) {
        (Some(_), Some((_, _, answer)), _) => Some(format!("has run, and was {answer:?}")),
        (Some(_), None, _) if all_refused => Some(format!("has run, and was {last:?}")),
        (None, _, Some(_)) => Some("was answered as begun, and has not run".to_owned()),
        (Some(from), _, Some((_, at, _))) if *at < from => {
            Some("was answered as begun before it was".to_owned())
        }
        _ => None,
    }
}

/// Two answers, one after the other, that do not go together. Whoever was queued may be told later that it has begun or failed.
fn changed(heard: &[(At, At, Answer)]) -> Option<String> {
    let goes_on = |one, next| match one {
        Answer::Refused => true,
        Answer::Started => matches!(next, Answer::Started | Answer::Queued),
        Answer::Queued => next != Answer::Refused,
        settled => settled == next,
    };
    for (_, at, one) in heard {
        let mut later = heard.iter().filter(|(asked, ..)| at < asked);
        if let Some((_, _, next)) = later.find(|(_, _, next)| !goes_on(*one, *next)) {
            return Some(format!("was {one:?}, and then {next:?}"));
        }
    }
    None
}
