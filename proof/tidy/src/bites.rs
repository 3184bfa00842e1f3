//! Whether the checks bite: small faults, each seeded into a copy of the repository's own files, and each to be found by
//! the very check that is there for it. `make lint-bites` runs it.

mod files;
mod machines;
mod outside;
mod template;
mod watching;

use crate::{
    RULES,
    tree::{Report, Tree},
};

/// A fault, and where.
pub enum Seed {
    /// This text of this file, where it stands first, becomes that.
    Change(&'static str, &'static str, &'static str),
    /// Whatever starts like this is gone.
    Lose(&'static str),
    /// There is one more file.
    Gain(&'static str, &'static str),
}

/// The copy with the fault in it; none if there is nothing any more to put it into.
fn seeded(tree: &Tree, seed: &Seed) -> Option<Tree> {
    match *seed {
        Seed::Change(path, from, to) => {
            let text = tree.get(path).filter(|text| text.contains(from))?;
            Some(tree.with(path, &text.replacen(from, to, 1)))
        }
        Seed::Lose(start) => {
            tree.files(start, "").next()?;
            Some(tree.without(start))
        }
        Seed::Gain(path, text) => Some(tree.with(path, text)),
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Change(path, from, to) => write!(f, "{path}: {to:?} instead of {from:?}"),
            Self::Lose("") => write!(f, "no file at all"),
            Self::Lose(start) => write!(f, "{start} is gone"),
            Self::Gain(path, _) => write!(f, "{path} is there"),
        }
    }
}

/// Faults, and a part of what is said when they are found.
type Faults = &'static [(Seed, &'static str)];

/// By the sentence of the rule that has to find them.
fn faults() -> impl Iterator<Item = &'static (&'static str, Faults)> {
    let tables = [
        files::FAULTS,
        template::FAULTS,
        watching::FAULTS,
        machines::FAULTS,
    ];
    tables.into_iter().flatten()
}

/// How many faults were seeded, and how many of them were found.
#[derive(Default)]
pub struct Count {
    pub seeded: usize,
    pub found: usize,
}

impl Count {
    /// One more; tells what went wrong, if anything did.
    fn add(&mut self, check: &str, seed: &Seed, outcome: Result<(), String>) {
        self.seeded += 1;
        match outcome {
            Ok(()) => self.found += 1,
            Err(why) => println!("not found: {seed}: {why} ({check})"),
        }
    }
}

/// Seeds every fault, and tells how many were found: by the rules here, and by other programs if they are named. What is
/// wrong before anything is seeded proves nothing, and is told as well.
pub fn run(tree: &Tree, programs: &[String]) -> bool {
    let mut count = by_the_rules(tree);
    println!(
        "tidy: {} seeded faults, {} found",
        count.seeded, count.found
    );
    if let [python, node] = programs {
        match outside::run(tree, python, node) {
            Ok(more) => {
                count.seeded += more.seeded;
                count.found += more.found;
            }
            Err(why) => {
                println!("{why}");
                return false;
            }
        }
        println!(
            "lint: {} seeded faults, {} found",
            count.seeded, count.found
        );
    }
    count.seeded == count.found
}

/// The faults that the rules here are there for; each rule also has to complain when nothing is there to look at.
pub fn by_the_rules(tree: &Tree) -> Count {
    let mut count = Count::default();
    for (sentence, rule) in RULES {
        let said = |tree: &Tree| {
            let mut report = Report::default();
            rule(tree, &mut report);
            report.errors
        };
        let before = said(tree);
        let mine = faults().filter(|(of, _)| of == sentence);
        let faults = mine.flat_map(|(_, faults)| *faults);
        let nothing = (Seed::Lose(""), "");
        let mut tried = 0;
        for (seed, wanted) in faults.chain([&nothing]) {
            tried += 1;
            let outcome = match seeded(tree, seed) {
                None => Err("it cannot be seeded any more".to_owned()),
                Some(_) if !before.is_empty() => {
                    Err("without it, too, the rule complains".to_owned())
                }
                Some(tree) => match said(&tree) {
                    said if said.iter().any(|error| error.contains(wanted)) => Ok(()),
                    said => Err(format!("the rule says {said:?}, nothing with {wanted:?}")),
                },
            };
            count.add(sentence, seed, outcome);
        }
        if tried == 1 {
            count.add(
                sentence,
                &nothing.0,
                Err("the rule has no fault of its own".to_owned()),
            );
        }
    }
    for (of, _) in faults() {
        if !RULES.iter().any(|(sentence, _)| sentence == of) {
            count.add(of, &Seed::Lose(""), Err("there is no such rule".to_owned()));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_finds_what_is_seeded_into_the_real_files() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let tree = Tree::read(root.as_ref()).unwrap();
        let count = by_the_rules(&tree);
        assert!(count.seeded > 2 * RULES.len());
        assert_eq!(count.found, count.seeded);
    }

    #[test]
    fn what_cannot_be_seeded_is_not_passed_over() {
        let tree = Tree::of(&[("a", "text")]);
        assert!(seeded(&tree, &Seed::Change("a", "text", "")).is_some());
        for seed in [
            Seed::Change("a", "other", ""),
            Seed::Change("b", "text", ""),
            Seed::Lose("b"),
        ] {
            assert!(seeded(&tree, &seed).is_none(), "{seed}");
        }
    }
}
