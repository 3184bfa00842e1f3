//! Changes to a text by its places. Every other byte stays as it is.

use crate::read::node::{Member, Node, Span, Value};
use crate::read::source::Source;
use crate::weave::render::{Form, JsonValue, Style};
use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

/// A text and its pending changes.
pub(crate) struct Editor<'a> {
    source: &'a Source,
    text: &'a str,
    style: Style,
    yaml: bool,
    edits: Vec<Edit>,
    /// The values of YAML that an alias repeats.
    repeated: Vec<Span>,
    /// The place of the first edit within one of them.
    shared: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Edit {
    start: usize,
    end: usize,
    text: String,
}

/// Consecutive elements of a list or fields of an object.
pub(crate) type Run = std::ops::Range<usize>;

impl<'a> Editor<'a> {
    pub(crate) fn new(source: &'a Source, root: &Node) -> Self {
        let text = source.text.as_str();
        let yaml = !text[root.span.start..].starts_with('{');
        let mut editor = Self {
            source,
            text,
            style: Style {
                form: Form::Json,
                unit: "  ".to_owned(),
            },
            yaml,
            edits: Vec::new(),
            repeated: Vec::new(),
            shared: None,
        };
        let mut met = HashSet::new();
        editor.find_repeated(root, &mut met);
        // The unit of indentation is that of the first field that has fields.
        let outer = root.members().first();
        let inner = root
            .members()
            .iter()
            .find_map(|member| member.value.members().first());
        if let (Some(outer), Some(inner)) = (outer, inner)
            && let (Some(outer), Some(inner)) =
                (editor.indent(outer.at.start), editor.indent(inner.at.start))
            && let Some(unit) = inner.strip_prefix(outer).filter(|unit| !unit.is_empty())
        {
            unit.clone_into(&mut editor.style.unit);
        }
        editor
    }

    fn find_repeated(&mut self, node: &Node, met: &mut HashSet<(Span, Discriminant<Value>)>) {
        let kind = discriminant(&node.value);
        if node.span.start < node.span.end && !met.insert((node.span, kind)) {
            self.repeated
                .push(Span::new(node.span.start, self.end_of(node)));
            return;
        }
        for member in node.members() {
            self.find_repeated(&member.value, met);
        }
        for element in node.list() {
            self.find_repeated(element, met);
        }
    }

    /// The place of a change to a value that an alias elsewhere repeats, and that the change would reach, too.
    pub(crate) fn shared(&self) -> Option<usize> {
        self.shared
    }

    /// The changed text. None if two changes overlap.
    pub(crate) fn finish(mut self) -> Option<String> {
        // Insertions at one place keep their order.
        self.edits.sort_by_key(|edit| (edit.start, edit.end));
        let mut text = String::with_capacity(self.text.len() * 2);
        let mut at = 0;
        for edit in &self.edits {
            text.push_str(self.text.get(at..edit.start)?);
            text.push_str(&edit.text);
            at = edit.end;
        }
        text.push_str(&self.text[at..]);
        Some(text)
    }

    fn put(&mut self, span: Span, text: String) {
        let within =
            |other: &Span| other.start < span.end.max(span.start + 1) && span.start < other.end;
        let before = |other: &Span| span.start == span.end && span.start <= other.start;
        if self
            .repeated
            .iter()
            .any(|other| within(other) && !before(other))
        {
            self.shared.get_or_insert(span.start);
        }
        let text = if self.text.contains("\r\n") {
            text.replace('\n', "\r\n")
        } else {
            text
        };
        self.edits.push(Edit {
            start: span.start,
            end: span.end,
            text,
        });
    }

    fn insert(&mut self, at: usize, text: String) {
        self.put(Span::new(at, at), text);
    }

    /// The text before a place on its line, if that is only space.
    fn indent(&self, at: usize) -> Option<&'a str> {
        let before = &self.text[self.line_start(at)..at];
        before.trim().is_empty().then_some(before)
    }

    /// The space at the beginning of a place's line.
    fn line_indent(&self, at: usize) -> &'a str {
        let rest = &self.text[self.line_start(at)..at];
        &rest[..rest.len() - rest.trim_start().len()]
    }

    fn is_flow(&self, node: &Node) -> bool {
        !self.yaml || self.text[node.span.start..].starts_with(['{', '['])
    }

    /// The manner for an insertion at this place of an object or a list.
    fn style_at(&self, within: &Node, at: usize) -> Style {
        let form = if !self.is_flow(within) {
            Form::Yaml
        } else if self.yaml || self.indent(at).is_none() {
            Form::Compact
        } else {
            Form::Json
        };
        self.style.of(form)
    }

    /// Whether a field's value is elsewhere, as with an alias in YAML.
    pub(crate) fn is_alias(member: &Member) -> bool {
        Self::is_elsewhere(member.at, &member.value)
    }

    /// The same, by the span of the field's name.
    pub(crate) fn is_elsewhere(name: Span, value: &Node) -> bool {
        value.span.start < name.end && value.span != name
    }

    /// The position after the last byte of a value.
    fn end_of(&self, node: &Node) -> usize {
        if self.is_flow(node) {
            return node.span.end;
        }
        match &node.value {
            Value::Object(members) => members
                .last()
                .map_or(node.span.end, |last| self.end_of_member(last)),
            Value::List(list) => list.last().map_or(node.span.end, |last| self.end_of(last)),
            _ => node.span.start + self.text[node.span.start..node.span.end].trim_end().len(),
        }
    }

    fn end_of_member(&self, member: &Member) -> usize {
        let is_empty = member.value.is_null() && member.value.span.start == member.value.span.end;
        if !Self::is_alias(member) && !is_empty {
            return self.end_of(&member.value);
        }
        // Up to a comment or the end of the line.
        let rest = &self.text[member.at.end..];
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.split(" #").next().unwrap_or_default();
        member.at.end + line.trim_end().len()
    }

    /// A field with its name.
    fn span_of(&self, member: &Member) -> Span {
        Span::new(member.at.start, self.end_of_member(member))
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |end| end + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        let end = self.text[at..]
            .find('\n')
            .map_or(self.text.len(), |end| at + end);
        if self.text[..end].ends_with('\r') {
            end - 1
        } else {
            end
        }
    }

    /// Replaces a field's value, and its name if that is another.
    pub(crate) fn replace(&mut self, within: &Node, member: &Member, key: &str, piece: &JsonValue) {
        let style = self.style_at(within, member.at.start);
        let text = style.member(key, piece, self.line_indent(member.at.start));
        self.put(self.span_of(member), text);
    }

    /// Replaces a text, and keeps its quotes.
    pub(crate) fn rename(&mut self, node: &Node, to: &str) {
        let style = self.style.of(
            if self.yaml && !self.text[node.span.start..].starts_with('"') {
                Form::Yaml
            } else {
                Form::Compact
            },
        );
        let text = style.value(&JsonValue::text(to), "");
        self.put(node.span, text);
    }

    /// Inserts a field into an object, before this one.
    pub(crate) fn insert_before(
        &mut self,
        within: &Node,
        nth: usize,
        key: &str,
        piece: &JsonValue,
    ) {
        let member = &within.members()[nth];
        let style = self.style_at(within, member.at.start);
        let indent = self.line_indent(member.at.start).to_owned();
        let text = style.member(key, piece, &indent);
        match style.form {
            // After the field before it, so that comments stay with their field.
            Form::Yaml if nth > 0 => {
                let at = self.line_end(self.end_of_member(&within.members()[nth - 1]));
                self.insert(at, format!("\n{indent}{text}"));
            }
            _ => {
                let at = member.at.start;
                self.insert(at, text + &style.separator(&indent));
            }
        }
    }

    /// Inserts fields into an object, after this one.
    pub(crate) fn insert_after(
        &mut self,
        within: &Node,
        nth: usize,
        fields: &[(String, &JsonValue)],
    ) {
        let member = &within.members()[nth];
        let style = self.style_at(within, member.at.start);
        let indent = self.line_indent(member.at.start).to_owned();
        let mut text = String::new();
        for (key, piece) in fields {
            text.push_str(&style.separator(&indent));
            text.push_str(&style.member(key, piece, &indent));
        }
        let end = self.end_of_member(member);
        let at = if style.form == Form::Yaml {
            self.line_end(end)
        } else {
            end
        };
        self.insert(at, text);
    }

    /// Inserts elements into a list, before the nth or at the end.
    pub(crate) fn insert_element(&mut self, list: &Node, nth: usize, pieces: &[&JsonValue]) {
        let elements = list.list();
        let first = &elements[0];
        let style = self.style_at(list, first.span.start);
        if style.form == Form::Yaml {
            let dash = self.dash(first);
            let indent = self.line_indent(dash).to_owned();
            let text = pieces
                .iter()
                .map(|piece| format!("{indent}- {}", style.element(piece, &indent)));
            let text: Vec<String> = text.collect();
            if nth == 0 {
                let at = self.line_start(dash);
                // If the parent is a list too, its dash is on this line. That does not occur in definitions.
                self.insert(at, text.join("\n") + "\n");
            } else {
                let at = self.line_end(self.end_of(&elements[nth - 1]));
                self.insert(at, format!("\n{}", text.join("\n")));
            }
            return;
        }
        let indent = self.line_indent(first.span.start).to_owned();
        let separator = style.separator(&indent);
        let text: Vec<String> = pieces
            .iter()
            .map(|piece| style.value(piece, &indent))
            .collect();
        let text = text.join(&separator);
        if nth < elements.len() {
            let at = elements[nth].span.start;
            self.insert(at, text + &separator);
        } else {
            let at = elements[nth - 1].span.end;
            self.insert(at, separator + &text);
        }
    }

    /// Replaces an element.
    pub(crate) fn replace_element(&mut self, list: &Node, nth: usize, piece: &JsonValue) {
        let element = &list.list()[nth];
        let style = self.style_at(list, list.list()[0].span.start);
        let (indent, text);
        if style.form == Form::Yaml {
            // The other fields stand below the first.
            let column = element.span.start - self.line_start(element.span.start);
            indent = " ".repeat(column.saturating_sub(2));
            text = style.element(piece, &indent);
        } else {
            indent = self.line_indent(element.span.start).to_owned();
            text = style.value(piece, &indent);
        }
        let span = Span::new(element.span.start, self.end_of(element));
        self.put(span, text);
    }

    /// Removes fields or elements, and keeps others.
    pub(crate) fn remove(&mut self, within: &Node, run: &Run) {
        let is_flow = self.is_flow(within);
        let element = |element: &Node| {
            if is_flow {
                return element.span;
            }
            Span::new(self.dash(element), self.end_of(element))
        };
        let fields = within.members().iter().map(|member| self.span_of(member));
        let places: Vec<Span> = fields.chain(within.list().iter().map(element)).collect();
        let span = if is_flow {
            between(&places, run)
        } else {
            self.lines(places[run.start].start, places[run.end - 1].end)
        };
        self.put(span, String::new());
    }

    /// The dash of an element of a block list. It may be alone on an earlier line, before a comment.
    fn dash(&self, element: &Node) -> usize {
        let mut end = element.span.start;
        loop {
            let start = self.line_start(end);
            let line = &self.text[start..end];
            let content = line.trim_start();
            let before = content.split(" #").next().unwrap_or_default();
            let is_comment = content.starts_with('#');
            let mut dashes = before.char_indices().filter(|&(at, c)| {
                let apart = |c: Option<char>| c.is_none_or(char::is_whitespace);
                let (before, after) = (&before[..at], &before[at + c.len_utf8()..]);
                c == '-' && apart(before.chars().next_back()) && apart(after.chars().next())
            });
            if let Some((at, _)) = dashes.next_back().filter(|_| !is_comment) {
                return start + (line.len() - content.len()) + at;
            }
            if start == 0 {
                return element.span.start;
            }
            end = start - 1;
        }
    }

    /// Whole lines with the line break after them, or before them at the end of the text.
    fn lines(&self, start: usize, end: usize) -> Span {
        let (start, end) = (self.line_start(start), self.line_end(end));
        let rest = &self.text[end..];
        match rest.find('\n') {
            Some(at) => Span::new(start, end + at + 1),
            None => Span::new(start.saturating_sub(1), end),
        }
    }

    pub(crate) fn source(&self) -> &'a Source {
        self.source
    }
}

/// Elements with their commas.
fn between(places: &[Span], run: &Run) -> Span {
    if run.start > 0 {
        Span::new(places[run.start - 1].end, places[run.end - 1].end)
    } else {
        let end = places
            .get(run.end)
            .map_or(places[run.end - 1].end, |next| next.start);
        Span::new(places[0].start, end)
    }
}
