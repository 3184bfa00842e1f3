//! JSON with places. `serde_json` decides what is valid, and says what it expected. Places come from borrowed raw values, by
//! their distance from the start of the text. A template's substitution outside of quotes, `"TimeoutSeconds": ${Limit}`, is read as a
//! text.

use crate::read::node::{Member, Node, Span, Value};
use crate::read::source::{MARK, Place, Source, Unreadable};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Deeper than any definition that the service accepts. The limit exists because reading is recursive.
pub(crate) const DEEPEST: usize = 100;

pub(crate) fn read(source: &Source) -> Result<Node, Unreadable> {
    source.fits()?;
    let quoted = with_quotes(&source.text);
    let text = quoted.strip_prefix(MARK).unwrap_or(&quoted);
    // The first pass reads the whole text, because an error inside a raw value has a position relative to that value.
    let whole = serde_json::from_str::<IgnoredAny>(text)
        .and_then(|_| serde_json::from_str::<&RawValue>(text))
        .map_err(|error| {
            let full = error.to_string();
            let message = match full.split(" at line ").next().unwrap_or_default() {
                "key must be a string" => {
                    "expected a field's name in double quotes: JSON has no comments, and no comma before the end"
                }
                message => message,
            };
            Unreadable {
                name: source.name.clone(),
                place: Some(Place {
                    line: error.line().max(1),
                    column: error.column().max(1),
                }),
                message: message.to_owned(),
            }
        })?;
    let reader = Reader {
        source,
        quoted: &quoted,
    };
    reader.node(whole.get(), DEEPEST)
}

/// The text with `"xxxx"` in place of each substitution outside of quotes, which is as long.
fn with_quotes(text: &str) -> Cow<'_, str> {
    let (mut quoted, mut done, mut at) = (String::new(), 0, 0);
    while let Some(found) = text[at..].find(['"', '$']) {
        at += found;
        let rest = &text[at..];
        if rest.starts_with('"') {
            at += end_of_string(rest);
        } else if rest.starts_with("${")
            && let Some(end) = rest
                .find(['}', '\n', '"'])
                .filter(|&end| rest[end..].starts_with('}'))
        {
            quoted.extend([&text[done..at], "\"", &"x".repeat(end - 1), "\""]);
            at += end + 1;
            done = at;
        } else {
            at += 1;
        }
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    quoted.push_str(&text[done..]);
    Cow::Owned(quoted)
}

/// The length of the string at the beginning of a text.
fn end_of_string(text: &str) -> usize {
    let mut escaped = true;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

struct Reader<'a> {
    source: &'a Source,
    /// The text that is read, of which each part stands where it stands in the source.
    quoted: &'a str,
}

impl Reader<'_> {
    fn node(&self, raw: &str, depth: usize) -> Result<Node, Unreadable> {
        let source = self.source;
        let span = self.span_of(raw);
        let broken = |error: serde_json::Error| source.unreadable(span.start, error.to_string());
        if depth == 0 {
            return Err(
                source.unreadable(span.start, format!("nested deeper than {DEEPEST} levels"))
            );
        }
        let value = match raw.as_bytes().first() {
            Some(b'{') => {
                let fields: Fields<'_> = serde_json::from_str(raw).map_err(broken)?;
                let mut members: Vec<Member> = Vec::with_capacity(fields.0.len());
                for (key, value) in fields.0 {
                    let value = self.node(value.get(), depth - 1)?;
                    // A name with escapes gets the place of its value.
                    let is_plain = !key.get().contains('\\');
                    let at = if is_plain {
                        self.span_of(key.get())
                    } else {
                        value.span
                    };
                    let key = serde_json::from_str(key.get()).map_err(broken)?;
                    members.push(Member { key, at, value });
                }
                source.has_each_once(&members)?;
                Value::Object(members)
            }
            Some(b'[') => {
                let elements: Vec<&RawValue> = serde_json::from_str(raw).map_err(broken)?;
                let list = elements.into_iter();
                Value::List(
                    list.map(|element| self.node(element.get(), depth - 1))
                        .collect::<Result<_, _>>()?,
                )
            }
            Some(b'"') if source.text[span.start..].starts_with("${") => {
                Value::Text(source.text[span.start..span.end].to_owned())
            }
            Some(b'"') => Value::Text(serde_json::from_str(raw).map_err(broken)?),
            Some(b't' | b'f') => Value::Bool(serde_json::from_str(raw).map_err(broken)?),
            Some(b'n') | None => Value::Null,
            Some(_) => Value::Number(serde_json::from_str(raw).map_err(broken)?),
        };
        Ok(Node::new(span, None, value))
    }

    /// The span of a slice within the text.
    fn span_of(&self, part: &str) -> Span {
        let start = part.as_ptr().addr() - self.quoted.as_ptr().addr();
        Span::new(start, start + part.len())
    }
}

/// The names and values of an object, in the order of the text.
struct Fields<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_knows_where_it_stands() {
        let source = Source::new("x.json", "{\n  \"a\": [1, {\"b\": \"ü\", \"c\": true}]\n}");
        let read = source.read().unwrap();
        let list = read.get("a").unwrap().list();
        assert_eq!(list[0].number(), Some(1.0));
        let member = list[1].member("c").unwrap();
        let place = source.place(member.at.start);
        assert_eq!((place.line, place.column), (2, 23));
        assert_eq!(source.line(member.at).1, 3);
        assert!(member.value.is_true());
    }

    #[test]
    fn a_substitution_may_stand_without_quotes() {
        let text = "\u{feff}{\"a\": ${Löng}, \"b\": \"\\\"${c}\", \"d\": [${e}]}";
        let read = Source::new("x.json", text).read().unwrap();
        assert_eq!(read.text_of("a"), Some("${Löng}"));
        assert_eq!(read.text_of("b"), Some("\"${c}"));
        let inner = &read.list_of("d")[0];
        assert_eq!(&text[inner.span.start..inner.span.end], "${e}");
        assert!(Source::new("x.json", "{\"a\": ${b}0}").read().is_err());
    }

    #[test]
    fn json_error_tells_expectation_and_place() {
        let said = |text: &str| Source::new("x.json", text).read().unwrap_err().to_string();
        assert_eq!(
            said("{\n \"a\": 1\n \"b\": 2}"),
            "x.json:3:2: expected `,` or `}`"
        );
        assert_eq!(said("{\"a\": "), "x.json:1:6: EOF while parsing a value");
        let name = "expected a field's name in double quotes: JSON has no comments, and no comma before the end";
        assert_eq!(said("{\"a\": 1,\n}"), format!("x.json:2:1: {name}"));
        assert_eq!(
            said("{\n // why\n \"a\": 1}"),
            format!("x.json:2:2: {name}")
        );
        assert_eq!(
            said("{\"a\": 1,\n \"a\": 2}"),
            "x.json:2:2: the field \"a\" is there a second time; the first would be ignored"
        );
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(said(&deep), "x.json:1:101: nested deeper than 100 levels");
    }
}
