//! The parts of JSONata and JSONPath that the rules need: the names in a text. Nothing is evaluated.

use crate::read::node::{Node, Value};

/// A literal number, also as `{% 60 %}`.
pub(crate) fn literal_number(node: &Node) -> Option<f64> {
    match &node.value {
        Value::Number(number) => Some(*number),
        Value::Text(text) => inside(text)?.trim().parse().ok(),
        _ => None,
    }
}

/// The text between `{%` and `%}`.
pub(crate) fn inside(text: &str) -> Option<&str> {
    let text = text.trim();
    text.strip_prefix("{%")?.strip_suffix("%}")
}

/// The text without string literals, regular expressions and comments, so that a word in it is a name.
pub(crate) fn bare(text: &str) -> String {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '/' if rest.peek() == Some(&'*') => {
                let mut last = ' ';
                rest.next();
                for inner in rest.by_ref() {
                    if (last, inner) == ('*', '/') {
                        break;
                    }
                    last = inner;
                }
                bare.push(' ');
            }
            '\'' | '"' | '`' => {
                skip_to(&mut rest, c);
                bare.push_str("''");
            }
            '/' if begins_operand(&bare) => {
                skip_to(&mut rest, c);
                bare.push_str("''");
            }
            _ => bare.push(c),
        }
    }
    bare
}

/// Skips a literal with its closing mark. One within brackets does not close a regular expression.
fn skip_to(rest: &mut impl Iterator<Item = char>, mark: char) {
    let mut depth = 0;
    while let Some(c) = rest.next() {
        match c {
            '\\' => _ = rest.next(),
            '(' | '[' | '{' if mark == '/' => depth += 1,
            ')' | ']' | '}' if mark == '/' => depth -= 1,
            _ if c == mark && depth == 0 => break,
            _ => {}
        }
    }
}

/// Whether an operand follows this text, not an operator: a `/` then begins a regular expression.
fn begins_operand(before: &str) -> bool {
    let before = before.trim_end();
    let word = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
    let is_value = |c: char| is_name(c) || matches!(c, ')' | ']' | '}' | '\'' | '$');
    matches!(word, "and" | "or" | "in") || !before.chars().next_back().is_some_and(is_value)
}

/// The two texts of `{% condition ? 'one' : 'other' %}`.
pub(crate) fn one_of_two(text: &str) -> Option<[&str; 2]> {
    let expression = inside(text)?.trim();
    let bare = bare(expression);
    if bare.matches('?').count() != 1 || !bare.ends_with("? '' : ''") {
        return None;
    }
    let mut parts = expression.rsplit('\'').skip(1);
    let (other, one) = (parts.next()?, parts.nth(1)?);
    Some([one, other])
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The texts before and after each place at which the bare text contains this as a whole name.
pub(crate) fn words<'a>(bare: &'a str, word: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let places = bare.match_indices(word);
    let around = places.map(|(at, found)| (&bare[..at], &bare[at + found.len()..]));
    around.filter(|(before, after)| {
        let (before, after) = (before.chars().next_back(), after.chars().next());
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// Whether the bare text contains this as a whole name.
pub(crate) fn has_word(bare: &str, word: &str) -> bool {
    words(bare, word).next().is_some()
}

/// The variables in the text (`$name`, but not `$states` and no function).
pub(crate) fn variables(bare: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in bare.match_indices('$') {
        let rest = &bare[at + 1..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let is_call = after.trim_start().starts_with('(');
        if !name.is_empty() && name != "states" && !is_call && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// The variables whose field `field` the text reads, also after an index: `$lease.safe_until`, `$leases[0].safe_until`.
/// A path in the data counts as the variable "".
pub(crate) fn owners<'a>(bare: &'a str, field: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in bare.match_indices(field) {
        let whole = !bare[at + field.len()..].chars().next().is_some_and(is_name);
        let Some(before) = bare[..at].strip_suffix('.') else {
            continue;
        };
        if !whole {
            continue;
        }
        // Search backwards for the start of the path.
        let in_path = |c: char| is_name(c) || matches!(c, '.' | '$' | '[' | ']');
        let start = before.rfind(|c| !in_path(c)).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        // `[$a.b` begins after the bracket.
        let root = before[start..]
            .rsplit_once('$')
            .map_or("", |(_, rest)| rest);
        let end = root.find(|c| !is_name(c)).unwrap_or(root.len());
        let name = match &root[..end] {
            "states" => "",
            name => name,
        };
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Whether it reads the clock.
pub(crate) fn reads_clock(bare: &str) -> bool {
    bare.contains("$millis(") || bare.contains("$now(")
}

/// The smallest number in a list that starts with one: `$min([15, $left])` is never more than 15.
pub(crate) fn at_most(bare: &str) -> Option<f64> {
    let rest = bare.split("$min([").nth(1)?;
    let list = rest.split(']').next()?;
    let numbers = list
        .split(',')
        .filter_map(|part| part.trim().parse::<f64>().ok());
    numbers.reduce(f64::min)
}

/// The steps of a reference path: `$.held.lease` is held, lease. None for any other text.
pub(crate) fn path(text: &str) -> Option<Vec<String>> {
    let rest = text.trim().strip_prefix('$')?;
    if rest.starts_with('$') || rest.contains(['(', '*', '?', '@']) {
        return None;
    }
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        return None;
    }
    let steps = rest
        .split(['.', '['])
        .map(|step| step.trim_end_matches(']').trim_matches('\''));
    Some(
        steps
            .filter(|step| !step.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_of_two_texts_is_read() {
        let either = one_of_two("{% $length($x) <= 8 ? 'A.B' : 'C' %}");
        assert_eq!(either, Some(["A.B", "C"]));
        for other in [
            "A",
            "{% $x ? 'A' : $y %}",
            "{% $x ? 'A' : $y ? 'B' : 'C' %}",
            "{% 'A' %}",
        ] {
            assert_eq!(one_of_two(other), None, "{other}");
        }
    }

    #[test]
    fn strings_and_comments_hold_no_names() {
        let text =
            bare("{% (/* $no */ $lease.safe_until & ' $nor' & $states.input.x & $millis()) %}");
        assert_eq!(variables(&text), ["lease"]);
        assert_eq!(owners(&text, "safe_until"), ["lease"]);
        assert!(reads_clock(&text));
        assert_eq!(
            owners("$toMillis($leases[0].safe_until)", "safe_until"),
            ["leases"]
        );
        assert_eq!(owners("$states.input.lease.safe_until", "safe_until"), [""]);
        let both = "$min([$lease.safe_until, $a.b[0].safe_until])";
        assert_eq!(owners(both, "safe_until"), ["lease", "a"]);
        assert!(owners("$until.safe_until_x", "safe_until").is_empty());
        assert!(has_word("a + tries", "tries") && !has_word("retries", "tries"));
    }

    #[test]
    fn a_regular_expression_hides_nothing() {
        let text = bare("$replace($x, /[^a'/]/, '') & 6 / 2 & `it's`.y & $uuid() / 3");
        assert_eq!(text, "$replace($x, '', '') & 6 / 2 & ''.y & $uuid() / 3");
    }

    #[test]
    fn smallest_literal_bounds_min() {
        assert_eq!(at_most("$left >= 1 ? $min([15, $left])"), Some(15.0));
        assert_eq!(at_most("$min([$left, $other])"), None);
    }

    #[test]
    fn a_path_has_steps() {
        assert_eq!(path("$.a['b'].c").unwrap(), ["a", "b", "c"]);
        assert_eq!(path("$").unwrap(), Vec::<String>::new());
        assert_eq!(path("$$.Execution.Id"), None);
        assert_eq!(path("$lease.x"), None);
    }
}
