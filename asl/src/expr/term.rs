//! The parts of an expression.

/// A term, by its place among those of its expression.
pub(crate) type TermId = usize;

/// A part of an expression. Its own parts precede it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    Text(String),
    Number(f64),
    Path(Path),
    /// A call of a function, by its name as written: `$uuid`, `States.UUID`.
    Call(String, Vec<TermId>),
    List(Vec<TermId>),
    Binary(&'static str, TermId, TermId),
    /// `condition ? one : other`, or without the other.
    Choice(TermId, TermId, Option<TermId>),
    /// Anything else: an object, a function, a step that is computed.
    Other,
}

/// What is read: `$lease.safe_until`, `$states.input.order`, `$.order`. An index or a filter is no step of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path {
    pub root: Root,
    pub steps: Vec<String>,
}

/// Where a path begins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Root {
    /// A variable of the machine, or of the expression.
    Variable(String),
    /// `$states.input`
    Input,
    /// `$states.result`
    Result,
    /// `$states.errorOutput`
    ErrorOutput,
    /// `$states.context`, and `$$` in JSONPath.
    Context,
    /// `$states` alone, or with a step that it does not have.
    States,
    /// `$` in JSONPath: the state's input, or in some fields its result.
    Data,
    /// A value that the expression computes, or its place in one.
    Other,
}

impl Path {
    pub(crate) fn new(root: Root, steps: &[&str]) -> Self {
        let steps = steps.iter().map(|&step| step.to_owned()).collect();
        Self { root, steps }
    }

    pub(super) fn push(&mut self, step: String) {
        if self.root != Root::States || !self.steps.is_empty() {
            return self.steps.push(step);
        }
        self.root = match step.as_str() {
            "input" => Root::Input,
            "result" => Root::Result,
            "errorOutput" => Root::ErrorOutput,
            "context" => Root::Context,
            _ => return self.steps.push(step),
        };
    }

    /// The path to a field of it.
    pub(crate) fn step(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.steps.push(name.to_owned());
        path
    }

    /// The variable that it begins with.
    pub(crate) fn variable(&self) -> Option<&str> {
        match &self.root {
            Root::Variable(name) => Some(name),
            _ => None,
        }
    }

    /// Its last name.
    pub(crate) fn name(&self) -> Option<&str> {
        self.steps.last().map(String::as_str).or(self.variable())
    }

    /// Whether it is in this part of the context, which is written with dots.
    pub(crate) fn is_context(&self, part: &str) -> bool {
        let mut steps = self.steps.iter();
        self.root == Root::Context
            && part
                .split('.')
                .all(|part| steps.next().is_some_and(|step| step == part))
    }

    /// Whether a step of it has this name.
    pub(crate) fn has_step(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step == name)
    }
}
