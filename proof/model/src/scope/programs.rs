//! The worlds of programs, which take leases with a deadline, each by its own clock.

use super::{Budget, Clocks, Kind, SMALL, Scope};

const DEADLINES: Scope = Scope {
    begun: 0,
    kinds: [Kind::Program; 4],
    margin: 2,
    error: 1,
    wrong_from_the_start: true,
    ..SMALL
};

worlds! {
    /// All of those with programs alone.
    PROGRAMS of DEADLINES;
    MUTEX "mutex" "acquire, extend, release: writes that are late, sent twice, or not answered" {} ask: 3, unheard: 2, tick: 3;
    MEMORY "memory" "a key that was granted more often than its row remembers, and every acquire of before comes again" { margin: 0, error: 0, wrong_from_the_start: false, past: 3 } ask: 1, tick: 2;
    SWEPT "sweep" "three programs and a sweep, whose clocks jump" { executions: 3, begun: 1 } ask: 2, look: 1, jump: 1, tick: 3;
    SWEPT_BY_TWO "sweep-two" "two programs and a sweep whose writes are late, sent twice, or not answered" { begun: 1 } ask: 2, look: 1, unheard: 1, tick: 3;
    JUMPS "jumps" "clocks that jump by twice the margin and more: tokens and deadlines hold all the same" { error: 5, wrong_from_the_start: false, clocks: Clocks::Differ } ask: 2, look: 1, write: 2, jump: 1, tick: 3;
    OBSERVERS "observers" "clocks that are far apart, and leases taken by observation alone" { error: 5, clocks: Clocks::Unasked } ask: 4, tick: 4;
    OBSERVED "observed" "the same, when one holds and another has seen it: what the holder does from then on" { error: 5, clocks: Clocks::Unasked, begun: 2 } ask: 3, tick: 4;
    PURGES "purge" "rows that are purged when free, and deleted by hand when held" {} ask: 2, write: 2, wipe: 1, tick: 4;
    BRANCHES "branches" "late extends, executions that fail with a branch at work, reap, redrive" { begun: 1, ttl: 6, ticks: &[4, 1] } ask: 1, reap: 1, fail: 1, redrive: 1, unheard: 1, tick: 2;
    RESTORED "restored" "a restore of a row that was free, and the floor after it" { restore: true, past: 1 } ask: 2, look: 1, unheard: 1, tick: 2;
    JOINED "joined" "a restore and its floor, with branches at work, reap and redrive" { restore: true, begun: 1, ttl: 6, ticks: &[4, 1] } ask: 1, reap: 1, fail: 1, redrive: 1, tick: 2;
    BRANCHES_QUEUE "branches-queue" "one with a deadline and a branch at work fails and is redriven, and an execution waits for its key" { begun: 2, kinds: [Kind::Program, Kind::Plain, Kind::Program, Kind::Program], ttl: 1 } fail: 1, redrive: 1, ask: 1, tick: 2;
    RESTORED_QUEUE "restored-queue" "a restore of a key in whose queue somebody waits, and the floor after it" { executions: 3, begun: 2, kinds: [Kind::Plain; 4], margin: 0, error: 0, wrong_from_the_start: false, restore: true } look: 1;
    STRANGERS "strangers" "an item that is not ours is in the way" { stranger: true } ask: 3, look: 1, tick: 2;
}
