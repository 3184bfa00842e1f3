//! The acts of holders and waiters, and whether a lease's promises were kept.
//!
//! A [`History`] is an append-only list of [`Event`]s. [`judge`] reads only the list, never the lease table, and reports
//! every broken [`Promise`].
//!
//! All instants are in milliseconds by **one** clock, from any origin. If an observer cannot know an instant, it writes the
//! one that makes a holder's belief shorter: a grant counts from the receipt of its response, an end from its request. So
//! a reported overlap is a real one. The events of one protected resource ([`EventKind::Entered`], [`EventKind::Left`],
//! [`EventKind::Wrote`]) are in the order in which the resource accepted them. For all other events only `at` matters, not
//! their position in the list.

use std::collections::{BTreeMap, btree_map::Entry};
use std::fmt;

/// An event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time since the start, in milliseconds.
    pub at: u64,
    /// The leased key.
    pub key: String,
    /// The holder or waiter.
    pub holder: String,
    /// What happened.
    pub what: EventKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A waiter received the response that it is in the queue.
    Queued,
    /// A waiter left the queue without a grant, or was removed from it.
    GaveUp,
    /// A holder received the response to an acquire. A replay is another such event with the same token.
    Granted {
        /// The fencing token of the grant.
        token: u64,
        /// When the grant was requested. For a waiter, its first request.
        asked_at: u64,
        /// Until when the holder may touch the resource.
        safe_until: u64,
    },
    /// A holder received the response to an extend.
    Extended {
        /// The fencing token of the grant.
        token: u64,
        /// Until when the holder may touch the resource.
        safe_until: u64,
    },
    /// A release, an eviction or the row's deletion was requested.
    Ended {
        /// The fencing token of the grant.
        token: u64,
    },
    /// A holder entered the resource, or prolonged its stay.
    Entered {
        /// The fencing token of the grant.
        token: u64,
        /// The latest instant at which the holder has promised to be out.
        until: u64,
    },
    /// A holder left the resource.
    Left {
        /// The fencing token of the grant.
        token: u64,
    },
    /// A holder sent a write to the resource.
    Wrote {
        /// The fencing token of the grant.
        token: u64,
        /// Whether the resource accepted it.
        accepted: bool,
    },
}

impl EventKind {
    /// The fencing token of the event's grant. None for a waiter's event.
    const fn token(&self) -> Option<u64> {
        match self {
            Self::Queued | Self::GaveUp => None,
            Self::Granted { token, .. }
            | Self::Extended { token, .. }
            | Self::Ended { token }
            | Self::Entered { token, .. }
            | Self::Left { token }
            | Self::Wrote { token, .. } => Some(*token),
        }
    }
}

/// The list of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The events, in the order in which they were recorded.
    pub events: Vec<Event>,
}

impl History {
    /// Records an event.
    pub fn record(&mut self, at: u64, key: &str, holder: &str, what: EventKind) {
        self.events.push(Event {
            at,
            key: key.to_owned(),
            holder: holder.to_owned(),
            what,
        });
    }
}

/// A promise of docs/explain/guarantees.md whose violation a history can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// S1: no two grants share a fencing token.
    TokensAreUnique,
    /// S2: a grant that was requested after another one's response has the larger token.
    TokensRise,
    /// S3: the resource accepts no older token after a newer one.
    OldTokensAreRefused,
    /// S8: no two holders believe at the same time that they hold.
    HoldersAreLimited,
    /// S8 at the resource: no two holders are inside at the same time.
    EntriesAreLimited,
    /// L3: a waiter is served before every request that came after it was queued.
    ServedInOrder,
    /// Every waiter in the queue is served, or gives up.
    EverybodyIsServed,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::TokensAreUnique,
        Self::TokensRise,
        Self::OldTokensAreRefused,
        Self::HoldersAreLimited,
        Self::EntriesAreLimited,
        Self::ServedInOrder,
        Self::EverybodyIsServed,
    ];
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TokensAreUnique => "S1: no two grants share a token",
            Self::TokensRise => "S2: tokens rise in the order of the grants",
            Self::OldTokensAreRefused => "S3: no older token is accepted after a newer one",
            Self::HoldersAreLimited => "S8: no two hold at the same time",
            Self::EntriesAreLimited => "S8: no two are inside at the same time",
            Self::ServedInOrder => "L3: served in the order of arrival",
            Self::EverybodyIsServed => "L4: everybody in the queue is served",
        })
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The promise that was broken.
    pub promise: Promise,
    /// The key.
    pub key: String,
    /// How it was broken.
    pub what: String,
}

/// Finds every violation.
#[must_use]
pub fn judge(history: &History) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut keys: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in &history.events {
        keys.entry(&event.key).or_default().push(event);
    }
    for (key, events) in keys {
        let mut judge = Judge {
            key,
            events: &events,
            findings: &mut findings,
        };
        judge.tokens();
        judge.writes();
        judge.holders();
        judge.entries();
        judge.queue();
    }
    findings
}

struct Judge<'a> {
    key: &'a str,
    events: &'a [&'a Event],
    findings: &'a mut Vec<Finding>,
}

impl Judge<'_> {
    fn find(&mut self, promise: Promise, what: String) {
        self.findings.push(Finding {
            promise,
            key: self.key.to_owned(),
            what,
        });
    }

    /// Each token has one holder. Of two grants, if one was received before the other was requested, the later one
    /// has the larger token.
    fn tokens(&mut self) {
        let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
        // When each token was requested, and when it was first received.
        let mut times: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for event in self.events {
            let Some(token) = event.what.token() else {
                continue;
            };
            let holder = *holders.entry(token).or_insert(&event.holder);
            if holder != event.holder {
                let what = format!("{holder} and {} have the token {token}", event.holder);
                self.find(Promise::TokensAreUnique, what);
            }
            if let EventKind::Granted { asked_at, .. } = event.what {
                let (asked, heard) = times.entry(token).or_insert((asked_at, event.at));
                (*asked, *heard) = ((*asked).min(asked_at), (*heard).min(event.at));
            }
        }
        // From the largest token down: the earliest receipt among the larger tokens.
        let mut first: Option<(u64, u64)> = None;
        for (token, (asked, heard)) in times.iter().rev() {
            if let Some((before, larger)) = first
                && before < *asked
            {
                let what = format!("{token} was granted after {larger}");
                self.find(Promise::TokensRise, what);
            }
            if first.is_none_or(|(before, _)| *heard < before) {
                first = Some((*heard, *token));
            }
        }
    }

    /// The accepted tokens never decrease.
    fn writes(&mut self) {
        let mut newest = 0;
        for event in self.events {
            let (EventKind::Wrote {
                token,
                accepted: true,
            }
            | EventKind::Entered { token, .. }
            | EventKind::Left { token }) = event.what
            else {
                continue;
            };
            if token < newest {
                let (holder, at) = (&event.holder, event.at);
                let what = format!("{token} of {holder} was accepted at {at} after {newest}");
                self.find(Promise::OldTokensAreRefused, what);
            }
            newest = token.max(newest);
        }
    }

    /// A holder believes from each response until the instant in it, at most until its end was first requested.
    fn holders(&mut self) {
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for event in self.events {
            if let EventKind::Ended { token } = event.what {
                let end = ends.entry(token).or_insert(event.at);
                *end = event.at.min(*end);
            }
        }
        let mut beliefs = Vec::new();
        for event in self.events {
            if let EventKind::Granted {
                token, safe_until, ..
            }
            | EventKind::Extended { token, safe_until } = event.what
            {
                let end = ends.get(&token).copied().unwrap_or(u64::MAX);
                beliefs.push((event.at, safe_until.min(end), token, event.holder.as_str()));
            }
        }
        beliefs.sort_by_key(|(from, ..)| *from);
        self.one_at_a_time(Promise::HoldersAreLimited, beliefs.into_iter());
    }

    /// A holder is inside from its entry until it leaves, at most until the promised instant.
    fn entries(&mut self) {
        let stays = self.events.iter().filter_map(|event| match event.what {
            EventKind::Entered { token, until } => {
                Some((event.at, until, token, event.holder.as_str()))
            }
            EventKind::Left { token } => Some((event.at, 0, token, event.holder.as_str())),
            _ => None,
        });
        self.one_at_a_time(Promise::EntriesAreLimited, stays);
    }

    /// Goes through intervals in order, and finds each instant at which a second one begins. An interval that
    /// ends before it begins ends the one of the same grant.
    fn one_at_a_time<'a>(
        &mut self,
        promise: Promise,
        stretches: impl Iterator<Item = (u64, u64, u64, &'a str)>,
    ) {
        let mut now: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
        for (from, until, token, holder) in stretches {
            now.retain(|_, (until, ..)| *until > from);
            if until <= from {
                if promise == Promise::EntriesAreLimited {
                    now.remove(&token);
                }
                continue;
            }
            match now.entry(token) {
                Entry::Occupied(mut one) => one.get_mut().0 = until.max(one.get().0),
                Entry::Vacant(one) => {
                    one.insert((until, holder));
                    if now.len() > 1 {
                        let who: Vec<_> = now
                            .iter()
                            .map(|(token, (_, holder))| format!("{holder} by {token}"))
                            .collect();
                        self.find(promise, format!("{} at {from}", who.join(" and ")));
                    }
                }
            }
        }
    }

    /// A waiter's grant is the first that its holder receives after it was queued. Tokens give the order of service.
    fn queue(&mut self) {
        let mut events: Vec<_> = self.events.to_vec();
        events.sort_by_key(|event| event.at);
        let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
        // When each waiter was queued and the token of its grant, and when each grant was requested.
        let mut served: Vec<(u64, u64, &str)> = Vec::new();
        let mut grants: Vec<(u64, u64, &str)> = Vec::new();
        for event in events {
            match event.what {
                EventKind::Queued => {
                    waiting.entry(&event.holder).or_insert(event.at);
                }
                EventKind::GaveUp => drop(waiting.remove(event.holder.as_str())),
                EventKind::Granted {
                    token, asked_at, ..
                } => {
                    if let Some(queued) = waiting.remove(event.holder.as_str()) {
                        served.push((queued, token, &event.holder));
                    }
                    grants.push((asked_at, token, &event.holder));
                }
                _ => {}
            }
        }
        for (holder, since) in waiting {
            let what = format!("{holder} was queued at {since}, and was never served");
            self.find(Promise::EverybodyIsServed, what);
        }
        served.sort_unstable();
        grants.sort_unstable();
        let mut earlier = served.into_iter().peekable();
        let mut last: Option<(u64, &str)> = None;
        for (asked, token, holder) in grants {
            while let Some((_, token, holder)) = earlier.next_if(|(queued, ..)| *queued < asked) {
                last = last.max(Some((token, holder)));
            }
            if let Some((theirs, overtaken)) = last
                && token < theirs
            {
                let what = format!("{holder} by {token} before {overtaken} by {theirs}");
                self.find(Promise::ServedInOrder, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event of the test's only key.
    fn event(at: u64, holder: &str, what: EventKind) -> Event {
        let key = "k".to_owned();
        let holder = holder.to_owned();
        Event {
            at,
            key,
            holder,
            what,
        }
    }

    fn granted(asked_at: u64, at: u64, holder: &str, token: u64, safe_until: u64) -> Event {
        let what = EventKind::Granted {
            token,
            asked_at,
            safe_until,
        };
        event(at, holder, what)
    }

    fn ended(at: u64, holder: &str, token: u64) -> Event {
        event(at, holder, EventKind::Ended { token })
    }

    fn extended(at: u64, holder: &str, token: u64, safe_until: u64) -> Event {
        event(at, holder, EventKind::Extended { token, safe_until })
    }

    fn entered(at: u64, holder: &str, token: u64, until: u64) -> Event {
        event(at, holder, EventKind::Entered { token, until })
    }

    fn left(at: u64, holder: &str, token: u64) -> Event {
        event(at, holder, EventKind::Left { token })
    }

    fn wrote(at: u64, holder: &str, token: u64, accepted: bool) -> Event {
        event(at, holder, EventKind::Wrote { token, accepted })
    }

    /// A history without violations, in which each event is just within a promise.
    #[test]
    fn what_went_well_breaks_no_promise() {
        let events = vec![
            granted(0, 10, "a", 2, 100),
            entered(11, "a", 2, 100),
            event(12, "b", EventKind::Queued),
            event(13, "c", EventKind::Queued),
            event(14, "d", EventKind::Queued),
            extended(20, "a", 2, 150),
            // An eviction, recorded as an end in the holder's name.
            ended(120, "a", 2),
            event(125, "c", EventKind::GaveUp),
            granted(5, 120, "b", 4, 200),
            wrote(140, "a", 2, true),
            // After the instant that `a` had promised.
            entered(150, "b", 4, 200),
            wrote(151, "a", 2, false),
            left(160, "b", 4),
            // It crashed, and the next one waits until its time has passed.
            granted(6, 200, "d", 6, 300),
            granted(6, 210, "d", 6, 300),
            // At the same time as the next, so either may be first.
            granted(290, 300, "e", 10, 310),
            granted(300, 310, "f", 8, 320),
        ];
        assert_eq!(judge(&History { events }), []);
    }

    #[test]
    fn each_broken_promise_is_found() {
        use Promise::*;
        let cases: Vec<(Promise, Vec<Event>)> = vec![
            (
                TokensAreUnique,
                vec![granted(0, 9, "a", 2, 10), granted(1, 11, "b", 2, 20)],
            ),
            (TokensAreUnique, vec![ended(0, "a", 2), left(1, "b", 2)]),
            (
                TokensRise,
                vec![granted(0, 9, "a", 4, 10), granted(10, 11, "b", 2, 20)],
            ),
            (
                OldTokensAreRefused,
                vec![wrote(1, "a", 4, true), wrote(2, "b", 2, true)],
            ),
            (
                OldTokensAreRefused,
                vec![left(1, "a", 4), entered(2, "b", 2, 9)],
            ),
            (
                HoldersAreLimited,
                vec![granted(0, 1, "a", 2, 10), granted(1, 9, "b", 4, 20)],
            ),
            (
                HoldersAreLimited,
                vec![
                    granted(0, 1, "a", 2, 10),
                    granted(1, 15, "b", 4, 20),
                    extended(9, "a", 2, 16),
                ],
            ),
            (
                HoldersAreLimited,
                vec![
                    granted(0, 1, "a", 2, 10),
                    ended(5, "a", 2),
                    granted(1, 4, "b", 4, 20),
                ],
            ),
            (
                EntriesAreLimited,
                vec![entered(1, "a", 2, 10), entered(9, "b", 4, 20)],
            ),
            // The same holder entered again, and stays until later.
            (
                EntriesAreLimited,
                vec![
                    entered(1, "a", 2, 10),
                    entered(3, "a", 2, 20),
                    entered(12, "b", 4, 20),
                ],
            ),
            (
                ServedInOrder,
                vec![
                    event(5, "a", EventKind::Queued),
                    granted(6, 20, "b", 2, 30),
                    granted(1, 40, "a", 4, 50),
                ],
            ),
            (EverybodyIsServed, vec![event(5, "a", EventKind::Queued)]),
        ];
        for promise in Promise::ALL {
            assert!(cases.iter().any(|(of, _)| *of == promise), "{promise}");
        }
        for (promise, events) in cases {
            let findings = judge(&History { events });
            let found: Vec<_> = findings.iter().map(|finding| finding.promise).collect();
            assert_eq!(found, [promise], "{findings:?}");
        }
    }

    #[test]
    fn keys_are_independent() {
        let mut history = History::default();
        for key in ["k", "l"] {
            for mut event in [granted(0, 1, key, 2, 9), entered(2, key, 2, 9)] {
                key.clone_into(&mut event.key);
                history.events.push(event);
            }
        }
        assert_eq!(judge(&history), []);
    }
}
