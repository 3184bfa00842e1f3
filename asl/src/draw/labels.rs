//! The labels of shapes and lines: short, and escaped for Mermaid.

use crate::escape::plain;
use crate::expr::{self, Expr, Path, Root};
use crate::read::machine::{Kind, State};
use crate::read::node::{Node, Value};

/// The most characters of a name, and of a label on a line.
const LONGEST_NAME: usize = 60;
const LONGEST_LABEL: usize = 48;

/// A text for a quoted label, with everything escaped that Mermaid, HTML or Markdown would interpret.
pub(super) fn quoted(text: &str) -> String {
    let name = escaped(&cut(text, LONGEST_NAME));
    // Mermaid refuses an empty label.
    if name.is_empty() {
        " ".to_owned()
    } else {
        name
    }
}

fn label(text: &str) -> String {
    escaped(&cut(text, LONGEST_LABEL))
}

fn cut(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = plain(&words.join(" "));
    if text.chars().count() <= longest {
        return text;
    }
    let start: String = text.chars().take(longest - 1).collect();
    // At the end of a word, unless the first one is too long.
    let start = start.rsplit_once(' ').map_or(&*start, |(words, _)| words);
    format!("{}…", start.trim_end())
}

fn fits(text: &str) -> bool {
    text.chars().count() <= LONGEST_LABEL
}

fn escaped(text: &str) -> String {
    // Markdown would read "1. Check" and "- Check" as lists.
    let begins_list = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let list = (begins_list.len() < text.len() && begins_list.starts_with(['.', ')']))
        || text.starts_with(['-', '+']);
    let sign = list.then(|| text.len() - begins_list.len());
    let mut found = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            _ if sign == Some(at) => found.push_str(&by_number(c)),
            // Two pairs of these would enclose a formula.
            '$' if found.ends_with('$') => found.push_str(&by_number(c)),
            '"' => found.push_str("#quot;"),
            '#' | '%' | '&' | '*' | '<' | '>' | '\\' | '`' | '~' => found.push_str(&by_number(c)),
            _ => found.push(c),
        }
    }
    found
}

/// Mermaid's escape of a character.
fn by_number(c: char) -> String {
    format!("#{};", u32::from(c))
}

/// The title of a Parallel or Map.
pub(super) fn title(state: &State<'_>) -> String {
    let each = if matches!(state.kind, Kind::Map(_)) {
        ", for each item"
    } else {
        ""
    };
    let attempts: u64 = state
        .retry
        .iter()
        .fold(0, |all, retrier| all.saturating_add(retrier.attempts));
    let again = if attempts > 0 {
        format!(", at most {} times", attempts.saturating_add(1))
    } else {
        String::new()
    };
    format!("{}{each}{again}", quoted(state.name))
}

/// The names of errors, shortened to the part after their last dot. Many of one kind become that kind.
pub(super) fn errors(names: &[String]) -> String {
    let kind = |name: &str| name.rsplit_once('.').map(|(kind, _)| kind.to_owned());
    let mut said: Vec<String> = Vec::new();
    for name in names {
        let alike = |other: &&String| kind(other) == kind(name);
        let word = match kind(name) {
            Some(kind) if names.iter().filter(alike).count() > 2 => format!("{kind} errors"),
            _ => name.rsplit('.').next().unwrap_or(name).to_owned(),
        };
        if !said.contains(&word) {
            said.push(word);
        }
    }
    escaped(&several(&said))
}

/// The label of the rules of a Choice that lead to one state: three at most, a line each.
pub(super) fn conditions(said: &[String]) -> String {
    // If the Default leads there, the rules need no mention.
    if said.last().is_some_and(|last| last == "else") {
        return "else".to_owned();
    }
    let (shown, more) = match said {
        [_, _, rest @ ..] if rest.len() > 1 => (&said[..2], format!(", {} more", rest.len())),
        _ => (said, String::new()),
    };
    let shown: Vec<String> = shown.iter().map(|words| label(words)).collect();
    shown.join("<br/>or ") + &more
}

/// As many whole words as fit, and the number of the others. Of more than three, two.
fn several(said: &[String]) -> String {
    let all = said.join(", ");
    if said.len() < 2 || (said.len() < 4 && fits(&all)) {
        return cut(&all, LONGEST_LABEL);
    }
    let some = (1..=2.min(said.len() - 1)).rev();
    let mut some = some.map(|count| {
        let more = said.len() - count;
        format!("{}, {more} more", said[..count].join(", "))
    });
    let found = some.find(|some| fits(some));
    found.unwrap_or_else(|| format!("{} names", said.len()))
}

/// A rule of a Choice in words: its Comment, or else what it compares. What is too long would be no condition if it were cut, so
/// there the label names the fields.
pub(super) fn condition(rule: &Node) -> String {
    let comment = rule.text_of("Comment").unwrap_or_default();
    if !comment.trim().is_empty() {
        return comment.to_owned();
    }
    let said = comparison(rule);
    let said = said.trim();
    if fits(said) {
        return said.to_owned();
    }
    let mut fields: Vec<String> = Vec::new();
    add_fields(rule, &mut fields);
    if fields.is_empty() {
        return "a condition".to_owned();
    }
    format!("goes by {}", several(&fields))
}

/// Adds what a rule reads, each once.
fn add_fields(rule: &Node, fields: &mut Vec<String>) {
    let read = ["Condition", "Variable"].map(|key| rule.text_of(key).and_then(Expr::read));
    for path in read.iter().flatten().flat_map(Expr::paths) {
        let field = written(path).filter(|field| !fields.contains(field));
        fields.extend(field);
    }
    for key in ["And", "Or"] {
        let rules = rule.get(key).map(Node::list).unwrap_or_default();
        for rule in rules {
            add_fields(rule, fields);
        }
    }
    if let Some(rule) = rule.get("Not") {
        add_fields(rule, fields);
    }
}

/// A path as it is written, without `$states.`; None for what the expression computes.
fn written(path: &Path) -> Option<String> {
    let root = match &path.root {
        Root::Variable(name) => &format!("${name}"),
        Root::Input => "input",
        Root::Result => "result",
        Root::ErrorOutput => "errorOutput",
        Root::Context => "context",
        Root::Data => "$",
        Root::States | Root::Other => return None,
    };
    let steps = path.steps.iter().map(String::as_str);
    Some(
        [root]
            .into_iter()
            .chain(steps)
            .collect::<Vec<_>>()
            .join("."),
    )
}

/// A rule as people write conditions.
fn comparison(rule: &Node) -> String {
    if let Some(text) = rule.text_of("Condition") {
        return expr::inside(text).unwrap_or(text).replace("$states.", "");
    }
    for (key, between) in [("And", " and "), ("Or", " or ")] {
        if let Some(list) = rule.get(key) {
            let parts: Vec<String> = list.list().iter().map(comparison).collect();
            return parts.join(between);
        }
    }
    if let Some(other) = rule.get("Not") {
        return format!("not {}", comparison(other));
    }
    let variable = rule.text_of("Variable").unwrap_or_default();
    let about = ["Variable", "Next", "Comment", "Assign", "Output"];
    let asked = rule
        .members()
        .iter()
        .find(|member| !about.contains(&member.key.as_str()));
    let Some(asked) = asked else {
        return variable.to_owned();
    };
    let name = asked.key.strip_suffix("Path").unwrap_or(&asked.key);
    let value = match &asked.value.value {
        Value::Text(text) if asked.key.ends_with("Path") => text.clone(),
        Value::Text(text) => format!("'{text}'"),
        Value::Number(number) => number.to_string(),
        Value::Bool(holds) => holds.to_string(),
        _ => String::new(),
    };
    if let Some(kind) = name.strip_prefix("Is") {
        let not = if value == "false" { "not " } else { "" };
        return format!("{variable} is {not}{}", kind.to_lowercase());
    }
    let signs = [
        ("GreaterThanEquals", "≥"),
        ("LessThanEquals", "≤"),
        ("GreaterThan", ">"),
        ("LessThan", "<"),
        ("Equals", "="),
        ("Matches", "is like"),
    ];
    let sign = signs.iter().find(|(end, _)| name.ends_with(end));
    let sign = sign.map_or(name, |(_, sign)| sign);
    format!("{variable} {sign} {value}")
}
