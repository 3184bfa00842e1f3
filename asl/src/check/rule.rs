//! The rules: their names, texts and examples, and the manual generated from them. The examples are excerpts of the corpus, so
//! the tests check every definition that is shown.

use crate::read::node::{Node, Span};
use crate::read::source::Source;
use std::fmt::Write as _;

/// The texts of a rule.
struct Words {
    id: &'static str,
    statement: &'static str,
    why: &'static str,
    remedy: &'static str,
    /// A definition at fault and one that is not. None if the corpus has no example.
    examples: Option<(Example, Example)>,
}

/// A file of the corpus, and the part of it that is shown.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// Its path below `asl/corpus`.
    pub file: &'static str,
    text: &'static str,
    show: Show,
}

#[derive(Debug, Clone, Copy)]
enum Show {
    States(&'static [&'static str]),
    /// From the line with the first text to the line with the second.
    Lines(&'static str, &'static str),
}

macro_rules! rules {
    ($($rule:ident $id:literal {
        holds: $statement:literal, why: $why:literal, remedy: $remedy:literal,
        $(bad: $bad:literal $bad_show:expr, good: $good:literal $good_show:expr,)?
    })*) => {
        /// The rule that a finding breaks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $statement] $rule,)*
        }

        impl Rule {
            /// All of them, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$rule),*];
        }

        static WORDS: &[Words] = &[$(Words {
            id: $id,
            statement: $statement,
            why: $why,
            remedy: $remedy,
            examples: rules!(@examples $($bad $bad_show, $good $good_show)?),
        }),*];
    };
    (@examples) => { None };
    (@examples $bad:literal $bad_show:expr, $good:literal $good_show:expr) => {
        Some((rules!(@example $bad $bad_show), rules!(@example $good $good_show)))
    };
    (@example $file:literal $show:expr) => {
        Example { file: $file, text: include_str!(concat!("../../corpus/", $file)), show: $show }
    };
}

rules! {
    NoRelease "no-release" {
        holds: "Every path from an acquire ends with its release, a lost lease, or work that may still run.",
        why: "A key that is not released stays held until its lease expires, and waiters wait that long. The paths that are forgotten are those of failure: a Catch that leads to a Fail state, an error that no clause catches, a Choice without a Default.",
        remedy: "lead every Catch and every other exit to a release; give every Choice a Default, and catch unexpected errors with States.ALL",
        bad: "faulty/01-catch-without-release.asl.json" Show::States(&["Work", "Failed"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work", "GiveBack", "Failed"]),
    }
    Outlasts "outlasts" {
        holds: "Everything between two extends ends before the lease expires, even in the worst case.",
        why: "When the lease has expired, somebody else may be granted the key, and both work at the same time. A fencing token protects only a store that checks it.",
        remedy: "limit the task to the rest of the lease (TimeoutSeconds computed from safe_until), put an extend before it, or request a longer ttl_seconds",
        bad: "faulty/05-limit-over-ttl.asl.json" Show::States(&["Work"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work"]),
    }
    Unbounded "unbounded" {
        holds: "Everything that runs under a lease has a time limit that can be compared with the lease.",
        why: "A task without TimeoutSeconds may take 99 999 999 seconds. Three other cases cannot be compared either: a limit that is computed without the lease, a limit that is a number under a lease whose ttl_seconds is an expression, and a loop without an extend.",
        remedy: "give it a TimeoutSeconds: either a number below a ttl_seconds that is also a number, or the time left until safe_until",
        bad: "faulty/09-no-time-limit.asl.json" Show::States(&["Work"]),
        good: "sound/02-fixed-limits.asl.json" Show::States(&["First"]),
    }
    Unconfirmed "unconfirmed" {
        holds: "A waiter that is notified confirms the grant by an extend before it works.",
        why: "A waiter is notified with a reservation of LEASE_CLAIM_SECONDS. The first extend makes it a lease, or shows that the reservation was passed to the next waiter.",
        remedy: "make an extend the first state after the wait in the queue",
        bad: "faulty/13-woken-and-not-confirmed.asl.json" Show::States(&["Work"]),
        good: "sound/03-in-line.asl.json" Show::States(&["Confirm"]),
    }
    WithoutLease "without-lease" {
        holds: "No protected task, extend or release is reached on a path without its lease.",
        why: "A task that is protected on one path needs protection on all. If the key was held, the acquire failed, or a Choice bypassed it, the task runs at the same time as the real holder, and a later extend or release has no handle.",
        remedy: "lead every Catch of the acquire, the outcome held, and every path that bypasses the acquire past the work, its extends and its release",
        bad: "faulty/40-work-although-refused.asl.json" Show::States(&["Acquire"]),
        good: "sound/14-held-and-counted.asl.json" Show::States(&["Acquire", "Again?"]),
    }
    WorkAfterLost "work-after-lost" {
        holds: "No protected task is reached once the lease is lost.",
        why: "Lease.Lost means that the grant has ended, and that somebody else may hold the key. The task is protected on other paths, but not on this one.",
        remedy: "lead Lease.Lost to a Fail state, or back to an acquire",
        bad: "faulty/14-work-after-lost.asl.json" Show::States(&["Extend"]),
        good: "sound/23-lost-and-again.asl.json" Show::States(&["Prove"]),
    }
    WorkAfterRelease "work-after-release" {
        holds: "No protected task is reached with the handle of a released lease.",
        why: "After the release the handle still exists, but it is no longer valid.",
        remedy: "release after the last task that uses the lease",
        bad: "faulty/31-work-after-release.asl.json" Show::States(&["Release", "More?"]),
        good: "sound/04-counted-loop.asl.json" Show::States(&["Extend", "More?"]),
    }
    LostRetried "lost-retried" {
        holds: "No Retry repeats a task after Lease.Lost.",
        why: "A lost lease stays lost. A retry only delays the repair.",
        remedy: "retry only named errors, without Lease.Lost, Lease.Expired and States.ALL; catch Lease.Lost",
        bad: "faulty/16-lost-retried.asl.json" Show::States(&["Extend"]),
        good: "sound/03-in-line.asl.json" Show::States(&["Confirm"]),
    }
    HeldUnbounded "held-unbounded" {
        holds: "The wait for a held key ends.",
        why: "A Wait that leads back to the acquire repeats until the history is full, and then the execution fails and cannot catch that. In the queue, sweep ends a wait at its deadline. Without a TimeoutSeconds the state depends on that, and waits for ever if no sweep runs.",
        remedy: "retry Lease.Held with MaxAttempts, count the rounds, or wait in the queue with TimeoutSeconds",
        bad: "faulty/17-held-for-ever.asl.json" Show::States(&["Acquire", "Later"]),
        good: "sound/14-held-and-counted.asl.json" Show::States(&["Again?", "Later"]),
    }
    SharedRequest "shared-request" {
        holds: "Concurrent branches and items have different requests.",
        why: "The same holder and request_id always get the same lease, so that a retry recovers from a lost response. Two branches, or two items that begin in the same millisecond, then share a lease, and each believes that it is alone.",
        remedy: "include the Map's index or the state's name in request_id",
        bad: "faulty/18-items-share-a-request.asl.json" Show::States(&["Acquire"]),
        good: "sound/06-semaphore.asl.json" Show::States(&["Acquire"]),
    }
    UnstableRequest "unstable-request" {
        holds: "All attempts of one acquire are the same request.",
        why: "If the response to the first attempt is lost, the second attempt must be recognised as the same request. Otherwise its own lease refuses it with Lease.Held until that lease expires.",
        remedy: "build request_id from $states.context.State.Name, State.EnteredTime and Execution.RedriveCount",
        bad: "faulty/20-request-changes.asl.json" Show::States(&["Acquire"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Acquire"]),
    }
    ConsumedRequest "consumed-request" {
        holds: "An acquire that is entered again is a new request.",
        why: "A request gets one lease. If a loop enters the state again with the same request_id after the lease has ended, the acquire fails with Lease.Consumed.",
        remedy: "include $states.context.State.EnteredTime in request_id",
        bad: "faulty/21-request-stays.asl.json" Show::States(&["Acquire"]),
        good: "sound/12-held-as-a-result.asl.json" Show::States(&["Acquire"]),
    }
    HandleOverwritten "handle-overwritten" {
        holds: "The handle is kept until its last use.",
        why: "In JSONPath, a state without a ResultPath replaces its whole input by the result, and a clause of a Catch replaces it by the error. In JSONata the same happens to everything that is not in a variable.",
        remedy: "keep the handle in a variable (Assign), or give every state and every Catch a ResultPath that does not overwrite it",
        bad: "faulty/22-result-over-handle.asl.json" Show::States(&["Work"]),
        good: "sound/02-fixed-limits.asl.json" Show::States(&["First"]),
    }
    ReleasedWhileRunning "released-while-running" {
        holds: "A lease whose work may still run is not released: it expires.",
        why: "At a task's time limit the service stops waiting for the function, but does not stop the function. The next holder would work at the same time. The same holds for a branch that is aborted because another one failed.",
        remedy: "catch States.Timeout and Lambda's service exceptions in clauses of their own, and end without a release: the lease expires by itself",
        bad: "faulty/24-released-while-running.asl.json" Show::States(&["Work"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work", "StepMayRun"]),
    }
    AbortedSiblings "aborted-siblings" {
        holds: "No branch or item is aborted while it holds a lease of its own.",
        why: "The first failure in a Map or Parallel stops all other items or branches at once. They run no Catch, so their leases are not released.",
        remedy: "catch States.ALL inside the branch and return the failure as its result; fail after the Parallel or Map",
        bad: "faulty/26-failure-aborts-others.asl.json" Show::States(&["Work", "Failed"]),
        good: "sound/06-semaphore.asl.json" Show::States(&["Work", "Over"]),
    }
    TooManyEvents "too-many-events" {
        holds: "A loop ends before the 25 000 events that an execution may have.",
        why: "When its history has 25 000 events, an execution fails. It cannot catch that, so it releases nothing.",
        remedy: "count the rounds in a variable that ends the loop, or wait longer in each round",
        bad: "faulty/27-loop-without-end.asl.json" Show::States(&["Done?"]),
        good: "sound/04-counted-loop.asl.json" Show::States(&["Page", "More?"]),
    }
    Express "express" {
        holds: "Leases are taken in Standard workflows.",
        why: "An Express workflow may run twice at once under one name. No event reports its end, so reap cannot free its leases.",
        remedy: "use a Standard workflow",
        bad: "faulty/34-express.template.yaml" Show::Lines(" Reserve:", "StartAt"),
        good: "sound/17-stack.template.yaml" Show::Lines(" InAFile:", "DefinitionUri"),
    }
    UnknownError "unknown-error" {
        holds: "Every error name that begins with Lease. exists, and so does every name for throttling by Step Functions.",
        why: "A name in ErrorEquals that is never raised matches nothing, and no error shows it. An error that is missing from a service's model, such as throttling, is named Sfn.SfnException in an SDK integration and StepFunctions.AWSStepFunctionsException in the optimised one.",
        remedy: "see the table of errors in docs/reference/errors.md",
        bad: "faulty/28-unknown-error.asl.json" Show::States(&["Acquire"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Acquire"]),
    }
    Unreachable "unreachable" {
        holds: "Every call of the functions is reachable.",
        why: "If no path leads to a call, somebody relies on a call that never happens.",
        remedy: "lead a path to it, or remove it",
        bad: "faulty/29-extend-left-out.asl.json" Show::States(&["First", "Extend"]),
        good: "sound/02-fixed-limits.asl.json" Show::States(&["First", "Extend"]),
    }
    Malformed "malformed" {
        holds: "The definition has the shape that the service requires.",
        why: "A definition that the service would refuse cannot be checked either: a Next that names no state, an unknown Type, a scope without states.",
        remedy: "correct the definition",
        bad: "faulty/30-dangling-next.asl.json" Show::States(&["Work"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work"]),
    }
    TooLarge "too-large" {
        holds: "The definition is small enough to be checked completely.",
        why: "The check stops after 100 000 positions, and reports it. A definition written by people has fewer than a thousand.",
        remedy: "split the definition, or hold leases in fewer scopes at once",
    }
}

impl Rule {
    fn words(self) -> &'static Words {
        &WORDS[self as usize]
    }

    /// The name on the command line and in reports.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.words().id
    }

    /// What every definition must satisfy.
    #[must_use]
    pub fn statement(self) -> &'static str {
        self.words().statement
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        self.words().remedy
    }

    /// The rule with this name.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }

    /// Name, sentence, reason and cure.
    fn text(self, between: &str) -> String {
        let Words {
            id,
            statement,
            why,
            remedy,
            ..
        } = self.words();
        format!("{id}{between}{statement}\n\n{why}\n\nCure: {remedy}.\n")
    }
}

/// A definition at fault and one that is not. None if the corpus has no example.
#[must_use]
pub fn examples(rule: Rule) -> Option<(Example, Example)> {
    rule.words().examples
}

/// The explanation of a rule, for the terminal.
#[must_use]
pub fn explain(rule: Rule) -> String {
    let mut out = rule.text(": ");
    if let Some((bad, good)) = examples(rule) {
        _ = write!(
            out,
            "\nBad ({}):\n\n{}\n\nGood ({}):\n\n{}\n",
            bad.file,
            bad.excerpt(),
            good.file,
            good.excerpt()
        );
    }
    out
}

/// The page docs/reference/check-rules.md with all rules.
#[must_use]
pub fn manual() -> String {
    let mut out = include_str!("../manual.md").to_owned();
    for rule in Rule::ALL {
        out.extend(["\n## ", &rule.text("\n\n")]);
        let examples = examples(*rule).into_iter();
        for (word, example) in examples.flat_map(|(bad, good)| [("Bad", bad), ("Good", good)]) {
            let language = if example.file.ends_with("yaml") {
                "yaml"
            } else {
                "json"
            };
            _ = write!(
                out,
                "\n{word} ([{file}](../../asl/corpus/{file})):\n\n```{language}\n{}\n```\n",
                example.excerpt(),
                file = example.file
            );
        }
    }
    out + "\nRead next: [weave leases into a state machine](../how-to/weave.md) · [the tutorial](../tutorial.md) · [errors](errors.md)\n"
}

impl Example {
    /// The lines to show, without their common indentation.
    fn excerpt(&self) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut shown: Vec<&str> = Vec::new();
        match self.show {
            Show::Lines(from, to) => {
                let begin = lines
                    .iter()
                    .position(|line| line.contains(from))
                    .unwrap_or(0);
                let length = lines[begin..]
                    .iter()
                    .position(|line| line.contains(to))
                    .unwrap_or(0);
                shown.extend(&lines[begin..=begin + length]);
            }
            Show::States(names) => {
                let source = Source::new(self.file, self.text);
                let spans = source.read().map(|node| spans(&node)).unwrap_or_default();
                for name in names {
                    for (_, span) in spans.iter().filter(|(state, _)| state == name) {
                        let (from, to) =
                            (source.place(span.start).line, source.place(span.end).line);
                        shown.extend(&lines[from - 1..to]);
                    }
                }
            }
        }
        let indent = |line: &&str| line.len() - line.trim_start().len();
        let least = shown.iter().map(indent).min().unwrap_or(0);
        shown
            .iter()
            .map(|line| &line[least..])
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The states at any depth, with their spans.
fn spans(node: &Node) -> Vec<(String, Span)> {
    let mut found = Vec::new();
    for member in node.members() {
        if member.key == "States" {
            let states = member.value.members().iter();
            found.extend(states.map(|state| {
                let span = Span::new(state.at.start, state.value.span.end);
                (state.key.clone(), span)
            }));
        }
        found.extend(spans(&member.value));
    }
    for element in node.list() {
        found.extend(spans(element));
    }
    found
}
