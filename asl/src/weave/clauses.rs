//! What a Catch in a section lists: the author's clauses, and ours where they leave something out.

use crate::read::error_names::{ALL, LOST, MAY_RUN, NO_VALUE, TASK_FAILED, TOO_LARGE, matches};
use crate::read::node::Node;
use crate::weave::machine::{StateId, errors};
use crate::weave::piece::{Piece, object};
use crate::weave::plain::{Slot, Target};
use crate::weave::plan::{Clause, Planner};
use crate::weave::role::Role;
use crate::weave::section::Failing;

/// The Catch of a member.
pub(crate) struct Catching {
    pub clauses: Vec<Clause>,
    /// For each of the author's clauses, whether what it catches may still be at work.
    pub open: Vec<bool>,
}

/// The errors that leave something at work, where not all do.
fn left_by(failing: Failing) -> &'static [&'static str] {
    match failing {
        Failing::ByError => &MAY_RUN,
        Failing::ByTimeout => &MAY_RUN[..1],
        Failing::Open | Failing::Over => &[],
    }
}

/// Whether a clause catches, behind these, anything after which nothing is at work.
fn closes(before: &[Vec<&str>], names: &[&str], left: &[&str]) -> bool {
    let is_new = |error: &str| !before.iter().any(|names| matches(names, error));
    let any = names.iter().any(|name| matches!(*name, ALL | TASK_FAILED));
    let own =
        |name: &&str| ![ALL, TASK_FAILED].contains(name) && !left.contains(name) && is_new(name);
    (any && is_new("")) || names.iter().any(own)
}

impl Planner<'_, '_> {
    pub(crate) fn catching(&mut self, section: usize, id: StateId, own: &[usize]) -> Catching {
        let failing = self.sections[section].failing(self.machine, id);
        let left = left_by(failing);
        let all = self.machine.catch(id);
        let listed: Vec<Vec<&str>> = own.iter().map(|&nth| errors(&all[nth])).collect();
        let covered = |error: &str| listed.iter().any(|names| matches(names, error));
        let named = |error: &str| listed.iter().any(|names| names.contains(&error));
        let last = listed.iter().position(|names| names.contains(&ALL));

        let mut clauses = Vec::new();
        let mut open = Vec::new();
        for (at, &nth) in own.iter().enumerate() {
            if Some(at) == last {
                clauses.extend(self.ours(section, id, failing, &covered, &named));
            }
            let leaves = self.leaves(section, id, nth);
            let first_of_all = |error: &&str| {
                let earlier = &listed[..at];
                matches(&listed[at], error) && !earlier.iter().any(|names| matches(names, error))
            };
            let may_run: Vec<&str> = left.iter().copied().filter(first_of_all).collect();
            let is_open = match failing {
                Failing::Open => true,
                Failing::Over => false,
                _ => !closes(&listed[..at], &listed[at], left),
            };
            if let (Some(to), false, false) = (leaves, is_open, may_run.is_empty()) {
                let copy = self.copy(section, id, &all[nth], &may_run, to);
                clauses.push(Clause::Written(copy));
            }
            clauses.push(Clause::Own(nth));
            open.push(is_open);
        }
        if last.is_none() {
            clauses.extend(self.ours(section, id, failing, &covered, &named));
        }
        Catching { clauses, open }
    }

    /// The state outside of the section that a clause leads to.
    fn leaves(&self, section: usize, id: StateId, nth: usize) -> Option<StateId> {
        match self.plain.ways.get(&Slot::Catch(id, nth)) {
            Some(&Target::To(to)) if !self.sections[section].members.contains(&to) => Some(to),
            _ => None,
        }
    }

    /// What the author's clauses leave out.
    fn ours(
        &mut self,
        section: usize,
        id: StateId,
        failing: Failing,
        covered: &dyn Fn(&str) -> bool,
        named: &dyn Fn(&str) -> bool,
    ) -> Vec<Clause> {
        let jsonata = self.machine.states[id].jsonata;
        let vars = self.sections[section].vars.clone();
        let mut clauses = Vec::new();
        let is_task = self.machine.states[id].is_task();
        // What only looks knows nothing of leases.
        let may_lose = failing != Failing::Over || !is_task;
        if may_lose && !covered(LOST[0]) {
            let to = self.need(section, Role::Lost);
            clauses.push(failed(jsonata, &vars.failure(), &LOST, to));
        }
        let rest = if failing == Failing::Open {
            Role::RunOut
        } else {
            Role::AfterFailure
        };
        let left = left_by(failing);
        if !left.is_empty() {
            let open: Vec<&str> = left.iter().copied().filter(|name| !covered(name)).collect();
            if !open.is_empty() {
                let to = self.need(section, Role::MayRun);
                clauses.push(failed(jsonata, &vars.failure(), &open, to));
            }
        }
        let bounds = self.sections[section].bounds(self.machine, self.plain, id);
        if bounds && !covered(NO_VALUE) {
            let (proven, doubts) = (vars.proven(), vars.doubts());
            let count = format!(
                "{{% $states.context.Execution.RedriveCount = ${proven} ? ${doubts} + 1 : 1 %}}"
            );
            let to = self.need(section, Role::Extend(id));
            let mut clause = failed(jsonata, &vars.failure(), &[NO_VALUE], to);
            clause.set(
                "Assign",
                object! { vars.failure() => "{% $states.errorOutput %}", vars.doubts() => count },
            );
            clause.set("Output", "{% $states.input %}".into());
            // The next state is the last field, here as everywhere.
            if let Piece::Object(members) = &mut clause {
                members.swap(2, 3);
            }
            clauses.push(clause);
        }
        let needs_all = !covered("") || (left.is_empty() && !covered(MAY_RUN[0]));
        // A Parallel or Map passes on what fails inside, and that is a task's.
        if !named(TOO_LARGE) && !named(TASK_FAILED) && (is_task || needs_all) {
            let to = self.need(section, rest);
            clauses.push(failed(jsonata, &vars.failure(), &[TOO_LARGE], to));
        }
        if needs_all {
            let to = self.need(section, rest);
            clauses.push(failed(jsonata, &vars.failure(), &[ALL], to));
        }
        clauses.into_iter().map(Clause::Written).collect()
    }

    /// The author's clause for errors after which something may be at work: nothing is given back on the way.
    fn copy(
        &mut self,
        section: usize,
        id: StateId,
        clause: &Node,
        names: &[&str],
        to: StateId,
    ) -> Piece {
        let failure = self.sections[section].vars.failure();
        let jsonata = self.machine.states[id].jsonata;
        let mut copy = Piece::from(clause);
        copy.set("ErrorEquals", Piece::texts(names));
        let mut assign = copy
            .get("Assign")
            .cloned()
            .unwrap_or(Piece::Object(Vec::new()));
        // By this it is known for a copy.
        let (key, value) = kept(jsonata, &failure);
        assign.set(&key, value);
        copy.set("Assign", assign);
        let next = self.need(section, Role::Leave(to));
        if let Piece::Object(members) = &mut copy {
            members.retain(|(key, _)| key != "Next");
            members.push(("Next".to_owned(), next.into()));
        }
        copy
    }
}

/// The failure, in a variable.
fn kept(jsonata: bool, failure: &str) -> (String, Piece) {
    if jsonata {
        (failure.to_owned(), "{% $states.errorOutput %}".into())
    } else {
        (format!("{failure}.$"), "$".into())
    }
}

/// A clause that keeps the failure, and leads on.
pub(crate) fn failed(jsonata: bool, failure: &str, names: &[&str], next: String) -> Piece {
    let mut clause = object! {
        "ErrorEquals" => Piece::texts(names),
        "Assign" => Piece::Object(vec![kept(jsonata, failure)]),
    };
    if !jsonata {
        clause.set("ResultPath", Piece::Null);
    }
    clause.set("Next", next.into());
    clause
}
