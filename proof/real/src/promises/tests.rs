//! Each promise, and short lists of events that break it, and nothing else.

use super::Answer::{Failed, Queued as InQueue, Refused, Skipped, Started};
use super::What::*;
use super::{Answer, At, Event, Told, What, broken};

/// When, who, and what: everything happens at one place.
type Seen = (At, &'static str, What);

fn granted(token: u64, request: &str, asked: At) -> What {
    let request = request.to_owned();
    #[rustfmt::skip]
    let granted = Granted { token, request, asked };
    granted
}

fn entered(token: u64, room: usize, until: Option<At>) -> What {
    Entered { token, room, until }
}

fn expires(token: u64, until: At, is_by_clock: bool) -> What {
    Expires {
        token,
        until,
        is_by_clock,
    }
}

fn left(token: u64) -> What {
    Left { token }
}

fn lost(token: u64) -> What {
    Lost { token }
}

fn wrote(token: u64, number: u64) -> What {
    Wrote { token, number }
}

fn item(item: &str) -> What {
    Item(item.to_owned())
}

fn read(text: &str) -> What {
    Read(text.to_owned())
}

fn heard(asked: At, answer: Answer) -> What {
    Heard { asked, answer }
}

fn asked() -> What {
    Asked("in".to_owned())
}

fn began() -> What {
    Began("in".to_owned())
}

fn told(error: &str) -> What {
    Told(Told::Error(error.to_owned()))
}

fn found(events: &[Seen]) -> Vec<&'static str> {
    let events = events.iter().cloned().map(|(at, who, what)| Event {
        at,
        place: "k".to_owned(),
        who: who.to_owned(),
        what,
    });
    let found = broken(&events.collect::<Vec<_>>());
    found.iter().map(|broken| broken.promise).collect()
}

/// Each event is just within a promise.
#[test]
#[rustfmt::skip]
fn what_went_well_breaks_no_promise() {
    let kept: &[&[Seen]] = &[
        // A longer lease; and one that is heard of only after an eviction.
        &[(1, "a", entered(2, 1, Some(10))), (9, "a", entered(2, 1, Some(15))), (15, "b", entered(4, 1, None)),
          (20, "b", left(4)), (21, "b", entered(4, 1, None)), (21, "c", entered(6, 1, None))],
        &[(1, "a", entered(2, 2, None)), (2, "b", entered(2, 2, None)), (3, "b", left(2)), (3, "c", entered(4, 2, None))],
        &[(1, "a", entered(2, 1, Some(9))), (5, "a", lost(2))],
        &[(1, "a", entered(2, 1, None)), (5, "a", left(2)), (5, "a", lost(2))],
        &[(1, "a", left(2)), (5, "a", entered(2, 1, None)), (6, "a", lost(2))],
        // At the same time, so that either may be first; and copies of the first.
        &[(9, "a", granted(4, "a", 0)), (11, "b", granted(2, "b", 9)), (12, "a", granted(4, "a", 0))],
        // The row has forgotten it.
        &[(1, "a", granted(2, "a", 0)), (2, "b", granted(4, "b", 0)), (3, "c", granted(6, "c", 0)),
          (4, "d", granted(8, "d", 0)), (5, "a", granted(10, "a", 0))],
        &[(5, "a", Queued), (20, "c", granted(2, "c", 1)), (21, "c", granted(2, "c", 6)), (40, "a", granted(4, "a", 1))],
        &[(5, "a", Queued), (6, "b", Queued), (7, "b", GaveUp), (20, "c", granted(2, "c", 5)), (40, "a", granted(4, "a", 1))],
        &[(1, "a", expires(2, 9, true)), (2, "a", expires(2, 8, true)), (9, "b", expires(3, 19, true)), (9, "b", left(3)),
          (9, "c", expires(4, 30, true)), (10, "d", expires(5, 40, false)), (11, "e", expires(7, 40, true))],
        &[(1, "", wrote(2, 1)), (2, "", wrote(2, 2)), (3, "", wrote(4, 3)), (4, "a", Tried(None))],
        &[(1, "", item("i")), (2, "", item("i")), (3, "0123456789abcdef", Secret), (4, "", read("a log"))],
        &[(0, "a", asked()), (5, "a", began()), (11, "a", heard(10, Started)), (40, "a", heard(30, InQueue))],
        &[(0, "a", asked()), (1, "a", heard(0, Refused)), (2, "a", began()), (3, "a", heard(2, Started))],
        &[(0, "a", asked()), (0, "a", Waits), (1, "a", began()), (2, "a", Ended("SUCCEEDED")), (3, "a", Told(Told::Output))],
        &[(0, "a", asked()), (0, "a", Waits), (1, "a", began()), (2, "a", CallerEnded), (3, "a", Ended("ABORTED"))],
        &[(0, "a", Waits), (1, "a", heard(0, Skipped)), (2, "a", Told(Told::Skipped))],
        &[(0, "a", Waits), (1, "a", heard(0, InQueue)), (2, "a", told("Lease.QueueTimeout")), (3, "a", heard(2, Failed))],
    ];
    for events in kept {
        assert_eq!(found(events), [""; 0], "{events:?}");
    }
}

#[test]
#[rustfmt::skip]
fn each_broken_promise_is_found() {
    let cases: &[(&str, &[Seen])] = &[
        ("S1", &[(1, "a", granted(2, "a", 0)), (2, "b", granted(2, "b", 0))]),
        ("S2", &[(9, "a", granted(4, "a", 0)), (11, "b", granted(2, "b", 10))]),
        ("S3", &[(1, "", wrote(4, 1)), (2, "", wrote(2, 2))]),
        ("S3", &[(1, "", wrote(2, 1)), (2, "", wrote(4, 1))]),
        ("S7", &[(1, "a", granted(2, "a", 0)), (2, "a", granted(4, "a", 0))]),
        ("S8", &[(1, "a", entered(2, 1, Some(10))), (9, "b", entered(4, 1, Some(20)))]),
        ("S8", &[(1, "a", entered(2, 1, Some(9))), (8, "a", entered(2, 1, Some(16))), (15, "b", entered(4, 1, None))]),
        ("S8", &[(1, "a", entered(2, 1, None)), (4, "b", entered(4, 1, None)), (5, "a", left(2))]),
        ("S8", &[(1, "a", entered(2, 2, None)), (2, "b", entered(2, 2, None)), (3, "c", entered(4, 2, None))]),
        ("S10", &[(1, "", item("i")), (2, "", item("j"))]),
        ("S11", &[(1, "0123456789abcdef", Secret), (2, "", read("it is 0123456789abcdef"))]),
        ("S12", &[(1, "a", entered(2, 1, None)), (2, "a", lost(2))]),
        ("F3", &[(1, "a", expires(2, 9, false)), (8, "b", expires(3, 19, true))]),
        ("L1", &[(1, "a", Tried(Some("held".to_owned())))]),
        ("L3", &[(5, "a", Queued), (20, "b", granted(2, "b", 6)), (40, "a", granted(4, "a", 1))]),
        ("L4", &[(1, "a", Queued)]),
        ("contract", &[(1, "a", Unexpected("Lease.Invalid".to_owned()))]),
        // Of starts.
        ("S7", &[(0, "a", asked()), (1, "a", began()), (2, "a", began())]),
        ("S7", &[(1, "a", began())]),
        ("S12", &[(0, "a", asked()), (1, "a", began()), (2, "a", Ended("ABORTED"))]),
        ("contract", &[(3, "a", heard(0, Started))]),
        ("contract", &[(0, "a", asked()), (3, "a", heard(0, Started)), (4, "a", began())]),
        ("contract", &[(0, "a", asked()), (1, "a", began()), (3, "a", heard(0, Skipped))]),
        ("contract", &[(0, "a", asked()), (1, "a", began()), (3, "a", heard(0, Refused))]),
        ("contract", &[(0, "a", asked()), (1, "a", began()), (3, "a", heard(0, Failed))]),
        ("contract", &[(1, "a", heard(0, InQueue)), (3, "a", heard(2, Refused))]),
        ("contract", &[(1, "a", heard(0, Skipped)), (3, "a", heard(2, InQueue))]),
        ("F48", &[(1, "a", Waits)]),
        ("F48", &[(1, "a", Waits), (2, "a", Told(Told::Output))]),
        ("F48", &[(1, "a", Waits), (2, "a", Told(Told::Skipped))]),
        ("F48", &[(1, "a", Waits), (2, "a", told("States.TaskFailed"))]),
        ("F48", &[(1, "a", Waits), (2, "a", told("Lease.NotStarted")), (3, "a", told("Lease.NotStarted"))]),
        ("F48", &[(0, "a", asked()), (1, "a", Waits), (2, "a", began()), (3, "a", told("Lease.NotStarted"))]),
    ];
    for (promise, events) in cases {
        assert_eq!(found(events), [*promise], "{events:?}");
    }
}
