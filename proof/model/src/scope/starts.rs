//! The worlds of executions that are started through the key.

use super::{Budget, FirstCall, Held, Kind, SMALL, Scope, Tick};

const WAITS: Kind = Kind::Start(Held::Wait);

const STARTS: Scope = Scope {
    kinds: [WAITS; 4],
    begun: 2,
    ..SMALL
};

/// When whoever marked the row calls at the latest, when that call arrives at the latest, and when Step Functions shows it.
const LATEST: &[Tick] = &[2, 10, 1];

const fn kinds(first: Held, second: Held, third: Held) -> [Kind; 4] {
    [
        Kind::Start(first),
        Kind::Start(second),
        Kind::Start(third),
        WAITS,
    ]
}

worlds! {
    /// All of those with starts.
    STARTED of STARTS;
    S_PLAIN "starts-plain" "two starts at once, and an execution that ends" { begun: 0 } reap: 1;
    S_THREE "starts-three" "one runs, two wait: looks side by side, and functions die" { executions: 3, begun: 3 } reap: 1, look: 1, crash: 1;
    S_CRASHES "starts-crashes" "one runs, another asks, and functions die between any two requests" { begun: 1 } look: 1, crash: 1;
    S_LATE "starts-late" "calls of StartExecution are late or lost" {} look: 1, reap: 1, lost: 1, tick: 1;
    S_UNHEARD "starts-unheard" "writes that are late, sent twice, or not answered" { begun: 1 } unheard: 1, reap: 1;
    S_UNHEARD_FREE "starts-unheard-free" "the same where the key is free" { executions: 1, begun: 0 } unheard: 1, look: 1;
    S_DENIED "starts-denied" "a call is late, and those after it are refused for good" { executions: 1, begun: 1, ticks: LATEST, first_call: FirstCall::Late } look: 2, lost: 1, deny: 1, tick: 3;
    S_SLOW "starts-slow" "a caller is slow, and those after it are refused for good" { executions: 1, begun: 1, ticks: LATEST, first_call: FirstCall::Slow } look: 2, deny: 1, tick: 3;
    S_THROTTLED "starts-throttled" "limits of the account" { begun: 1 } reap: 1, look: 1, throttle: 2;
    S_FORBIDDEN "starts-forbidden" "a call or a question that the role may not make" { begun: 1 } reap: 1, look: 1, forbid: 1;
    S_AGAIN "starts-again" "an event comes again, and functions die" { executions: 1, begun: 0 } again: 1, crash: 1, look: 1;
    S_THRICE "starts-thrice" "an event comes thrice" { executions: 1, begun: 0 } again: 2;
    S_OTHER "starts-other" "starts of one name with different inputs" { executions: 1, begun: 0 } other: 1, again: 1;
    S_LEAVING "starts-leaving" "wait_seconds end while the key is handed over" { wait: 1 } look: 1, reap: 1, tick: 1;
    S_LEAVING_AGAIN "starts-leaving-again" "the same, while an event comes again" { wait: 1 } look: 1, again: 1, tick: 1;
    S_FORCED "starts-forced" "an operator cancels a start whose call is late" { executions: 1, begun: 1, ticks: LATEST, first_call: FirstCall::Late } look: 1, evict: 1, lost: 1, tick: 3;
    S_FORCED_SLOW "starts-forced-slow" "an operator cancels a start whose caller is slow" { executions: 1, begun: 1, ticks: LATEST, first_call: FirstCall::Slow } look: 1, evict: 1, lost: 1, tick: 3;
    S_STOPPED "starts-stopped" "an operator begins a start, and ends its grant" { begun: 0, executions: 1 } begin: 1, evict: 1, crash: 1;
    S_DISMISSED "starts-dismissed" "an operator dismisses what waits or has failed" { begun: 1 } reap: 1, dismiss: 1, again: 1;
    S_REPEATED "starts-repeated" "an operator repeats what has failed" { executions: 1, begun: 0 } deny: 2, repeat: 1, again: 1;
    S_RELEASED "starts-released" "an execution gives its lease back early" { passes: true } release: 1, crash: 1, look: 1;
    S_NESTED "starts-nested" "what was started has a section of the same key, and another waits" {} nest: 1, reap: 1, look: 1, crash: 1;
    S_KEPT "starts-kept" "a lease is kept for a redrive" { keep: [1; 4] } fail: 1, redrive: 1, look: 1, tick: 1;
    S_REDRIVEN "starts-redriven" "an execution is redriven, without its lease" {} fail: 1, redrive: 1, reap: 1, tick: 1;
    S_WATCHED "starts-watched" "the same, and it gets the key again, or is stopped" { watches: true } fail: 1, redrive: 1, reap: 1, end: 1, tick: 1;
    S_FOREIGN_RUNS "starts-foreign-runs" "the name is used by somebody else's execution, which runs" { begun: 0, foreign: Some(true) } again: 1;
    S_FOREIGN_OVER "starts-foreign-over" "the name is used by somebody else's execution, which is over" { begun: 0, foreign: Some(false) } again: 1;
    S_PURGED "starts-purged" "a settled start's item is purged, and its event comes again" { executions: 1, begun: 0 } purge: 1, again: 1, other: 1, deny: 1, tick: 1;
    S_LATEST "starts-latest" "one runs, one waits, and a third sends it away" { executions: 3, kinds: kinds(Held::Wait, Held::Wait, Held::Latest) } reap: 1, look: 1, crash: 1;
    S_LATEST_UNHEARD "starts-latest-unheard" "the same, with writes that are late, sent twice, or not answered" { executions: 3, kinds: kinds(Held::Wait, Held::Wait, Held::Latest) } reap: 1, unheard: 1;
    S_REPLACE "starts-replace" "a later start stops the execution that runs" { begun: 1, kinds: kinds(Held::Wait, Held::Replace, Held::Wait) } reap: 1, again: 1, crash: 1;
    S_REPLACE_LATE "starts-replace-late" "the same, with calls that are late or lost" { begun: 1, kinds: kinds(Held::Wait, Held::Replace, Held::Wait) } reap: 1, look: 1, lost: 1;
    S_SKIP "starts-skip" "one that does not wait asks twice" { begun: 1, kinds: kinds(Held::Wait, Held::Skip, Held::Wait) } reap: 1, again: 1, crash: 1;
    S_FAIL "starts-fail" "the same, and it is refused" { begun: 1, kinds: kinds(Held::Wait, Held::Fail, Held::Wait) } reap: 1, again: 1, crash: 1;
    S_LIMITED "starts-limited" "an operator sets the limit to 0 and takes it back, while a start has its turn" {} reap: 1, limit: 2;
    S_PACE "starts-pace" "the key stays closed after each grant" { at_least: 1 } reap: 1, look: 1, tick: 1;
    S_PERMITS "starts-permits" "two have permits, a third waits, and functions die" { executions: 3, begun: 3, permits: Some(2) } reap: 1, look: 1, crash: 1;
    S_PERMITS_LATE "starts-permits-late" "two have permits, a third waits, and calls are late or lost" { executions: 3, begun: 3, permits: Some(2) } reap: 1, look: 1, lost: 1;
    S_PERMITS_BOTH "starts-permits-both" "two have permits, two wait, and both permits come back at once" { executions: 4, begun: 4, permits: Some(2) } reap: 2;
    S_PERMITS_AGAIN "starts-permits-again" "two ask for permits at once, and an event comes again" { begun: 0, permits: Some(2) } again: 1;
    S_PERMITS_SKIP "starts-permits-skip" "one permit, and one that does not wait asks twice" { begun: 1, permits: Some(1), kinds: kinds(Held::Wait, Held::Skip, Held::Wait) } reap: 1, again: 1;
    S_PERMITS_LATEST "starts-permits-latest" "one permit, one waits, and a third sends it away" { executions: 3, permits: Some(1), kinds: kinds(Held::Wait, Held::Wait, Held::Latest) } reap: 1, crash: 1;
    S_TOKENS "starts-tokens" "an execution with a task token has the key, a start waits, and functions die" { kinds: [Kind::Plain, WAITS, WAITS, WAITS] } look: 1, crash: 1;
    S_TOKENS_BEHIND "starts-tokens-behind" "one was started, an execution waits with a task token, and a start behind it" { executions: 3, begun: 3, kinds: [WAITS, Kind::Plain, WAITS, WAITS] } reap: 1, look: 1, lost: 1;
    S_TOKENS_PERMITS "starts-tokens-permits" "the same with two permits, one of an execution with a task token" { executions: 4, begun: 4, permits: Some(2), kinds: [WAITS, Kind::Plain, WAITS, Kind::Plain] } reap: 1, crash: 1;
    S_TOKENS_LATEST "starts-tokens-latest" "a start sends away one that waits with a task token" { executions: 3, kinds: [WAITS, Kind::Plain, Kind::Start(Held::Latest), WAITS] } reap: 1, lost: 1, timeout: 1;
    S_STARTS_LATEST "starts-sent-away" "an execution with a task token sends away a start" { executions: 3, latest: true, kinds: [WAITS, WAITS, Kind::Plain, WAITS] } reap: 1, crash: 1, again: 1;
}
