//! Where the handle of a lease is: in variables, and in the state's data. A missing `ResultPath`, or an `Output` that keeps only
//! the result, loses it.

use crate::check::calls::arguments;
use crate::read::expression as text;
use crate::read::language::Language;
use crate::read::machine::{Catcher, Kind, State, StateId};
use crate::read::node::Node;
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct HandleFlow {
    pub vars: BTreeSet<String>,
    /// Variables with the lease's `safe_until`, without the handle.
    pub clocks: BTreeSet<String>,
    /// Where the outcome of the answer stands, in JSONata or as a variable: `$states.input.outcome`, `$answer.outcome`.
    outcomes: BTreeSet<String>,
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
        handle.assigned(state.node, true);
        handle.answered_outcome(state);
        let data = match (state.language, state.node.get("Output")) {
            (Language::JsonPath, _) => self.answer_path(state),
            (_, Some(output)) if !output.any_text(is_handle_of_result) => self.kept_by(output),
            _ => Data::Somewhere,
        };
        handle.settle(data, (id, None));
        handle
    }

    /// After any other state.
    pub(crate) fn after(&self, id: StateId, state: &State<'_>) -> Self {
        let mut handle = self.clone();
        handle.assigned(state.node, false);
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
        handle.assigned(catcher.node, false);
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
    pub(crate) fn referred(&self, payload: &Node) -> bool {
        let field = payload.field("lease").or_else(|| payload.field("leases"));
        field.unwrap_or(payload).any_text(|said| {
            let bare = text::bare(said);
            if text::variables(&bare)
                .iter()
                .any(|&name| self.vars.contains(name))
            {
                return true;
            }
            match (&self.data, text::path(said)) {
                (Data::At(place), Some(path)) => {
                    place.starts_with(&path) || path.starts_with(place)
                }
                (Data::Somewhere, Some(_)) => true,
                (Data::No, _) => false,
                _ => bare.contains("$states.input"),
            }
        })
    }

    /// Whether this path is the outcome of the answer that had the handle.
    pub(crate) fn tells_outcome(&self, path: &str) -> bool {
        let beside = match (&self.data, text::path(path)) {
            (Data::At(place), Some(path)) => match (place.split_last(), path.split_last()) {
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
            outcomes_in(
                &member.value,
                &format!("${}", member.name()),
                &mut self.outcomes,
            );
        }
        let input = "$states.input";
        match state.node.get("Output") {
            Some(output) => outcomes_in(output, input, &mut self.outcomes),
            None if state.language.is_jsonata() => {
                _ = self.outcomes.insert(format!("{input}.Payload.outcome"));
            }
            None => {}
        }
    }

    /// Forgets the outcomes in variables that are assigned anew, and in data that are replaced.
    fn keep_outcomes(&mut self, node: &Node, passes_on: bool) {
        let assigned = node.members_of("Assign");
        let keeps_input = match node.get("Output") {
            Some(output) => {
                output.text().and_then(text::inside).map(str::trim) == Some("$states.input")
            }
            None => passes_on,
        };
        self.outcomes.retain(|path| {
            let root = path[1..].split('.').next().unwrap_or_default();
            let is_new = assigned.iter().any(|member| member.name() == root);
            !is_new && (root != "states" || keeps_input)
        });
    }

    /// Whether a path in the text ends with a variable that contains the handle.
    fn names(&self, bare: &str) -> bool {
        self.vars
            .iter()
            .any(|var| is_last_step(bare, &format!("${var}")))
    }

    fn settle(&mut self, data: Data, by: (StateId, Option<usize>)) {
        self.data = data;
        if self.vars.is_empty() && self.data == Data::No {
            self.gone.get_or_insert(by);
        } else {
            (self.gone, self.dropped) = (None, false);
        }
    }

    fn assigned(&mut self, node: &Node, answers: bool) {
        for member in node.members_of("Assign") {
            let name = member.name().to_owned();
            let value = &member.value;
            let tells_deadline = value.any_text(|said| {
                let bare = text::bare(said);
                let owners = text::owners(&bare, "safe_until");
                let own = owners.iter().any(|owner| self.vars.contains(*owner));
                own || (answers && !owners.is_empty())
            });
            let of_result = answers && value.any_text(is_handle_of_result);
            let of_handle = value.any_text(|said| self.names(&text::bare(said)));
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
        let keeps = output.any_text(|said| {
            let bare = text::bare(said);
            let of_input = self.data != Data::No && bare.contains("$states.input");
            of_input || self.names(&bare)
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
        let Some(path) = path.and_then(Node::text).and_then(text::path) else {
            // null discards the result.
            return self.data.clone();
        };
        match &self.data {
            Data::At(place) if place.starts_with(&path) || path.starts_with(place) => Data::No,
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
            let path = member.value.text().and_then(text::path);
            if let Some(rest) =
                path.and_then(|path| place.strip_prefix(path.as_slice()).map(<[_]>::to_vec))
            {
                let mut to = vec![key.to_owned()];
                to.extend(rest);
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
            let path = path.and_then(Node::text).and_then(text::path);
            path.unwrap_or_default()
        };
        if let Some(selector) = node.get("ResultSelector") {
            match in_selector(selector) {
                Some(inside) => place.extend(inside),
                None => return self.beside(node),
            }
        } else {
            let resource = node.text_of("Resource");
            let wrapped = resource.is_some_and(|name| name.ends_with(":::lambda:invoke"));
            let steps: &[&str] = if wrapped {
                &["Payload", "lease"]
            } else {
                &["lease"]
            };
            place.extend(steps.iter().map(|step| (*step).to_owned()));
        }
        within(Data::At(place), node.get("OutputPath"))
    }
}

/// Where a value made from an answer has the answer's outcome, below this path.
fn outcomes_in(value: &Node, at: &str, found: &mut BTreeSet<String>) {
    for member in value.members() {
        outcomes_in(&member.value, &format!("{at}.{}", member.name()), found);
    }
    let Some(said) = value.text() else { return };
    let said = text::inside(said).unwrap_or(said).trim();
    match said {
        "$states.result.Payload.outcome"
        | "$states.result.outcome"
        | "$.Payload.outcome"
        | "$.outcome" => _ = found.insert(at.to_owned()),
        "$states.result.Payload" | "$states.result" | "$.Payload" | "$" => {
            found.insert(format!("{at}.outcome"));
        }
        _ if said.starts_with("$merge(") && said.contains("$states.result") => {
            found.insert(format!("{at}.outcome"));
        }
        _ => {}
    }
}

/// Where a `ResultSelector` puts the handle of a response.
fn in_selector(selector: &Node) -> Option<Vec<String>> {
    selector.members().iter().find_map(|member| {
        let key = member.name().to_owned();
        if let Some(said) = member.value.text() {
            let path = text::path(said)?;
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
    match (data, filter.text().and_then(text::path)) {
        (Data::At(place), Some(path)) => {
            let rest = place.strip_prefix(path.as_slice());
            rest.map_or(Data::No, |rest| Data::At(rest.to_vec()))
        }
        (data, Some(_)) => data,
        (_, None) => Data::No,
    }
}

fn is_root(path: Option<&Node>) -> bool {
    path.is_none_or(|path| path.text() == Some("$"))
}

/// Whether it takes the whole handle from a result: `$states.result.Payload.lease`, `$.Payload.leases`.
fn is_handle_of_result(said: &str) -> bool {
    let bare = text::bare(said);
    let of_result = bare.contains("$states.result") || bare.trim_start().starts_with("$.");
    let steps = ["lease", "leases", "Payload", "$states.result"];
    of_result && steps.iter().any(|step| is_last_step(&bare, step))
}

/// Whether a path ends with this step.
fn is_last_step(bare: &str, step: &str) -> bool {
    bare.match_indices(step).any(|(at, _)| {
        let before = bare[..at].chars().next_back();
        let after = bare[at + step.len()..].chars().next();
        let name = |c: char| c.is_alphanumeric() || c == '_';
        !before.is_some_and(name) && !after.is_some_and(|c| name(c) || c == '.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_of_handle_is_no_handle() {
        assert!(is_handle_of_result("{% $states.result.Payload.lease %}"));
        assert!(is_handle_of_result(
            "{% $merge([$states.result.lease, {'key': 'x'}]) %}"
        ));
        assert!(is_handle_of_result("$.Payload.lease"));
        assert!(!is_handle_of_result(
            "{% $states.result.Payload.lease.fencing_token %}"
        ));
        assert!(!is_handle_of_result("{% $states.input %}"));
    }
}
