//! Adjusts the plan to the check of the planned machine: adds extends, and takes what may still be running after a failure of a
//! Parallel or a Map, until the checker finds nothing or no change is left.

use crate::check::calls::{Call, Options, calls};
use crate::check::checker::{Checked, check};
use crate::check::finding::Finding;
use crate::check::rule::Rule;
use crate::read::error_names::NO_VALUE;
use crate::read::language::Language;
use crate::read::source::{LARGEST, Source};
use crate::weave::authored::{AuthoredMachine, Kind, Limit, StateId, Target, is_written};
use crate::weave::emit::emit;
use crate::weave::plan::plan;
use crate::weave::refusal::Refusal;
use crate::weave::section::{Names, OpenAfter, Role, Section};
use crate::weave::spec::{Lifetime, Spec};
use std::collections::BTreeSet;

/// The longest ttl in seconds.
const LONGEST: f64 = 86400.0;

pub(crate) struct Refiner<'w, 's> {
    pub machine: &'w AuthoredMachine<'w>,
    pub spec: &'s Spec,
    pub options: &'w Options,
    /// Whether the machine already takes leases.
    pub has_leases: bool,
    /// The findings in the machine before weaving.
    pub known: &'w [Finding],
}

impl<'s> Refiner<'_, 's> {
    /// Returns the woven text.
    pub(crate) fn refine(&self, mut sections: Vec<Section<'s>>) -> Result<String, Refusal> {
        // What one section changes, only the sections around it see.
        let mut rounds = self.machine.scopes.len();
        let mut text = loop {
            let (text, checked) = self.attempt(self.spec, &sections)?;
            if rounds > 0 && self.learn(&checked, &mut sections) {
                rounds -= 1;
                continue;
            }
            let Some(first) = checked.findings.first() else {
                break text;
            };
            // One change per state and round, because several findings may have one cause.
            let mut resolved = BTreeSet::new();
            for finding in &checked.findings {
                self.resolve(finding, &mut sections, &mut resolved);
            }
            if resolved.is_empty() {
                return Err(self.refuse(first, &sections));
            }
        };
        // The added Retry is kept if the lease is long enough, and no shared clause would have to differ.
        for nth in 0..sections.len() {
            if sections[nth].of_execution() {
                continue;
            }
            sections[nth].asks_again = true;
            match self.attempt(self.spec, &sections) {
                Ok((patient, checked)) if checked.findings.is_empty() => text = patient,
                _ => sections[nth].asks_again = false,
            }
        }
        Ok(text)
    }

    fn attempt(&self, spec: &Spec, sections: &[Section<'_>]) -> Result<(String, Checked), Refusal> {
        let plan = plan(self.machine, spec, sections)?;
        let text = emit(self.machine, sections, &plan)?;
        if text.len() > LARGEST {
            let message = format!(
                "woven, the machine would have {} bytes, but Step Functions accepts at most {LARGEST} (1 MB): move a part of it into a machine of its own",
                text.len()
            );
            return Err(Refusal::of(&self.machine.source.name, message));
        }
        let source = Source::new(&self.machine.source.name, text);
        let node = source.read().map_err(|unreadable| {
            Refusal::internal(
                &unreadable.name,
                format!("the output cannot be read: {unreadable}"),
            )
        })?;
        let new = |finding: &Finding| {
            let same = |other: &Finding| {
                (other.rule, &other.state, &other.message)
                    == (finding.rule, &finding.state, &finding.message)
            };
            !self.known.iter().any(same)
        };
        let mut checked = check(&node, self.options);
        checked.findings.retain(new);
        Ok((source.text, checked))
    }

    /// Adds an extend for a lease that may end too early, and the member that it is for to those that are resolved.
    fn resolve(
        &self,
        finding: &Finding,
        sections: &mut [Section<'_>],
        resolved: &mut BTreeSet<StateId>,
    ) {
        if !matches!(finding.rule, Rule::Outlasts | Rule::Unbounded) {
            return;
        }
        if let Some((nth, member)) = self.member(&finding.state, sections)
            && !resolved.contains(&member)
            && self.extend(&mut sections[nth], member)
        {
            resolved.insert(member);
        }
    }

    /// Adds an extend before a member, first on the paths from inside the section.
    fn extend(&self, section: &mut Section<'_>, member: StateId) -> bool {
        let again = self.machine.edges().any(|(slot, target)| {
            let inside = slot
                .from()
                .is_some_and(|from| section.members.contains(&from));
            target == Target::To(member) && inside
        });
        if again && section.extends.insert(member) {
            return true;
        }
        let first = member == section.entry;
        first && !std::mem::replace(&mut section.extends_first, true)
    }

    /// Takes from the check after which failures of a Parallel or a Map something may still be running. Returns whether that is new.
    fn learn(&self, checked: &Checked, sections: &mut [Section<'_>]) -> bool {
        let names = Names::of(self.machine);
        let mut is_new = false;
        for section in sections {
            let acquire = names.name(section, Role::Acquire);
            for (&member, open) in &mut section.open_after {
                let path = self.machine.path_of(member);
                let around = path.strip_suffix(self.machine.states[member].name);
                let acquire = format!("{}{acquire}", around.unwrap_or_default());
                if let Some(errors) = checked.left_by.get(&(path, acquire)) {
                    let learned = OpenAfter::inside(errors);
                    is_new |= *open != learned;
                    *open = learned;
                }
            }
        }
        is_new
    }

    /// A state of the author's.
    fn state(&self, path: &str) -> Option<StateId> {
        let mut states = self.machine.states.iter().enumerate();
        let found =
            states.find(|(id, state)| !is_written(state) && self.machine.path_of(*id) == path);
        found.map(|(id, _)| id)
    }

    /// The member that is this state or contains it.
    fn member(&self, path: &str, sections: &[Section<'_>]) -> Option<(usize, StateId)> {
        let state = self.state(path)?;
        sections.iter().enumerate().find_map(|(nth, section)| {
            let member = self.machine.outermost(state, section.scope)?;
            section.members.contains(&member).then_some((nth, member))
        })
    }

    /// The member whose failure leads to a finding.
    fn failed(&self, finding: &Finding, sections: &[Section<'_>]) -> Option<(usize, StateId)> {
        let mut way = finding.path.iter().rev();
        way.find_map(|step| {
            let mut sections = sections.iter().enumerate().filter(|_| step.caught);
            sections.find_map(|(nth, section)| {
                let member = self.machine.find(section.scope, &step.state)?;
                section.members.contains(&member).then_some((nth, member))
            })
        })
    }

    /// The section to which a finding belongs.
    fn blamed(&self, finding: &Finding, sections: &[Section<'s>]) -> usize {
        // The section whose lease would not be released, not the one that fails.
        let lease = finding.lease.as_deref();
        let lease = lease.filter(|_| finding.rule == Rule::AbortedSiblings);
        let of = |acquire: &str| {
            let mut sections = sections.iter();
            sections.position(|section| self.acquires(acquire, section))
        };
        let member = || self.member(&finding.state, sections).map(|(nth, _)| nth);
        let failed = || self.failed(finding, sections).map(|(nth, _)| nth);
        let found = lease.and_then(of).or_else(member);
        let found = found.or_else(|| of(&finding.state)).or_else(failed);
        found.unwrap_or(0)
    }

    fn refuse(&self, finding: &Finding, sections: &[Section<'s>]) -> Refusal {
        let nth = self.blamed(finding, sections);
        let section = &sections[nth];
        let name = &finding.state;
        let undecided = self.undecided(finding, sections);
        let message = match finding.rule {
            Rule::UnguardedRedrive => format!(
                "set keep_seconds in the section, the time after a failure within which a redrive finds its lease: {name} {}, and only a task in JSONata whose TimeoutSeconds is a number or left out, and whose failure no Catch inside takes, can verify it first",
                finding.message
            ),
            Rule::Unbounded if finding.missing == Some("TimeoutSeconds") => {
                return self.refuse_open(sections, nth, name);
            }
            Rule::Unbounded => self.unbounded(finding, section),
            Rule::Outlasts => {
                let cure = match self.enough(name, nth, sections) {
                    Some(enough) => format!("a ttl_seconds of {enough} is enough"),
                    None => {
                        format!("no ttl_seconds is enough, because the maximum is {LONGEST}")
                    }
                };
                format!("{name} {}: {cure}", finding.message)
            }
            Rule::ReleasedWhileRunning => self.released(finding, sections),
            Rule::TooManyEvents => self.uncounted(finding, section),
            Rule::NoRelease if self.acquires(name, section) => format!(
                "a step of {} may still be running after its failure, so the execution keeps the lease, and then comes back to {name} ({}), which would wait for it: lead that Catch to a Fail, or set ttl_seconds, so that the lease expires",
                section.name,
                finding.trail()
            ),
            Rule::NoRelease if undecided.is_some() => undecided.unwrap_or_default(),
            Rule::AbortedSiblings => format!(
                "{name} {}: catch that failure inside, or put the section around the whole",
                finding.message
            ),
            // The fault is in the author's own states. Any other finding is a fault of this program.
            rule if self.state(name).is_some()
                || matches!(rule, Rule::Express | Rule::TooLarge) =>
            {
                format!("{name} {}: {}", finding.message, rule.remedy())
            }
            _ if self.has_leases => format!(
                "{name} {} ({}): the machine takes leases of its own, which conflict with the section's",
                finding.message,
                finding.trail()
            ),
            rule => {
                let message = format!(
                    "{name} {} [{}] ({})",
                    finding.message,
                    rule.id(),
                    finding.trail()
                );
                return Refusal::internal(&self.machine.source.name, message);
            }
        };
        Refusal::at(&self.spec.source, &section.spec.node, message)
    }

    /// What a state lacks whose time cannot be compared with a ttl.
    fn unbounded(&self, finding: &Finding, section: &Section<'_>) -> String {
        let state = self.state(&finding.state);
        let is_wait = state.is_some_and(|id| matches!(self.machine.states[id].kind, Kind::Wait));
        let what = if is_wait {
            "Seconds that fit"
        } else {
            "a timeout that fits"
        };
        let or = if self.machine.language.is_jsonata() && !section.spec.bound {
            ", or set bound: lease in the section"
        } else {
            ""
        };
        format!(
            "{} {}: give it {what} a lease of {} s{or}",
            finding.state,
            finding.message,
            section.ttl().unwrap_or(0.0)
        )
    }

    /// Why a lease would be released although its work may still be running.
    fn released(&self, finding: &Finding, sections: &[Section<'s>]) -> String {
        let trail = finding.trail();
        let Some((_, member)) = self.failed(finding, sections) else {
            return format!(
                "{trail} releases the lease while work that an earlier state has only started, or left behind, may still be running: wait for its end (.sync), or leave that state out"
            );
        };
        let failed = self.machine.states[member].name;
        if self.machine.states[member].has_scopes() {
            self.not_told_apart(finding, member)
        } else {
            format!(
                "after a timeout of {failed} the section goes on, and its lease would be released while {failed} may still be running ({trail}): lead that Catch out of the section"
            )
        }
    }

    /// Why a lease is not released, if something may still be running after the failures of a member, but not after all of them.
    fn undecided(&self, finding: &Finding, sections: &[Section<'s>]) -> Option<String> {
        let (nth, member) = self.failed(finding, sections)?;
        let is_any = sections[nth].open_after[&member].is_any();
        is_any.then(|| self.not_told_apart(finding, member))
    }

    fn not_told_apart(&self, finding: &Finding, member: StateId) -> String {
        let (failed, trail) = (self.machine.states[member].name, finding.trail());
        if self.machine.states[member].has_scopes() {
            return format!(
                "a failure of {failed} does not show whether something inside is still running ({trail}): catch failures inside, or leave {failed} out"
            );
        }
        format!(
            "{failed} may still be running after its failures, except if it did not start, and one clause takes both ({trail}): let a clause for {NO_VALUE} alone precede it"
        )
    }

    /// A loop of the author's may go round for ever. One that passes the section each time may hold the lease all the while instead.
    fn uncounted(&self, finding: &Finding, section: &Section<'_>) -> String {
        let cure = match self.machine.language {
            Language::Jsonata => "\"page\": \"{% $states.input.page + 1 %}\" and … < 500",
            Language::JsonPath => {
                "\"page.$\": \"States.MathAdd($.page, 1)\" and \"NumericLessThan\": 500"
            }
        };
        let around = self.loop_around(section);
        let or = if around.len() > section.members.len() {
            let names = around.iter().map(|&id| self.machine.states[id].name);
            let names: Vec<_> = names.collect();
            format!(
                ", or put the whole loop into the section ({})",
                names.join(", ")
            )
        } else {
            String::new()
        };
        format!(
            "the section {}: count the rounds in a field of their own, and compare it ({cure}){or}",
            finding.message
        )
    }

    /// The states on the way from the section back into it, with its own, in the order of the text.
    fn loop_around(&self, section: &Section<'_>) -> Vec<StateId> {
        let reached = |from: &BTreeSet<StateId>, is_forward: bool| {
            let mut all = from.clone();
            loop {
                let edges = self.machine.edges().filter_map(|(slot, target)| {
                    let (Some(from), Target::To(to)) = (slot.from(), target) else {
                        return None;
                    };
                    let (from, to) = if is_forward { (from, to) } else { (to, from) };
                    all.contains(&from).then_some(to)
                });
                let more: BTreeSet<StateId> = edges.collect();
                if more.is_subset(&all) {
                    return all;
                }
                all.extend(more);
            }
        };
        let members: BTreeSet<StateId> = section.members.iter().copied().collect();
        let (after, before) = (reached(&members, true), reached(&members, false));
        after.intersection(&before).copied().collect()
    }

    /// Whether this state is the acquire of a section.
    fn acquires(&self, path: &str, section: &Section<'_>) -> bool {
        let name = path.rsplit(" / ").next().unwrap_or_default();
        name == Names::of(self.machine).name(section, Role::Acquire)
    }

    /// Names all tasks without a timeout under leases that expire.
    fn refuse_open(&self, sections: &[Section<'s>], nth: usize, found: &str) -> Refusal {
        let calls = calls(self.machine, self.options);
        let is_open = |section: &Section<'_>, task: StateId| {
            self.machine.limits.get(&task) == Some(&Limit::Absent)
                && matches!(calls[task], Call::Work(_))
                && !section.bounds(self.machine, task)
        };
        let mut open = Vec::new();
        for section in sections.iter().filter(|section| !section.of_execution()) {
            let members = section.members.iter();
            let tasks = members.flat_map(|&member| self.machine.with_inside(member));
            open.extend(tasks.filter(|&task| is_open(section, task)));
        }
        let mut names: Vec<String> = open
            .iter()
            .map(|&task| self.machine.path_of(task))
            .collect();
        if names.is_empty() {
            // A task behind the section, which a lease that is left to expire covers, too.
            names.push(found.to_owned());
        }
        let (have, each) = match names.as_slice() {
            [_] => ("has", ""),
            _ => ("have", " each of them"),
        };
        let mut tasks = open.iter();
        let computes = |task: &StateId| self.machine.states[*task].language.is_jsonata();
        let bound = if !open.is_empty() && tasks.all(computes) {
            ", set bound: lease in the section"
        } else {
            ""
        };
        let message = format!(
            "{} {have} no TimeoutSeconds, and may outlast the lease: give{each} a timeout that fits it{bound}, or leave ttl_seconds out, so that the lease lasts as long as the execution",
            names.join(", ")
        );
        Refusal::at(&self.spec.source, &sections[nth].spec.node, message)
    }

    /// The shortest lease, in whole seconds, that is long enough for a state.
    fn enough(&self, state: &str, nth: usize, sections: &[Section<'s>]) -> Option<f64> {
        let fits = |ttl: f64| {
            let mut spec = self.spec.clone();
            let place = spec
                .sections
                .iter()
                .position(|other| other.node == sections[nth].spec.node)?;
            spec.sections[place].lifetime = Lifetime::Ttl(ttl);
            let longer: Vec<Section<'_>> = sections
                .iter()
                .zip(&spec.sections)
                .map(|(section, spec)| Section {
                    spec,
                    ..section.clone()
                })
                .collect();
            let (_, checked) = self.attempt(&spec, &longer).ok()?;
            let late = |finding: &Finding| finding.rule == Rule::Outlasts && finding.state == state;
            (!checked.findings.iter().any(late)).then_some(())
        };
        fits(LONGEST)?;
        let ttl = sections[nth].ttl()?;
        let (mut short, mut long) = (ttl.ceil(), LONGEST);
        while long - short > 1.0 {
            let middle = f64::midpoint(short, long).floor();
            if fits(middle).is_some() {
                long = middle;
            } else {
                short = middle;
            }
        }
        Some(long)
    }
}
