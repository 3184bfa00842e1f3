//! The protocol once more, for one key without a queue: as small as it can be said, by somebody who has not looked
//! at the library's own rules. It counts grants instead of proving them, and knows no store.

use leasehold::{Ended, Settings};

use super::operations::{Call, Operation, Seen};

/// A fact that both the library and the reference can tell of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    Granted {
        kind: &'static str,
        handle: Handle,
        previous: Option<Before>,
    },
    Held {
        token: u64,
        version: u64,
        retry_at: u64,
    },
    Extended(Handle),
    Revived(Handle, u64),
    Released(&'static str, bool),
    Swept(u64),
    Refused(&'static str),
    Done,
}

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub token: u64,
    pub version: u64,
    pub ttl: u64,
    pub expires: u64,
}

/// The grant before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    pub who: u8,
    pub token: u64,
    pub ended: Ended,
}

/// The key's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub token: u64,
    pub version: u64,
    /// Whose the last grants were, latest first: four of them are remembered.
    pub granted: Vec<(u8, u8)>,
    pub previous: Option<Before>,
    /// The length and the deadline, while it is held; else how it ended.
    pub state: Result<(u64, u64), Ended>,
    pub frozen: bool,
    proof: usize,
}

pub struct Reference {
    pub now: u64,
    pub row: Option<Record>,
    /// Each with the number of its grant, which is its proof.
    handles: Vec<(Handle, usize)>,
    grants: usize,
}

const REMEMBERED: usize = 4;

fn margin() -> u64 {
    u64::try_from(Settings::default().clock_margin.as_millis()).unwrap()
}

impl Reference {
    pub const fn new(now: u64) -> Self {
        Self {
            now,
            row: None,
            handles: Vec::new(),
            grants: 0,
        }
    }

    pub fn take(&mut self, operation: &Operation) -> Fact {
        let fact = self.make(operation);
        let given = match &fact {
            Fact::Granted { handle, .. } | Fact::Extended(handle) | Fact::Revived(handle, _) => {
                Some(*handle)
            }
            _ => None,
        };
        let proof = self.row.as_ref().map_or(0, |row| row.proof);
        self.handles.extend(given.map(|handle| (handle, proof)));
        fact
    }

    fn make(&mut self, operation: &Operation) -> Fact {
        let length = 1000 * u64::from(operation.seconds);
        let handle = self.handles.iter().rev().nth(operation.handle.into());
        let handle = handle.copied();
        match operation.call {
            Call::Acquire => {
                let version = operation.observed.map(|seen| match seen {
                    Seen::None => 0,
                    Seen::Last => self.handles.last().map_or(0, |(handle, _)| handle.version),
                    Seen::Standing => self.row.as_ref().map_or(0, |row| row.version),
                });
                let by = (operation.who, operation.request);
                self.acquire(by, length, version, operation.strict)
            }
            Call::Extend => handle.map_or(Fact::Done, |(handle, proof)| {
                let ttl = if length == 0 { handle.ttl } else { length };
                self.extend(proof, ttl, operation.strict)
            }),
            Call::Release => handle.map_or(Fact::Done, |(handle, proof)| {
                match self.release(handle, proof) {
                    "lost" if operation.strict => Fact::Refused("Lease.Lost"),
                    outcome => Fact::Released(outcome, handle.expires <= self.now),
                }
            }),
            Call::Sweep => self.sweep(),
            Call::Freeze => self.freeze(true),
            Call::Unfreeze => self.freeze(false),
            beside => {
                match beside {
                    Call::Delete => self.row = None,
                    Call::Pass => self.now += length,
                    Call::JumpBack => self.now -= length,
                    _ => unreachable!("{operation:?} is beyond the reference"),
                }
                Fact::Done
            }
        }
    }

    fn acquire(&mut self, by: (u8, u8), ttl: u64, observed: Option<u64>, reentrant: bool) -> Fact {
        self.grants += 1;
        let now = self.now;
        let fresh = |row: Option<&Record>| Record {
            token: row.map_or(now, |row| row.token) + 2,
            version: row.map_or(now, |row| row.version) + 1,
            granted: std::iter::once(by)
                .chain(row.into_iter().flat_map(|row| row.granted.iter().copied()))
                .take(REMEMBERED)
                .collect(),
            previous: row.map(Record::last),
            state: Ok((ttl, now + ttl)),
            frozen: false,
            proof: self.grants,
        };
        let Some(row) = &self.row else {
            self.row = Some(fresh(None));
            return self.granted("new");
        };
        let over = match (row.state, observed) {
            (Err(_), _) => true,
            (Ok(_), Some(version)) => row.version == version,
            (Ok((_, deadline)), None) => deadline + margin() <= now,
        };
        let held = row.state.ok();
        let own = held.is_some() && row.granted[0] == by;
        let re_entered = held.is_some_and(|(_, deadline)| deadline > now)
            && reentrant
            && row.granted[0].0 == by.0;
        if own {
            self.granted("replayed")
        } else if row.granted.contains(&by) {
            Fact::Refused("Lease.Consumed")
        } else if over && !row.frozen {
            let kind = if row.last().ended == Ended::Released {
                "new"
            } else {
                "takeover"
            };
            self.row = Some(fresh(Some(row)));
            self.granted(kind)
        } else if re_entered {
            self.granted("replayed")
        } else if row.frozen {
            Fact::Refused("Lease.Frozen")
        } else {
            let (_, deadline) = held.expect("it is not over");
            Fact::Held {
                token: row.token,
                version: row.version,
                retry_at: deadline + margin() + 1,
            }
        }
    }

    fn granted(&self, kind: &'static str) -> Fact {
        let row = self.row.as_ref().expect("granted");
        Fact::Granted {
            kind,
            handle: row.handle().expect("held"),
            previous: row.previous,
        }
    }

    fn extend(&mut self, proof: usize, ttl: u64, require_unexpired: bool) -> Fact {
        let now = self.now;
        let current = self.row.as_mut().filter(|row| row.proof == proof);
        let Some((row, (held, deadline))) = current
            .and_then(|row| Some((row.state.ok()?, row)))
            .map(|(s, r)| (r, s))
        else {
            return Fact::Refused("Lease.Lost");
        };
        let lapsed = deadline <= now;
        if lapsed && require_unexpired {
            return Fact::Refused("Lease.Expired");
        }
        if lapsed && row.frozen {
            return Fact::Refused("Lease.Frozen");
        }
        row.version += 1;
        // Never an earlier deadline; and with the deadline the length stays.
        row.state = Ok(if now + ttl < deadline {
            (held, deadline)
        } else {
            (ttl, now + ttl)
        });
        let handle = row.handle().expect("held");
        if lapsed {
            Fact::Revived(handle, now - deadline)
        } else {
            Fact::Extended(handle)
        }
    }

    fn release(&mut self, handle: Handle, proof: usize) -> &'static str {
        let Some(row) = &mut self.row else {
            return "already released";
        };
        if row.state.is_ok() && row.proof == proof {
            row.version += 1;
            row.state = Err(Ended::Released);
            return "released";
        }
        // Of grants that are over the row tells no more than their tokens.
        let over = |before: Before| before.token == handle.token;
        let given_back = |before: Before| over(before) && before.ended == Ended::Released;
        let was = row.state.is_err() && over(row.last()) || row.previous.is_some_and(given_back);
        if was { "already released" } else { "lost" }
    }

    fn sweep(&mut self) -> Fact {
        let now = self.now;
        let over = |row: &&mut Record| {
            row.state
                .is_ok_and(|(_, deadline)| deadline + margin() <= now)
        };
        match self.row.as_mut().filter(over).filter(|row| !row.frozen) {
            None => Fact::Swept(0),
            Some(row) => {
                row.version += 1;
                row.state = Err(Ended::Expired);
                Fact::Swept(1)
            }
        }
    }

    /// An operator's write is a write. A key without a row is left to the library: it gets one.
    fn freeze(&mut self, frozen: bool) -> Fact {
        if let Some(row) = self.row.as_mut().filter(|row| row.frozen != frozen) {
            row.version += 1;
            row.frozen = frozen;
        }
        Fact::Done
    }
}

impl Record {
    /// The last grant, as the next one is told of it.
    fn last(&self) -> Before {
        Before {
            who: self.granted[0].0,
            token: self.token,
            ended: self.state.err().unwrap_or(Ended::Expired),
        }
    }

    fn handle(&self) -> Option<Handle> {
        let (ttl, expires) = self.state.ok()?;
        Some(Handle {
            token: self.token,
            version: self.version,
            ttl,
            expires,
        })
    }
}
