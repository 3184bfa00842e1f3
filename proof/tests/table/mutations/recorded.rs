//! What the sequences send when nothing is wrong, and what stood there each time.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use aws_sdk_dynamodb::types::AttributeValue;
use leasehold::row::Item;
use leasehold_conformance::{
    steps::{Step, Write},
    stores::address,
};
use leasehold_proof::fixture::TABLE;

use super::{
    Stores,
    condition::Condition,
    wire::{Place, Sent, rewritten},
};

/// One conditional write of one step.
pub struct Observed {
    pub sequence: usize,
    pub step: usize,
    pub sent: Sent,
    /// What was stored, and what is stored after the step; empty if nothing.
    pub before: Item,
    pub after: Item,
    /// A stranger had been at the row: then attributes that no row of ours has may stay.
    pub strange: bool,
    /// How many steps it takes to get there.
    pub cost: usize,
}

impl Observed {
    pub fn is_true(&self, condition: &Condition) -> bool {
        condition.holds(&self.before, &self.sent.values)
    }

    /// Whether the step has changed what the attribute says. NULL says nothing.
    pub fn moves(&self, attribute: &str) -> bool {
        let said = |item: &'_ Item| {
            item.get(attribute)
                .filter(|value| !value.is_null())
                .cloned()
        };
        said(&self.before) != said(&self.after)
    }
}

/// Everything that goes over the wire from now on. It is sent on as what this reads in it, so that mutants differ from
/// it in nothing but what they are about.
pub fn listen(stores: &Stores) -> Arc<Mutex<Vec<Sent>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listening = Arc::clone(&heard);
    let requests = AtomicUsize::new(0);
    stores.table.proxy.rewrite(move |operation, body| {
        let request = requests.fetch_add(1, Ordering::Relaxed);
        rewritten(operation, body, |sent| {
            let sent = Sent {
                request,
                ..sent.clone()
            };
            listening.lock().unwrap().push(sent);
            true
        })
    });
    heard
}

/// The key at which a sequence is run that must find nothing wrong.
pub fn key(sequence: usize) -> String {
    format!("k{sequence}")
}

/// Runs a sequence, which must find nothing wrong.
pub async fn observe(
    stores: &Stores,
    heard: &Mutex<Vec<Sent>>,
    sequence: usize,
    steps: &[Step],
) -> Vec<Observed> {
    let address = address(&key(sequence));
    let key = address.key.as_str();
    let (mut all, mut items) = (Vec::new(), HashMap::new());
    for (n, step) in steps.iter().enumerate() {
        let same = stores.run(key, std::slice::from_ref(step)).await;
        assert!(same.is_ok(), "{:?}: {same:?}", until(steps, n));
        let sent = std::mem::take(&mut *heard.lock().unwrap());
        for sent in sent {
            // What a transaction writes beside is a row that is new each time.
            let after = if sent.place.0 != key {
                None
            } else if sent.place.1.starts_with("LEASE#") {
                stores.seen(&address, |seen| seen.item.clone())
            } else {
                waiter(stores, &sent.place).await
            };
            let after = after.unwrap_or_default();
            let before = items.insert(sent.place.clone(), after.clone());
            // What a waiter has left beside the row is not put there again.
            let is_row = sent.place.1.starts_with("LEASE#");
            let cost = if is_row { until(steps, n).len() } else { n };
            all.push(Observed {
                sequence,
                step: n,
                before: before.unwrap_or_default(),
                after,
                sent,
                strange: stores.seen(&address, |seen| seen.strange),
                cost,
            });
        }
        // A stranger's doing.
        let item = stores.seen(&address, |seen| seen.item.clone());
        let place = (key.to_owned(), "LEASE#0000".to_owned());
        items.insert(place, item.unwrap_or_default());
    }
    all
}

async fn waiter(stores: &Stores, place: &Place) -> Option<Item> {
    let get = stores.table.client.get_item().table_name(TABLE);
    let get = get.key("pk", AttributeValue::S(place.0.clone()));
    let get = get.key("sk", AttributeValue::S(place.1.clone()));
    get.consistent_read(true).send().await.unwrap().item
}

/// The steps that lead to this one. What was done to an item that was put there again since does not.
pub fn until(steps: &[Step], last: usize) -> Vec<Step> {
    let keep = steps[..last]
        .iter()
        .rposition(|step| step.write == Write::Keep);
    let again = steps[..=last]
        .iter()
        .rposition(|step| step.write == Write::Again);
    match (keep, again) {
        (Some(keep), Some(again)) => [&steps[..=keep], &steps[again..=last]].concat(),
        _ => steps[..=last].to_vec(),
    }
}
