//! YAML with places and local tags, read into the same tree as JSON. Each alias becomes a copy of its anchor.

use crate::read::json::DEEPEST;
use crate::read::node::{Member, Node, Span, Value};
use crate::read::source::{Source, Unreadable};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// The most values. Only aliases of aliases produce more, never a real definition.
const MOST: usize = 1_000_000;

/// The most lines in braces or quotes that stand too far left and are read nevertheless.
const MOST_JOINED: usize = 100;
/// How the parser calls a line in braces, brackets or quotes that stands no deeper than the key around it.
const TOO_SHALLOW: [&str; 3] = [
    "invalid indentation",
    "invalid indentation in flow construct",
    IN_QUOTES,
];
const IN_QUOTES: &str = "invalid indentation in quoted scalar";

pub(crate) fn read(source: &Source) -> Result<Node, Unreadable> {
    source.fits()?;
    let mut text = source.text.clone();
    for _ in 0..MOST_JOINED {
        match read_as(source, &text) {
            Err(Fault::Scan(at, error)) if TOO_SHALLOW.contains(&error.info()) => {
                // YAML does not allow it, and much of what reads YAML does.
                if !join_line(&mut text, at, error.info() == IN_QUOTES) {
                    let message = "in braces, brackets or quotes, this line stands no deeper than the key around them: indent it";
                    return Err(source.unreadable(at, message));
                }
            }
            Err(Fault::Scan(at, error)) => return Err(source.unreadable(at, error.info())),
            Err(Fault::Read(error)) => return Err(error),
            Ok(node) => return Ok(node),
        }
    }
    let message =
        "too many lines in braces, brackets or quotes stand no deeper than the key around them";
    Err(Unreadable::of(source, message))
}

/// Makes a line go on the one before, and keeps the place of every character. Not behind a comment, which would swallow it. In quotes
/// nothing is a comment, the fault is at their beginning, and the end of a line is a space, unless it is escaped or the next line is
/// empty.
fn join_line(text: &mut String, at: usize, in_quotes: bool) -> bool {
    let end = if in_quotes {
        text[at..].find('\n').map(|end| at + end)
    } else {
        text[..at].rfind('\n')
    };
    let Some(end) = end else {
        return false;
    };
    let before = text[..end].trim_end_matches('\r');
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_free = if in_quotes {
        let next = text[end + 1..].lines().next().unwrap_or_default();
        !before.ends_with('\\') && !next.trim().is_empty()
    } else {
        !line.contains('#')
    };
    if is_free {
        let begin = before.len();
        text.replace_range(begin..=end, &" ".repeat(end + 1 - begin));
    }
    is_free
}

fn read_as(source: &Source, text: &str) -> Result<Node, Fault> {
    let mut reader = Reader {
        source,
        events: Parser::new_from_str(text),
        bytes: source.text.char_indices().map(|(at, _)| at).collect(),
        anchors: HashMap::new(),
        count: 0,
    };
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) => {}
            Event::StreamEnd | Event::DocumentEnd => {
                let message = "expected a document, found none";
                return Err(source.unreadable(span.start, message).into());
            }
            event => return reader.node(event, span, DEEPEST),
        }
    }
}

/// Why a text cannot be read.
enum Fault {
    /// The parser says so, of this byte.
    Scan(usize, ScanError),
    Read(Unreadable),
}

impl From<Unreadable> for Fault {
    fn from(error: Unreadable) -> Self {
        Self::Read(error)
    }
}

struct Reader<'a> {
    source: &'a Source,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// The byte at which each character begins, because the parser counts characters.
    bytes: Vec<usize>,
    anchors: HashMap<usize, Node>,
    count: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next() {
            Some(Ok((event, span))) => {
                let span = Span::new(self.byte(&span.start), self.byte(&span.end));
                Ok((event, span))
            }
            Some(Err(error)) => Err(Fault::Scan(self.byte(error.marker()), error)),
            None => {
                let end = self.source.text.len();
                let message = "the text ends within a document";
                Err(self.source.unreadable(end, message).into())
            }
        }
    }

    fn byte(&self, marker: &Marker) -> usize {
        let at = self.bytes.get(marker.index());
        at.copied().unwrap_or(self.source.text.len())
    }

    /// The place after the bracket that closes a list or an object, if a bracket opens it here. The parser's is after a comment behind it.
    fn end_of_flow(&self, span: Span, last: Option<usize>) -> Option<usize> {
        let text = &self.source.text;
        text[span.start..].starts_with(['[', '{']).then_some(())?;
        let mut at = last.unwrap_or(span.start + 1).max(span.start + 1);
        loop {
            at += text.get(at..)?.find(['#', ']', '}'])?;
            if !text[at..].starts_with('#') {
                return Some(at + 1);
            }
            at += text[at..].find('\n')?;
        }
    }

    /// The place after a text in quotes. The parser's is after a comment behind them.
    fn end_of_quoted(&self, span: Span) -> usize {
        let text = &self.source.text[span.start..span.end];
        let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return span.end;
        };
        let mut rest = text.char_indices().skip(1).peekable();
        while let Some((at, c)) = rest.next() {
            let next = rest.peek().map(|(_, c)| *c);
            if (quote == '"' && c == '\\') || (quote == '\'' && c == quote && next == Some(quote)) {
                rest.next();
            } else if c == quote {
                return span.start + at + 1;
            }
        }
        span.end
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Fault> {
        self.count += 1;
        if depth == 0 || self.count > MOST {
            let message =
                format!("nested deeper than {DEEPEST} levels, or more than {MOST} values");
            return Err(self.source.unreadable(span.start, message).into());
        }
        let (value, tag, anchor, end) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let end = match style {
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => {
                        self.end_of_quoted(span)
                    }
                    _ => span.end,
                };
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let value = if plain {
                    scalar(&text)
                } else {
                    Value::Text(text.into_owned())
                };
                (value, tag, anchor, end)
            }
            Event::SequenceStart(anchor, tag) => {
                let (value, end) = self.sequence(span, depth)?;
                (value, tag, anchor, end)
            }
            Event::MappingStart(anchor, tag) => {
                let (value, end) = self.mapping(span, depth)?;
                (value, tag, anchor, end)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    let message = "an alias without an anchor";
                    return Err(self.source.unreadable(span.start, message).into());
                };
                self.count += size(node);
                if self.count > MOST {
                    let message = "aliases of aliases without end";
                    return Err(self.source.unreadable(span.start, message).into());
                }
                return Ok(node.clone());
            }
            _ => {
                let fault = self.source.unreadable(span.start, "expected a value");
                return Err(fault.into());
            }
        };
        let tag = tag.as_deref().and_then(local);
        let node = Node::new(Span::new(span.start, end), tag, value);
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// The rest of a list, and where it ends.
    fn sequence(&mut self, span: Span, depth: usize) -> Result<(Value, usize), Fault> {
        let mut list: Vec<Node> = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::SequenceEnd {
                let inside = list.last().map(|node| node.span.end);
                let end = self.end_of_flow(span, inside).unwrap_or(at.end);
                return Ok((Value::List(list), end));
            }
            list.push(self.node(event, at, depth - 1)?);
        }
    }

    /// The rest of an object, and where it ends.
    fn mapping(&mut self, span: Span, depth: usize) -> Result<(Value, usize), Fault> {
        let mut members: Vec<Member> = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if event == Event::MappingEnd {
                self.source.has_each_once(&members)?;
                let last = members.last();
                let last = last.map(|member| member.value.span.end.max(member.at.end));
                let end = self.end_of_flow(span, last).unwrap_or(at.end);
                return Ok((Value::Object(members), end));
            }
            members.push(self.member(event, at, depth)?);
        }
    }

    fn member(&mut self, event: Event<'a>, at: Span, depth: usize) -> Result<Member, Fault> {
        let Event::Scalar(key, ..) = event else {
            let fault = self.source.unreadable(at.start, "expected a field's name");
            return Err(fault.into());
        };
        let (event, span) = self.next()?;
        let value = self.node(event, span, depth - 1)?;
        Ok(Member {
            key: Cow::into_owned(key),
            at,
            value,
        })
    }
}

fn local(tag: &Tag) -> Option<String> {
    (!tag.is_yaml_core_schema()).then(|| tag.suffix.trim_start_matches('!').to_owned())
}

/// The core schema, as far as definitions need it.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
            match text.parse() {
                Ok(number) if is_number => Value::Number(number),
                _ => Value::Text(text.to_owned()),
            }
        }
    }
}

fn size(node: &Node) -> usize {
    let inside: usize = match &node.value {
        Value::List(list) => list.iter().map(size).sum(),
        Value::Object(members) => members.iter().map(|member| size(&member.value)).sum(),
        _ => 0,
    };
    inside + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::source::Place;

    #[test]
    fn braces_may_close_below_their_key() {
        for text in [
            "a: {\n  b: [1,\n  2],\n}\n",
            "a: {\r\n  b: [1,\r\n2],\r\n}\r\n",
        ] {
            let read = Source::new("x.yaml", text).read().unwrap();
            assert_eq!(read.get("a").unwrap().list_of("b").len(), 2, "{text}");
        }
        let behind = Source::new("x.yaml", "a: {\n  \"b\": \"c\" # one\n}\n");
        let said = behind.read().unwrap_err().to_string();
        assert!(
            said.starts_with("x.yaml:3:1: in braces, brackets or quotes, this line"),
            "{said}"
        );
        let braces = Source::new("x.yaml", "{\n  a: b # c\n}\n").read().unwrap();
        assert_eq!(braces.text_of("a"), Some("b"));
    }

    #[test]
    fn quoted_value_ends_with_quote() {
        let text = "a: 'it''s'  # one\nb: \"\\\"\" # two\nc: [{d: 1}, # 3]\n  ] # four ]\n";
        let read = Source::new("x.yaml", text).read().unwrap();
        let span = |key: &str| read.get(key).unwrap().span;
        let written = |key: &str| &text[span(key).start..span(key).end];
        assert_eq!((written("a"), written("b")), ("'it''s'", "\"\\\"\""));
        assert_eq!(written("c"), "[{d: 1}, # 3]\n  ]");
    }

    #[test]
    fn values_tags_and_places_are_kept() {
        let text = "# ä\nA: !GetAtt X.Arn\nB: [1, '1', true, ~]\nC: &c {d: 2}\nE: *c\n";
        let source = Source::new("x.yaml", text);
        let read = source.read().unwrap();
        let a = read.member("A").unwrap();
        assert_eq!(a.value.tag.as_deref(), Some("GetAtt"));
        assert_eq!(a.value.text(), Some("X.Arn"));
        assert_eq!(source.place(a.at.start), Place { line: 2, column: 1 });
        let values: Vec<&Value> = read
            .get("B")
            .unwrap()
            .list()
            .iter()
            .map(|n| &n.value)
            .collect();
        let text = Value::Text("1".into());
        assert_eq!(
            values,
            [&Value::Number(1.0), &text, &Value::Bool(true), &Value::Null]
        );
        assert_eq!(read.get("E").unwrap().get("d").unwrap().number(), Some(2.0));
    }

    #[test]
    fn yaml_errors_name_their_place() {
        let said = |text: &str| Source::new("x.yaml", text).read().unwrap_err();
        assert_eq!(said("a: 1\nb: [1, 2\n").place.unwrap().line, 3);
        assert_eq!(
            said("a: 1\na: 2\n").place,
            Some(Place { line: 2, column: 1 })
        );
        assert_eq!(said("").message, "expected a document, found none");
    }

    #[test]
    fn nested_aliases_cannot_grow_unbounded() {
        let mut text = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for n in 1..9 {
            let last = format!("*a{},", n - 1);
            text.extend([format!("a{n}: &a{n} ["), last.repeat(10), "]\n".to_owned()]);
        }
        assert!(Source::new("x.yaml", text).read().is_err());
    }
}
