//! Every kind of write on a row that would take it but for one attribute: what each part of a condition is there for.

use super::{
    steps::{Step, Successor},
    strange::attribute,
    writes::{
        HEIR, again, asking, at_every_floor, beside, by_sight, check, cut, expire, extend, give_up,
        grant, grants, join, joins, leave, of_several, pass, release, sees, swap, take,
    },
};

const NONE: u8 = 0;
const RELEASED: u8 = 1;
const ANOTHER: u8 = 2;
const ZERO: u8 = 4;
const HUGE: u8 = 5;
const SEVEN: u8 = 6;

/// What keeps any row from being ours.
const OURS: [(&str, u8); 8] = [
    ("fencing_token", ZERO),
    ("fencing_token", HUGE),
    ("version", ZERO),
    ("version", HUGE),
    ("request", SEVEN),
    ("granted_to", SEVEN),
    ("line", RELEASED),
    ("line", NONE),
];

/// And a held one.
const HELD: [(&str, u8); 12] = [
    ("holder", ANOTHER),
    ("ended", RELEASED),
    ("last_fencing_token", SEVEN),
    ("lease_id", SEVEN),
    ("metadata", RELEASED),
    ("ttl_ms", ZERO),
    ("ttl_ms", HUGE),
    ("acquired_at", ZERO),
    ("acquired_at", HUGE),
    ("expires_at", ZERO),
    ("expires_at", HUGE),
    ("claim", ANOTHER),
];

/// And a free one.
const FREE: [(&str, u8); 7] = [
    ("holder", ANOTHER),
    ("lease_id", RELEASED),
    ("ended", NONE),
    ("ended", ANOTHER),
    ("last_fencing_token", ZERO),
    ("last_fencing_token", HUGE),
    ("last_fencing_token", RELEASED),
];

/// And one that is kept for somebody.
const KEPT: [(&str, u8); 6] = [
    ("claim", SEVEN),
    ("claim_id", SEVEN),
    ("claim_until", ZERO),
    ("claim_until", HUGE),
    ("claim_tries", ZERO),
    ("claim_tries", HUGE),
];

/// The row as it comes, then frozen, then with each of these attributes; and the write each time.
fn guarded(before: &[Step], last: &Step, attributes: &[&[(&'static str, u8)]]) -> Vec<Step> {
    let changes = [("frozen", RELEASED)].into_iter().chain(OURS);
    let changes = changes.chain(attributes.iter().copied().flatten().copied());
    let tampered = changes.map(|change| (change, last.clone()));
    let as_it_is = std::iter::once(last.clone()).chain(beside(last));
    each(before, as_it_is.map(|step| (NOTHING, step)).chain(tampered))
}

/// Each of these on the row as it comes.
fn one_by_one(before: &[Step], lasts: impl IntoIterator<Item = Step>) -> Vec<Step> {
    each(before, lasts.into_iter().map(|step| (NOTHING, step)))
}

const NOTHING: (&str, u8) = ("colour", NONE);

fn each(before: &[Step], all: impl IntoIterator<Item = ((&'static str, u8), Step)>) -> Vec<Step> {
    let again = all.into_iter().flat_map(|((name, value), step)| {
        let attribute = attribute(name);
        [Step::Again { attribute, value }, step]
    });
    let steps = before.iter().cloned().chain([Step::Keep]).chain(again);
    steps.collect()
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

pub fn sequences() -> Vec<Vec<Step>> {
    let held = held();
    let mut all = of_held(&held);
    let in_line = [&held[..], &[join(1), join(2)]].concat();
    for last in [leave(1), joins(0, 1, None, 9)] {
        all.push(guarded(&in_line, &last, &[&HELD]));
    }
    let ends = [
        release(None),
        release(Some(HEIR)),
        expire(None),
        expire(Some(HEIR)),
    ];
    // Who has asked later is not put back: the later ask comes last.
    let joins = [2, 3, 9].map(|cap| [sees(0, 0, cap), sees(0, 2, cap), joins(0, 30, None, cap)]);
    let repeated = [join(1), by_sight(1), extend(20, 9, false)];
    let ends = ends.iter().flat_map(at_every_floor);
    let others = joins.concat().into_iter().chain(repeated).chain(grants(30));
    all.push(one_by_one(&in_line, ends.chain(others)));
    // However the last grant ended.
    let kinds = |heir| [release(heir), expire(heir), swap(2)];
    for end in kinds(None) {
        let free = [&held[..], std::slice::from_ref(&end)].concat();
        for last in grants(30) {
            all.push(guarded(&free, &last, &[&FREE]));
        }
        let joins = [join(0), by_sight(0)];
        all.push(one_by_one(&free, remembered(&grants(30)).chain(joins)));
        let free = [&in_line[..], &[end]].concat();
        let reserve = Step::Reserve { heir: HEIR };
        let lasts = [
            reserve,
            leave(1),
            join(0),
            by_sight(0),
            swap(0),
            grant(0, 30),
        ];
        for last in &lasts {
            all.push(guarded(&free, last, &[&FREE, &[("claim", ANOTHER)]]));
        }
        all.push(one_by_one(&free, lasts.iter().flat_map(at_every_floor)));
        all.push(one_by_one(
            &free,
            remembered(&[join(0)]).chain((5..8).map(swap)),
        ));
    }
    for end in kinds(Some(HEIR)) {
        let reserve = matches!(end, Step::Swap { .. }).then_some(Step::Reserve { heir: HEIR });
        let kept = in_line.iter().cloned().chain([end]).chain(reserve);
        let kept: Vec<_> = kept.collect();
        let mut lasts = vec![
            take(2, false),
            take(2, true),
            pass(),
            again(),
            leave(2),
            join(0),
        ];
        lasts.extend([by_sight(0), give_up(None), give_up(Some(HEIR)), swap(0)]);
        for last in &lasts {
            all.push(guarded(&kept, last, &[&FREE, &KEPT]));
        }
        all.push(one_by_one(&kept, lasts.iter().flat_map(at_every_floor)));
        let more = [take(30, true), join(1), by_sight(1)].into_iter();
        let more = more.chain((5..8).map(swap)).chain(grants(30));
        all.push(one_by_one(&kept, remembered(&[join(0)]).chain(more)));
        let tried = [&kept[..], &[again(), again()]].concat();
        let another = Successor {
            id: 2,
            until: 33,
            floor: 0,
        };
        let lasts = [pass(), again(), give_up(Some(another))].into_iter();
        let lasts = lasts.flat_map(|last| [at_every_floor(&last), beside(&last)].concat());
        all.push(one_by_one(&tried, lasts));
    }
    // Nobody is in line behind the one that it is kept for.
    let alone = [&held[..], &[join(1), release(Some(HEIR))]].concat();
    all.push(one_by_one(&alone, grants(30)));
    for last in [join(0), by_sight(0)] {
        all.push(guarded(&alone, &last, &[&KEPT]));
    }
    all.push(of_waiters());
    let thaw = [&held[..], &[swap(0)]].concat();
    all.push(one_by_one(&thaw, [swap(1)]));
    let anew = grants(30)
        .into_iter()
        .flat_map(|grant| [grant, Step::Delete]);
    all.push(anew.collect());
    // Where there is nothing, and where there is something.
    let made = [0, 2, 5, 6, 7]
        .into_iter()
        .flat_map(|act| [Step::Make { act }, Step::Make { act: 0 }, Step::Delete]);
    all.push(made.collect());
    all
}

fn of_held(held: &[Step]) -> Vec<Vec<Step>> {
    let mut all = Vec::new();
    let mut lasts = grants(30);
    lasts.extend([
        extend(2, 9, false),
        extend(20, 9, false),
        extend(2, 9, true),
    ]);
    lasts.extend([cut(4), check(2), join(2), by_sight(2)]);
    lasts.extend([
        release(None),
        release(Some(HEIR)),
        expire(None),
        expire(Some(HEIR)),
    ]);
    lasts.extend([swap(0), swap(2)]);
    for last in &lasts {
        all.push(guarded(held, last, &[&HELD]));
    }
    all.push(one_by_one(held, remembered(&grants(30))));
    all.push(one_by_one(held, remembered(&[join(2), by_sight(2)])));
    // The very moment: it ends at 6, and a taker waits for another two.
    all.push(one_by_one(held, [grants(7), grants(8)].concat()));
    all.push(guarded(held, &extend(6, 9, false), &[]));
    let too_short = [
        extend(2, 1, false),
        extend(2, 1, true),
        joins(2, 30, None, 9),
        sees(2, 0, 9),
    ];
    all.push(one_by_one(held, too_short));
    let on_the_dot = [
        joins(2, 8, None, 9),
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
    // What a release left that found nobody in line, and what a grant of several keys left.
    for end in [release(Some(HEIR)), release(None)] {
        for before in [&single[..], held] {
            let free = [before, std::slice::from_ref(&end)].concat();
            let lasts = grants(30).into_iter();
            let lasts = lasts.flat_map(|last| [of_several(last.clone()), last]);
            all.push(one_by_one(&free, lasts));
        }
    }
    all
}

/// Each of them by every request that was granted before.
fn remembered(lasts: &[Step]) -> impl Iterator<Item = Step> + '_ {
    let asked = [(0, 10), (0, 11), (1, 12), (0, 1)];
    lasts
        .iter()
        .flat_map(move |last| asked.map(|(who, n)| asking(last.clone(), who, n)))
}

/// The item in which somebody waits: asked for again, at the same moment, earlier and later; and deleted.
fn of_waiters() -> Vec<Step> {
    let (who, request) = (1, 0);
    let call_back = |token| Step::CallBack {
        who,
        request,
        token,
    };
    let forget = |token| Step::Forget {
        who,
        request,
        token,
    };
    let again = |at| [leave(1), joins(1, at, None, 9)].into_iter();
    let steps = [
        grant(0, 1),
        call_back(0),
        call_back(1),
        forget(0),
        forget(1),
    ]
    .into_iter();
    let steps = steps
        .chain([joins(1, 2, None, 9), call_back(2)])
        .chain(again(1));
    steps.chain(again(2)).chain(again(3)).collect()
}
