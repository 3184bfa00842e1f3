//! Sequences that chance brings about too seldom: each ends in a write that a row of ours would take.

use super::{
    steps::{PROOFS, Step, Successor, Token},
    strange::attribute,
};

const NONE: u8 = 0;
const TEXT: u8 = 1;
const SEVEN: u8 = 6;
const MAP: u8 = 11;

fn tamper(name: &str, value: u8) -> Step {
    Step::Tamper {
        attribute: attribute(name),
        value,
    }
}

fn grant(who: u8, at: u8) -> Step {
    Step::Grant {
        who,
        request: at,
        id: 0,
        at,
        ttl: 1,
        observed: None,
        several: false,
        floor: 0,
    }
}

fn join(who: u8) -> Step {
    Step::Join {
        who,
        request: 0,
        at: 0,
        observed: None,
        cap: 9,
        token: 0,
    }
}

fn leave(who: u8) -> Step {
    Step::Leave {
        who,
        request: 0,
        place: Some(0),
    }
}

const HEIR: Option<Successor> = Some(Successor {
    id: 1,
    until: 30,
    floor: 0,
});

fn release(heir: Option<Successor>) -> Step {
    Step::Release {
        id: PROOFS,
        token: Token(0),
        kept_for: None,
        ended: 0,
        heir,
    }
}

fn take(who: u8) -> Step {
    Step::Take {
        id: PROOFS,
        token: Token(0),
        who,
        at: 1,
        ttl: 5,
        require_unexpired: false,
        floor: 0,
    }
}

fn pass() -> Step {
    Step::Pass {
        id: PROOFS,
        tries: Token(0),
        heir: Successor {
            id: 2,
            until: 30,
            floor: 0,
        },
    }
}

fn reserve() -> Step {
    Step::Reserve {
        heir: Successor {
            id: 1,
            until: 30,
            floor: 0,
        },
    }
}

pub fn sequences() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    // Nobody leaves a row that is not ours.
    for broken in [
        "lease_id",
        "granted_to",
        "expires_at",
        "metadata",
        "request",
    ] {
        all.push(vec![grant(0, 1), join(1), tamper(broken, NONE), leave(1)]);
    }
    for broken in ["claim_id", "claim_until", "claim_tries", "ended"] {
        let kept = [grant(0, 1), join(1), join(2), release(HEIR)];
        for last in [leave(2), take(1), pass(), reserve(), join(0), grant(2, 30)] {
            all.push([&kept[..], &[tamper(broken, NONE), last.clone()]].concat());
            all.push([&kept[..], &[tamper(broken, MAP), last]].concat());
        }
    }
    // The token of the last grant, where it must not be, or as no number.
    for value in [TEXT, SEVEN] {
        let last = tamper("last_fencing_token", value);
        all.push(vec![grant(0, 1), last.clone(), grant(1, 30)]);
        all.push(vec![grant(0, 1), release(None), last.clone(), grant(1, 30)]);
        all.push(vec![
            grant(0, 1),
            join(1),
            release(HEIR),
            last.clone(),
            take(1),
        ]);
        all.push(vec![
            grant(0, 1),
            join(1),
            release(HEIR),
            last,
            pass(),
            grant(2, 30),
        ]);
    }
    // A line that is none.
    for value in [NONE, TEXT, MAP] {
        let line = tamper("line", value);
        for last in [
            release(HEIR),
            release(None),
            join(2),
            leave(1),
            grant(2, 30),
        ] {
            all.push(vec![grant(0, 1), join(1), line.clone(), last, grant(1, 31)]);
        }
        for last in [take(1), pass(), reserve(), join(2)] {
            all.push(vec![
                grant(0, 1),
                join(1),
                release(HEIR),
                line.clone(),
                last,
            ]);
        }
    }
    // What is said of a reservation while the row is held says nothing.
    for claim in ["claim", "claim_id", "claim_until", "claim_tries"] {
        let held = [grant(0, 1), join(1), tamper(claim, TEXT)];
        for last in [
            release(HEIR),
            release(None),
            join(2),
            leave(1),
            take(1),
            pass(),
        ] {
            all.push([&held[..], &[last, take(1), grant(2, 30)]].concat());
        }
    }
    all
}
