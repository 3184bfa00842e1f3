//! The steps of a random sequence.

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::{
    Act, Counter, Ended, LeaseId, Operator, Reason, Record, Timestamp,
    row::{Frozen, Row, State},
};
use proptest::prelude::*;

/// A write, or what a stranger does, in terms small enough that collisions are common.
#[derive(Clone, Debug)]
pub enum Step {
    Grant {
        who: u8,
        request: u8,
        id: u8,
        at: u8,
        ttl: u8,
        /// By observation of this version instead of by the clock.
        observed: Option<Token>,
        several: bool,
        /// Without a floor, or with one at the row's token or just above it, in either way.
        floor: u8,
    },
    Extend {
        id: u8,
        token: Token,
        at: u8,
        ttl: u8,
        require_unexpired: bool,
    },
    Release {
        id: u8,
        token: Token,
    },
    Expire {
        version: Token,
    },
    /// An operator's: freezes, thaws, or ends the grant, of a row with this version.
    Swap {
        version: Token,
        act: u8,
    },
    /// Two rows at once: this one and one that is always free, as a set of grants or with a check.
    Together {
        id: u8,
        token: Token,
        at: u8,
        check: bool,
    },
    Tamper {
        attribute: u8,
        value: u8,
    },
    Freeze,
    Delete,
}

/// The row's own counter, or one beside it.
#[derive(Clone, Copy, Debug)]
pub struct Token(pub i8);

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let token = || prop_oneof![8 => Just(0_i8), 1 => Just(-2), 1 => Just(2)].prop_map(Token);
    let step = prop_oneof![
        8 => (
            0..3_u8, 0..6_u8, 0..3_u8, 0..40_u8, 1..20_u8,
            prop::option::weighted(0.3, token()), any::<bool>(), 0..20_u8,
        ).prop_map(|(who, request, id, at, ttl, observed, several, floor)| Step::Grant {
            who, request, id, at, ttl, observed, several, floor
        }),
        5 => (0..3_u8, token(), 0..40_u8, 1..20_u8, any::<bool>()).prop_map(
            |(id, token, at, ttl, require_unexpired)| Step::Extend {
                id, token, at, ttl, require_unexpired
            }
        ),
        4 => (0..3_u8, token()).prop_map(|(id, token)| Step::Release { id, token }),
        2 => token().prop_map(|version| Step::Expire { version }),
        3 => (token(), 0..3_u8).prop_map(|(version, act)| Step::Swap { version, act }),
        2 => (0..3_u8, token(), 0..40_u8, any::<bool>())
            .prop_map(|(id, token, at, check)| Step::Together { id, token, at, check }),
        2 => (0..22_u8, 0..9_u8).prop_map(|(attribute, value)| Step::Tamper { attribute, value }),
        1 => Just(Step::Freeze),
        1 => Just(Step::Delete),
    ];
    prop::collection::vec(step, 1..25)
}

pub const ATTRIBUTES: [&str; 22] = [
    "holder",
    "lease_id",
    "ttl_ms",
    "acquired_at",
    "extended_at",
    "expires_at",
    "metadata",
    "sweep_after",
    "fencing_token",
    "version",
    "granted_to",
    "request",
    "past_request_1",
    "past_request_2",
    "past_request_3",
    "previous_holder",
    "previous_fencing_token",
    "ended",
    "purge_at",
    "request_keys",
    "operator",
    "colour",
];

/// What a stranger writes. No fraction: a condition cannot see one, and DESIGN.md says so.
pub fn strange(value: u8) -> Option<AttributeValue> {
    let n = |text: &str| AttributeValue::N(text.to_owned());
    Some(match value {
        0 => return None,
        1 => AttributeValue::S("released".to_owned()),
        2 => AttributeValue::S("h1".to_owned()),
        3 => n("-1"),
        4 => n("0"),
        5 => n("99999999999999999999999999999999999999"),
        6 => n("7"),
        7 => AttributeValue::Bool(true),
        _ => AttributeValue::M([("a".to_owned(), AttributeValue::S("b".to_owned()))].into()),
    })
}

/// `sweep_after` is the index's; `holder` its key, which must be a string.
pub fn is_writable(name: &str, value: Option<&AttributeValue>) -> bool {
    !matches!((name, value), ("holder", Some(v)) if v.as_s().is_err())
}

pub fn seconds(n: u8) -> Timestamp {
    Timestamp::from_millis(1_000_000 + 1000 * u64::from(n))
}

pub fn id(n: u8) -> LeaseId {
    LeaseId::try_from(format!("id{n}")).unwrap()
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
        _ => Row {
            state: State::Free {
                ended: Ended::Forced,
            },
            fencing_token: Counter::new(row.fencing_token.get() + 1).unwrap(),
            ..row
        },
    }
}
