//! The classification of tasks: a call of Leasehold, a read, a write that checks its lease, or work to be protected.

use crate::check::schema;
use crate::expr::{Language, Path};
use crate::read::machine::{Kind, Machine, State};
use crate::read::node::{Node, Value};
use crate::read::timing;
use std::collections::HashMap;

/// What a state calls.
#[derive(Debug)]
pub(crate) enum Call<'a> {
    Acquire(Request<'a>),
    /// The payload.
    Extend(Option<&'a Node>),
    /// The payload.
    Release(Option<&'a Node>),
    /// A read, which may be late because it changes nothing.
    Read,
    /// A write conditioned on the lease. If it is late, it changes nothing.
    Fenced,
    /// Everything else: the work that a lease protects.
    Work(StillRunning),
    /// The state is no task.
    Nothing,
}

/// What may still be running after a task has failed without a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StillRunning {
    /// Nothing is running.
    No,
    /// The service stops the job, or the request ends soon. Both a release and letting the lease expire are right.
    Maybe,
    /// A function or a worker, which the service does not stop.
    Yes,
}

impl StillRunning {
    /// After one of two failures that cannot be distinguished.
    pub(crate) fn or(self, other: Self) -> Self {
        let worst = self.max(other);
        if worst == Self::Maybe {
            self.min(other)
        } else {
            worst
        }
    }
}

/// An acquire.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub payload: Option<&'a Node>,
    /// It waits in the queue, and the response comes to a task token.
    pub queued: bool,
    /// That somebody else holds the key is an answer, not an error.
    pub skips: bool,
    pub reentrant: bool,
    pub lifetime: Lifetime,
}

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// In ms. `None` if it is not a literal number.
    Ttl(Option<u64>),
    /// As long as the execution. `keeps` if it stays for a redrive after a failure.
    Execution { keeps: bool },
}

impl Call<'_> {
    /// Whether it is a call of Leasehold's functions.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Acquire(_) | Self::Extend(_) | Self::Release(_))
    }
}

impl Request<'_> {
    pub(crate) fn of_execution(&self) -> bool {
        matches!(self.lifetime, Lifetime::Execution { .. })
    }
}

pub(crate) fn calls<'a>(machine: &Machine<'a>, options: &Options) -> Vec<Call<'a>> {
    let states = machine.states.iter();
    states.map(|state| call(state, options)).collect()
}

fn call<'a>(state: &State<'a>, options: &Options) -> Call<'a> {
    if !matches!(state.kind, Kind::Task) {
        return Call::Nothing;
    }
    let resource = state.node.text_of("Resource").unwrap_or_default();
    let arguments = arguments(state.node);
    if let Some((function, payload)) = function(resource, state.node) {
        match verb(&function, payload, options) {
            Some(Verb::Acquire) => return Call::Acquire(request(resource, payload)),
            Some(Verb::Extend) => return Call::Extend(payload),
            Some(Verb::Release) => return Call::Release(payload),
            None => return Call::Work(StillRunning::Yes),
        }
    }
    if is_read(resource) {
        return Call::Read;
    }
    if resource.contains("dynamodb:")
        && arguments.is_some_and(|arguments| is_fenced(arguments, state.language))
    {
        return Call::Fenced;
    }
    let ends = [".waitForTaskToken", ":lambda:invoke"];
    let at_work = ends.iter().any(|end| resource.ends_with(end))
        || resource.contains(":activity:")
        || outlives_errors(state.node);
    Call::Work(if at_work {
        StillRunning::Yes
    } else {
        StillRunning::Maybe
    })
}

/// Whether the work of a task may still be running after any of its errors, because no error shows that it did not begin: an
/// Express workflow, which goes on when the request for it has failed. Its own failure is a response, not an error.
pub(crate) fn outlives_errors(task: &Node) -> bool {
    let resource = task.text_of("Resource");
    resource.is_some_and(|resource| resource.ends_with(":sfn:startSyncExecution"))
}

/// Whether a task starts an execution under a lease, by with-lease or the function start, by what it gives it.
pub(crate) fn starts_with_lease(task: &Node) -> bool {
    let given = |name| arguments(task).and_then(|arguments| arguments.field(name));
    let names_both = |given: &Node| {
        let has = |key: &str| given.field(key).is_some();
        has("state_machine_arn") && has("key")
    };
    ["Input", "Payload"]
        .into_iter()
        .filter_map(given)
        .any(names_both)
}

/// The arguments of a task.
pub(crate) fn arguments(task: &Node) -> Option<&Node> {
    task.get("Arguments").or_else(|| task.get("Parameters"))
}

/// The Lambda function that a task calls, if any, and its payload.
fn function<'a>(resource: &str, task: &'a Node) -> Option<(String, Option<&'a Node>)> {
    let arguments = arguments(task);
    if resource.contains(":::lambda:invoke") {
        let name = arguments.and_then(|arguments| arguments.field("FunctionName"));
        let payload = arguments.and_then(|arguments| arguments.field("Payload"));
        return Some((name.map(name_of).unwrap_or_default(), payload));
    }
    let name = task.get("Resource").map(name_of).unwrap_or_default();
    let is_other = name.contains(":states:::") || name.contains(":activity:");
    // A substitution such as `${CountFunctionArn}` counts as a function.
    let is_lambda =
        !is_other && !name.is_empty() && (name.contains(":function:") || !name.starts_with("arn:"));
    is_lambda.then_some((name, arguments))
}

/// A function's name as written. `!GetAtt X.Arn` and `!Ref X` in a template become `${X}`.
pub(crate) fn name_of(node: &Node) -> String {
    match node.tag.as_deref() {
        Some("GetAtt" | "Ref") => return attribute(node),
        Some("Sub") => return substituted(node),
        Some("ImportValue") => return exported(node.text().unwrap_or_default()),
        _ => {}
    }
    if let Some(text) = node.text() {
        return text.to_owned();
    }
    // The long forms.
    let [member] = node.members() else {
        return String::new();
    };
    match member.key.as_str() {
        "Ref" | "Fn::GetAtt" => attribute(&member.value),
        "Fn::Sub" => substituted(&member.value),
        "Fn::ImportValue" => exported(&name_of(&member.value)),
        _ => String::new(),
    }
}

/// An export's name. CDK puts the name of the exporting stack and a colon before it.
fn exported(name: &str) -> String {
    name.rsplit(':').next().unwrap_or_default().to_owned()
}

/// `X.Arn` or `[X, Arn]`.
fn attribute(node: &Node) -> String {
    let parts: Vec<&str> = node
        .list()
        .iter()
        .chain([node])
        .filter_map(Node::text)
        .collect();
    format!("${{{}}}", parts.join(".").trim_end_matches(".Arn"))
}

/// `"${X.Arn}"` or `["${X.Arn}", {…}]`.
fn substituted(node: &Node) -> String {
    let text = node.list().first().unwrap_or(node).text();
    text.unwrap_or_default().replace(".Arn}", "}")
}

fn verb(function: &str, payload: Option<&Node>, options: &Options) -> Option<Verb> {
    let written = function.trim();
    let plain = written.trim_start_matches("${").trim_end_matches('}');
    if let Some(&verb) = options
        .names
        .get(plain)
        .or_else(|| options.names.get(written))
    {
        return verb;
    }
    let verb = named(plain)?;
    let sure = is_sure(plain);
    let written = payload.filter(|node| !node.members().is_empty());
    let Some(written) = written else {
        return sure.then_some(verb);
    };
    // A name with release in it may mean something else. A literal payload decides: one that is wrong is still a request.
    let has = |key: &str| written.field(key).is_some();
    let fits = match verb {
        Verb::Acquire => (has("key") || has("keys")) && (has("holder") || has("ttl_seconds")),
        Verb::Extend | Verb::Release => has("lease") || has("leases"),
    };
    let all = [&*schema::ACQUIRE, &*schema::EXTEND, &*schema::RELEASE];
    let is_known = |name: &str| all.iter().any(|schema| schema.has(name));
    let is_ours = || {
        sure && written
            .members()
            .iter()
            .any(|member| is_known(member.name()))
    };
    (fits || is_ours()).then_some(verb)
}

/// The verb in a function's name: the last word, or the one before "function": `my-stack-acquire`, `AcquireFunctionArn`,
/// `arn:…:function:stack-ExtendFunction-1A2B3C:live`.
pub(crate) fn named(name: &str) -> Option<Verb> {
    let words = words(own_name(name));
    let says = |word: &str| match word {
        "acquire" => Some(Verb::Acquire),
        "extend" => Some(Verb::Extend),
        "release" => Some(Verb::Release),
        _ => None,
    };
    let mut found = words.iter().enumerate().filter_map(|(at, word)| {
        let after = words.get(at + 1).map(String::as_str);
        let fits = matches!(
            after,
            None | Some("function" | "lambda" | "fn" | "arn" | "name")
        );
        says(word).filter(|_| fits)
    });
    found.next_back()
}

/// Whether a name consists of a verb alone, or mentions leases: `AcquireFunction`, `release`, `my-leases-extend`, but not
/// `press-release`.
pub(crate) fn is_sure(name: &str) -> bool {
    let words = words(own_name(name));
    let beside = words.iter().filter(|word| {
        !matches!(
            word.as_str(),
            "acquire" | "extend" | "release" | "function" | "lambda" | "fn" | "arn" | "name"
        )
    });
    words.iter().any(|word| word.starts_with("lease")) || beside.count() == 0
}

/// A function's name without the rest of its ARN.
fn own_name(name: &str) -> &str {
    let name = name.split(":function:").last().unwrap_or(name);
    name.split(':').next().unwrap_or(name)
}

fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            let begins = !last.is_ascii_alphanumeric()
                || (c.is_ascii_uppercase() && last.is_ascii_lowercase());
            if begins {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(c.to_ascii_lowercase());
            }
        }
        last = c;
    }
    words
}

impl Request<'_> {
    /// The field by which a re-entrant request asks for another lease than `had` was granted; none if that is not written out.
    pub(crate) fn differs_from(&self, had: &Self) -> Option<&'static str> {
        let pool = |of: &Self| Some(of.payload?.field("pool")?.field("name")?.text()?.to_owned());
        if pool(self).is_some() && pool(self) != pool(had) {
            return Some("pool");
        }
        (self.permits() != had.permits()).then_some("permits")
    }

    /// Whether others may have the key at the same time.
    pub(crate) fn is_semaphore(&self) -> bool {
        self.permits() != Some(1.0)
    }

    fn permits(&self) -> Option<f64> {
        let permits = self.payload.and_then(|payload| payload.field("permits"));
        permits.map_or(Some(1.0), Node::literal_number)
    }
}

fn request<'a>(resource: &str, payload: Option<&'a Node>) -> Request<'a> {
    let field = |key: &str| payload.and_then(|payload| payload.field(key));
    let text = |key: &str| field(key).and_then(Node::text);
    // A payload that is one expression has its fields in the expression.
    let says = |word: &str| {
        payload
            .and_then(Node::expr)
            .is_some_and(|whole| whole.says(word))
    };
    let queued = resource.ends_with(".waitForTaskToken");
    let says_so = text("lifetime") == Some("execution") || (says("lifetime") && says("execution"));
    let keep = field("keep_seconds");
    let keeps = keep.is_some_and(|keep| keep.literal_number() != Some(0.0));
    let of_execution =
        field("task_token").is_some() || says_so || (queued && written_out(payload).is_none());
    Request {
        payload,
        queued,
        skips: text("if_held") == Some("skip"),
        reentrant: field("reentrant").is_some_and(Node::is_true),
        lifetime: if of_execution {
            let keeps = keeps || says("keep_seconds");
            Lifetime::Execution { keeps }
        } else {
            Lifetime::Ttl(ttl(payload))
        },
    }
}

/// The payload, unless it is one expression, in which a missing field cannot be known.
pub(crate) fn written_out(payload: Option<&Node>) -> Option<&Node> {
    payload.filter(|payload| !payload.members().is_empty())
}

/// The `ttl_seconds` of a payload, in ms, if it is a literal number.
pub(crate) fn ttl(payload: Option<&Node>) -> Option<u64> {
    let seconds = payload?.field("ttl_seconds")?.literal_number()?;
    Some(timing::millis(seconds))
}

/// Whether an integration only reads.
fn is_read(resource: &str) -> bool {
    if !resource.starts_with("arn:") || !resource.contains(":states:::") {
        return false;
    }
    let action = resource.rsplit(':').next().unwrap_or_default();
    if action.contains('.') {
        return false;
    }
    let looks = [
        "get",
        "list",
        "describe",
        "query",
        "scan",
        "batchGet",
        "head",
        "transactGet",
        "search",
        "lookup",
    ];
    looks.iter().any(|start| {
        let rest = action.strip_prefix(start);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_uppercase())
        })
    })
}

/// Whether it is a write to DynamoDB with a condition on the lease: on its row, or on a token stored with the data.
fn is_fenced(arguments: &Node, language: Language) -> bool {
    let names_lease = |path: &Path| path.has_step("fencing_token") || path.has_step("lease_id");
    let conditional = |node: &Node| {
        node.field("ConditionExpression").is_some() && node.reads(language, names_lease)
    };
    if conditional(arguments) {
        return true;
    }
    // In a transaction one check covers all items.
    let items = arguments.field("TransactItems").map_or(&[][..], Node::list);
    items
        .iter()
        .flat_map(Node::members)
        .any(|member| matches!(member.value.value, Value::Object(_)) && conditional(&member.value))
}

/// The operation of a function of Leasehold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Grants a lease.
    Acquire,
    /// Moves its deadline.
    Extend,
    /// Releases it.
    Release,
}

/// The options of a check. The defaults are those of the functions.
#[derive(Debug, Clone)]
pub struct Options {
    /// `LEASE_CLOCK_MARGIN_MS`: the allowance for clock differences in ms, subtracted from every lease.
    pub margin_ms: u64,
    /// `LEASE_GUARD_MS`: how many ms before the deadline a holder stops, subtracted from every lease.
    pub guard_ms: u64,
    /// The operations of functions, by the names that state machines use. `None` marks a function that is not Leasehold's,
    /// whatever its name. Functions that are missing here are recognised by their names.
    pub names: HashMap<String, Option<Verb>>,
    /// The definition is an Express workflow.
    pub express: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            margin_ms: 2000,
            guard_ms: 1000,
            names: HashMap::new(),
            express: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn function_is_known_by_name() {
        let acquire = Some(Verb::Acquire);
        assert_eq!(named("my-stack-acquire"), acquire);
        assert_eq!(named("AcquireFunctionArn"), acquire);
        assert_eq!(named("Leasehold.Outputs.AcquireFunctionArn"), acquire);
        assert_eq!(
            named("arn:aws:lambda:eu-west-1:123456789012:function:x-acquire:live"),
            acquire
        );
        assert_eq!(named("stack-ExtendFunction-1A2B3C"), Some(Verb::Extend));
        assert_eq!(named("release-notes-publisher"), None);
        assert_eq!(named("StepFunction"), None);
        assert!(is_sure("AcquireFunctionArn") && is_sure("Leasehold.Outputs.AcquireFunctionArn"));
        assert!(is_sure(
            "arn:aws:lambda:eu-west-1:123456789012:function:Acquire:live"
        ));
        assert!(!is_sure("press-release") && !is_sure("CreateReleaseFunction"));
    }

    #[test]
    fn template_may_compose_resource() {
        let reported = |resource: &str| {
            let text =
                format!("StartAt: A\nStates:\n  A:\n    Type: Task\n    Resource: {resource}\n");
            let node = crate::read::source::Source::new("x.yaml", text)
                .read()
                .unwrap();
            let machine = Machine::read(&node);
            let calls = calls(&machine, &Options::default());
            format!("{:?}", calls[0])
        };
        assert_eq!(
            reported("!Sub arn:${AWS::Partition}:states:::dynamodb:getItem"),
            "Read"
        );
        assert_eq!(
            reported("!Sub arn:${AWS::Partition}:states:::dynamodb:putItem"),
            "Work(Maybe)"
        );
        assert_eq!(reported("!GetAtt CountFunction.Arn"), "Work(Yes)");
        assert_eq!(reported("!GetAtt [ReleaseFunction, Arn]"), "Release(None)");
        assert_eq!(
            reported("{Fn::GetAtt: [ReleaseFunction, Arn]}"),
            "Release(None)"
        );
        assert_eq!(
            reported("arn:aws:states:eu-west-1:123456789012:activity:x"),
            "Work(Yes)"
        );
    }

    #[test]
    fn integrations_that_read_are_recognised() {
        assert!(is_read(
            "arn:aws:states:::aws-sdk:dynamodb:transactGetItems"
        ));
        assert!(is_read("arn:aws:states:::dynamodb:getItem"));
        assert!(!is_read("arn:aws:states:::dynamodb:putItem"));
        assert!(!is_read("arn:aws:states:::glue:startJobRun.sync"));
        assert!(!is_read("arn:aws:states:::aws-sdk:x:getaway"));
    }
}
