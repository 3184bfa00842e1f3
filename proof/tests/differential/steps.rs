//! The steps of a random sequence.

use proptest::prelude::*;

use super::strange::{ATTRIBUTES, STRANGE, attribute};

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
        /// Of what was kept for this one, instead of a grant.
        kept_for: Option<u8>,
        ended: u8,
        heir: Option<Successor>,
    },
    Expire {
        version: Token,
        heir: Option<Successor>,
    },
    /// Shortens what is left of it.
    Cut {
        version: Token,
        at: u8,
    },
    Join {
        who: u8,
        request: u8,
        at: u8,
        observed: Option<Token>,
        cap: u8,
        /// To be called back by.
        token: u8,
    },
    Leave {
        who: u8,
        request: u8,
        /// As seen; where it stands if this does not say.
        place: Option<u8>,
    },
    Reserve {
        heir: Successor,
    },
    TryAgain {
        id: u8,
        tries: Token,
        until: u8,
        floor: u8,
    },
    Pass {
        id: u8,
        tries: Token,
        heir: Successor,
    },
    Take {
        id: u8,
        token: Token,
        who: u8,
        at: u8,
        ttl: u8,
        require_unexpired: bool,
        floor: u8,
    },
    /// A waiter's item: another token for it, or its end.
    CallBack {
        who: u8,
        request: u8,
        token: u8,
    },
    Forget {
        who: u8,
        request: u8,
        token: u8,
    },
    /// An operator's: freezes, thaws, or ends the grant, of a row with this version.
    Swap {
        version: Token,
        act: u8,
    },
    /// An operator's: a row where there is none.
    Make {
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
    Delete,
    /// Remembers the item.
    Keep,
    /// Puts the item that was remembered, but for one attribute.
    Again {
        attribute: u8,
        value: u8,
    },
}

/// Which lease id a write proves: one of a few, or above them whichever the row has.
pub const PROOFS: u8 = 3;

/// Who leaves the line: one who may be in it, or above them whoever stands at a place of it.
pub const REQUESTS: u8 = 6;

/// What the next in line gets.
#[derive(Clone, Copy, Debug)]
pub struct Successor {
    pub id: u8,
    pub until: u8,
    /// As in [`Step::Grant`].
    pub floor: u8,
}

/// The row's own counter, or one beside it.
#[derive(Clone, Copy, Debug)]
pub struct Token(pub i8);

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let among_us = prop_oneof![12 => of_the_holder(), 16 => of_the_line(), 1 => of_operators()];
    let any = prop_oneof![
        10 => of_the_holder(), 10 => of_the_line(), 2 => of_operators(), 3 => of_strangers()
    ];
    // Mostly somebody holds it and others are in line already: without, little else fits.
    let queue = prop::option::weighted(0.8, (grant(), prop::collection::vec(join(), 0..4)));
    let steps = prop_oneof![
        prop::collection::vec(among_us, 1..30),
        prop::collection::vec(any, 1..30),
    ];
    (queue, steps).prop_map(|(queue, steps)| {
        let before = queue.map(|(grant, joins)| std::iter::once(grant).chain(joins));
        before.into_iter().flatten().chain(steps).collect()
    })
}

fn token() -> impl Strategy<Value = Token> {
    prop_oneof![12 => Just(0_i8), 1 => Just(-2), 1 => Just(2)].prop_map(Token)
}

fn heir() -> impl Strategy<Value = Successor> {
    (0..PROOFS, 0..40_u8, floor()).prop_map(|(id, until, floor)| Successor { id, until, floor })
}

/// Mostly the one that is asked for.
fn proof() -> impl Strategy<Value = u8> {
    prop_oneof![1 => 0..PROOFS, 6 => Just(PROOFS)]
}

/// Mostly none.
fn floor() -> impl Strategy<Value = u8> {
    0..20_u8
}

fn grant() -> impl Strategy<Value = Step> {
    (
        0..3_u8,
        0..REQUESTS,
        0..PROOFS,
        0..40_u8,
        1..20_u8,
        prop::option::weighted(0.5, token()),
        any::<bool>(),
        floor(),
    )
        .prop_map(
            |(who, request, id, at, ttl, observed, several, floor)| Step::Grant {
                who,
                request,
                id,
                at,
                ttl,
                observed,
                several,
                floor,
            },
        )
}

fn join() -> impl Strategy<Value = Step> {
    (
        0..3_u8,
        0..REQUESTS,
        0..20_u8,
        prop::option::weighted(0.1, token()),
        0..9_u8,
        0..3_u8,
    )
        .prop_map(|(who, request, at, observed, cap, token)| Step::Join {
            who,
            request,
            at,
            observed,
            cap,
            token,
        })
}

fn of_the_holder() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => grant(),
        4 => (proof(), token(), 0..40_u8, 1..20_u8, prop::bool::weighted(0.2)).prop_map(
            |(id, token, at, ttl, require_unexpired)| Step::Extend {
                id, token, at, ttl, require_unexpired
            }
        ),
        8 => (
            proof(), token(), prop::option::weighted(0.3, 0..3_u8), 0..2_u8,
            prop::option::weighted(0.7, heir()),
        ).prop_map(|(id, token, kept_for, ended, heir)| Step::Release {
            id, token, kept_for, ended, heir
        }),
        2 => (token(), prop::option::weighted(0.7, heir()))
            .prop_map(|(version, heir)| Step::Expire { version, heir }),
        1 => (token(), 0..40_u8).prop_map(|(version, at)| Step::Cut { version, at }),
        1 => (0..PROOFS, token(), 0..40_u8, any::<bool>())
            .prop_map(|(id, token, at, check)| Step::Together { id, token, at, check }),
    ]
}

fn of_the_line() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => join(),
        2 => (0..3_u8, 0..2 * REQUESTS, prop::option::weighted(0.2, 0..3_u8))
            .prop_map(|(who, request, place)| Step::Leave { who, request, place }),
        3 => heir().prop_map(|heir| Step::Reserve { heir }),
        2 => (proof(), token(), 0..40_u8, floor())
            .prop_map(|(id, tries, until, floor)| Step::TryAgain { id, tries, until, floor }),
        2 => (proof(), token(), heir()).prop_map(|(id, tries, heir)| Step::Pass { id, tries, heir }),
        4 => (
            proof(), token(), 0..3_u8, 0..40_u8, 1..20_u8, prop::bool::weighted(0.2), floor()
        ).prop_map(|(id, token, who, at, ttl, require_unexpired, floor)| Step::Take {
            id, token, who, at, ttl, require_unexpired, floor
        }),
        1 => (0..3_u8, 0..REQUESTS, 0..3_u8)
            .prop_map(|(who, request, token)| Step::CallBack { who, request, token }),
        1 => (0..3_u8, 0..REQUESTS, 0..3_u8)
            .prop_map(|(who, request, token)| Step::Forget { who, request, token }),
    ]
}

fn of_operators() -> impl Strategy<Value = Step> {
    let act = prop_oneof![1 => Just(0_u8), 4 => 1..5_u8];
    prop_oneof![
        4 => (token(), act).prop_map(|(version, act)| Step::Swap { version, act }),
        1 => (5..8_u8).prop_map(|act| Step::Make { act }),
    ]
}

fn of_strangers() -> impl Strategy<Value = Step> {
    let attributes = u8::try_from(ATTRIBUTES.len()).unwrap();
    prop_oneof![
        4 => (0..attributes, 0..STRANGE)
            .prop_map(|(attribute, value)| Step::Tamper { attribute, value }),
        1 => (1..STRANGE).prop_map(|value| Step::Tamper { attribute: attribute("frozen"), value }),
        2 => Just(Step::Delete),
    ]
}
