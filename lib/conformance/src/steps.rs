//! The writes of a sequence, random ones and chosen ones, in terms small enough that collisions are common.

use std::fmt;

use fastrand::Rng;

use crate::items::{ATTRIBUTES, STRANGE, attribute};

/// What a step does. A time is in seconds; a proof is one of a few lease ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Grant,
    Extend,
    /// Proves an execution lease.
    Prove,
    /// Looks at the execution that has it.
    Look,
    Release,
    Expire,
    /// Shortens what is left of it.
    Cut,
    Join,
    /// A start joins the queue, whose item is elsewhere.
    JoinStart,
    Leave,
    /// The free row is granted to the first in the queue, which leaves it.
    HandOver,
    /// A waiter's item gets another task token.
    CallBack,
    /// A waiter's item is deleted.
    Forget,
    /// The row is replaced: by an operator, or with what is known of a notification.
    Swap,
    /// An operator's: a row where there is none.
    Make,
    /// Two rows at once: this one and one that is always free, as a set of grants or with a check.
    Together,
    /// A stranger's: one attribute of the item.
    Tamper,
    Delete,
    /// Remembers the item.
    Keep,
    /// Puts the item that was remembered, but for one attribute.
    Again,
}

/// Who is a start.
pub const START: u8 = 7;

/// One write and its arguments, each of which means something to some of the writes.
#[derive(Clone, Copy, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "a switch each")]
pub struct Step {
    pub write: Write,
    pub who: u8,
    /// Whose place in the queue is left, or who is granted the free row, if it is [`REQUESTS`] or more: whoever is there.
    pub request: u8,
    /// Which lease id is granted or proved: one of a few, or from [`PROOFS`] on whichever the row has.
    pub proof: u8,
    pub at: u8,
    pub ttl: u8,
    /// How far the counter that is named (token or version) is from the row's own.
    pub away: i8,
    /// By observation of the version instead of by the clock.
    pub observed: bool,
    /// A grant of several keys, a check beside a grant, a deadline that must not have passed, or a place behind others only.
    pub strict: bool,
    /// A grant that lasts as long as an execution, a place in the queue for a permit, or a start that has none.
    pub execution: bool,
    /// A grant to one that waits with a task token, a look that finds it in the history of its holder, or a place in the queue
    /// that is left for a permit.
    pub told: bool,
    /// How long the row stays closed after the grant.
    pub at_least: u8,
    /// Without a floor, or with one at the row's token or just above it, in either way.
    pub floor: u8,
    /// When another look may end the lease.
    pub until: u8,
    /// The place in the queue as seen; where it is if this does not say.
    pub place: Option<u8>,
    pub cap: u8,
    /// The task token to be called back by.
    pub token: u8,
    /// What the row is replaced by.
    pub act: u8,
    pub attribute: u8,
    pub value: u8,
}

/// Lease ids that are not the row's.
pub const PROOFS: u8 = 3;
pub const REQUESTS: u8 = 6;

/// The act that grants the row to an execution that waited for it.
pub const GRANTED: u8 = 8;

/// The acts that limit the key to none, and to three.
pub const NOBODY: u8 = 9;
pub const THREE: u8 = 10;

pub const PLAIN: Step = Step {
    write: Write::Delete,
    who: 0,
    request: 0,
    proof: 0,
    at: 1,
    ttl: 5,
    away: 0,
    observed: false,
    strict: false,
    execution: false,
    told: false,
    at_least: 0,
    floor: 0,
    until: 30,
    place: None,
    cap: 9,
    token: 0,
    act: 0,
    attribute: 0,
    value: 0,
};

impl Step {
    /// Whether no call of the library does it.
    pub fn meddles(&self) -> bool {
        [Write::Tamper, Write::Keep, Write::Again, Write::Delete].contains(&self.write)
    }
}

/// What differs from [`PLAIN`].
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        macro_rules! differing {
            ($($field:ident)*) => {$(
                if self.$field != PLAIN.$field {
                    write!(f, " {} {:?}", stringify!($field), self.$field)?;
                }
            )*};
        }
        write!(f, "{:?}", self.write)?;
        differing!(who request proof at ttl away observed strict execution told at_least floor until);
        differing!(place cap token act attribute value);
        Ok(())
    }
}

type Weighted = [(u8, Write)];
const OF_THE_HOLDER: &Weighted = &[
    (8, Write::Grant),
    (4, Write::Extend),
    (2, Write::Prove),
    (2, Write::Look),
    (8, Write::Release),
    (2, Write::Expire),
    (1, Write::Cut),
    (1, Write::Together),
];
const OF_THE_QUEUE: &Weighted = &[
    (12, Write::Join),
    (2, Write::JoinStart),
    (3, Write::Leave),
    (8, Write::HandOver),
    (1, Write::CallBack),
    (1, Write::Forget),
];
const OF_OPERATORS: &Weighted = &[(4, Write::Swap), (1, Write::Make)];
const OF_STRANGERS: &Weighted = &[(5, Write::Tamper), (2, Write::Delete)];

/// A random sequence, in every second of which strangers write too.
pub fn steps(rng: &mut Rng) -> Vec<Step> {
    let mut steps = Vec::new();
    // Mostly somebody holds it and others are in the queue already: without, little else fits.
    if rng.u8(..10) < 8 {
        steps.push(step(Write::Grant, rng));
        steps.extend((0..rng.u8(..4)).map(|_| step(Write::Join, rng)));
    }
    let kinds: &[_] = if rng.bool() {
        &[(12, OF_THE_HOLDER), (16, OF_THE_QUEUE), (1, OF_OPERATORS)]
    } else {
        &[
            (10, OF_THE_HOLDER),
            (10, OF_THE_QUEUE),
            (2, OF_OPERATORS),
            (3, OF_STRANGERS),
        ]
    };
    for _ in 0..rng.u8(1..30) {
        let kind = one_of(kinds, rng);
        steps.push(step(one_of(kind, rng), rng));
    }
    steps
}

fn one_of<T: Copy>(weighted: &[(u8, T)], rng: &mut Rng) -> T {
    let mut left = rng.u8(..weighted.iter().map(|(weight, _)| weight).sum::<u8>());
    for (weight, one) in weighted {
        match left.checked_sub(*weight) {
            Some(rest) => left = rest,
            None => return *one,
        }
    }
    unreachable!("less than the sum of the weights")
}

fn step(write: Write, rng: &mut Rng) -> Step {
    // Mostly what fits the row: its own proof, its own counter, no floor.
    let whose = rng.u8(..2 * REQUESTS);
    let (observed, strict, odds) = (rng.u8(..10), rng.u8(..10), rng.bool());
    let act = rng.u8(..13);
    let step = Step {
        write,
        who: rng.u8(..3),
        request: whose % REQUESTS,
        proof: one_of(&[(18, PROOFS), (1, 0), (1, 1), (1, 2)], rng),
        away: one_of(&[(12, 0), (1, -2), (1, 2)], rng),
        at: rng.u8(..40),
        ttl: rng.u8(1..20),
        until: rng.u8(..40),
        floor: rng.u8(..20),
        observed: observed < 5,
        strict: strict < 2,
        execution: rng.u8(..10) < 3,
        told: odds,
        at_least: if odds { 0 } else { whose % 4 },
        place: (rng.u8(..5) == 0).then(|| rng.u8(..3)),
        cap: rng.u8(..9),
        token: rng.u8(..3),
        act: 1 + act % 4,
        attribute: rng.u8(..u8::try_from(ATTRIBUTES.len()).unwrap()),
        value: rng.u8(..STRANGE),
    };
    match write {
        Write::Grant | Write::Together => Step {
            proof: step.proof % PROOFS,
            strict: odds,
            ..step
        },
        Write::Join => Step {
            at: step.at / 2,
            observed: observed < 1,
            ..step
        },
        Write::JoinStart => Step { who: START, ..step },
        Write::Leave => Step {
            request: whose,
            ..step
        },
        // Mostly to whoever is first, and mostly a grant.
        Write::HandOver => Step {
            request: if strict < 8 { REQUESTS } else { whose },
            act: if observed < 8 { GRANTED } else { step.act },
            ..step
        },
        Write::Swap if strict < 2 => Step { act: 0, ..step },
        Write::Swap if strict < 5 => Step {
            act: NOBODY + act % 2,
            ..step
        },
        Write::Make => Step {
            act: 5 + act % 3,
            ..step
        },
        Write::Tamper if strict < 2 => Step {
            attribute: attribute("frozen"),
            value: step.value.max(1),
            ..step
        },
        _ => step,
    }
}

pub const fn of(write: Write) -> Step {
    Step { write, ..PLAIN }
}

pub const fn grant(who: u8, at: u8) -> Step {
    Step {
        who,
        request: at,
        at,
        ..of(Write::Grant)
    }
}

/// Every grant by the clock or by observation, with every floor.
pub fn grants(at: u8) -> Vec<Step> {
    let grants = [false, true].map(|observed| Step {
        observed,
        ..grant(2, at)
    });
    grants.iter().flat_map(at_every_floor).collect()
}

pub const fn extend(at: u8, ttl: u8, strict: bool) -> Step {
    Step {
        at,
        ttl,
        strict,
        ..of(Write::Extend)
    }
}

pub const fn prove(at: u8) -> Step {
    Step {
        at,
        ..of(Write::Prove)
    }
}

/// A look, after which another may end the lease or not.
pub const fn look(at: u8, again: bool) -> Step {
    Step {
        at,
        strict: again,
        ..of(Write::Look)
    }
}

pub const fn release() -> Step {
    of(Write::Release)
}

pub const fn expire() -> Step {
    of(Write::Expire)
}

pub const fn cut(at: u8) -> Step {
    Step {
        at,
        ..of(Write::Cut)
    }
}

/// A check of the lease beside another grant.
pub const fn check(at: u8) -> Step {
    Step {
        at,
        strict: true,
        ..of(Write::Together)
    }
}

pub const fn swap(act: u8) -> Step {
    Step {
        act,
        ..of(Write::Swap)
    }
}

pub const fn join(who: u8) -> Step {
    joins(who, 1, 9)
}

pub const fn joins(who: u8, at: u8, cap: u8) -> Step {
    Step {
        who,
        at,
        cap,
        ..of(Write::Join)
    }
}

/// Joins because of a version that is so far from the stored one.
pub const fn observes(who: u8, away: i8, cap: u8) -> Step {
    Step {
        away,
        observed: true,
        ..joins(who, 1, cap)
    }
}

/// A start joins the queue.
pub const fn start_joins() -> Step {
    Step {
        who: START,
        ..of(Write::JoinStart)
    }
}

pub const fn leave(who: u8) -> Step {
    Step {
        who,
        ..of(Write::Leave)
    }
}

/// Replaces the row for which nobody waits.
pub const fn swap_alone(act: u8) -> Step {
    Step {
        strict: true,
        ..swap(act)
    }
}

/// Leaves because it is granted a permit.
pub const fn leave_granted(who: u8) -> Step {
    Step {
        told: true,
        ..leave(who)
    }
}

/// Joins for a permit, if others wait.
pub const fn join_behind(who: u8) -> Step {
    Step {
        strict: true,
        ..join_for_permit(who)
    }
}

/// Joins for a permit, whoever has the row.
pub const fn join_for_permit(who: u8) -> Step {
    Step {
        execution: true,
        ..join(who)
    }
}

/// Leaves as long as a later one waits.
pub const fn leave_for(who: u8, later: u8) -> Step {
    Step {
        proof: later,
        strict: true,
        ..leave(who)
    }
}

/// The row becomes another one, whatever it is, and this waiter leaves the front of the queue.
pub const fn hand_over(who: u8, act: u8) -> Step {
    Step {
        who,
        act,
        ..of(Write::HandOver)
    }
}

/// The same with another counter, or with another proof, where the write names one.
pub fn beside(step: &Step) -> Vec<Step> {
    let observes = step.observed || ![Write::Grant, Write::Join].contains(&step.write);
    let counts = observes && step.write != Write::Leave;
    let proves = [Write::Extend, Write::Prove, Write::Release, Write::Together];
    let counters = [-2, 2].map(|away| Step { away, ..*step });
    let proof = Step { proof: 2, ..*step };
    let counters = counters.into_iter().filter(|_| counts);
    counters
        .chain(proves.contains(&step.write).then_some(proof))
        .collect()
}

/// Every floor of a grant: none, or one at the row's token or just above it, in either way.
const FLOORS: u8 = 5;

fn at_every_floor(grant: &Step) -> Vec<Step> {
    (0..FLOORS).map(|floor| Step { floor, ..*grant }).collect()
}
