//! Values small enough that collisions are common.

use std::time::Duration;

use leasehold::{
    Act, Counter, Ended, Holder, Key, Keys, KeysDigest, LeaseId, Metadata, Operator, Previous,
    Reason, Record, RequestDigest, RequestId, Timestamp, Ttl,
    row::{Frozen, Holding, Reservation, Row, State},
    transition::{self, Tokens},
};

use super::steps::{Successor, Token};

pub fn seconds(n: u8) -> Timestamp {
    Timestamp::from_millis(1_000_000 + 1000 * u64::from(n))
}

pub fn id(n: u8) -> LeaseId {
    LeaseId::try_from(format!("id{n}")).unwrap()
}

pub fn digest(who: u8, request: u8) -> RequestDigest {
    RequestDigest::of(
        &holder(who),
        &RequestId::new(format!("r{request}")).unwrap(),
    )
}

pub fn holder(who: u8) -> Holder {
    Holder::new(format!("h{who}")).unwrap()
}

pub fn ttl(seconds: u8) -> Ttl {
    Ttl::new(Duration::from_secs(seconds.into())).unwrap()
}

/// What becomes of the line of a row with this token.
pub fn next(heir: Option<Successor>, token: u64) -> transition::Next {
    heir.map_or(transition::Next::Later, |heir| {
        transition::Next::Is(self::heir(heir, token))
    })
}

pub fn heir(
    Successor {
        id: n,
        until,
        floor,
    }: Successor,
    token: u64,
) -> transition::Successor {
    transition::Successor {
        lease_id: id(n),
        until: seconds(until),
        tokens: tokens(token, floor),
    }
}

/// No floor, or one at the row's token or just above it, in either way.
pub fn tokens(token: u64, floor: u8) -> Tokens {
    match floor {
        1 => Tokens::From(near(token, Token(0))),
        2 => Tokens::From(near(token, Token(1))),
        3 => Tokens::LiftedTo(near(token, Token(0))),
        4 => Tokens::LiftedTo(near(token, Token(1))),
        // Above what was promised as well.
        5 => Tokens::LiftedTo(near(token, Token(2))),
        _ => Tokens::From(Counter::MIN),
    }
}

pub fn two_keys() -> Option<KeysDigest> {
    let keys = ["a", "b"].map(|key| Key::new(key).unwrap());
    KeysDigest::of(&Keys::new(keys.into()).unwrap())
}

pub fn near(counter: u64, Token(step): Token) -> Counter {
    Counter::new(counter.saturating_add_signed(step.into()).max(1)).unwrap()
}

/// A row as an operator might leave it.
pub fn operated(row: Row, act: u8) -> Row {
    let version = Counter::new(row.version.get() + 1).unwrap();
    let record = Record {
        act: Act::Freeze,
        who: Operator::new("o").unwrap(),
        why: Reason::new("why").unwrap(),
        at: seconds(1),
    };
    let row = Row {
        version,
        operator: Some(record),
        ..row
    };
    match act {
        0 => Row {
            frozen: row.operator.clone().map(Frozen::By),
            purge_at: Some(Row::NEVER),
            ..row
        },
        1 => Row {
            frozen: None,
            purge_at: None,
            ..row
        },
        2 => Row {
            state: State::Free {
                ended: Ended::Forced,
                last_token: row.fencing_token,
                reserved: None,
            },
            fencing_token: Counter::new(row.fencing_token.get() + 1).unwrap(),
            ..row
        },
        // The line is not the operator's, whatever the write says of it.
        3 => Row {
            line: vec![digest(0, 0)],
            ..row
        },
        _ => another(row, act),
    }
}

/// A row that an operator makes where there is none.
pub fn made(act: u8) -> Row {
    let nobodys = Row {
        fencing_token: Counter::MIN,
        version: Counter::new(50).unwrap(),
        granted_to: holder(0),
        request: digest(0, 0),
        request_keys: None,
        past_requests: [None, None, None],
        previous: None,
        frozen: None,
        operator: None,
        purge_at: None,
        line: Vec::new(),
        state: State::Free {
            ended: Ended::Released,
            last_token: Counter::MIN,
            reserved: None,
        },
    };
    operated(nobodys, act)
}

/// A row of which nothing is as it was: held, free, or kept for somebody. No act of an operator leaves such a one.
fn another(row: Row, act: u8) -> Row {
    let free = |reserved| State::Free {
        ended: Ended::Expired,
        last_token: Counter::new(7).unwrap(),
        reserved,
    };
    Row {
        fencing_token: Counter::new(9).unwrap(),
        granted_to: holder(2),
        request: digest(2, 20),
        request_keys: (act == 5).then(two_keys).flatten(),
        past_requests: [21, 22, 23].map(|n| Some(digest(2, n))),
        previous: Some(Previous {
            holder: holder(1),
            fencing_token: Counter::new(5).unwrap(),
            ended: Ended::Forced,
        }),
        purge_at: (act != 5).then_some(77),
        state: match act {
            5 => State::Held(Holding {
                lease_id: id(2),
                ttl: ttl(33),
                acquired_at: seconds(34),
                extended_at: Some(seconds(35)),
                expires_at: seconds(36),
                sweep_after: Some(seconds(37)),
                metadata: Metadata::new([("another".to_owned(), "one".to_owned())].into()).unwrap(),
            }),
            6 => free(None),
            _ => free(Some(Reservation {
                request: digest(1, 24),
                lease_id: id(0),
                until: seconds(38),
                tries: Counter::new(4).unwrap(),
            })),
        },
        ..row
    }
}
