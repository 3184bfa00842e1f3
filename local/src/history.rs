//! The acts of holders and waiters, and whether a lease's promises were kept: one record and one judge for the demo and
//! the soak.
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

use serde::Serialize;

/// An event of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in milliseconds.
    pub at: u64,
    /// The leased key.
    pub key: String,
    /// The holder or waiter.
    pub holder: String,
    /// What happened.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A waiter received the response that it is in the queue.
    Queued,
    /// A waiter left the queue without a grant, or was removed from it.
    GaveUp,
    /// A holder received the response to an acquire. A replay is another such event with the same token.
    Granted {
        /// The grant.
        grant: Grant,
        /// When the grant was requested. For a waiter, its first request.
        asked_at: u64,
        /// Until when the holder may touch the resource.
        safe_until: u64,
    },
    /// A holder received the response to an extend.
    Extended {
        /// The grant.
        grant: Grant,
        /// Until when the holder may touch the resource.
        safe_until: u64,
    },
    /// A release, an eviction or the row's deletion was requested.
    Ended {
        /// The grant.
        grant: Grant,
    },
    /// A holder entered the resource, or prolonged its stay.
    Entered {
        /// The grant.
        grant: Grant,
        /// The latest instant at which the holder has promised to be out.
        until: u64,
    },
    /// A holder left the resource.
    Left {
        /// The grant.
        grant: Grant,
    },
    /// A holder sent a write to the resource.
    Wrote {
        /// The grant.
        grant: Grant,
        /// Whether the resource accepted it.
        accepted: bool,
    },
}

/// Identifies a grant of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token.
    pub fencing_token: u64,
}

impl Grant {
    /// The grant with this token.
    #[must_use]
    pub const fn of(fencing_token: u64) -> Self {
        Self { fencing_token }
    }
}

impl EventKind {
    /// The grant of the event. None for a waiter's event.
    #[must_use]
    pub const fn grant(&self) -> Option<Grant> {
        match self {
            Self::Queued | Self::GaveUp => None,
            Self::Granted { grant, .. }
            | Self::Extended { grant, .. }
            | Self::Ended { grant }
            | Self::Entered { grant, .. }
            | Self::Left { grant }
            | Self::Wrote { grant, .. } => Some(*grant),
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

/// A promise of docs/explanation/semantics.md whose violation a history can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which.
    pub promise: Promise,
    /// The key.
    pub key: String,
    /// How it was broken.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}: {}", self.promise, self.key, self.what)
    }
}

/// The result of [`judge`], with figures of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryReport {
    /// The broken promises. Empty if all were kept.
    pub findings: Vec<Finding>,
    /// Fencing tokens, each counted once for its key and permit.
    pub grants: usize,
    /// Grants without an end and without an exit from the resource.
    pub abandoned: usize,
    /// The most holders that believed at once that they hold one key.
    pub most_holders: usize,
    /// The most holders inside one key's resource at once.
    pub most_inside: usize,
    /// Writes that a resource accepted, entries and exits included.
    pub writes_accepted: usize,
    /// Writes that a resource refused.
    pub writes_refused: usize,
    /// How many waiters were queued.
    pub queued: usize,
}

impl HistoryReport {
    /// Whether every promise was kept.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.findings.is_empty()
    }

    /// The violations of this promise.
    pub fn of(&self, promise: Promise) -> impl Iterator<Item = &Finding> {
        let of_it = move |finding: &&Finding| finding.promise == promise;
        self.findings.iter().filter(of_it)
    }
}

/// One line of figures, then one for each violation.
impl fmt::Display for HistoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} grants, {} abandoned, at most {} holding and {} inside, {} writes accepted and {} refused, {} times queued",
            self.grants,
            self.abandoned,
            self.most_holders,
            self.most_inside,
            self.writes_accepted,
            self.writes_refused,
            self.queued
        )?;
        self.findings
            .iter()
            .try_for_each(|finding| write!(f, "\n{finding}"))
    }
}

/// Finds every violation.
#[must_use]
pub fn judge(history: &History) -> HistoryReport {
    let mut report = HistoryReport::default();
    let mut keys: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in &history.events {
        keys.entry(&event.key).or_default().push(event);
    }
    for (key, events) in keys {
        let mut judge = Judge {
            key,
            events: &events,
            report: &mut report,
        };
        judge.tokens();
        judge.writes();
        judge.holders();
        judge.entries();
        judge.queue();
    }
    report
}

struct Judge<'a> {
    key: &'a str,
    events: &'a [&'a Event],
    report: &'a mut HistoryReport,
}

impl Judge<'_> {
    fn find(&mut self, promise: Promise, what: String) {
        self.report.findings.push(Finding {
            promise,
            key: self.key.to_owned(),
            what,
        });
    }

    /// Each token has one holder. Of two grants, if one was received before the other was requested, the later one
    /// has the larger token.
    fn tokens(&mut self) {
        let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
        let mut ended: BTreeMap<u64, bool> = BTreeMap::new();
        // When each token was requested, and when it was first received.
        let mut times: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for event in self.events {
            let Some(grant) = event.what.grant() else {
                continue;
            };
            let holder = *holders.entry(grant.fencing_token).or_insert(&event.holder);
            if holder != event.holder {
                let token = grant.fencing_token;
                let what = format!("{holder} and {} have the token {token}", event.holder);
                self.find(Promise::TokensAreUnique, what);
            }
            let end = matches!(event.what, EventKind::Ended { .. } | EventKind::Left { .. });
            *ended.entry(grant.fencing_token).or_default() |= end;
            if let EventKind::Granted { asked_at, .. } = event.what {
                let (asked, heard) = times
                    .entry(grant.fencing_token)
                    .or_insert((asked_at, event.at));
                (*asked, *heard) = ((*asked).min(asked_at), (*heard).min(event.at));
            }
        }
        self.report.grants += holders.len();
        self.report.abandoned += ended.values().filter(|ended| !**ended).count();
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
            let grant = match &event.what {
                EventKind::Wrote {
                    accepted: false, ..
                } => {
                    self.report.writes_refused += 1;
                    continue;
                }
                EventKind::Wrote { grant, .. }
                | EventKind::Entered { grant, .. }
                | EventKind::Left { grant } => *grant,
                _ => continue,
            };
            self.report.writes_accepted += 1;
            if grant.fencing_token < newest {
                let (token, holder, at) = (grant.fencing_token, &event.holder, event.at);
                let what = format!("{token} of {holder} was accepted at {at} after {newest}");
                self.find(Promise::OldTokensAreRefused, what);
            }
            newest = grant.fencing_token.max(newest);
        }
    }

    /// A holder believes from each response until the instant in it, at most until its end was first requested.
    fn holders(&mut self) {
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for event in self.events {
            if let EventKind::Ended { grant } = event.what {
                let end = ends.entry(grant.fencing_token).or_insert(event.at);
                *end = event.at.min(*end);
            }
        }
        let mut beliefs = Vec::new();
        for event in self.events {
            if let EventKind::Granted {
                grant, safe_until, ..
            }
            | EventKind::Extended { grant, safe_until } = event.what
            {
                let end = ends.get(&grant.fencing_token).copied().unwrap_or(u64::MAX);
                beliefs.push((event.at, safe_until.min(end), grant, event.holder.as_str()));
            }
        }
        beliefs.sort_by_key(|(from, ..)| *from);
        let most = self.most_at_once(Promise::HoldersAreLimited, beliefs.into_iter());
        self.report.most_holders = self.report.most_holders.max(most);
    }

    /// A holder is inside from its entry until it leaves, at most until the promised instant.
    fn entries(&mut self) {
        let stays = self.events.iter().filter_map(|event| match event.what {
            EventKind::Entered { grant, until } => {
                Some((event.at, until, grant, event.holder.as_str()))
            }
            EventKind::Left { grant } => Some((event.at, 0, grant, event.holder.as_str())),
            _ => None,
        });
        let most = self.most_at_once(Promise::EntriesAreLimited, stays);
        self.report.most_inside = self.report.most_inside.max(most);
    }

    /// Goes through intervals in order, and finds each instant at which a second one begins. An interval that
    /// ends before it begins ends the one of the same grant. Returns the most at once.
    fn most_at_once<'a>(
        &mut self,
        promise: Promise,
        stretches: impl Iterator<Item = (u64, u64, Grant, &'a str)>,
    ) -> usize {
        let mut most = 0;
        let mut now: BTreeMap<u64, (u64, &str)> = BTreeMap::new();
        for (from, until, grant, holder) in stretches {
            now.retain(|_, (until, ..)| *until > from);
            if until <= from {
                if promise == Promise::EntriesAreLimited {
                    now.remove(&grant.fencing_token);
                }
                continue;
            }
            match now.entry(grant.fencing_token) {
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
            most = most.max(now.len());
        }
        most
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
                    self.report.queued += 1;
                    waiting.entry(&event.holder).or_insert(event.at);
                }
                EventKind::GaveUp => drop(waiting.remove(event.holder.as_str())),
                EventKind::Granted {
                    grant, asked_at, ..
                } => {
                    let token = grant.fencing_token;
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

    fn granted(asked_at: u64, at: u64, holder: &str, grant: Grant, safe_until: u64) -> Event {
        let what = EventKind::Granted {
            grant,
            asked_at,
            safe_until,
        };
        event(at, holder, what)
    }

    fn ended(at: u64, holder: &str, token: u64) -> Event {
        let grant = Grant::of(token);
        event(at, holder, EventKind::Ended { grant })
    }

    fn extended(at: u64, holder: &str, token: u64, safe_until: u64) -> Event {
        let grant = Grant::of(token);
        event(at, holder, EventKind::Extended { grant, safe_until })
    }

    fn entered(at: u64, holder: &str, grant: Grant, until: u64) -> Event {
        event(at, holder, EventKind::Entered { grant, until })
    }

    fn left(at: u64, holder: &str, token: u64) -> Event {
        let grant = Grant::of(token);
        event(at, holder, EventKind::Left { grant })
    }

    fn wrote(at: u64, holder: &str, token: u64, accepted: bool) -> Event {
        let grant = Grant::of(token);
        event(at, holder, EventKind::Wrote { grant, accepted })
    }

    /// A history without violations, in which each event is just within a promise.
    #[test]
    fn what_went_well_breaks_no_promise() {
        let g = Grant::of;
        let events = vec![
            granted(0, 10, "a", g(2), 100),
            entered(11, "a", g(2), 100),
            event(12, "b", EventKind::Queued),
            event(13, "c", EventKind::Queued),
            event(14, "d", EventKind::Queued),
            extended(20, "a", 2, 150),
            // An eviction, recorded as an end in the holder's name.
            ended(120, "a", 2),
            event(125, "c", EventKind::GaveUp),
            granted(5, 120, "b", g(4), 200),
            wrote(140, "a", 2, true),
            // After the instant that `a` had promised.
            entered(150, "b", g(4), 200),
            wrote(151, "a", 2, false),
            left(160, "b", 4),
            // It crashed, and the next one waits until its time has passed.
            granted(6, 200, "d", g(6), 300),
            granted(6, 210, "d", g(6), 300),
            // At the same time as the next, so either may be first.
            granted(290, 300, "e", g(10), 310),
            granted(300, 310, "f", g(8), 320),
        ];
        let report = judge(&History { events });
        assert!(report.is_kept(), "{report}");
        let numbers = (report.grants, report.abandoned, report.queued);
        assert_eq!(numbers, (5, 3, 3));
        assert_eq!((report.most_holders, report.most_inside), (1, 1));
        assert_eq!((report.writes_accepted, report.writes_refused), (4, 1));
    }

    #[test]
    fn each_broken_promise_is_found() {
        use Promise::*;
        let g = Grant::of;
        let cases: Vec<(Promise, Vec<Event>)> = vec![
            (
                TokensAreUnique,
                vec![granted(0, 9, "a", g(2), 10), granted(1, 11, "b", g(2), 20)],
            ),
            (TokensAreUnique, vec![ended(0, "a", 2), left(1, "b", 2)]),
            (
                TokensRise,
                vec![granted(0, 9, "a", g(4), 10), granted(10, 11, "b", g(2), 20)],
            ),
            (
                OldTokensAreRefused,
                vec![wrote(1, "a", 4, true), wrote(2, "b", 2, true)],
            ),
            (
                OldTokensAreRefused,
                vec![left(1, "a", 4), entered(2, "b", g(2), 9)],
            ),
            (
                HoldersAreLimited,
                vec![granted(0, 1, "a", g(2), 10), granted(1, 9, "b", g(4), 20)],
            ),
            (
                HoldersAreLimited,
                vec![
                    granted(0, 1, "a", g(2), 10),
                    granted(1, 15, "b", g(4), 20),
                    extended(9, "a", 2, 16),
                ],
            ),
            (
                HoldersAreLimited,
                vec![
                    granted(0, 1, "a", g(2), 10),
                    ended(5, "a", 2),
                    granted(1, 4, "b", g(4), 20),
                ],
            ),
            (
                EntriesAreLimited,
                vec![entered(1, "a", g(2), 10), entered(9, "b", g(4), 20)],
            ),
            // The same holder entered again, and stays until later.
            (
                EntriesAreLimited,
                vec![
                    entered(1, "a", g(2), 10),
                    entered(3, "a", g(2), 20),
                    entered(12, "b", g(4), 20),
                ],
            ),
            (
                ServedInOrder,
                vec![
                    event(5, "a", EventKind::Queued),
                    granted(6, 20, "b", g(2), 30),
                    granted(1, 40, "a", g(4), 50),
                ],
            ),
            (EverybodyIsServed, vec![event(5, "a", EventKind::Queued)]),
        ];
        for promise in Promise::ALL {
            assert!(cases.iter().any(|(of, _)| *of == promise), "{promise}");
        }
        for (promise, events) in cases {
            let report = judge(&History { events });
            let found: Vec<_> = report.findings.iter().map(|f| f.promise).collect();
            assert_eq!(found, [promise], "{report}");
        }
    }

    #[test]
    fn keys_are_independent() {
        let grant = Grant::of(2);
        let mut history = History::default();
        for key in ["k", "l"] {
            let granted = EventKind::Granted {
                grant,
                asked_at: 0,
                safe_until: 9,
            };
            history.record(1, key, key, granted);
            history.record(2, key, key, EventKind::Entered { grant, until: 9 });
        }
        let report = judge(&history);
        assert!(report.is_kept(), "{report}");
    }
}
