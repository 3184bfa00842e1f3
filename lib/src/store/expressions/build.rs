//! From the texts of an update to its request: exactly the names and values that the texts use, because `DynamoDB`
//! refuses any others.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use aws_sdk_dynamodb::types::AttributeValue;

use super::{Act, Expressions};
use crate::{
    clock::Timestamp,
    outcomes::Ended,
    row::{NULL, instant, n, s},
    values::{Counter, KeepTime, Ttl},
};

/// The values that are the same in every request.
fn constants() -> [(&'static str, AttributeValue); 16] {
    [
        ("zero", n(0)),
        ("one", n(1)),
        ("most", n(Counter::MAX)),
        ("longest", n(Ttl::MAX_MILLIS)),
        ("longest_keep", n(KeepTime::MAX_MILLIS)),
        ("forever", instant(Timestamp::MAX)),
        ("number", s("N")),
        ("text", s("S")),
        ("binary", s("B")),
        ("map", s("M")),
        ("list", s("L")),
        ("null", NULL),
        ("empty", AttributeValue::L(Vec::new())),
        ("released", s(Ended::Released.as_str())),
        ("expired", s(Ended::Expired.as_str())),
        ("forced", s(Ended::Forced.as_str())),
    ]
}

/// Adds the names and constants that the two texts use, and those of `values` that they use.
pub(super) fn build(
    condition: String,
    update: String,
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> Expressions {
    let mentioned = known(&condition, &update);
    filled(condition, update, &mentioned, values)
}

/// The same for texts that depend on the row: there are too many of them to cache.
pub(super) fn build_once(
    condition: String,
    update: String,
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> Expressions {
    let mentioned = Mentioned::of(&condition, &update);
    filled(condition, update, &mentioned, values)
}

fn filled(
    condition: String,
    update: String,
    mentioned: &Mentioned,
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> Expressions {
    let mut all = mentioned.constants.clone();
    for (name, value) in values {
        if let Some(placeholder) = mentioned.placeholder(name) {
            all.insert(placeholder.to_owned(), value);
        }
    }
    let act = if update.is_empty() {
        Act::Check
    } else {
        Act::Update(update)
    };
    Expressions {
        condition,
        act,
        names: mentioned.names.clone(),
        values: all,
    }
}

/// The names and values that two texts use.
#[derive(Debug)]
struct Mentioned {
    condition: String,
    update: String,
    names: HashMap<String, String>,
    constants: HashMap<String, AttributeValue>,
    /// The names of all values, with the colon.
    values: Vec<String>,
}

impl Mentioned {
    fn of(condition: &str, update: &str) -> Self {
        let words = |sigil| {
            let texts = [condition, update].into_iter();
            let words = texts.flat_map(move |text| text.split(|c: char| !part_of_a_word(c)));
            words.filter(move |word: &&str| word.starts_with(sigil))
        };
        let mut values: Vec<String> = words(':').map(str::to_owned).collect();
        values.sort_unstable();
        values.dedup();
        let mut mentioned = Self {
            condition: condition.to_owned(),
            update: update.to_owned(),
            names: words('#')
                .map(|name| (name.to_owned(), name[1..].to_owned()))
                .collect(),
            // Clones have room for all values.
            constants: HashMap::with_capacity(values.len()),
            values,
        };
        for (name, value) in constants() {
            if let Some(placeholder) = mentioned.placeholder(name).map(str::to_owned) {
                mentioned.constants.insert(placeholder, value);
            }
        }
        mentioned
    }

    fn placeholder(&self, name: &str) -> Option<&str> {
        let mut all = self.values.iter().map(String::as_str);
        all.find(|placeholder| placeholder.len() == name.len() + 1 && placeholder.ends_with(name))
    }
}

fn part_of_a_word(c: char) -> bool {
    matches!(c, '0'..='9' | 'A'..='Z' | 'a'..='z' | '_' | '#' | ':')
}

/// The cache. Without it, parsing the texts would make a request a quarter to two fifths more expensive. There are
/// about forty entries.
static KNOWN: RwLock<Vec<Arc<Mentioned>>> = RwLock::new(Vec::new());

fn known(condition: &str, update: &str) -> Arc<Mentioned> {
    // No code panics while it holds the lock.
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let same = |known: &&Arc<Mentioned>| known.condition == condition && known.update == update;
    if let Some(known) = known.iter().find(same) {
        return Arc::clone(known);
    }
    drop(known);
    let found = Arc::new(Mentioned::of(condition, update));
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.push(Arc::clone(&found));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentioned_names_are_sent_once() {
        for _ in 0..2 {
            let built = build(
                "#a = :mine AND size(#bc) > :one OR #a = :one".to_owned(),
                "SET #d_1 = :empty".to_owned(),
                [("mine", s("x")), ("min", s("not")), ("other", s("not"))],
            );
            let mut names: Vec<_> = built.names.into_iter().collect();
            names.sort_unstable();
            let pair = |name: &str| (format!("#{name}"), name.to_owned());
            assert_eq!(names, ["a", "bc", "d_1"].map(pair));
            let values = [
                (":mine".to_owned(), s("x")),
                (":one".to_owned(), n(1)),
                (":empty".to_owned(), AttributeValue::L(Vec::new())),
            ];
            assert_eq!(built.values, HashMap::from(values));
        }
    }

    #[test]
    fn row_dependent_texts_stay_uncached() {
        for number in 0..3 {
            let built = build_once(format!("#once{number} = :one"), String::new(), []);
            assert_eq!(
                built.names[&format!("#once{number}")],
                format!("once{number}")
            );
            assert_eq!(built.values.len(), 1);
        }
        let known = KNOWN.read().unwrap();
        assert!(!known.iter().any(|known| known.condition.contains("#once")));
    }
}
