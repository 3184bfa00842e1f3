//! The memory store and the DynamoDB store under the same operations at the same time by the same clock: the same answers, and
//! the same rows. That both are right is for the conformance suite, the model and the soak.

use std::{collections::BTreeMap, sync::Mutex};

use leasehold::Memory;
use leasehold_proof::fixture::{TABLE, Table};
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use super::operations::{Operation, World, of_all};

async fn both_agree(operations: &[Operation], seen: &Seen) -> Result<(), TestCaseError> {
    let table = Table::without_table().await;
    leasehold::table::create(&table.client, TABLE)
        .await
        .unwrap();
    let (mut memory, mut table) = (World::new(Memory::new()), World::new(table));
    for operation in operations {
        let ours = memory.take(operation).await;
        let theirs = table.take(operation).await;
        ours.lines().for_each(|line| seen.note(line));
        prop_assert_eq!(ours, theirs, "after {:?}", operation);
    }
    Ok(())
}

const SEED: [u8; 32] = *b"both stores do as the other says";

/// What was seen, and how often: sequences in which nothing fits show nothing.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<String, usize>>);

impl Seen {
    /// By the first words of what it comes to.
    fn note(&self, what: &str) {
        let words = what
            .split([' ', '{', '(', ')', '"', ':', ','])
            .filter(|word| !word.is_empty());
        let first: Vec<_> = words.take(2).collect();
        *self.0.lock().unwrap().entry(first.join(" ")).or_default() += 1;
    }

    fn all(self, expected: &[&str]) {
        let seen = self.0.into_inner().unwrap();
        println!("{seen:?}");
        for what in expected {
            assert!(seen.contains_key(*what), "no {what} in {seen:?}");
        }
    }
}

/// The same sequences each time, in which all that is to be seen is seen; others each time, as many as are asked for.
fn runner(cases: u32) -> TestRunner {
    let asked = std::env::var("DIFFERENTIAL_CASES").ok();
    let config = ProptestConfig {
        cases: asked.as_deref().map_or(cases, |n| n.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    match asked {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED)),
    }
}

#[test]
fn both_stores_agree_on_every_operation() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = Seen::default();
    let agree = |operations: Vec<Operation>| runtime.block_on(both_agree(&operations, &seen));
    runner(120).run(&of_all(), agree).unwrap();
    seen.all(&[
        "Acquired Granted",
        "Acquired Held",
        "Set Granted",
        "Set Held",
        "Queued Acquired",
        "Queued Queued",
        "token of",
        "Extended Extended",
        "Extended Revived",
        "Released Released",
        "Swept Swept",
        "Reaped Reaped",
        "0/0 Foreign",
        "2/1 Row",
        "Lease.Consumed this",
        "Lease.Corrupt the",
        "Lease.Frozen key",
        "Lease.Lost the",
    ]);
}
