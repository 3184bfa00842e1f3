//! [`transition`](crate::transition::transition) in the language of DynamoDB: for every change the
//! condition under which it may happen and what it sets and removes.
//!
//! Conditions know no literals and no arithmetic, and many plain words are reserved: every name
//! goes in as `#name`, every value as `:name`, each only if the expression mentions it.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    outcomes::Ended,
    row::{LATEST_COPY, Term, attributes as at},
    row::{b, instant, metadata_value, n, permits_value, s},
    store::write::{Plan, Write},
    transition::{
        Change, CheckHeld, EndIfUnchanged, Extend, Grant, Head, Look, Prove, Release,
        ReplaceIfUnchanged, ShortenDeadline, TakeoverRule, TokenFloor,
    },
    values::{Counter, KeysDigest},
};
use build::{build, build_once};

mod build;
mod items;
mod queue;

/// One conditional write.
#[derive(Debug)]
pub(super) struct Expressions {
    pub(super) condition: String,
    pub(super) act: Act,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

/// What is done if the condition holds.
#[derive(Debug)]
pub(super) enum Act {
    Update(String),
    Delete,
    /// Nothing.
    Check,
}

impl Act {
    pub(super) fn into_update(self) -> Option<String> {
        match self {
            Self::Update(text) => Some(text),
            Self::Delete | Self::Check => None,
        }
    }
}

pub(super) fn of(write: &Write) -> Expressions {
    match write.plan() {
        Plan::Row(change) => of_row(change),
        Plan::Item(plan) => items::of(plan),
    }
}

fn of_row(change: &Change) -> Expressions {
    match change {
        Change::Grant(grant) => granting(grant),
        Change::Extend(extend) => extending(extend),
        Change::Prove(prove) => proving(prove),
        Change::Look(look) => looking(look),
        Change::ShortenDeadline(cut) => shortening(cut),
        Change::Release(release) => releasing(release),
        Change::EndIfUnchanged(end) => ending_if_unchanged(end),
        Change::ReplaceIfUnchanged(swap) => replacing(swap),
        Change::Join(join) => queue::joining(join),
        Change::Leave(leave) => queue::leaving(leave),
        Change::CheckHeld(check) => checking_held(check),
    }
}

/// What every row of ours has. A range is false for anything but a number; the type is asked for
/// first because not every engine sees it that way.
const OURS: &str = "attribute_type(#fencing_token, :number) \
    AND #fencing_token BETWEEN :one AND :most \
    AND attribute_type(#version, :number) AND #version BETWEEN :one AND :most \
    AND attribute_type(#request, :binary) AND attribute_type(#granted_to, :text) \
    AND attribute_type(#queue, :list)";

/// What a held row of ours has beyond that. Then it has [`TTL`] or [`EXECUTION`].
const HELD: &str = "#holder = #granted_to AND attribute_not_exists(#ended) \
    AND attribute_not_exists(#last_fencing_token) \
    AND attribute_type(#lease_id, :text) AND attribute_type(#metadata, :map) \
    AND attribute_type(#acquired_at, :number) AND #acquired_at BETWEEN :one AND :forever";

/// What a lease with a deadline has.
const TTL: &str = "attribute_not_exists(#keep_ms) \
    AND attribute_type(#ttl_ms, :number) AND #ttl_ms BETWEEN :one AND :longest \
    AND attribute_type(#expires_at, :number) AND #expires_at BETWEEN :one AND :forever";

/// What a lease has that lasts as long as an execution.
const EXECUTION: &str = "attribute_not_exists(#ttl_ms) AND attribute_not_exists(#expires_at) \
    AND attribute_type(#keep_ms, :number) AND #keep_ms BETWEEN :zero AND :longest_keep";

/// What a free row of ours has beyond that.
const FREE: &str = "attribute_not_exists(#holder) AND attribute_not_exists(#lease_id) \
    AND #ended IN (:released, :expired, :forced) \
    AND (attribute_not_exists(#last_fencing_token) \
      OR (attribute_type(#last_fencing_token, :number) \
        AND #last_fencing_token BETWEEN :one AND :most))";

/// A held row, whatever ends its lease.
fn held() -> String {
    format!("{HELD} AND (({TTL}) OR ({EXECUTION}))")
}

/// The grant that the caller can verify.
const OWNED: &str = "#lease_id = :lease_id AND #fencing_token = :fencing_token";

/// Everything that ends with the grant.
const HOLDING: &str = "#holder, #lease_id, #ttl_ms, #acquired_at, #extended_at, #expires_at, \
    #keep_ms, #looked_at, #look_again_at, #sweep_after, #metadata, #notifications, #notified_at, #refused_at, #ticket, #pool";

/// How the holder was notified of the grant.
const NOTIFICATION: &str = "#notifications, #notified_at, #refused_at, #ticket";

/// The limit is not 0.
const NOT_LIMITED_TO_NONE: &str = "(attribute_not_exists(#limit) OR #limit.#permits > :zero)";

/// It does not stay closed.
const OPEN: &str = "(attribute_not_exists(#opens_at) OR #opens_at BETWEEN :one AND :passed)";

/// The queue is empty.
const NO_QUEUE: &str = "attribute_not_exists(#queue[0])";

/// What every grant does to the history. A first grant writes NULL for its predecessor.
const HISTORY: &str = "#past_request_1 = if_not_exists(#request, :null), \
    #past_request_2 = if_not_exists(#past_request_1, :null), \
    #past_request_3 = if_not_exists(#past_request_2, :null), \
    #previous_holder = if_not_exists(#granted_to, :null), \
    #previous_fencing_token = if_not_exists(#fencing_token, :zero), \
    #previous_last_fencing_token = if_not_exists(#last_fencing_token, :null), \
    #previous_ended = if_not_exists(#ended, :expired)";

/// What every release does to the memory of releases.
const PAST_RELEASES: &str = "#past_release_1 = #fencing_token, \
    #past_release_2 = if_not_exists(#past_release_1, :null), \
    #past_release_3 = if_not_exists(#past_release_2, :null), ";

/// The next token of a row that need not be lifted.
const COUNTED_ON: &str = "if_not_exists(#fencing_token, :seed) + :one";

const ABSENT: &str = "attribute_not_exists(#pk) OR ";

fn granting(grant: &Grant) -> Expressions {
    let over = match grant.over.unchanged {
        None => "#expires_at <= :passed",
        Some(_) => "#version = :unchanged",
    };
    // No clock ends an execution lease, and no observation.
    let expired = format!("{HELD} AND {TTL} AND {over}");
    let request = &grant.request;
    let granted = request.term(grant.now);
    let (term, no_term) = match granted {
        Term::Ttl { .. } => ("#ttl_ms = :ttl_ms, #expires_at = :expires_at", "#keep_ms"),
        Term::Execution { .. } => (
            "#keep_ms = :keep_ms",
            "#ttl_ms, #expires_at, #looked_at, #look_again_at",
        ),
    };
    let opens_at = request.opens_at(grant.now);
    let (closes, opens) = match opens_at {
        Some(_) => ("#opens_at = :opens_at, ", ""),
        None => ("", ", #opens_at"),
    };
    let keys = request.keys.as_ref().map(KeysDigest::as_bytes);
    let (several, single) = match keys {
        None => ("", ", #request_keys"),
        Some(_) => (", #request_keys = :request_keys", ""),
    };
    let (limits, unlimited) = match request.permits {
        None => ("", ", #permits"),
        Some(_) => (", #permits = :permits", ""),
    };
    let which_tokens = floor_condition(grant.tokens);
    // Where there need be no row, there need be no queue.
    let (next_token, absent, queue) = match grant.tokens {
        TokenFloor::Reached(_) => (
            COUNTED_ON,
            ABSENT,
            "#queue = if_not_exists(#queue, :empty), ",
        ),
        TokenFloor::Below(_) => (":lifted", "", ""),
    };
    let (notification, untold) = if grant.by_token {
        (
            "#notifications = :one, #notified_at = :now, ",
            "#refused_at, #ticket",
        )
    } else {
        ("", NOTIFICATION)
    };
    let not_remembered = not_remembered("request");
    let condition = format!(
        "{absent}((({FREE}) OR ({expired})) AND {NO_QUEUE} AND {OURS}{which_tokens} AND {OPEN} \
         AND attribute_not_exists(#frozen) AND {NOT_LIMITED_TO_NONE} AND {not_remembered})"
    );
    let update = format!(
        "SET #holder = :holder, #granted_to = :holder, #lease_id = :lease_id, \
        {term}, #metadata = :metadata, #acquired_at = :now, #sweep_after = :sweep_after, \
        #fencing_token = {next_token}, \
        #version = if_not_exists(#version, :now) + :one, {queue}\
        #request = :request, {notification}{closes}{HISTORY}{several}{limits} \
        REMOVE #ended, #extended_at, {no_term}, #purge_at, #last_fencing_token, #pool, {untold}{opens}{single}{unlimited}"
    );
    let term = match granted {
        Term::Ttl { ttl, expires_at } => [
            ("ttl_ms", n(ttl.as_millis())),
            ("expires_at", instant(expires_at)),
        ]
        .to_vec(),
        Term::Execution { keep, .. } => [("keep_ms", n(keep.as_millis()))].to_vec(),
    };
    build(
        condition,
        update,
        [
            ("holder", s(request.holder.as_str())),
            ("lease_id", s(grant.lease_id.expose())),
            ("metadata", metadata_value(&request.metadata)),
            ("now", at_least_one(grant.now)),
            ("opens_at", instant(opens_at.unwrap_or(grant.now))),
            ("sweep_after", instant(grant.sweep_after)),
            ("request", b(request.digest.as_bytes())),
            ("seed", n(grant.seed().get())),
            ("floor", n(grant.tokens.floor().get())),
            ("lifted", n(grant.tokens.floor().plus(1).get())),
            ("request_keys", b(keys.unwrap_or_default())),
            ("permits", permits_value(request.permits)),
        ]
        .into_iter()
        .chain(term)
        .chain(over_values(grant.over)),
    )
}

/// What [`OPEN`] and the rule for somebody else's lease compare with.
fn over_values(over: TakeoverRule) -> [(&'static str, AttributeValue); 2] {
    let unchanged = over.unchanged.unwrap_or_default();
    [
        ("passed", at_least_one(over.passed)),
        ("unchanged", n(unchanged.get())),
    ]
}

/// The row's token is one that this takes. Every row's is at least the least floor.
pub(super) fn floor_condition(tokens: TokenFloor) -> &'static str {
    match tokens {
        TokenFloor::Reached(Counter::MIN) => "",
        TokenFloor::Reached(_) => " AND #fencing_token >= :floor",
        TokenFloor::Below(_) => " AND #fencing_token < :floor",
    }
}

/// The row does not remember the request that this value names.
fn not_remembered(value: &str) -> String {
    let [first, second, third] = at::PAST_REQUESTS;
    format!(
        "#request <> :{value} AND #{first} <> :{value} AND #{second} <> :{value} AND #{third} <> :{value}"
    )
}

fn extending(extend: &Extend) -> Expressions {
    let in_time = if extend.require_unexpired {
        "#expires_at > :now".to_owned()
    } else {
        format!("(#expires_at > :now OR (attribute_not_exists(#frozen) AND {NO_QUEUE}))")
    };
    let (latest, written) = written(extend.behind);
    build(
        format!(
            "{HELD} AND {TTL} AND {OURS} AND {OWNED}{latest} AND #expires_at <= :expires_at AND {in_time}"
        ),
        format!(
            "SET #expires_at = :expires_at, #ttl_ms = :ttl_ms, {written}#version = #version + :one"
        ),
        [
            ("lease_id", s(extend.lease_id.expose())),
            ("fencing_token", n(extend.fencing_token.get())),
            ("ttl_ms", n(extend.ttl.as_millis())),
            ("now", at_least_one(extend.now)),
            ("expires_at", instant(extend.expires_at)),
        ]
        .into_iter()
        .chain(times(extend.behind, extend.now)),
    )
}

fn proving(prove: &Prove) -> Expressions {
    let (latest, written) = written(prove.behind);
    build(
        format!("{HELD} AND {EXECUTION} AND {OURS} AND {OWNED}{latest}"),
        format!("SET {written}#version = #version + :one REMOVE #look_again_at, {NOTIFICATION}"),
        [
            ("lease_id", s(prove.lease_id.expose())),
            ("fencing_token", n(prove.fencing_token.get())),
        ]
        .into_iter()
        .chain((!prove.behind).then(|| ("now", at_least_one(prove.now))))
        .chain(times(prove.behind, prove.now)),
    )
}

/// The condition that nobody has written by a later clock, and when it was written; neither, if that is known.
const fn written(behind: bool) -> (&'static str, &'static str) {
    if behind {
        ("", "")
    } else {
        (
            " AND NOT #extended_at BETWEEN :after AND :late",
            "#extended_at = :now, ",
        )
    }
}

/// Between which instants a row was written by a later clock.
fn times(behind: bool, now: Timestamp) -> impl Iterator<Item = (&'static str, AttributeValue)> {
    let after = now.plus(Duration::from_millis(1));
    let late = now.plus(LATEST_COPY);
    let times = [("after", instant(after)), ("late", instant(late))];
    times.into_iter().filter(move |_| !behind)
}

fn looking(look: &Look) -> Expressions {
    let (again, over) = match look.look_again_at {
        Some(_) => (", #look_again_at = :look_again_at", None),
        None => ("", Some("#look_again_at")),
    };
    let removed = over.into_iter().chain(look.known.then_some(NOTIFICATION));
    let removed: Vec<_> = removed.collect();
    let remove = if removed.is_empty() {
        String::new()
    } else {
        format!(" REMOVE {}", removed.join(", "))
    };
    let at = look.look_again_at.map(|at| ("look_again_at", instant(at)));
    let values = [
        ("version", n(look.version.get())),
        ("now", at_least_one(look.now)),
        ("sweep_after", instant(look.sweep_after)),
    ];
    build(
        format!("{HELD} AND {EXECUTION} AND {OURS} AND #version = :version"),
        format!("SET #looked_at = :now, #sweep_after = :sweep_after{again}{remove}"),
        values.into_iter().chain(at),
    )
}

fn shortening(cut: &ShortenDeadline) -> Expressions {
    build(
        format!(
            "{HELD} AND {TTL} AND {OURS} AND #version = :version AND #expires_at > :expires_at"
        ),
        "SET #expires_at = :expires_at, #sweep_after = :sweep_after, #version = #version + :one"
            .to_owned(),
        [
            ("version", n(cut.version.get())),
            ("expires_at", instant(cut.expires_at)),
            ("sweep_after", instant(cut.sweep_after)),
        ],
    )
}

fn releasing(release: &Release) -> Expressions {
    let proof = [
        ("lease_id", s(release.lease_id.expose())),
        ("fencing_token", n(release.fencing_token.get())),
    ];
    let which = format!("{} AND {OWNED}", held());
    ending(&which, Ended::Released, release.purge_at, proof)
}

fn ending_if_unchanged(end: &EndIfUnchanged) -> Expressions {
    let which = format!("{} AND #version = :version", held());
    let version = [("version", n(end.version.get()))];
    ending(&which, end.ended, end.purge_at, version)
}

/// Frees the row and keeps it, because the next grant counts from its token.
fn ending(
    which: &str,
    how: Ended,
    purge_at: u64,
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> Expressions {
    let remembered = match how {
        Ended::Released => PAST_RELEASES,
        Ended::Expired | Ended::Forced => "",
    };
    let ended = [("ended", s(how.as_str())), ("purge_at", n(purge_at))];
    build(
        format!("{which} AND {OURS}"),
        format!(
            "SET {remembered}#ended = :ended, #purge_at = if_not_exists(#kept_until, :purge_at), \
             #version = #version + :one REMOVE {HOLDING}"
        ),
        values.into_iter().chain(ended),
    )
}

/// Every attribute anew: sets those that the row has, and removes the others. The queue stays, because it may grow
/// and shrink without a change of the version.
fn replacing(swap: &ReplaceIfUnchanged) -> Expressions {
    let item = swap.row.to_item();
    let (has, lacks): (Vec<_>, Vec<_>) = at::ALL
        .into_iter()
        .filter(|name| *name != at::QUEUE)
        .partition(|name| item.contains_key(*name));
    let mut set: Vec<_> = has
        .iter()
        .map(|name| format!("#{name} = :{name}"))
        .collect();
    if swap.seen.is_none() {
        set.push("#queue = :empty".to_owned());
    }
    let mut remove: Vec<_> = lacks.iter().map(|name| format!("#{name}")).collect();
    let mut condition = match swap.seen {
        // Somebody else may have changed the item since, without a change of the version.
        Some(_) => format!("#version = :seen AND {}", queue::ours_in_any_state()),
        None => "attribute_not_exists(#pk)".to_owned(),
    };
    let head = match &swap.head {
        Head::Any => None,
        Head::Leaves(head) => {
            condition.push_str(" AND #queue[0] = :head");
            remove.push("#queue[0]".to_owned());
            Some(("head", b(head.as_bytes())))
        }
        Head::Nobody => {
            if swap.seen.is_some() {
                condition.push_str(" AND ");
                condition.push_str(NO_QUEUE);
            }
            None
        }
    };
    let update = format!("SET {} REMOVE {}", set.join(", "), remove.join(", "));
    let seen = swap.seen.map(|version| ("seen", n(version.get())));
    let values = has.into_iter().map(|name| (name, item[name].clone()));
    build_once(condition, update, values.chain(seen).chain(head))
}

/// A condition and nothing else.
fn checking_held(check: &CheckHeld) -> Expressions {
    build(
        format!(
            "{HELD} AND (({TTL} AND #expires_at > :now) OR ({EXECUTION})) AND {OURS} AND {OWNED}"
        ),
        String::new(),
        [
            ("lease_id", s(check.lease_id.expose())),
            ("fencing_token", n(check.fencing_token.get())),
            ("now", at_least_one(check.now)),
        ],
    )
}

/// DynamoDB refuses a range whose ends are in the wrong order.
fn at_least_one(at: Timestamp) -> AttributeValue {
    n(at.as_millis().max(1))
}
