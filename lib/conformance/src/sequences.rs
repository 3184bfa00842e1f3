//! Every kind of write on a row that would take it but for one attribute: what each part of a condition is there for;
//! and rows of strangers that chance brings about too seldom.

use crate::{
    items::attribute,
    steps::{
        GRANTED, NOBODY, PLAIN, START, Step, THREE, Write, beside, check, cut, expire, extend,
        grant, grants, hand_over, join, join_behind, join_for_permit, joins, leave, leave_for,
        leave_granted, look, observes, of, prove, release, start_joins, swap, swap_alone,
    },
};

/// An attribute, and the place of a value in [`crate::items::strange`].
type Tampering = (&'static str, u8);
const NONE: u8 = 0;
const RELEASED: u8 = 1;
const ANOTHER: u8 = 2;
const LESS: u8 = 3;
const ZERO: u8 = 4;
const HUGE: u8 = 5;
const SEVEN: u8 = 6;
const MAP: u8 = 11;

const NOTHING: Tampering = ("colour", NONE);

/// What keeps any row from being ours.
#[rustfmt::skip]
const OURS: [Tampering; 8] = [
    ("fencing_token", ZERO), ("fencing_token", HUGE), ("version", ZERO), ("version", HUGE),
    ("request", SEVEN), ("granted_to", SEVEN), ("queue", RELEASED), ("queue", NONE),
];

/// And a held one with a deadline.
#[rustfmt::skip]
const HELD: [Tampering; 12] = [
    ("holder", ANOTHER), ("ended", RELEASED), ("last_fencing_token", SEVEN), ("lease_id", SEVEN),
    ("metadata", RELEASED), ("ttl_ms", ZERO), ("ttl_ms", HUGE), ("acquired_at", ZERO),
    ("acquired_at", HUGE), ("expires_at", ZERO), ("expires_at", HUGE), ("keep_ms", SEVEN),
];

/// And one that lasts as long as an execution.
#[rustfmt::skip]
const OF_EXECUTION: [Tampering; 12] = [
    ("holder", ANOTHER), ("ended", RELEASED), ("last_fencing_token", SEVEN), ("lease_id", SEVEN),
    ("metadata", RELEASED), ("keep_ms", LESS), ("keep_ms", HUGE), ("keep_ms", NONE), ("acquired_at", ZERO),
    ("acquired_at", HUGE), ("expires_at", SEVEN), ("ttl_ms", SEVEN),
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

const fn of_several(step: Step) -> Step {
    Step {
        strict: true,
        ..step
    }
}

const fn by_execution(step: Step) -> Step {
    Step {
        execution: true,
        ..step
    }
}

/// A grant to one that waits with a task token, or a look that finds it in the history of its holder.
const fn told(step: Step) -> Step {
    Step { told: true, ..step }
}

/// Every row that can be granted to the first in the queue, or to one that is not.
fn hand_overs() -> impl Iterator<Item = Step> {
    let to_others = [2, 0].map(|who| hand_over(who, GRANTED));
    (0..=THREE).map(|act| hand_over(1, act)).chain(to_others)
}

/// Every other row in its place.
fn swaps() -> impl Iterator<Item = Step> {
    (4..=GRANTED).flat_map(|act| [swap(act), swap_alone(act)])
}

/// A row that has a history, and a holder who has extended.
fn held() -> Vec<Step> {
    let mut steps = Vec::new();
    for (who, at) in [(0, 10), (0, 11), (1, 12)] {
        steps.extend([grant(who, at), release()]);
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
    for last in [
        leave(1),
        leave_for(1, 2),
        leave_granted(1),
        joins(0, 1, 9),
        join_for_permit(0),
        join_behind(0),
        hand_over(1, GRANTED),
    ] {
        all.push(guarded(&queued, &last, &[&HELD]));
    }
    all.push(guarded(&held, &swap_alone(2), &[&HELD]));
    all.push(one_by_one(&queued, [swap_alone(2)]));
    // For a later one that does not wait, and from another place.
    let elsewhere = Step {
        place: Some(1),
        ..leave_for(1, 2)
    };
    all.push([&queued[..], &[leave_for(1, 0), elsewhere, leave_for(2, 1)]].concat());
    // A later call is not put back: it comes last.
    let joining =
        [2, 3, 9].map(|cap| [observes(0, 0, cap), observes(0, 2, cap), joins(0, 30, cap)]);
    let repeated = [join(1), observes(1, 2, 9), extend(20, 9, false)];
    let others = joining.concat().into_iter().chain(repeated);
    let ends = [release(), expire()].into_iter();
    let all_of_them = ends.chain(others).chain(grants(30)).chain(hand_overs());
    all.push(one_by_one(&queued, all_of_them));
    // What a history without several keys has, and what is gone once a row is another.
    let single = [grant(0, 1), join(1)];
    let forced = [&held[..], &[swap(2), grant(2, 30), join(1)]].concat();
    let frozen = [&held[..], &[join(1), swap(0)]].concat();
    for before in [&single[..], &forced, &frozen] {
        all.push(one_by_one(before, hand_overs()));
    }
    // Nobody is granted a permit, or joins, while it is frozen. Nor does one join that has its place, or too many.
    let full = Step {
        cap: 2,
        ..join_for_permit(0)
    };
    let not_first = Step {
        place: Some(0),
        ..leave_granted(2)
    };
    let for_permits = [
        not_first,
        leave_granted(1),
        join_for_permit(0),
        join_behind(0),
        join_for_permit(1),
        join_behind(1),
        full,
        Step {
            cap: 2,
            ..join_behind(0)
        },
    ];
    for before in [&queued, &frozen] {
        all.push(one_by_one(before, for_permits));
    }
    all.push(one_by_one(&queued, remembered(&[join_behind(0)])));
    // However the last grant ended.
    for (end, act) in [
        (release(), guarded as OnEach),
        (expire(), as_it_comes),
        (swap(2), as_it_comes),
    ] {
        all.extend(of_free(&held, &queued, end, act));
    }
    all.push(of_waiters());
    all.extend(of_limits(&held, &queued));
    all.extend(of_closed());
    all.extend(of_pools());
    let frozen = [&held[..], &[swap(0)]].concat();
    all.push(one_by_one(&frozen, [swap(1), swap_alone(1)]));
    let anew = grants(30).into_iter();
    let anew = anew.flat_map(|grant| [grant, told(grant)]);
    all.push(anew.flat_map(|grant| [grant, PLAIN]).collect());
    // Where there is nothing, and where there is something.
    let made = |act| Step {
        act,
        ..of(Write::Make)
    };
    let made = [0, 2, 5, 6, 7, GRANTED].map(|act| [made(act), made(0), PLAIN]);
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
    lasts.extend([release(), expire(), swap(0), swap(2)]);
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
    all.push(one_by_one(held, on_the_dot.into_iter().chain(swaps())));
    // A grant after one that was forced, and one of a single key.
    let single = [grant(0, 1)];
    all.push(one_by_one(&[held, &[swap(2)]].concat(), swaps()));
    let forced = [held, &[swap(2), grant(2, 30)]].concat();
    all.extend([&single[..], &forced].map(|before| one_by_one(before, swaps())));
    // What a grant of several keys left.
    for before in [&single[..], held] {
        let free = [before, &[release()]].concat();
        let lasts = grants(30).into_iter();
        all.push(one_by_one(
            &free,
            lasts.flat_map(|last| [of_several(last), last]),
        ));
    }
    // A grant forgets the pool of the one before it, which no lease of this kind has.
    let lasts = grants(30).into_iter();
    all.push(each(held, lasts.map(|last| (("pool", MAP), last))));
    // And how the holder before it was told: it begins to count anew.
    let untold = [held, &[swap(4)]].concat();
    let lasts = grants(30).into_iter();
    all.push(one_by_one(
        &untold,
        lasts.flat_map(|last| [told(last), last]).chain(swaps()),
    ));
    all
}

/// Rows that an execution holds: proven, looked at and told, and nobody's by any clock.
fn of_execution() -> Vec<Vec<Step>> {
    let granted = |who, at| by_execution(told(grant(who, at)));
    let mut held = Vec::new();
    for (who, at) in [(0, 10), (0, 11), (1, 12)] {
        held.extend([grant(who, at), release()]);
    }
    let once_more = [prove(2), look(3, true), swap(4)];
    held.extend([&[of_several(granted(0, 1))], &once_more[..]].concat());
    let mut all = Vec::new();
    let lasts = [
        prove(4),
        look(4, true),
        look(4, false),
        told(look(4, true)),
        told(look(4, false)),
        check(30),
        join(2),
        observes(2, 0, 9),
        observes(2, 2, 9),
        release(),
        expire(),
        swap(0),
        swap(2),
    ];
    for last in &lasts {
        all.push(guarded(&held, last, &[&OF_EXECUTION]));
    }
    all.push(guarded(&held, &swap_alone(2), &[&OF_EXECUTION]));
    // No clock ends it, and no observation; nor is it extended or cut.
    let others = [extend(2, 9, false), extend(30, 9, true), cut(4)];
    let others = others.into_iter().chain(swaps());
    all.push(one_by_one(&held, grants(30).into_iter().chain(others)));
    let queued = [&held[..], &[join(1), join(2)]].concat();
    let ends = [release(), expire()].into_iter();
    let ends = ends.chain(grants(30)).chain(hand_overs());
    all.push(one_by_one(&queued, ends));
    for last in [
        leave(1),
        leave_for(1, 2),
        leave_granted(1),
        join_for_permit(0),
        join_behind(0),
        hand_over(1, GRANTED),
    ] {
        all.push(guarded(&queued, &last, &[&OF_EXECUTION]));
    }
    // A start among them, whose leaving counts as a write.
    let started = [&held[..], &[start_joins(), join(2)]].concat();
    let swaps_after = [leave(START), swap(0)];
    all.push([&started[..], &swaps_after].concat());
    all.push(guarded(&started, &leave(START), &[&OF_EXECUTION]));
    // From the queue: told once, told again, and known.
    let handed = [
        grant(0, 1),
        join(1),
        join(2),
        release(),
        hand_over(1, GRANTED),
    ];
    let lasts = [prove(4), told(look(4, false)), swap(4), release(), expire()];
    all.push(one_by_one(&handed, lasts));
    // One kind after the other, whatever ended the one before.
    let expired = [grant(0, 1), extend(1, 5, false)];
    let taken = grants(30).into_iter().map(by_execution);
    let taken: Vec<_> = taken.flat_map(|grant| [grant, told(grant)]).collect();
    all.push(one_by_one(&expired, taken.iter().copied()));
    let free = [&held[..], &[release()]].concat();
    all.push(one_by_one(&free, taken.into_iter().chain(grants(30))));
    // What a stranger left of one kind goes with a grant of the other.
    let free = [grant(0, 1), release()];
    for last in suited(30) {
        all.push(guarded(&free, &last, &[&[("keep_ms", SEVEN)]]));
        all.push(guarded(&free, &by_execution(last), &[&OF_ANOTHER_KIND]));
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
    let joins = [join(0), observes(0, 2, 9), join_for_permit(0)];
    all.push(one_by_one(&free, remembered(&grants(30)).chain(joins)));
    all.push(one_by_one(&free, remembered(&[join_for_permit(0)])));
    all.push(on_each(&free, &join_for_permit(2), &[&FREE]));
    all.extend([0, 2, 4].map(|act| on_each(&free, &swap_alone(act), &[&FREE])));
    all.push(one_by_one(&free, [join_behind(2)]));
    let free = [queued, &[end]].concat();
    let lasts = [
        hand_over(1, GRANTED),
        leave(1),
        leave_for(1, 2),
        leave_granted(1),
        join(0),
        join_for_permit(0),
        join_behind(0),
        observes(0, 2, 9),
        swap_alone(0),
        swap(0),
        grant(0, 30),
    ];
    for last in &lasts {
        all.push(on_each(&free, last, &[&FREE]));
    }
    all.push(one_by_one(&free, hand_overs().chain(grants(30))));
    all.push(one_by_one(&free, remembered(&[join(0)]).chain(swaps())));
    all
}

/// Rows of which an operator has said how many may hold the key: none, or three.
fn of_limits(held: &[Step], queued: &[Step]) -> Vec<Vec<Step>> {
    let joins = [
        join(0),
        observes(0, 2, 9),
        join_behind(0),
        join_for_permit(0),
        joins(2, 30, 9),
        observes(1, 0, 9),
    ];
    let mut all = Vec::new();
    for limit in [NOBODY, THREE] {
        all.push([held, &[swap_alone(limit)]].concat());
        for before in [held, queued] {
            // It stays when a grant ends, and then the row is not purged; a grant and the end of the limit change that.
            let held = [before, &[swap(limit)]].concat();
            let lasts = [release(), expire(), leave_granted(1)].into_iter();
            let lasts = lasts.chain(grants(30)).chain(joins).chain(swaps());
            all.push(one_by_one(&held, lasts));
            let free = [&held[..], &[release()]].concat();
            let lasts = grants(30).into_iter().chain(joins);
            let alone = [swap_alone(limit), swap_alone(0), swap_alone(1)];
            let lasts = lasts.chain(alone);
            let lasts = lasts.chain([leave_granted(1), swap(1), swap(0)]);
            let lasts = lasts.chain(hand_overs());
            all.push(one_by_one(&free, lasts));
        }
        let again = [grant(0, 1), swap(limit), release(), grant(1, 30), release()];
        all.push([&again[..], &[swap(1), grant(2, 31), release()]].concat());
        let made = Step {
            act: limit,
            ..of(Write::Make)
        };
        all.push(vec![made, grant(0, 30), join(1), release()]);
    }
    // One that is no limit limits to none.
    let free = [held, &[release()]].concat();
    for value in [ZERO, SEVEN, RELEASED, MAP] {
        let limit = tamper(("limit", value));
        all.push([&free[..], &[limit, grant(2, 30), join(2), release()]].concat());
        all.push([queued, &[limit, leave_granted(1), release(), swap(4)]].concat());
    }
    for value in [SEVEN, RELEASED] {
        let kept = tamper(("kept_until", value));
        for end in [release(), expire()] {
            all.push([held, &[kept, end, swap(4), grant(2, 30), release()]].concat());
        }
    }
    all
}

/// What has entries, as the row of a pool, has none afterwards.
fn of_pools() -> [Vec<Step>; 2] {
    let free = [grant(0, 10), release(), swap(6)];
    let queued = [grant(0, 10), join(1), swap(6)];
    [
        one_by_one(&free, swaps()),
        one_by_one(&queued, hand_overs()),
    ]
}

/// Rows that stay closed after their grant.
fn of_closed() -> Vec<Vec<Step>> {
    let closing = |step| Step {
        at_least: 20,
        ..step
    };
    // It expires at 6 and opens at 21; a taker waits for another two.
    let held = [grant(0, 10), release(), closing(grant(1, 1))];
    let free = [&held[..], &[release()]].concat();
    let queued = [&held[..], &[join(1), release()]].concat();
    let joins = [22, 23, 30].map(|at| joins(2, at, 9));
    let observed = [(22, 0), (22, 2), (23, 0), (30, 2)].map(|(at, away)| Step {
        at,
        ..observes(0, away, 9)
    });
    let early = [0, 2].map(|away| observes(2, away, 9));
    let mut all = Vec::new();
    for before in [&held[..], &free] {
        let grants = [22, 23, 30].map(grants).concat().into_iter();
        let grants = grants.flat_map(|grant| [grant, closing(grant), told(closing(grant))]);
        let others = joins.into_iter().chain(observed).chain(early);
        all.push(one_by_one(before, grants.chain(others).chain(swaps())));
    }
    all.push(one_by_one(&queued, hand_overs().chain(joins)));
    // Where there was none.
    let anew = grants(30).into_iter().map(closing);
    all.push(anew.flat_map(|grant| [grant, PLAIN]).collect());
    for value in [ZERO, SEVEN, HUGE, RELEASED, MAP] {
        let grants = grants(30).into_iter();
        let lasts = grants.flat_map(|grant| [grant, closing(grant)]);
        let lasts = lasts.chain(joins).chain(observed).chain([release()]);
        let lasts: Vec<_> = lasts.map(|last| (("opens_at", value), last)).collect();
        all.extend([&held[..], &free].map(|before| each(before, lasts.iter().copied())));
    }
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

/// The item in which somebody waits: asked for again, by who has read its token and by who has read another; and deleted.
fn of_waiters() -> Vec<Step> {
    let item = |write, token| Step {
        who: 1,
        token,
        ..of(write)
    };
    let mut steps = vec![grant(0, 1)];
    steps.extend([0, 1].map(|token| item(Write::CallBack, token)));
    steps.push(Step {
        strict: true,
        ..item(Write::CallBack, 0)
    });
    steps.extend([0, 1].map(|token| item(Write::Forget, token)));
    steps.extend([joins(1, 2, 9), item(Write::CallBack, 2)]);
    steps.extend([1, 2, 3].map(|at| [leave(1), joins(1, at, 9)]).concat());
    // It is not there, and another is in its place.
    steps.push(leave(2));
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
    let freed = [grant(0, 1), at_once(1), at_once(2), release()];
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
    for value in [NONE, MAP] {
        for last in [
            first(1),
            hand_over(1, GRANTED),
            at_once(0),
            grant(2, 30),
            swap(4),
        ] {
            all.push(with(&freed, &[tamper(("ended", value)), last]));
        }
    }
    // The token of the last grant, where it must not be, or as no number.
    for value in [RELEASED, SEVEN] {
        let last = tamper(("last_fencing_token", value));
        all.push(with(&held, &[last, grant(1, 30)]));
        all.push(with(&held, &[release(), last, grant(1, 30)]));
        all.push(with(&freed, &[last, hand_over(1, GRANTED), release()]));
    }
    // Nobody to grant it to.
    let nobody = [release(), hand_over(1, GRANTED), grant(2, 30)];
    all.push(with(&held, &nobody));
    // A queue that is none, and a row without one.
    for value in [NONE, RELEASED, MAP] {
        let queue = tamper(("queue", value));
        for last in [
            release(),
            at_once(2),
            first(1),
            grant(2, 30),
            hand_over(1, GRANTED),
        ] {
            all.push(with(&queued, &[queue, last, grant(1, 31)]));
            all.push(with(&freed, &[queue, last, grant(1, 31)]));
        }
    }
    // How it was told, of which a part is missing or no number, says nothing or less; and nothing of a free row.
    let waited = [by_execution(told(grant(0, 1))), swap(4)];
    for part in ["notifications", "notified_at", "ticket", "refused_at"] {
        for value in [NONE, RELEASED, SEVEN] {
            let part = tamper((part, value));
            for last in [
                prove(2),
                look(3, false),
                told(look(3, false)),
                release(),
                swap(4),
            ] {
                all.push(with(&waited, &[part, last, look(4, true), expire()]));
            }
            all.push(with(&freed, &[part, hand_over(1, GRANTED), release()]));
            all.push(with(&held, &[part, release(), grant(2, 30), release()]));
        }
    }
    all
}
