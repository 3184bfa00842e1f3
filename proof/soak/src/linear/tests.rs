//! Histories made by hand: good ones that must pass, and a bad one for each rule of the specification, whose last call cannot have
//! had its answer.
//!
//! A history is calls between semicolons, each `begin-end ask -> response`, in milliseconds of one clock. A grant, `granted 12 @10`,
//! has what [`response`] fills in unless the words after it say otherwise; `first` and `freed` are the calls of that name below.
//! After `~within` or `~later` the call may have had a further effect.

use super::{Verdict, check};
use crate::history::{Before, Ended, ExtraEffect, Invocation, Kind, Micros, Millis, Op, Response};
use crate::row::MARGIN;

const TTL: Millis = 1000;
/// Client 1 has it from 10, with token 12, until 1010; with the margin nobody takes it before 1610.
const FIRST: &str = "0-20 acquire 1 101 -> granted 12 @10";
const FREED: &str = "100-110 release 12 -> released";

#[rustfmt::skip]
const FINE: [&str; 25] = [
    // One after the other, and at once, where the order of the ends would be none.
    "first; 30-40 acquire 2 201 -> held 1 12 1010; 50-60 extend 12 -> extended 12 1055; 100-110 release 12 -> released; 120-130 acquire 2 202 -> granted 14 @125 after 1 12 released; 140-150 release 12 -> already; 160-170 extend 12 -> lost; 180-190 acquire 1 101 -> consumed",
    "first; 100-140 acquire 2 201 -> granted 14 @130 after 1 12 released; 105-150 release 12 -> released",
    "first; 1605-1615 acquire 2 201 -> granted 14 @1610 after 1 12 expired",
    "first; 500-510 acquire 2 201 observed 120 -> granted 14 @505 after 1 12 expired",
    "first; 100-110 delete -> done; 120-130 acquire 2 201 -> granted 127 @125",
    "first; 30-40 acquire 1 101 -> granted 12 @10 kind replayed",
    "first; 30-40 acquire 1 102 -> held 1 12 1010",
    "first; 1609-1615 acquire 2 201 -> held 1 12 1010",
    "first; 30-40 extend 12 ttl 5000 -> extended 12 5035; 50-60 extend 12 -> extended 12 5035",
    "first; 1700-1710 acquire 2 201 -> granted 14 @1705 after 1 12 expired; 1720-1730 extend 12 -> lost",
    "first; 1100-1110 extend 12 -> extended 12 2105 revived",
    "first; 1100-1110 extend 12 strict -> expired",
    "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 1 12 released; 140-150 release 12 -> already",
    "first; 1700-1710 acquire 2 201 -> granted 14 @1705 after 1 12 expired; 1720-1730 release 12 -> lost",
    "first; 1610-1615 sweep -> done ~within; 1650-1660 release 12 -> already",
    "first; 30-40 reap 1 -> done ~within; 50-60 acquire 2 201 -> granted 14 @55 after 1 12 released",
    "first; 100-110 force 12 -> forced 13; 120-130 acquire 2 201 -> granted 15 @125 after 1 12 forced",
    "first; 30-40 inspect -> held 1 12 1010",
    // An end that nobody knows may have been, and need not.
    "first; 30-40 release 12 -> unknown ~later; 50-60 acquire 2 201 -> granted 14 @55 after 1 12 released",
    "first; 30-40 release 12 -> unknown ~later; 50-60 acquire 2 201 -> held 1 12 1010",
    "0-20 acquire 1 101 -> unknown ~later; 100-110 acquire 1 101 -> granted 12 @10 kind replayed",
    "0-20 acquire 1 101 -> unknown ~later; 50-60 acquire 2 201 -> held 1 12 1010",
    "first; 30-40 release 12 -> unknown ~later; 45-48 acquire 2 201 -> held 1 12 1010; 50-60 acquire 2 202 -> granted 14 @55 after 1 12 released",
    // A takeover without an answer: the previous holder learns it.
    "first; 1700-1710 acquire 2 201 -> unknown ~later; 1720-1730 extend 12 -> lost",
    "first; 30-40 acquire 2 201 -> held 1 12 1010 ~later; freed; 120-130 acquire 2 201 -> granted 14 @35 after 1 12 released kind replayed",
];

#[rustfmt::skip]
const IMPOSSIBLE: [(&str, &str); 57] = [
    ("nobody is granted what somebody has", "first; 30-40 acquire 2 201 -> granted 14 @35 after 1 12 expired"),
    ("nobody takes over within the margin", "first; 1604-1614 acquire 2 201 -> granted 14 @1609 after 1 12 expired"),
    ("an observer takes over what stood still", "first; 50-60 extend 12 -> extended 12 1055; 500-510 acquire 2 201 observed 120 -> granted 14 @505 after 1 12 expired"),
    ("tokens rise", "first; freed; 120-130 acquire 2 201 -> granted 12 @125 after 1 12 released"),
    ("versions rise", "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 1 12 released version 120"),
    ("tokens rise though the row was deleted", "first; 100-110 delete -> done; 120-130 acquire 2 201 -> granted 11 @125"),
    ("a spent request is never granted again", "first; freed; 120-130 acquire 1 101 -> granted 14 @125 after 1 12 released"),
    ("a request has one grant", "first; 30-40 acquire 1 101 -> granted 14 @30 kind replayed"),
    ("a grant has the deadline that was asked for", "0-20 acquire 1 101 -> granted 12 @10 expires 1011"),
    ("a replay has the lease's id", "first; 30-40 acquire 1 101 -> granted 12 @10 kind replayed lease 99"),
    ("a replay has the row's version", "first; 30-40 acquire 1 101 -> granted 12 @10 kind replayed version 119"),
    ("a replay has the deadline", "first; 30-40 acquire 1 101 -> granted 12 @10 kind replayed expires 9"),
    ("a replay has the previous grant", "first; 30-40 acquire 1 101 -> granted 12 @10 kind replayed after 3 2 released"),
    ("a grant after a release is new", "first; 1690-1693 release 12 -> released; 1695-1705 acquire 2 201 -> granted 14 @1700 after 1 12 released kind takeover"),
    ("any other is a takeover", "first; 1695-1705 acquire 2 201 -> granted 14 @1700 after 1 12 expired kind new"),
    ("who died has not been evicted", "first; 1700-1710 acquire 2 201 -> granted 14 @1705 after 1 12 forced"),
    ("a request that has it is not refused", "first; 30-40 acquire 1 101 -> held 1 12 1010"),
    ("nor is its reentrant holder", "first; 30-40 acquire 1 102 reentrant -> held 1 12 1010"),
    ("nobody else is replayed a grant", "first; 30-40 acquire 2 201 -> granted 12 @10 kind replayed"),
    ("the clock was read during the call", "0-20 acquire 1 101 -> granted 12 @21"),
    ("the previous grant is reported", "first; freed; 120-130 acquire 2 201 -> granted 14 @125"),
    ("with its end", "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 1 12 expired"),
    ("with its holder", "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 3 12 released"),
    ("with its token", "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 1 11 released"),
    ("what is free is not held", "first; freed; 120-130 acquire 2 201 -> held 1 12 1010"),
    ("held has the deadline", "first; 30-40 acquire 2 201 -> held 1 12 1011"),
    ("held has the holder", "first; 30-40 acquire 2 201 -> held 3 12 1010"),
    ("held has the token", "first; 30-40 acquire 2 201 -> held 1 11 1010"),
    ("held has the version", "first; 30-40 acquire 2 201 -> held 1 12 1010 version 119"),
    ("held ends with the margin", "first; 1610-1615 acquire 2 201 -> held 1 12 1010"),
    ("an extend never shortens", "first; 30-40 extend 12 ttl 5000 -> extended 12 5035; 50-60 extend 12 -> extended 12 1055"),
    ("a grant that is over is not extended", "first; 1700-1710 acquire 2 201 -> granted 14 @1705 after 1 12 expired; 1720-1730 extend 12 -> extended 12 2725"),
    ("nor is one by another proof", "first; 30-40 extend 12 lease 99 -> extended 12 1035"),
    ("the current grant is not lost", "first; 30-40 extend 12 -> lost"),
    ("an extend reaches as far as asked", "first; 300-310 extend 12 -> extended 12 1010"),
    ("and no further", "first; 300-310 extend 12 -> extended 12 1400"),
    ("an extend has a new version", "first; 30-40 extend 12 -> extended 12 1035 version 119"),
    ("what has expired is revived", "first; 1100-1110 extend 12 -> extended 12 2105"),
    ("what has not is not", "first; 300-310 extend 12 -> extended 12 1305 revived"),
    ("a strict extend revives nothing", "first; 1100-1110 extend 12 strict -> extended 12 2105 revived"),
    ("what is over is not released", "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 1 12 released; 140-150 release 12 -> released"),
    ("what was released is not lost", "first; freed; 120-130 acquire 2 201 -> granted 14 @125 after 1 12 released; 140-150 release 12 -> lost"),
    ("what is held was not released already", "first; 30-40 release 12 -> already"),
    ("nor lost", "first; 30-40 release 12 -> lost"),
    ("what was taken over was not released", "first; 1700-1710 acquire 2 201 -> granted 14 @1705 after 1 12 expired; 1720-1730 release 12 -> already"),
    ("only an end ends a grant", "first; 1650-1660 release 12 -> already"),
    ("sweep frees nothing before its deadline", "first; 900-905 sweep -> done ~within; 910-920 acquire 2 201 -> granted 14 @915 after 1 12 expired"),
    ("nor within the margin", "first; 1560-1565 sweep -> done ~within; 1580-1590 release 12 -> already"),
    ("reap frees its own holder's", "first; 30-40 reap 3 -> done ~within; 50-60 acquire 2 201 -> granted 14 @55 after 1 12 released"),
    ("an eviction uses up a token", "first; 100-110 force 12 -> forced 13; 120-130 acquire 2 201 -> granted 13 @125 after 1 12 forced"),
    ("and another than the grant's", "first; 100-110 force 12 -> forced 12"),
    ("who was evicted extends nothing", "first; 100-110 force 12 -> forced 13; 120-130 extend 12 -> extended 12 1125"),
    ("and has not released", "first; 100-110 force 12 -> forced 13; 120-130 release 12 -> already"),
    ("what is held can be evicted", "first; 100-110 force 12 -> nobody"),
    ("what is held is shown", "first; 30-40 inspect -> nobody"),
    ("what is free is not shown as held", "first; freed; 120-130 inspect -> held 1 12 1010"),
    ("without a late request nobody took over", "first; 1720-1730 extend 12 -> lost"),
];

/// What comes late: not for ever, and it changes nothing that is over.
#[rustfmt::skip]
const LATE: [(&str, &str); 6] = [
    ("a later response settles it", "0-20 acquire 1 101 -> unknown ~later; 50-60 acquire 2 201 -> held 1 12 1010; 100-110 acquire 1 101 -> granted 14 @12 kind replayed"),
    ("within the call is not later", "first; 30-40 release 12 -> unknown ~within; 45-48 acquire 2 201 -> held 1 12 1010; 50-60 acquire 2 202 -> granted 14 @55 after 1 12 released"),
    ("it revives nothing", "first; 30-40 extend 12 -> extended 12 1035 ~later; freed; 150-160 acquire 2 201 -> held 1 12 1035"),
    ("only who asked is granted it late", "first; freed; 120-130 acquire 2 201 -> granted 14 @35 after 1 12 released kind replayed"),
    ("it takes over nothing that lasts", "first; 30-40 acquire 2 201 -> unknown ~later; 50-60 extend 12 -> lost"),
    // It was granted and released: what comes late does not find it forgotten.
    ("it is granted nothing twice", "first; 30-40 acquire 1 101 -> unknown ~later; freed; 120-130 acquire 2 201 -> held 1 14 1035"),
];

/// The words of a part of a call.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        self.0.remove(0)
    }

    fn number<T: TryFrom<i64>>(&mut self) -> T {
        let number: i64 = self.next().trim_start_matches('@').parse().unwrap();
        T::try_from(number).ok().unwrap()
    }

    /// Whether this word is next but for others; it is taken out.
    fn has(&mut self, word: &str) -> bool {
        let at = self.0.iter().position(|other| *other == word);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// The number after this word.
    fn after<T: TryFrom<i64>>(&mut self, word: &str) -> Option<T> {
        let at = self.0.iter().position(|other| *other == word)?;
        self.0.remove(at);
        let number: i64 = self.0.remove(at).parse().unwrap();
        T::try_from(number).ok()
    }
}

fn ask(mut words: Words<'_>) -> Invocation {
    match words.next() {
        "acquire" => Invocation::Acquire {
            observed: words.after("observed"),
            reentrant: words.has("reentrant"),
            holder: words.number(),
            request: words.number(),
            ttl: TTL,
        },
        "extend" => Invocation::Extend {
            lease: words.after("lease").unwrap_or(12),
            ttl: words.after("ttl").unwrap_or(TTL),
            require_unexpired: words.has("strict"),
            token: words.number(),
        },
        "release" => Invocation::Release {
            token: words.number(),
            lease: 12,
        },
        "force" => Invocation::Force {
            token: words.number(),
        },
        "reap" => Invocation::Reap {
            holder: words.number(),
        },
        "inspect" => Invocation::Inspect,
        "sweep" => Invocation::Sweep,
        "delete" => Invocation::Delete,
        other => panic!("{other}"),
    }
}

fn response(mut words: Words<'_>) -> Response {
    let kind = words.next();
    let version = words.after("version");
    match kind {
        "granted" => {
            let (lease, expires_at) = (words.after("lease"), words.after("expires"));
            let (replayed, takeover, new) = (
                words.has("replayed"),
                words.has("takeover"),
                words.has("new"),
            );
            let (token, acquired_at) = (words.number(), words.number());
            let previous = words.has("after").then(|| Before {
                holder: words.number(),
                token: words.number(),
                ended: match words.next() {
                    "released" => Ended::Released,
                    "expired" => Ended::Expired,
                    _ => Ended::Forced,
                },
            });
            let is_clean = previous.is_none_or(|before| before.ended == Ended::Released);
            Response::Granted {
                kind: match () {
                    () if replayed => Kind::Replayed,
                    () if takeover || !(is_clean || new) => Kind::Takeover,
                    () => Kind::New,
                },
                token,
                lease: lease.unwrap_or(u32::try_from(token).unwrap()),
                version: version.unwrap_or(token * 10),
                acquired_at,
                expires_at: expires_at.unwrap_or(acquired_at + TTL),
                previous,
            }
        }
        "held" => {
            let (holder, token) = (words.number(), words.number());
            Response::Held {
                holder,
                token,
                version: version.unwrap_or(token * 10),
                expires_at: words.number(),
            }
        }
        "extended" => {
            let (revived, token) = (words.has("revived"), words.number::<u64>());
            Response::Extended {
                revived,
                version: version.unwrap_or(token * 10 + 1),
                expires_at: words.number(),
            }
        }
        "forced" => Response::Forced {
            token: words.number(),
        },
        "consumed" => Response::Consumed,
        "expired" => Response::Expired,
        "lost" => Response::Lost,
        "released" => Response::Released,
        "already" => Response::AlreadyReleased,
        "nobody" => Response::Nobody,
        "done" => Response::Done,
        "unknown" => Response::Unknown,
        other => panic!("{other}"),
    }
}

fn op(text: &str) -> Op {
    let text = match text {
        "first" => FIRST,
        "freed" => FREED,
        other => other,
    };
    let (times, text) = text.split_once(' ').unwrap();
    let (begin, end) = times.split_once('-').unwrap();
    let (begin, end): (Millis, Millis) = (begin.parse().unwrap(), end.parse().unwrap());
    let micros = |millis: Millis| Micros::try_from(millis).unwrap() * 1000;
    let (asked, answered) = text.split_once(" -> ").unwrap();
    let mut answered = Words(answered.split(' ').filter(|word| *word != "kind").collect());
    let besides = match () {
        () if answered.has("~within") => ExtraEffect::Within,
        () if answered.has("~later") => ExtraEffect::Later,
        () => ExtraEffect::Nothing,
    };
    Op {
        begin: micros(begin),
        end: micros(end),
        clock: (begin, end),
        ask: ask(Words(asked.split(' ').collect())),
        response: response(answered),
        besides,
        by: String::new(),
    }
}

fn history(text: &str) -> Vec<Op> {
    text.split("; ").map(op).collect()
}

#[test]
fn only_possible_histories_pass() {
    assert_eq!(MARGIN, 600, "the histories go by it");
    for text in FINE {
        assert_eq!(check(&history(text)), Verdict::Linearizable, "{text}");
    }
    for (rule, text) in IMPOSSIBLE.into_iter().chain(LATE) {
        let ops = history(text);
        let last = Verdict::Impossible(ops.len() - 1);
        assert_eq!(check(&ops), last, "{rule}: {text}");
    }
}
