//! The parts that all calls of the functions have in common, in both languages.

use crate::read::error_names::{
    ALL, LOST, MAY_STILL_RUN, NO_VALUE, TASK_FAILED, TOO_LARGE, matches,
};
use crate::read::node::Node;
use crate::weave::authored::{Slot, StateId, Target, comment, errors};
use crate::weave::plan::{Catching, Clause, Planner};
use crate::weave::render::{JsonValue, object};
use crate::weave::retries::again;
use crate::weave::section::{OpenAfter, Role, Section};

const INVOKE: &str = ":states:::lambda:invoke";
/// More than the functions' own timeout of 10 s.
pub(crate) const LIMIT: f64 = 15.0;
impl Planner<'_, '_> {
    /// A call of a function, which keeps the state's data, without its Catch and its Next.
    pub(crate) fn call(
        &self,
        section: usize,
        reason: &str,
        function: &str,
        payload: JsonValue,
    ) -> JsonValue {
        let arguments = self.machine.language.arguments();
        object! {
            "Type" => "Task",
            "Comment" => self.reason(section, reason),
            "Resource" => self.invoke(),
            "TimeoutSeconds" => LIMIT,
            arguments => object! { "FunctionName" => function, "Payload" => payload },
            "Retry" => JsonValue::List(vec![again(true)]),
        }
    }

    pub(crate) fn handle(&self, section: usize) -> JsonValue {
        let lease = format!("${}", self.sections[section].vars.lease());
        let field = self.machine.language.computed("lease", &lease, &lease);
        JsonValue::Object(vec![field])
    }

    /// The variables that a grant or an extend assigns: the lease, by an expression or a path, and that it is verified.
    pub(crate) fn taken(&self, section: usize, jsonata: &str, json_path: &str) -> JsonValue {
        let vars = &self.sections[section].vars;
        let language = self.machine.language;
        let lease = language.computed(&vars.lease(), jsonata, json_path);
        let proven = language.context(&vars.proven(), "Execution.RedriveCount");
        JsonValue::Object(vec![lease, proven])
    }

    /// The `request_id`: new for each entry of the state, another in each item of a Map, and the same for all its attempts.
    pub(crate) fn request(&self, section: usize) -> (String, JsonValue) {
        let section = &self.sections[section];
        let of_item = section.is_of_item(self.machine);
        let entry = of_item.then(|| section.vars.entry());
        let context = ["State.Name", "State.EnteredTime", "Execution.RedriveCount"];
        let language = self.machine.language;
        language.joined("request_id", &context, entry)
    }

    /// The resource that calls a function, in the partition, or its placeholder, that the author's own states name.
    pub(crate) fn invoke(&self) -> String {
        let resources = self.machine.states.iter().enumerate();
        let partition = resources.into_iter().find_map(|(id, _)| {
            let resource = self.machine.node(id).text_of("Resource")?;
            let (partition, _) = resource.split_once(":states:::")?;
            partition.starts_with("arn:").then(|| partition.to_owned())
        });
        partition.unwrap_or_else(|| "arn:aws".to_owned()) + INVOKE
    }

    /// A clause of a written state.
    pub(crate) fn uncaught(&self, section: usize, names: &[&str], next: String) -> JsonValue {
        let failure = self.sections[section].vars.failure();
        self.machine.language.caught(&failure, names, next)
    }

    /// Makes a state JSONata: one that passes no data on, and computes what JSONPath cannot.
    pub(crate) fn in_jsonata(&self, state: &mut JsonValue) {
        if !self.machine.language.is_jsonata() {
            state.set("QueryLanguage", "JSONata".into());
        }
    }

    pub(crate) fn reason(&self, section: usize, reason: &str) -> String {
        comment(&self.sections[section].name, reason)
    }
}

/// Whether a clause, after these, catches any error after which nothing is running.
fn closes(before: &[Vec<&str>], names: &[&str], open: &[&str]) -> bool {
    let is_new = |error: &str| !before.iter().any(|names| matches(names, error));
    let any = names.iter().any(|name| matches!(*name, ALL | TASK_FAILED));
    let own =
        |name: &&str| ![ALL, TASK_FAILED].contains(name) && !open.contains(name) && is_new(name);
    (any && is_new("")) || names.iter().any(own)
}

impl Planner<'_, '_> {
    pub(crate) fn catching(&mut self, section: usize, id: StateId, own: &[usize]) -> Catching {
        let sections = self.sections;
        let open_after = &sections[section].open_after[&id];
        let left = open_after.errors();
        let all = self.machine.catch(id);
        let listed: Vec<Vec<&str>> = own.iter().map(|&nth| errors(&all[nth])).collect();
        let covered = |error: &str| listed.iter().any(|names| matches(names, error));
        let named = |error: &str| listed.iter().any(|names| names.contains(&error));
        let last = listed.iter().position(|names| names.contains(&ALL));

        let mut clauses = Vec::new();
        let mut open = Vec::new();
        // First, because a clause for all errors would take this one.
        if self.is_guarded(&self.sections[section], id) {
            let to = self.renew(section, id);
            clauses.push(Clause::Written(self.unproven(section, id, to)));
        }
        for (at, &nth) in own.iter().enumerate() {
            if Some(at) == last {
                clauses.extend(self.added_clauses(section, id, open_after, &covered, &named));
            }
            let leaves = self.leaves(section, id, nth);
            let first_of_all = |error: &&str| {
                let earlier = &listed[..at];
                matches(&listed[at], error) && !earlier.iter().any(|names| matches(names, error))
            };
            let may_run: Vec<&str> = left.iter().copied().filter(first_of_all).collect();
            // A task without arguments has not started.
            let state = &self.machine.states[id];
            let computes = state.is_task() && state.language.is_jsonata();
            let before = computes && listed[at] == [NO_VALUE];
            let is_open = (open_after.is_any() && !before)
                || (!may_run.is_empty() && !closes(&listed[..at], &listed[at], left));
            if let (Some(to), false, false) = (leaves, is_open, may_run.is_empty()) {
                let copy = self.copy(section, id, &all[nth], &may_run, to);
                clauses.push(Clause::Written(copy));
            }
            clauses.push(Clause::Own(nth));
            open.push(is_open);
        }
        if last.is_none() {
            clauses.extend(self.added_clauses(section, id, open_after, &covered, &named));
        }
        Catching { clauses, open }
    }

    /// The state outside the section that a clause leads to.
    fn leaves(&self, section: usize, id: StateId, nth: usize) -> Option<StateId> {
        match self.machine.edges.get(&Slot::Catch(id, nth)) {
            Some(&Target::To(to)) => {
                let section = &self.sections[section];
                let stays = section.members.contains(&to);
                (!stays && !section.ends_at(self.machine, Target::To(to))).then_some(to)
            }
            _ => None,
        }
    }

    /// The clauses for errors that the author's clauses do not catch.
    fn added_clauses(
        &mut self,
        section: usize,
        id: StateId,
        open_after: &OpenAfter,
        covered: &dyn Fn(&str) -> bool,
        named: &dyn Fn(&str) -> bool,
    ) -> Vec<Clause> {
        let language = self.machine.states[id].language;
        let vars = self.sections[section].vars.clone();
        let mut clauses = Vec::new();
        if self.sections[section].ends_by_failing(self.machine) {
            return Vec::new();
        }
        let is_task = self.machine.states[id].is_task();
        // A read never raises an error about leases.
        let expires = !self.sections[section].of_execution();
        let left = open_after.errors();
        let may_lose = expires && (open_after.is_any() || !left.is_empty() || !is_task);
        if may_lose && !covered(LOST[0]) {
            let to = self.need(section, Role::Lost);
            clauses.push(language.caught(&vars.failure(), &LOST, to));
        }
        let rest = if open_after.is_any() {
            self.sections[section].policy().left_running
        } else {
            Role::AfterFailure
        };
        let open: Vec<&str> = left.iter().copied().filter(|name| !covered(name)).collect();
        if !open.is_empty() {
            let to = self.need(section, Role::FailStillRunning);
            clauses.push(language.caught(&vars.failure(), &open, to));
        }
        let bounds = self.sections[section].bounds(self.machine, id);
        if bounds && !covered(NO_VALUE) {
            let (proven, doubts) = (vars.proven(), vars.doubts());
            let count = format!(
                "{{% $states.context.Execution.RedriveCount = ${proven} ? ${doubts} + 1 : 1 %}}"
            );
            let to = self.renew(section, id);
            let mut clause = self.unproven(section, id, to);
            clause.set(
                "Assign",
                object! { vars.failure() => "{% $states.errorOutput %}", vars.doubts() => count },
            );
            clauses.push(clause);
        } else if open_after.is_any() && is_task && language.is_jsonata() && !covered(NO_VALUE) {
            // A task without arguments has not started.
            let to = self.need(section, Role::AfterFailure);
            clauses.push(language.caught(&vars.failure(), &[NO_VALUE], to));
        }
        let needs_all = !covered("") || (left.is_empty() && !covered(MAY_STILL_RUN[0]));
        // A Parallel or Map passes on the errors of the tasks inside.
        if !named(TOO_LARGE) && !named(TASK_FAILED) && (is_task || needs_all) {
            let to = self.need(section, rest);
            clauses.push(language.caught(&vars.failure(), &[TOO_LARGE], to));
        }
        if needs_all {
            let to = self.need(section, rest);
            clauses.push(language.caught(&vars.failure(), &[ALL], to));
        }
        clauses.into_iter().map(Clause::Written).collect()
    }

    /// Whether a task in a member, or the member itself, is checked for a redrive.
    pub(crate) fn is_guarded(&self, section: &Section<'_>, member: StateId) -> bool {
        let mut tasks = self.machine.with_inside(member).into_iter();
        tasks.any(|task| section.guards(self.machine, task))
    }

    /// The clause of a step that did not start because its timeout has no value.
    fn unproven(&self, section: usize, id: StateId, to: String) -> JsonValue {
        let failure = self.sections[section].vars.failure();
        let language = self.machine.states[id].language;
        language.caught_beside(&failure, &[NO_VALUE], to)
    }

    /// A copy of the author's clause for errors after which something may still be running. Its path does not release the lease.
    fn copy(
        &mut self,
        section: usize,
        id: StateId,
        clause: &Node,
        names: &[&str],
        to: StateId,
    ) -> JsonValue {
        let (failure, lease) = {
            let vars = &self.sections[section].vars;
            (vars.failure(), vars.lease())
        };
        let mut copy = JsonValue::copied(self.machine.source, clause);
        copy.set("ErrorEquals", JsonValue::texts(names));
        let mut assign = copy
            .get("Assign")
            .cloned()
            .unwrap_or(JsonValue::Object(Vec::new()));
        // This field marks it as a copy.
        let (key, value) = self.machine.states[id].language.failure(&failure);
        assign.set(&key, value);
        let next = if let Some(role) = self.sections[section].policy().keep {
            self.need(section, role(to))
        } else {
            // The author's state may be reached without the lease, too: from here on nothing is under it, and it is left to expire.
            assign.set(&lease, JsonValue::Null);
            self.enter(to)
        };
        copy.set("Assign", assign);
        copy.set_last("Next", next.into());
        copy
    }
}
