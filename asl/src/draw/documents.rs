//! The pictures in a document: each stands below a line that names the definition it is drawn from.

use crate::check::options::Options;
use crate::check::template::definitions;
use crate::draw::draw;
use crate::read::source::{Source, Unreadable};
use std::path::Path;

const BEFORE: &str = "<!-- drawn from ";
const AFTER: &str = " -->";
const OPEN: &str = "```mermaid";
const CLOSE: &str = "```";

/// The document with every picture drawn anew: what stands in the block of Mermaid below a line `<!-- drawn from FILE -->`.
/// Files are read by `open`, beside the document.
///
/// # Errors
///
/// If a definition cannot be read, no block is below such a line, or there is no such line.
pub fn pictures(
    document: &Source,
    options: &Options,
    open: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<String, Unreadable> {
    let mut drawn = String::with_capacity(document.text.len());
    let (mut at, mut found) = (0, false);
    let mut lines = document.text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        drawn.push_str(line);
        let named = line.trim_end().strip_prefix(BEFORE);
        let Some(file) = named.and_then(|rest| rest.strip_suffix(AFTER)) else {
            at += line.len();
            continue;
        };
        found = true;
        let place = at;
        let missing =
            |what: &str| document.unreadable(place, format!("expected {what} below this"));
        let path = Path::new(&document.name)
            .parent()
            .unwrap_or(Path::new(""))
            .join(file);
        let text = open(&path)
            .map_err(|error| document.unreadable(place, format!("{}: {error}", path.display())))?;
        let source = Source::new(path.display().to_string(), text);
        let definitions = definitions(&source, options, open)?;
        let [definition] = definitions.as_slice() else {
            return Err(document.unreadable(place, "expected a file with one state machine in it"));
        };
        let first = lines.next().unwrap_or_default();
        if first.trim_end() != OPEN {
            return Err(missing("a block of mermaid"));
        }
        at += line.len() + first.len();
        loop {
            let old = lines
                .next()
                .ok_or_else(|| missing("the end of its block"))?;
            at += old.len();
            if old.trim_end() == CLOSE {
                let picture = draw(&definition.node, &definition.options);
                drawn.push_str(&[first, &picture, old].concat());
                break;
            }
        }
    }
    if !found {
        return Err(document.unreadable(0, format!("expected a line {BEFORE}FILE{AFTER}")));
    }
    Ok(drawn)
}
