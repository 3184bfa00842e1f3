//! Writes that suit the rows of [`super::guards`], by who makes them and when.

use super::steps::{Step, Successor, Token};

/// Whose proof is whose.
pub const HOLDERS: u8 = 0;
pub const HEIRS: u8 = 1;

pub const HEIR: Successor = Successor {
    id: HEIRS,
    until: 30,
    floor: 0,
};

pub fn grant(who: u8, at: u8) -> Step {
    granted(who, at, None, 0)
}

pub fn granted(who: u8, at: u8, observed: Option<Token>, floor: u8) -> Step {
    Step::Grant {
        who,
        request: at,
        id: HOLDERS,
        at,
        ttl: 5,
        observed,
        several: false,
        floor,
    }
}

/// The same for another request.
pub fn asking(mut step: Step, by: u8, asks: u8) -> Step {
    if let Step::Grant { who, request, .. } | Step::Join { who, request, .. } = &mut step {
        (*who, *request) = (by, asks);
    }
    step
}

/// The same with another counter, or with another proof.
pub fn beside(step: &Step) -> Vec<Step> {
    let counters = [-2, 2].map(|away| {
        let mut step = step.clone();
        match &mut step {
            Step::Grant {
                observed: Some(counter),
                ..
            }
            | Step::Join {
                observed: Some(counter),
                ..
            }
            | Step::Extend { token: counter, .. }
            | Step::Release { token: counter, .. }
            | Step::Take { token: counter, .. }
            | Step::Together { token: counter, .. }
            | Step::Expire {
                version: counter, ..
            }
            | Step::Cut {
                version: counter, ..
            }
            | Step::Swap {
                version: counter, ..
            }
            | Step::TryAgain { tries: counter, .. }
            | Step::Pass { tries: counter, .. } => *counter = Token(away),
            _ => {}
        }
        step
    });
    let mut proof = step.clone();
    match &mut proof {
        Step::Extend { id, .. }
        | Step::Release { id, .. }
        | Step::Take { id, .. }
        | Step::Together { id, .. }
        | Step::TryAgain { id, .. }
        | Step::Pass { id, .. } => *id = 2,
        _ => {}
    }
    counters.into_iter().chain([proof]).collect()
}

/// The same for several keys.
pub fn of_several(mut step: Step) -> Step {
    if let Step::Grant { several, .. } = &mut step {
        *several = true;
    }
    step
}

pub fn join(who: u8) -> Step {
    joins(who, 1, None, 9)
}

pub fn joins(who: u8, at: u8, observed: Option<Token>, cap: u8) -> Step {
    Step::Join {
        who,
        request: 0,
        at,
        observed,
        cap,
        token: 0,
    }
}

/// Joins by observation.
pub fn by_sight(who: u8) -> Step {
    sees(who, 2, 9)
}

/// Joins because of a version that is so far from the one that stands.
pub fn sees(who: u8, away: i8, cap: u8) -> Step {
    joins(who, 1, Some(Token(away)), cap)
}

pub fn extend(at: u8, ttl: u8, require_unexpired: bool) -> Step {
    Step::Extend {
        id: HOLDERS,
        token: Token(0),
        at,
        ttl,
        require_unexpired,
    }
}

pub fn release(heir: Option<Successor>) -> Step {
    Step::Release {
        id: HOLDERS,
        token: Token(0),
        kept_for: None,
        ended: 0,
        heir,
    }
}

pub fn give_up(heir: Option<Successor>) -> Step {
    Step::Release {
        id: HEIRS,
        token: Token(0),
        kept_for: Some(1),
        ended: 0,
        heir,
    }
}

pub fn expire(heir: Option<Successor>) -> Step {
    Step::Expire {
        version: Token(0),
        heir,
    }
}

pub fn swap(act: u8) -> Step {
    Step::Swap {
        version: Token(0),
        act,
    }
}

pub fn take(at: u8, require_unexpired: bool) -> Step {
    Step::Take {
        id: HEIRS,
        token: Token(0),
        who: 1,
        at,
        ttl: 5,
        require_unexpired,
        floor: 0,
    }
}

pub fn pass() -> Step {
    Step::Pass {
        id: HEIRS,
        tries: Token(0),
        heir: Successor {
            id: 2,
            until: 31,
            floor: 0,
        },
    }
}

pub fn again() -> Step {
    Step::TryAgain {
        id: HEIRS,
        tries: Token(0),
        until: 31,
        floor: 0,
    }
}

pub fn leave(who: u8) -> Step {
    Step::Leave {
        who,
        request: 0,
        place: None,
    }
}

pub fn cut(at: u8) -> Step {
    Step::Cut {
        version: Token(0),
        at,
    }
}

pub fn check(at: u8) -> Step {
    Step::Together {
        id: HOLDERS,
        token: Token(0),
        at,
        check: true,
    }
}

/// The same with every floor.
pub fn at_every_floor(step: &Step) -> Vec<Step> {
    let mut all = vec![step.clone(); 6];
    for (which, step) in (0..).zip(&mut all) {
        match step {
            Step::Grant { floor, .. }
            | Step::Take { floor, .. }
            | Step::TryAgain { floor, .. }
            | Step::Reserve {
                heir: Successor { floor, .. },
            }
            | Step::Pass {
                heir: Successor { floor, .. },
                ..
            }
            | Step::Release {
                heir: Some(Successor { floor, .. }),
                ..
            }
            | Step::Expire {
                heir: Some(Successor { floor, .. }),
                ..
            } => *floor = which,
            _ => return vec![step.clone()],
        }
    }
    all
}

/// Every grant by the clock or by observation, with every floor.
pub fn grants(at: u8) -> Vec<Step> {
    [None, Some(Token(0))]
        .into_iter()
        .flat_map(|observed| at_every_floor(&granted(2, at, observed, 0)))
        .collect()
}
