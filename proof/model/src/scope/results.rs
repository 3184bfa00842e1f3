//! The worlds of starts for whose results tasks wait.

use super::{Budget, Held, Kind, SMALL, Scope};

const START: Kind = Kind::Start(Held::Wait);

const ASKED: Scope = Scope {
    executions: 1,
    begun: 0,
    kinds: [START; 4],
    results: true,
    ..SMALL
};

worlds! {
    /// All of those with tasks that wait for starts.
    RESULTS of ASKED;
    R_ENDS "starts-result" "an execution succeeds or fails, and functions die between any two requests" {} fail: 1, reap: 1, crash: 1;
    R_AGAIN "starts-result-again" "the task is retried with another token" {} again: 1, crash: 1;
    R_LOST "starts-result-lost" "calls with the task's token are late, or not answered" {} fail: 1, reap: 1, lost: 1;
    R_UNHEARD "starts-result-unheard" "writes that are late, sent twice, or not answered" {} reap: 1, unheard: 1;
    R_REFUSED "starts-result-refused" "starts that are refused for good" { executions: 2 } deny: 1, reap: 1, crash: 1;
    R_REFUSED_AGAIN "starts-result-refused-again" "the same, and the task is retried with another token" { executions: 1 } deny: 1, again: 1, crash: 1;
    R_LEAVING "starts-result-leaving" "wait_seconds end in the queue" { executions: 2, begun: 2, wait: 1 } look: 1, tick: 1, crash: 1;
    R_AWAY "starts-result-away" "a later start sends away who waits" { executions: 3, begun: 2, kinds: [START, START, Kind::Start(Held::Latest), START] } reap: 1, crash: 1;
    R_DISMISSED "starts-result-dismissed" "an operator dismisses what waits or has failed" { executions: 2, begun: 1 } deny: 1, dismiss: 1, reap: 1, crash: 1;
    R_SKIPS "starts-result-skips" "one that does not wait for the key asks twice" { executions: 2, begun: 1, kinds: [START, Kind::Start(Held::Skip), START, START] } again: 1, reap: 1, crash: 1;
    R_CALLER "starts-result-caller" "what was started stops with the execution of the task" { executions: 2, begun: 1, stops: true } caller: 1, reap: 1, end: 1, crash: 1;
    R_POOL "starts-result-pool" "the start waits in a pool, and is dismissed or begins" { executions: 2, begun: 2, keys: [0, 1, 0, 1], pool: Some(1) } dismiss: 1, reap: 1, crash: 1;
}
