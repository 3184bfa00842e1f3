//! What one lease row may do: a specification of its own, written from the protocol and not from the library.
//!
//! A row here knows what the history has shown of it. What no answer has shown is left open: the proof and the token of
//! a grant whose answer was lost, and its deadline but for bounds. A later response settles it.

use crate::history::{Before, Ended, Invocation, Millis, Name, Op, Response};

mod granted;

/// How long after its deadline a lease may be taken by the clock, in milliseconds.
pub const MARGIN: Millis = 600;

/// How many requests a row remembers, the current one among them.
const REMEMBERED: usize = 4;

/// How many releases a row remembers.
const RELEASES: usize = 3;

/// A lease row, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// The highest token in any answer, also before the row was deleted.
    top: u64,
    /// At least this.
    version: u64,
    /// The current or last grant; none if there is no row.
    grant: Option<Grant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Grant {
    /// 0 while nobody knows.
    token: u64,
    holder: Name,
    /// 0 while nobody knows.
    lease: Name,
    standing: Standing,
    /// The youngest first.
    requests: Vec<Name>,
    previous: Option<Before>,
    /// The tokens of the last grants that were released, the youngest first.
    released: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// The deadline lies between these.
    Held(Millis, Millis),
    Free(Ended),
}

impl Grant {
    fn deadline(&self) -> Option<(Millis, Millis)> {
        match self.standing {
            Standing::Held(from, to) => Some((from, to)),
            Standing::Free(_) => None,
        }
    }

    fn last(&self) -> Before {
        let ended = match self.standing {
            Standing::Held(..) => Ended::Expired,
            Standing::Free(ended) => ended,
        };
        Before {
            holder: self.holder,
            token: self.token,
            ended,
        }
    }

    fn is(&self, token: u64, lease: Name) -> bool {
        self.deadline().is_some() && self.token == token && self.lease == lease
    }

    fn is_of(&self, request: Name) -> bool {
        self.requests.first() == Some(&request)
    }

    fn remembers(&self, request: Name) -> bool {
        self.requests.contains(&request)
    }

    /// Whether the row proves that the grant of this token was given back.
    fn was_given_back(&self, token: u64) -> Option<bool> {
        if self.deadline().is_none() && self.token == token {
            return Some(matches!(
                self.standing,
                Standing::Free(Ended::Released | Ended::Expired)
            ));
        }
        if self.released.contains(&token) {
            return Some(true);
        }
        // No answer has shown whose grant that was.
        (!self.released.contains(&0)).then_some(false)
    }
}

impl Row {
    /// The row after what the call answered, if it may have answered that of this row.
    #[must_use]
    pub fn after(&self, op: &Op) -> Option<Self> {
        match (&op.ask, &op.response) {
            (_, Response::Unknown) => None,
            (Invocation::Delete, _) => Some(Self {
                grant: None,
                ..self.clone()
            }),
            (Invocation::Acquire { .. }, _) => self.after_acquire(op),
            (Invocation::Extend { token, lease, .. }, Response::Lost) => {
                let is_current = self.grant.as_ref().is_some_and(|g| g.is(*token, *lease));
                (!is_current).then(|| self.clone())
            }
            (Invocation::Extend { token, lease, .. }, _) => {
                let grant = self.grant.as_ref().filter(|g| g.is(*token, *lease))?;
                self.after_extend(grant, op)
            }
            (Invocation::Release { token, lease }, response) => {
                self.after_release(*token, *lease, response)
            }
            (Invocation::Force { token }, Response::Forced { token: operators }) => {
                let mut row = self.ended(*token, Ended::Forced)?;
                row.top = row.top.max(*operators);
                (*operators > *token).then_some(row)
            }
            (Invocation::Force { token }, Response::Nobody) => {
                let held = |g: &Grant| g.deadline().is_some() && g.token == *token;
                (!self.grant.as_ref().is_some_and(held)).then(|| self.clone())
            }
            (Invocation::Inspect, Response::Nobody) => {
                let held = self.grant.as_ref().is_some_and(|g| g.deadline().is_some());
                (!held).then(|| self.clone())
            }
            (Invocation::Inspect, Response::Held { .. }) => self.shown(&op.response),
            _ => None,
        }
    }

    /// The row after the call's further effect, if that is possible.
    #[must_use]
    pub fn after_all(&self, op: &Op) -> Option<Self> {
        let (from, to) = op.clock;
        match &op.ask {
            Invocation::Acquire {
                holder,
                request,
                ttl,
                observed,
                ..
            } => {
                if let Some(grant) = &self.grant {
                    let may = match (grant.deadline(), observed) {
                        (None, _) => true,
                        (Some(_), Some(version)) => *version >= self.version,
                        (Some((soonest, _)), None) => soonest + MARGIN <= to,
                    };
                    if !may || grant.remembers(*request) {
                        return None;
                    }
                }
                Some(self.granted(0, *holder, 0, *request, (from + ttl, to + ttl)))
            }
            Invocation::Extend {
                token, lease, ttl, ..
            } => {
                let grant = self.grant.as_ref().filter(|g| g.is(*token, *lease))?;
                let (soonest, latest) = grant.deadline()?;
                let mut row = self.with(Grant {
                    standing: Standing::Held(soonest.max(from + ttl), latest.max(to + ttl)),
                    ..grant.clone()
                });
                row.version += 1;
                (soonest <= to + ttl).then_some(row)
            }
            Invocation::Release { token, lease } => {
                self.grant.as_ref().filter(|g| g.is(*token, *lease))?;
                self.ended(*token, Ended::Released)
            }
            Invocation::Force { token } => self.ended(*token, Ended::Forced),
            Invocation::Sweep => {
                let grant = self.grant.as_ref()?;
                let (soonest, _) = grant.deadline()?;
                if soonest + MARGIN > to {
                    return None;
                }
                self.ended(grant.token, Ended::Expired)
            }
            Invocation::Reap { holder } => {
                let grant = self.grant.as_ref().filter(|g| g.holder == *holder)?;
                self.ended(grant.token, Ended::Released)
            }
            Invocation::Inspect | Invocation::Delete => None,
        }
    }

    fn granted(
        &self,
        token: u64,
        holder: Name,
        lease: Name,
        request: Name,
        deadline: (Millis, Millis),
    ) -> Self {
        let mut requests = vec![request];
        if let Some(grant) = &self.grant {
            requests.extend(grant.requests.iter().take(REMEMBERED - 1));
        }
        Self {
            top: self.top.max(token),
            version: self.version + 1,
            grant: Some(Grant {
                token,
                holder,
                lease,
                standing: Standing::Held(deadline.0, deadline.1),
                requests,
                previous: self.grant.as_ref().map(Grant::last),
                released: self
                    .grant
                    .as_ref()
                    .map(|grant| grant.released.clone())
                    .unwrap_or_default(),
            }),
        }
    }

    fn after_extend(&self, grant: &Grant, op: &Op) -> Option<Self> {
        let Invocation::Extend {
            ttl,
            require_unexpired,
            ..
        } = &op.ask
        else {
            return None;
        };
        let (from, to) = op.clock;
        let (soonest, latest) = grant.deadline()?;
        match &op.response {
            Response::Expired => (*require_unexpired && soonest <= to).then(|| self.clone()),
            Response::Extended {
                revived,
                version,
                expires_at,
            } => {
                // Its own deadline, or the one in force, if that is later.
                let own = (from + ttl..=to + ttl).contains(expires_at);
                let in_range = (soonest..=latest).contains(expires_at);
                let in_time = if *revived {
                    soonest <= to && !require_unexpired
                } else {
                    latest > from
                };
                let fits = (own || in_range)
                    && *expires_at >= soonest
                    && *expires_at >= from + ttl
                    && *version >= self.version
                    && in_time;
                fits.then(|| Self {
                    version: *version,
                    ..self.with(Grant {
                        standing: Standing::Held(*expires_at, *expires_at),
                        ..grant.clone()
                    })
                })
            }
            _ => None,
        }
    }

    fn after_release(&self, token: u64, lease: Name, response: &Response) -> Option<Self> {
        let grant = self.grant.as_ref();
        let is_current = grant.is_some_and(|g| g.is(token, lease));
        let given_back = grant.map_or(Some(true), |g| g.was_given_back(token));
        match response {
            Response::Released if is_current => self.ended(token, Ended::Released),
            Response::AlreadyReleased if !is_current && given_back != Some(false) => {
                Some(self.clone())
            }
            Response::Lost if !is_current && given_back != Some(true) => Some(self.clone()),
            Response::Kept => Some(self.clone()),
            _ => None,
        }
    }

    fn ended(&self, token: u64, ended: Ended) -> Option<Self> {
        let grant = self.grant.as_ref();
        let grant = grant.filter(|g| g.deadline().is_some() && g.token == token)?;
        let mut released = grant.released.clone();
        if ended == Ended::Released {
            released.insert(0, token);
            released.truncate(RELEASES);
        }
        let mut row = self.with(Grant {
            standing: Standing::Free(ended),
            released,
            ..grant.clone()
        });
        row.version += 1;
        Some(row)
    }

    fn with(&self, grant: Grant) -> Self {
        Self {
            grant: Some(grant),
            ..self.clone()
        }
    }
}
