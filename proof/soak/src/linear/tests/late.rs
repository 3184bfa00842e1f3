//! Of calls whose end nobody knows, and of what comes late.

use super::{
    RELEASED, ask, besides, extend, extended, fine, first, granted, held, impossible, op, release,
    released, replayed,
};
use crate::history::{Besides, Response};

#[test]
fn an_unknown_end_may_have_been_and_need_not() {
    let unknown = besides(Besides::Later, op(30, 40, release(12), Response::Unknown));
    let next = op(50, 60, ask(2, 201), granted(55, 14, RELEASED));
    fine(&[first(), unknown.clone(), next]);
    fine(&[first(), unknown, op(50, 60, ask(2, 201), held(1, 12, 1010))]);
}

#[test]
fn what_nobody_heard_of_is_settled_by_a_later_response() {
    let unknown = besides(Besides::Later, op(0, 20, ask(1, 101), Response::Unknown));
    let again = op(100, 110, ask(1, 101), replayed(granted(10, 12, None)));
    fine(&[unknown.clone(), again]);
    let shown = op(50, 60, ask(2, 201), held(1, 12, 1010));
    fine(&[unknown.clone(), shown.clone()]);
    let other = op(100, 110, ask(1, 101), replayed(granted(12, 14, None)));
    impossible(&[unknown, shown, other]);
}

#[test]
fn what_is_late_is_not_late_for_ever() {
    let history = |when| {
        [
            first(),
            besides(when, op(30, 40, release(12), Response::Unknown)),
            op(45, 48, ask(2, 201), held(1, 12, 1010)),
            op(50, 60, ask(2, 202), granted(55, 14, RELEASED)),
        ]
    };
    fine(&history(Besides::Later));
    impossible(&history(Besides::Within));
}

#[test]
fn a_late_request_revives_nothing_that_is_over() {
    let late = besides(Besides::Later, op(30, 40, extend(12), extended(12, 1035)));
    let shown = op(150, 160, ask(2, 201), held(1, 12, 1035));
    impossible(&[first(), late, released(), shown]);
}

#[test]
fn a_grant_without_a_trace_may_have_been_all_the_same() {
    // Somebody took over and was never heard of: whoever had it before learns it.
    let unknown = besides(
        Besides::Later,
        op(1700, 1710, ask(2, 201), Response::Unknown),
    );
    let lost = op(1720, 1730, extend(12), Response::Lost);
    fine(&[first(), unknown, lost.clone()]);
    impossible(&[first(), lost]);
}

#[test]
fn whoever_was_refused_as_held_may_be_granted_it_late() {
    let refused = besides(Besides::Later, op(30, 40, ask(2, 201), held(1, 12, 1010)));
    let again = op(120, 130, ask(2, 201), replayed(granted(35, 14, RELEASED)));
    fine(&[first(), refused, released(), again.clone()]);
    impossible(&[first(), released(), again]);
}

#[test]
fn a_late_request_takes_over_nothing_that_lasts_and_nothing_twice() {
    let late = besides(Besides::Later, op(30, 40, ask(2, 201), Response::Unknown));
    impossible(&[
        first(),
        late.clone(),
        op(50, 60, extend(12), Response::Lost),
    ]);
    // It was granted and released: what comes late does not find it forgotten.
    let again = besides(Besides::Later, op(30, 40, ask(1, 101), Response::Unknown));
    let shown = op(120, 130, ask(2, 201), held(1, 14, 1035));
    impossible(&[first(), again, released(), shown]);
}
