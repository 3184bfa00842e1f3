//! Every kind of write on a row that would take it but for one attribute: what each part of a condition is there for;
//! and rows of strangers that chance brings about too seldom.

use super::{
    items::attribute,
    steps::{
        NEXT, PLAIN, Step, Write, at_every_floor, beside, check, cut, expire, extend, give_up,
        grant, grants, join, joins, leave, look, observes, of, pass, prove, release, reserve, swap,
        take, try_again,
    },
};

/// An attribute, and the place of a value in [`super::items::strange`].
type Tampering = (&'static str, u8);
const NONE: u8 = 0;
const RELEASED: u8 = 1;
const ANOTHER: u8 = 2;
const LESS: u8 = 3;
const ZERO: u8 = 4;
const HUGE: u8 = 5;
const SEVEN: u8 = 6;
const MAP: u8 = 11;
const DIGEST: u8 = 12;

const NOTHING: Tampering = ("colour", NONE);

/// What keeps any row from being ours.
#[rustfmt::skip]
const OURS: [Tampering; 8] = [
    ("fencing_token", ZERO), ("fencing_token", HUGE), ("version", ZERO), ("version", HUGE),
    ("request", SEVEN), ("granted_to", SEVEN), ("line", RELEASED), ("line", NONE),
];

/// And a held one with a deadline.
#[rustfmt::skip]
const HELD: [Tampering; 13] = [
    ("holder", ANOTHER), ("ended", RELEASED), ("last_fencing_token", SEVEN), ("lease_id", SEVEN),
    ("metadata", RELEASED), ("ttl_ms", ZERO), ("ttl_ms", HUGE), ("acquired_at", ZERO),
    ("acquired_at", HUGE), ("expires_at", ZERO), ("expires_at", HUGE), ("claim", DIGEST), ("keep_ms", SEVEN),
];

/// And one that lasts as long as an execution.
#[rustfmt::skip]
const OF_EXECUTION: [Tampering; 13] = [
    ("holder", ANOTHER), ("ended", RELEASED), ("last_fencing_token", SEVEN), ("lease_id", SEVEN),
    ("metadata", RELEASED), ("keep_ms", LESS), ("keep_ms", HUGE), ("keep_ms", NONE), ("acquired_at", ZERO),
    ("acquired_at", HUGE), ("expires_at", SEVEN), ("ttl_ms", SEVEN), ("claim", DIGEST),
];

/// What a free row of ours has not, and an execution lease must not have at its beginning.
#[rustfmt::skip]
const OF_ANOTHER_KIND: [Tampering; 4] = [
    ("ttl_ms", SEVEN), ("expires_at", SEVEN), ("looked_at", SEVEN), ("look_again_at", SEVEN),
];

/// And a free one.
#[rustfmt::skip]
const FREE: [Tampering; 7] = [
    ("holder", ANOTHER), ("lease_id", RELEASED), ("ended", NONE), ("ended", ANOTHER),
    ("last_fencing_token", ZERO), ("last_fencing_token", HUGE), ("last_fencing_token", RELEASED),
];

/// And one that is reserved for somebody.
#[rustfmt::skip]
const RESERVED: [Tampering; 7] = [
    ("claim", SEVEN), ("claim_id", SEVEN), ("claim_until", ZERO),
    ("claim_until", HUGE), ("claim_tries", ZERO), ("claim_tries", HUGE), ("keep_ms", SEVEN),
];

/// What is done with a write on a row that has come about in one of several ways: [`guarded`] once, and otherwise
/// [`as_it_comes`].
type OnEach = fn(&[Step], &Step, &[&[Tampering]]) -> Vec<Step>;

fn as_it_comes(before: &[Step], last: &Step, _: &[&[Tampering]]) -> Vec<Step> {
    one_by_one(before, std::iter::once(*last).chain(beside(last)))
}

/// The row as it comes, then frozen, then with each of these attributes; and the write each time.
fn guarded(before: &[Step], last: &Step, attributes: &[&[Tampering]]) -> Vec<Step> {
    let changes = [("frozen", RELEASED)].into_iter().chain(OURS);
    let changes = changes.chain(attributes.iter().copied().flatten().copied());
    let tampered = changes.map(|change| (change, *last));
    let as_it_is = std::iter::once(*last).chain(beside(last));
    each(before, as_it_is.map(|step| (NOTHING, step)).chain(tampered))
}

/// The grants whose floor a row with a history suits, one of each form: others are refused whatever else the row says.
fn suited(at: u8) -> impl Iterator<Item = Step> {
    let grants = grants(at).into_iter();
    grants.filter(|grant| [0, 1, 4].contains(&grant.floor))
}

/// Each of these on the row as it comes.
fn one_by_one(before: &[Step], lasts: impl IntoIterator<Item = Step>) -> Vec<Step> {
    each(before, lasts.into_iter().map(|step| (NOTHING, step)))
}

fn each(before: &[Step], all: impl IntoIterator<Item = (Tampering, Step)>) -> Vec<Step> {
    let again = all.into_iter().flat_map(|(change, step)| {
        let again = Step {
            write: Write::Again,
            ..tamper(change)
        };
        [again, step]
    });
    let steps = before.iter().copied().chain([of(Write::Keep)]).chain(again);
    steps.collect()
}

fn tamper((name, value): Tampering) -> Step {
    Step {
        write: Write::Tamper,
        attribute: attribute(name),
        value,
        ..PLAIN
    }
}

fn of_several(step: Step) -> Step {
    Step {
        strict: true,
        ..step
    }
}

/// A row that has a history, and a holder who has extended.
fn held() -> Vec<Step> {
    let mut steps = Vec::new();
    for (who, at) in [(0, 10), (0, 11), (1, 12)] {
        steps.extend([grant(who, at), release(None)]);
    }
    steps.extend([of_several(grant(0, 1)), extend(1, 5, false)]);
    steps
}

/// In which every part of every expression matters.
pub fn of_every_part() -> Vec<Vec<Step>> {
    let held = held();
    let mut all = of_held(&held);
    all.extend(of_execution());
    let queued = [&held[..], &[join(1), join(2)]].concat();
    for last in [leave(1), joins(0, 1, 9)] {
        all.push(guarded(&queued, &last, &[&HELD]));
    }
    let ends = [release(None), release(NEXT), expire(None), expire(NEXT)];
    // A later call is not put back: it comes last.
    let joining =
        [2, 3, 9].map(|cap| [observes(0, 0, cap), observes(0, 2, cap), joins(0, 30, cap)]);
    let repeated = [join(1), observes(1, 2, 9), extend(20, 9, false)];
    let ends = ends.iter().flat_map(at_every_floor);
    let others = joining.concat().into_iter().chain(repeated);
    all.push(one_by_one(&queued, ends.chain(others).chain(grants(30))));
    // However the last grant ended.
    for (end, act) in [
        (release(None), guarded as OnEach),
        (expire(None), as_it_comes),
        (swap(2), as_it_comes),
    ] {
        all.extend(of_free(&held, &queued, end, act));
    }
    for (end, act) in [
        (release(NEXT), guarded as OnEach),
        (expire(NEXT), as_it_comes),
        (swap(2), as_it_comes),
    ] {
        all.extend(of_reserved(&queued, end, act));
    }
    // Nobody is in the queue behind the one that it is reserved for.
    let alone = [&held[..], &[join(1), release(NEXT)]].concat();
    all.push(one_by_one(&alone, grants(30)));
    for last in [join(0), observes(0, 2, 9)] {
        all.push(guarded(&alone, &last, &[&RESERVED]));
    }
    all.push(of_waiters());
    let frozen = [&held[..], &[swap(0)]].concat();
    all.push(one_by_one(&frozen, [swap(1)]));
    let anew = grants(30).into_iter();
    all.push(anew.flat_map(|grant| [grant, PLAIN]).collect());
    // Where there is nothing, and where there is something.
    let made = |act| Step {
        act,
        ..of(Write::Make)
    };
    let made = [0, 2, 5, 6, 7].map(|act| [made(act), made(0), PLAIN]);
    all.push(made.concat());
    all
}

fn of_held(held: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    let mut lasts: Vec<_> = suited(30).collect();
    lasts.extend([
        extend(2, 9, false),
        extend(20, 9, false),
        extend(2, 9, true),
    ]);
    lasts.extend([cut(4), check(2), join(2), observes(2, 2, 9)]);
    lasts.extend([release(None), release(NEXT), expire(None), expire(NEXT)]);
    lasts.extend([swap(0), swap(2)]);
    for last in &lasts {
        all.push(guarded(held, last, &[&HELD]));
    }
    all.push(one_by_one(held, grants(30)));
    all.push(one_by_one(held, remembered(&grants(30))));
    all.push(one_by_one(held, remembered(&[join(2), observes(2, 2, 9)])));
    // The very moment: it ends at 6, and a taker waits for another two.
    all.push(one_by_one(held, [grants(7), grants(8)].concat()));
    all.push(guarded(held, &extend(6, 9, false), &[]));
    let too_short = [
        extend(2, 1, false),
        extend(2, 1, true),
        joins(2, 30, 9),
        observes(2, 0, 9),
    ];
    all.push(one_by_one(held, too_short));
    let on_the_dot = [
        joins(2, 8, 9),
        extend(6, 9, true),
        extend(2, 4, true),
        cut(6),
        check(6),
    ];
    all.push(one_by_one(
        held,
        on_the_dot.into_iter().chain((5..8).map(swap)),
    ));
    // A grant after one that was forced, and one of a single key.
    let single = [grant(0, 1)];
    let forced = [held, &[swap(2), grant(2, 30)]].concat();
    all.extend([&single[..], &forced].map(|before| one_by_one(before, (5..8).map(swap))));
    // What a release left that found nobody in the queue, and what a grant of several keys left.
    for end in [release(NEXT), release(None)] {
        for before in [&single[..], held] {
            let free = [before, &[end]].concat();
            let lasts = grants(30).into_iter();
            all.push(one_by_one(
                &free,
                lasts.flat_map(|last| [of_several(last), last]),
            ));
        }
    }
    all
}

/// Rows that an execution holds: proven and looked at, and nobody's by any clock.
fn of_execution() -> Vec<Vec<Step>> {
    let granted = |who, at| Step {
        execution: true,
        ..grant(who, at)
    };
    let mut held = Vec::new();
    for (who, at) in [(0, 10), (0, 11), (1, 12)] {
        held.extend([grant(who, at), release(None)]);
    }
    held.extend([of_several(granted(0, 1)), prove(2), look(3, true)]);
    let mut all = Vec::new();
    let lasts = [
        prove(4),
        look(4, true),
        look(4, false),
        check(30),
        join(2),
        observes(2, 0, 9),
        observes(2, 2, 9),
        release(None),
        release(NEXT),
        expire(None),
        expire(NEXT),
        swap(0),
        swap(2),
    ];
    for last in &lasts {
        all.push(guarded(&held, last, &[&OF_EXECUTION]));
    }
    // No clock ends it, and no observation; nor is it extended or cut.
    let others = [extend(2, 9, false), extend(30, 9, true), cut(4)];
    let others = others.into_iter().chain((5..9).map(swap));
    all.push(one_by_one(&held, grants(30).into_iter().chain(others)));
    let queued = [&held[..], &[join(1), join(2)]].concat();
    let ends = [release(None), release(NEXT), expire(None), expire(NEXT)];
    let ends = ends.iter().flat_map(at_every_floor);
    all.push(one_by_one(&queued, ends.chain(grants(30))));
    all.push(guarded(&queued, &leave(1), &[&OF_EXECUTION]));
    // One kind after the other, whatever ended the one before.
    let expired = [grant(0, 1), extend(1, 5, false)];
    let taken = grants(30).into_iter().map(|grant| Step {
        execution: true,
        ..grant
    });
    let taken: Vec<_> = taken.collect();
    all.push(one_by_one(&expired, taken.iter().copied()));
    let free = [&held[..], &[release(None)]].concat();
    all.push(one_by_one(&free, taken.into_iter().chain(grants(30))));
    // What a stranger left of one kind goes with a grant of the other.
    let free = [grant(0, 1), release(None)];
    for last in suited(30) {
        all.push(guarded(&free, &last, &[&[("keep_ms", SEVEN)]]));
        let last = Step {
            execution: true,
            ..last
        };
        all.push(guarded(&free, &last, &[&OF_ANOTHER_KIND]));
    }
    // What is no proof of an execution's lease.
    let with_deadline = [grant(0, 1)];
    all.push(one_by_one(
        &with_deadline,
        [prove(2), look(2, true), look(2, false)],
    ));
    all
}

/// Rows that are free, without a queue and with one.
fn of_free(held: &[Step], queued: &[Step], end: Step, on_each: OnEach) -> Vec<Vec<Step>> {
    let free = [held, &[end]].concat();
    let mut all: Vec<_> = suited(30)
        .map(|last| on_each(&free, &last, &[&FREE]))
        .collect();
    all.push(one_by_one(&free, grants(30)));
    let joins = [join(0), observes(0, 2, 9)];
    all.push(one_by_one(&free, remembered(&grants(30)).chain(joins)));
    let free = [queued, &[end]].concat();
    let lasts = [
        reserve(),
        leave(1),
        join(0),
        observes(0, 2, 9),
        swap(0),
        grant(0, 30),
    ];
    for last in &lasts {
        all.push(on_each(&free, last, &[&FREE, &[("claim", DIGEST)]]));
    }
    all.push(one_by_one(&free, lasts.iter().flat_map(at_every_floor)));
    all.push(one_by_one(
        &free,
        remembered(&[join(0)]).chain((5..8).map(swap)),
    ));
    all
}

/// Rows that are reserved for the first of two.
fn of_reserved(queued: &[Step], end: Step, on_each: OnEach) -> Vec<Vec<Step>> {
    let mut reserved = [queued, &[end]].concat();
    if end.write == Write::Swap {
        reserved.push(reserve());
    }
    let mut all = Vec::new();
    let mut lasts = vec![
        take(2, false),
        take(2, true),
        pass(),
        try_again(),
        leave(2),
        join(0),
    ];
    lasts.extend([observes(0, 2, 9), give_up(None), give_up(NEXT), swap(0)]);
    for last in &lasts {
        all.push(on_each(&reserved, last, &[&FREE, &RESERVED]));
    }
    all.push(one_by_one(&reserved, lasts.iter().flat_map(at_every_floor)));
    let more = [take(30, true), join(1), observes(1, 2, 9)].into_iter();
    let more = more.chain((5..8).map(swap)).chain(grants(30));
    all.push(one_by_one(&reserved, remembered(&[join(0)]).chain(more)));
    let tried = [&reserved[..], &[try_again(), try_again()]].concat();
    let another = Step {
        until: 33,
        ..give_up(Some(2))
    };
    let lasts = [pass(), try_again(), another].into_iter();
    let lasts = lasts.flat_map(|last| [at_every_floor(&last), beside(&last).to_vec()].concat());
    all.push(one_by_one(&tried, lasts));
    all
}

/// Each of them by every request that was granted before.
fn remembered(lasts: &[Step]) -> impl Iterator<Item = Step> + '_ {
    let asked = [(0, 10), (0, 11), (1, 12), (0, 1)];
    let by = move |last: &Step| {
        let last = *last;
        asked.map(|(who, request)| Step {
            who,
            request,
            ..last
        })
    };
    lasts.iter().flat_map(by)
}

/// The item in which somebody waits: asked for again, at the same moment, earlier and later; deleted; and retired.
fn of_waiters() -> Vec<Step> {
    let item = |write, token| Step {
        who: 1,
        token,
        ..of(write)
    };
    let mut steps = vec![grant(0, 1)];
    steps.extend([0, 1].map(|token| item(Write::CallBack, token)));
    steps.extend([0, 1].map(|token| item(Write::Forget, token)));
    steps.extend([joins(1, 2, 9), item(Write::CallBack, 2)]);
    steps.extend([1, 2, 3].map(|at| [leave(1), joins(1, at, 9)]).concat());
    steps.extend([0, 1].map(|token| item(Write::Retire, token)));
    steps.extend([item(Write::CallBack, 3), item(Write::Retire, 1)]);
    steps
}

/// Each ends in a write that a row of ours would take.
pub fn of_strangers() -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    let at_once = |who| joins(who, 0, 9);
    let first = |who| Step {
        place: Some(0),
        ..leave(who)
    };
    let (held, queued) = ([grant(0, 1)], [grant(0, 1), at_once(1)]);
    let reserved = [grant(0, 1), at_once(1), release(NEXT)];
    let with = |before: &[Step], more: &[Step]| [before, more].concat();
    // Nobody leaves a row that is not ours.
    for broken in [
        "lease_id",
        "granted_to",
        "expires_at",
        "metadata",
        "request",
    ] {
        all.push(with(&queued, &[tamper((broken, NONE)), first(1)]));
    }
    for broken in ["claim_id", "claim_until", "claim_tries", "ended"] {
        let reserved = [grant(0, 1), at_once(1), at_once(2), release(NEXT)];
        for last in [
            first(2),
            take(1, false),
            pass(),
            reserve(),
            at_once(0),
            grant(2, 30),
        ] {
            for value in [NONE, MAP] {
                all.push(with(&reserved, &[tamper((broken, value)), last]));
            }
        }
    }
    // The token of the last grant, where it must not be, or as no number.
    for value in [RELEASED, SEVEN] {
        let last = tamper(("last_fencing_token", value));
        all.push(with(&held, &[last, grant(1, 30)]));
        all.push(with(&held, &[release(None), last, grant(1, 30)]));
        all.push(with(&reserved, &[last, take(1, false)]));
        all.push(with(&reserved, &[last, pass(), grant(2, 30)]));
    }
    // Nobody to reserve it for.
    all.push(vec![grant(0, 1), release(None), reserve(), grant(2, 30)]);
    // A queue that is none, and a row without one.
    for value in [NONE, RELEASED, MAP] {
        let queue = tamper(("line", value));
        for last in [
            release(NEXT),
            release(None),
            at_once(2),
            first(1),
            grant(2, 30),
        ] {
            all.push(with(&queued, &[queue, last, grant(1, 31)]));
        }
        for last in [take(1, false), pass(), reserve(), at_once(2)] {
            all.push(with(&reserved, &[queue, last]));
        }
    }
    // What is said of a reservation while the row is held says nothing.
    let reservation = [
        ("claim", DIGEST),
        ("claim_id", RELEASED),
        ("claim_until", RELEASED),
        ("claim_tries", RELEASED),
    ];
    for part in reservation {
        for last in [
            release(NEXT),
            release(None),
            at_once(2),
            first(1),
            take(1, false),
            pass(),
        ] {
            let then = [tamper(part), last, take(1, false), grant(2, 30)];
            all.push(with(&queued, &then));
        }
    }
    all
}
