//! One who sees every write of every row, and knows what must not happen.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{ground::kind_of, steps::Op};
use crate::{
    clock::Timestamp,
    outcomes::Ended,
    row::{Holding, Reservation, Row, State, Stored},
    settings::Settings,
    transition::{Change, Of},
    values::{Key, RequestDigest},
};

/// How far any clock is from the true time, at most.
pub(super) const SKEW: u64 = 1000;

#[derive(Default)]
pub(super) struct Witness {
    lines: BTreeMap<Key, Line>,
    pub(super) names: HashMap<RequestDigest, String>,
    /// Requests whose workflows are over.
    pub(super) ended: HashSet<RequestDigest>,
    /// Requests whose place in line went by, or was lost with its row.
    displaced: HashSet<RequestDigest>,
    /// Leases that somebody was told of.
    heard: HashSet<String>,
    /// Leases, promised or granted, that are over.
    over: HashSet<String>,
    /// Leases that were taken from their holders, who may go on for a while.
    evicted: HashSet<String>,
    /// The first thing that went wrong.
    pub(super) wrong: Option<String>,
}

#[derive(Default)]
struct Line {
    /// Who waits, and until when.
    waiting: Vec<(RequestDigest, Timestamp)>,
    /// Every token that was granted or promised, and to whom.
    tokens: BTreeMap<u64, RequestDigest>,
    last: u64,
}

type Seen = Result<(), String>;

impl Witness {
    pub(super) fn heard(&mut self, lease_id: String) {
        self.heard.insert(lease_id);
    }

    pub(super) fn is_over(&self, lease_id: &str) -> bool {
        self.over.contains(lease_id)
    }

    pub(super) fn was_evicted(&self, lease_id: &str) -> bool {
        self.evicted.contains(lease_id)
    }

    pub(super) fn was_displaced(&self, request: &RequestDigest) -> bool {
        self.displaced.contains(request)
    }

    fn name(&self, request: &RequestDigest) -> &str {
        self.names.get(request).map_or("nobody", String::as_str)
    }

    /// Somebody deleted the row by hand, and the line with it.
    pub(super) fn deleted(&mut self, key: &Key, row: &Row) {
        let line = self.lines.entry(key.clone()).or_default();
        let waiting = line.waiting.drain(..).map(|(request, _)| request);
        let lost = waiting.chain(row.reserved().map(|kept| kept.request.clone()));
        self.displaced.extend(lost);
        let held = row.holding().map(|held| held.lease_id.expose());
        let kept = row.reserved().map(|kept| kept.lease_id.expose());
        self.over.extend(held.or(kept).map(str::to_owned));
        self.evicted.extend(held.map(str::to_owned));
    }

    /// A write that took effect.
    pub(super) fn saw(&mut self, op: &Op, before: Stored, after: &Stored, now: Timestamp) -> Seen {
        let Stored::Row(after) = after else {
            return Err("a row is gone".into());
        };
        let before = match before {
            Stored::Row(row) => Some(row),
            _ => None,
        };
        match op {
            Op::Join(key, _, waiter) => {
                if !before.is_some_and(|row| row.holding().is_some() || row.is_spoken_for()) {
                    return Err("waits for a key that nobody has".into());
                }
                let place = (waiter.request.clone(), waiter.deadline);
                self.displaced.remove(&waiter.request);
                self.line(key).waiting.push(place);
                self.line_is(key, after)
            }
            Op::Apply(address, Change::Leave(leave)) => {
                self.left(&address.key, &leave.request, now)?;
                self.line_is(&address.key, after)
            }
            Op::Apply(address, change) => {
                self.promised(&address.key, change, before.as_ref(), after, now)?;
                self.granted(&address.key, change, before.as_ref(), after, now)?;
                self.line_is(&address.key, after)
            }
            _ => Err("a row was changed by what changes none".into()),
        }
    }

    fn line(&mut self, key: &Key) -> &mut Line {
        self.lines.entry(key.clone()).or_default()
    }

    fn line_is(&mut self, key: &Key, row: &Row) -> Seen {
        let line = self.line(key);
        let should = line.waiting.iter().map(|(request, _)| request);
        if should.eq(row.waiting()) {
            Ok(())
        } else {
            Err("the line is not what it should be".into())
        }
    }

    fn left(&mut self, key: &Key, request: &RequestDigest, now: Timestamp) -> Seen {
        let line = self.line(key);
        let place = line.waiting.iter().position(|(r, _)| r == request);
        let Some(place) = place else {
            return Err("somebody left who was not there".into());
        };
        let (request, deadline) = line.waiting.remove(place);
        if self.ended.contains(&request) || deadline <= now.plus(skew()) {
            Ok(())
        } else {
            Err(format!("{} had to leave in time", self.name(&request)))
        }
    }

    /// What a change does to a promise.
    fn promised(
        &mut self,
        key: &Key,
        change: &Change,
        before: Option<&Row>,
        after: &Row,
        now: Timestamp,
    ) -> Seen {
        let was = before.and_then(Row::reserved);
        let is = after.reserved();
        if was.map(|kept| &kept.lease_id) == is.map(|kept| &kept.lease_id) {
            return Ok(());
        }
        if let Some(was) = was {
            match change {
                Change::Take(_) if after.request == was.request => {}
                Change::Pass(_) => self.passed(was, now)?,
                Change::Release(release) if release.of != Of::Grant => {
                    self.over.insert(was.lease_id.expose().to_owned());
                    let token = release.fencing_token.get();
                    self.rises(key, token)?;
                }
                _ => return Err(format!("a promise is gone after {}", kind_of(change))),
            }
        }
        let Some(is) = is else { return Ok(()) };
        let line = self.line(key);
        if line.waiting.first().map(|(request, _)| request) != Some(&is.request) {
            return Err("kept for somebody who is not first in line".into());
        }
        line.waiting.remove(0);
        self.spend(key, after.fencing_token.get() + 1, &is.request)
    }

    fn passed(&mut self, was: &Reservation, now: Timestamp) -> Seen {
        let margin = Settings::default().clock_margin;
        let lapsed = was.tries.get() > 1 && was.until.plus(margin) <= now.plus(skew());
        let lives = !self.ended.contains(&was.request);
        let lease_id = was.lease_id.expose();
        if lives && !lapsed && self.heard.contains(lease_id) {
            let name = self.name(&was.request);
            return Err(format!("{name} was told, and passed over"));
        }
        self.over.insert(lease_id.to_owned());
        self.displaced.insert(was.request.clone());
        Ok(())
    }

    /// What a change does to a grant.
    fn granted(
        &mut self,
        key: &Key,
        change: &Change,
        before: Option<&Row>,
        after: &Row,
        now: Timestamp,
    ) -> Seen {
        let was = before.and_then(Row::holding);
        let is = after.holding();
        if was.map(|held| &held.lease_id) == is.map(|held| &held.lease_id) {
            return Ok(());
        }
        if let Some(was) = was {
            ended(change, was, now)?;
            self.over.insert(was.lease_id.expose().to_owned());
            if let Change::Swap(_) = change {
                self.evicted.insert(was.lease_id.expose().to_owned());
                self.spend(key, after.fencing_token.get(), &after.request)?;
            }
        }
        if is.is_none() {
            return Ok(());
        }
        let token = after.fencing_token.get();
        self.rises(key, token)?;
        match change {
            Change::Take(_) if self.line(key).tokens.get(&token) == Some(&after.request) => Ok(()),
            Change::Take(_) => Err("took what was not promised".into()),
            _ if !self.line(key).waiting.is_empty() || before.is_some_and(Row::is_spoken_for) => {
                Err("barged in".into())
            }
            _ => self.spend(key, token, &after.request),
        }
    }

    fn spend(&mut self, key: &Key, token: u64, on: &RequestDigest) -> Seen {
        match self.line(key).tokens.insert(token, on.clone()) {
            None => Ok(()),
            Some(_) => Err(format!("token {token} is given out twice")),
        }
    }

    fn rises(&mut self, key: &Key, token: u64) -> Seen {
        let last = std::mem::replace(&mut self.line(key).last, token);
        if token > last {
            Ok(())
        } else {
            Err(format!("token {token} comes after {last}"))
        }
    }

    /// A row in a few words.
    pub(super) fn row(&self, stored: &Stored) -> String {
        let Stored::Row(row) = stored else {
            return "no row".into();
        };
        let state = match &row.state {
            State::Held(_) => format!("held by {}", self.name(&row.request)),
            State::Free { reserved, .. } => match reserved {
                Some(kept) => format!("kept for {}, try {}", self.name(&kept.request), kept.tries),
                None => "free".to_owned(),
            },
        };
        let line: Vec<_> = row.waiting().iter().map(|r| self.name(r)).collect();
        let frozen = if row.frozen.is_some() { ", frozen" } else { "" };
        let token = row.fencing_token.get() % 1_000_000;
        format!("{token} {state}{frozen}, line {line:?}")
    }
}

fn skew() -> std::time::Duration {
    std::time::Duration::from_millis(SKEW)
}

/// Nobody loses a lease before its time, but by an operator.
fn ended(change: &Change, was: &Holding, now: Timestamp) -> Seen {
    let by_time = match change {
        Change::End(end) => end.ended == Ended::Expired,
        Change::Grant(_) => true,
        Change::Release(release) => release.ended == Ended::Expired,
        Change::Swap(_) => false,
        _ => return Err(format!("a grant is gone after {}", kind_of(change))),
    };
    if by_time && was.expires_at > now.plus(skew()) {
        return Err("a grant was ended before its time".into());
    }
    Ok(())
}
