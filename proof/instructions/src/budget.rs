//! The budget: how much each count may be, for the binaries as they are shipped and as CI builds them.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::Error;

/// How the binaries were built.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Build {
    /// As `make build` does.
    Shipped,
    /// As CI does: without optimisation across packages.
    Quick,
}

/// The most that each count may be, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    about: String,
    shipped: BTreeMap<String, u64>,
    quick: BTreeMap<String, u64>,
}

/// A count, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// What was counted.
    pub name: String,
    /// How many instructions.
    pub figure: f64,
}

/// What became of the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// A table for people.
    pub told: String,
    /// Whether every count is within its bound.
    pub kept: bool,
}

/// A bound this much above the figure holds nothing any more …
const TOO_HIGH: f64 = 1.1;
/// … unless it is so few that two runs may differ by them.
const NOISE: f64 = 20_000.0;

impl Budget {
    /// Reads the budget.
    ///
    /// # Errors
    /// [`Error::Budget`] with what is wrong in it.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let wrong = |message: String| Error::Budget {
            file: PathBuf::from(file),
            message,
        };
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    /// Holds the counts to their bounds. A count without a bound is over it, lest it be forgotten.
    #[must_use]
    pub fn judge(&self, build: Build, counts: &[Count]) -> Verdict {
        let bounds = match build {
            Build::Shipped => &self.shipped,
            Build::Quick => &self.quick,
        };
        let mut told = String::new();
        let mut over = Vec::new();
        for Count { name, figure } in counts {
            let bound = bounds.get(name).copied();
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let limit = bound.map(|bound| bound as f64);
            let verdict = match limit {
                None => "NO BOUND",
                Some(limit) if *figure > limit => "OVER",
                Some(limit) if *figure * TOO_HIGH < limit && *figure + NOISE < limit => {
                    "the bound is more than a tenth too high: lower it"
                }
                Some(_) => "",
            };
            let bound = bound.map_or_else(|| "-".to_owned(), grouped);
            let figure = grouped(rounded(*figure));
            let _ = writeln!(told, "{name:<46} {figure:>13} of {bound:>13}  {verdict}");
            if limit.is_none() || verdict == "OVER" {
                over.push(format!(
                    "{name}: {figure} instructions, and its bound is {bound}"
                ));
            }
        }
        for name in &over {
            let _ = writeln!(told, "\nOVER ITS BUDGET: {name}.");
        }
        if !over.is_empty() {
            told.push_str(
                "Find out what takes them (valgrind --tool=callgrind, callgrind_annotate), and mend it; or raise the bound in \
                 proof/instructions/budget.json on purpose, in the change that needs it, and say there why.\n",
            );
        }
        Verdict {
            kept: over.is_empty(),
            told,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, rounded up"
)]
fn rounded(figure: f64) -> u64 {
    figure.ceil().max(0.0) as u64
}

/// In groups of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut told = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            told.push(' ');
        }
        told.push(digit);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget {
            about: String::new(),
            shipped: BTreeMap::from([("acquire".to_owned(), 1_000_000)]),
            quick: BTreeMap::from([("acquire".to_owned(), 2_000_000)]),
        }
    }

    fn judged(build: Build, name: &str, figure: f64) -> Verdict {
        let name = name.to_owned();
        budget().judge(build, &[Count { name, figure }])
    }

    #[test]
    fn a_count_may_be_its_bound_and_no_more() {
        assert!(judged(Build::Shipped, "acquire", 1_000_000.0).kept);
        let over = judged(Build::Shipped, "acquire", 1_000_001.0);
        assert!(!over.kept);
        assert!(over.told.contains(
            "OVER ITS BUDGET: acquire: 1 000 001 instructions, and its bound is 1 000 000."
        ));
        assert!(
            judged(Build::Quick, "acquire", 1_900_000.0).kept,
            "each build has its own"
        );
    }

    #[test]
    fn a_bound_that_holds_nothing_is_named_and_breaks_nothing() {
        let high = judged(Build::Shipped, "acquire", 900_000.0);
        assert!(high.kept && high.told.contains("too high"));
        assert!(
            !judged(Build::Shipped, "acquire", 920_000.0)
                .told
                .contains("too high")
        );
    }

    #[test]
    fn a_bound_above_a_small_count_is_not_too_high_for_noise() {
        let mut budget = budget();
        budget.shipped.insert("above".to_owned(), 30_000);
        let judged = |figure| {
            let name = "above".to_owned();
            budget.judge(Build::Shipped, &[Count { name, figure }])
        };
        assert!(!judged(11_000.0).told.contains("too high"));
        assert!(judged(9_000.0).told.contains("too high"));
    }

    #[test]
    fn a_count_that_nobody_has_bounded_is_over() {
        assert!(!judged(Build::Shipped, "extend", 1.0).kept);
    }

    #[test]
    fn figures_are_told_in_groups() {
        assert_eq!(
            [0, 999, 1000, 24_310_978].map(grouped),
            ["0", "999", "1 000", "24 310 978"]
        );
    }
}
