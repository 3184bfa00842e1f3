//! A corpus of hostile input, and cases from seeds.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, path::Path};

use fastrand::Rng;
use leasehold_hostile::{Function, NO_CASE, TARGETS};

/// How often each end was seen in so many cases. `LEASEHOLD_CASES` is a factor, for a longer run.
fn judge_many(target: &str, cases: u64, bytes: usize) -> BTreeMap<String, u64> {
    let (_, judge) = TARGETS
        .into_iter()
        .find(|(name, _)| *name == target)
        .unwrap();
    let factor = std::env::var("LEASEHOLD_CASES").map_or(1, |factor| factor.parse().unwrap());
    let mut ends = BTreeMap::new();
    for seed in 0..cases * factor {
        let mut choices = vec![0; bytes];
        Rng::with_seed(seed).fill(&mut choices);
        let end = judge(&choices).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        *ends.entry(end).or_default() += 1;
    }
    ends
}

#[test]
fn corpus_is_judged() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, judge) in TARGETS {
        let files = fs::read_dir(corpus.join(target)).unwrap();
        let mut cases = 0;
        for file in files.map(|file| file.unwrap().path()) {
            let end = judge(&fs::read(&file).unwrap());
            let end = end.unwrap_or_else(|fault| panic!("{}: {fault}", file.display()));
            cases += u32::from(end != NO_CASE);
        }
        assert!(cases > 9, "{target}: {cases} cases");
    }
}

#[test]
fn hostile_event_shows_and_writes_nothing() {
    let ends = judge_many("event", 4_000, 512);
    // They are hostile, and they get further than the first check.
    for function in Function::ALL {
        let invalid = format!("{function} Lease.Invalid");
        let ours = ends
            .iter()
            .filter(|(end, _)| end.starts_with(function.name()));
        let others: u64 = ours
            .filter(|(end, _)| **end != invalid)
            .map(|(_, times)| times)
            .sum();
        assert!(ends[&invalid] > 20 && others > 20, "{ends:#?}");
    }
}

#[test]
fn hostile_item_is_corrupt_and_untouched() {
    let ends = judge_many("row", 2_000, 256);
    // For most of what makes an item a stranger there was one, and as many that only look like one.
    assert!(ends.len() > 12, "{ends:#?}");
    assert!(ends["ours"] > 600, "{ends:#?}");
}

#[test]
fn one_byte_tells_names_apart() {
    let ends = judge_many("key", 4_000, 256);
    for end in ["granted", "held", "refused", "replayed"] {
        assert!(ends[end] > 80, "{ends:#?}");
    }
}

#[test]
fn memory_table_debug_hides_contents() {
    let table = leasehold::Memory::new();
    table.put_at("key", "LEASE#0000", &leasehold::row::Item::new());
    assert_eq!(format!("{table:?}"), "Memory(1 items)");
}
