//! The rules: their names, the sentence that each holds a definition to, and the manual made of them. Examples are excerpts of the
//! corpus, so that what is shown is what is checked.

use crate::read::node::{Node, Span};
use crate::read::source::Source;
use std::fmt::Write as _;

/// What a rule says.
struct Words {
    id: &'static str,
    sentence: &'static str,
    why: &'static str,
    cure: &'static str,
    /// What is at fault, and what is not; none for a rule that no definition shows.
    examples: Option<(Example, Example)>,
}

/// A file of the corpus, and the part of it to show.
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
    /// From the line with the first text to that with the second.
    Lines(&'static str, &'static str),
}

macro_rules! rules {
    ($($rule:ident $id:literal {
        holds: $sentence:literal, why: $why:literal, cure: $cure:literal,
        $(bad: $bad:literal $bad_show:expr, good: $good:literal $good_show:expr,)?
    })*) => {
        /// What a finding is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $sentence] $rule,)*
        }

        impl Rule {
            /// All of them, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$rule),*];
        }

        static WORDS: &[Words] = &[$(Words {
            id: $id,
            sentence: $sentence,
            why: $why,
            cure: $cure,
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
        why: "A key that nobody gives back stays taken until its lease has run out, and who waits for it waits that long. The ways that are forgotten are those of failure: a Catch that leads to a Fail state, an error that nobody catches, a Choice without a Default.",
        cure: "lead every Catch and every way out to a release; a Choice needs a Default, and States.ALL catches what nobody thought of",
        bad: "faulty/01-catch-without-release.asl.json" Show::States(&["Work", "Failed"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work", "GiveBack", "Failed"]),
    }
    Outlasts "outlasts" {
        holds: "What runs between two extends ends before the lease does, at its worst.",
        why: "When the lease has run out, somebody else may be let in, and both work. A fencing token keeps the damage out of a store that checks it; nothing keeps it out of the rest.",
        cure: "bound the task by what is left of the lease (TimeoutSeconds from safe_until), put an extend before it, or ask for a longer ttl_seconds",
        bad: "faulty/05-limit-over-ttl.asl.json" Show::States(&["Work"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work"]),
    }
    Unbounded "unbounded" {
        holds: "What runs under a lease has a bound that can be compared with it.",
        why: "A task without TimeoutSeconds may take 99 999 999 seconds. A limit that comes from elsewhere, a lease whose ttl_seconds is an expression and a limit that is a number, a loop without an extend: nothing compares the two.",
        cure: "give it a TimeoutSeconds: a number that fits a ttl_seconds written out, or what is left until safe_until",
        bad: "faulty/09-no-time-limit.asl.json" Show::States(&["Work"]),
        good: "sound/02-fixed-limits.asl.json" Show::States(&["First"]),
    }
    Unconfirmed "unconfirmed" {
        holds: "A waiter that is notified confirms the grant by an extend before it works.",
        why: "A waiter is notified with a reservation of LEASE_CLAIM_SECONDS. The first extend makes it a lease, or finds that the turn was passed on.",
        cure: "make an extend the first state after the wait in the queue",
        bad: "faulty/13-woken-and-not-confirmed.asl.json" Show::States(&["Work"]),
        good: "sound/03-in-line.asl.json" Show::States(&["Confirm"]),
    }
    WithoutLease "without-lease" {
        holds: "No protected task, extend or release is reached on a path that was granted no lease.",
        why: "A task that is protected on one path is taken for one that is to be on all. Where the key was held, the acquire failed, or a Choice went around it, the task runs beside whoever has the lease, and an extend or a release behind it has no handle to speak of.",
        cure: "lead every Catch of the acquire, an outcome of held, and every way around the acquire past the work, its extends and its release",
        bad: "faulty/40-work-although-refused.asl.json" Show::States(&["Acquire"]),
        good: "sound/14-held-and-counted.asl.json" Show::States(&["Acquire", "Again?"]),
    }
    WorkAfterLost "work-after-lost" {
        holds: "No protected task is reached once the lease is lost.",
        why: "Lease.Lost says that somebody else was granted the key. A task that is protected elsewhere is not protected here.",
        cure: "lead Lease.Lost to a Fail state, or back to an acquire",
        bad: "faulty/14-work-after-lost.asl.json" Show::States(&["Extend"]),
        good: "sound/23-lost-and-again.asl.json" Show::States(&["Prove"]),
    }
    WorkAfterRelease "work-after-release" {
        holds: "No protected task is reached with a handle that was given back.",
        why: "The handle is still there after the release, and means nothing any more.",
        cure: "release after the last task that uses the lease",
        bad: "faulty/31-work-after-release.asl.json" Show::States(&["Release", "More?"]),
        good: "sound/04-counted-loop.asl.json" Show::States(&["Extend", "More?"]),
    }
    LostRetried "lost-retried" {
        holds: "A lost lease is not asked for again by a Retry: it stays lost.",
        why: "No attempt brings a lost lease back. Retrying it only puts off the moment at which the step is repaired, or others are told.",
        cure: "name the errors worth another attempt, without Lease.Lost, Lease.Expired and States.ALL; catch Lease.Lost",
        bad: "faulty/16-lost-retried.asl.json" Show::States(&["Extend"]),
        good: "sound/03-in-line.asl.json" Show::States(&["Confirm"]),
    }
    HeldUnbounded "held-unbounded" {
        holds: "Waiting for a held key has an end.",
        why: "A Wait that leads back to the acquire goes round until the history is full, and the execution then dies without a word. In the queue, sweep ends a wait that has lasted long enough: without a TimeoutSeconds of its own a state waits for it for ever.",
        cure: "retry Lease.Held with MaxAttempts, count the rounds, or wait in the queue with TimeoutSeconds",
        bad: "faulty/17-held-for-ever.asl.json" Show::States(&["Acquire", "Later"]),
        good: "sound/14-held-and-counted.asl.json" Show::States(&["Again?", "Later"]),
    }
    SharedRequest "shared-request" {
        holds: "Branches and items that run side by side have requests of their own.",
        why: "The same holder and request_id always get the same lease back, which is how a lost answer is made good. Two branches, or two items that begin in the same millisecond, then both believe that they are alone.",
        cure: "put the Map's index, or the state's name, into request_id",
        bad: "faulty/18-items-share-a-request.asl.json" Show::States(&["Acquire"]),
        good: "sound/06-semaphore.asl.json" Show::States(&["Acquire"]),
    }
    UnstableRequest "unstable-request" {
        holds: "All attempts of one acquire are one request.",
        why: "If the answer of the first attempt is lost, the second has to be recognised as the same request. Otherwise the lease it finds is its own, and refuses it until it has run out.",
        cure: "build request_id from $states.context.State.Name, State.EnteredTime and Execution.RedriveCount",
        bad: "faulty/20-request-changes.asl.json" Show::States(&["Acquire"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Acquire"]),
    }
    ConsumedRequest "consumed-request" {
        holds: "An acquire that is entered again is another request.",
        why: "A request is good for one lease. When the state is entered again, by a loop, the same request is answered with Lease.Consumed.",
        cure: "put $states.context.State.EnteredTime into request_id",
        bad: "faulty/21-request-stays.asl.json" Show::States(&["Acquire"]),
        good: "sound/12-held-as-a-result.asl.json" Show::States(&["Acquire"]),
    }
    HandleOverwritten "handle-overwritten" {
        holds: "The handle is still there when it is needed.",
        why: "In JSONPath a state without a ResultPath replaces everything by its result, and so does a clause of a Catch by the failure. In JSONata the same happens to whatever is not in a variable.",
        cure: "keep the handle in a variable (Assign), or give every state and every Catch a ResultPath beside it",
        bad: "faulty/22-result-over-handle.asl.json" Show::States(&["Work"]),
        good: "sound/02-fixed-limits.asl.json" Show::States(&["First"]),
    }
    ReleasedWhileRunning "released-while-running" {
        holds: "A lease whose work may still run is left to run out.",
        why: "The service stops waiting for a function at its time limit; it does not stop the function. Who is let in now meets it. So with a branch that is aborted because another one failed.",
        cure: "catch States.Timeout and Lambda's service exceptions apart, and end without a release: the lease runs out by itself",
        bad: "faulty/24-released-while-running.asl.json" Show::States(&["Work"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work", "StepMayRun"]),
    }
    AbortedSiblings "aborted-siblings" {
        holds: "No branch or item is aborted while it has a lease of its own.",
        why: "The first failure in a Map or Parallel stops all other items or branches at once, without a Catch: what leases they have nobody gives back.",
        cure: "catch States.ALL inside the branch and make the failure its result; fail after the Parallel or Map",
        bad: "faulty/26-failure-aborts-others.asl.json" Show::States(&["Work", "Failed"]),
        good: "sound/06-semaphore.asl.json" Show::States(&["Work", "Over"]),
    }
    TooManyEvents "too-many-events" {
        holds: "A loop ends before the 25 000 events that an execution may have.",
        why: "An execution may have 25 000 events. Past that it fails, catches nothing, and releases nothing.",
        cure: "count the rounds in a variable and end the loop by it, or wait longer in each",
        bad: "faulty/27-loop-without-end.asl.json" Show::States(&["Done?"]),
        good: "sound/04-counted-loop.asl.json" Show::States(&["Page", "More?"]),
    }
    Express "express" {
        holds: "Leases are taken in Standard workflows.",
        why: "An Express workflow may run twice at once under one name, and no event reports its end, so that nothing frees what it had.",
        cure: "use a Standard workflow: Express runs at least once, and tells nobody of its end",
        bad: "faulty/34-express.template.yaml" Show::Lines(" Reserve:", "StartAt"),
        good: "sound/17-stack.template.yaml" Show::Lines(" InAFile:", "DefinitionUri"),
    }
    UnknownError "unknown-error" {
        holds: "Every error name that begins with Lease. exists, and so do those for Step Functions that throttles.",
        why: "A name in ErrorEquals that nobody raises matches nothing, without a word. An error that is not in a service's model, throttling above all, is Sfn.SfnException to an SDK integration and StepFunctions.AWSStepFunctionsException to the optimised one.",
        cure: "see the table of errors in docs/reference/errors.md",
        bad: "faulty/28-unknown-error.asl.json" Show::States(&["Acquire"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Acquire"]),
    }
    Unreachable "unreachable" {
        holds: "Every call of the functions can be reached.",
        why: "A call that no path leads to is one that somebody believes in.",
        cure: "lead a state to it, or remove it",
        bad: "faulty/29-extend-left-out.asl.json" Show::States(&["First", "Extend"]),
        good: "sound/02-fixed-limits.asl.json" Show::States(&["First", "Extend"]),
    }
    Malformed "malformed" {
        holds: "The definition has the shape that the service asks for.",
        why: "What the service would refuse cannot be gone through either: a Next that names no state, an unknown Type, a scope without states.",
        cure: "correct the definition",
        bad: "faulty/30-dangling-next.asl.json" Show::States(&["Work"]),
        good: "sound/01-smallest.asl.json" Show::States(&["Work"]),
    }
    TooLarge "too-large" {
        holds: "The definition can be gone through to the end.",
        why: "After 100 000 positions the walk is given up, and says so instead of saying nothing. A definition that people write has fewer than a thousand.",
        cure: "split the definition, or take leases in fewer scopes at once",
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

    /// What a definition is held to.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        self.words().sentence
    }

    /// What to do about it.
    #[must_use]
    pub fn cure(self) -> &'static str {
        self.words().cure
    }

    /// The rule of this name.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }

    /// Name, sentence, reason and cure.
    fn text(self, between: &str) -> String {
        let Words {
            id,
            sentence,
            why,
            cure,
            ..
        } = self.words();
        format!("{id}{between}{sentence}\n\n{why}\n\nCure: {cure}.\n")
    }
}

/// A definition at fault and one that is not; none for a rule that no definition shows.
#[must_use]
pub fn examples(rule: Rule) -> Option<(Example, Example)> {
    rule.words().examples
}

/// A rule for the terminal.
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

/// All rules, as docs/reference/check-rules.md has them.
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
    out
}

impl Example {
    /// The lines to show, moved to the left.
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

/// The states at any depth, with where each stands.
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
