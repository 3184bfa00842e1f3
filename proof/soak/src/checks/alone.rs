//! S8: no two believe at once that they are alone with something.

use std::collections::{BTreeMap, HashMap};

use crate::book::{Belief, Book};
use crate::history::{Ask, Micros, Place};
use crate::violation::Violation;

/// S8. A belief ends with the first release or eviction of its grant, whoever sends it: a holder that comes back
/// releases for the one that died.
#[must_use]
pub fn alone(book: &Book) -> Vec<Violation> {
    let mut ends: HashMap<(&Place, u64), Micros> = HashMap::new();
    for (place, ops) in &book.ops {
        for op in ops {
            if let Ask::Release { token, .. } | Ask::Force { token } = op.ask {
                let end = ends.entry((place, token)).or_insert(op.begin);
                *end = op.begin.min(*end);
            }
        }
    }
    let mut of_place: BTreeMap<&Place, Vec<Belief>> = BTreeMap::new();
    for belief in &book.beliefs {
        let mut belief = belief.clone();
        if let Some(end) = ends.get(&(&belief.place, belief.token)) {
            belief.until = belief.until.min(*end);
        }
        let place = book
            .ops
            .get_key_value(&belief.place)
            .map(|(place, _)| place);
        if let Some(place) = place {
            let deleted = book.ops[place].iter().filter(|op| op.ask == Ask::Delete);
            let deleted = deleted.map(|op| op.begin).find(|at| *at > belief.from);
            belief.until = deleted.map_or(belief.until, |at| belief.until.min(at));
            of_place.entry(place).or_default().push(belief);
        }
    }
    let mut violations = Vec::new();
    for (place, mut beliefs) in of_place {
        beliefs.sort_by_key(|belief| belief.from);
        let mut longest: Option<&Belief> = None;
        for belief in &beliefs {
            if let Some(before) = longest
                && before.token != belief.token
                && before.until > belief.from
                && belief.until > belief.from
            {
                let over = (before.until - belief.from) / 1000;
                let what = format!(
                    "two believed to be alone, for up to {over} ms: {} by {} and {} by {}",
                    before.by, before.token, belief.by, belief.token
                );
                violations.push(Violation::new("S8", place, what));
            }
            if longest.is_none_or(|before| belief.until > before.until) {
                longest = Some(belief);
            }
        }
    }
    violations
}
