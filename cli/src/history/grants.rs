//! From lines of the functions' logs to the grants of a key: a pure function. Lines may be missing, come twice, and in any order; what
//! none of them says stays unknown.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use leasehold::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A grant of the key, as far as the lines tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Grant {
    pub(super) fencing_token: u64,
    pub(super) holder: String,
    /// When it was granted; none if no line says so.
    pub(super) granted_at: Option<Timestamp>,
    /// How it ended; none if no line says that it has.
    pub(super) ended: Option<How>,
    /// When it ended; none if that is unknown.
    pub(super) ended_at: Option<Timestamp>,
    /// For how long it lasted, if both ends are known.
    pub(super) held_ms: Option<u64>,
    /// Who ended it by force, or took it over.
    pub(super) by: Option<String>,
    /// Why, in the words of an operator or of Step Functions.
    pub(super) why: Option<String>,
    /// How long it waited in the queue; none if it did not, or if no line says so.
    pub(super) waited_ms: Option<u64>,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    /// By its holder.
    Released,
    /// Its execution has ended.
    ExecutionEnded,
    /// By the clock.
    Expired,
    /// It had expired, and another request got the key.
    TakenOver,
    /// By an operator.
    Forced,
    /// Nobody waited any more when it was granted.
    TakenBack,
    /// Step Functions did not begin the execution that it was for.
    NotStarted,
}

impl How {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::ExecutionEnded => "its execution ended",
            Self::Expired => "expired",
            Self::TakenOver => "expired, taken over",
            Self::Forced => "force-released",
            Self::TakenBack => "taken back: nobody was notified",
            Self::NotStarted => "taken back: the start failed",
        }
    }
}

/// The fields of a line that matter here. A line that is none of ours has none of them, or others under the same names.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    timestamp: Option<Timestamp>,
    message: String,
    operation: Option<String>,
    outcome: Option<String>,
    key: Option<String>,
    holder: Option<String>,
    execution: Option<String>,
    fencing_token: Option<u64>,
    acquired_at: Option<Timestamp>,
    /// The tokens of several keys, a JSON object as text.
    tokens: Option<String>,
    waited_ms: Option<u64>,
    ended_at: Option<Timestamp>,
    ended_by: Option<String>,
    previous_holder: Option<String>,
    previous_token: Option<u64>,
    previous_ended: Option<String>,
    act: Option<String>,
    /// The token of the grant that an operator ended; `fencing_token` is the operator's own.
    evicted_token: Option<u64>,
    who: Option<String>,
    why: Option<String>,
    reason: Option<String>,
}

/// A grant by its token and holder: permits of one key count their tokens apart.
type Name = (u64, String);

/// What a line says of an end. Of several the first in this order counts: one that says when comes before one that does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    /// Only the next grant, or a repeated call, reports it.
    is_hearsay: bool,
    at: Timestamp,
    how: How,
    by: Option<String>,
    why: Option<String>,
}

#[derive(Debug, Default)]
struct Known {
    granted_at: Option<Timestamp>,
    waited_ms: Option<u64>,
    end: Option<End>,
}

impl Known {
    fn granted(&mut self, at: Option<Timestamp>, waited_ms: Option<u64>) {
        self.granted_at = earlier(self.granted_at, at);
        self.waited_ms = earlier(self.waited_ms, waited_ms);
    }

    fn ended(&mut self, end: End) {
        self.end = earlier(self.end.take(), Some(end));
    }
}

/// The smaller of two values, if there are two: whatever the order of the lines, the same remains.
fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The grants of `key` that these lines tell of, newest first.
pub(super) fn grants<'a>(lines: impl IntoIterator<Item = &'a str>, key: &str) -> Vec<Grant> {
    let mut known = BTreeMap::<Name, Known>::new();
    for line in lines {
        if let Ok(line) = serde_json::from_str::<Line>(line) {
            note(&mut known, line, key);
        }
    }
    let grants = known.into_iter();
    let mut grants: Vec<_> = grants.map(|(name, known)| grant(name, known)).collect();
    let when = |grant: &Grant| grant.granted_at.or(grant.ended_at);
    grants.sort_by_key(|grant| Reverse((when(grant), grant.fencing_token)));
    grants
}

fn grant((fencing_token, holder): Name, known: Known) -> Grant {
    let end = known.end;
    // The end of time stands for an unknown one.
    let ended_at = end.as_ref().map(|end| end.at);
    let ended_at = ended_at.filter(|at| *at != Timestamp::MAX);
    let both = known.granted_at.zip(ended_at);
    let held = both.map(|(from, to)| to.since(from).as_millis());
    Grant {
        fencing_token,
        holder,
        granted_at: known.granted_at,
        ended: end.as_ref().map(|end| end.how),
        ended_at,
        held_ms: held.and_then(|held| u64::try_from(held).ok()),
        by: end.as_ref().and_then(|end| end.by.clone()),
        why: end.and_then(|end| end.why),
        waited_ms: known.waited_ms,
    }
}

fn note(known: &mut BTreeMap<Name, Known>, line: Line, key: &str) {
    let (Some(token), Some(holder)) = (token_of(&line, key), line.holder.or(line.execution)) else {
        return;
    };
    let end = |how| End {
        is_hearsay: false,
        at: line.timestamp.unwrap_or(Timestamp::MAX),
        how,
        by: None,
        why: None,
    };
    // What a repeated call, or the next grant, knows.
    let hearsay = |how| End {
        is_hearsay: true,
        at: Timestamp::MAX,
        ..end(how)
    };
    let call = (line.operation.as_deref(), line.outcome.as_deref());
    let of = known.entry((token, holder.clone())).or_default();
    of.granted(line.acquired_at, line.waited_ms);
    match (line.message.as_str(), call) {
        ("answered", (Some("release"), Some("released"))) => of.ended(end(How::Released)),
        ("answered", (Some("release"), Some("already_released"))) => {
            of.ended(hearsay(How::Released));
        }
        ("freed", _) => of.ended(End {
            by: line.who,
            why: line.why,
            // The next grant is of that instant, and written before the line.
            at: line.ended_at.or(line.timestamp).unwrap_or(Timestamp::MAX),
            ..end(match line.ended_by.as_deref() {
                Some("deadline") => How::Expired,
                _ => How::ExecutionEnded,
            })
        }),
        (TAKEN_BACK, _) => of.ended(end(How::TakenBack)),
        (START_FAILED, _) => of.ended(End {
            why: line.reason,
            ..end(How::NotStarted)
        }),
        ("an operator acted", _) => of.ended(End {
            by: line.who,
            why: line.why,
            ..end(How::Forced)
        }),
        _ => {}
    }
    if let (Some(before), Some(had)) = (line.previous_token, line.previous_holder) {
        let end = match line.previous_ended.as_deref() {
            Some("expired") => End {
                at: line.acquired_at.unwrap_or(Timestamp::MAX),
                by: Some(holder),
                ..hearsay(How::TakenOver)
            },
            Some("forced") => hearsay(How::Forced),
            _ => return,
        };
        known.entry((before, had)).or_default().ended(end);
    }
}

const TAKEN_BACK: &str = "taken back: it was never notified";
const START_FAILED: &str = "a start has failed; its item keeps the request";

/// The messages of lines from inside an invocation that tell of a grant.
pub(super) const MESSAGES: [&str; 6] = [
    "notified",
    "started",
    "freed",
    "an operator acted",
    TAKEN_BACK,
    START_FAILED,
];
/// The outcomes of invocations that tell of one.
pub(super) const OUTCOMES: [&str; 3] = ["acquired", "released", "already_released"];

/// When a line was written that reports a grant of `key`; none if it reports nothing.
pub(super) fn tells(line: &str, key: &str) -> Option<Timestamp> {
    let line: Line = serde_json::from_str(line).ok()?;
    line.timestamp.filter(|_| token_of(&line, key).is_some())
}

/// The token of the grant of `key` that a line reports; none if it reports nothing.
fn token_of(line: &Line, key: &str) -> Option<u64> {
    let tells = match line.message.as_str() {
        "answered" => {
            let calls = ["acquire", "release"];
            line.operation
                .as_deref()
                .is_some_and(|one| calls.contains(&one))
                && line
                    .outcome
                    .as_deref()
                    .is_some_and(|one| OUTCOMES.contains(&one))
        }
        "an operator acted" => line.act.as_deref() == Some("force_release"),
        message => MESSAGES.contains(&message),
    };
    if !tells {
        return None;
    }
    if let Some(tokens) = &line.tokens {
        let tokens: Value = serde_json::from_str(tokens).ok()?;
        return tokens.get(key)?.as_u64();
    }
    let token = if line.act.is_some() {
        line.evicted_token
    } else {
        line.fencing_token
    };
    token.filter(|_| line.key.as_deref() == Some(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: &str = r#"{"timestamp":"2026-11-21T03:00:00.130000Z","message":"answered","operation":"acquire","outcome":"acquired","key":"k","holder":"a","fencing_token":5,"grant":"new","acquired_at":"2026-11-21T03:00:00.120Z"}"#;
    const RELEASED: &str = r#"{"timestamp":"2026-11-21T03:00:07.120000Z","message":"answered","operation":"release","outcome":"released","key":"k","holder":"a","fencing_token":5,"acquired_at":"2026-11-21T03:00:00.120Z"}"#;
    const TOLD: &str = r#"{"timestamp":"2026-11-21T03:00:07.300000Z","message":"notified","key":"k","holder":"b","fencing_token":6,"acquired_at":"2026-11-21T03:00:07.200Z","waited_ms":7000}"#;
    const FREED: &str = r#"{"timestamp":"2026-11-21T03:01:07.200000Z","message":"freed","key":"k","holder":"b","fencing_token":6,"acquired_at":"2026-11-21T03:00:07.200Z","ended_by":"execution"}"#;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    /// Who had it, how it ended, for how long, and how long it waited.
    fn short(lines: &[&str]) -> Vec<String> {
        let grants = grants(lines.iter().copied(), "k");
        let each = grants.iter().map(|grant| {
            let ended = grant.ended.map_or("?", How::as_str);
            let number = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
            format!(
                "{} {} {ended} {} {}",
                grant.fencing_token,
                grant.holder,
                number(grant.held_ms),
                number(grant.waited_ms)
            )
        });
        each.collect()
    }

    /// The next grant is of the instant of the end, and the line of the end is written after it.
    #[test]
    fn end_is_no_later_than_next_grant() {
        let freed = FREED.replace(
            "\"ended_by\"",
            r#""ended_at":"2026-11-21T03:01:07.000Z","ended_by""#,
        );
        let all = grants([TOLD, &freed], "k");
        assert_eq!(all[0].held_ms, Some(59_800));
        assert_eq!(grants([TOLD, FREED], "k")[0].held_ms, Some(60_000));
    }

    #[test]
    fn lines_tell_of_grants() {
        let told = grants([GRANTED, RELEASED, TOLD, FREED], "k");
        let first = Grant {
            fencing_token: 5,
            holder: "a".to_owned(),
            granted_at: Some(at("2026-11-21T03:00:00.120Z")),
            ended: Some(How::Released),
            ended_at: Some(at("2026-11-21T03:00:07.120Z")),
            held_ms: Some(7000),
            by: None,
            why: None,
            waited_ms: None,
        };
        let second = Grant {
            fencing_token: 6,
            holder: "b".to_owned(),
            granted_at: Some(at("2026-11-21T03:00:07.200Z")),
            ended: Some(How::ExecutionEnded),
            ended_at: Some(at("2026-11-21T03:01:07.200Z")),
            held_ms: Some(60_000),
            waited_ms: Some(7000),
            ..first.clone()
        };
        assert_eq!(told, [second, first]);
    }

    #[test]
    fn order_and_repetition_change_nothing() {
        let lines = [GRANTED, RELEASED, TOLD, FREED];
        let expected = grants(lines, "k");
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let mut some: Vec<_> = lines.iter().chain(&lines).copied().collect();
            random.shuffle(&mut some);
            assert_eq!(grants(some, "k"), expected);
        }
    }

    #[test]
    fn lost_lines_leave_gaps() {
        // A release has the time of its grant.
        assert_eq!(short(&[RELEASED]), ["5 a released 7000 ?"]);
        assert_eq!(
            short(&[GRANTED, FREED]),
            ["6 b its execution ended 60000 ?", "5 a ? ? ?"]
        );
        assert_eq!(short(&[TOLD]), ["6 b ? ? 7000"]);
        // A repeated release does not say when the first was.
        let again = RELEASED.replace("\"released\"", "\"already_released\"");
        assert_eq!(short(&[GRANTED, &again]), ["5 a released ? ?"]);
        assert_eq!(short(&[&again, RELEASED]), ["5 a released 7000 ?"]);
    }

    #[test]
    fn next_grant_tells_of_the_last() {
        let after = |ended: &str| {
            let more =
                format!(r#""previous_holder":"a","previous_token":5,"previous_ended":"{ended}","#);
            TOLD.replacen('{', &format!("{{{more}"), 1)
        };
        let expired = after("expired");
        let told = grants([GRANTED, &expired], "k");
        assert_eq!(told[1].ended, Some(How::TakenOver));
        assert_eq!(
            (told[1].by.as_deref(), told[1].held_ms),
            (Some("b"), Some(7080))
        );
        let forced = after("forced");
        assert_eq!(short(&[GRANTED, &forced])[1], "5 a force-released ? ?");
        // The line of the end itself says more.
        let freed = r#"{"timestamp":"2026-11-21T03:00:05.120Z","message":"freed","key":"k","holder":"a","fencing_token":5,"ended_by":"deadline"}"#;
        assert_eq!(short(&[&expired, freed, GRANTED])[1], "5 a expired 5000 ?");
    }

    #[test]
    fn operators_and_failures_give_reasons() {
        let by = r#"{"timestamp":"2026-11-21T03:00:01.120Z","message":"an operator acted","act":"force_release","key":"k","holder":"a","fencing_token":6,"evicted_token":5,"who":"alice","why":"it hangs"}"#;
        let told = grants([GRANTED, by], "k");
        let said = (told[0].ended, told[0].by.as_deref(), told[0].why.as_deref());
        assert_eq!(said, (Some(How::Forced), Some("alice"), Some("it hangs")));
        let froze = by.replace("force_release", "freeze");
        assert_eq!(short(&[GRANTED, &froze]), ["5 a ? ? ?"]);
        let back = r#"{"timestamp":"2026-11-21T03:00:01.120Z","message":"taken back: it was never notified","key":"k","holder":"a","fencing_token":5}"#;
        assert_eq!(short(&[back]), ["5 a taken back: nobody was notified ? ?"]);
        let failed = r#"{"timestamp":"2026-11-21T03:00:01.120Z","message":"a start has failed; its item keeps the request","key":"k","execution":"e","fencing_token":5,"reason":"Express"}"#;
        let told = grants([failed], "k");
        let said = (told[0].ended, told[0].why.as_deref());
        assert_eq!(said, (Some(How::NotStarted), Some("Express")));
    }

    #[test]
    fn several_keys_have_their_tokens() {
        let line = |operation: &str, outcome: &str| {
            format!(
                r#"{{"timestamp":"2026-11-21T03:00:02.120Z","message":"answered","operation":"{operation}","outcome":"{outcome}","key":"j, k","holder":"a","tokens":"{{\"j\":7,\"k\":8}}"}}"#
            )
        };
        let (acquired, released) = (line("acquire", "acquired"), line("release", "released"));
        assert_eq!(short(&[&acquired, &released]), ["8 a released ? ?"]);
        assert_eq!(grants([acquired.as_str()], "j, k"), []);
    }

    #[test]
    fn other_lines_tell_nothing() {
        for line in [
            "",
            "panicked at",
            r#"{"HeldTime":5000,"_aws":{}}"#,
            &GRANTED.replace("\"k\"", "\"other\""),
            &GRANTED.replace("acquired\",\"key", "held\",\"key"),
            &GRANTED.replace("\"acquire\"", "\"extend\""),
            &GRANTED.replace(":5,", ":\"5\","),
        ] {
            assert_eq!(grants([line], "k"), [], "{line}");
        }
    }
}
