//! The written states, each with its reason as Comment.

use crate::expr::inside;
use crate::read::error_names::{ALL, HELD, LOST, NO_VALUE, SUPERSEDED, matches};
use crate::read::language::Language;
use crate::weave::authored::{Slot, StateId, Target, errors};
use crate::weave::calls::LIMIT;
use crate::weave::plan::{EdgeTarget, How, Planner};
use crate::weave::render::{JsonValue, object};
use crate::weave::retries::{again, held, held_beside};
use crate::weave::section::{Role, wait_in_queue};
use crate::weave::spec::{IfHeld, Lifetime, Unfinished};

/// Where the response to an acquire or an extend has the lease, in JSONata and as a path.
const ANSWERED: (&str, &str) = ("$states.result.Payload.lease", "$.Payload.lease");
/// In the queue the response comes to the task token.
const IN_QUEUE: &str = ".waitForTaskToken";
/// How many seconds longer than `wait_seconds` the state waits, because a sweep may be late.
const LATE: f64 = 120.0;

impl Planner<'_, '_> {
    pub(crate) fn content(&mut self, section: usize, role: Role) -> JsonValue {
        match role {
            Role::Begin => self.begin(section),
            Role::Acquire => self.acquire(section),
            Role::Skipped => self.skipped(section),
            Role::Extend(before) => self.extend(section, before),
            Role::Prove(before) => self.prove(section, before),
            Role::Release(target) => self.release(section, target),
            Role::GiveBack(target) => {
                let next = self.after(section, target);
                let state = self.give_back(section, &next, "The work is done, so the next in the queue starts. A lease that could not be released ends with the execution.");
                ending(state, target)
            }
            Role::Done => object! {
                "Type" => "Succeed",
                "Comment" => self.reason(section, "The work is done. A lease that could not be released ends by itself, so the execution does not fail."),
            },
            Role::ReleaseAfterCaughtError(to) => {
                let next = self.enter(to);
                self.give_back(section, &next, "The step failed and its author catches the failure. Nothing touches the resource any more, so the lease is released before the Catch's target.")
            }
            Role::KeepLease(to) => {
                let next = self.enter(to);
                self.run_out(section, next)
            }
            Role::AfterFailure => {
                let next = self.need(section, Role::Failed);
                self.give_back(section, &next, "The step failed, and nothing touches the resource any more, so the lease is released. If the release fails after its Retries, the step's failure is still the result.")
            }
            Role::Failed => self.fail(section, "Fails with the step's own error and cause. The prefix States. is reserved to the service, and becomes Step.", false),
            Role::WaitForExpiry => {
                let next = self.need(section, Role::FailStillRunning);
                self.run_out(section, next)
            }
            Role::FailStillRunning => self.fail(section, self.sections[section].policy().why_kept, true),
            Role::Lost => self.fail(section, "Another holder may have the key, so there is nothing to release.", false),
        }
    }

    /// What follows a release.
    fn after(&mut self, section: usize, target: Target) -> String {
        match target {
            Target::End => self.need(section, Role::Done),
            Target::To(to) => self.enter(to),
        }
    }

    fn begin(&mut self, section: usize) -> JsonValue {
        let entry = self.sections[section].vars.entry();
        let next = self.need(section, Role::Acquire);
        let random = self
            .machine
            .language
            .computed(&entry, "$uuid()", "States.UUID()");
        object! {
            "Type" => "Pass",
            "Comment" => self.reason(section, "Items may begin in the same millisecond. So each makes a random text, and the acquire has it in its request_id: two items with one request would share a lease."),
            "Assign" => JsonValue::Object(vec![random]),
            "Next" => next,
        }
    }

    fn acquire(&mut self, section: usize) -> JsonValue {
        let spec = self.sections[section].spec;
        let vars = self.sections[section].vars.clone();
        let wait = wait_in_queue(spec.if_held);
        let payload = self.request_of_lease(section);
        let function = &self.spec.functions.acquire;
        let mut state = self.call(section, about_acquire(spec.if_held), function, payload);
        if wait.is_some() {
            state.set("Resource", (self.invoke() + IN_QUEUE).into());
        }
        let limit = wait.map_or(LIMIT, |wait| wait.ceil() + LATE);
        state.set("TimeoutSeconds", limit.into());
        let mut retry = vec![again(wait.is_none())];
        if spec.if_held == IfHeld::Retry {
            retry.insert(0, held());
        } else if let Some(wait) = wait.filter(|_| self.is_among_others(section)) {
            retry.insert(0, held_beside(&self.sections[section].name, wait));
        }
        state.set("Retry", JsonValue::List(retry));
        let mut assign = if wait.is_none() {
            self.taken(section, ANSWERED.0, ANSWERED.1)
        } else {
            // The lease is read from this key, whatever the callback contains.
            let key = expression(spec.key.text().unwrap_or_default());
            let lease = format!("$merge([$states.result.lease, {{'key': {key}}}])");
            self.taken(section, &lease, "$.lease")
        };
        if !self.is_compared(section)
            && let JsonValue::Object(members) = &mut assign
        {
            members.truncate(1);
        }
        if spec.bound {
            assign.set(&vars.doubts(), 0.0.into());
        }
        state.set("Assign", assign);
        self.machine.language.keep_input(&mut state);
        let skips = match spec.if_held {
            IfHeld::Skip => Some(HELD),
            IfHeld::Latest(_) => Some(SUPERSEDED),
            IfHeld::Queue(_) | IfHeld::Retry | IfHeld::Fail => None,
        };
        if let Some(error) = skips {
            let skipped = self.need(section, Role::Skipped);
            let clause = self.uncaught(section, &[error], skipped);
            state.set("Catch", JsonValue::List(vec![clause]));
        }
        let entry = self.sections[section].entry;
        let next = if self.sections[section].extends_first {
            self.renew(section, entry)
        } else {
            self.machine.states[entry].name.to_owned()
        };
        state.set("Next", next.into());
        state
    }

    /// The payload of an acquire.
    fn request_of_lease(&self, section: usize) -> JsonValue {
        let language = self.machine.language;
        let spec = self.sections[section].spec;
        let mut payload = vec![language.specified("key", &spec.key)];
        let mut set = |key: &str, value: JsonValue| payload.push((key.to_owned(), value));
        if let Some(permits) = spec.permits {
            set("permits", permits.into());
        }
        if let Some(pool) = &spec.pool {
            let members = vec![
                language.specified("name", &pool.name),
                ("permits".to_owned(), pool.permits.into()),
            ];
            set("pool", JsonValue::Object(members));
        }
        if let Some(at_least) = spec.at_least {
            set("at_least_seconds", at_least.into());
        }
        payload.push(language.context("holder", "Execution.Id"));
        payload.push(self.request(section));
        let mut set = |key: &str, value: JsonValue| payload.push((key.to_owned(), value));
        match spec.lifetime {
            Lifetime::Ttl(ttl) => set("ttl_seconds", ttl.into()),
            Lifetime::Execution(keep) => {
                set("lifetime", "execution".into());
                if let Some(keep) = keep {
                    set("keep_seconds", keep.into());
                }
                if !self.is_among_others(section) {
                    set("reentrant", true.into());
                }
            }
        }
        if let Some(metadata) = &spec.metadata {
            let members = metadata.members().iter();
            let shown = members.map(|member| language.specified(&member.key, &member.value));
            set("metadata", JsonValue::Object(shown.collect()));
        }
        if let Some(wait) = wait_in_queue(spec.if_held) {
            payload.push(language.context("task_token", "Task.Token"));
            payload.push(("wait_seconds".to_owned(), wait.into()));
            if matches!(spec.if_held, IfHeld::Latest(_)) {
                payload.push(("if_held".to_owned(), "latest".into()));
            }
        }
        JsonValue::Object(payload)
    }

    /// Whether it is in a branch or an item: then the lease of the same execution may be another's.
    fn is_among_others(&self, section: usize) -> bool {
        let scope = &self.machine.scopes[self.sections[section].scope];
        scope.within.is_some()
    }

    /// Whether any state compares the number of redrives with that of the last proof.
    fn is_compared(&self, section: usize) -> bool {
        let section = &self.sections[section];
        let mut members = section.members.iter();
        !section.of_execution() || members.any(|&member| self.is_guarded(section, member))
    }

    /// The author's clause for expressions of this state that fail, because the clause of the check for a redrive precedes it. It receives the failure
    /// of that state, not of this one.
    fn caught_expression(&mut self, section: usize, id: StateId) -> Option<JsonValue> {
        let machine = self.machine;
        let takes = |nth: &usize| matches(&errors(&machine.catch(id)[*nth]), NO_VALUE);
        let nth = machine.own_catches(id).into_iter().find(takes)?;
        let target = *machine.edges.get(&Slot::Catch(id, nth))?;
        let EdgeTarget::To(next) = self.lead(Some(id), target, How::Over) else {
            return None;
        };
        let failure = format!("${}", self.sections[section].vars.failure());
        let mut clause = JsonValue::copied(machine.source, &machine.catch(id)[nth]);
        clause.replace("$states.errorOutput", &failure);
        clause.set("ErrorEquals", JsonValue::texts(&[NO_VALUE]));
        if clause.get("Output").is_none() {
            clause.set("Output", format!("{{% {failure} %}}").into());
        }
        clause.set_last("Next", next.into());
        machine.states[id].language.is_jsonata().then_some(clause)
    }

    /// The proof of an execution lease after a redrive. In JSONata, because JSONPath cannot branch.
    fn prove(&mut self, section: usize, before: StateId) -> JsonValue {
        let sections = self.sections;
        let (vars, entry) = (&sections[section].vars, sections[section].entry);
        let (lease, proven) = (vars.lease(), vars.proven());
        let redrives = "$states.context.Execution.RedriveCount";
        let function = self.spec.functions.extend.as_str();
        let mut state = object! {
            "Type" => "Task",
            "Comment" => self.reason(section, "After a redrive, which skips the acquire: the extend verifies that the lease still lasts. If it has ended, the first step waits for a new one; a later step does not start, because others may have worked in between. Without a redrive an expression of the step has failed, and so does this one."),
        };
        self.in_jsonata(&mut state);
        state.set("Resource", self.invoke().into());
        state.set("TimeoutSeconds", LIMIT.into());
        // Without a redrive the failure is the step's, and its cause stands in this one's.
        let cause = format!("$error($string(${}.Cause))", vars.failure());
        let payload =
            object! { "lease" => format!("{{% {redrives} != ${proven} ? ${lease} : {cause} %}}") };
        state.set(
            "Arguments",
            object! { "FunctionName" => function, "Payload" => payload },
        );
        state.set("Retry", JsonValue::List(vec![again(true)]));
        state.set(
            "Assign",
            object! {
                lease => "{% $states.result.Payload.lease %}",
                proven => format!("{{% {redrives} %}}"),
            },
        );
        state.set("Output", "{% $states.input %}".into());
        let mut catch = Vec::new();
        let ends = sections[section].ends_by_failing(self.machine);
        if before == entry {
            let again = self.need(section, Role::Acquire);
            catch.push(object! {
                "ErrorEquals" => JsonValue::texts(&LOST),
                "Output" => "{% $states.input %}",
                "Next" => again,
            });
        } else if !ends {
            let lost = self.need(section, Role::Lost);
            catch.push(Language::Jsonata.caught(&vars.failure(), &LOST, lost));
        }
        catch.extend(self.caught_expression(section, before));
        if !ends {
            let after = self.need(section, Role::AfterFailure);
            catch.push(Language::Jsonata.caught(&vars.failure(), &[ALL], after));
        }
        if !catch.is_empty() {
            state.set("Catch", JsonValue::List(catch));
        }
        state.set("Next", self.machine.states[before].name.into());
        state
    }

    fn skipped(&self, section: usize) -> JsonValue {
        let failure = self.sections[section].vars.failure();
        let superseded = matches!(self.sections[section].spec.if_held, IfHeld::Latest(_));
        let reason = if superseded {
            "Nothing was started: a later one waits, or waited, and does the work. The execution succeeds."
        } else {
            "Nothing was started: the holder of the key does the work. The execution succeeds."
        };
        let mut state = object! {
            "Type" => "Succeed",
            "Comment" => self.reason(section, reason),
        };
        self.in_jsonata(&mut state);
        let leasehold = if superseded {
            let by = format!("{{% $parse($parse(${failure}.Cause).errorMessage).by %}}");
            object! { "outcome" => "superseded", "by" => by }
        } else {
            let held = format!(
                "{{% $sift($parse($parse(${failure}.Cause).errorMessage), function($value, $name) {{ $not($name in ['message', 'retry_at', 'wait_seconds']) }}) %}}"
            );
            object! { "outcome" => "skipped", "held" => held }
        };
        state.set("Output", object! { "leasehold" => leasehold });
        state
    }

    fn extend(&mut self, section: usize, before: usize) -> JsonValue {
        let vars = self.sections[section].vars.clone();
        let bound = self.sections[section].spec.bound;
        let lost = self.need(section, Role::Lost);
        let after = self.need(section, Role::AfterFailure);
        let name = self.machine.states[before].name;
        let reason = format!(
            "{name} deserves a lease that lasts, and no step may start under one that is not ours any more."
        );
        let function = &self.spec.functions.extend;
        let mut state = self.call(section, &reason, function, self.handle(section));
        state.set("Assign", self.taken(section, ANSWERED.0, ANSWERED.1));
        self.machine.language.keep_input(&mut state);
        let mut catch = vec![self.uncaught(section, &LOST, lost)];
        let mut rest = self.uncaught(section, &[ALL], after);
        if bound && self.machine.language.is_jsonata() {
            // Three doubts in a row mean that the ttl is too short to work. The failure to report is then the step's.
            let (doubts, lease, failure) = (vars.doubts(), vars.lease(), vars.failure());
            let payload = object! { "lease" => format!("{{% ${doubts} <= 3 ? ${lease} %}}") };
            state.set(
                "Arguments",
                object! { "FunctionName" => function.as_str(), "Payload" => payload },
            );
            let kept = format!("{{% ${doubts} <= 3 ? $states.errorOutput : ${failure} %}}");
            rest.set("Assign", object! { failure => kept });
        }
        catch.push(rest);
        state.set("Catch", JsonValue::List(catch));
        state.set("Next", name.into());
        state
    }

    fn release(&mut self, section: usize, target: Target) -> JsonValue {
        let proven = self.sections[section].vars.proven();
        // JSONPath compares two numbers only by intrinsics.
        let (key, strict) = self.machine.language.computed(
            "strict",
            &format!("$states.context.Execution.RedriveCount = ${proven}"),
            &format!("States.ArrayContains(States.Array(${proven}), $$.Execution.RedriveCount)"),
        );
        let mut payload = self.handle(section);
        payload.set(&key, strict);
        let lost = self.need(section, Role::Lost);
        let next = self.after(section, target);
        let catch = vec![self.uncaught(section, &LOST, lost)];
        let state = self.releasing(section, &next, "Releases the lease, so that others need not wait for the ttl. Strict, because a lease that was lost before this point means that another holder may have worked at the same time; a redriven release may find later grants and has nothing to report.", payload, catch);
        ending(state, target)
    }

    fn give_back(&self, section: usize, next: &str, reason: &str) -> JsonValue {
        self.releasing(section, next, reason, self.handle(section), Vec::new())
    }

    /// A call of release. `next` follows also if it fails, unless these clauses catch that.
    fn releasing(
        &self,
        section: usize,
        next: &str,
        reason: &str,
        payload: JsonValue,
        mut catch: Vec<JsonValue>,
    ) -> JsonValue {
        let language = self.machine.language;
        let mut state = self.call(section, reason, &self.spec.functions.release, payload);
        language.keep_input(&mut state);
        let mut not_released = object! { "ErrorEquals" => JsonValue::texts(&[ALL]) };
        language.keep_input(&mut not_released);
        not_released.set("Next", next.into());
        catch.push(not_released);
        state.set("Catch", JsonValue::List(catch));
        state.set("Next", next.into());
        state
    }

    fn run_out(&self, section: usize, next: String) -> JsonValue {
        let lease = self.sections[section].vars.lease();
        let dropped = object! { lease.clone() => JsonValue::Null };
        match self.sections[section].spec.unfinished {
            Unfinished::Wait => {
                let (key, until) = self.machine.language.time_left(&lease);
                object! {
                    "Type" => "Wait",
                    "Comment" => self.reason(section, "A started step may still be running. So nothing is released, neither here nor when the execution has ended: the lease expires first."),
                    key => until,
                    "Assign" => dropped,
                    "Next" => next,
                }
            }
            Unfinished::Leave => object! {
                "Type" => "Pass",
                "Comment" => self.reason(section, "A started step may still be running, so the lease is left to expire: from here on no state has its handle."),
                "Assign" => dropped,
                "Next" => next,
            },
        }
    }

    fn fail(&self, section: usize, reason: &str, is_open: bool) -> JsonValue {
        let failure = self.sections[section].vars.failure();
        // Who answers a task token may leave out both, which are null then.
        let own = format!(
            "$type(${failure}.Error) = 'string' ? $replace(${failure}.Error, /^States[.]/, 'Step.') : 'Step.Failed'"
        );
        let error = if is_open {
            format!("{{% ${failure}.Error = 'States.Timeout' ? 'Lease.StepTimeout' : {own} %}}")
        } else {
            format!("{{% {own} %}}")
        };
        let mut state = object! { "Type" => "Fail", "Comment" => self.reason(section, reason) };
        self.in_jsonata(&mut state);
        state.set("Error", error.into());
        let cause = if is_open {
            format!(
                "{{% $type(${failure}.Cause) = 'string' and ${failure}.Cause != '' ? ${failure}.Cause : ${failure}.Error = 'States.Timeout' ? '{TIMED_OUT}' : '' %}}"
            )
        } else {
            format!("{{% $type(${failure}.Cause) = 'string' ? ${failure}.Cause : '' %}}")
        };
        state.set("Cause", cause.into());
        state
    }
}

/// Why a step failed with `Lease.StepTimeout`: of a timeout Step Functions gives no cause.
const TIMED_OUT: &str = "The step reached its timeout and may still run, so nothing was released. The limit is its own, or the ttl less the guard and the time that was used before: a longer ttl_seconds gives the step more.";

/// A state that ends the scope after its success, if its target is the end.
fn ending(mut state: JsonValue, target: Target) -> JsonValue {
    if target == Target::End {
        state.remove("Next");
        state.set("End", true.into());
    }
    state
}

/// A text as a literal in a JSONata expression.
fn expression(text: &str) -> String {
    match inside(text) {
        Some(inside) => format!("({})", inside.trim()),
        None => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
    }
}

/// What the state says that acquires the lease.
const fn about_acquire(if_held: IfHeld) -> &'static str {
    match if_held {
        IfHeld::Retry => {
            "All Retries of this entry use one request_id, so that a retry after a lost response gets the same lease; a redrive is a new request. Lease.Held is retried 60 times, after 1 s at first and 10 s at last, with full jitter. Refusals are not caught, so the execution ends with their names. The handle is a variable, which no step's result can overwrite."
        }
        IfHeld::Fail => {
            "All Retries of this entry use one request_id, so that a retry after a lost response gets the same lease; a redrive is a new request. Lease.Held is neither retried nor caught, so the execution ends with that name. The handle is a variable, which no step's result can overwrite."
        }
        IfHeld::Skip => {
            "All Retries of this entry use one request_id, so that a retry after a lost response gets the same lease; a redrive is a new request. Lease.Held is not retried, because the holder does the work. The handle is a variable, which no step's result can overwrite."
        }
        IfHeld::Queue(_) => {
            "Waits in the queue. The lease arrives through the task token, at once if the key is free, and lasts until the execution ends. All Retries of this entry use one request_id, so that a new attempt keeps its place. After wait_seconds a sweep ends the wait with Lease.QueueTimeout; the two minutes more are for a late sweep."
        }
        IfHeld::Latest(_) => {
            "Waits in the queue, and only the newest does: it supersedes everybody who waits already, with Lease.Superseded. The lease arrives through the task token, at once if the key is free, and lasts until the execution ends. All Retries of this entry use one request_id, so that a new attempt keeps its place. After wait_seconds a sweep ends the wait with Lease.QueueTimeout; the two minutes more are for a late sweep."
        }
    }
}
