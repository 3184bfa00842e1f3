//! Hostile items: what the rules make of a key where one stands.

use std::{sync::Arc, time::Duration};

use leasehold::{
    Counter, Error, Key, Leases, ManualClock, Settings,
    row::{Item, Row, State},
    waiter::Waiter,
};

use crate::{
    acts::{Act, Actor, Heard},
    desk::Desk,
    dice::Dice,
    items, journal, marks,
    witness::Witness,
    world::{self, NOW, Placed},
};

/// The items of one key, and what is tried on it.
#[derive(Clone, Debug)]
pub struct Case {
    /// What stands there: rows, those who wait, and what may be neither.
    pub items: Vec<Placed>,
    /// A handle by which the caller once had it.
    pub handle: serde_json::Value,
    /// What decides the rest: the order of the acts, the clock, the desk.
    pub chance: u64,
}

/// The case of this number.
///
/// # Panics
/// Never: the table that it takes from is furnished.
#[must_use]
pub fn case(seed: u64, number: u64) -> Case {
    let mut dice = Dice::of(seed, number);
    let rows: Vec<_> = world::furnished()
        .iter()
        .filter(|(pk, sk, _)| sk.starts_with("LEASE#") && !world::STRANGERS.contains(&pk.as_str()))
        .collect();
    let (pk, _, row) = *dice.pick(&rows);
    let mut items: Vec<Placed> = world::furnished()
        .iter()
        .filter(|(of, ..)| of == pk)
        .cloned()
        .collect();
    for _ in 0..dice.place(4) {
        // The lease row comes first, by its name, and is what most of the cases are about.
        let at = if dice.one_in(3) {
            dice.place(items.len())
        } else {
            0
        };
        items::strike(&mut items[at].2, &mut dice);
    }
    Case {
        items,
        handle: handle_of(pk, row),
        chance: dice.throw(),
    }
}

/// The handle of the lease that a row carries or promises; of a free row that of its last grant.
pub(crate) fn handle_of(pk: &str, item: &Item) -> serde_json::Value {
    let row = Row::read(item).expect("ours");
    let (lease_id, token) = match (&row.state, row.reserved()) {
        (State::Held(held), _) => (held.lease_id.clone(), row.fencing_token.get()),
        (_, Some(reserved)) => (reserved.lease_id.clone(), row.fencing_token.get() + 1),
        _ => {
            let spent = marks::secret("spent").try_into();
            (spent.expect("valid"), row.fencing_token.get())
        }
    };
    serde_json::json!({
        "key": pk, "holder": row.granted_to, "lease_id": lease_id, "fencing_token": token,
        "version": row.version, "ttl_seconds": 300, "acquired_at": NOW, "expires_at": NOW.plus(Duration::from_secs(300)),
        "safe_until": NOW.plus(Duration::from_secs(299)),
    })
}

/// Whether it is a handle, whosoever.
pub(crate) fn is_handle(value: &serde_json::Value) -> bool {
    serde_json::from_value::<leasehold::Lease>(value.clone()).is_ok()
}

/// How much is tried on most keys; on every so many-th it is more.
const ACTS: usize = 5;

/// Tries one thing after the other on the key, and tells what stood there.
///
/// # Errors
/// What must not be: a panic, a stranger's item changed, an item of ours made unreadable, a secret that shows, anything
/// but `Lease.Corrupt` for a row that is none.
pub fn judge(case: &Case) -> Result<String, String> {
    let mut dice = Dice::of(case.chance, 0);
    let witness = Witness::default();
    for (pk, sk, item) in &case.items {
        witness.table.put_at(pk, sk, item);
    }
    let Some(key) = case.items.first().and_then(|(pk, ..)| Key::new(pk).ok()) else {
        return Ok("nothing there".to_owned());
    };
    let later = *dice.pick(&[0, 0, 1, 200, 300, 600, 1_000_000]);
    let clock = Arc::new(ManualClock::at(NOW.plus(Duration::from_secs(later))));
    let desk = Desk::at(dice.throw());
    let leases = Leases::new(witness.clone(), Settings::default())
        .with_clock(clock)
        .with_workflows(desk.clone());
    let actor = Actor::new(leases, key, &case.handle, &case.items);
    let row = case.items.iter().find(|(_, sk, _)| sk == "LEASE#0000");
    let is_strange = row.is_some_and(|(.., item)| Row::read(item).is_err());
    let mut acts = Act::ALL.to_vec();
    while acts.len() > ACTS && !dice.one_in(20) {
        acts.swap_remove(dice.place(acts.len()));
    }
    let mut before = witness.table.all();
    for act in acts {
        let (heard, log) = journal::of(|| world::now(actor.does(act)));
        let stage = |fault: String| format!("{act:?}: {fault}");
        if let Err(fault) = shows_nothing(&heard, &log, &desk)
            && !is_published(case)
        {
            return Err(stage(fault));
        }
        if is_strange && act.needs_the_row() && !heard.is_corrupt() {
            return Err(stage(format!(
                "the row is no row, and yet: {}",
                heard.debug
            )));
        }
        let after = witness.table.all();
        left_alone(&before, &after).map_err(stage)?;
        before = after;
    }
    Ok(match row.map(|(.., item)| Row::read(item)) {
        None => "no row".to_owned(),
        Some(Ok(_)) => "ours".to_owned(),
        Some(Err(reason)) => reason.to_owned(),
    })
}

/// Whether the mark stands where everybody may see it, as a fuzzer may put it there.
fn is_published(case: &Case) -> bool {
    let mut handle = case.handle.clone();
    handle["lease_id"].take();
    let items = case.items.iter();
    let said = items.flat_map(|(pk, sk, item)| {
        let public = item.iter().filter(|(name, _)| !marks::is_secret(name));
        let public: Item = public.map(|(n, v)| (n.clone(), v.clone())).collect();
        [
            pk.clone(),
            sk.clone(),
            crate::wire::to_json(&public).to_string(),
        ]
    });
    said.chain([handle.to_string()])
        .any(|said| marks::found_in(&said).is_some())
}

fn shows_nothing(heard: &Heard, log: &str, desk: &Desk) -> Result<(), String> {
    let causes = desk.causes().concat();
    for (what, text) in [
        ("Debug", &heard.debug),
        ("the answer", &heard.shown),
        ("the log", &log.to_owned()),
        ("what a token was told", &causes),
    ] {
        if let Some(form) = marks::found_in(text) {
            return Err(format!("{what} shows a secret {form}: {text}"));
        }
    }
    Ok(())
}

/// A stranger's items are as they were, and every item of ours can still be read.
fn left_alone(before: &[Placed], after: &[Placed]) -> Result<(), String> {
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

/// Of one who waits it is the request that says so: the rest of its item may be written anew.
fn is_ours(sk: &str, item: &Item) -> bool {
    match sk.strip_prefix("WAIT#") {
        Some(digest) => {
            item.get("request").and_then(|value| value.as_s().ok()) == Some(&digest.to_owned())
        }
        None => Row::read(item).is_ok(),
    }
}

/// Whether somebody has set a number so high that the next write takes it over the edge, which no clock ever does.
fn is_at_the_end(item: &Item) -> bool {
    let high = |row: &Row| row.fencing_token.max(row.version).get() > Counter::MAX - 16;
    Row::read(item).as_ref().is_ok_and(high)
}

/// The reader of waiters by itself, which tells of nothing it cannot read.
///
/// # Errors
/// If `Debug` of what was read shows a secret.
pub fn read(item: &Item) -> Result<(), String> {
    for told in [
        format!("{:?}", Waiter::read(item)),
        format!("{:?}", Row::read(item)),
    ] {
        if let Some(form) = marks::found_in(&told) {
            return Err(format!("Debug shows a secret {form}: {told}"));
        }
    }
    Ok(())
}

impl Heard {
    fn is_corrupt(&self) -> bool {
        self.error
            .as_ref()
            .is_some_and(|error| matches!(error.worst(), Error::Corrupt { .. }))
    }
}
