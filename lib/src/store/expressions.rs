//! [`transition`](crate::transition::transition) in the language of DynamoDB: for every change the
//! condition under which it may happen and what it sets and removes.
//!
//! Conditions know no literals and no arithmetic, and many plain words are reserved: every name
//! goes in as `#name`, every value as `:name`, each only if the expression mentions it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    clock::Timestamp,
    outcomes::Ended,
    row::{NULL, instant, metadata_value, n, s},
    store::attributes as at,
    transition::{Change, Confirm, Expire, Extend, Grant, Over, Release, Swap, TOKEN_STEP, Tokens},
    values::{Counter, KeysDigest, Ttl},
};

/// One conditional update.
#[derive(Debug)]
pub(super) struct Expressions {
    pub(super) condition: String,
    pub(super) update: String,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

pub(super) fn of(change: &Change) -> Expressions {
    match change {
        Change::Grant(grant) => granting(grant),
        Change::Extend(extend) => extending(extend),
        Change::Release(release) => releasing(release),
        Change::Expire(expire) => expiring(expire),
        Change::Swap(swap) => swapping(swap),
        Change::Confirm(confirm) => confirming(confirm),
    }
}

/// What every row of ours has. A range is false for anything but a number; the type is asked for
/// first because not every engine sees it that way.
const OURS: &str = "attribute_type(#fencing_token, :number) \
    AND #fencing_token BETWEEN :one AND :most \
    AND attribute_type(#version, :number) AND #version BETWEEN :one AND :most \
    AND attribute_type(#request, :text) AND attribute_type(#granted_to, :text)";

/// What a held row of ours has beyond that.
const HELD: &str = "#holder = #granted_to AND attribute_not_exists(#ended) \
    AND attribute_type(#lease_id, :text) AND attribute_type(#metadata, :map) \
    AND attribute_type(#ttl_ms, :number) AND #ttl_ms BETWEEN :one AND :longest \
    AND attribute_type(#acquired_at, :number) AND #acquired_at BETWEEN :one AND :forever \
    AND attribute_type(#expires_at, :number) AND #expires_at BETWEEN :one AND :forever";

/// What a free row of ours has beyond that.
const FREE: &str = "attribute_not_exists(#holder) AND attribute_not_exists(#lease_id) \
    AND #ended IN (:released, :expired, :forced)";

/// The grant that the caller can prove.
const OWNED: &str = "#lease_id = :lease_id AND #fencing_token = :fencing_token";

/// Everything that ends with the grant.
const HOLDING: &str = "#holder, #lease_id, #ttl_ms, #acquired_at, #extended_at, #expires_at, \
    #sweep_after, #metadata";

/// The next token of a row that need not be lifted.
const COUNTED_ON: &str = "if_not_exists(#fencing_token, :seed) + :step";

const ABSENT: &str = "attribute_not_exists(#pk) OR ";

fn granting(grant: &Grant) -> Expressions {
    let (over, which) = match grant.over {
        Over::At(instant) => ("#expires_at <= :over", at_least_one(instant)),
        Over::Unmoved(version) => ("#version = :over", n(version.get())),
    };
    let expired = format!("{HELD} AND {over}");
    let keys = grant.keys.as_ref().map(KeysDigest::as_str);
    let (several, single) = match keys {
        None => ("", ", #request_keys"),
        Some(_) => (", #request_keys = :request_keys", ""),
    };
    let (which_tokens, next_token, absent) = match grant.tokens {
        Tokens::From(Counter::MIN) => ("", COUNTED_ON, ABSENT),
        Tokens::From(_) => (" AND #fencing_token >= :floor", COUNTED_ON, ABSENT),
        Tokens::LiftedTo(_) => (" AND #fencing_token < :floor", ":lifted", ""),
    };
    let not_repeated = "#request <> :request AND #past_request_1 <> :request \
        AND #past_request_2 <> :request AND #past_request_3 <> :request";
    let condition = format!(
        "{absent}(({FREE} OR ({expired})) AND {OURS}{which_tokens} \
         AND attribute_not_exists(#frozen) AND {not_repeated})"
    );
    let update = format!(
        "SET #holder = :holder, #granted_to = :holder, #lease_id = :lease_id, \
        #ttl_ms = :ttl_ms, #metadata = :metadata, #acquired_at = :now, #expires_at = :expires_at, \
        #sweep_after = :sweep_after, \
        #fencing_token = {next_token}, \
        #version = if_not_exists(#version, :now) + :one, \
        #request = :request, #past_request_1 = if_not_exists(#request, :null), \
        #past_request_2 = if_not_exists(#past_request_1, :null), \
        #past_request_3 = if_not_exists(#past_request_2, :null), \
        #previous_holder = if_not_exists(#granted_to, :null), \
        #previous_fencing_token = if_not_exists(#fencing_token, :zero), \
        #previous_ended = if_not_exists(#ended, :expired){several} \
        REMOVE #ended, #extended_at, #purge_at{single}"
    );
    build(
        condition,
        update,
        [
            ("holder", s(grant.holder.as_str())),
            ("lease_id", s(grant.lease_id.expose())),
            ("ttl_ms", n(grant.ttl.as_millis())),
            ("metadata", metadata_value(&grant.metadata)),
            ("now", at_least_one(grant.now)),
            ("over", which),
            ("expires_at", instant(grant.expires_at)),
            ("sweep_after", instant(grant.sweep_after)),
            ("request", s(grant.request.as_str())),
            ("step", n(TOKEN_STEP)),
            ("seed", n(grant.seed().get())),
            ("floor", n(grant.tokens.floor().get())),
            ("lifted", n(grant.tokens.floor().plus(TOKEN_STEP).get())),
            ("request_keys", s(keys.unwrap_or_default())),
        ],
    )
}

fn extending(extend: &Extend) -> Expressions {
    let in_time = if extend.require_unexpired {
        "#expires_at > :now"
    } else {
        "(#expires_at > :now OR attribute_not_exists(#frozen))"
    };
    build(
        format!("{HELD} AND {OURS} AND {OWNED} AND #expires_at <= :expires_at AND {in_time}"),
        "SET #expires_at = :expires_at, #ttl_ms = :ttl_ms, #extended_at = :now, \
         #version = #version + :one"
            .to_owned(),
        [
            ("lease_id", s(extend.lease_id.expose())),
            ("fencing_token", n(extend.fencing_token.get())),
            ("ttl_ms", n(extend.ttl.as_millis())),
            ("now", at_least_one(extend.now)),
            ("expires_at", instant(extend.expires_at)),
        ],
    )
}

fn releasing(release: &Release) -> Expressions {
    ending(
        OWNED,
        Ended::Released,
        release.purge_at,
        [
            ("lease_id", s(release.lease_id.expose())),
            ("fencing_token", n(release.fencing_token.get())),
        ],
    )
}

fn expiring(expire: &Expire) -> Expressions {
    ending(
        "#version = :version",
        Ended::Expired,
        expire.purge_at,
        [("version", n(expire.version.get()))],
    )
}

/// Frees the row and keeps it: the next grant counts on from its token.
fn ending<const N: usize>(
    which: &str,
    how: Ended,
    purge_at: u64,
    values: [(&'static str, AttributeValue); N],
) -> Expressions {
    let values = values
        .into_iter()
        .chain([("ended", s(how.as_str())), ("purge_at", n(purge_at))]);
    build(
        format!("{HELD} AND {OURS} AND {which}"),
        format!(
            "SET #ended = :ended, #purge_at = if_not_exists(#purge_at, :purge_at), \
             #version = #version + :one REMOVE {HOLDING}"
        ),
        values,
    )
}

/// Every attribute anew: what the row has is set, what it has not is removed.
fn swapping(swap: &Swap) -> Expressions {
    let item = swap.row.to_item();
    let (has, lacks): (Vec<_>, Vec<_>) = at::ALL
        .into_iter()
        .partition(|name| item.contains_key(*name));
    let set = has.iter().map(|name| format!("#{name} = :{name}"));
    let remove = lacks.iter().map(|name| format!("#{name}"));
    let update = format!(
        "SET {} REMOVE {}",
        set.collect::<Vec<_>>().join(", "),
        remove.collect::<Vec<_>>().join(", ")
    );
    let condition = match swap.seen {
        Some(_) => format!("#version = :seen AND {OURS}"),
        None => "attribute_not_exists(#pk)".to_owned(),
    };
    let seen = swap.seen.map(|version| ("seen", n(version.get())));
    let values = has.into_iter().map(|name| (name, item[name].clone()));
    build(condition, update, values.chain(seen))
}

/// A condition and nothing else.
fn confirming(confirm: &Confirm) -> Expressions {
    build(
        format!("{HELD} AND {OURS} AND {OWNED} AND #expires_at > :now"),
        String::new(),
        [
            ("lease_id", s(confirm.lease_id.expose())),
            ("fencing_token", n(confirm.fencing_token.get())),
            ("now", at_least_one(confirm.now)),
        ],
    )
}

/// DynamoDB refuses a range whose ends are the wrong way round.
fn at_least_one(at: Timestamp) -> AttributeValue {
    n(at.as_millis().max(1))
}

/// Adds the names, the constants, and nothing that is not mentioned: DynamoDB refuses leftovers.
fn build(
    condition: String,
    update: String,
    values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
) -> Expressions {
    let constants = [
        ("zero", n(0)),
        ("one", n(1)),
        ("most", n(Counter::MAX)),
        ("longest", n(Ttl::MAX_MILLIS)),
        ("forever", instant(Timestamp::MAX)),
        ("number", s("N")),
        ("text", s("S")),
        ("map", s("M")),
        ("null", NULL),
        ("released", s(Ended::Released.as_str())),
        ("expired", s(Ended::Expired.as_str())),
        ("forced", s(Ended::Forced.as_str())),
    ];
    let both = format!("{condition} {update}");
    let mentioned = |sigil: char| {
        both.split(|c: char| !(c.is_ascii_alphanumeric() || "_#:".contains(c)))
            .filter_map(move |word| word.strip_prefix(sigil))
            .collect::<std::collections::HashSet<_>>()
    };
    let names = mentioned('#')
        .into_iter()
        .map(|name| (format!("#{name}"), name.to_owned()))
        .collect();
    let wanted = mentioned(':');
    let values = constants
        .into_iter()
        .chain(values)
        .filter(|(name, _)| wanted.contains(name))
        .map(|(name, value)| (format!(":{name}"), value))
        .collect();
    Expressions {
        condition,
        update,
        names,
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        row::Stored,
        transition::transition,
        values::{Holder, LeaseId, Metadata, RequestDigest, RequestId},
    };

    fn every_change() -> Vec<Change> {
        let (lease_id, now) = (LeaseId::random(), Timestamp::from_millis(1000));
        let holder = Holder::new("h").expect("valid");
        let ttl = Ttl::new(std::time::Duration::from_secs(1)).expect("valid");
        let fencing_token = Counter::MIN;
        let extend = |require_unexpired| {
            Change::Extend(Extend {
                lease_id: lease_id.clone(),
                fencing_token,
                ttl,
                now,
                expires_at: now,
                require_unexpired,
            })
        };
        let grant = |over, keys| {
            Change::Grant(Grant {
                request: RequestDigest::of(&holder, &RequestId::random()),
                holder: holder.clone(),
                keys,
                lease_id: lease_id.clone(),
                ttl,
                metadata: Metadata::default(),
                now,
                over,
                tokens: Tokens::From(Counter::MIN),
                expires_at: now,
                sweep_after: now,
            })
        };
        let clock = grant(Over::At(now), None);
        let row = transition(&Stored::Absent, &clock).expect("a first grant");
        let swap = |seen| {
            let row = row.clone();
            Change::Swap(Box::new(Swap { seen, row }))
        };
        let Change::Grant(plain) = clock.clone() else {
            unreachable!("a grant")
        };
        let floor = Counter::new(7).expect("valid");
        let suited = |tokens| Change::Grant(plain.suited_to(tokens));
        vec![
            clock,
            extend(false),
            extend(true),
            Change::Release(Release {
                lease_id: lease_id.clone(),
                fencing_token,
                purge_at: 1,
            }),
            Change::Expire(Expire {
                version: Counter::MIN,
                purge_at: 1,
            }),
            grant(
                Over::Unmoved(Counter::MIN.into()),
                Some(KeysDigest::stored("k")),
            ),
            suited(Tokens::From(floor)),
            suited(Tokens::LiftedTo(floor)),
            swap(None),
            swap(Some(Counter::MIN)),
            Change::Confirm(Confirm {
                lease_id: lease_id.clone(),
                fencing_token,
                now,
            }),
        ]
    }

    #[test]
    fn every_name_is_an_attribute_and_every_value_is_given() {
        let attributes: Vec<_> = at::ALL.into_iter().chain([at::PK, at::SK]).collect();
        for change in every_change() {
            let e = of(&change);
            for name in e.names.values() {
                assert!(attributes.contains(&name.as_str()), "{name}");
            }
            let both = format!("{} {}", e.condition, e.update);
            let mentioned: std::collections::HashSet<_> = both
                .split(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c)))
                .filter(|word| word.starts_with(':'))
                .collect();
            let given = e.values.keys().map(String::as_str).collect();
            assert_eq!(mentioned, given);
            assert!(
                e.condition.len() < 4096 && e.update.len() < 4096,
                "DynamoDB's limit"
            );
        }
    }

    #[test]
    fn an_extend_touches_nothing_that_the_index_holds() {
        let Expressions { update, .. } = of(&every_change()[1]);
        for name in [at::PK, at::SK, at::HOLDER, at::SWEEP_AFTER] {
            assert!(!update.contains(&format!("#{name}")), "{name} in {update}");
        }
    }
}
