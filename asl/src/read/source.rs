//! The text of a file, and the error if it could not be read.

use crate::read::node::{Member, Span};
use std::collections::HashSet;
use std::fmt;

/// The most bytes of a definition or a template. The service refuses larger ones, so they are not read here.
pub const LARGEST: usize = 1 << 20;

/// The byte order mark, which some editors write before a text.
pub(crate) const MARK: char = '\u{feff}';

/// A text with its name in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// A path, or a path and a part of that file.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// A line and a column, counted from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// Why a source cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The source's name.
    pub name: String,
    /// Where reading stopped, if the fault has a place.
    pub place: Option<Place>,
    /// What was expected or found.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(Place { line, column }) => {
                write!(f, "{}:{line}:{column}: {}", self.name, self.message)
            }
            None => write!(f, "{}: {}", self.name, self.message),
        }
    }
}

impl std::error::Error for Unreadable {}

impl Unreadable {
    /// A fault of the whole source.
    pub(crate) fn of(source: &Source, message: impl Into<String>) -> Self {
        Self {
            name: source.name.clone(),
            place: None,
            message: message.into(),
        }
    }
}

impl Source {
    /// A source from a name and a text.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// The text without the empty lines that replace the part before it in a template or a document.
    pub(crate) fn fits(&self) -> Result<(), Unreadable> {
        let bytes = self.text.trim_start().len();
        if bytes <= LARGEST {
            return Ok(());
        }
        let message =
            format!("has {bytes} bytes, but Step Functions refuses more than {LARGEST} (1 MB)");
        Err(Unreadable::of(self, message))
    }

    pub(crate) fn has_each_once(&self, members: &[Member]) -> Result<(), Unreadable> {
        let mut met = HashSet::with_capacity(members.len());
        match members.iter().find(|member| !met.insert(&member.key)) {
            None => Ok(()),
            Some(Member { key, at, .. }) => Err(self.unreadable(
                at.start,
                format!("the field \"{key}\" is there a second time; the first would be ignored"),
            )),
        }
    }

    /// Line and column of a byte.
    #[must_use]
    pub fn place(&self, at: usize) -> Place {
        let before = &self.text[..self.floor(at)];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Place {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// The line on which a span starts, and how many of its characters are on that line.
    #[must_use]
    pub fn line(&self, span: Span) -> (&str, usize) {
        let start = self.floor(span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |end| end + 1);
        let line_end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |end| start + end);
        let end = self.floor(span.end.clamp(start, line_end));
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        (line, self.text[start..end].chars().count().max(1))
    }

    fn floor(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at.min(self.text.len()))
    }

    pub(crate) fn unreadable(&self, at: usize, message: impl Into<String>) -> Unreadable {
        Unreadable {
            name: self.name.clone(),
            place: Some(self.place(at)),
            message: message.into(),
        }
    }
}
