//! Where the handle of a lease is: in variables, and in the state's data. A missing `ResultPath`, or an `Output` that keeps only
//! the result, loses it.

use crate::check::calls::arguments;
use crate::expr::{Expr, Path, Root, Term};
use crate::read::language::Language;
use crate::read::machine::{Catcher, Kind, State, StateId};
use crate::read::node::Node;
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct HandleFlow {
    pub vars: BTreeSet<String>,
    /// Variables with the lease's `safe_until`, without the handle.
    pub clocks: BTreeSet<String>,
    /// Where the outcome of the response stands, in JSONata or as a variable: `$states.input.outcome`, `$answer.outcome`.
    outcomes: BTreeSet<Path>,
    data: Data,
    /// The handle was only in variables, and they were set to null.
    pub dropped: bool,
    /// The state that overwrote the last copy of the handle, and the clause of its Catch, if any.
    pub gone: Option<(StateId, Option<usize>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum Data {
    #[default]
    No,
    /// The handle is in the data at an unknown place.
    Somewhere,
    At(Vec<String>),
}

impl HandleFlow {
    /// After a state that returns the handle: an acquire, or an extend of this lease.
    pub(crate) fn answered(&self, id: StateId, state: &State<'_>) -> Self {
        let mut handle = self.clone();
        handle.assigned(state.node, state.language, Some(Wrapping::of(state.node)));
        handle.answered_outcome(state);
        let data = match (state.language, state.node.get("Output")) {
            (Language::JsonPath, _) => self.answer_path(state),
            (language, Some(output)) if !output.reads(language, is_answer(language)) => {
                self.kept_by(output)
            }
            _ => Data::Somewhere,
        };
        handle.settle(data, (id, None));
        handle
    }

    /// After any other state.
    pub(crate) fn after(&self, id: StateId, state: &State<'_>) -> Self {
        let mut handle = self.clone();
        handle.assigned(state.node, state.language, None);
        let passes_on = !matches!(state.kind, Kind::Task | Kind::Parallel(_) | Kind::Map(_));
        handle.keep_outcomes(state.node, passes_on);
        let data = match (state.language, state.node.get("Output")) {
            (Language::JsonPath, _) => self.after_jsonpath(state),
            (_, Some(output)) => self.kept_by(output),
            _ if passes_on => self.data.clone(),
            _ => Data::No,
        };
        handle.settle(data, (id, None));
        handle
    }

    /// After a clause of a Catch.
    pub(crate) fn caught(
        &self,
        id: StateId,
        state: &State<'_>,
        nth: usize,
        catcher: &Catcher<'_>,
    ) -> Self {
        let mut handle = self.clone();
        handle.assigned(catcher.node, state.language, None);
        handle.keep_outcomes(catcher.node, false);
        let data = match (state.language, catcher.node.get("Output")) {
            (Language::JsonPath, _) => self.beside(catcher.node),
            (_, Some(output)) => self.kept_by(output),
            _ => Data::No,
        };
        handle.settle(data, (id, Some(nth)));
        handle
    }

    /// In a branch or an item, whose input may be rebuilt.
    pub(crate) fn entered(&self, around: &State<'_>) -> Self {
        let mut handle = self.clone();
        let anew = arguments(around.node).or_else(|| around.node.get("ItemSelector"));
        let is_rebuilt = anew.is_some() || matches!(around.kind, Kind::Map(_));
        if is_rebuilt && !self.dropped {
            handle.data = Data::Somewhere;
        }
        handle
    }

    /// Whether a payload refers to this handle.
    pub(crate) fn referred(&self, payload: &Node, language: Language) -> bool {
        let field = payload.field("lease").or_else(|| payload.field("leases"));
        let refers = |path: &Path| match (&path.root, &self.data) {
            (Root::Variable(name), _) => self.vars.contains(name),
            (Root::Data, Data::At(place)) => are_nested(place, &path.steps),
            (Root::Data | Root::Input, data) => *data != Data::No,
            _ => false,
        };
        field.unwrap_or(payload).reads(language, refers)
    }

    /// Whether this path is the outcome of the response that had the handle.
    pub(crate) fn tells_outcome(&self, path: &Path) -> bool {
        let beside = match (&self.data, &path.root) {
            (Data::At(place), Root::Data) => match (place.split_last(), path.steps.split_last()) {
                (Some((_, place)), Some((last, path))) => last == "outcome" && place == path,
                _ => false,
            },
            _ => false,
        };
        beside || self.outcomes.contains(path)
    }

    fn answered_outcome(&mut self, state: &State<'_>) {
        self.keep_outcomes(state.node, false);
        for member in state.node.members_of("Assign") {
            let at = Path::new(Root::Variable(member.name().to_owned()), &[]);
            outcomes_in(&member.value, &at, &mut self.outcomes);
        }
        match state.node.get("Output") {
            Some(output) => outcomes_in(output, &Path::new(Root::Input, &[]), &mut self.outcomes),
            None if state.language.is_jsonata() => {
                let answer = Path::new(Root::Input, &["Payload", "outcome"]);
                self.outcomes.insert(answer);
            }
            None => {}
        }
    }

    /// Forgets the outcomes in variables that are assigned anew, and in data that are replaced.
    fn keep_outcomes(&mut self, node: &Node, passes_on: bool) {
        let assigned = node.members_of("Assign");
        let keeps_input = match node.get("Output") {
            Some(output) => {
                output.expr().and_then(Expr::path) == Some(&Path::new(Root::Input, &[]))
            }
            None => passes_on,
        };
        self.outcomes.retain(|path| match path.variable() {
            Some(name) => assigned.iter().all(|member| member.name() != name),
            None => keeps_input,
        });
    }

    /// Whether it is a variable that contains the handle.
    fn names(&self, path: &Path) -> bool {
        let is_handle = |name| self.vars.contains(name);
        path.steps.is_empty() && path.variable().is_some_and(is_handle)
    }

    fn settle(&mut self, data: Data, by: (StateId, Option<usize>)) {
        self.data = data;
        if self.vars.is_empty() && self.data == Data::No {
            self.gone.get_or_insert(by);
        } else {
            (self.gone, self.dropped) = (None, false);
        }
    }

    /// By a state that returns the handle, or by any other one.
    fn assigned(&mut self, node: &Node, language: Language, answer: Option<Wrapping>) {
        for member in node.members_of("Assign") {
            let name = member.name().to_owned();
            let value = &member.value;
            let tells_deadline = value.any_expr(language, |expr| {
                let mut owners = expr.owners("safe_until");
                owners.any(|owner| answer.is_some() || self.vars.contains(owner))
            });
            let of_result = answer.is_some_and(|answer| {
                value.reads(language, |path| {
                    is_answer(language)(path) && answer.has(path)
                })
            });
            let of_handle = value.reads(language, |path| self.names(path));
            if tells_deadline {
                self.clocks.insert(name);
            } else if of_result || of_handle {
                self.vars.insert(name);
            } else {
                self.dropped |= self.vars.remove(&name) && value.is_null();
                self.clocks.remove(&name);
            }
        }
    }

    /// The data after an expression becomes the state's output.
    fn kept_by(&self, output: &Node) -> Data {
        let has_handle = self.data != Data::No;
        let keeps = output.reads(Language::Jsonata, |path| {
            (has_handle && path.root == Root::Input) || self.names(path)
        });
        if keeps { Data::Somewhere } else { Data::No }
    }

    fn after_jsonpath(&self, state: &State<'_>) -> Data {
        let node = state.node;
        let data = match state.kind {
            Kind::Task | Kind::Parallel(_) | Kind::Map(_) => self.beside(node),
            Kind::Pass if node.get("Result").is_some() => self.beside(node),
            Kind::Pass => match node.get("Parameters") {
                Some(parameters) if is_root(node.get("ResultPath")) => self.selected(parameters),
                Some(_) => self.beside(node),
                None => within(self.data.clone(), node.get("InputPath")),
            },
            _ => within(self.data.clone(), node.get("InputPath")),
        };
        within(data, node.get("OutputPath"))
    }

    /// The data after a result is written to `ResultPath`.
    fn beside(&self, node: &Node) -> Data {
        let path = node.get("ResultPath");
        if is_root(path) {
            return Data::No;
        }
        let Some(path) = path.and_then(Node::place) else {
            // null discards the result.
            return self.data.clone();
        };
        match &self.data {
            Data::At(place) if are_nested(place, path) => Data::No,
            data => data.clone(),
        }
    }

    /// Where `Parameters` put the part that contains the handle.
    fn selected(&self, parameters: &Node) -> Data {
        let Data::At(place) = &self.data else {
            return self.data.clone();
        };
        for member in parameters.members() {
            let key = member.name();
            let path = member.value.place();
            if let Some(rest) = path.and_then(|path| place.strip_prefix(path)) {
                let mut to = vec![key.to_owned()];
                to.extend_from_slice(rest);
                return Data::At(to);
            }
        }
        Data::No
    }

    fn answer_path(&self, state: &State<'_>) -> Data {
        let node = state.node;
        let path = node.get("ResultPath");
        if path.is_some_and(Node::is_null) {
            return self.data.clone();
        }
        let mut place = if is_root(path) {
            Vec::new()
        } else {
            path.and_then(Node::place).unwrap_or_default().to_vec()
        };
        if let Some(selector) = node.get("ResultSelector") {
            match in_selector(selector) {
                Some(inside) => place.extend(inside),
                None => return self.beside(node),
            }
        } else {
            let resource = node.text_of("Resource");
            let steps: &[&str] = if is_wrapped(resource) {
                &["Payload", "lease"]
            } else {
                &["lease"]
            };
            place.extend(steps.iter().map(|step| (*step).to_owned()));
        }
        within(Data::At(place), node.get("OutputPath"))
    }
}

/// How the response of the function stands in the result of the task.
#[derive(Clone, Copy)]
enum Wrapping {
    /// In `Payload`, beside what Lambda says of the call.
    Payload,
    /// It is the result: of a call by the function's ARN, and what a task token is sent.
    Plain,
    /// A `ResultSelector` has put it anywhere.
    Selected,
}

impl Wrapping {
    fn of(task: &Node) -> Self {
        if task.get("ResultSelector").is_some() {
            Self::Selected
        } else if is_wrapped(task.text_of("Resource")) {
            Self::Payload
        } else {
            Self::Plain
        }
    }

    /// Whether the result has something there.
    fn has(self, path: &Path) -> bool {
        !matches!(
            (self, path.steps.first().map(String::as_str)),
            (Self::Payload, Some("lease" | "leases")) | (Self::Plain, Some("Payload"))
        )
    }
}

fn is_wrapped(resource: Option<&str>) -> bool {
    resource.is_some_and(|name| name.ends_with(":::lambda:invoke"))
}

/// Where a value made from a response has the response's outcome, below this path.
fn outcomes_in(value: &Node, at: &Path, found: &mut BTreeSet<Path>) {
    for member in value.members() {
        outcomes_in(&member.value, &at.step(member.name()), found);
    }
    let Some(expr) = value.expr() else { return };
    let is_of_result = |path: &Path| path.root == expr.language.result();
    match expr.whole() {
        Some(Term::Path(path)) if is_of_result(path) => {
            let steps: Vec<&str> = path.steps.iter().map(String::as_str).collect();
            match steps.as_slice() {
                ["outcome"] | ["Payload", "outcome"] => _ = found.insert(at.clone()),
                [] | ["Payload"] => _ = found.insert(at.step("outcome")),
                _ => {}
            }
        }
        Some(Term::Call(name, _)) if name == "$merge" && expr.paths().any(is_of_result) => {
            found.insert(at.step("outcome"));
        }
        _ => {}
    }
}

/// Where a `ResultSelector` puts the handle of a response.
fn in_selector(selector: &Node) -> Option<Vec<String>> {
    selector.members().iter().find_map(|member| {
        let key = member.name().to_owned();
        if member.value.text().is_some() {
            let path = member.value.place()?;
            return match path.last().map(String::as_str) {
                Some("lease" | "leases") => Some(vec![key]),
                Some("Payload") => Some(vec![key, "lease".to_owned()]),
                None => Some(vec![key, "Payload".to_owned(), "lease".to_owned()]),
                _ => None,
            };
        }
        let mut steps = vec![key];
        steps.extend(in_selector(&member.value)?);
        Some(steps)
    })
}

/// The data after a filter: `InputPath` or `OutputPath`.
fn within(data: Data, filter: Option<&Node>) -> Data {
    let Some(filter) = filter else { return data };
    match (data, filter.place()) {
        (Data::At(place), Some(path)) => {
            let rest = place.strip_prefix(path);
            rest.map_or(Data::No, |rest| Data::At(rest.to_vec()))
        }
        (data, Some(_)) => data,
        (_, None) => Data::No,
    }
}

fn is_root(path: Option<&Node>) -> bool {
    path.is_none_or(|path| path.text() == Some("$"))
}

/// Whether a path is the handle in a result, or contains it: `$states.result.Payload.lease`, `$.Payload.leases`.
fn is_answer(language: Language) -> impl Fn(&Path) -> bool {
    move |path| {
        let last = path.steps.last().map(String::as_str);
        let ends = matches!(last, None | Some("lease" | "leases" | "Payload"));
        path.root == language.result() && ends
    }
}

/// Whether one of two places contains the other.
fn are_nested(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_handle_is_no_handle() {
        let has_handle = |text: &str| {
            let expr = Expr::read(text).unwrap();
            expr.paths().any(is_answer(expr.language))
        };
        for whole in [
            "{% $states.result.Payload.lease %}",
            "{% $merge([$states.result.lease, {'key': 'x'}]) %}",
            "{% $states.result.Payload.leases[0] %}",
            "$.Payload.lease",
            "$",
        ] {
            assert!(has_handle(whole), "{whole}");
        }
        for part in [
            "{% $states.result.Payload.lease.fencing_token %}",
            "{% $states.result.Payload.leases[0].fencing_token %}",
            "{% $states.input %}",
        ] {
            assert!(!has_handle(part), "{part}");
        }
    }
}
