//! Every kind of write on a row that would take it but for one attribute: what each part of a condition is there for;
//! and rows of strangers that chance brings about too seldom.
//!
//! What each row of ours has is tried with every write once, on the first of its rows below; what only some have, on each of these.

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

const NOTHING: [Tampering; 1] = [("colour", NONE)];

/// What keeps any row from being ours, and what keeps ours as it is.
#[rustfmt::skip]
const OURS: [Tampering; 8] = [
    ("fencing_token", ZERO), ("fencing_token", HUGE), ("version", ZERO), ("version", HUGE),
    ("request", SEVEN), ("queue", RELEASED), ("queue", NONE), ("frozen", RELEASED),
];

/// And a held one.
#[rustfmt::skip]
const HELD: [Tampering; 7] = [
    ("holder", ANOTHER), ("ended", RELEASED), ("last_fencing_token", SEVEN), ("lease_id", SEVEN),
    ("metadata", RELEASED), ("acquired_at", ZERO), ("acquired_at", HUGE),
];

/// And one with a deadline.
#[rustfmt::skip]
const WITH_DEADLINE: [Tampering; 5] = [
    ("ttl_ms", ZERO), ("ttl_ms", HUGE), ("expires_at", ZERO), ("expires_at", HUGE), ("keep_ms", SEVEN),
];

/// And one that lasts as long as an execution.
#[rustfmt::skip]
const OF_EXECUTION: [Tampering; 5] = [
    ("keep_ms", LESS), ("keep_ms", HUGE), ("keep_ms", NONE), ("expires_at", SEVEN), ("ttl_ms", SEVEN),
];

/// What a free row of ours has not, and an execution lease must not have at its beginning.
#[rustfmt::skip]
const OF_ANOTHER_KIND: [Tampering; 4] = [
    ("ttl_ms", SEVEN), ("expires_at", SEVEN), ("looked_at", SEVEN), ("look_again_at", SEVEN),
];

/// And a free one. Of a held one `granted_to` is the holder.
#[rustfmt::skip]
const FREE: [Tampering; 8] = [
    ("holder", ANOTHER), ("lease_id", RELEASED), ("granted_to", SEVEN), ("ended", NONE), ("ended", ANOTHER),
    ("last_fencing_token", ZERO), ("last_fencing_token", HUGE), ("last_fencing_token", RELEASED),
];

/// How many tries are made in a sequence.
const AT_ONCE: usize = 100;

/// What is tried on a row that has come about by these steps: always on the same row, but for an attribute.
struct Tries {
    before: Vec<Step>,
    all: Vec<(Tampering, Step)>,
}

/// Sequences, and tries that become such.
#[derive(Default)]
struct Sequences {
    tries: Vec<Tries>,
    others: Vec<Vec<Step>>,
}

impl Sequences {
    /// Each write with each of these attributes, unless it is tried already.
    fn each(
        &mut self,
        before: &[Step],
        attributes: &[Tampering],
        writes: impl IntoIterator<Item = Step>,
    ) {
        let known = self.tries.iter().position(|tries| tries.before == before);
        let place = known.unwrap_or(self.tries.len());
        if known.is_none() {
            let (before, all) = (before.to_vec(), Vec::new());
            self.tries.push(Tries { before, all });
        }
        let all = &mut self.tries[place].all;
        for write in writes {
            let tries = attributes.iter().map(|attribute| (*attribute, write));
            let new: Vec<_> = tries.filter(|one| !all.contains(one)).collect();
            all.extend(new);
        }
    }

    /// Each write on the row as it comes.
    fn plain(&mut self, before: &[Step], writes: impl IntoIterator<Item = Step>) {
        self.each(before, &NOTHING, writes);
    }

    /// Each write, the same with another counter or another proof, and the write with each attribute of a row of ours, of a held
    /// one and of these.
    fn guarded(
        &mut self,
        before: &[Step],
        attributes: &[Tampering],
        writes: impl IntoIterator<Item = Step>,
    ) {
        for write in writes {
            self.each(before, &[&OURS[..], &HELD, attributes].concat(), [write]);
            self.plain(before, [write].into_iter().chain(beside(&write)));
        }
    }

    fn into_steps(self) -> Vec<Vec<Step>> {
        let mut steps = self.others;
        for Tries { before, all } in self.tries {
            for all in all.chunks(AT_ONCE) {
                let tries = all.iter().flat_map(|(change, write)| {
                    let again = Step {
                        write: Write::Again,
                        ..tamper(*change)
                    };
                    [again, *write]
                });
                let before = before.iter().copied().chain([of(Write::Keep)]);
                steps.push(before.chain(tries).collect());
            }
        }
        steps
    }
}

/// The grants whose floor a row with a history suits, one of each form: others are refused whatever else the row says.
fn suited(at: u8) -> impl Iterator<Item = Step> + Clone {
    let grants = grants(at).into_iter();
    grants.filter(|grant| [0, 1, 4].contains(&grant.floor))
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

/// Those of which nothing is as it was, and one without what an operator has said.
fn hand_overs_anew() -> impl Iterator<Item = Step> {
    [1, 5, 6, 7, GRANTED]
        .map(|act| hand_over(1, act))
        .into_iter()
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
    let mut all = Sequences::default();
    let held = held();
    let queued = [&held[..], &[join(1), join(2)]].concat();
    of_held(&mut all, &held);
    of_execution(&mut all);
    of_queue(&mut all, &held, &queued);
    of_free(&mut all, &held, &queued);
    of_limits(&mut all, &held, &queued);
    of_closed(&mut all);
    of_pools(&mut all);
    all.plain(&[&held[..], &[swap(0)]].concat(), [swap(1), swap_alone(1)]);
    all.others.push(of_waiters());
    // Where there is nothing, and where there is something.
    let anew = grants(30).into_iter();
    let anew = anew.flat_map(|grant| [grant, PLAIN, told(closing(grant)), PLAIN]);
    all.others.push(anew.collect());
    let made = |act| Step {
        act,
        ..of(Write::Make)
    };
    let made = [0, 2, 5, 6, 7, GRANTED].map(|act| [made(act), made(0), PLAIN]);
    all.others.push(made.concat());
    all.into_steps()
}

fn of_held(all: &mut Sequences, held: &[Step]) {
    let extends = [extend(2, 9, false), extend(2, 9, true)];
    let holders = extends.into_iter().chain(extends.map(told));
    let holders = holders.chain([cut(4), check(2)]);
    let others = [join(2), observes(2, 2, 9), release(), expire(), swap(0)];
    let all_kinds = suited(30).chain(holders).chain(others);
    all.guarded(held, &WITH_DEADLINE, all_kinds.chain([swap_alone(2)]));
    let late = extend(6, 9, false);
    all.each(held, &[("frozen", RELEASED)], [late, told(late)]);
    all.plain(held, grants(30));
    let asked = suited(30).chain([join(2), observes(2, 2, 9)]);
    all.plain(held, remembered(asked));
    // The very moment: it ends at 6, and a taker waits for another two.
    all.plain(held, suited(7).chain(suited(8)));
    let on_the_dot = [
        joins(2, 8, 9),
        extend(6, 9, false),
        extend(6, 9, true),
        extend(2, 4, true),
        told(extend(6, 9, false)),
        told(extend(6, 9, true)),
        told(extend(2, 4, true)),
        told(extend(2, 4, false)),
        cut(6),
        check(6),
    ];
    all.plain(held, on_the_dot);
    // It was last extended at 1: not by a clock behind that, and not only what was extended before.
    let again = [1, 0].map(|at| [extend(at, 9, false), extend(at, 9, true)]);
    let again = again.concat();
    all.plain(held, again.iter().copied().map(told).chain(again.clone()));
    all.plain(&[grant(0, 1)], extends);
    // Nor does a clock that was far ahead.
    all.each(held, &[("extended_at", HUGE)], extends);
    let too_short_or_late = [
        extend(2, 1, false),
        extend(2, 1, true),
        extend(20, 9, false),
        told(extend(2, 1, false)),
        told(extend(2, 1, true)),
        told(extend(20, 9, false)),
        joins(2, 30, 9),
        observes(2, 0, 9),
        swap(2),
    ];
    all.plain(held, too_short_or_late.into_iter().chain(swaps()));
    // A grant after one that was forced, and after one of a single key.
    all.plain(&[held, &[swap(2), grant(2, 30)]].concat(), swaps());
    let several = suited(30).flat_map(|last| [of_several(last), last]);
    all.plain(&[grant(0, 1), release()], several);
    // A grant forgets the pool of the one before it, which no lease of this kind has.
    all.each(held, &[("pool", MAP)], suited(30));
    // And how the holder before it was told: it begins to count anew.
    let told = suited(30).flat_map(|last| [told(last), last]);
    all.plain(
        &[held, &[swap(4)]].concat(),
        told.chain([swap(6), swap_alone(6)]),
    );
}

/// Rows that an execution holds: proven, looked at and told, and nobody's by any clock.
fn of_execution(all: &mut Sequences) {
    let granted = |who, at| by_execution(told(grant(who, at)));
    let mut held = Vec::new();
    for (who, at) in [(0, 10), (0, 11), (1, 12)] {
        held.extend([grant(who, at), release()]);
    }
    let once_more = [prove(2), look(3, true), swap(4)];
    held.extend([&[of_several(granted(0, 1))], &once_more[..]].concat());
    let proofs = [prove(4), told(prove(4)), look(4, true)];
    all.guarded(&held, &OF_EXECUTION, proofs);
    // It was last proven at 2.
    all.plain(&held, [prove(2), prove(1), told(prove(1))]);
    all.each(&held, &[("extended_at", HUGE)], [prove(4)]);
    let looks = [look(4, false), told(look(4, true)), told(look(4, false))];
    all.plain(&held, looks);
    let ends = [release(), expire(), swap(0), swap_alone(2)];
    let others = [check(30), join(2), observes(2, 0, 9)];
    let others = ends.into_iter().chain(others);
    all.each(&held, &OF_EXECUTION, others.clone());
    all.plain(&held, others);
    // No clock ends it, and no observation; nor is it extended or cut.
    let others = [
        extend(2, 9, false),
        extend(30, 9, true),
        cut(4),
        observes(2, 2, 9),
        swap(2),
    ];
    all.plain(&held, suited(30).chain(others).chain(swaps()));
    let queued = [&held[..], &[join(1), join(2)]].concat();
    all.each(&queued, &OF_EXECUTION, of_first());
    all.plain(&queued, of_first());
    all.plain(&queued, [release(), expire()]);
    all.plain(&queued, hand_overs_anew());
    // A start among them, whose leaving counts as a write.
    let started = [start_joins(), join(2), leave(START), swap(0)];
    all.others.push([&held[..], &started].concat());
    // From the queue: told once, told again, and known.
    let handed = [
        grant(0, 1),
        join(1),
        join(2),
        release(),
        hand_over(1, GRANTED),
    ];
    let proofs = [prove(4), told(prove(4))].into_iter();
    let others = [told(look(4, false)), swap(4), release(), expire()];
    let lasts = proofs.chain(others);
    all.plain(&handed, lasts);
    // One kind after the other, whatever ended the one before.
    let taken = suited(30).map(by_execution);
    let taken = taken.flat_map(|grant| [grant, told(grant)]);
    let expired = [grant(0, 1), extend(1, 5, false)];
    all.plain(&expired, taken.clone());
    let free = [&held[..], &[release()]].concat();
    all.plain(&free, taken);
    // What a stranger left of one kind goes with a grant of the other.
    let free = [grant(0, 1), release()];
    all.each(&free, &[("keep_ms", SEVEN)], suited(30));
    all.each(&free, &OF_ANOTHER_KIND, suited(30).map(by_execution));
    // What is no proof of an execution's lease.
    let no_proof = [prove(2), told(prove(2)), look(2, true), look(2, false)];
    all.plain(&[grant(0, 1)], no_proof);
}

/// What is done to those in the queue, and to nobody else.
fn of_first() -> [Step; 6] {
    [
        leave(1),
        leave_for(1, 2),
        leave_granted(1),
        join_for_permit(0),
        join_behind(0),
        hand_over(1, GRANTED),
    ]
}

fn of_queue(all: &mut Sequences, held: &[Step], queued: &[Step]) {
    all.guarded(queued, &WITH_DEADLINE, of_first());
    // For a later one that does not wait, and from another place.
    let elsewhere = Step {
        place: Some(1),
        ..leave_for(1, 2)
    };
    let left = [leave_for(1, 0), elsewhere, leave_for(2, 1)];
    all.others.push([queued, &left].concat());
    let joining =
        [2, 3, 9].map(|cap| [observes(0, 0, cap), observes(0, 2, cap), joins(0, 30, cap)]);
    all.each(queued, &[("expires_at", ZERO)], [join(0)]);
    let repeated = [
        join(1),
        observes(1, 2, 9),
        extend(20, 9, false),
        told(extend(20, 9, false)),
    ];
    let others = joining.concat().into_iter().chain(repeated);
    let ends = [release(), expire(), swap_alone(2), join(0)].into_iter();
    all.plain(queued, ends.chain(others).chain(suited(30)));
    // What a history without several keys has, and what is gone once a row is another.
    let forced = [held, &[swap(2), grant(2, 30), join(1)]].concat();
    let frozen = [held, &[join(1), swap(0)]].concat();
    all.plain(queued, hand_overs());
    for before in [&forced, &frozen] {
        all.plain(before, hand_overs_anew());
    }
    // Nobody joins who has its place, or where too many wait.
    let full = |step| Step { cap: 2, ..step };
    let not_first = Step {
        place: Some(0),
        ..leave_granted(2)
    };
    let for_permits = [
        not_first,
        join_for_permit(1),
        join_behind(1),
        full(join_for_permit(0)),
        full(join_behind(0)),
    ];
    all.plain(queued, for_permits);
    all.plain(queued, remembered([join_behind(0)]));
}

/// Rows that are free, without a queue and with one, however the last grant ended.
fn of_free(all: &mut Sequences, held: &[Step], queued: &[Step]) {
    let alone = suited(30).chain([join_for_permit(2), swap_alone(0)]);
    let of_queue = [
        hand_over(1, GRANTED),
        leave(1),
        leave_for(1, 2),
        leave_granted(1),
        join(0),
        join_behind(0),
        observes(0, 2, 9),
        swap(0),
    ];
    for end in [release(), expire(), swap(2)] {
        let free = [held, &[end]].concat();
        all.plain(&free, alone.clone().chain(remembered([grant(2, 30)])));
        all.plain(&[queued, &[end]].concat(), of_queue);
    }
    let free = [held, &[release()]].concat();
    all.each(&free, &FREE, alone);
    // Who observes names the version of a held one.
    all.each(&free, &[("version", ZERO), ("version", HUGE)], suited(30));
    all.plain(&free, grants(30));
    all.plain(&free, remembered([join_for_permit(0)]));
    let others = [
        join(0),
        observes(0, 2, 9),
        join_for_permit(0),
        join_behind(2),
    ];
    all.plain(&free, others.into_iter().chain([2, 4].map(swap_alone)));
    let free = [queued, &[release()]].concat();
    all.each(&free, &FREE, of_queue);
    let others = [join_for_permit(0), swap_alone(0), grant(0, 30)].into_iter();
    let others = others.chain(hand_overs_anew());
    all.plain(&free, others.chain(remembered([join(0)])));
}

/// Rows of which an operator has said how many may hold the key: none, or three.
fn of_limits(all: &mut Sequences, held: &[Step], queued: &[Step]) {
    let joins = [
        join(0),
        observes(0, 2, 9),
        join_behind(0),
        join_for_permit(0),
        joins(2, 30, 9),
        observes(1, 0, 9),
    ];
    for limit in [NOBODY, THREE] {
        all.others.push([held, &[swap_alone(limit)]].concat());
        // It stays when a grant ends, and then the row is not purged; a grant and the end of the limit change that.
        let limited = [held, &[swap(limit)]].concat();
        let free = [&limited[..], &[release()]].concat();
        let asked = suited(30).chain(joins);
        let ends = [release(), expire(), swap(4)].into_iter();
        all.plain(&limited, ends.chain(asked.clone()));
        let others = [0, 1].map(|act| [swap(act), swap_alone(act)]).concat();
        let others = others.into_iter().chain([swap_alone(limit)]);
        all.plain(&free, asked.chain(others));
        let limited = [queued, &[swap(limit)]].concat();
        let free = [&limited[..], &[release()]].concat();
        all.plain(&limited, [release(), expire(), leave_granted(1)]);
        all.plain(&free, hand_overs_anew().chain([leave_granted(1), swap(1)]));
        let again = [grant(0, 1), swap(limit), release(), grant(1, 30), release()];
        let again = [&again[..], &[swap(1), grant(2, 31), release()]].concat();
        let made = Step {
            act: limit,
            ..of(Write::Make)
        };
        let made = vec![made, grant(0, 30), join(1), release()];
        all.others.extend([again, made]);
    }
    // One that is no limit limits to none.
    let free = [held, &[release()]].concat();
    let limits = [ZERO, RELEASED, MAP].map(|value| ("limit", value));
    all.each(&free, &limits, [grant(2, 30), join(2)]);
    all.each(queued, &limits, [leave_granted(1), release(), swap(4)]);
    let kept = [SEVEN, RELEASED].map(|value| ("kept_until", value));
    all.each(held, &kept, [release(), expire(), swap(4)]);
}

/// What has entries, as the row of a pool, has none afterwards.
fn of_pools(all: &mut Sequences) {
    all.plain(&[grant(0, 10), release(), swap(6)], swaps());
    all.plain(&[grant(0, 10), join(1), swap(6)], hand_overs());
}

const fn closing(step: Step) -> Step {
    Step {
        at_least: 20,
        ..step
    }
}

/// Rows that stay closed after their grant.
fn of_closed(all: &mut Sequences) {
    // It expires at 6 and opens at 21; a taker waits for another two.
    let held = [grant(0, 10), release(), closing(grant(1, 1))];
    let free = [&held[..], &[release()]].concat();
    let queued = [&held[..], &[join(1), release()]].concat();
    let late = [22, 23, 30].map(|at| joins(2, at, 9));
    let observed = [(22, 0), (22, 2), (23, 0), (30, 2)].map(|(at, away)| Step {
        at,
        ..observes(0, away, 9)
    });
    let early = [0, 2].map(|away| observes(2, away, 9));
    let asked = late.into_iter().chain(observed);
    let opens = [ZERO, HUGE, RELEASED].map(|value| ("opens_at", value));
    for before in [&held[..], &free] {
        let open = suited(23).flat_map(|grant| [grant, told(closing(grant))]);
        let grants = suited(22).chain(open);
        let others = asked.clone().chain(early).chain([swap(6), swap_alone(6)]);
        all.plain(before, grants.chain(others));
        let others = [joins(2, 22, 9), observes(2, 0, 9), release()];
        all.each(before, &opens, suited(30).chain(others));
    }
    all.plain(&queued, hand_overs_anew().chain(asked));
}

/// Each of them by every request that was granted before.
fn remembered(lasts: impl IntoIterator<Item = Step>) -> impl Iterator<Item = Step> {
    let asked = [(0, 10), (0, 11), (1, 12), (0, 1)];
    let by = move |last: Step| {
        asked.map(|(who, request)| Step {
            who,
            request,
            ..last
        })
    };
    lasts.into_iter().flat_map(by)
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
    let mut all = Sequences::default();
    let at_once = |who| joins(who, 0, 9);
    let first = Step {
        place: Some(0),
        ..leave(1)
    };
    let (held, queued) = ([grant(0, 1)], [grant(0, 1), at_once(1)]);
    let freed = [grant(0, 1), at_once(1), at_once(2), release()];
    let of = |name: &'static str, values: &[u8]| -> Vec<Tampering> {
        values.iter().map(|value| (name, *value)).collect()
    };
    // Nobody leaves a row that is not ours.
    let broken = [
        "lease_id",
        "granted_to",
        "expires_at",
        "metadata",
        "request",
    ];
    all.each(&queued, &broken.map(|name| (name, NONE)), [first]);
    let handed = hand_over(1, GRANTED);
    let lasts = [first, handed, at_once(0), grant(2, 30), swap(4)];
    all.each(&freed, &of("ended", &[NONE, MAP]), lasts);
    // The token of the last grant, where it must not be, or as no number.
    let last = of("last_fencing_token", &[RELEASED, SEVEN]);
    all.each(&held, &last, [grant(1, 30)]);
    all.each(&[grant(0, 1), release()], &last, [grant(1, 30)]);
    all.each(&freed, &last, [handed]);
    // Nobody to grant it to.
    let nobody = [release(), handed, grant(2, 30)];
    all.others.push([&held[..], &nobody].concat());
    // A queue that is none, and a row without one.
    let queue = of("queue", &[NONE, RELEASED, MAP]);
    for before in [&queued[..], &freed] {
        let lasts = [release(), at_once(2), first, grant(2, 30), handed];
        all.each(before, &queue, lasts);
    }
    // How it was told, of which a part is missing or no number, says nothing or less; and nothing of a free row.
    let waited = [by_execution(told(grant(0, 1))), swap(4)];
    for part in ["notifications", "notified_at", "ticket", "refused_at"] {
        let part = of(part, &[NONE, RELEASED, SEVEN]);
        all.each(&waited, &part, [prove(2), look(3, false), swap(4)]);
        all.each(&freed, &part[1..], [handed]);
        all.each(&held, &part[1..], [release()]);
    }
    all.into_steps()
}
