//! The worlds that are walked through at random: too large to be gone through.

use super::{Budget, Clocks, Held, Kind, NOTHING, SMALL, Scope};
use crate::names::POOL;

const START: Kind = Kind::Start(Held::Wait);
const KINDS: [Kind; 4] = [Kind::Plain, Kind::CarriesOn, Kind::AsksAnew, Kind::Plain];
const MIXED: [Kind; 4] = [START, Kind::Plain, START, Kind::Plain];
const WAYS: [Kind; 4] = [
    START,
    Kind::Start(Held::Latest),
    Kind::Start(Held::Replace),
    Kind::Start(Held::Skip),
];

const AT_ONCE: [Kind; 4] = [
    START,
    Kind::Start(Held::Fail),
    START,
    Kind::Start(Held::Skip),
];

/// Much happens.
const MUCH: Budget = Budget {
    tick: 16,
    look: 8,
    reap: 4,
    lost: 2,
    unheard: 3,
    crash: 2,
    timeout: 2,
    retry: 4,
    round: 8,
    fail: 2,
    end: 2,
    redrive: 2,
    evict: 1,
    limit: 2,
    freeze: 2,
    index: 4,
    throttle: 2,
    forbid: 1,
    ask: 12,
    write: 3,
    jump: 2,
    again: 3,
    other: 1,
    deny: 1,
    repeat: 1,
    dismiss: 1,
    begin: 1,
    nest: 1,
    release: 1,
    ..NOTHING
};

const LARGE: Scope = Scope {
    executions: 4,
    begun: 0,
    watches: true,
    budget: MUCH,
    ..SMALL
};

/// Programs, by clocks that are wrong.
const CLOCKS: Scope = Scope {
    kinds: [Kind::Program; 4],
    margin: 2,
    error: 1,
    wrong_from_the_start: true,
    ..LARGE
};

worlds! {
    /// All of those with executions and starts.
    WALKED of LARGE;
    W_TOKENS "walk-tokens" "four executions wait with task tokens" { kinds: KINDS };
    W_PERMITS "walk-permits" "the same for two permits" { kinds: KINDS, permits: Some(2) };
    W_UNTOLD "walk-untold" "two with two permits, which die before they are told, and are redriven" { executions: 2, permits: Some(2) } crash: 8, fail: 8, redrive: 8, look: 2, reap: 0, lost: 0, unheard: 0, timeout: 0, round: 2, nest: 0, evict: 0, limit: 0, freeze: 0;
    W_LATEST "walk-latest" "only the newest waits" { latest: true };
    W_LEAVING "walk-leaving" "they wait for a minute at most, and the key stays closed after each grant" { wait: 2, at_least: 2 };
    W_KEPT "walk-kept" "leases are kept for a redrive, and half of them are not proven after it" { keep: [1, 2, 0, 1], guarded: [false, true, true, false] };
    W_SUSPENDED "walk-suspended" "executions wait with task tokens, and functions stand still for minutes" { kinds: KINDS, keep: [0, 1, 0, 0], life: 8 };
    W_SUSPENDED_STARTS "walk-suspended-starts" "starts, and the same" { kinds: MIXED, life: 8 };
    W_STARTS "walk-starts" "starts, in every way" { kinds: WAYS, passes: true };
    W_STARTS_AT_ONCE "walk-starts-at-once" "starts that wait, and those that do not" { kinds: AT_ONCE } purge: 1;
    W_STARTS_LEAVING "walk-starts-leaving" "starts wait for a minute at most, and the key stays closed after each grant" { kinds: WAYS, wait: 2, at_least: 2 };
    W_STARTS_PERMITS "walk-starts-permits" "starts for two permits" { kinds: AT_ONCE, permits: Some(2), passes: true } limit: 0;
    W_STARTS_WATCHED "walk-starts-watched" "starts that are redriven get their key again, or are stopped" { kinds: WAYS, passes: true } look: 16, reap: 8, fail: 4, redrive: 4;
    W_STARTS_KEPT "walk-starts-kept" "starts whose keys are kept for a redrive" { kinds: [START; 4], keep: [1, 2, 0, 1], passes: true };
    W_MIXED "walk-mixed" "starts, and executions that wait with task tokens" { kinds: MIXED };
    W_RESULTS "walk-results" "tasks wait for the results of starts" { kinds: WAYS, results: true } repeat: 0;
    W_CALLERS "walk-callers" "the same, and what was started stops with the execution of the task" { kinds: WAYS, results: true, stops: true } caller: 3, repeat: 0;
    W_POOL "walk-pool" "two tenants and a pool of one" { keys: [0, 1, 0, 1], pool: Some(1), operated: &[0, 1, POOL] } nest: 0;
    W_POOL_STARTS "walk-pool-starts" "the same of starts, and of executions that wait with task tokens" { kinds: MIXED, keys: [0, 1, 1, 0], pool: Some(1), operated: &[0, 1, POOL] } nest: 0;
    W_POOL_WAYS "walk-pool-ways" "starts in every way, which are redriven" { kinds: WAYS, keys: [0, 1, 1, 0], pool: Some(1), operated: &[0, 1, POOL] } look: 16, reap: 8, nest: 0, fail: 4, redrive: 4;
    W_POOL_TWO "walk-pool-two" "the same with two permits of each" { kinds: MIXED, keys: [0, 1, 1, 0], permits: Some(2), pool: Some(2), operated: &[0, 1, POOL] } nest: 0, limit: 0;
}

worlds! {
    /// All of those with programs.
    WALKED_CLOCKS of CLOCKS;
    W_PROGRAMS "walk-programs" "programs, by clocks that are wrong" { executions: 3 };
    W_QUEUED "walk-queued" "programs that wait in the queue by task tokens, and one that does not" { kinds: [Kind::Queued, Kind::Queued, Kind::Program, Kind::Queued], ttl: 4 };
    W_CLOCKED "walk-clocked" "executions and programs on one key, by clocks that are wrong" { kinds: [Kind::Plain, Kind::Queued, Kind::AsksAnew, Kind::Program], keep: [0, 0, 1, 0], ttl: 2 };
    W_CLOCKED_PERMITS "walk-clocked-permits" "the same for two permits" { kinds: [Kind::Plain, Kind::Queued, Kind::AsksAnew, Kind::Queued], permits: Some(2), ttl: 2 };
    W_CLOCKED_STARTS "walk-clocked-starts" "starts and programs that wait, by clocks that are wrong" { kinds: [START, Kind::Queued, START, Kind::Queued], ttl: 2 };
    W_SUSPENDED_PROGRAMS "walk-suspended-programs" "programs, and functions that stand still for minutes" { kinds: [Kind::Program, Kind::Queued, Kind::Program, Kind::Queued], ttl: 12, ticks: &[4, 1], life: 8 } reap: 16, fail: 4, redrive: 1;
    W_SETS "walk-sets" "programs that take two keys at once, one that takes one, and one that waits for one" { kinds: [Kind::Set, Kind::Set, Kind::Program, Kind::Queued] };
    W_OBSERVERS "walk-observers" "programs that trust no clock" { executions: 3, error: 5, clocks: Clocks::Unasked } fail: 0, jump: 0, look: 0, reap: 0;
    W_RESTORED "walk-restored" "a restore and its floor" { executions: 3, begun: 1, restore: true };
    W_RESTORED_QUEUE "walk-restored-queue" "the same with a queue, which is soon full" { kinds: [Kind::Program, Kind::Queued, Kind::Plain, Kind::AsksAnew], begun: 1, restore: true, most_wait: 1 };
}

/// All of them.
pub fn walked() -> impl Iterator<Item = Scope> {
    WALKED.iter().chain(WALKED_CLOCKS).copied()
}
