//! Cases as files: what a fuzzer starts from, changes and leaves behind, and what is judged again with every test run.

use std::{fs, io, path::Path};

use serde_json::{Value, json};

use crate::{Function, events, keys, rows, samples, wire, world};

/// What a fuzzer may try, each in a directory of its own below `proof/fuzz/corpus`.
pub const TARGETS: [(&str, Judge); 3] = [("event", event), ("key", key), ("row", row)];

/// How a case ended, or what must not be.
pub type Judge = fn(&[u8]) -> Result<String, String>;

/// The name of a function in the first line, and its event after it.
///
/// # Errors
/// As [`events::judge`].
pub fn event(bytes: &[u8]) -> Result<String, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (first, event) = bytes.split_at(end.unwrap_or(bytes.len()));
    let known = Function::ALL.iter();
    let mut named = known.filter(|function| function.name().as_bytes() == first);
    match named.next() {
        Some(function) => events::judge(*function, event.get(1..).unwrap_or_default()),
        None => Ok("nobody's".to_owned()),
    }
}

/// The items of a key by their sort keys, and what decides the rest, as JSON.
///
/// # Errors
/// As [`rows::judge`].
pub fn row(bytes: &[u8]) -> Result<String, String> {
    let Ok(case) = serde_json::from_slice::<Value>(bytes) else {
        return Ok("no JSON".to_owned());
    };
    let items = case["items"].as_object().into_iter().flatten();
    let pk = case["handle"]["key"].as_str().unwrap_or_default();
    let items: Option<Vec<_>> = items
        .map(|(sk, item)| Some((pk.to_owned(), sk.clone(), wire::to_item(item)?)))
        .collect();
    let handle = case["handle"].clone();
    match (items, case["chance"].as_u64()) {
        (Some(items), Some(chance)) if rows::is_handle(&handle) => rows::judge(&rows::Case {
            items,
            handle,
            chance,
        }),
        _ => Ok("no case".to_owned()),
    }
}

/// Twice a key, a holder and a request id, one a line; a line that is broken stays whole by a vertical tab.
///
/// # Errors
/// As [`keys::judge`].
pub fn key(bytes: &[u8]) -> Result<String, String> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Ok("no text".to_owned());
    };
    let mut lines = text.split('\n').map(|line| line.replace('\u{b}', "\n"));
    let mut next = || lines.next().unwrap_or_default();
    keys::judge(&[(); 2].map(|()| keys::Asked {
        key: next(),
        holder: next(),
        request_id: next(),
    }))
}

/// Writes what to start from into `corpus`: the sample events, the keys of a furnished table, and some names.
///
/// # Errors
/// If a file cannot be written.
pub fn write(corpus: &Path) -> io::Result<()> {
    for (target, _) in TARGETS {
        fs::create_dir_all(corpus.join(target))?;
    }
    for (at, sample) in samples::all().iter().enumerate() {
        let (name, event) = (sample.function.name(), sample.event.write());
        let file = corpus.join("event").join(format!("{name}-{at:02}"));
        fs::write(file, format!("{name}\n{event}"))?;
    }
    for (pk, sk, row) in world::furnished() {
        if sk != "LEASE#0000" || world::STRANGERS.contains(&pk.as_str()) {
            continue;
        }
        let items = world::furnished().iter().filter(|(of, ..)| of == pk);
        let items = items.map(|(_, sk, item)| (sk.clone(), wire::to_json(item)));
        let items: serde_json::Map<_, _> = items.collect();
        let case = json!({"items": items, "handle": rows::handle_of(pk, row), "chance": 1});
        let file = corpus.join("row").join(pk.replace('/', "-"));
        fs::write(file, case.to_string())?;
    }
    for number in 0..12 {
        let asked = keys::case(1, number);
        let lines = asked.map(|one| [one.key, one.holder, one.request_id]);
        let lines = lines.concat();
        let lines: Vec<_> = lines
            .iter()
            .map(|line| line.replace('\n', "\u{b}"))
            .collect();
        fs::write(
            corpus.join("key").join(format!("{number:02}")),
            lines.join("\n"),
        )?;
    }
    Ok(())
}
