//! The `request_id` of an acquire: the same for all its attempts, another each time it is entered, and another for each concurrent
//! acquire.

use crate::check::calls::{Call, Request, written_out};
use crate::check::finding::Finding;
use crate::check::items;
use crate::check::rule::Rule;
use crate::check::schema;
use crate::expr::{CLOCK, Expr, Language, Path, RANDOM, Root, Term};
use crate::read::error_names::{KNOWN, NEVER_RAISED, OUTCOME_UNKNOWN, is_lost, matches, nearest};
use crate::read::machine::{Kind, Machine, State, StateId, closure};
use crate::read::node::{Node, Span};
use std::collections::BTreeSet;

pub(crate) fn check(machine: &Machine<'_>, calls: &[Call<'_>], findings: &mut Vec<Finding>) {
    for (id, call) in calls.iter().enumerate() {
        let mut say = |rule, node: Option<&Node>, message: String| {
            let at = node.map_or(machine.states[id].at, |node| node.span);
            findings.push(Finding::of(machine, rule, id, at, message));
        };
        let language = machine.states[id].language;
        let of_a_handle = match call {
            Call::Extend(payload) => Some((&*schema::EXTEND, *payload)),
            Call::Release(payload) => Some((&*schema::RELEASE, *payload)),
            _ => None,
        };
        if let Some((schema, payload)) = of_a_handle {
            let payload = written_out(payload);
            let faults = payload.map(|payload| schema.faults(payload, language));
            for (field, why) in faults.into_iter().flatten() {
                say(Rule::InvalidRequest, Some(field), why);
            }
        }
        let Call::Acquire(request) = call else {
            continue;
        };
        if let Some(why) = same_for_all(request, language) {
            say(Rule::SharedRequest, field(request, "holder"), why);
        }
        for (field, why) in refused(request, language) {
            say(Rule::InvalidRequest, Some(field), why);
        }
        for (key, cure) in literal_keys(machine, id, request) {
            let message = format!(
                "has one key for all executions, because the text is literal: write {cure}"
            );
            say(Rule::LiteralKey, Some(key), message);
        }
        let asked = field(request, "request_id");
        if let Some(why) = unstable(machine, id, request) {
            say(Rule::UnstableRequest, asked, why);
        }
        if is_constant(asked, language) && comes_again(machine, id) {
            let message = "is entered again with the same request_id, whose lease has ended by then: Lease.Consumed".to_owned();
            say(Rule::ConsumedRequest, asked, message);
        }
        let holder = field(request, "holder");
        if let Some(map) = asked.and_then(|asked| items::alike(machine, id, asked, holder)) {
            let mut message = format!(
                "has the same holder and request_id for every item of {} that begins at the same time: these items share one lease",
                machine.states[map].name
            );
            if asked
                .is_some_and(|asked| asked.reads(language, |path| path.is_context(items::CONTEXT)))
            {
                message +=
                    "; Map.Item is documented for ItemSelector, not for the states of an item";
            }
            say(Rule::SharedRequest, asked, message);
        }
        if let Some((other, parallel)) = shared_in_parallel(machine, calls, id, request) {
            let message = format!(
                "has the same holder and request_id as {}, which runs concurrently in {}: they share one lease",
                machine.states[other].name, machine.states[parallel].name
            );
            say(Rule::SharedRequest, asked, message);
        }
    }
}

fn field<'a>(request: &Request<'a>, key: &str) -> Option<&'a Node> {
    request.payload.and_then(|payload| payload.field(key))
}

/// A holder that is written out is that of every execution, which then re-enters what another one has.
fn same_for_all(request: &Request<'_>, language: Language) -> Option<String> {
    let holder = field(request, "holder")?;
    let is_literal = holder.text().is_some() && holder.expr_in(language).is_none();
    (is_literal && request.reentrant).then(|| {
        "has one holder for all executions, and is reentrant: each is given the lease that another one has".to_owned()
    })
}

/// What acquire refuses, or nobody answers: fields that it does not have or that do not go together, and a wait without a token.
fn refused<'a>(request: &Request<'a>, language: Language) -> Vec<(&'a Node, String)> {
    let mut found = at_odds(request);
    let Some(payload) = written_out(request.payload) else {
        return found;
    };
    if request.queued && field(request, "task_token").is_none() {
        let message = match field(request, "wait_seconds") {
            Some(_) => "passes no task_token to acquire, which wait_seconds needs: Lease.Invalid",
            None => {
                "waits for a task token and passes none to acquire, so nobody answers: it waits until its timeout"
            }
        };
        found.push((payload, message.to_owned()));
    }
    if !request.queued
        && let Some(token) = field(request, "task_token")
    {
        let message = "passes a task_token and does not wait for it: its resource has no .waitForTaskToken, so it goes on without the lease";
        found.push((token, message.to_owned()));
    }
    // What a rule above says of a field is said once.
    let faults = schema::ACQUIRE.faults(payload, language).into_iter();
    let is_new =
        |fault: &(&Node, String)| !found.iter().any(|(node, _)| std::ptr::eq(*node, fault.0));
    let faults: Vec<_> = faults.filter(is_new).collect();
    found.extend(faults);
    found
}

/// The fields that do not go with the others, each with the first reason.
fn at_odds<'a>(request: &Request<'a>) -> Vec<(&'a Node, String)> {
    let has = |name: &str| field(request, name).is_some();
    let says = |name: &str, texts: &[&str]| {
        let text = field(request, name).and_then(Node::text);
        text.is_some_and(|text| texts.contains(&text))
    };
    let waits = request.queued || has("task_token");
    let lasts = request.of_execution();
    // When, which fields are refused then, and why.
    let table: [(bool, &[&str], &str); 10] = [
        (
            lasts,
            &["ttl_seconds", "observed_version"],
            "an execution lease lasts as long as the execution",
        ),
        (
            !lasts,
            &["keep_seconds"],
            "only an execution lease is kept for a redrive",
        ),
        (
            true,
            &["callback_id"],
            "it is of durable functions, and a state machine waits with a task_token",
        ),
        (waits, &["keys"], "the queue is of one key"),
        (
            waits && says("if_held", &["fail", "skip"]),
            &["if_held"],
            "with a task token it can only be \"wait\" or \"latest\"",
        ),
        (
            waits && says("lifetime", &["ttl"]),
            &["lifetime"],
            "only an execution lease has a queue",
        ),
        (!waits, &["wait_seconds", "pool"], "it needs a task_token"),
        (
            !waits && says("if_held", &["wait", "latest"]),
            &["if_held"],
            "it needs a task_token",
        ),
        (
            has("keys"),
            &["key", "permits", "observed_version"],
            "it goes with one key, and keys are several",
        ),
        (
            has("observed_version"),
            &["permits"],
            "an observation is of one holder",
        ),
    ];
    let mut found: Vec<(&Node, String)> = Vec::new();
    for (_, names, why) in table.into_iter().filter(|(when, ..)| *when) {
        for name in names {
            let Some(node) = field(request, name) else {
                continue;
            };
            if !found.iter().any(|(other, _)| std::ptr::eq(*other, node)) {
                found.push((node, format!("has {name}, but {why}: Lease.Invalid")));
            }
        }
    }
    found
}

/// The texts of its keys that JSONPath does not compute.
fn texts_of_keys<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a Node> {
    let fields = request.payload.map_or(&[][..], Node::members).iter();
    let keys = fields.filter(|member| matches!(member.key.as_str(), "key" | "keys"));
    keys.flat_map(|member| member.value.list().iter().chain([&member.value]))
}

/// The keys that look computed and are literal text, each with what to write instead.
fn literal_keys<'a>(
    machine: &Machine<'_>,
    id: StateId,
    request: &Request<'a>,
) -> Vec<(&'a Node, String)> {
    let language = machine.states[id].language;
    let found = texts_of_keys(request).filter_map(|node| {
        let cure = language.literal_hole(node)?;
        let place = match language {
            Language::Jsonata => "",
            Language::JsonPath => " in the field \"key.$\"",
        };
        Some((node, cure + place))
    });
    found.collect()
}

fn unstable(machine: &Machine<'_>, id: StateId, request: &Request<'_>) -> Option<String> {
    let mut retry = machine.states[id]
        .retry
        .iter()
        .filter(|retrier| retrier.attempts > 0);
    if let Some(asked) = field(request, "request_id") {
        let word = changing(asked, machine.states[id].language)?;
        retry.next()?;
        return Some(format!(
            "has another request_id in every attempt ({word}): after a lost response its own lease refuses it"
        ));
    }
    let repeats = retry.any(|retrier| {
        OUTCOME_UNKNOWN
            .iter()
            .any(|name| matches(&retrier.errors, name))
    });
    let message = "has no request_id, so every attempt has a random one: after a lost response its own lease refuses it";
    (written_out(request.payload).is_some() && repeats).then(|| message.to_owned())
}

/// What gives a value anew at every attempt.
fn changing(asked: &Node, language: Language) -> Option<&'static str> {
    let mut functions = RANDOM.into_iter().chain(CLOCK);
    let called = functions.find(|function| asked.any_expr(language, |expr| expr.calls(function)));
    let counts = || asked.reads(language, |path| path.is_context(RETRY_COUNT));
    called.or_else(|| counts().then_some("RetryCount"))
}

const RETRY_COUNT: &str = "State.RetryCount";

/// Whether the value stays the same within one execution.
fn is_constant(asked: Option<&Node>, language: Language) -> bool {
    let moves = [
        "State.EnteredTime",
        items::CONTEXT,
        "Task.Token",
        RETRY_COUNT,
    ];
    let is_moving = |path: &Path| moves.iter().any(|part| path.is_context(part));
    asked.is_some_and(|asked| {
        !asked.any_expr(language, Expr::varies) && !asked.reads(language, is_moving)
    })
}

/// Whether an execution may come to this state a second time.
fn comes_again(machine: &Machine<'_>, id: StateId) -> bool {
    let around = machine.enclosing(machine.states[id].scope).into_iter();
    let mut around = around.map(|(around, _)| around);
    let in_loop = |state: StateId| reachable(machine, state).contains(&state);
    let repeats = |state: StateId| {
        let mut retry = machine.states[state].retry.iter();
        retry.any(|retrier| retrier.attempts > 0)
    };
    in_loop(id) || around.any(|state| in_loop(state) || repeats(state))
}

/// All states that a state leads to. It contains itself only if it is in a loop.
pub(crate) fn reachable(machine: &Machine<'_>, from: StateId) -> BTreeSet<StateId> {
    closure(from, |state| machine.successors(state))
}

/// The acquire in an earlier branch with the same request, and the Parallel around both.
fn shared_in_parallel(
    machine: &Machine<'_>,
    calls: &[Call<'_>],
    id: StateId,
    request: &Request<'_>,
) -> Option<(StateId, StateId)> {
    let written = |state: StateId, request: &Request<'_>, key: &str| {
        field(request, key).map(|node| terms(node, &machine.states[state]))
    };
    let own = written(id, request, "request_id")?;
    for (around, scope) in machine.enclosing(machine.states[id].scope) {
        let branches = machine.inner(around).iter();
        let branches = branches.take_while(|&&branch| branch != scope);
        for other in branches.flat_map(|&branch| machine.inside(branch)) {
            let Call::Acquire(beside) = &calls[other] else {
                continue;
            };
            let same = |key: &str| written(id, request, key) == written(other, beside, key);
            let same_key = same("key") && same("keys");
            if written(other, beside, "request_id").as_ref() == Some(&own)
                && same("holder")
                && same_key
            {
                return Some((other, around));
            }
        }
    }
    None
}

/// Whether two acquires of one execution request the same key, as far as that can be known: it is written alike, and nothing that it reads
/// changes between the two.
pub(crate) fn have_one_key(
    machine: &Machine<'_>,
    (one, first): (StateId, &Request<'_>),
    (other, second): (StateId, &Request<'_>),
) -> bool {
    let states = [one, other].map(|id| &machine.states[id]);
    let (Some(first), Some(second)) = (field(first, "key"), field(second, "key")) else {
        return false;
    };
    let key = terms(first, states[0]);
    let is_in_one_scope = states[0].scope == states[1].scope;
    key == terms(second, states[1])
        && key.iter().enumerate().all(|(at, term)| match term {
            // Each expression begins with one that it may refer to.
            Term::Other => at == 0,
            Term::Text(_) | Term::Number(_) | Term::List(_) | Term::Binary(..) => true,
            Term::Call(name, _) => !RANDOM.into_iter().chain(CLOCK).any(|other| other == name),
            Term::Path(path) => match &path.root {
                Root::Context => path.steps.first().is_some_and(|step| step == "Execution"),
                Root::Data => is_in_one_scope && keeps_data(machine, path, one, other),
                _ => false,
            },
            Term::Choice(..) => false,
        })
}

/// Whether no state on the way from one to another writes the field of the data in which a path begins.
fn keeps_data(machine: &Machine<'_>, path: &Path, from: StateId, to: StateId) -> bool {
    let Some(field) = path.steps.first() else {
        return false;
    };
    let after = reachable(machine, from).into_iter().chain([from]);
    let mut between = after.filter(|id| reachable(machine, *id).contains(&to));
    between.all(|id| {
        let state = &machine.states[id];
        let has = |key: &str| state.node.get(key).is_some();
        let writes = match state.kind {
            Kind::Task | Kind::Parallel(_) | Kind::Map(_) => true,
            Kind::Pass => has("Result") || has("Parameters"),
            _ => false,
        };
        let clauses = state.node.list_of("Catch").iter();
        let mut results = clauses.chain(writes.then_some(state.node));
        let is_kept = |node: &Node| {
            let result = node.get("ResultPath");
            let place = result.and_then(Node::place).and_then(<[String]>::first);
            result.is_some_and(Node::is_null) || place.is_some_and(|place| place != field)
        };
        !state.language.is_jsonata()
            && !has("InputPath")
            && !has("OutputPath")
            && results.all(is_kept)
    })
}

/// What a value consists of in this state.
fn terms(value: &Node, state: &State<'_>) -> Vec<Term> {
    let mut all = Vec::new();
    let own_name = Term::Path(Path::new(Root::Context, &["State", "Name"]));
    value.texts(&mut |text| match text.expr_in(state.language) {
        Some(expr) => all.extend(expr.terms.iter().map(|term| {
            let is_own = *term == own_name;
            if is_own {
                Term::Text(state.name.to_owned())
            } else {
                term.clone()
            }
        })),
        None => all.extend(text.text().map(|text| Term::Text(text.to_owned()))),
    });
    all
}

/// Checks the names in Retry and Catch: errors that are never raised, and retries of a lost lease.
pub(crate) fn look_at_clauses(
    machine: &Machine<'_>,
    calls: &[Call<'_>],
    findings: &mut Vec<Finding>,
) {
    for (id, call) in calls.iter().enumerate() {
        let mut say = |rule, at: Span, message: String| {
            findings.push(Finding::of(machine, rule, id, at, message));
        };
        if let Some((at, name)) = lost_retried(machine, id, call) {
            say(
                Rule::LostRetried,
                at,
                format!("retries after Lease.Lost ({name}), but a lost lease stays lost"),
            );
        }
        for (at, name) in unknown(machine, id) {
            let real = NEVER_RAISED.into_iter().find(|(other, _)| *other == name);
            let near = real
                .map(|(_, real)| real)
                .or_else(|| nearest(KNOWN.into_iter(), name, "Lease.".len() + 2))
                .map(|near| format!("; {near}?"))
                .unwrap_or_default();
            say(
                Rule::UnknownError,
                at,
                format!("no function raises {name}{near}"),
            );
        }
    }
}

fn lost_retried<'m>(
    machine: &'m Machine<'_>,
    id: StateId,
    call: &Call<'_>,
) -> Option<(Span, &'m str)> {
    let retry = &machine.states[id].retry;
    for retrier in retry.iter().filter(|retrier| retrier.attempts > 0) {
        if let Some(name) = retrier.errors.iter().find(|name| is_lost(name)) {
            return Some((retrier.at, name));
        }
    }
    let may_lose = match call {
        Call::Extend(_) => true,
        Call::Release(payload) => {
            let strict = payload.and_then(|payload| payload.field("strict"));
            strict.is_some_and(|strict| strict.is_true() || strict.text().is_some())
        }
        _ => false,
    };
    let first = retry
        .iter()
        .find(|retrier| matches(&retrier.errors, "Lease.Lost"))?;
    let name = first
        .errors
        .iter()
        .find(|name| matches(std::slice::from_ref(*name), "Lease.Lost"))?;
    (may_lose && first.attempts > 0).then_some((first.at, name.as_str()))
}

fn unknown<'a>(machine: &Machine<'a>, id: StateId) -> Vec<(Span, &'a str)> {
    let node = machine.states[id].node;
    let clauses = ["Retry", "Catch"]
        .into_iter()
        .flat_map(|key| node.list_of(key));
    let names = clauses.flat_map(|clause| clause.list_of("ErrorEquals"));
    let written = names.filter_map(|name| Some((name.span, name.text()?)));
    let raised = |name: &str| {
        let states = machine.states.iter();
        let mut ends = states.filter_map(|state| state.node.get("Error"));
        KNOWN.contains(&name)
            || ends.any(|error| {
                error.text() == Some(name) || error.expr().is_some_and(|expr| expr.says(name))
            })
    };
    written
        .filter(|(_, name)| {
            NEVER_RAISED.iter().any(|(other, _)| other == name)
                || name.starts_with("Lease.") && !raised(name)
        })
        .collect()
}
