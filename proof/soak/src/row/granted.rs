//! What acquire may answer, and what other calls may report of the grant.

use super::{Grant, MARGIN, Row, Standing};
use crate::history::{Before, Ended, Invocation, Kind, Op, Response};

impl Row {
    pub(super) fn after_acquire(&self, op: &Op) -> Option<Self> {
        let Invocation::Acquire {
            holder,
            request,
            ttl,
            observed,
            reentrant,
        } = &op.ask
        else {
            return None;
        };
        match &op.response {
            Response::Consumed => {
                let grant = self.grant.as_ref()?;
                let its = grant.deadline().is_some() && grant.is_of(*request);
                (grant.remembers(*request) && !its).then(|| self.clone())
            }
            Response::Held { .. } => {
                let grant = self.grant.as_ref()?;
                let (soonest, latest) = grant.deadline()?;
                let takeable = match observed {
                    Some(version) => *version == self.version && self.reports_version(&op.response),
                    // By the slowest of its clocks it had been dead for more than the margin.
                    None => latest + MARGIN <= op.clock.0,
                };
                let own = *reentrant && grant.holder == *holder && soonest > op.clock.1;
                if takeable || own || grant.remembers(*request) {
                    return None;
                }
                self.shown(&op.response)
            }
            Response::Granted {
                kind: Kind::Replayed,
                ..
            } => {
                let grant = self.grant.as_ref()?;
                let (_, latest) = grant.deadline()?;
                let entered = *reentrant && grant.holder == *holder && latest > op.clock.0;
                if !grant.is_of(*request) && !entered {
                    return None;
                }
                self.replayed(&op.response)
            }
            Response::Granted {
                kind,
                token,
                lease,
                version,
                acquired_at,
                expires_at,
                previous,
            } => {
                let last = self.grant.as_ref().map(Grant::last);
                if let Some(grant) = &self.grant {
                    let over = match (grant.deadline(), observed) {
                        (None, _) => true,
                        (Some(_), Some(version)) => *version >= self.version,
                        (Some((soonest, _)), None) => soonest + MARGIN <= *acquired_at,
                    };
                    if !over || grant.remembers(*request) {
                        return None;
                    }
                }
                let clean = last.is_none_or(|last| last.ended == Ended::Released);
                let (from, to) = op.clock;
                let fits = *token > self.top
                    && *version > self.version
                    && (*kind == Kind::New) == clean
                    && *expires_at == *acquired_at + *ttl
                    && (from..=to).contains(acquired_at)
                    && same(*previous, last);
                fits.then(|| {
                    let deadline = (*expires_at, *expires_at);
                    let mut row = self.granted(*token, *holder, *lease, *request, deadline);
                    row.version = *version;
                    row.grant = row.grant.map(|grant| Grant {
                        previous: *previous,
                        ..grant
                    });
                    row
                })
            }
            _ => None,
        }
    }

    /// The current grant was answered as a grant: what was open is settled.
    fn replayed(&self, response: &Response) -> Option<Self> {
        let Response::Granted {
            token,
            lease,
            version,
            expires_at,
            previous,
            ..
        } = response
        else {
            return None;
        };
        let grant = self.grant.as_ref()?;
        let (soonest, latest) = grant.deadline()?;
        let token_fits = grant.token == *token || (grant.token == 0 && *token > self.top);
        let fits = token_fits
            && (grant.lease == 0 || grant.lease == *lease)
            && *version >= self.version
            && (soonest..=latest).contains(expires_at)
            && same(*previous, grant.previous);
        fits.then(|| Self {
            top: self.top.max(*token),
            version: *version,
            grant: Some(Grant {
                token: *token,
                lease: *lease,
                standing: Standing::Held(*expires_at, *expires_at),
                previous: *previous,
                ..grant.clone()
            }),
        })
    }

    /// The current grant was shown to somebody else.
    pub(super) fn shown(&self, response: &Response) -> Option<Self> {
        let Response::Held {
            holder,
            token,
            version,
            expires_at,
        } = response
        else {
            return None;
        };
        let grant = self.grant.as_ref()?;
        let (soonest, latest) = grant.deadline()?;
        let token_fits = grant.token == *token || (grant.token == 0 && *token > self.top);
        let fits = token_fits
            && grant.holder == *holder
            && *version >= self.version
            && (soonest..=latest).contains(expires_at);
        fits.then(|| Self {
            top: self.top.max(*token),
            version: *version,
            grant: Some(Grant {
                token: *token,
                standing: Standing::Held(*expires_at, *expires_at),
                ..grant.clone()
            }),
        })
    }

    fn reports_version(&self, response: &Response) -> bool {
        matches!(response, Response::Held { version, .. } if *version == self.version)
    }
}

/// What was reported of the previous grant, and what is known of it.
fn same(reported: Option<Before>, known: Option<Before>) -> bool {
    match (reported, known) {
        (Some(reported), Some(known)) => {
            reported.holder == known.holder
                && reported.ended == known.ended
                && (known.token == 0 || reported.token == known.token)
        }
        (reported, known) => reported == known,
    }
}
