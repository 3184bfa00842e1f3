//! A definition as a picture: a Mermaid flowchart, which GitHub and many editors render.
//!
//! Colour and shape both show the effect of a state on the lease: an acquire is a trapezoid that opens, a release one that closes,
//! an extend is slanted, and protected work has double sides. Each colour sets its text colour too, so that it is readable on light
//! and dark.

mod labels;

use crate::check::calls::{self, Call, Options};
use crate::check::template::definitions;
use crate::check::walk::Walker;
use crate::read::error_names::{ALL, HELD};
use crate::read::machine::{Kind, Machine, ScopeId, StateId, Target};
use crate::read::node::Node;
use crate::read::source::{Source, Unreadable};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Draws a definition: the object with `StartAt` and `States`. The same definition always gives the same text.
///
/// Solid lines are successes and the rules of a Choice, dashed lines are caught errors. Retriers are omitted, except the one
/// for a held key. Clauses that lead to one state share a line.
///
/// ```
/// use leasehold_asl::{Options, Source, draw};
///
/// let source = Source::new("x.asl.json", r#"{ "StartAt": "Ask", "States": { "Ask": { "Type": "Wait", "Seconds": 1, "End": true } } }"#);
/// let picture = draw(&source.read()?, &Options::default());
/// assert_eq!(picture, "flowchart TD\n    0((\" \"))\n    Ask(\"Ask\")\n    stop0(((\" \")))\n    0 --> Ask\n    Ask --> stop0\n");
/// # Ok::<(), leasehold_asl::Unreadable>(())
/// ```
#[must_use]
pub fn draw(definition: &Node, options: &Options) -> String {
    let machine = Machine::read(definition);
    let calls = calls::calls(&machine, options);
    let mut walker = Walker::new(&machine, &calls, options.margin_ms + options.guard_ms);
    walker.scope(0, Vec::new(), None);
    let mut picture = Picture {
        machine: &machine,
        calls: &calls,
        protected: std::mem::take(&mut walker.protected),
        ids: ids(&machine),
        text: "flowchart TD\n".to_owned(),
        looks: BTreeSet::new(),
    };
    picture.scope(0, 1);
    for look in std::mem::take(&mut picture.looks) {
        let (name, style) = look.class();
        picture.line(1, &format!("classDef {name} {style}"));
    }
    picture.text
}

struct Picture<'m, 'a> {
    machine: &'m Machine<'a>,
    calls: &'m [Call<'a>],
    protected: BTreeSet<StateId>,
    /// The id of each state in the picture.
    ids: Vec<String>,
    text: String,
    /// Those that occur.
    looks: BTreeSet<Look>,
}

/// The looks of states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    Acquire,
    Extend,
    Release,
    Protected,
    Failure,
}

impl Look {
    /// The class and its style: white text on a dark colour.
    fn class(self) -> (&'static str, &'static str) {
        match self {
            Self::Acquire => ("acquire", "fill:#1a7f37,stroke:#3fb950,color:#ffffff"),
            Self::Extend => ("extend", "fill:#0969da,stroke:#58a6ff,color:#ffffff"),
            Self::Release => ("release", "fill:#8250df,stroke:#bc8cff,color:#ffffff"),
            Self::Protected => ("protected", "fill:#7d4e00,stroke:#d29922,color:#ffffff"),
            Self::Failure => ("failure", "fill:#b62324,stroke:#ff7b72,color:#ffffff"),
        }
    }
}

struct Line {
    /// Where it ends. `None` for the end of the scope.
    to: Option<StateId>,
    dashed: bool,
    label: Option<String>,
}

impl Picture<'_, '_> {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.text, "{:1$}{text}", "", depth * 4);
    }

    fn scope(&mut self, scope: ScopeId, depth: usize) {
        let machine = self.machine;
        let of = &machine.scopes[scope];
        // The id is a number, because Mermaid sorts numbers before names and lays out in that order. So loops lead back up.
        self.line(depth, &format!("{scope}((\" \"))"));
        for &state in &of.states {
            if machine.inner(state).is_empty() {
                let shape = self.node(state);
                self.line(depth, &shape);
                continue;
            }
            let title = labels::title(&machine.states[state]);
            self.line(depth, &format!("subgraph {}[\"{title}\"]", self.ids[state]));
            for &inner in machine.inner(state) {
                self.scope(inner, depth + 1);
            }
            self.line(depth, "end");
        }
        let lines: Vec<(StateId, Line)> = of
            .states
            .iter()
            .flat_map(|&state| {
                let lines = self.lines(state).into_iter();
                lines.map(move |line| (state, line))
            })
            .collect();
        if lines.iter().any(|(_, line)| line.to.is_none()) {
            self.line(depth, &format!("stop{scope}(((\" \")))"));
        }
        if let Some(start) = of.start {
            self.line(depth, &format!("{scope} --> {}", self.ids[start]));
        }
        for (from, line) in lines {
            let to = line
                .to
                .map_or_else(|| format!("stop{scope}"), |to| self.ids[to].clone());
            // Mermaid refuses an empty label, as from a clause without names or a rule without a condition.
            let label = line.label.filter(|label| !label.is_empty());
            let arrow = match (line.dashed, label) {
                (false, None) => "-->".to_owned(),
                (false, Some(label)) => format!("-- \"{label}\" -->"),
                (true, None) => "-.->".to_owned(),
                (true, Some(label)) => format!("-. \"{label}\" .->"),
            };
            self.line(depth, &format!("{} {arrow} {to}", self.ids[from]));
        }
    }

    /// A state without inner scopes, with its shape and colour.
    fn node(&mut self, id: StateId) -> String {
        let state = &self.machine.states[id];
        let (shape, look) = match (&self.calls[id], &state.kind) {
            (Call::Acquire(_), _) => (("[/", "\\]"), Some(Look::Acquire)),
            (Call::Extend(_), _) => (("[/", "/]"), Some(Look::Extend)),
            (Call::Release(_), _) => (("[\\", "/]"), Some(Look::Release)),
            _ if self.protected.contains(&id) => (("[[", "]]"), Some(Look::Protected)),
            (_, Kind::Choice { .. }) => (("{", "}"), None),
            (_, Kind::Wait) => (("(", ")"), None),
            (_, Kind::Succeed) => (("([", "])"), None),
            (_, Kind::Fail) => (("([", "])"), Some(Look::Failure)),
            _ => (("[", "]"), None),
        };
        self.looks.extend(look);
        let class = look.map_or(String::new(), |look| format!(":::{}", look.class().0));
        let (open, close) = shape;
        let name = labels::quoted(state.name);
        format!("{}{open}\"{name}\"{close}{class}", self.ids[id])
    }

    /// The lines that leave a state, at most one to each target.
    fn lines(&self, id: StateId) -> Vec<Line> {
        let state = &self.machine.states[id];
        let line = |to, dashed, label| Line { to, dashed, label };
        let mut lines: Vec<Line> = Vec::new();
        let mut retried = state.retry.iter().flat_map(|retrier| &retrier.errors);
        let is_acquire = matches!(self.calls[id], Call::Acquire(_));
        if is_acquire && retried.any(|name| name == HELD) {
            lines.push(line(Some(id), true, Some("Held: asked again".to_owned())));
        }
        if let Kind::Choice { rules, default } = &state.kind {
            let mut ways: Vec<(StateId, Vec<String>)> = Vec::new();
            for (rule, next) in rules {
                let Some(next) = *next else { continue };
                add(&mut ways, next, [labels::condition(rule)]);
            }
            if let Some(default) = *default {
                add(&mut ways, default, ["else".to_owned()]);
            }
            lines.extend(ways.into_iter().map(|(next, conditions)| {
                let label = labels::conditions(&conditions);
                line(Some(next), false, Some(label))
            }));
            return lines;
        }
        // None if it has no success, and Some(None) for the end of the scope.
        let success = match (&state.kind, state.next) {
            (Kind::Succeed | Kind::Fail, _) => None,
            (Kind::Parallel(branches), _)
                if !branches.iter().all(|&branch| self.machine.can_end(branch)) =>
            {
                None
            }
            (_, next) => next.map(Target::state),
        };
        let mut caught: Vec<(StateId, Vec<String>)> = Vec::new();
        for catcher in &state.catch {
            let Some(next) = catcher.next else { continue };
            add(&mut caught, next, catcher.errors.iter().cloned());
        }
        let alone = caught.len() == 1;
        let label = |errors: &[String]| match errors.iter().any(|name| name == ALL) {
            true if alone => "any error".to_owned(),
            true => "other errors".to_owned(),
            false => labels::errors(errors),
        };
        if let Some(to) = success {
            let also = caught.iter().find(|(next, _)| to == Some(*next));
            let also = also.map(|(_, errors)| format!("also {}", label(errors)));
            lines.push(line(to, false, also));
        }
        for (next, errors) in &caught {
            if success != Some(Some(*next)) {
                lines.push(line(Some(*next), true, Some(label(errors))));
            }
        }
        lines
    }
}

fn add(
    ways: &mut Vec<(StateId, Vec<String>)>,
    to: StateId,
    words: impl IntoIterator<Item = String>,
) {
    match ways.iter_mut().find(|(other, _)| *other == to) {
        Some((_, said)) => said.extend(words),
        None => ways.push((to, words.into_iter().collect())),
    }
}

/// A state's own name if it can be an id, so that the text stays readable. Mermaid's keywords begin with lower-case letters.
fn ids(machine: &Machine<'_>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let states = machine.states.iter().enumerate();
    states
        .map(|(nth, state)| {
            let name = state.name;
            let fits = name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_alphanumeric());
            if fits && taken.insert(name) {
                name.to_owned()
            } else {
                format!("s{nth}")
            }
        })
        .collect()
}

const BEFORE: &str = "<!-- drawn from ";
const AFTER: &str = " -->";
const OPEN: &str = "```mermaid";
const CLOSE: &str = "```";

/// The document with every picture redrawn: the Mermaid block below each line `<!-- drawn from FILE -->`.
/// Files are read by `open`, which receives their paths relative to the document.
///
/// # Errors
///
/// If a definition cannot be read, a block is missing below such a line, or there is no such line.
pub fn pictures(
    document: &Source,
    options: &Options,
    open: &dyn Fn(&Path) -> std::io::Result<String>,
) -> Result<String, Unreadable> {
    let mut drawn = String::with_capacity(document.text.len());
    let (mut at, mut found) = (0, false);
    let mut lines = document.text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        drawn.push_str(line);
        let named = line.trim_end().strip_prefix(BEFORE);
        let Some(file) = named.and_then(|rest| rest.strip_suffix(AFTER)) else {
            at += line.len();
            continue;
        };
        found = true;
        let place = at;
        let missing =
            |what: &str| document.unreadable(place, format!("expected {what} below this"));
        let path = Path::new(&document.name)
            .parent()
            .unwrap_or(Path::new(""))
            .join(file);
        let text = open(&path)
            .map_err(|error| document.unreadable(place, format!("{}: {error}", path.display())))?;
        let source = Source::new(path.display().to_string(), text);
        let definitions = definitions(&source, options, open)?.into_iter();
        let definitions = definitions.collect::<Result<Vec<_>, _>>()?;
        let [definition] = definitions.as_slice() else {
            return Err(document.unreadable(place, "expected a file with one state machine in it"));
        };
        let first = lines.next().unwrap_or_default();
        if first.trim_end() != OPEN {
            return Err(missing("a block of mermaid"));
        }
        at += line.len() + first.len();
        loop {
            let old = lines
                .next()
                .ok_or_else(|| missing("the end of its block"))?;
            at += old.len();
            if old.trim_end() == CLOSE {
                let picture = draw(&definition.node, &definition.options);
                drawn.push_str(&[first, &picture, old].concat());
                break;
            }
        }
    }
    if !found {
        return Err(document.unreadable(0, format!("expected a line {BEFORE}FILE{AFTER}")));
    }
    Ok(drawn)
}
