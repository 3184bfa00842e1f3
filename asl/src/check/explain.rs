//! What a rule is about, in words and in two definitions: excerpts of the corpus, so that what is shown is what is checked.

use crate::check::rule::Rule;
use crate::read::node::{Node, Span};
use crate::read::source::Source;
use std::fmt::Write as _;

/// A file of the corpus, and what of it to show.
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

macro_rules! example {
    ($file:literal, $show:expr) => {
        Example {
            file: $file,
            text: include_str!(concat!("../../corpus/", $file)),
            show: $show,
        }
    };
}

/// What is at fault, and what is not.
type Pair = Option<(Example, Example)>;

/// Why, what is at fault, and what is not; nothing for a rule that no definition shows.
static WORDS: &[(Rule, &str, Pair)] = &[
    (
        Rule::NoRelease,
        "A key that nobody gives back stays taken until its lease has run out, and who waits for it waits that long. The ways that are forgotten are those of failure: a Catch that leads to a Fail state, an error that nobody catches, a Choice without a Default.",
        Some((
            example!(
                "faulty/01-catch-without-release.asl.json",
                Show::States(&["Work", "Failed"])
            ),
            example!(
                "sound/01-smallest.asl.json",
                Show::States(&["Work", "GiveBack", "Failed"])
            ),
        )),
    ),
    (
        Rule::Outlasts,
        "When the lease has run out, somebody else may be let in, and both work. A fencing token keeps the damage out of a store that checks it; nothing keeps it out of the rest.",
        Some((
            example!("faulty/05-limit-over-ttl.asl.json", Show::States(&["Work"])),
            example!("sound/01-smallest.asl.json", Show::States(&["Work"])),
        )),
    ),
    (
        Rule::Unbounded,
        "A task without TimeoutSeconds may take 99 999 999 seconds. A limit that comes from elsewhere, a lease whose ttl_seconds is an expression and a limit that is a number, a loop without an extend: nothing compares the two.",
        Some((
            example!("faulty/09-no-time-limit.asl.json", Show::States(&["Work"])),
            example!("sound/02-fixed-limits.asl.json", Show::States(&["First"])),
        )),
    ),
    (
        Rule::Unconfirmed,
        "Who waits in line is woken with a reservation of LEASE_CLAIM_SECONDS. The first extend makes it a lease, or finds that the turn was passed on.",
        Some((
            example!(
                "faulty/13-woken-and-not-confirmed.asl.json",
                Show::States(&["Work"])
            ),
            example!("sound/03-in-line.asl.json", Show::States(&["Confirm"])),
        )),
    ),
    (
        Rule::WithoutLease,
        "A task that is protected on one path is taken for one that is to be on all. Where the key was held, the acquire failed, or a Choice went around it, the task runs beside whoever has the lease, and an extend or a release behind it has no handle to speak of.",
        Some((
            example!(
                "faulty/40-work-although-refused.asl.json",
                Show::States(&["Acquire"])
            ),
            example!(
                "sound/14-held-and-counted.asl.json",
                Show::States(&["Acquire", "Again?"])
            ),
        )),
    ),
    (
        Rule::WorkAfterLost,
        "Lease.Lost says that somebody else was granted the key. A task that is protected elsewhere is not protected here.",
        Some((
            example!(
                "faulty/14-work-after-lost.asl.json",
                Show::States(&["Extend"])
            ),
            example!("sound/23-lost-and-again.asl.json", Show::States(&["Prove"])),
        )),
    ),
    (
        Rule::WorkAfterRelease,
        "The handle is still there after the release, and means nothing any more.",
        Some((
            example!(
                "faulty/31-work-after-release.asl.json",
                Show::States(&["Release", "More?"])
            ),
            example!(
                "sound/04-counted-loop.asl.json",
                Show::States(&["Extend", "More?"])
            ),
        )),
    ),
    (
        Rule::LostRetried,
        "No attempt brings a lost lease back. Retrying it only puts off the moment at which the step is repaired, or others are told.",
        Some((
            example!("faulty/16-lost-retried.asl.json", Show::States(&["Extend"])),
            example!("sound/03-in-line.asl.json", Show::States(&["Confirm"])),
        )),
    ),
    (
        Rule::HeldUnbounded,
        "A Wait that leads back to the acquire goes round until the history is full, and the execution then dies without a word. In line it is the sweep that sends away who has waited long enough: without a TimeoutSeconds of its own a state waits for it for ever.",
        Some((
            example!(
                "faulty/17-held-for-ever.asl.json",
                Show::States(&["Acquire", "Later"])
            ),
            example!(
                "sound/14-held-and-counted.asl.json",
                Show::States(&["Again?", "Later"])
            ),
        )),
    ),
    (
        Rule::SharedRequest,
        "The same holder and request_id always get the same lease back, which is how a lost answer is made good. Two branches, or two items that begin in the same millisecond, then both believe that they are alone.",
        Some((
            example!(
                "faulty/18-items-share-a-request.asl.json",
                Show::States(&["Acquire"])
            ),
            example!("sound/06-semaphore.asl.json", Show::States(&["Acquire"])),
        )),
    ),
    (
        Rule::UnstableRequest,
        "If the answer of the first attempt is lost, the second has to be recognised as the same request. Otherwise the lease it finds is its own, and refuses it until it has run out.",
        Some((
            example!(
                "faulty/20-request-changes.asl.json",
                Show::States(&["Acquire"])
            ),
            example!("sound/01-smallest.asl.json", Show::States(&["Acquire"])),
        )),
    ),
    (
        Rule::ConsumedRequest,
        "A request is good for one lease. When the state is entered again, by a loop, the same request is answered with Lease.Consumed.",
        Some((
            example!(
                "faulty/21-request-stays.asl.json",
                Show::States(&["Acquire"])
            ),
            example!(
                "sound/12-held-as-a-result.asl.json",
                Show::States(&["Acquire"])
            ),
        )),
    ),
    (
        Rule::HandleOverwritten,
        "In JSONPath a state without a ResultPath replaces everything by its result, and so does a clause of a Catch by the failure. In JSONata the same happens to whatever is not in a variable.",
        Some((
            example!(
                "faulty/22-result-over-handle.asl.json",
                Show::States(&["Work"])
            ),
            example!("sound/02-fixed-limits.asl.json", Show::States(&["First"])),
        )),
    ),
    (
        Rule::ReleasedWhileRunning,
        "The service stops waiting for a function at its time limit; it does not stop the function. Who is let in now meets it. So with a branch that is aborted because another one failed.",
        Some((
            example!(
                "faulty/24-released-while-running.asl.json",
                Show::States(&["Work"])
            ),
            example!(
                "sound/01-smallest.asl.json",
                Show::States(&["Work", "StepMayRun"])
            ),
        )),
    ),
    (
        Rule::AbortedSiblings,
        "The first failure in a Map or Parallel stops all other items or branches at once, without a Catch: what leases they have nobody gives back.",
        Some((
            example!(
                "faulty/26-failure-aborts-others.asl.json",
                Show::States(&["Work", "Failed"])
            ),
            example!(
                "sound/06-semaphore.asl.json",
                Show::States(&["Work", "Over"])
            ),
        )),
    ),
    (
        Rule::TooManyEvents,
        "An execution may have 25 000 events. Past that it fails, catches nothing, and releases nothing.",
        Some((
            example!(
                "faulty/27-loop-without-end.asl.json",
                Show::States(&["Done?"])
            ),
            example!(
                "sound/04-counted-loop.asl.json",
                Show::States(&["Page", "More?"])
            ),
        )),
    ),
    (
        Rule::Express,
        "An Express workflow may run twice at once under one name, and nobody is told of its end, so that nothing frees what it had.",
        Some((
            example!(
                "faulty/34-express.template.yaml",
                Show::Lines("  Reserve:", "StartAt")
            ),
            example!(
                "sound/17-stack.template.yaml",
                Show::Lines("  InAFile:", "DefinitionUri")
            ),
        )),
    ),
    (
        Rule::UnknownError,
        "A name in ErrorEquals that nobody raises matches nothing, without a word.",
        Some((
            example!(
                "faulty/28-unknown-error.asl.json",
                Show::States(&["Acquire"])
            ),
            example!("sound/01-smallest.asl.json", Show::States(&["Acquire"])),
        )),
    ),
    (
        Rule::Unreachable,
        "A call that no path leads to is one that somebody believes in.",
        Some((
            example!(
                "faulty/29-extend-left-out.asl.json",
                Show::States(&["First", "Extend"])
            ),
            example!(
                "sound/02-fixed-limits.asl.json",
                Show::States(&["First", "Extend"])
            ),
        )),
    ),
    (
        Rule::Malformed,
        "What the service would refuse cannot be gone through either: a Next that names no state, an unknown Type, a scope without states.",
        Some((
            example!("faulty/30-dangling-next.asl.json", Show::States(&["Work"])),
            example!("sound/01-smallest.asl.json", Show::States(&["Work"])),
        )),
    ),
    (
        Rule::TooLarge,
        "After 100 000 positions the walk is given up, and says so instead of saying nothing. A definition that people write has fewer than a thousand.",
        None,
    ),
];

fn words(rule: Rule) -> (&'static str, Pair) {
    let mut found = WORDS.iter().filter(|(other, ..)| *other == rule);
    found
        .next()
        .map_or(("", None), |(_, why, examples)| (*why, *examples))
}

/// A definition at fault and one that is not; none for a rule that no definition shows.
#[must_use]
pub fn examples(rule: Rule) -> Option<(Example, Example)> {
    words(rule).1
}

/// A rule for the terminal.
#[must_use]
pub fn explain(rule: Rule) -> String {
    let (why, examples) = words(rule);
    let mut out = format!(
        "{}: {}\n\n{why}\n\nCure: {}.\n",
        rule.id(),
        rule.sentence(),
        rule.cure()
    );
    if let Some((bad, good)) = examples {
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

/// All rules, as docs/CHECK.md has them.
#[must_use]
pub fn manual() -> String {
    let mut out = include_str!("../manual.md").to_owned();
    for rule in Rule::ALL {
        let (why, examples) = words(*rule);
        _ = write!(
            out,
            "\n## {}\n\n{}\n\n{why}\n\nCure: {}.\n",
            rule.id(),
            rule.sentence(),
            rule.cure()
        );
        for (word, example) in examples
            .into_iter()
            .flat_map(|(bad, good)| [("Bad", bad), ("Good", good)])
        {
            let language = if example.file.ends_with("yaml") {
                "yaml"
            } else {
                "json"
            };
            _ = write!(
                out,
                "\n{word} ([{file}](../asl/corpus/{file})):\n\n```{language}\n{}\n```\n",
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
                let span = Span {
                    start: state.at.start,
                    end: state.value.span.end,
                };
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
