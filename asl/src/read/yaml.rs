//! YAML with places and local tags, read into the same tree as JSON. Each alias becomes a copy of its anchor.

use crate::read::json::DEEPEST;
use crate::read::node::{Member, Node, Span, Value};
use crate::read::source::{Place, Source, Unreadable};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// The most values. Only aliases of aliases produce more, never a real definition.
const MOST: usize = 1_000_000;

pub(crate) fn read(source: &Source) -> Result<Node, Unreadable> {
    source.fits()?;
    let mut reader = Reader {
        source,
        events: Parser::new_from_str(&source.text),
        bytes: source.text.char_indices().map(|(at, _)| at).collect(),
        anchors: HashMap::new(),
        count: 0,
    };
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) => {}
            Event::StreamEnd | Event::DocumentEnd => {
                return Err(source.unreadable(span.start, "expected a document, found none"));
            }
            event => return reader.node(event, span, DEEPEST),
        }
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
    fn next(&mut self) -> Result<(Event<'a>, Span), Unreadable> {
        match self.events.next() {
            Some(Ok((event, span))) => {
                let span = Span::new(self.byte(&span.start), self.byte(&span.end));
                Ok((event, span))
            }
            Some(Err(error)) => Err(self.broken(&error)),
            None => Err(self
                .source
                .unreadable(self.source.text.len(), "the text ends within a document")),
        }
    }

    fn byte(&self, marker: &Marker) -> usize {
        let at = self.bytes.get(marker.index());
        at.copied().unwrap_or(self.source.text.len())
    }

    fn broken(&self, error: &ScanError) -> Unreadable {
        Unreadable {
            name: self.source.name.clone(),
            place: Some(Place {
                line: error.marker().line().max(1),
                column: error.marker().col() + 1,
            }),
            message: error.info().to_owned(),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Unreadable> {
        self.count += 1;
        if depth == 0 || self.count > MOST {
            let message =
                format!("nested deeper than {DEEPEST} levels, or more than {MOST} values");
            return Err(self.source.unreadable(span.start, message));
        }
        let (value, tag, anchor, end) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let value = if plain {
                    scalar(&text)
                } else {
                    Value::Text(text.into_owned())
                };
                (value, tag, anchor, span.end)
            }
            Event::SequenceStart(anchor, tag) => {
                let mut list = Vec::new();
                loop {
                    let (event, at) = self.next()?;
                    if event == Event::SequenceEnd {
                        break (Value::List(list), tag, anchor, at.end);
                    }
                    list.push(self.node(event, at, depth - 1)?);
                }
            }
            Event::MappingStart(anchor, tag) => {
                let mut members = Vec::new();
                loop {
                    let (event, at) = self.next()?;
                    if event == Event::MappingEnd {
                        self.source.has_each_once(&members)?;
                        break (Value::Object(members), tag, anchor, at.end);
                    }
                    members.push(self.member(event, at, depth)?);
                }
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(self
                        .source
                        .unreadable(span.start, "an alias without an anchor"));
                };
                self.count += size(node);
                if self.count > MOST {
                    return Err(self
                        .source
                        .unreadable(span.start, "aliases of aliases without end"));
                }
                return Ok(node.clone());
            }
            _ => return Err(self.source.unreadable(span.start, "expected a value")),
        };
        let node = Node {
            span: Span::new(span.start, end),
            tag: tag.as_deref().and_then(local),
            value,
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn member(&mut self, event: Event<'a>, at: Span, depth: usize) -> Result<Member, Unreadable> {
        let Event::Scalar(key, ..) = event else {
            return Err(self.source.unreadable(at.start, "expected a field's name"));
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
    fn what_is_wrong_is_told_with_its_place() {
        let said = |text: &str| Source::new("x.yaml", text).read().unwrap_err();
        assert_eq!(said("a: 1\nb: [1, 2\n").place.unwrap().line, 3);
        assert_eq!(
            said("a: 1\na: 2\n").place,
            Some(Place { line: 2, column: 1 })
        );
        assert_eq!(said("").message, "expected a document, found none");
    }

    #[test]
    fn aliases_of_aliases_do_not_grow_for_ever() {
        let mut text = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for n in 1..9 {
            let last = format!("*a{},", n - 1);
            text.extend([format!("a{n}: &a{n} ["), last.repeat(10), "]\n".to_owned()]);
        }
        assert!(Source::new("x.yaml", text).read().is_err());
    }
}
