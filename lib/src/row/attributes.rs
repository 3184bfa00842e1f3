//! The names of a lease row's attributes: public API, like the JSON fields.

use crate::values::{Key, RequestDigest, hex};

pub(crate) const PK: &str = "pk";
pub(crate) const SK: &str = "sk";
/// Present while held, and only then: the hash key of the sparse index [`INDEX`].
pub(crate) const HOLDER: &str = "holder";
pub(crate) const LEASE_ID: &str = "lease_id";
pub(crate) const TTL_MS: &str = "ttl_ms";
pub(crate) const ACQUIRED_AT: &str = "acquired_at";
pub(crate) const EXTENDED_AT: &str = "extended_at";
pub(crate) const EXPIRES_AT: &str = "expires_at";
pub(crate) const METADATA: &str = "metadata";
/// Of an execution lease only, in place of a ttl and a deadline: how long it stays after a failure.
pub(crate) const KEEP_MS: &str = "keep_ms";
/// Of an execution lease: when its execution was last asked about.
pub(crate) const LOOKED_AT: &str = "looked_at";
/// Of an execution lease whose execution has ended while something of it may still be at work: from when on another look
/// that finds it so may end the lease.
pub(crate) const LOOK_AGAIN_AT: &str = "look_again_at";
/// Projected into [`INDEX`]: before this instant sweep need not read the row. An extend does not change it, so an
/// extend writes the base row only.
pub(crate) const SWEEP_AFTER: &str = "sweep_after";

pub(crate) const FENCING_TOKEN: &str = "fencing_token";
pub(crate) const VERSION: &str = "version";
pub(crate) const GRANTED_TO: &str = "granted_to";
/// The digest of the current or last grant's request, and those of the three grants before it.
pub(crate) const REQUEST: &str = "request";
pub(crate) const PAST_REQUESTS: [&str; 3] = ["past_request_1", "past_request_2", "past_request_3"];
/// The tokens of the last three grants that were released, latest first.
pub(crate) const PAST_RELEASES: [&str; 3] = ["past_release_1", "past_release_2", "past_release_3"];
pub(crate) const PREVIOUS_HOLDER: &str = "previous_holder";
pub(crate) const PREVIOUS_FENCING_TOKEN: &str = "previous_fencing_token";
/// The token of the grant before, if the row's token was higher by the time of the next grant; NULL otherwise. It is
/// an attribute of its own because one attribute would need a nested `if_not_exists`, which not every engine accepts.
pub(crate) const PREVIOUS_LAST_TOKEN: &str = "previous_last_fencing_token";
pub(crate) const PREVIOUS_ENDED: &str = "previous_ended";

/// Present while free, and only then: how the last grant ended.
pub(crate) const ENDED: &str = "ended";
/// The table's DynamoDB TTL attribute, in epoch seconds; never the deadline of a lease.
pub(crate) const PURGE_AT: &str = "purge_at";
/// The digest of the keys that the request of a set asked for; absent for a single key.
pub(crate) const REQUEST_KEYS: &str = "request_keys";
/// What an operator last did to the row, who, why and when.
pub(crate) const OPERATOR: &str = "operator";
/// Present while an operator has frozen the key: who, why and since when.
pub(crate) const FROZEN: &str = "frozen";

/// How many may hold the key at once, whatever they ask for, as an operator has set it: with who, why and when. In the first
/// row only.
pub(crate) const LIMIT: &str = "limit";
/// In [`LIMIT`]: the number.
pub(crate) const LIMIT_PERMITS: &str = "permits";
/// The latest [`PURGE_AT`] that there is, in a row that says what an operator has decided for the time to come: it is not
/// purged.
pub(crate) const KEPT_UNTIL: &str = "kept_until";
/// Before this instant the row is not granted again, also if it is free.
pub(crate) const OPENS_AT: &str = "opens_at";
/// Of a waiter or a start: the cooldown of the row after its grant.
pub(crate) const AT_LEAST_MS: &str = "at_least_ms";

/// Of the current or last grant, a waiter or a start: of how many permits it asked for one. For the mutex absent from a row, and
/// otherwise 0.
pub(crate) const PERMITS: &str = "permits";

/// Of a held row whose grant needs a pool: which, for how many, and whether it has entered it. Of one that waits, or a start: which
/// pool.
pub(crate) const POOL: &str = "pool";
/// Of one that waits, or a start: of how many permits of its pool it asks for one.
pub(crate) const POOL_PERMITS: &str = "pool_permits";
/// In [`POOL`] of a row: whether it has entered.
pub(crate) const ENTERED: &str = "entered";
/// Of the row of a pool: who is inside, by their places, and who waits.
pub(crate) const ENTRIES: &str = "entries";
/// In [`ENTRIES`].
pub(crate) const INSIDE: &str = "inside";
pub(crate) const WAITING: &str = "waiting";

/// The queue, first come first: a list of the digests of the requests. It exists from the first grant on, because the
/// removal of the first entry of a missing list is an error.
pub(crate) const QUEUE: &str = "queue";
/// Present while free, if the row's token is higher than the last grant's.
pub(crate) const LAST_TOKEN: &str = "last_fencing_token";

/// Of an execution lease whose holder waits with a task token, until it has shown that it knows of its grant: how often
/// it was notified, when last, and when its token was found dead.
pub(crate) const NOTIFICATIONS: &str = "notifications";
pub(crate) const NOTIFIED_AT: &str = "notified_at";
pub(crate) const REFUSED_AT: &str = "refused_at";

/// In a waiter's item, together with holder, request, `keep_ms`, metadata, `sweep_after` and `purge_at`.
pub(crate) const TASK_TOKEN: &str = "task_token";
/// In a waiter's item; and in the row of a lease that was granted to that waiter, until it has shown that it knows.
pub(crate) const TICKET: &str = "ticket";
pub(crate) const ASKED_AT: &str = "asked_at";
pub(crate) const DEADLINE: &str = "deadline";
/// In the item of a waiter or a start that does not only wait: what else it does while somebody has the key.
pub(crate) const IF_HELD: &str = "if_held";
/// In what is left of a waiter's item, and in a start's: who came later and waited instead.
pub(crate) const SUPERSEDED_BY: &str = "superseded_by";

/// In a start's item, together with holder, `keep_ms`, metadata, `asked_at`, deadline, `sweep_after` and `purge_at`.
pub(crate) const STATE_MACHINE: &str = "state_machine";
pub(crate) const NAME: &str = "name";
pub(crate) const INPUT: &str = "input";
pub(crate) const PASS_LEASE: &str = "pass_lease";
pub(crate) const STATUS: &str = "status";
pub(crate) const REASON: &str = "reason";

/// In a start's item: the execution without which it need not begin. In that of a task that waits for its result, together with holder, `task_token`, `asked_at`, `sweep_after` and `purge_at`.
pub(crate) const STOP_WITH: &str = "stop_with";
pub(crate) const MISSING_SINCE: &str = "missing_since";

/// In the item of an execution whose lease has ended and that may be redriven, together with holder, permits, `keep_ms`, version,
/// `sweep_after` and `purge_at`.
pub(crate) const STARTED: &str = "started";
pub(crate) const REDRIVES: &str = "redrives";
pub(crate) const ENDED_AT: &str = "ended_at";

/// Every attribute of a row but its address.
pub(crate) const ALL: [&str; 42] = [
    HOLDER,
    LEASE_ID,
    TTL_MS,
    ACQUIRED_AT,
    EXTENDED_AT,
    EXPIRES_AT,
    METADATA,
    KEEP_MS,
    LOOKED_AT,
    LOOK_AGAIN_AT,
    SWEEP_AFTER,
    FENCING_TOKEN,
    VERSION,
    GRANTED_TO,
    REQUEST,
    REQUEST_KEYS,
    PERMITS,
    POOL,
    ENTRIES,
    PAST_REQUESTS[0],
    PAST_REQUESTS[1],
    PAST_REQUESTS[2],
    PAST_RELEASES[0],
    PAST_RELEASES[1],
    PAST_RELEASES[2],
    PREVIOUS_HOLDER,
    PREVIOUS_FENCING_TOKEN,
    PREVIOUS_LAST_TOKEN,
    PREVIOUS_ENDED,
    ENDED,
    PURGE_AT,
    FROZEN,
    LIMIT,
    KEPT_UNTIL,
    OPENS_AT,
    OPERATOR,
    QUEUE,
    LAST_TOKEN,
    NOTIFICATIONS,
    NOTIFIED_AT,
    REFUSED_AT,
    TICKET,
];

/// The sparse index over [`HOLDER`].
pub(crate) const INDEX: &str = "held";

/// The sort key of permit `permit`'s lease row.
pub(crate) fn lease_sk(permit: u16) -> String {
    format!("LEASE#{permit:04}")
}

/// The permit in a lease row's sort key.
pub(crate) fn permit_of(sk: &str) -> Option<u16> {
    let digits = sk.strip_prefix("LEASE#").filter(|d| d.len() == 4)?;
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

/// The sort key of the waiter's item of `request`.
pub(crate) fn wait_sk(request: &RequestDigest) -> String {
    format!("WAIT#{}", hex(request.as_bytes()))
}

/// The request in such a sort key.
pub(crate) fn request_of(sk: &str) -> Option<RequestDigest> {
    let digest = u128::from_str_radix(sk.strip_prefix("WAIT#")?, 16).ok()?;
    let request = RequestDigest::stored(&digest.to_be_bytes());
    (sk == wait_sk(&request)).then_some(request)
}

/// Starts have partitions of their own: a caller that may write the rows of a key cannot have anything started by that.
const STARTS: &str = "leasehold starts ";

/// The partition of the starts for a key.
pub(crate) fn start_pk(key: &Key) -> String {
    format!("{STARTS}{key}")
}

/// The key of such a partition.
pub(crate) fn key_of_start(pk: &str) -> Option<Key> {
    Key::of_row(pk.strip_prefix(STARTS)?)
}

/// The sort key of a start's item.
pub(crate) fn start_sk(request: &RequestDigest) -> String {
    format!("START#{}", hex(request.as_bytes()))
}

/// The sort key of the item of an execution whose lease has ended and that may be redriven.
pub(crate) fn ended_sk(request: &RequestDigest) -> String {
    format!("ENDED#{}", hex(request.as_bytes()))
}

/// The sort key of the item of a task that waits for the result of a start.
pub(crate) fn result_sk(request: &RequestDigest) -> String {
    format!("RESULT#{}", hex(request.as_bytes()))
}

/// The sort key of the item by which the end of a caller finds such a task.
pub(crate) fn called_sk(request: &RequestDigest) -> String {
    format!("CALLED#{}", hex(request.as_bytes()))
}

/// The start in such a sort key.
pub(crate) fn called_of(sk: &str) -> Option<RequestDigest> {
    start_of(&format!("START#{}", sk.strip_prefix("CALLED#")?))
}

/// The start in such a sort key.
pub(crate) fn result_of(sk: &str) -> Option<RequestDigest> {
    start_of(&format!("START#{}", sk.strip_prefix("RESULT#")?))
}

/// The execution in such a sort key.
pub(crate) fn ended_of(sk: &str) -> Option<RequestDigest> {
    start_of(&format!("START#{}", sk.strip_prefix("ENDED#")?))
}

/// The start in such a sort key.
pub(crate) fn start_of(sk: &str) -> Option<RequestDigest> {
    let digits = sk
        .strip_prefix("START#")
        .filter(|digits| digits.len() == 34)?;
    let pairs = (0..digits.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    let request = RequestDigest::stored(&bytes.collect::<Option<Vec<_>>>()?);
    (request.is_start() && sk == start_sk(&request)).then_some(request)
}

#[cfg(test)]
mod tests {
    use super::{permit_of, request_of, start_of, start_sk, wait_sk};
    use crate::{test_support::make, values::RequestDigest};

    #[test]
    fn sort_key_must_match_exactly() {
        let digest = "0123456789abcdef0123456789abcdef";
        let sk = format!("WAIT#{digest}");
        assert_eq!(request_of(&sk).map(|request| wait_sk(&request)), Some(sk));
        for strange in [
            format!("WAIT#{}", &digest[1..]),
            format!("WAIT#{digest}0"),
            format!("WAIT#{}g", &digest[1..]),
            format!("WAIT#{}A", &digest[1..]),
            digest.to_owned(),
        ] {
            assert_eq!(request_of(&strange), None, "{strange}");
        }
        let start = RequestDigest::of_start(&make::execution("one"));
        let sk = start_sk(&start);
        assert_eq!(sk, format!("START#{start}"));
        assert_eq!(start_of(&sk).as_ref(), Some(&start));
        for strange in [
            format!("START#{}", start.to_string().to_uppercase()),
            format!("{sk}0"),
        ] {
            assert_eq!(start_of(&strange), None, "{strange}");
        }
        assert_eq!(permit_of("LEASE#0007"), Some(7));
        for strange in ["LEASE#007", "LEASE#00007", "LEASE#+007", "WAIT#0007"] {
            assert_eq!(permit_of(strange), None, "{strange}");
        }
    }
}
