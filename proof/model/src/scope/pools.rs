//! The worlds of keys that share a pool.

use super::{Budget, Held, KeyNo, Kind, SMALL, Scope};
use crate::names::POOL;

const START: Kind = Kind::Start(Held::Wait);
const STARTS: [Kind; 4] = [START; 4];

/// Two keys, each a mutex, and a pool of one; the first execution has both, and the second has its key and waits in the pool.
const TENANTS: Scope = Scope {
    begun: 2,
    keys: TURNS,
    pool: Some(1),
    ..SMALL
};

/// Two want the first key: the second of them has it when the first has given it back, and comes after who waits in the pool.
const TURNS: [KeyNo; 4] = [0, 1, 0, 1];

/// Two want the second key.
const LATER: [KeyNo; 4] = [0, 1, 1, 0];

worlds! {
    /// All of those with a pool.
    POOLED of TENANTS;
    P_FREE "pool-free" "two tenants ask for their keys and for the one permit of a pool at once" { begun: 0 };
    P_TOKENS "pool-tokens" "one has the permit of the pool, another its key: functions die between any two requests" {} look: 1, crash: 1;
    P_ASKS "pool-asks" "one has the permit of the pool, another asks, and functions die between any two requests" { begun: 1 } crash: 1;
    P_TURNS "pool-turns" "two of one tenant and one of another: each tenant in its turn" { executions: 3 } crash: 1;
    P_RETRIES "pool-retries" "task tokens time out in the queue of the pool, and are retried with new ones" {} timeout: 1, retry: 1;
    P_LOST "pool-lost" "calls with task tokens that are late, or not answered" {} lost: 1, look: 1;
    P_UNHEARD "pool-unheard" "writes that are late, sent twice, or not answered" { begun: 1 } unheard: 1;
    P_ENDS "pool-ends" "executions succeed without a release, and are looked at" {} end: 1, reap: 1, look: 1;
    P_FAILS "pool-fails" "executions fail, in the queue of the pool or with a Lambda function at work" {} fail: 1, reap: 1, tick: 1;
    P_LEAVING "pool-leaving" "wait_seconds end in the queue of the pool" { wait: 1 } look: 1, tick: 1;
    P_LIMITED "pool-limited" "an operator sets the limit of the pool to 0 and takes it back" { operated: &[POOL] } limit: 2;
    P_FORCED "pool-forced" "an operator takes the permit of the pool, or a key, away" { operated: &[0, 1, POOL] } evict: 1, crash: 1;
    P_TWO "pool-two" "two tenants of two permits, and a pool of two" { executions: 3, begun: 3, permits: Some(2), pool: Some(2) } crash: 1;
    P_LATEST "pool-latest" "one of a tenant waits in the pool, and a later one sends it away" { executions: 3, keys: LATER, latest: true } crash: 1;
    P_STARTS "pool-starts" "starts of two tenants: functions die between any two requests" { kinds: STARTS } reap: 1, look: 1, crash: 1;
    P_STARTS_ASKS "pool-starts-asks" "the same, while another start asks" { kinds: STARTS, begun: 1 } crash: 1;
    P_STARTS_FREE "pool-starts-free" "starts of two tenants at once" { kinds: STARTS, begun: 0 } reap: 1;
    P_STARTS_TURNS "pool-starts-turns" "two starts of one tenant and one of another: each tenant in its turn" { kinds: STARTS, executions: 3, begun: 3 } reap: 2, crash: 1;
    P_STARTS_LATE "pool-starts-late" "calls of StartExecution are late or lost" { kinds: STARTS } reap: 1, look: 1, lost: 1;
    P_STARTS_DENIED "pool-starts-denied" "starts that are refused for good" { kinds: STARTS, begun: 0 } deny: 1, reap: 1;
    P_STARTS_DISMISSED "pool-starts-dismissed" "an operator dismisses a start in the queue of the pool" { kinds: STARTS } reap: 1, dismiss: 1, crash: 1;
    P_STARTS_FORCED "pool-starts-forced" "an operator takes the permit of the pool, or a key, away" { kinds: STARTS, operated: &[0, 1, POOL] } reap: 1, evict: 1;
    P_STARTS_LATEST "pool-starts-latest" "one of a tenant waits in the pool, and a later one sends it away" { kinds: [START, START, Kind::Start(Held::Latest), START], executions: 3, keys: LATER } reap: 1, crash: 1;
    P_STARTS_REPLACE "pool-starts-replace" "the same, and it would stop who runs" { kinds: [START, START, Kind::Start(Held::Replace), START], executions: 3, keys: LATER } reap: 1, crash: 1;
    P_KEPT "pool-kept" "the key and its permit are kept for a redrive, and proved after it" { keep: [1; 4] } fail: 1, redrive: 1, tick: 1;
    P_STARTS_KEPT "pool-starts-kept" "the same of a start" { kinds: STARTS, keep: [1; 4] } fail: 1, redrive: 1, look: 1, tick: 1;
    P_STARTS_REDRIVEN "pool-starts-redriven" "an execution is redriven, with neither key nor permit" { kinds: STARTS } fail: 1, redrive: 1, reap: 1, tick: 1;
    P_STARTS_WATCHED "pool-starts-watched" "the same, and it gets both again, or is stopped" { kinds: STARTS, watches: true } fail: 1, redrive: 1, reap: 2, end: 1;
    P_MIXED "pool-mixed" "an execution with a task token has the permit, and a start waits in the pool" { kinds: [Kind::Plain, START, START, START] } look: 1, crash: 1;
    P_MIXED_BEHIND "pool-mixed-behind" "a start has the permit, and an execution with a task token waits in the pool" { kinds: [START, Kind::Plain, START, START] } reap: 1, crash: 1;
}
