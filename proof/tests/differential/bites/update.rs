//! An update expression as a list of what it sets and a list of what it removes.

use std::fmt;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// `#name = …`
    set: Vec<String>,
    /// `#name`
    remove: Vec<String>,
}

impl Update {
    pub fn parse(text: &str) -> Self {
        let (set, remove) = match text.split_once("REMOVE ") {
            Some((set, remove)) => (set, remove),
            None => (text, ""),
        };
        let set = set.trim().strip_prefix("SET ").unwrap_or_default();
        Self {
            set: parts(set),
            remove: parts(remove),
        }
    }

    pub fn parts(&self) -> usize {
        self.set.len() + self.remove.len()
    }

    /// The part that is left out, and the rest.
    pub fn without(&self, place: usize) -> (String, Self) {
        let mut rest = self.clone();
        let removed = place.checked_sub(self.set.len());
        let part = match removed {
            None => format!("SET {}", rest.set.remove(place)),
            Some(place) => format!("REMOVE {}", rest.remove.remove(place)),
        };
        (part, rest)
    }

    /// The attribute that such a part is about.
    pub fn attribute(part: &str) -> &str {
        let name = part.split_once('#').map_or("", |(_, rest)| rest);
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &name[..end.unwrap_or(name.len())]
    }
}

/// What stands between the commas that are in no brackets.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match (c, depth, parts.last_mut()) {
            (',', 0, _) => parts.push(String::new()),
            (c, _, Some(part)) => part.push(c),
            _ => {}
        }
    }
    let trimmed = parts.iter().map(|part| part.trim().to_owned());
    trimmed.filter(|part| !part.is_empty()).collect()
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.set.is_empty(), self.remove.is_empty()) {
            // There is no empty update; this one changes no item of ours.
            (true, true) => f.write_str("REMOVE #nothing"),
            (false, true) => write!(f, "SET {}", self.set.join(", ")),
            (true, false) => write!(f, "REMOVE {}", self.remove.join(", ")),
            (false, false) => {
                let (set, remove) = (self.set.join(", "), self.remove.join(", "));
                write!(f, "SET {set} REMOVE {remove}")
            }
        }
    }
}
