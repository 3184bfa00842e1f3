//! Hostile items: what the rules make of a key where one is stored.

use std::{sync::Arc, time::Duration};

use arbitrary::{Result as Chosen, Unstructured};
use fastrand::Rng;
use leasehold::{
    Counter, Error, Key, Lease, Leases, ManualClock, Settings,
    row::{Item, Row, State, Term},
};
use serde_json::{Value, json};

use crate::{
    NO_CASE, Verdict,
    fixture::{self, NOW, StoredItem},
    log, mutate_item,
    operations::{Caller, OPERATIONS, Outcome},
    secrets,
    step_functions::UnreliableStepFunctions,
    wire,
};

/// The items of one key, and what is tried on it.
pub struct Case {
    /// What is stored: rows, waiters, and what may be neither.
    pub items: Vec<StoredItem>,
    /// A handle by which the caller once had it.
    handle: Value,
    /// Seeds the rest: which operations in which order, the clock, Step Functions.
    chance: u64,
}

/// The items of a key by their sort keys, a handle and a seed, as JSON; or choices.
pub fn judge(bytes: &[u8]) -> Verdict {
    let written = serde_json::from_slice::<Value>(bytes).ok();
    let case = match &written {
        Some(json) => read(json),
        None => case(&mut Unstructured::new(bytes)).unwrap_or_default(),
    };
    match case {
        Some(case) => judge_case(&case),
        None => Ok(NO_CASE.to_owned()),
    }
}

/// A case that somebody has written down.
fn read(json: &Value) -> Option<Case> {
    let handle: Lease = serde_json::from_value(json["handle"].clone()).ok()?;
    Some(Case {
        items: wire::items(handle.key.as_str(), &json["items"])?,
        handle: json["handle"].clone(),
        chance: json["chance"].as_u64()?,
    })
}

/// The items of one of the fixture's keys, with up to three changes; none if DynamoDB would not have such an item.
fn case(choices: &mut Unstructured<'_>) -> Chosen<Option<Case>> {
    let is_row = |(pk, sk, _): &&StoredItem| {
        sk.starts_with("LEASE#") && !fixture::STRANGERS.contains(&pk.as_str())
    };
    let rows: Vec<_> = fixture::rows().iter().filter(is_row).collect();
    let (pk, _, row) = *choices.choose(&rows)?;
    let all = fixture::rows().iter().filter(|(of, ..)| of == pk);
    let mut items: Vec<_> = all.map(|(_, sk, item)| (sk, wire::to_json(item))).collect();
    for _ in 0..choices.int_in_range(0..=3)? {
        // The lease row comes first, by its name, and is what most of the cases are about.
        let at = if choices.ratio(1, 3)? {
            choices.choose_index(items.len())?
        } else {
            0
        };
        if let Some(item) = items[at].1.as_object_mut() {
            mutate_item::mutate(item, choices)?;
        }
    }
    let placed =
        |(sk, item): &(&String, Value)| Some((pk.clone(), (*sk).clone(), wire::to_item(item)?));
    let Some(items) = items.iter().map(placed).collect() else {
        return Ok(None);
    };
    Ok(Some(Case {
        items,
        handle: handle_of(pk, row),
        chance: choices.arbitrary()?,
    }))
}

/// The handle of the lease in a row; of a free row that of its last grant.
fn handle_of(pk: &str, item: &Item) -> Value {
    let row = Row::read(item).expect("ours");
    let (lease_id, has_deadline) = match &row.state {
        State::Held(held) => (held.lease_id.clone(), matches!(held.term, Term::Ttl { .. })),
        State::Free { .. } => (secrets::secret("spent").try_into().expect("valid"), true),
    };
    let mut handle = json!({
        "key": pk, "holder": row.granted_to, "lease_id": lease_id, "fencing_token": row.fencing_token,
        "version": row.version, "acquired_at": NOW,
    });
    if has_deadline {
        handle["ttl_seconds"] = json!(300);
        handle["expires_at"] = json!(NOW.plus(Duration::from_secs(300)));
        handle["safe_until"] = json!(NOW.plus(Duration::from_secs(299)));
    } else {
        handle["lifetime"] = json!("execution");
    }
    handle
}

/// How many operations are tried on most keys; on every twentieth it is more.
const OPERATIONS_PER_CASE: usize = 5;

/// Tries one operation after the other on the key: no item of a stranger is changed, none of ours is made unreadable, no
/// secret shows, and a row that is none is `Lease.Corrupt`. Returns what stood there.
fn judge_case(case: &Case) -> Verdict {
    let mut rng = Rng::with_seed(case.chance);
    let table = leasehold::Memory::new();
    for (pk, sk, item) in &case.items {
        table.put_at(pk, sk, item);
    }
    let Some(key) = case.items.first().and_then(|(pk, ..)| Key::new(pk).ok()) else {
        return Ok(NO_CASE.to_owned());
    };
    let later = *rng
        .choice(&[0, 0, 1, 200, 300, 600, 1_000_000])
        .expect("some");
    let clock = Arc::new(ManualClock::at(NOW.plus(Duration::from_secs(later))));
    let workflows = UnreliableStepFunctions::from_turn(rng.u64(..));
    let leases = Leases::new(table.clone(), Settings::default())
        .with_clock(clock)
        .with_engine(workflows.clone());
    let caller = Caller::new(leases, key, &case.handle, &case.items);
    let row = case.items.iter().find(|(_, sk, _)| sk == "LEASE#0000");
    let is_strange = row.is_some_and(|(.., item)| Row::read(item).is_err());
    let mut operations = OPERATIONS.to_vec();
    rng.shuffle(&mut operations);
    if rng.u64(..20) > 0 {
        operations.truncate(OPERATIONS_PER_CASE);
    }
    let mut before = table.all();
    for (operation, needs_the_row) in operations {
        let (outcome, log) = log::of(|| fixture::now(caller.call(operation)));
        let fault = |fault: String| format!("{operation}: {fault}: {:?}", case.items);
        let causes = workflows.take_causes().concat();
        for (what, text) in [
            ("Debug", &outcome.debug),
            ("the answer", &outcome.shown),
            ("the log", &log),
            ("a failed task", &causes),
        ] {
            if let Some(form) = secrets::found_in(text)
                && !is_published(case)
            {
                return Err(fault(format!("{what} shows a secret {form}: {text}")));
            }
        }
        if is_strange && needs_the_row && !outcome.is_corrupt() {
            let answer = outcome.debug;
            return Err(fault(format!("the row is no row, and yet: {answer}")));
        }
        let after = table.all();
        judge_items(&before, &after).map_err(fault)?;
        before = after;
    }
    Ok(match row.map(|(.., item)| Row::read(item)) {
        None => "no row".to_owned(),
        Some(Ok(_)) => "ours".to_owned(),
        Some(Err(reason)) => reason.to_owned(),
    })
}

/// Whether the mark is where everybody may see it, as a case may put it there.
fn is_published(case: &Case) -> bool {
    let items = case.items.iter();
    let said = items.map(|(pk, sk, item)| format!("{pk} {sk} {}", wire::to_json(item)));
    said.chain([case.handle.to_string()])
        .any(|text| secrets::is_published(&text))
}

/// Items that are not ours are unchanged, and every item of ours can still be read.
fn judge_items(before: &[StoredItem], after: &[StoredItem]) -> Result<(), String> {
    for (pk, sk, item) in before {
        let now = after.iter().find(|(p, s, _)| (p, s) == (pk, sk));
        match (is_ours(sk, item), now) {
            (false, Some((.., now))) if now == item => {}
            (false, _) => return Err(format!("the stranger's item at {sk} was changed")),
            (true, Some((.., now))) if is_ours(sk, now) || is_at_the_end(item) => {}
            (true, None) if sk.starts_with("WAIT#") => {}
            (true, None) => return Err(format!("the row at {sk} was deleted")),
            (true, Some((.., now))) => {
                return Err(format!("the item at {sk} cannot be read any more: {now:?}"));
            }
        }
    }
    Ok(())
}

/// Of a waiter it is the request that says so: the rest of its item may be written anew.
fn is_ours(sk: &str, item: &Item) -> bool {
    match sk.strip_prefix("WAIT#") {
        Some(digest) => {
            let request = item.get("request").and_then(|value| value.as_b().ok());
            let number = u128::from_str_radix(digest, 16).map(u128::to_be_bytes);
            request.is_some_and(|request| number.is_ok_and(|bytes| request.as_ref() == bytes))
        }
        None => Row::read(item).is_ok(),
    }
}

/// Whether somebody has set a number so high that the next write takes it over the edge, which no clock ever does.
fn is_at_the_end(item: &Item) -> bool {
    let high = |row: &Row| row.fencing_token.max(row.version).get() > Counter::MAX - 16;
    Row::read(item).as_ref().is_ok_and(high)
}

impl Outcome {
    fn is_corrupt(&self) -> bool {
        let worst = self.error.as_ref().map(Error::worst);
        matches!(worst, Some(Error::Corrupt { .. }))
    }
}
